//! A segment arrives under Linux accounting: every segment is charged, and one that finds no memory stays
//! at its subflow or is dropped there (Linux `net/ipv4/tcp_input.c`, `tcp_data_queue`,
//! `tcp_data_queue_ofo`; `net/mptcp/protocol.c`, `__mptcp_move_skbs_from_subflow`).

use super::delivered::Delivered;
use super::{DataReceiver, open};
use crate::mptcp::accounting::ReceiveBuffer;
use crate::mptcp::accounting::memory::{ReceiveMemory, SubflowMemory, truesize};
use crate::mptcp::io::Io;
use crate::mptcp::packet::{Mapping, Segment};
use crate::mptcp::reassembly::{Arrival, Reassembly};
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::tcp::{Receiver, Reply, RttEstimator};
use crate::transport::Series;
use crate::units::{Bytes, NEVER, Nanos, Seq};

impl DataReceiver {
    #[inline(never)]
    pub(super) fn on_charged(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        segment: &Segment,
    ) {
        if would_forget(&subflows[id], segment.seq) {
            self.acknowledge(io, &mut subflows[id], false);
        }
        let before = self.reassembly.next();
        let Some(reply) = self.take(io.now, &mut subflows[id], segment) else {
            subflows[id].memory.refused += 1;
            return self.acknowledge(io, &mut subflows[id], false);
        };
        let progress = self.reassembly.next() - before;
        self.reply(io, &mut subflows[id], reply, progress);
        if progress > 0 && self.buffer.heeds_read(io.now) {
            self.on_read(io.now, subflows);
        }
        if progress > 1 {
            self.acknowledge_pending(io, subflows);
        }
    }

    /// The subflow accepts the segment and passes on what is in order; none if it has no memory.
    fn take(&mut self, now: Nanos, subflow: &mut Subflow, segment: &Segment) -> Option<Reply> {
        let Self { reassembly, buffer: ReceiveBuffer::Linux(memory), delivered, .. } = self else {
            return None;
        };
        let Subflow { receiver, sender, memory: own, series, .. } = subflow;
        if refuses(memory, own, receiver, segment.seq) {
            return None;
        }
        grow_window(memory, own, receiver, segment.seq, segment.mapping.length.into());
        let gap = receiver.next();
        let mut accepted = Accepted { now, reassembly, memory, own, delivered, series };
        let reply = match receiver.on_next(now, segment.seq) {
            Some(reply) => {
                accepted.take(&segment.mapping);
                reply
            }
            None => accepted.take_released(receiver, segment),
        };
        Some(compressed(own, receiver, now, gap, &sender.rtt, reply))
    }

    /// The application read all there was: the buffer may grow, and with it those of the subflows.
    #[inline(never)]
    fn on_read(&mut self, now: Nanos, subflows: &mut [Subflow]) {
        let grown = self.buffer.on_read(now, self.reassembly.next(), open(subflows));
        if let Some(limit) = grown {
            let known = subflows.iter_mut().filter(|subflow| subflow.memory.ratio.is_some());
            known.for_each(|subflow| subflow.memory.grow(limit));
        }
    }

    /// The application read all there was: what waits for a delayed acknowledgement on any subflow is
    /// acknowledged now (Linux `mptcp_cleanup_rbuf`), so that the fastest one reports the open window.
    fn acknowledge_pending(&mut self, io: &mut Io, subflows: &mut [Subflow]) {
        for subflow in subflows.iter_mut().filter(|s| s.receiver.deadline() < NEVER) {
            self.acknowledge(io, subflow, false);
        }
    }
}

/// The subflow has no memory for the segment. In subflow order it is still accepted unless others
/// are stuck before it: everything may be waiting for it.
fn refuses(
    memory: &ReceiveMemory,
    own: &SubflowMemory,
    receiver: &Receiver<Mapping>,
    seq: Seq,
) -> bool {
    let exempt = seq == receiver.next() && own.stuck == 0;
    !exempt && memory.refuses(own, receiver.out_of_order_count()) && !receiver.has_received(seq)
}

/// A new segment lets the subflow offer more, up to a limit; until that is reached, and after a segment
/// that had already been acknowledged, acknowledgements are not delayed.
fn grow_window(
    memory: &mut ReceiveMemory,
    own: &mut SubflowMemory,
    receiver: &mut Receiver<Mapping>,
    seq: Seq,
    payload: u32,
) {
    if seq < receiver.next() {
        receiver.enter_quickack();
    } else if memory.grows(own, payload) {
        receiver.extend_quickack();
    }
}

/// A segment that its subflow accepted, and all that it concerns.
struct Accepted<'a> {
    now: Nanos,
    reassembly: &'a mut Reassembly,
    memory: &'a mut ReceiveMemory,
    own: &'a mut SubflowMemory,
    delivered: &'a mut Delivered,
    series: &'a mut Series,
}

impl Accepted<'_> {
    /// Passes a segment that is in subflow order to the connection.
    #[inline]
    fn take(&mut self, mapping: &Mapping) {
        let (now, payload) = (self.now, u32::from(mapping.length));
        if !admits(self.memory, self.own, mapping, self.reassembly.next()) {
            return;
        }
        match self.reassembly.on_segment(mapping.data, mapping.length) {
            Arrival::Known => return,
            Arrival::Held => self.memory.hold(now, payload),
            Arrival::Next => self.deliver(mapping),
        }
        self.series.add(now, Bytes::from(payload));
    }

    /// A segment is next in order, and those behind it that waited for it.
    #[inline]
    fn deliver(&mut self, mapping: &Mapping) {
        let mut bytes = Bytes::from(mapping.length);
        self.memory.on_delivered(self.now, mapping.length.into());
        while let Some(waited) = self.reassembly.release() {
            self.memory.release(waited);
            bytes += Bytes::from(waited);
        }
        self.delivered.add(self.now, bytes);
    }

    /// The subflow holds segments, or the segment comes out of order: passes on what is now in order.
    #[inline(never)]
    fn take_released(&mut self, receiver: &mut Receiver<Mapping>, segment: &Segment) -> Reply {
        receiver.on_segment(self.now, segment.seq, segment.mapping, |mapping| self.take(&mapping))
    }
}

/// The connection, which expects `next`, accepts a segment that is in subflow order.
fn admits(
    memory: &mut ReceiveMemory,
    own: &mut SubflowMemory,
    mapping: &Mapping,
    next: Seq,
) -> bool {
    if memory.is_full() {
        own.stuck += Bytes::from(truesize(mapping.length.into()));
        return false;
    }
    if mapping.data == next {
        memory.check_start(mapping.start);
    }
    let beyond = mapping.data >= next && memory.is_beyond(mapping.start);
    memory.beyond_window += u64::from(beyond);
    !beyond
}

/// Ranges that an acknowledgement is expected to have room for (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const RANGES_EXPECTED: usize = 2;

/// An acknowledgement is held back, and the segment begins one range more than later ones would report: what is
/// held back is sent before (Linux `tcp_sack_new_ofo_skb`, `tcp_sack_compress_send_ack`).
#[inline]
fn would_forget(subflow: &Subflow, seq: Seq) -> bool {
    let Subflow { receiver, memory, .. } = subflow;
    memory.compression.holds_back()
        && receiver.ranges() >= RANGES_EXPECTED
        && receiver.begins_range(seq)
}

/// The reply, unless an acknowledgement of a gap at `gap` is held back for now.
fn compressed(
    own: &mut SubflowMemory,
    receiver: &mut Receiver<Mapping>,
    now: Nanos,
    gap: Seq,
    rtt: &RttEstimator,
    reply: Reply,
) -> Reply {
    let behind_gap = reply == Reply::Now { duplicate: false } && receiver.next() == gap;
    if !behind_gap || receiver.in_quickack() {
        return reply;
    }
    let Some(until) = own.compression.postpone(now, gap, rtt.smallest()) else { return reply };
    receiver.acknowledge_by(until);
    Reply::Later
}
