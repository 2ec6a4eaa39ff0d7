//! Connection-level retransmission: data that is not DATA_ACKed although subflows acknowledged it, or
//! carried by a subflow that does not recover, is resent on an idle one (RFC 8684 section 3.3.6;
//! Linux `net/mptcp/protocol.c`, `mptcp_retransmit_timer`, `__mptcp_retrans`,
//! `mptcp_subflow_get_retrans`).
//!
//! Only under Linux accounting: when payload is counted, what a subflow acknowledged has arrived.

use super::DataSender;
use crate::mptcp::io::Io;
use crate::mptcp::scheduler;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::{MILLISECOND, NEVER, Nanos, Seq};

/// Linux `TCP_RTO_MIN`: the interval when no subflow waits for anything.
const SHORTEST: Nanos = 200 * MILLISECOND;
/// Linux resends one `mptcp_data_frag`, at most an order-3 page of 32 KiB: in full segments.
const REPEATED: Seq = 23;

impl DataSender {
    /// Data was sent: the timer runs.
    pub(super) fn start_repetition(&mut self, io: &mut Io, subflows: &[Subflow]) {
        if self.timers.as_ref().is_some_and(|timers| !timers.is_running()) {
            self.arm_repetition(io, subflows);
        }
    }

    /// Something is DATA_ACKed: the timer restarts, or stops if that was everything.
    pub(super) fn postpone_repetition(&mut self, io: &mut Io, subflows: &[Subflow]) {
        if self.buffer.una() < self.buffer.next() {
            self.arm_repetition(io, subflows);
        } else if let Some(timers) = &mut self.timers {
            timers.stop();
        }
    }

    /// Linux `mptcp_set_timeout`: the longest remaining wait of any subflow that answers for its own timer,
    /// whatever its pace.
    fn arm_repetition(&mut self, io: &mut Io, subflows: &[Subflow]) {
        let Some(timers) = &mut self.timers else { return };
        let mut longest = 0;
        for (id, subflow) in subflows.iter().enumerate() {
            if self.scheduling.usable >> id & 1 == 1 && !subflow.is_silent() {
                let at = subflow.sender.timer();
                longest = if at < NEVER { longest.max(at) } else { longest };
            }
        }
        let wait = longest.checked_sub(io.now).filter(|&wait| wait > 0).unwrap_or(SHORTEST);
        timers.run_until(io, io.now + wait);
    }

    /// The timer's event is due; returns whether a subflow is stale from now on.
    pub fn on_data_timer(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> bool {
        if self.timers.as_ref().is_none_or(|timers| timers.is_early(io)) {
            return false;
        }
        if self.buffer.una() == self.buffer.next() {
            return false;
        }
        let found = self.judge_silence(subflows);
        if let Some(id) = self.idle(subflows, found.all_silent) {
            self.repeat(io, subflows, id);
        }
        self.arm_repetition(io, subflows);
        found.newly_stale
    }

    /// A subflow that has nothing outstanding and nothing to send: on standby only if no other answers.
    fn idle(&self, subflows: &[Subflow], all_silent: bool) -> Option<SubflowId> {
        let is_idle = |id: &SubflowId| {
            let subflow = &subflows[*id];
            subflow.sender.outstanding() == 0 && subflow.queue.is_empty()
        };
        let active = scheduler::bits(self.scheduling.ready()).find(is_idle);
        let alive = |id: &SubflowId| subflows[*id].alive();
        let any = || scheduler::bits(self.scheduling.room).filter(alive).find(is_idle);
        active.or_else(|| if all_silent { any() } else { None })
    }

    /// What is repeated goes to the subflow's send queue, which its window and pace empty.
    fn repeat(&mut self, io: &mut Io, subflows: &mut [Subflow], id: SubflowId) {
        let una = self.buffer.una();
        for data in una..self.buffer.next().min(una.saturating_add(REPEATED)) {
            if *self.carried_by.at(data) & queued(subflows, data) & !(1 << id) != 0 {
                break;
            }
            self.count_repeated(data);
            self.note_carried_again(&mut subflows[id], id, data);
            subflows[id].queue.push_back(data);
            self.scheduling.peers[id].outstanding += 1;
        }
        self.send_queue(io, subflows, id);
    }
}

/// Subflows that answer and whose send queue still holds the segment.
fn queued(subflows: &[Subflow], data: Seq) -> u64 {
    let holds = |id: &usize| {
        let subflow = &subflows[*id];
        !subflow.is_silent() && subflow.queue.front().is_some_and(|&first| first <= data)
    };
    (0..subflows.len()).filter(holds).fold(0, |set, id| set | 1 << id)
}
