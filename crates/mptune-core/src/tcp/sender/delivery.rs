//! Segments that an acknowledgement newly delivers, gathered while it is processed.

use crate::units::{Nanos, Seq};

/// The segments that an ACK newly delivers.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) now: Nanos,
    min_rtt: Nanos,
    /// The end of what was selectively acknowledged before (`RACK.fack` of RFC 8985).
    pub(super) sacked_until: Seq,
    pub(super) delivered: u32,
    /// A segment counted as lost was delivered without a retransmission.
    pub(super) original_of_lost: bool,
    /// One that was sent more than once was delivered.
    pub(super) ambiguous: bool,
    /// Latest transmission among the delivered segments, and the segment's number plus 1.
    pub(super) newest_sent_at: Nanos,
    pub(super) newest_end: Seq,
    /// Transmission of the first and the last of these that were sent once.
    pub(super) first_sent_at: Option<Nanos>,
    pub(super) last_sent_at: Nanos,
}

impl Delivery {
    pub(super) fn new(now: Nanos, min_rtt: Nanos, sacked_until: Seq) -> Self {
        Self {
            now,
            min_rtt,
            sacked_until,
            delivered: 0,
            original_of_lost: false,
            ambiguous: false,
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

    /// `number` segments before `end`, all sent once, the first at `first` and the last at `last`.
    #[inline]
    pub(super) fn note_plain(&mut self, number: u32, first: Nanos, last: Nanos, end: Seq) {
        self.delivered = number;
        self.first_sent_at = Some(first);
        (self.last_sent_at, self.newest_sent_at) = (last, last);
        self.newest_end = end;
    }

    /// RFC 8985 section 6.2 step 2: an ACK sooner than the smallest RTT after the retransmission is for the
    /// original, whose departure is unknown.
    pub(super) fn note_ambiguous(&mut self, sent_at: Nanos, seq: Seq) {
        self.delivered += 1;
        self.ambiguous = true;
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
