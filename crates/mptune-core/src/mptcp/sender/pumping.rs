//! The scheduler's loop: assigns new data to subflows as far as windows, buffers and the scheduler allow.

use super::DataSender;
use super::transmitting::Place;
use crate::mptcp::io::Io;
use crate::mptcp::scheduler::{self, Style};
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::{Bytes, Nanos, Seq};

impl DataSender {
    /// Sends as much as the windows, the buffers and the scheduler allow. At the number of bytes of
    /// [`Self::notify_at`] it pauses and returns that number; unless it is redundant, call it again then.
    #[inline]
    pub fn pump(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> Option<Bytes> {
        if self.scheduling.style == Style::Push {
            return self.push(io, subflows);
        }
        if self.timers.is_some() {
            // Without send queues of the scheduler, these hold only the connection's retransmissions, which go first.
            self.send_queues(io, subflows);
        }
        match self.scheduling.style {
            Style::Copy => self.copy(io, subflows),
            Style::Pull | Style::Push => self.pull(io, subflows),
        }
    }

    /// Subflows send from their queues. Standby subflows too: data in their queues is not taken back.
    #[inline]
    fn send_queues(&mut self, io: &mut Io, subflows: &mut [Subflow]) {
        for id in scheduler::bits(self.scheduling.room) {
            if !subflows[id].queue.is_empty() {
                self.send_queue(io, subflows, id);
            }
        }
    }

    /// Every subflow sends everything.
    pub fn is_redundant(&self) -> bool {
        self.scheduling.style == Style::Copy
    }

    /// Each segment goes to a subflow whose window has room for it.
    #[inline]
    fn pull(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> Option<Bytes> {
        loop {
            let ready = self.scheduling.ready();
            if ready == 0 {
                self.blocking.end(io.now);
                return None;
            }
            if !self.reinjections.is_empty() && self.reinject(io, subflows, ready) {
                continue;
            }
            let limit = self.buffer.limit();
            if self.buffer.next() >= limit {
                self.on_blocked(io, subflows, ready, limit);
                return None;
            }
            let id = self.select(io.now, ready, limit - self.buffer.next())?;
            let data = self.take_next(subflows, id);
            self.assign(io, subflows, id, data, Place::Within);
            if self.is_notification_due() {
                return self.notification();
            }
        }
    }

    /// The buffers block these subflows, which have room in cwnd.
    #[inline]
    fn on_blocked(&mut self, io: &mut Io, subflows: &mut [Subflow], ready: u64, limit: Seq) {
        self.note_app_limited(subflows, ready);
        self.note_blocked(io.now, limit);
        if self.members.opportunistic && self.buffer.has_more(limit) {
            self.unblock(io, subflows, ready);
        }
    }

    /// Hands segments to subflows whose send queue has room; they leave it when cwnd has room.
    fn push(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> Option<Bytes> {
        // Linux asks its scheduler, which notes it, before it finds no memory.
        if self.buffer.has_unsent() {
            self.note_interval(io.now, subflows);
        }
        while let Some(id) = self.next_subflow(io.now) {
            self.note_interval(io.now, subflows);
            loop {
                let handed = self.hand_over(io.now, subflows, id);
                self.scheduling.note_handed(handed);
                if self.is_notification_due() {
                    return self.notification();
                }
                if self.buffer.next() >= self.buffer.limit() || !self.goes_on(id) {
                    break;
                }
            }
        }
        while !self.reinjections.is_empty() && self.reinject(io, subflows, self.scheduling.ready())
        {
        }
        self.send_queues(io, subflows);
        // Also for data that no cwnd lets go, such as that of a program that was silent on a path that is dead (Linux
        // `__mptcp_push_pending`).
        if self.buffer.offers_pieces() && self.buffer.una() < self.buffer.next() {
            self.start_data_timer(io, subflows);
        }
        let limit = self.buffer.limit();
        let idle = |id: usize| subflows[id].queue.is_empty();
        let all_sent = self.buffer.next() >= limit;
        if all_sent && scheduler::bits(self.scheduling.ready()).any(idle) {
            self.note_blocked(io.now, limit);
        } else {
            self.blocking.end(io.now);
        }
        None
    }

    /// The subflow whose send queue gets the next segment, if one may be handed over.
    fn next_subflow(&mut self, now: Nanos) -> Option<SubflowId> {
        let limit = self.buffer.limit();
        if self.buffer.next() >= limit {
            return None;
        }
        let open = scheduler::bits(self.scheduling.usable)
            .filter(|&id| self.has_queue_room(id) && self.may_queue(id))
            .fold(0, |set, id| set | 1 << id);
        self.select(now, open, self.buffer.burst_window(limit))
    }

    /// The subflow also takes the next segment: always within a fragment of the send buffer, at the end of one if its
    /// queue has room and the scheduler's burst is not over (Linux `__subflow_push_pending`).
    #[inline]
    fn goes_on(&self, id: SubflowId) -> bool {
        !self.buffer.burst_may_end()
            || self.has_queue_room(id) && self.may_queue(id) && self.scheduling.continues()
    }

    /// A subflow's send queue has room (Linux `sk_stream_memory_free`).
    #[inline]
    fn has_queue_room(&self, id: SubflowId) -> bool {
        let limit = self.buffer.queue_memory(id).unwrap_or(self.queue_limit);
        self.scheduling.peers[id].memory < limit
    }

    /// The path policy lets a subflow's send queue grow (Linux `tcp_stream_memory_free`, at the end of each fragment).
    #[inline]
    fn may_queue(&self, id: SubflowId) -> bool {
        let peer = &self.scheduling.peers[id];
        let paces = self.scheduling.paces.as_ref();
        paces.is_none_or(|paces| paces.may_queue(id, peer.outstanding - peer.sent))
    }

    /// A subflow sends from its queue as much as cwnd allows.
    pub(super) fn send_queue(&mut self, io: &mut Io, subflows: &mut [Subflow], id: SubflowId) {
        while self.scheduling.has_room(id) && !self.waits_by_nagle(&subflows[id]) {
            let burst = self.next_burst(io.now, &mut subflows[id], id);
            for sent in 0..burst.segments {
                let goes = sent == 0 || self.scheduling.has_room(id);
                let next = if goes { subflows[id].queue.pop() } else { None };
                let Some(data) = next else {
                    self.note_packet(&mut subflows[id], sent > 0, true);
                    return;
                };
                self.assign(io, subflows, id, data, burst.place(sent));
            }
            self.note_packet(&mut subflows[id], burst.segments > 0, !burst.whole);
            if burst.segments == 0 || subflows[id].queue.is_empty() {
                return;
            }
        }
    }

    /// Segments just left a subflow's queue as a packet, if they are `any`; they are `cut` from theirs.
    #[inline]
    fn note_packet(&self, subflow: &mut Subflow, any: bool, cut: bool) {
        if any {
            let end = subflow.sender.una() + subflow.sender.outstanding();
            subflow.queue.on_sent(end, cut, self.is_multipath);
        }
    }

    /// Appends the next segment to a subflow's send queue, or fills up the short one at its end. Returns what it handed
    /// over, in full segments.
    fn hand_over(&mut self, now: Nanos, subflows: &mut [Subflow], id: SubflowId) -> f64 {
        let (newest, before) = (self.buffer.next().wrapping_sub(1), self.buffer.sent_bytes());
        let waits = self.buffer.newest_is_short() && subflows[id].queue.may_fill(newest);
        if !(waits && self.buffer.fill_up(newest)) {
            let data = self.take_next(subflows, id);
            self.enqueue(now, &mut subflows[id], id, data);
        }
        (self.buffer.sent_bytes() - before) as f64 / f64::from(self.buffer.full())
    }

    /// Appends a segment to a subflow's send queue.
    // Inlined into the hottest loop in spite of its other caller.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, now: Nanos, subflow: &mut Subflow, id: SubflowId, data: Seq) {
        // Each packet that is made before one has left (Linux `tcp_skb_entail`): TCP sends the first when it is full
        // (`tcp_push_one`), MPTCP at the end of what a subflow takes.
        let restarts = self.restarts_at_packets && (self.is_multipath || subflow.queue.is_empty());
        let begins = subflow.queue.push(data, self.buffer.packet_segments(&subflow.send_window));
        if restarts && begins && subflow.sender.outstanding() == 0 {
            subflow.sender.restart_if_idle(now);
        }
        subflow.deferred = false;
        let peer = &mut self.scheduling.peers[id];
        peer.outstanding += 1;
        peer.memory += 1.0 + if begins { self.overhead } else { 0.0 };
    }

    /// Nagle's algorithm (Linux `tcp_nagle_check`, `tcp_minshall_check`): the last segment in a send queue is short, and
    /// another short one is not acknowledged.
    fn waits_by_nagle(&self, subflow: &Subflow) -> bool {
        if self.buffer.offers_pieces() {
            return false; // its program sets TCP_NODELAY
        }
        let Some(only) = subflow.queue.only() else { return false };
        let outstanding = subflow.sender.outstanding();
        self.buffer.is_short(only) && subflow.send_window.awaits_short_segment(outstanding)
    }

    /// Every subflow sends every segment that is not DATA_ACKed in its turn.
    fn copy(&mut self, io: &mut Io, subflows: &mut [Subflow]) -> Option<Bytes> {
        self.reinjections.clear();
        for id in scheduler::bits(self.scheduling.ready()) {
            while self.scheduling.has_room(id) {
                let data = subflows[id].position.max(self.buffer.una());
                if data >= self.buffer.limit() {
                    break;
                }
                if data == self.buffer.next() {
                    self.take_next(subflows, id);
                } else {
                    *self.carried_by.at_mut(data) |= 1 << id;
                }
                subflows[id].position = data + 1;
                self.assign_one(io, subflows, id, data);
            }
        }
        if self.is_notification_due() { self.notification() } else { None }
    }

    /// The next segment of the data sequence space, now carried by a subflow.
    // Inlined into the hottest loop in spite of its other callers.
    #[inline(always)]
    fn take_next(&mut self, subflows: &mut [Subflow], id: SubflowId) -> Seq {
        self.carried_by.push(1 << id);
        self.buffer.take(&mut subflows[id].send_window)
    }

    #[inline]
    fn is_notification_due(&self) -> bool {
        self.buffer.next() >= self.notify_at && self.are_bytes_sent()
    }

    /// As many bytes as segments of pieces may promise, which can be short.
    fn are_bytes_sent(&self) -> bool {
        !self.buffer.offers_pieces() || self.buffer.sent_bytes() >= self.notify_bytes
    }

    fn notification(&mut self) -> Option<Bytes> {
        self.notify_at = Seq::MAX;
        if self.buffer.offers_pieces() {
            return Some(self.buffer.sent_bytes());
        }
        Some(Bytes::from(self.buffer.next()) * Bytes::from(self.buffer.full()))
    }

    /// These subflows had room in cwnd, but the buffers blocked them.
    #[inline]
    fn note_app_limited(&mut self, subflows: &mut [Subflow], ready: u64) {
        if self.rate_samples {
            for id in scheduler::bits(ready) {
                subflows[id].sender.note_app_limited();
            }
        }
    }

    /// There is more to send, but the buffers block it.
    #[inline]
    fn note_blocked(&mut self, now: Nanos, limit: Seq) {
        if self.buffer.has_more(limit) {
            self.blocking.begin(now);
        }
    }

    #[inline]
    pub(super) fn select(&mut self, now: Nanos, ready: u64, window: Seq) -> Option<SubflowId> {
        if let Some(id) = self.scheduling.only_ready(ready) {
            return Some(id);
        }
        let (may_end, under_way) = (self.buffer.burst_may_end(), self.buffer.window());
        self.scheduling.select(now, ready, window, may_end, under_way)
    }
}
