//! The client that asks, in the receiving half: the core's, with requests on a socket.
//!
//! Where it has opened the connection, the job's token goes before the first request, in one piece with it.

use crate::meter::config::Job;
use crate::meter::pattern::Pattern;
use mptune_core::workload::{Ask, Client, Ends, Piece};
use std::collections::VecDeque;

/// The requests of a client. Times are on its half's clock.
pub struct Asking {
    client: Client,
    begun: bool,
    planned: VecDeque<Ask>,
    ends: Ends,
    pattern: Pattern,
    /// Bytes of requests that were made.
    made: u64,
    /// Of them those that are not written yet.
    unwritten: VecDeque<u8>,
}

impl Asking {
    /// Those of a workload, if a client asks in it.
    pub fn new(job: &Job) -> Option<Self> {
        let purpose = job.workload.purpose()?;
        Some(Self {
            client: Client::new(purpose),
            begun: false,
            planned: VecDeque::new(),
            ends: Ends::default(),
            pattern: Pattern::new(job.seed),
            made: 0,
            unwritten: VecDeque::new(),
        })
    }

    /// The connection is there; `leading` bytes are written before the first request.
    pub fn begin(&mut self, now_ns: u64, leading: &[u8]) {
        self.begun = true;
        self.unwritten.extend(leading);
        self.client.begin(now_ns, &mut self.planned);
    }

    /// Makes the requests that are due.
    pub fn make(&mut self, now_ns: u64) {
        while let Some(ask) = self.planned.front().copied().filter(|ask| ask.at <= now_ns) {
            self.planned.pop_front();
            self.client.on_asked(now_ns);
            self.ends.push(ask.response_bytes);
            let mut request = vec![0; usize::try_from(ask.request_bytes).unwrap_or(usize::MAX)];
            self.pattern.fill(self.made, &mut request);
            request[0] ^= ask.choice; // the server reads it there
            self.made += ask.request_bytes;
            self.unwritten.extend(request);
        }
    }

    /// Time of the next request; never if none is planned.
    pub fn next_ns(&self) -> u64 {
        self.planned.front().map_or(u64::MAX, |ask| ask.at)
    }

    /// Bytes to be written; empty if there are none.
    pub fn unwritten(&mut self) -> &[u8] {
        self.unwritten.make_contiguous()
    }

    /// Some are to be written.
    pub fn is_writing(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// So many of them were written.
    pub fn wrote(&mut self, bytes: usize) {
        self.unwritten.drain(..bytes);
    }

    /// This much of all responses has arrived.
    pub fn arrived(&mut self, now_ns: u64, bytes: u64) {
        while self.ends.take(bytes) {
            self.client.on_response(now_ns, &mut self.planned);
        }
    }

    /// It has asked for everything and got it.
    pub fn is_over(&self) -> bool {
        self.begun && self.planned.is_empty() && self.client.waiting() == 0
    }

    /// Times of the responses, or pages, that arrived.
    pub fn times(&self) -> &[u64] {
        self.client.times()
    }

    /// Records of segments beside their times.
    pub fn pieces(&self) -> &[Piece] {
        self.client.pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn requests_are_written_when_they_are_due_and_timed_from_then() {
        let line = r#"{"cc": "cubic", "stall_ns": 1, "workload": {"kind": "requests", "request_bytes": 100,
            "response_bytes": 5000, "think_ns": 50000000, "duration_ns": 100000000, "patience_ns": 9}}"#;
        let job: Job = serde_json::from_str(line).unwrap();
        let mut asking = Asking::new(&job).unwrap();
        assert!(!asking.is_over());
        asking.begin(10 * MS, &[]);
        asking.make(10 * MS);
        assert_eq!((asking.unwritten().len(), asking.next_ns()), (100, u64::MAX));
        asking.wrote(60);
        assert_eq!(asking.unwritten().len(), 40);
        asking.wrote(40);
        asking.arrived(30 * MS, 4_999);
        assert!(asking.times().is_empty());
        asking.arrived(40 * MS, 5_000);
        assert_eq!((asking.times(), asking.next_ns()), (&[30 * MS][..], 90 * MS));
        asking.make(90 * MS - 1);
        assert!(!asking.is_writing() && !asking.is_over());
        asking.make(91 * MS);
        asking.arrived(120 * MS, 10_000);
        assert_eq!(asking.times(), [30 * MS, 29 * MS]);
        assert!(asking.is_over());
    }

    #[test]
    fn what_leads_is_written_with_the_first_request_and_is_none() {
        let line = r#"{"cc": "cubic", "stall_ns": 1, "seed": 7, "workload": {"kind": "requests",
            "request_bytes": 100, "response_bytes": 5000, "think_ns": 0, "duration_ns": 100000000, "patience_ns": 9}}"#;
        let job: Job = serde_json::from_str(line).unwrap();
        let mut asking = Asking::new(&job).unwrap();
        asking.begin(0, b"token");
        asking.make(0);
        let mut expected = b"token".to_vec();
        expected.resize(105, 0);
        Pattern::new(7).fill(0, &mut expected[5..]);
        assert_eq!(asking.unwritten(), expected);
        assert_eq!(asking.made, 100);
    }
}
