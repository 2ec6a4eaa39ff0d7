//! Requests and responses: a client asks, a server answers, the client thinks and asks again. Measured by the time of
//! each response.

use super::span;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos, Seq};
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
            if bytes == 0 || bytes / u64::from(segment) >= 1 << 24 {
                let expected = "expected at least 1 byte and less than 2^24 segments";
                return Err(SpecError::new(key, expected));
            }
        }
        if self.at_once == 0 || self.at_once > MOST_AT_ONCE {
            let expected = format!("expected 1 to {MOST_AT_ONCE}, found {}", self.at_once);
            return Err(SpecError::new("at_once", expected));
        }
        span::check("duration_ns", self.duration_ns)?;
        span::check("patience_ns", self.patience_ns)?;
        if self.think_ns >= self.duration_ns {
            return Err(SpecError::new("think_ns", "expected less than duration_ns"));
        }
        Ok(())
    }
}

/// A request that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Its time.
    pub at: Nanos,
    /// Its payload.
    pub request_bytes: Bytes,
    /// That of its response.
    pub response_bytes: Bytes,
}

/// The client: when it asks, and how long its responses take. Times count from any common origin.
#[derive(Debug, Clone)]
pub struct Client {
    requests: Requests,
    /// The end of asking, once it began.
    until: Nanos,
    /// Times of the requests under way, in their order.
    asked: std::collections::VecDeque<Nanos>,
    times: Vec<Nanos>,
}

impl Client {
    /// Before the connection is established.
    pub fn new(requests: Requests) -> Self {
        Self { requests, until: 0, asked: [].into(), times: Vec::new() }
    }

    /// The connection is established: the first requests.
    pub fn begin(&mut self, now: Nanos) -> impl Iterator<Item = Ask> + use<> {
        self.until = now + self.requests.duration_ns;
        let first = self.ask(now);
        (0..self.requests.at_once).map(move |_| first)
    }

    fn ask(&self, at: Nanos) -> Ask {
        let Requests { request_bytes, response_bytes, .. } = self.requests;
        Ask { at, request_bytes, response_bytes }
    }

    /// A request was made.
    pub fn on_asked(&mut self, at: Nanos) {
        self.asked.push_back(at);
    }

    /// The oldest response arrived with its last byte. The next request, if there is one.
    pub fn on_response(&mut self, now: Nanos) -> Option<Ask> {
        let asked = self.asked.pop_front()?;
        self.times.push(now - asked);
        let at = now + self.requests.think_ns;
        (at < self.until).then(|| self.ask(at))
    }

    /// Requests under way.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Of each response that arrived, in their order: the time from the request to its last byte in order.
    pub fn times(&self) -> &[Nanos] {
        &self.times
    }
}

/// Positions in a stream of data at which messages end.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    total: Bytes,
    ends: std::collections::VecDeque<Bytes>,
}

impl Ends {
    /// Another message.
    pub fn push(&mut self, bytes: Bytes) {
        self.total += bytes;
        self.ends.push_back(self.total);
    }

    /// The first message is whole after this many bytes, and is taken out.
    pub fn take(&mut self, delivered: Bytes) -> bool {
        let whole = self.ends.front().is_some_and(|&end| end <= delivered);
        if whole {
            self.ends.pop_front();
        }
        whole
    }
}

/// Segments of one trial are below 2^31 for as long as it lasts: the largest response, at any rate that is possible.
const _: () = assert!(Seq::BITS == 32);

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
    fn a_client_asks_again_after_thinking_until_its_time_is_over() {
        let mut client = Client::new(REQUESTS);
        let first: Vec<_> = client.begin(5).collect();
        assert_eq!(first, [Ask { at: 5, request_bytes: 400, response_bytes: 20_000 }; 2]);
        first.iter().for_each(|ask| client.on_asked(ask.at));
        let next = client.on_response(50 * MILLISECOND + 5).expect("a request");
        assert_eq!((next.at, client.waiting()), (150 * MILLISECOND + 5, 1));
        assert_eq!(client.on_response(900 * MILLISECOND + 5), None, "it would be too late");
        assert_eq!(client.times(), [50 * MILLISECOND, 900 * MILLISECOND]);
        assert_eq!(client.on_response(SECOND), None, "nobody asked");
    }

    #[test]
    fn a_message_ends_where_the_next_begins() {
        let mut ends = Ends::default();
        ends.push(100);
        ends.push(50);
        assert!(!ends.take(99) && ends.take(149) && !ends.take(149) && ends.take(150));
        assert!(!ends.take(1_000));
    }

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
