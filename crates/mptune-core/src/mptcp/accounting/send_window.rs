//! The send window of a subflow's TCP, only under Linux accounting.

use crate::units::Seq;

/// The window offered to a subflow's TCP, and its short segments.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendWindow {
    /// Number of the next segment on the subflow.
    next: Seq,
    /// One past the number of the last segment on it that was not full.
    short_end: Seq,
    /// The window in bytes (Linux `snd_wnd`).
    pub offered: u32,
    /// The largest that was offered (Linux `max_window`).
    pub largest: u32,
}

impl SendWindow {
    /// Segment `seq` was sent for the first time on the subflow.
    pub fn note_sent(&mut self, seq: Seq, short: bool) {
        self.next = seq + 1;
        if short {
            self.short_end = self.next;
        }
    }

    /// A segment that was sent and not full is not yet acknowledged.
    pub fn awaits_short_segment(&self, outstanding: u32) -> bool {
        outstanding > 0 && self.short_end > self.next - outstanding
    }

    /// It is at least this wide.
    #[inline]
    pub fn widen(&mut self, window: u32) {
        self.offered = self.offered.max(window);
    }

    /// An ACK up to `next` offers a window. A duplicate ACK can widen the window but not narrow it (RFC 9293 section
    /// 3.10.7.4, Linux `tcp_may_update_window`).
    pub fn on_offer(&mut self, outstanding: u32, next: Seq, window: u32) {
        let una = self.next - outstanding;
        if next > una || next == una && (window > self.offered || window == 0) {
            self.offered = window;
            self.largest = self.largest.max(window);
        }
    }
}
