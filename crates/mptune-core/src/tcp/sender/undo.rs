//! Undo of a spurious reduction: the segments were late, not lost (Linux `net/ipv4/tcp_input.c`,
//! `tcp_try_undo_recovery`, `tcp_try_undo_loss`, `tcp_try_undo_dsack`).
//!
//! Three criteria: every retransmission was reported as duplicate (D-SACK, RFC 3708); after a timeout outside a fast
//! recovery an original that was not retransmitted is delivered (F-RTO, RFC 5682 steps 1 and 3.b); after any timeout an ACK that
//! advances SND.UNA over one that was echoes the timestamp of its first copy (Eifel, RFC 3522). In a fast recovery such an ACK
//! shows that segments are reordered, and undoes the reduction when no retransmission is in flight (Linux
//! `tcp_try_undo_partial`).

use super::delivery::Delivery;
use super::{LOST, Sender, State};
use crate::tcp::Acknowledgement;
use crate::units::Nanos;

impl Sender {
    /// Undoes the reduction if the ACK just processed shows that nothing was lost.
    pub(super) fn undo_if_spurious(
        &mut self,
        now: Nanos,
        ack: &Acknowledgement,
        delivery: &Delivery,
        advanced: bool,
    ) {
        let Some(undo) = &mut self.undo else { return };
        // The duplicate of a tail loss probe does not explain a retransmission.
        if ack.duplicate && self.probe_end.is_none() {
            undo.unexplained = undo.unexplained.saturating_sub(1);
        }
        let all_duplicates = undo.retransmitted && undo.unexplained == 0;
        let echoed = advanced && delivery.ambiguous && ack.original;
        let late = match self.state {
            State::Open => false,
            State::Recovery => echoed && self.retransmitted_out == 0,
            State::Loss => echoed || self.original_may_tell && delivery.original_of_lost,
        };
        self.rack.reordering_seen |= echoed && self.state == State::Recovery;
        if all_duplicates || late {
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
        self.lost_retransmissions.clear();
        self.rack_scan = self.una;
        if self.state != State::Open {
            self.state = State::Open;
            self.only_marked = false;
            self.controller.on_recovered(&mut self.window, self.next, now);
        }
    }
}

#[cfg(test)]
mod tests;
