//! Taking back a reduction that turns out to have been for nothing: the segments were late, not
//! lost (Linux `net/ipv4/tcp_input.c`, `tcp_try_undo_recovery`, `tcp_try_undo_loss`,
//! `tcp_try_undo_dsack`).
//!
//! Two signs: every retransmission was reported as duplicate (D-SACK, RFC 3708), or after a timeout
//! an original that was never sent again is delivered (F-RTO, RFC 5682 step 3.b). Linux has a third,
//! the echo of a timestamp from before the retransmission (Eifel, RFC 3522), which shows the same a
//! round trip earlier than D-SACK; segments carry no timestamps here.

use super::acknowledgement::Round;
use super::{LOST, Sender, State};
use crate::congestion::Window;
use crate::units::Nanos;

/// What a reduction would be taken back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    window: Window,
    /// Retransmissions since the reduction, less those reported as duplicates.
    unexplained: u32,
    retransmitted: bool,
}

impl Undo {
    pub(super) fn new(window: Window) -> Self {
        Self { window, unexplained: 0, retransmitted: false }
    }

    pub(super) fn note_retransmission(&mut self) {
        self.unexplained += 1;
        self.retransmitted = true;
    }
}

impl Sender {
    /// Takes the reduction back if the ACK just processed shows that nothing had been lost.
    pub(super) fn undo_if_spurious(&mut self, now: Nanos, duplicate: bool, round: &Round) {
        let Some(undo) = &mut self.undo else { return };
        // The duplicate of a tail loss probe explains no retransmission.
        if duplicate && self.probe_end.is_none() {
            undo.unexplained = undo.unexplained.saturating_sub(1);
        }
        let all_duplicates = undo.retransmitted && undo.unexplained == 0;
        if all_duplicates || (self.state == State::Loss && round.original_of_lost) {
            self.undo_reduction(now);
        }
    }

    fn undo_reduction(&mut self, now: Nanos) {
        let Some(undo) = self.undo.take() else { return };
        self.counters.undone += 1;
        self.window.cwnd = self.window.cwnd.max(undo.window.cwnd);
        self.window.ssthresh = self.window.ssthresh.max(undo.window.ssthresh);
        for seq in self.una..self.next {
            self.board.at_mut(seq).flags &= !LOST;
        }
        self.lost_out = 0;
        self.lost.clear();
        self.lost_again.clear();
        self.rack_scan = self.una;
        if self.state != State::Open {
            self.state = State::Open;
            self.controller.on_recovered(&mut self.window, self.next, now);
        }
    }
}
