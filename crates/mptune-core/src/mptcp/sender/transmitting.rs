//! Transmission of segments on a subflow.

use super::DataSender;
use crate::mptcp::io::Io;
use crate::mptcp::packet::{Content, Packet, Segment};
use crate::mptcp::scheduler::Style;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::{Bytes, Nanos, Seq};

/// The place of a segment in the burst that it leaves with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Others follow, if cwnd and pace allow them.
    Within,
    /// The last one.
    Last,
    /// Alone, the first of a packet whose rest waits.
    Cut,
}

impl Place {
    /// It is pushed; cwnd and pace are `ready` for another. Linux pushes what ends a packet of several segments
    /// (`__tcp_transmit_skb`) or the data of a write (`tcp_push`), not the parts of a packet (`tso_fragment`).
    #[inline]
    fn is_pushed(self, ready: bool) -> bool {
        match self {
            Self::Within => !ready,
            Self::Last => true,
            Self::Cut => false,
        }
    }
}

/// The occasion on which a segment is sent.
#[derive(Debug, Clone, Copy)]
struct Flags {
    /// For the first time on its subflow.
    new: bool,
    /// No other follows it at once.
    pushed: bool,
}

impl Flags {
    /// Sent again on its subflow: the receiver acknowledges it without delay in any case.
    const REPEATED: Self = Self { new: false, pushed: false };
}

impl DataSender {
    /// The retransmissions of the subflow's loss recovery.
    #[inline]
    pub fn retransmit(&mut self, io: &mut Io, subflow: &mut Subflow) {
        if subflow.sender.has_lost() {
            self.retransmit_lost(io, subflow);
        }
    }

    #[inline(never)]
    fn retransmit_lost(&mut self, io: &mut Io, subflow: &mut Subflow) {
        while let Some(segment) = subflow.sender.next_retransmission(io.now) {
            self.transmit(io, subflow, segment, Flags::REPEATED);
        }
    }

    /// The subflow's tail loss probe is due.
    pub fn probe(&mut self, io: &mut Io, subflow: &mut Subflow) {
        if let Some(segment) = subflow.sender.probe(io.now) {
            self.transmit(io, subflow, segment, Flags::REPEATED);
        }
    }

    /// Sends a segment; returns its payload.
    // Inlined into the hottest loop in spite of its other callers.
    #[inline(always)]
    fn transmit(
        &self,
        io: &mut Io,
        subflow: &mut Subflow,
        (seq, data): (Seq, Seq),
        Flags { new, pushed }: Flags,
    ) -> u32 {
        let mapping = self.buffer.mapping(data);
        let payload = u32::from(mapping.length);
        // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
        let ecn_capable = new && (self.members.ecn || subflow.sender.ecn_per_segment());
        let segment = Segment {
            seq,
            mapping,
            ecn_capable,
            congestion_experienced: false,
            reduced: ecn_capable && subflow.sender.take_ecn_signal(),
            pushed,
            repeated: !new,
            echo: subflow.newest_stamp,
        };
        let packet = Packet { flow: subflow.flow, content: Content::Data(segment) };
        io.send(subflow.there, payload + self.header + subflow.longer_header, packet);
        payload
    }

    /// [`Self::assign`] off the fast path.
    #[inline(never)]
    pub(super) fn assign_one(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        data: Seq,
    ) {
        self.assign(io, subflows, id, data, Place::Last);
    }

    /// Sends a segment on a subflow, for the first time there.
    // As [`Self::transmit`].
    #[inline(always)]
    pub(super) fn assign(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        data: Seq,
        place: Place,
    ) {
        let subflow = &mut subflows[id];
        if subflow.sender.outstanding() == 0 {
            subflow.sender.on_start(io.now);
            if !self.restarts_at_packets && subflow.sender.restart_if_idle(io.now) {
                subflow.sender.end_idle_time(io.now);
            }
        }
        let (seq, ready) = subflow.sender.send(io.now, data);
        let pushed = self.timers.is_some() && place.is_pushed(ready);
        let flags = Flags { new: true, pushed };
        let payload = self.transmit(io, subflow, (seq, data), flags);
        subflow.carried_data = true;
        if !ready {
            self.scheduling.set_room(id, false);
        }
        io.queue.set_no_later(subflow.timer, subflow.sender.deadline(io.now));
        if self.timers.is_some() {
            subflow.send_window.note_sent(seq, payload < self.buffer.full());
            self.start_data_timer(io, subflows);
        }
    }

    /// Sends a segment that was sent before, on this or another subflow.
    pub(super) fn resend(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        data: Seq,
    ) {
        if self.timers.is_none() {
            self.count_retransmitted(data);
        }
        self.add_carrier(&mut subflows[id], id, data);
        self.assign_one(io, subflows, id, data);
    }

    /// Adds a subflow to those that carry a segment.
    pub(super) fn add_carrier(&mut self, subflow: &mut Subflow, id: SubflowId, data: Seq) {
        *self.carried_by.at_mut(data) |= 1 << id;
        self.reinjected += 1;
        subflow.counted.reinjected += 1;
        self.buffer.share(data, &mut subflow.send_window);
    }

    /// Counts the bytes of a segment sent again: under Linux accounting only by the connection's timer
    /// (`mptcpi_bytes_retrans`, `__mptcp_retrans`).
    pub(super) fn count_retransmitted(&mut self, data: Seq) {
        self.reinjected_bytes += Bytes::from(self.buffer.mapping(data).length);
    }

    /// [`Self::refresh`] off the fast path.
    #[inline(never)]
    pub fn refresh_one(&mut self, now: Nanos, subflows: &[Subflow], id: SubflowId) {
        self.refresh(now, subflows, id);
    }

    /// Updates a subflow for schedulers and coupled controllers.
    // As [`Self::transmit`].
    #[inline(always)]
    pub fn refresh(&mut self, now: Nanos, subflows: &[Subflow], id: SubflowId) {
        let subflow = &subflows[id];
        let usable = self.scheduling.usable >> id & 1 == 1;
        let peer = &mut self.scheduling.peers[id];
        *peer = subflow.sender.summary(usable);
        peer.outstanding += subflow.queue.len() as u32;
        if self.scheduling.style == Style::Push {
            peer.memory =
                f64::from(peer.outstanding) + subflow.queue.packets() as f64 * self.overhead;
        }
        peer.timed_out = subflow.timed_out;
        peer.rank = subflow.rank;
        if let Some(paces) = &self.scheduling.paces {
            paces.apply(id, peer);
        }
        let pulls = self.scheduling.style != Style::Push;
        let room = subflow.sender.ready(now)
            && !(self.members.tso && pulls && self.defers(now, subflow, id));
        self.scheduling.set_room(id, room);
    }
}
