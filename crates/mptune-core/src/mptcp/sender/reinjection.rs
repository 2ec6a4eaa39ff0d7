//! Data resent on another subflow: after a timeout, from the queue of a silent subflow, and to open
//! a blocked window; and the penalty for the subflow that blocked it.

use super::DataSender;
use crate::mptcp::io::Io;
use crate::mptcp::scheduler;
use crate::mptcp::subflow::Subflow;
use crate::units::Nanos;

impl DataSender {
    /// The shared window is full although a subflow has room: the v0.9x kernels' opportunistic
    /// retransmission and penalisation (`net/mptcp/mptcp_sched.c`, `mptcp_rcv_buf_optimization`;
    /// Raiciu et al., NSDI 2012, section 4.2). The slower subflows that hold the first missing
    /// segment are slowed down, once per round trip, and if they are much slower the segment is
    /// resent on the faster one.
    pub(super) fn unblock(&mut self, io: &mut Io, subflows: &mut [Subflow], ready: u64) {
        let una = self.buffer.una();
        if una == self.buffer.next() {
            return;
        }
        let Some(id) = self.select(io.now, ready, 1) else { return };
        let carriers = *self.carried_by.at(una);
        let srtt = self.scheduling.peers[id].srtt;
        if io.now - subflows[id].penalised_at >= srtt {
            for other in scheduler::bits(carriers & !(1 << id)) {
                let slower = srtt < self.scheduling.peers[other].srtt;
                if slower && subflows[other].sender.penalise() {
                    subflows[id].penalised_at = io.now;
                    self.refresh_one(io.now, subflows, other);
                }
            }
        }
        if carriers >> id & 1 == 0 && self.much_slower(carriers, srtt) {
            self.carry_again(io, subflows, id, una);
        }
    }

    /// Every carrier is more than four times slower, or one has hardly any window.
    fn much_slower(&self, carriers: u64, srtt: Nanos) -> bool {
        let mut slower = false;
        for peer in scheduler::bits(carriers).map(|other| &self.scheduling.peers[other]) {
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
    /// returns whether there was one.
    ///
    /// Skips segments that a healthy subflow also carries: it delivers them, or fails and has them
    /// reinjected then. Otherwise they could wait forever, and so would everything after them.
    pub(super) fn reinject(&mut self, io: &mut Io, subflows: &mut [Subflow], ready: u64) -> bool {
        let sound = sound(subflows);
        let data = loop {
            let Some(&data) = self.reinjections.front() else { return false };
            if data >= self.buffer.una() && *self.carried_by.at(data) & sound == 0 {
                break data;
            }
            self.reinjections.pop_front();
        };
        let peers = &self.scheduling.peers;
        let Some(id) = scheduler::bits(ready & sound).min_by_key(|&id| peers[id].srtt) else {
            return false;
        };
        self.reinjections.pop_front();
        self.carry_again(io, subflows, id, data);
        true
    }

    /// What a subflow that begins to fail carries also goes to others: it may be lost for long.
    pub fn reinject_undelivered(&mut self, subflow: &Subflow) {
        let una = self.buffer.una();
        self.reinjections.extend(subflow.sender.undelivered().filter(|&data| data >= una));
    }

    /// What no sound subflow carries is resent, from the first missing segment on.
    pub(super) fn resend_unsound(&mut self, subflows: &[Subflow]) {
        let sound = sound(subflows);
        let missing = self.buffer.una()..self.buffer.next();
        self.reinjections.clear();
        self.reinjections.extend(missing.filter(|&data| *self.carried_by.at(data) & sound == 0));
    }

    /// What only closed subflows carried is resent. A failing one does not count: what it had was
    /// reinjected when it began to fail, perhaps on subflows that are now closed.
    pub fn reinject_unfinished(&mut self, subflows: &[Subflow], closed: u64) {
        let sound = sound(subflows) & !closed;
        for data in self.buffer.una()..self.buffer.next() {
            let carriers = self.carried_by.at_mut(data);
            let orphaned = *carriers & closed != 0 && *carriers & sound == 0;
            *carriers &= !closed;
            if orphaned {
                self.reinjections.push_back(data);
            }
        }
    }

    /// What waits in the send queue of a subflow that is closed or failing goes to others, before anything that
    /// was already sent once: otherwise it might never be sent. One on standby sends what it was given, as in
    /// Linux, where no data leaves a subflow's queue again; one that is silent keeps it, and what it holds is
    /// repeated from the first missing segment on.
    pub(super) fn recall_queues(&mut self, subflows: &mut [Subflow]) {
        let (usable, una) = (self.scheduling.usable, self.buffer.una());
        let gives_back = |(id, one): &(usize, &mut Subflow)| {
            usable >> id & 1 == 0 && !one.alive() && !one.is_silent()
        };
        for (id, subflow) in subflows.iter_mut().enumerate().filter(gives_back) {
            for data in subflow.queue.drain(..).rev().filter(|&data| data >= una) {
                *self.carried_by.at_mut(data) &= !(1 << id);
                self.reinjections.push_front(data);
            }
        }
    }
}

/// Subflows that deliver what they carry unless they begin to fail.
fn sound(subflows: &[Subflow]) -> u64 {
    let alive = |id: &usize| subflows[*id].alive();
    (0..subflows.len()).filter(alive).fold(0, |set, id| set | 1 << id)
}
