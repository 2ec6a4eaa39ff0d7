//! Loss detection: RACK (RFC 8985 section 6, Linux `net/ipv4/tcp_recovery.c`), and losses declared by a timeout.

use super::{AMBIGUOUS, LOST, RETRANSMITTED, SACKED, Sender, Timer};
use crate::units::{MILLISECOND, NEVER, Nanos, Seq};

/// RFC 8985 section 6.2 step 4: without reordering seen, three segments above a hole are enough.
const DUPLICATE_THRESHOLD: u32 = 3;

impl Sender {
    /// RFC 8985 section 6.2 step 4, as Linux `tcp_rack_reo_wnd`.
    pub(super) fn reordering_window(&self) -> Nanos {
        if !self.rack.reordering_seen
            && (!self.repairs_nothing() || self.sacked_out >= DUPLICATE_THRESHOLD)
        {
            return 0;
        }
        (self.rtt.min / 4).min(self.rtt.srtt)
    }

    /// RFC 8985 section 6.2 step 5: marks segments sent long enough before the most recently delivered one. True
    /// if a retransmission was lost.
    pub(super) fn detect_losses(&mut self, now: Nanos) -> bool {
        let threshold = self.rack.rtt + self.reordering_window();
        let lost_before = self.lost_total;
        let first = self.detect_lost_retransmissions(now, threshold);
        let retransmission_lost = self.lost_total > lost_before;
        let reorder_until = first.min(self.detect_lost_originals(now, threshold));
        if reorder_until < NEVER {
            self.timer = Timer::Reordering;
            self.deadline = match self.timing.clock.is_exact() {
                true => reorder_until,
                false => self.reorder_until(now, threshold).max(now),
            };
            self.due = self.deadline;
        }
        retransmission_lost
    }

    /// The same by a kernel's clock: until the last one may be marked, and two milliseconds more (Linux
    /// `tcp_rack_mark_lost`, `TCP_TIMEOUT_MIN_US`), no later than a timeout.
    fn reorder_until(&self, now: Nanos, threshold: Nanos) -> Nanos {
        let before = |sent_at: Nanos, seq| (sent_at, seq) < (self.rack.sent_at, self.rack.end);
        let waits = |&seq: &Seq| {
            let segment = self.board.at(seq);
            let in_flight =
                segment.flags & SACKED == 0 && segment.flags & (LOST | RETRANSMITTED) != LOST;
            in_flight && before(segment.sent_at, seq)
        };
        let original = (self.rack_scan..self.next.min(self.rack.end)).rev().find(waits);
        let resent = self.retransmissions.iter().rev().map(|&(seq, _)| seq);
        let resent = resent.filter(|&seq| seq >= self.una).find(waits);
        let last = original.into_iter().chain(resent).map(|seq| self.board.at(seq).sent_at).max();
        let wait = (last.unwrap_or(now) + threshold).saturating_sub(now) + 2 * MILLISECOND;
        self.timing.clock.after(now, wait.min(self.rtt.rto()))
    }

    /// Marks lost retransmissions. Returns the time at which the next may be marked, or [`NEVER`].
    #[inline]
    fn detect_lost_retransmissions(&mut self, now: Nanos, threshold: Nanos) -> Nanos {
        while let Some(&(seq, sent_at)) = self.retransmissions.front() {
            if self.is_current_retransmission(seq, sent_at) {
                if (sent_at, seq) >= (self.rack.sent_at, self.rack.end) {
                    break;
                }
                if sent_at + threshold > now {
                    return sent_at + threshold;
                }
                let segment = self.board.at_mut(seq);
                // After an undo the segment does not count as lost any more.
                self.lost_out += u32::from(segment.flags & LOST == 0);
                segment.flags = (segment.flags & !RETRANSMITTED) | LOST;
                Self::decrement(&mut self.retransmitted_out, true, &mut self.miscounted);
                self.lost_total += 1;
                self.lost_retransmissions.push_back(seq);
            }
            self.retransmissions.pop_front();
        }
        NEVER
    }

    /// The same for original transmissions.
    #[inline]
    fn detect_lost_originals(&mut self, now: Nanos, threshold: Nanos) -> Nanos {
        while self.rack_scan < self.next {
            let segment = *self.board.at(self.rack_scan);
            if segment.flags & !AMBIGUOUS == 0 {
                if (segment.sent_at, self.rack_scan) >= (self.rack.sent_at, self.rack.end) {
                    break;
                }
                if segment.sent_at + threshold > now {
                    return segment.sent_at + threshold;
                }
                self.mark_lost(self.rack_scan);
            }
            self.rack_scan += 1;
        }
        NEVER
    }

    fn is_current_retransmission(&self, seq: Seq, sent_at: Nanos) -> bool {
        seq >= self.una && {
            let segment = self.board.at(seq);
            segment.flags & (RETRANSMITTED | SACKED) == RETRANSMITTED && segment.sent_at == sent_at
        }
    }

    fn mark_lost(&mut self, seq: Seq) {
        self.mark(seq).flags |= LOST;
        self.lost_out += 1;
        self.lost_total += 1;
        self.lost.push_back(seq);
    }

    /// Linux `tcp_timeout_mark_lost`: all segments not SACKed, except those too recent for RACK.
    pub(super) fn mark_all_lost(&mut self, now: Nanos) {
        let threshold = self.rack.rtt + self.reordering_window();
        self.lost.clear();
        self.lost_retransmissions.clear();
        for seq in self.una..self.next {
            let head = seq == self.una;
            let segment = self.board.at_mut(seq);
            let waits = segment.flags & (LOST | RETRANSMITTED) == LOST;
            let recent = self.rack.sent_at > 0 && segment.sent_at + threshold > now;
            if segment.flags & SACKED != 0 || (recent && !head && !waits) {
                continue;
            }
            let resent = segment.flags & RETRANSMITTED != 0;
            Self::decrement(&mut self.retransmitted_out, resent, &mut self.miscounted);
            self.lost_out += u32::from(segment.flags & LOST == 0);
            segment.flags = LOST | (segment.flags & AMBIGUOUS);
            self.plain_from = self.plain_from.max(seq + 1);
            self.lost.push_back(seq);
        }
        let mut retransmissions = std::mem::take(&mut self.retransmissions);
        retransmissions.retain(|&(seq, sent_at)| self.is_current_retransmission(seq, sent_at));
        self.retransmissions = retransmissions;
        // RACK comes back to the unmarked, too recent segments.
        let unmarked =
            (self.una..self.next).find(|&seq| self.board.at(seq).flags & (SACKED | LOST) == 0);
        self.rack_scan = unmarked.unwrap_or(self.next);
    }
}
