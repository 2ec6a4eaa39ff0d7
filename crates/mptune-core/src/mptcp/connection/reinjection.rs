//! Data sent again on another subflow: after a timeout, from the queue of a silent subflow, and to open
//! a blocked window; and the penalty for the subflow that blocked it.

use super::{Connection, Io, LOST_AFTER_TIMEOUTS};
use crate::mptcp::scheduler;
use crate::pathmanager::{Event, SubflowId};
use crate::units::{Nanos, Seq};

impl Connection {
    /// A subflow timed out: what it carries may be lost for long, so other subflows carry it too.
    pub(super) fn on_timeout(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        if !subflow.failing {
            subflow.failing = true;
            let una = self.data_una;
            self.reinjections.extend(subflow.sender.undelivered().filter(|&data| data >= una));
            self.update_roles(io.now);
        }
        let subflow = &mut self.subflows[id];
        if !subflow.lost && subflow.sender.consecutive_timeouts() >= LOST_AFTER_TIMEOUTS {
            subflow.lost = true;
            self.tell_path_manager(io, Event::SubflowLost(id));
        }
    }

    pub(super) fn on_progress_again(&mut self, io: &mut Io<'_>, id: SubflowId) {
        self.subflows[id].failing = false;
        let was_lost = std::mem::take(&mut self.subflows[id].lost);
        self.update_roles(io.now);
        if was_lost {
            self.tell_path_manager(io, Event::SubflowRestored(id));
        }
    }

    /// The shared window is full although a subflow has room: the v0.9x kernels' opportunistic
    /// retransmission and penalisation (`net/mptcp/mptcp_sched.c`, `mptcp_rcv_buf_optimization`;
    /// Raiciu et al., NSDI 2012, section 4.2). The slower subflows that hold the first missing
    /// segment are slowed down, once each round trip, and if they are much slower the segment is
    /// sent again on the faster one.
    pub(super) fn unblock(&mut self, io: &mut Io<'_>, ready: u64) {
        if self.data_una == self.data_next {
            return;
        }
        let Some(id) = self.select(io.now, ready, 1) else { return };
        let carriers = *self.carried_by.at(self.data_una);
        let mine = self.peers[id];
        if io.now - self.subflows[id].penalised_at >= mine.srtt {
            for other in scheduler::bits(carriers & !(1 << id)) {
                if mine.srtt < self.peers[other].srtt && self.subflows[other].sender.penalise() {
                    self.subflows[id].penalised_at = io.now;
                    self.refresh(io.now, other);
                }
            }
        }
        if carriers >> id & 1 == 0 && self.much_slower(carriers, mine.srtt) {
            self.carry_again(io, id, self.data_una);
        }
    }

    /// Every carrier is more than four times slower, or one hardly has a window.
    fn much_slower(&self, carriers: u64, srtt: Nanos) -> bool {
        let mut slower = false;
        for peer in scheduler::bits(carriers).map(|other| &self.peers[other]) {
            if peer.cwnd <= 4.0 {
                return true;
            }
            if 4 * srtt >= peer.srtt {
                return false;
            }
            slower = true;
        }
        slower
    }

    /// Sends the first segment waiting for reinjection on a subflow that has not carried it yet;
    /// whether there was one.
    ///
    /// What a sound subflow carries too is passed over: it delivers it, or fails and has it reinjected
    /// then. Kept, it could wait for ever, and what comes after it with it.
    pub(super) fn reinject(&mut self, io: &mut Io<'_>, ready: u64) -> bool {
        let sound = self.sound();
        let data = loop {
            let Some(&data) = self.reinjections.front() else { return false };
            if data >= self.data_una && *self.carried_by.at(data) & sound == 0 {
                break data;
            }
            self.reinjections.pop_front();
        };
        let Some(id) = scheduler::bits(ready & sound).min_by_key(|&id| self.peers[id].srtt) else {
            return false;
        };
        self.reinjections.pop_front();
        self.carry_again(io, id, data);
        true
    }

    /// Subflows that deliver what they carry unless they begin to fail.
    pub(super) fn sound(&self) -> u64 {
        let alive = |id: &usize| self.subflows[*id].alive();
        (0..self.subflows.len()).filter(alive).fold(0, |set, id| set | 1 << id)
    }

    /// A segment that was handed to another subflow, or to this one before, goes out on this one.
    pub(super) fn carry_again(&mut self, io: &mut Io<'_>, id: SubflowId, data: Seq) {
        *self.carried_by.at_mut(data) |= 1 << id;
        self.reinjected += 1;
        self.subflows[id].counted.reinjected += 1;
        self.share_window(id, data);
        self.assign(io, id, data);
    }

    /// What waits in the send queue of a subflow that carries no data any more goes to others, before
    /// anything that was already sent once: nobody else would ever send it.
    pub(super) fn recall_queues(&mut self) {
        let usable = self.usable;
        let silent = self.subflows.iter_mut().enumerate();
        for (id, subflow) in silent.filter(|(id, _)| usable >> id & 1 == 0) {
            for data in subflow.queue.drain(..).rev().filter(|&data| data >= self.data_una) {
                *self.carried_by.at_mut(data) &= !(1 << id);
                self.reinjections.push_front(data);
            }
        }
    }
}
