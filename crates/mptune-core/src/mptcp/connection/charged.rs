//! The data receiver under Linux' accounting: every segment is charged, and what finds no memory
//! stays at its subflow or is dropped there (Linux `net/ipv4/tcp_input.c`, `tcp_data_queue`,
//! `tcp_data_queue_ofo`; `net/mptcp/protocol.c`, `__mptcp_move_skbs_from_subflow`).

use super::{Connection, Io};
use crate::mptcp::memory::truesize;
use crate::mptcp::packet::Packet;
use crate::mptcp::subflow::{Phase, Subflow};
use crate::pathmanager::SubflowId;
use crate::tcp::Reply;
use crate::units::{Bytes, NEVER, Nanos, Seq};

impl Connection {
    pub(super) fn on_charged_data(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        let before = self.reassembly.next();
        self.note_ecn(io, id, packet);
        if self.refuses(id, packet.seq) {
            self.subflows[id].memory.refused += 1;
            return self.acknowledge(io, id, false);
        }
        self.grow_window(id, packet);
        let mut arrived = std::mem::take(&mut self.arrived);
        let receiver = &mut self.subflows[id].receiver;
        let gap = receiver.next();
        let reply = receiver.on_segment(io.now, packet.seq, packet.data, |data| arrived.push(data));
        for data in arrived.drain(..) {
            // Its length is forgotten once it is DATA_ACKed: then it is the packet's own.
            let payload = self.length(data).unwrap_or(packet.window_edge);
            self.move_to_connection(io.now, id, data, payload);
        }
        self.arrived = arrived;
        let progress = self.reassembly.next() - before;
        let reply = self.compressed(io.now, id, gap, reply);
        self.reply(io, id, reply, progress);
        if progress > 0 {
            self.read();
        }
        if progress > 1 {
            self.acknowledge_pending(io);
        }
    }

    /// The application reads what is in order.
    fn read(&mut self) {
        let Some(memory) = &mut self.memory else { return };
        let open = self.subflows.iter().filter(|subflow| subflow.phase != Phase::Closed);
        memory.receiver.on_read(open.map(|subflow| &subflow.memory));
    }

    /// A new segment lets the subflow offer more, up to a limit; until that is reached, and after a
    /// segment that was acknowledged before, acknowledgements are not delayed.
    fn grow_window(&mut self, id: SubflowId, packet: &Packet) {
        let payload = self.length(packet.data).unwrap_or(packet.window_edge);
        let Some(memory) = &self.memory else { return };
        let Subflow { receiver, memory: own, .. } = &mut self.subflows[id];
        if packet.seq < receiver.next() {
            receiver.be_quick();
        } else if memory.receiver.grows(own, payload) {
            receiver.stay_quick();
        }
    }

    /// Whether an acknowledgement of a gap at `gap` is left out for now.
    fn compressed(&mut self, now: Nanos, id: SubflowId, gap: Seq, reply: Reply) -> Reply {
        let rtt = self.subflows[id].min_rtt();
        let Subflow { receiver, memory, .. } = &mut self.subflows[id];
        let behind_gap = reply == Reply::Now { duplicate: false } && receiver.next() == gap;
        if !behind_gap || receiver.is_quick() {
            return reply;
        }
        let Some(until) = memory.compression.postpone(now, gap, rtt) else { return reply };
        receiver.acknowledge_by(until);
        Reply::Later
    }

    /// The application read all there was: what waits for a delayed acknowledgement on any subflow is
    /// acknowledged now (Linux `mptcp_cleanup_rbuf`), so that the fastest one tells of the open window.
    fn acknowledge_pending(&mut self, io: &mut Io<'_>) {
        for id in 0..self.subflows.len() {
            if self.subflows[id].receiver.deadline() < NEVER {
                self.acknowledge(io, id, false);
            }
        }
    }

    /// The subflow has no memory for the segment. In subflow order it is taken nevertheless unless
    /// others are stuck before it: it may be what everything waits for.
    fn refuses(&self, id: SubflowId, seq: Seq) -> bool {
        let Some(memory) = &self.memory else { return false };
        let subflow = &self.subflows[id];
        let receiver = &subflow.receiver;
        let exempt = seq == receiver.next() && subflow.memory.stuck == 0;
        !exempt
            && memory.receiver.refuses(&subflow.memory, receiver.holding())
            && !receiver.knows(seq)
    }

    /// A segment in subflow order goes on to the connection, if that takes any.
    fn move_to_connection(&mut self, now: Nanos, id: SubflowId, data: Seq, payload: u32) {
        let Some(memory) = &mut self.memory else { return };
        if memory.receiver.is_full() {
            self.subflows[id].memory.stuck += Bytes::from(truesize(payload));
            return;
        }
        if data >= self.data_una && memory.receiver.is_beyond(memory.sender.start(data)) {
            memory.receiver.beyond_window += 1;
            return;
        }
        let before = self.reassembly.next();
        self.reassembly.make_room(data);
        let Some(released) = self.reassembly.on_segment(data) else { return };
        self.subflows[id].series.add(now, Bytes::from(payload));
        if released == 0 {
            memory.receiver.hold(now, payload);
            return;
        }
        // The first one just arrived; the others were held.
        memory.receiver.on_delivered(now, payload);
        let mut bytes = Bytes::from(payload);
        for held in before + 1..before + released {
            let payload = memory.sender.length(held);
            memory.receiver.release(payload);
            bytes += Bytes::from(payload);
        }
        self.series.add(now, bytes);
        self.progress_at = now;
        if before + released == self.segments {
            self.completed_at.get_or_insert(now);
        }
    }

    /// Payload bytes of a segment, under Linux' accounting and until it is DATA_ACKed.
    #[inline]
    pub(super) fn length(&self, data: Seq) -> Option<u32> {
        let memory = self.memory.as_ref()?;
        (data >= self.data_una).then(|| memory.sender.length(data))
    }
}
