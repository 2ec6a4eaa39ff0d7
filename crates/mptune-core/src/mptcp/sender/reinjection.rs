//! Reinjection: data resent on another subflow after a timeout, from the queue of a failed subflow, and to open a blocked
//! window; and the penalty for the subflow that blocked it.

use super::DataSender;
use crate::mptcp::io::Io;
use crate::mptcp::scheduler;
use crate::mptcp::subflow::Subflow;
use crate::units::Nanos;

impl DataSender {
    /// The shared window is full although a subflow has room in cwnd: opportunistic retransmission and penalisation of
    /// the v0.9x kernels (`net/mptcp/mptcp_sched.c`, `mptcp_rcv_buf_optimization`; Raiciu et al., NSDI 2012, section
    /// 4.2). Slower subflows that carry the first missing segment are penalised, once per RTT; if they are much slower,
    /// the segment is reinjected on the faster one.
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
            self.resend(io, subflows, id, una);
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

    /// Sends the first segment waiting for reinjection on a subflow that does not carry it. False if there is none.
    ///
    /// Skips segments that a healthy subflow carries, which delivers them or fails; otherwise they could wait forever,
    /// with all data behind them.
    pub(super) fn reinject(&mut self, io: &mut Io, subflows: &mut [Subflow], ready: u64) -> bool {
        let healthy = healthy(subflows);
        let data = loop {
            let Some(&data) = self.reinjections.front() else { return false };
            if data >= self.buffer.una() && *self.carried_by.at(data) & healthy == 0 {
                break data;
            }
            self.reinjections.pop_front();
        };
        let peers = &self.scheduling.peers;
        let Some(id) = scheduler::bits(ready & healthy).min_by_key(|&id| peers[id].srtt) else {
            return false;
        };
        self.reinjections.pop_front();
        self.resend(io, subflows, id, data);
        true
    }

    /// Reinjects the data of a subflow that begins to fail.
    pub fn reinject_undelivered(&mut self, subflow: &Subflow) {
        let una = self.buffer.una();
        self.reinjections.extend(subflow.sender.undelivered().filter(|&data| data >= una));
    }

    /// Reinjects all data that no healthy subflow carries, from the first missing segment on.
    pub(super) fn reinject_unhealthy(&mut self, subflows: &[Subflow]) {
        let healthy = healthy(subflows);
        let missing = self.buffer.una()..self.buffer.next();
        self.reinjections.clear();
        self.reinjections.extend(missing.filter(|&data| *self.carried_by.at(data) & healthy == 0));
    }

    /// Reinjects the data that only closed or failing subflows carry: the data of a failing one may have been reinjected
    /// on subflows that are now closed.
    pub fn reinject_unfinished(&mut self, subflows: &[Subflow], closed: u64) {
        let healthy = healthy(subflows) & !closed;
        for data in self.buffer.una()..self.buffer.next() {
            let carriers = self.carried_by.at_mut(data);
            let orphaned = *carriers & closed != 0 && *carriers & healthy == 0;
            *carriers &= !closed;
            if orphaned {
                self.reinjections.push_back(data);
            }
        }
    }

    /// Reinjects the send queues of closed and failing subflows, before data that was sent once: it might never be sent
    /// otherwise. A standby subflow sends its queue, as in Linux, where data never leaves a queue again; a silent one
    /// keeps it, and its data is retransmitted from the first missing segment on.
    pub(super) fn reinject_queues(&mut self, subflows: &mut [Subflow]) {
        let (usable, una) = (self.scheduling.usable, self.buffer.una());
        let returns_queue = |(id, subflow): &(usize, &mut Subflow)| {
            usable >> id & 1 == 0 && !subflow.alive() && !subflow.is_silent()
        };
        for (id, subflow) in subflows.iter_mut().enumerate().filter(returns_queue) {
            for data in subflow.queue.drain().rev().filter(|&data| data >= una) {
                *self.carried_by.at_mut(data) &= !(1 << id);
                self.reinjections.push_front(data);
            }
        }
    }
}

/// The set of subflows that are alive.
fn healthy(subflows: &[Subflow]) -> u64 {
    let alive = |id: &usize| subflows[*id].alive();
    (0..subflows.len()).filter(alive).fold(0, |set, id| set | 1 << id)
}
