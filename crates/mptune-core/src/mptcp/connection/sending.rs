//! The data sender's end of a subflow: what acknowledgements and timers set going, and how a segment
//! leaves.

use super::{Connection, Io};
use crate::mptcp::packet::{DATA_HEADER, Kind, Packet};
use crate::mptcp::subflow::Phase;
use crate::network::forward;
use crate::pathmanager::{Event, SubflowId};
use crate::tcp::{Acknowledgement, TimerAction};
use crate::units::{Nanos, Seq};

impl Connection {
    #[inline]
    pub(super) fn on_ack(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        while self.data_una < packet.data {
            self.data_una += 1;
            self.carried_by.pop();
        }
        self.window_edge = self.window_edge.max(packet.window_edge);
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
            Phase::Refused => {}
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

    #[inline]
    pub(super) fn transmit(
        &mut self,
        io: &mut Io<'_>,
        id: SubflowId,
        (seq, data): (Seq, Seq),
        new: bool,
    ) {
        let payload = if data == self.segments - 1 {
            self.payload(data, self.segments) as u32
        } else {
            self.mss
        };
        let subflow = &mut self.subflows[id];
        let packet = Packet {
            flow: subflow.flow,
            kind: Kind::Data,
            seq,
            data,
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
            ecn_capable: new && (self.ecn || subflow.sender.ecn_per_segment()),
            ecn_signal: new && subflow.sender.take_ecn_signal(),
            ..Packet::default()
        };
        io.send(forward(subflow.path), payload + DATA_HEADER, packet);
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
        if sender.ready(now) {
            self.room |= bit;
        } else {
            self.room &= !bit;
        }
    }
}
