//! The data sender's end of a subflow: what acknowledgements and timers set going, and how a segment
//! leaves.

use super::{Connection, Io};
use crate::mptcp::memory::WRITING;
use crate::mptcp::packet::{Kind, Packet};
use crate::mptcp::scheduler::Style;
use crate::mptcp::subflow::Phase;
use crate::network::forward;
use crate::pathmanager::{Event, SubflowId};
use crate::tcp::{Acknowledgement, TimerAction};
use crate::units::{Nanos, Seq};

impl Connection {
    #[inline]
    pub(super) fn on_ack(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        if self.memory.is_none() {
            self.window_edge = self.window_edge.max(packet.window_edge);
        } else {
            self.note_charged_ack(io, id, packet);
        }
        while self.data_una < packet.data {
            self.data_una += 1;
            self.carried_by.pop();
        }
        let subflow = &mut self.subflows[id];
        let ack = Acknowledgement {
            next: packet.seq,
            sack: packet.sack,
            duplicate: packet.duplicate,
            ecn_echo: packet.ecn_signal,
        };
        let progress = subflow.sender.on_ack(io.now, &ack, &self.peers, id);
        if progress.delivered > 0 && subflow.failing {
            self.on_progress_again(io, id);
        }
        if !self.fully_established {
            self.fully_established = true;
            self.tell_path_manager(io, Event::Established);
        }
        self.send_from(io, id);
    }

    /// DATA_ACK and window of an acknowledgement, in bytes. The window is the one the subflow's TCP
    /// keeps, which a duplicate acknowledgement cannot narrow: while a subflow has a hole and others
    /// deliver, the sender adds new DATA_ACKs to an old window and sends more than was offered (Linux
    /// `ack_update_msk`, `tcp_may_update_window`; traced on Linux 6.18).
    #[inline(never)]
    fn note_charged_ack(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        let Some(memory) = &mut self.memory else { return };
        self.subflows[id].on_window(packet.seq, packet.window_edge);
        if packet.data >= self.data_una {
            memory.sender.on_data_ack(packet.data - self.data_una);
            memory.sender.on_window(self.subflows[id].offered);
        }
        self.update_window_edge();
        if packet.data > self.data_una {
            self.postpone_repetition(io, packet.data);
            self.wake_application(io);
        }
    }

    fn wake_application(&mut self, io: &mut Io<'_>) {
        if let (Some(memory), Some(source)) = (&self.memory, self.application) {
            if memory.sender.wakes_application() {
                io.queue.set_no_later(source, io.now + WRITING);
            }
        }
    }

    /// The application writes what there is room for.
    pub(super) fn on_application(&mut self, io: &mut Io<'_>) {
        if let Some(memory) = &mut self.memory {
            memory.sender.write();
            self.update_window_edge();
            self.pump(io);
        }
    }

    /// After something changed for one subflow: its retransmissions, then whatever the scheduler
    /// gives to whom.
    #[inline]
    pub(super) fn send_from(&mut self, io: &mut Io<'_>, id: SubflowId) {
        self.retransmit(io, id);
        self.refresh(io.now, id);
        self.pump(io);
        let subflow = &self.subflows[id];
        io.queue.set_no_later(subflow.timer, subflow.deadline(io.now));
    }

    pub(super) fn on_subflow_timer(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        match subflow.phase {
            Phase::SynSent | Phase::JoinAckSent => self.on_handshake_timer(io, id),
            Phase::Refused | Phase::Closed => {}
            Phase::Established => {
                match subflow.sender.on_timer(io.now, &self.peers, id) {
                    TimerAction::None => {}
                    TimerAction::Probe => {
                        if let Some(segment) = subflow.sender.probe(io.now) {
                            self.transmit(io, id, segment, false);
                        }
                    }
                    TimerAction::Timeout => self.on_timeout(io, id),
                }
                self.send_from(io, id);
            }
        }
    }

    #[inline]
    pub(super) fn retransmit(&mut self, io: &mut Io<'_>, id: SubflowId) {
        while let Some(segment) = self.subflows[id].sender.next_retransmission(io.now) {
            self.transmit(io, id, segment, false);
        }
    }

    // Else it is a call in the hottest loop, because it is called from elsewhere too.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        io: &mut Io<'_>,
        id: SubflowId,
        (seq, data): (Seq, Seq),
        new: bool,
    ) {
        let payload = if data < self.regular_until {
            self.mss
        } else {
            self.irregular_payload(io, id, (seq, data), new)
        };
        let subflow = &mut self.subflows[id];
        let packet = Packet {
            flow: subflow.flow,
            kind: Kind::Data,
            seq,
            data,
            window_edge: payload,
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
            ecn_capable: new && (self.ecn || subflow.sender.ecn_per_segment()),
            ecn_signal: new && subflow.sender.take_ecn_signal(),
            ..Packet::default()
        };
        io.send(forward(subflow.path), payload + self.header, packet);
    }

    /// Payload bytes of a segment that leaves and need not be full.
    #[inline(never)]
    fn irregular_payload(
        &mut self,
        io: &mut Io<'_>,
        id: SubflowId,
        (seq, data): (Seq, Seq),
        new: bool,
    ) -> u32 {
        if self.memory.is_none() {
            return self.payload(data, self.segments) as u32;
        }
        // A segment whose length is forgotten is sent for its subflow's sake only.
        let payload = self.length(data).unwrap_or(self.mss);
        if new {
            let subflow = &mut self.subflows[id];
            subflow.next = seq + 1;
            if payload < self.mss {
                subflow.short_end = subflow.next;
            }
            self.start_repetition(io);
        }
        payload
    }

    /// A segment goes out on a subflow for the first time there.
    #[inline]
    pub(super) fn assign(&mut self, io: &mut Io<'_>, id: SubflowId, data: Seq) {
        let sender = &mut self.subflows[id].sender;
        if sender.outstanding() == 0 {
            sender.on_start(io.now);
        }
        let seq = sender.send(io.now, data);
        self.transmit(io, id, (seq, data), true);
        let subflow = &mut self.subflows[id];
        subflow.carried_data = true;
        if !subflow.sender.ready(io.now) {
            self.room &= !(1 << id);
        }
        io.queue.set_no_later(subflow.timer, subflow.sender.deadline(io.now));
    }

    /// Brings what schedulers and coupled controllers see of a subflow up to date.
    #[inline]
    pub(super) fn refresh(&mut self, now: Nanos, id: SubflowId) {
        let sender = &self.subflows[id].sender;
        self.peers[id] = sender.summary(self.usable >> id & 1 == 1);
        self.peers[id].outstanding += self.subflows[id].queue.len() as u32;
        let bit = 1 << id;
        let pulls = self.scheduler.style() != Style::Push;
        if sender.ready(now) && !(self.tso && pulls && self.gathers(now, id)) {
            self.room |= bit;
        } else {
            self.room &= !bit;
        }
    }
}
