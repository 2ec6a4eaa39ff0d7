//! Requests and responses: a client asks, a server answers, the client thinks and asks again. Measured by the time of
//! each response.

use super::span;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;

/// Most requests at a time.
const MOST_AT_ONCE: u32 = 1_000;

/// Requests on one connection, answered in their order. The data receiver is the client: the payload that is
/// measured is that of the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Payload of a request.
    pub request_bytes: Bytes,
    /// Payload of a response.
    pub response_bytes: Bytes,
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
}

fn one() -> u32 {
    1
}

impl Requests {
    /// Latest end of the trial, from the first SYN.
    pub fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    /// `segment`: payload bytes of a full segment, of which each request and response is to have less than 2^24.
    pub(super) fn validate(&self, segment: u32) -> Result<(), SpecError> {
        for (key, bytes) in
            [("request_bytes", self.request_bytes), ("response_bytes", self.response_bytes)]
        {
            span::check_payload(key, bytes, segment)?;
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
        think_ns: 100 * MILLISECOND,
        at_once: 2,
        duration_ns: SECOND,
        patience_ns: SECOND,
    };

    #[test]
    fn what_no_client_can_ask_is_refused() {
        let key = |requests: Requests| requests.validate(1448).map_err(|error| error.key);
        assert_eq!(key(REQUESTS), Ok(()));
        for (wrong, name) in [
            (Requests { request_bytes: 0, ..REQUESTS }, "request_bytes"),
            (Requests { response_bytes: 1 << 40, ..REQUESTS }, "response_bytes"),
            (Requests { at_once: 0, ..REQUESTS }, "at_once"),
            (Requests { think_ns: SECOND, ..REQUESTS }, "think_ns"),
            (Requests { duration_ns: 0, think_ns: 0, ..REQUESTS }, "duration_ns"),
            (Requests { patience_ns: 0, ..REQUESTS }, "patience_ns"),
        ] {
            assert_eq!(key(wrong), Err(name.into()));
        }
    }
}
