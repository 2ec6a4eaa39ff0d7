//! Connection-level retransmission: data that is not DATA_ACKed although subflows acknowledged it, or
//! carried by a subflow that does not recover, is sent again on an idle one (RFC 8684 section 3.3.6;
//! Linux `net/mptcp/protocol.c`, `mptcp_retransmit_timer`, `__mptcp_retrans`,
//! `mptcp_subflow_get_retrans`).
//!
//! Only under Linux' accounting: with payload counted, what a subflow acknowledged has arrived.

use super::{Connection, Io};
use crate::engine::Source;
use crate::mptcp::scheduler;
use crate::pathmanager::SubflowId;
use crate::units::{MILLISECOND, NEVER, Nanos, Seq};

/// Linux `TCP_RTO_MIN`: the interval when no subflow waits for anything.
const SHORTEST: Nanos = 200 * MILLISECOND;
/// Linux repeats one `mptcp_data_frag`, at most an order-3 page of 32 KiB: in full segments.
const REPEATED: Seq = 23;

/// The timer.
#[derive(Debug)]
pub(super) struct Repetition {
    source: Source,
    deadline: Nanos,
}

impl Repetition {
    pub(super) fn new(source: Source) -> Self {
        Self { source, deadline: NEVER }
    }
}

impl Connection {
    /// Data was sent: the timer runs.
    pub(super) fn start_repetition(&mut self, io: &mut Io<'_>) {
        if self.repetition.as_ref().is_some_and(|timer| timer.deadline == NEVER) {
            self.arm_repetition(io);
        }
    }

    /// Everything before `data` is DATA_ACKed: the timer starts anew, or stops.
    pub(super) fn postpone_repetition(&mut self, io: &mut Io<'_>, data: Seq) {
        if data < self.data_next {
            self.arm_repetition(io);
        } else if let Some(timer) = &mut self.repetition {
            timer.deadline = NEVER;
        }
    }

    /// Linux `mptcp_set_timeout`: the longest that a subflow still waits.
    fn arm_repetition(&mut self, io: &mut Io<'_>) {
        let waits = scheduler::bits(self.usable).map(|id| self.subflows[id].deadline(io.now));
        let longest = waits.filter(|&at| at < NEVER).max().unwrap_or(0);
        let wait = longest.checked_sub(io.now).filter(|&wait| wait > 0).unwrap_or(SHORTEST);
        if let Some(timer) = &mut self.repetition {
            timer.deadline = io.now + wait;
            io.queue.set_no_later(timer.source, timer.deadline);
        }
    }

    pub(super) fn on_data_timer(&mut self, io: &mut Io<'_>) {
        let Some(timer) = &self.repetition else { return };
        if timer.deadline > io.now {
            return io.queue.set(timer.source, timer.deadline);
        }
        if self.data_una == self.data_next {
            return;
        }
        if let Some(id) = self.idle() {
            self.repeat(io, id);
        }
        self.arm_repetition(io);
    }

    /// A subflow that has nothing outstanding and nothing to send.
    fn idle(&self) -> Option<SubflowId> {
        scheduler::bits(self.usable & self.room).find(|&id| {
            let subflow = &self.subflows[id];
            subflow.sender.outstanding() == 0 && subflow.queue.is_empty()
        })
    }

    fn repeat(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let end = self.data_next.min(self.data_una.saturating_add(REPEATED));
        for data in self.data_una..end {
            let waits_in_a_queue = *self.carried_by.at(data) & self.queued(data) != 0;
            if waits_in_a_queue || self.room >> id & 1 == 0 {
                return;
            }
            self.carry_again(io, id, data);
        }
    }

    /// Subflows in whose send queue the segment still is.
    fn queued(&self, data: Seq) -> u64 {
        let holds =
            |id: &usize| self.subflows[*id].queue.front().is_some_and(|&first| first <= data);
        (0..self.subflows.len()).filter(holds).fold(0, |set, id| set | 1 << id)
    }
}
