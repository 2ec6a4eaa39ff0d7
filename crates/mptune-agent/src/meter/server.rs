//! The server of a client that asks, in the sending half: what it owes for the requests that it has read.
//!
//! Both halves know the client's purpose, so a request need not say how much it asks for.

use crate::meter::config::Job;
use crate::meter::pattern::Pattern;
use mptune_core::workload::Purpose;

/// The responses of a server.
pub struct Answers {
    purpose: Purpose,
    /// The bytes of requests, which are checked.
    pattern: Pattern,
    /// Bytes of requests that were read, and the requests among them that are whole.
    read_bytes: u64,
    whole: u64,
    /// Bytes that may be written and were not.
    left: u64,
}

impl Answers {
    /// Those of a workload, if a client asks in it; `leading` bytes are sent in front of the first.
    pub fn new(job: &Job, leading: u64) -> Option<Self> {
        let purpose = job.workload.purpose()?;
        let pattern = Pattern::new(job.seed);
        Some(Self { purpose, pattern, read_bytes: 0, whole: 0, left: leading })
    }

    /// Bytes of a request were read. The first one that is not what was asked, if one is not.
    pub fn read(&mut self, data: &[u8]) -> Option<u64> {
        let wrong = self.pattern.first_wrong(self.read_bytes, data);
        self.read_bytes += data.len() as u64;
        while self.read_bytes / self.purpose.request_bytes() > self.whole {
            self.left += self.purpose.response_bytes(self.whole);
            self.whole += 1;
        }
        wrong
    }

    /// Bytes that may be written now.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// So many of them were written.
    pub fn wrote(&mut self, bytes: u64) {
        self.left -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let line = r#"{"cc": "cubic", "stall_ns": 1, "seed": 7, "workload": {"kind": "page", "request_bytes": 100,
            "page_bytes": 5000, "objects": 2, "object_bytes": 300, "duration_ns": 9, "patience_ns": 9}}"#;
        serde_json::from_str(line).unwrap()
    }

    fn requests(from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Pattern::new(7).fill(from, &mut bytes);
        bytes
    }

    #[test]
    fn a_request_is_answered_when_it_is_whole() {
        let mut answers = Answers::new(&job(), 16).unwrap();
        assert_eq!(answers.left(), 16);
        answers.wrote(16);
        assert_eq!((answers.read(&requests(0, 99)), answers.left()), (None, 0));
        assert_eq!((answers.read(&requests(99, 1)), answers.left()), (None, 5_000));
        answers.wrote(4_000);
        // Both objects, and the next page.
        assert_eq!((answers.read(&requests(100, 300)), answers.left()), (None, 1_000 + 5_600));
    }

    #[test]
    fn a_request_that_was_changed_is_noticed() {
        let mut answers = Answers::new(&job(), 0).unwrap();
        let mut bytes = requests(0, 100);
        bytes[40] ^= 1;
        assert_eq!(answers.read(&bytes), Some(40));
    }
}
