//! Connection-level retransmission: data that is not DATA_ACKed although a subflow acknowledged it, or on a subflow that
//! does not recover, is resent on an idle subflow (RFC 8684 section 3.3.6; Linux `net/mptcp/protocol.c`,
//! `mptcp_retransmit_timer`, `__mptcp_retrans`, `mptcp_subflow_get_retrans`).
//!
//! Only under Linux accounting: with payload accounting, data acknowledged by a subflow has arrived.

use super::DataSender;
use crate::mptcp::io::Io;
use crate::mptcp::scheduler::{self, Style};
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::{Nanos, Seq};
use std::ops::Range;

impl DataSender {
    /// Starts the timer after data was sent.
    pub(super) fn start_data_timer(&mut self, io: &mut Io, subflows: &[Subflow]) {
        if self.timers.as_ref().is_some_and(|timers| !timers.is_running()) {
            self.arm_data_timer(io, subflows);
        }
    }

    /// Restarts the timer after a DATA_ACK, or stops it if all data is DATA_ACKed.
    pub(super) fn restart_data_timer(&mut self, io: &mut Io, subflows: &[Subflow]) {
        if self.buffer.una() < self.buffer.next() {
            self.arm_data_timer(io, subflows);
        } else if let Some(timers) = &mut self.timers {
            timers.stop();
        }
    }

    /// Starts the timer anew, for the time that held when data was last assigned to a subflow.
    fn arm_data_timer(&mut self, io: &mut Io, subflows: &[Subflow]) {
        if self.scheduling.style != Style::Push {
            self.note_interval(io.now, subflows);
        }
        if let Some(timers) = &mut self.timers {
            timers.run(io);
        }
    }

    /// Linux `mptcp_subflow_get_send`: the longest remaining time of the timers of all subflows that answer, before what is
    /// assigned now has left.
    #[inline]
    pub(super) fn note_interval(&mut self, now: Nanos, subflows: &[Subflow]) {
        let Some(timers) = &mut self.timers else { return };
        let mut longest = 0;
        for (id, subflow) in subflows.iter().enumerate() {
            if self.scheduling.usable >> id & 1 == 1 && !subflow.is_silent() {
                longest = longest.max(subflow.sender.remaining(now));
            }
        }
        timers.note_interval(longest);
    }

    /// The timer's event is due. True if a subflow became stale.
    pub fn on_data_timer(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> bool {
        if self.timers.as_ref().is_none_or(|timers| timers.is_early(io)) {
            return false;
        }
        if self.buffer.una() == self.buffer.next() {
            return false;
        }
        let Some(timers) = &self.timers else { return false };
        let several = timers.resends_several();
        let check = self.check_stale(subflows, timers.clock());
        // Each idle subflow resends what is left of a fragment.
        let mut from = self.buffer.una();
        while let Some(id) = self.idle(subflows, check.all_silent) {
            let end = self.buffer.next_fragment(from);
            self.retransmit_data(io, subflows, id, from..end);
            if end == self.buffer.next() || !several {
                break;
            }
            from = end;
        }
        self.arm_data_timer(io, subflows);
        check.newly_stale
    }

    /// A subflow with nothing outstanding or queued; a standby one only if no other answers.
    fn idle(&self, subflows: &[Subflow], all_silent: bool) -> Option<SubflowId> {
        let is_idle = |id: &SubflowId| {
            let subflow = &subflows[*id];
            subflow.sender.outstanding() == 0 && subflow.queue.is_empty()
        };
        let mut idle = scheduler::bits(self.scheduling.ready()).filter(is_idle);
        let active = if self.scheduling.repeats_on_quickest() {
            idle.min_by_key(|&id| subflows[id].sender.rtt.srtt)
        } else {
            idle.next()
        };
        let alive = |id: &SubflowId| subflows[*id].alive();
        let any = || scheduler::bits(self.scheduling.room).filter(alive).find(is_idle);
        active.or_else(|| if all_silent { any() } else { None })
    }

    /// Retransmits through the subflow's send queue, which cwnd and pace empty.
    fn retransmit_data(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        wanted: Range<Seq>,
    ) {
        for data in wanted {
            self.count_retransmitted(data);
            self.add_carrier(&mut subflows[id], id, data);
            self.enqueue(io.now, &mut subflows[id], id, data);
        }
        self.send_queue(io, subflows, id);
    }
}
