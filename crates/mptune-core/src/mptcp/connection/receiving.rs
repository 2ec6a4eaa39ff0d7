//! The data receiver: from a subflow's segments to in-order bytes, and back to acknowledgements.

use super::{Connection, Io};
use crate::mptcp::packet::{Kind, Packet, ack_size};
use crate::network::reverse;
use crate::pathmanager::SubflowId;
use crate::tcp::Reply;
use crate::units::Seq;

impl Connection {
    #[inline]
    pub(super) fn on_data(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        let now = io.now;
        let before = self.reassembly.next();
        let mut first_delivered: u32 = 0;
        let mut last_payload_short = false;
        let last = self.segments - 1;
        self.note_ecn(io, id, packet);
        let (subflow, reassembly) = (&mut self.subflows[id], &mut self.reassembly);
        let reply = subflow.receiver.on_segment(now, packet.seq, packet.data, |data| {
            if reassembly.on_segment(data).is_some() {
                first_delivered += 1;
                last_payload_short |= data == last;
            }
        });
        if first_delivered > 0 {
            let mut bytes = u64::from(first_delivered) * u64::from(self.mss);
            if last_payload_short {
                bytes -= u64::from(self.mss) - self.payload(last, self.segments);
            }
            self.subflows[id].series.add(now, bytes);
        }
        let next = self.reassembly.next();
        if next > before {
            let bytes = self.payload(before, next);
            self.series.add(now, bytes);
            self.progress_at = now;
            if next == self.segments {
                self.completed_at.get_or_insert(now);
            }
        }
        self.reply(io, id, reply, next - before);
    }

    #[inline]
    pub(super) fn note_ecn(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        if self.subflows[id].receiver.on_ecn(packet.congestion_experienced, packet.ecn_signal) {
            self.acknowledge(io, id, false);
        }
        self.subflows[id].receiver.set_ecn_state(packet.congestion_experienced);
    }

    /// Acknowledges what just arrived, now or later; it brought `progress` segments in order.
    #[inline(always)]
    pub(super) fn reply(&mut self, io: &mut Io<'_>, id: SubflowId, reply: Reply, progress: Seq) {
        // A gap in the data sequence space closed: the window opens by more than a segment or two
        // and the sender may be waiting for it (RFC 9293 section 3.8.6.2.2).
        let window_opened = progress > 2;
        match reply {
            Reply::Now { duplicate } => self.acknowledge(io, id, duplicate),
            Reply::Later if window_opened => self.acknowledge(io, id, false),
            Reply::Later => {
                let subflow = &self.subflows[id];
                io.queue.set_no_later(subflow.ack_timer, subflow.receiver.deadline());
            }
        }
    }

    #[inline]
    pub(super) fn acknowledge(&mut self, io: &mut Io<'_>, id: SubflowId, duplicate: bool) {
        let subflow = &mut self.subflows[id];
        let ack = subflow.receiver.acknowledge(duplicate);
        let data = self.reassembly.next();
        let window_edge = match &mut self.memory {
            None => data.saturating_add(self.receive_window),
            Some(memory) => {
                subflow.memory.compression.on_acknowledged();
                if memory.receiver.is_half_full() {
                    subflow.receiver.be_slow();
                }
                memory.receiver.offer(io.now, &mut subflow.memory)
            }
        };
        let packet = Packet {
            flow: subflow.flow,
            kind: Kind::Ack,
            duplicate,
            seq: ack.next,
            data,
            window_edge,
            sack: ack.sack,
            ecn_signal: ack.ecn_echo,
            ..Packet::default()
        };
        io.send(reverse(subflow.path), ack_size(&ack.sack), packet);
    }
}
