//! What one acknowledgement newly delivered, gathered while it is processed.

use crate::units::{Nanos, Seq};

/// What one ACK newly delivered.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) now: Nanos,
    min_rtt: Nanos,
    pub(super) delivered: u32,
    /// A segment counted as lost was delivered without a retransmission.
    pub(super) original_of_lost: bool,
    /// Latest transmission among the delivered segments, and the segment's number plus 1.
    pub(super) newest_sent_at: Nanos,
    pub(super) newest_end: Seq,
    /// Transmission of the first and the last delivered segment that was sent only once.
    pub(super) first_sent_at: Option<Nanos>,
    pub(super) last_sent_at: Nanos,
}

impl Round {
    pub(super) fn new(now: Nanos, min_rtt: Nanos) -> Self {
        Self {
            now,
            min_rtt,
            delivered: 0,
            original_of_lost: false,
            newest_sent_at: 0,
            newest_end: 0,
            first_sent_at: None,
            last_sent_at: 0,
        }
    }

    #[inline]
    pub(super) fn note_unambiguous(&mut self, sent_at: Nanos, seq: Seq) {
        self.delivered += 1;
        self.first_sent_at.get_or_insert(sent_at);
        self.last_sent_at = self.last_sent_at.max(sent_at);
        self.note_newest(sent_at, seq);
    }

    /// This many segments before `end` were delivered, all sent once: the first and the last of them then.
    #[inline]
    pub(super) fn note_plain(&mut self, number: u32, first: Nanos, last: Nanos, end: Seq) {
        self.delivered = number;
        self.first_sent_at = Some(first);
        (self.last_sent_at, self.newest_sent_at) = (last, last);
        self.newest_end = end;
    }

    /// RFC 8985 section 6.2 step 2: an ACK that comes sooner than any round trip cannot be for the
    /// retransmission, so it says nothing about when the delivered copy was sent.
    pub(super) fn note_ambiguous(&mut self, sent_at: Nanos, seq: Seq) {
        self.delivered += 1;
        if self.now - sent_at >= self.min_rtt {
            self.note_newest(sent_at, seq);
        }
    }

    #[inline]
    fn note_newest(&mut self, sent_at: Nanos, seq: Seq) {
        if (sent_at, seq + 1) > (self.newest_sent_at, self.newest_end) {
            self.newest_sent_at = sent_at;
            self.newest_end = seq + 1;
        }
    }
}
