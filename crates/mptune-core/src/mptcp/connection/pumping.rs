//! The scheduler's loop: new data goes to subflows as far as windows, buffers and the scheduler allow.

use super::{Connection, Io};
use crate::mptcp::scheduler::{self, Choice, Style};
use crate::pathmanager::{Event, SubflowId};
use crate::units::{Nanos, Seq};

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
    pub(super) fn pull(&mut self, io: &mut Io<'_>) {
        loop {
            let ready = self.usable & self.room;
            if ready == 0 {
                return;
            }
            if !self.reinjections.is_empty() && self.reinject(io, ready) {
                continue;
            }
            let limit = self.limit();
            if self.data_next >= limit {
                self.note_app_limited(ready);
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
    pub(super) fn push(&mut self, io: &mut Io<'_>) {
        loop {
            let limit = self.limit();
            if self.data_next >= limit {
                break;
            }
            let open = scheduler::bits(self.usable)
                .filter(|&id| self.peers[id].outstanding < self.send_window)
                .fold(0, |set, id| set | 1 << id);
            let Some(id) = self.select(io.now, open, limit - self.data_next) else { break };
            let data = self.take_next(id);
            self.subflows[id].queue.push_back(data);
            self.peers[id].outstanding += 1;
            self.notify_bytes_sent(io);
        }
        while !self.reinjections.is_empty() && self.reinject(io, self.usable & self.room) {}
        for id in scheduler::bits(self.usable & self.room) {
            while self.room >> id & 1 == 1 {
                let Some(data) = self.subflows[id].queue.pop_front() else { break };
                self.assign(io, id, data);
            }
        }
    }

    /// Every subflow sends every segment that is not acknowledged when its turn comes.
    pub(super) fn copy(&mut self, io: &mut Io<'_>) {
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
    #[inline]
    pub(super) fn take_next(&mut self, id: SubflowId) -> Seq {
        let data = self.data_next;
        self.data_next += 1;
        self.carried_by.push(1 << id);
        data
    }

    #[inline]
    pub(super) fn notify_bytes_sent(&mut self, io: &mut Io<'_>) {
        if self.data_next >= self.notify_at {
            self.notify_at = Seq::MAX;
            let bytes = u64::from(self.data_next) * u64::from(self.mss);
            self.tell_path_manager(io, Event::BytesSent(bytes));
        }
    }

    /// There was room on these subflows and nothing the buffers allowed to be sent.
    #[inline]
    pub(super) fn note_app_limited(&mut self, ready: u64) {
        if self.controller.rate_samples() {
            for id in scheduler::bits(ready) {
                self.subflows[id].sender.note_app_limited();
            }
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Nanos, ready: u64, window: Seq) -> Option<SubflowId> {
        self.scheduler.select(Choice {
            subflows: &self.peers,
            ready,
            usable: self.usable,
            window,
            whole_window: self.send_window.min(self.receive_window),
            now,
        })
    }
}
