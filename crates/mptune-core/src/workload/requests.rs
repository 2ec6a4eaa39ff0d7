//! Requests and responses: a client asks, a server answers, the client thinks and asks again. Measured by the time of
//! each response.

use super::{Kind, Purpose, span};
use crate::engine::Random;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;
use std::sync::Arc;

/// Most requests at a time.
const MOST_AT_ONCE: u32 = 1_000;

/// Most sizes of responses to draw from.
const MOST_SIZES: usize = 10_000;

/// Apart from the streams of the network and of connections; each response has one, from here on.
const STREAM: u64 = 0x7265_7175_0000_0000;

/// Requests on one connection, answered in their order. The data receiver is the client: the payload that is
/// measured is that of the responses.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Payload of a request.
    pub request_bytes: Bytes,
    /// Payload of a response, if it is always the same.
    pub response_bytes: Bytes,
    /// Payloads from which that of each response is drawn, all as likely; empty for one that is always the same.
    #[serde(default)]
    pub response_sizes: Vec<Bytes>,
    /// Time from a response to the next request.
    #[serde(default)]
    pub think_ns: Nanos,
    /// Requests that are under way together.
    #[serde(default = "one")]
    pub at_once: u32,
    /// The client asks for this long.
    pub duration_ns: Nanos,
    /// Time after `duration_ns` within which the last response is to arrive.
    pub patience_ns: Nanos,
    /// Sizes are drawn by it.
    #[serde(skip)]
    pub seed: u64,
}

fn one() -> u32 {
    1
}

impl Purpose for Requests {
    fn request_bytes(&self) -> Bytes {
        self.request_bytes
    }

    /// The same to everybody who asks for it.
    fn response_bytes(&self, number: u64, _choice: u8) -> Bytes {
        let Some(last) = self.response_sizes.len().checked_sub(1) else {
            return self.response_bytes;
        };
        let drawn = Random::new(self.seed, STREAM.wrapping_add(number)).up_to(last as u64);
        self.response_sizes[usize::try_from(drawn).unwrap_or(last)]
    }

    fn duration(&self) -> Nanos {
        self.duration_ns
    }

    fn at_once(&self) -> u32 {
        self.at_once
    }

    fn think(&self) -> Nanos {
        self.think_ns
    }
}

impl Kind for Requests {
    fn drawn(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    fn purpose(&self) -> Option<Arc<dyn Purpose>> {
        Some(Arc::new(self.clone()))
    }

    fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    /// Each request and response is to have less than 2^24 segments.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        for (key, bytes) in
            [("request_bytes", self.request_bytes), ("response_bytes", self.response_bytes)]
        {
            span::check_payload(key, bytes, segment)?;
        }
        if self.response_sizes.len() > MOST_SIZES {
            let found = self.response_sizes.len();
            let expected = format!("expected at most {MOST_SIZES}, found {found}");
            return Err(SpecError::new("response_sizes", expected));
        }
        for &bytes in &self.response_sizes {
            span::check_payload("response_sizes", bytes, segment)?;
        }
        if self.at_once == 0 || self.at_once > MOST_AT_ONCE {
            let expected = format!("expected 1 to {MOST_AT_ONCE}, found {}", self.at_once);
            return Err(SpecError::new("at_once", expected));
        }
        span::check_client(self.duration_ns, self.patience_ns, self.think_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MILLISECOND, SECOND};

    const REQUESTS: Requests = Requests {
        request_bytes: 400,
        response_bytes: 20_000,
        response_sizes: Vec::new(),
        think_ns: 100 * MILLISECOND,
        at_once: 2,
        duration_ns: SECOND,
        patience_ns: SECOND,
        seed: 0,
    };

    #[test]
    fn sizes_are_drawn_alike_by_whoever_asks_and_each_is_as_likely() {
        assert_eq!(REQUESTS.response_bytes(7, 0), 20_000);
        let sizes = vec![1_000, 2_000, 50_000];
        let drawn = Requests { response_sizes: sizes.clone(), seed: 7, ..REQUESTS };
        let all: Vec<_> = (0..30_000).map(|number| drawn.response_bytes(number, 0)).collect();
        for size in sizes {
            // 10,000 expected, with a standard deviation of 82.
            let count = all.iter().filter(|&&one| one == size).count() as f64;
            assert!((count - 10_000.0).abs() < 400.0, "{size}: {count}");
        }
        assert_eq!(
            all[..50],
            (0..50).map(|number| drawn.response_bytes(number, 0)).collect::<Vec<_>>()
        );
        let other = Requests { seed: 8, ..drawn };
        assert!((0..50).any(|number| other.response_bytes(number, 0) != all[number as usize]));
    }

    #[test]
    fn what_no_client_can_ask_is_refused() {
        let key = |requests: Requests| requests.validate(1448).map_err(|error| error.key);
        assert_eq!(key(REQUESTS), Ok(()));
        for (wrong, name) in [
            (Requests { request_bytes: 0, ..REQUESTS }, "request_bytes"),
            (Requests { response_bytes: 1 << 40, ..REQUESTS }, "response_bytes"),
            (Requests { response_sizes: vec![1, 0], ..REQUESTS }, "response_sizes"),
            (Requests { response_sizes: vec![1; MOST_SIZES + 1], ..REQUESTS }, "response_sizes"),
            (Requests { at_once: 0, ..REQUESTS }, "at_once"),
            (Requests { think_ns: SECOND, ..REQUESTS }, "think_ns"),
            (Requests { duration_ns: 0, think_ns: 0, ..REQUESTS }, "duration_ns"),
            (Requests { patience_ns: 0, ..REQUESTS }, "patience_ns"),
        ] {
            assert_eq!(key(wrong), Err(name.into()));
        }
    }
}
