//! The scheduler's loop: new data goes to subflows as far as windows, buffers and the scheduler allow.

use super::{Connection, Io};
use crate::mptcp::scheduler::{self, Choice, Style};
use crate::pathmanager::{Event, SubflowId};
use crate::units::{Bytes, NEVER, Nanos, Seq};

impl Connection {
    /// Sends what the windows, the buffers and the scheduler allow.
    #[inline]
    pub(super) fn pump(&mut self, io: &mut Io<'_>) {
        match self.scheduler.style() {
            Style::Pull => self.pull(io),
            Style::Push => self.push(io),
            Style::Copy => self.copy(io),
        }
    }

    /// The first segment that may not be sent: the receiver's window, the send buffer or the end of
    /// the transfer.
    #[inline]
    pub(super) fn limit(&self) -> Seq {
        let buffers = self.window_edge.min(self.data_una.saturating_add(self.send_window));
        buffers.min(self.segments)
    }

    /// Each segment goes to a subflow whose window has room for it.
    #[inline]
    fn pull(&mut self, io: &mut Io<'_>) {
        loop {
            let ready = self.usable & self.room;
            if ready == 0 {
                return self.note_unblocked(io.now);
            }
            if !self.reinjections.is_empty() && self.reinject(io, ready) {
                continue;
            }
            let limit = self.limit();
            if self.data_next >= limit {
                self.note_app_limited(ready);
                self.note_blocked(io.now, limit);
                if self.opportunistic && limit < self.segments {
                    self.unblock(io, ready);
                }
                return;
            }
            let Some(id) = self.select(io.now, ready, limit - self.data_next) else { return };
            let data = self.take_next(id);
            self.assign(io, id, data);
            self.notify_bytes_sent(io);
        }
    }

    /// Segments are handed to subflows whose send queue has room, and leave it when the window has.
    fn push(&mut self, io: &mut Io<'_>) {
        loop {
            let limit = self.limit();
            if self.data_next >= limit {
                break;
            }
            let open = scheduler::bits(self.usable)
                .filter(|&id| self.peers[id].outstanding < self.queue_limit)
                .fold(0, |set, id| set | 1 << id);
            let Some(id) = self.select(io.now, open, limit - self.data_next) else { break };
            self.hand_over(id);
            self.notify_bytes_sent(io);
        }
        while !self.reinjections.is_empty() && self.reinject(io, self.usable & self.room) {}
        for id in scheduler::bits(self.usable & self.room) {
            let kept = self.kept_for_burst(io.now, id);
            while self.room >> id & 1 == 1
                && self.subflows[id].queue.len() > kept
                && !self.waits_for_more(id)
            {
                let Some(data) = self.subflows[id].queue.pop_front() else { break };
                self.assign(io, id, data);
            }
        }
        let limit = self.limit();
        let idle = |id: usize| self.subflows[id].queue.is_empty();
        if self.data_next >= limit && scheduler::bits(self.usable & self.room).any(idle) {
            self.note_blocked(io.now, limit);
        } else {
            self.note_unblocked(io.now);
        }
    }

    /// Segments at the end of a subflow's send queue that wait for a burst: those just handed to it,
    /// since what was there before will not become longer.
    fn kept_for_burst(&mut self, now: Nanos, id: SubflowId) -> usize {
        let fresh = std::mem::take(&mut self.subflows[id].fresh);
        if fresh > 0 && self.tso && self.gathers(now, id) { fresh } else { 0 }
    }

    /// The next segment goes to a subflow's send queue, or to the short one at the end of it.
    fn hand_over(&mut self, id: SubflowId) {
        let newest = self.data_next.wrapping_sub(1);
        if self.subflows[id].queue.back() == Some(&newest) {
            let filled = self.memory.as_mut().is_some_and(|m| m.sender.fill_up(newest));
            if filled {
                return self.note_charged_data();
            }
        }
        let data = self.take_next(id);
        self.subflows[id].queue.push_back(data);
        self.subflows[id].fresh += 1;
        self.peers[id].outstanding += 1;
    }

    /// The last segment in a subflow's send queue is not full and another such one is not acknowledged
    /// yet (Nagle's algorithm as in Linux `tcp_nagle_check`, `tcp_minshall_check`).
    fn waits_for_more(&self, id: SubflowId) -> bool {
        let subflow = &self.subflows[id];
        let &[only] = subflow.queue.as_slices().0 else { return false };
        self.length(only).is_some_and(|length| length < self.mss) && subflow.awaits_short_segment()
    }

    /// Every subflow sends every segment that is not acknowledged when its turn comes.
    fn copy(&mut self, io: &mut Io<'_>) {
        self.reinjections.clear();
        for id in scheduler::bits(self.usable & self.room) {
            while self.room >> id & 1 == 1 {
                let data = self.subflows[id].position.max(self.data_una);
                if data >= self.limit() {
                    break;
                }
                if data == self.data_next {
                    self.take_next(id);
                } else {
                    *self.carried_by.at_mut(data) |= 1 << id;
                }
                self.subflows[id].position = data + 1;
                self.assign(io, id, data);
            }
        }
        self.notify_bytes_sent(io);
    }

    /// The next segment of the data sequence space, now carried by a subflow.
    // Else it is a call in the hottest loop, because it is called from elsewhere too.
    #[inline(always)]
    fn take_next(&mut self, id: SubflowId) -> Seq {
        let data = self.data_next;
        self.data_next += 1;
        self.carried_by.push(1 << id);
        if data >= self.regular_until {
            self.take_irregular(id, data);
        }
        data
    }

    #[inline(never)]
    fn take_irregular(&mut self, id: SubflowId, data: Seq) {
        if let Some(memory) = &mut self.memory {
            memory.sender.take();
            self.share_window(id, data);
            self.note_charged_data();
        }
    }

    /// The connection's window as seen from a segment that a subflow carries is its own too, if it is
    /// wider (Linux `mptcp_check_allowed_size`).
    pub(super) fn share_window(&mut self, id: SubflowId, data: Seq) {
        if let Some(memory) = &self.memory {
            let window = memory.sender.window_from(memory.sender.start(data));
            let offered = &mut self.subflows[id].offered;
            *offered = window.max(*offered);
        }
    }

    /// Under Linux' accounting data was handed to a subflow. The number of segments is known when the
    /// last one is made.
    fn note_charged_data(&mut self) {
        if self.memory.as_ref().is_some_and(|memory| memory.sender.is_finished()) {
            self.segments = self.data_next;
        }
        self.update_window_edge();
    }

    /// Under Linux' accounting the edge is in bytes: what it means in segments.
    pub(super) fn update_window_edge(&mut self) {
        if let Some(memory) = &self.memory {
            let segments = memory.sender.segments(self.scheduler.style() == Style::Push);
            self.window_edge = self.data_next.saturating_add(segments);
        }
    }

    #[inline]
    fn notify_bytes_sent(&mut self, io: &mut Io<'_>) {
        if self.data_next >= self.notify_at {
            self.notify_at = Seq::MAX;
            let bytes = Bytes::from(self.data_next) * Bytes::from(self.mss);
            self.tell_path_manager(io, Event::BytesSent(bytes));
        }
    }

    /// There was room on these subflows and nothing the buffers allowed to be sent.
    #[inline]
    fn note_app_limited(&mut self, ready: u64) {
        if self.controller.rate_samples() {
            for id in scheduler::bits(ready) {
                self.subflows[id].sender.note_app_limited();
            }
        }
    }

    /// There is more to send, and the buffers do not let it go.
    #[inline]
    fn note_blocked(&mut self, now: Nanos, limit: Seq) {
        if limit < self.segments && self.blocked_since == NEVER {
            self.blocked_since = now;
        }
    }

    #[inline]
    fn note_unblocked(&mut self, now: Nanos) {
        if self.blocked_since < NEVER {
            self.blocked += now - self.blocked_since;
            self.blocked_since = NEVER;
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Nanos, ready: u64, window: Seq) -> Option<SubflowId> {
        self.scheduler.select(Choice {
            subflows: &self.peers,
            ready,
            usable: self.usable,
            window,
            burst_may_end: self.memory.as_ref().is_none_or(|m| m.sender.begins_fragment()),
            whole_window: self.whole_window,
            now,
        })
    }
}
