//! The server of a client that asks, in the sending half: what it owes for the requests that it has read.
//!
//! Both halves know the client's purpose, so a request need not state how much it asks for. Where it chooses among several
//! responses, the first byte of the request differs from the pattern by the choice. Each response is written by itself, also
//! where several requests were read at once: what a scheduler gives a subflow depends on it.

use crate::meter::config::Job;
use crate::meter::pattern::Pattern;
use mptune_core::workload::Purpose;
use std::collections::VecDeque;
use std::sync::Arc;

/// The responses of a server.
pub struct Answers {
    purpose: Arc<dyn Purpose>,
    /// The bytes of requests, which are checked.
    pattern: Pattern,
    /// Bytes of requests that were read, and the requests among them that are whole.
    read_bytes: u64,
    whole: u64,
    /// The response that the current one asks for.
    choice: u8,
    /// Bytes of each response that may be written and were not.
    owed: VecDeque<u64>,
    /// Some of the first was written.
    begun: bool,
}

impl Answers {
    /// Those of a workload, if a client asks in it; `leading` bytes are sent in front of the first.
    pub fn new(job: &Job, leading: u64) -> Option<Self> {
        let purpose = job.workload.purpose()?;
        let pattern = Pattern::new(job.seed);
        let owed = Some(leading).filter(|bytes| *bytes > 0).into_iter().collect();
        Some(Self { purpose, pattern, read_bytes: 0, whole: 0, choice: 0, owed, begun: false })
    }

    /// Bytes of requests were read. The first one that is not what may be asked, if one is not.
    pub fn read(&mut self, mut data: &[u8]) -> Option<u64> {
        let mut wrong = None;
        while !data.is_empty() {
            let left =
                self.purpose.request_bytes() - self.read_bytes % self.purpose.request_bytes();
            let (piece, rest) = data
                .split_at(usize::try_from(left).map_or(data.len(), |left| left.min(data.len())));
            wrong = wrong.or(self.read_piece(piece));
            if piece.len() as u64 == left {
                self.owed.push_back(self.purpose.response_bytes(self.whole, self.choice));
                self.whole += 1;
            }
            data = rest;
        }
        wrong
    }

    /// Bytes of one request.
    fn read_piece(&mut self, piece: &[u8]) -> Option<u64> {
        let at = self.read_bytes;
        self.read_bytes += piece.len() as u64;
        if !at.is_multiple_of(self.purpose.request_bytes()) {
            return self.pattern.first_wrong(at, piece);
        }
        let mut first = [0];
        self.pattern.fill(at, &mut first);
        self.choice = piece[0] ^ first[0];
        if usize::from(self.choice) >= self.purpose.choices() {
            self.choice = 0;
            return Some(at);
        }
        self.pattern.first_wrong(at + 1, &piece[1..])
    }

    /// Bytes of the first response that may be written now.
    pub fn left(&self) -> u64 {
        self.owed.front().copied().unwrap_or(0)
    }

    /// These are all of it.
    pub fn begins(&self) -> bool {
        !self.begun && !self.owed.is_empty()
    }

    /// So many of them were written.
    pub fn wrote(&mut self, bytes: u64) {
        let Some(left) = self.owed.front_mut() else { return };
        *left -= bytes;
        self.begun = *left > 0 && (self.begun || bytes > 0);
        if *left == 0 {
            self.owed.pop_front();
        }
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
        assert!(!answers.begins());
        assert_eq!((answers.read(&requests(0, 99)), answers.left()), (None, 0));
        assert_eq!((answers.read(&requests(99, 1)), answers.left()), (None, 5_000));
        assert!(answers.begins());
        answers.wrote(0);
        assert!(answers.begins());
        answers.wrote(4_000);
        // Both objects, and the next page, each by itself.
        assert_eq!((answers.read(&requests(100, 300)), answers.begins()), (None, false));
        for bytes in [1_000, 300, 300, 5_000] {
            assert_eq!(answers.left(), bytes);
            answers.wrote(bytes);
        }
        assert_eq!((answers.left(), answers.begins()), (0, false));
    }

    #[test]
    fn a_segment_is_as_long_as_the_bitrate_that_the_request_names() {
        let line = r#"{"cc": "cubic", "stall_ns": 1, "seed": 7, "workload": {"kind": "video", "request_bytes": 100,
            "ladder_bps": [8000, 16000, 40000], "segment_ns": 1000000000, "buffer_ns": 9000000000,
            "duration_ns": 9, "patience_ns": 9}}"#;
        let mut answers = Answers::new(&serde_json::from_str(line).unwrap(), 0).unwrap();
        let mut bytes = requests(0, 400);
        for (number, choice) in [2, 0, 1, 3].into_iter().enumerate() {
            bytes[number * 100] ^= choice;
        }
        assert_eq!((answers.read(&bytes[..30]), answers.left()), (None, 0));
        assert_eq!(answers.read(&bytes[30..300]), None);
        assert_eq!(answers.owed, [5_000, 1_000, 2_000]);
        assert_eq!(answers.read(&bytes[300..]), Some(300), "there are three");
    }

    #[test]
    fn a_request_that_was_changed_is_noticed() {
        let mut answers = Answers::new(&job(), 0).unwrap();
        let mut bytes = requests(0, 100);
        bytes[40] ^= 1;
        assert_eq!(answers.read(&bytes), Some(40));
        let mut answers = Answers::new(&job(), 0).unwrap();
        let mut bytes = requests(0, 100);
        bytes[0] ^= 1;
        assert_eq!(answers.read(&bytes), Some(0), "there is nothing to choose");
    }
}
