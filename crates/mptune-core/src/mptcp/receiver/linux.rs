//! Arrival of a segment under Linux accounting: every segment is charged; without memory it stays at its subflow or is
//! dropped there (Linux `net/ipv4/tcp_input.c`, `tcp_data_queue`, `tcp_data_queue_ofo`; `net/mptcp/protocol.c`,
//! `__mptcp_move_skbs_from_subflow`).

use super::delivered::Delivered;
use super::{DataReceiver, open};
use crate::mptcp::accounting::ReceiveBuffer;
use crate::mptcp::accounting::memory::{ReceiveMemory, SubflowMemory, postponed, truesize};
use crate::mptcp::io::Io;
use crate::mptcp::packet::{Mapping, Segment};
use crate::mptcp::reassembly::{Arrival, Reassembly};
use crate::mptcp::subflow::{Phase, Subflow};
use crate::pathmanager::SubflowId;
use crate::tcp::{Receiver, Reply};
use crate::transport::Series;
use crate::units::{Bytes, NEVER, Nanos, Seq};

impl DataReceiver {
    #[inline(never)]
    pub(super) fn on_linux(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        segment: &Segment,
    ) {
        if would_lose_range(&subflows[id], segment.seq) {
            self.acknowledge(io, &mut subflows[id], false);
        }
        if self.pauses {
            let Subflow { receiver, sender, .. } = &mut subflows[id];
            receiver.note_silence(io.now, sender.rtt.rto());
        }
        let before = self.reassembly.next();
        let Some(reply) = self.take(io.now, &mut subflows[id], segment) else {
            subflows[id].memory.refused += 1;
            return self.acknowledge(io, &mut subflows[id], false);
        };
        let progress = self.reassembly.next() - before;
        self.reply(io, &mut subflows[id], reply, progress);
        if progress > 0 && self.buffer.measures_on_read(io.now) {
            self.on_read(io.now, subflows);
        }
        if progress > 0 {
            self.acknowledge_read(io, subflows, id, progress > 1);
        }
    }

    /// The subflow accepts the segment and passes on in-order data; none if it has no memory.
    fn take(&mut self, now: Nanos, subflow: &mut Subflow, segment: &Segment) -> Option<Reply> {
        let Self { reassembly, buffer: ReceiveBuffer::Linux(memory), delivered, clock, .. } = self
        else {
            return None;
        };
        let Subflow { receiver, sender, memory: own, series, .. } = subflow;
        if refuses(memory, own, receiver, segment.seq) {
            return None;
        }
        let time = clock.time(now);
        own.note_echo(time, segment.echo, segment.mapping.length.into());
        grow_window(time, memory, own, receiver, segment);
        let gap = receiver.next();
        if segment.seq == gap {
            own.note_pushed(segment.mapping.length.into(), segment.pushed);
        }
        let mut accepted = Accepted { now, reassembly, memory, own, delivered, series };
        let reply = match receiver.on_next(now, segment.seq) {
            Some(reply) => {
                accepted.take(&segment.mapping);
                reply
            }
            None => accepted.take_released(receiver, segment),
        };
        Some(compressed(own, receiver, now, gap, reply, |own| {
            postponed(memory.release(), shorter(own.rtt, sender.rtt.smallest()))
        }))
    }

    /// The application read everything: the buffer may grow, and with it those of the subflows.
    #[inline(never)]
    fn on_read(&mut self, now: Nanos, subflows: &mut [Subflow]) {
        let grown = self.buffer.on_read(now, self.reassembly.next(), open(subflows));
        if grown {
            let known = subflows.iter_mut().filter(|subflow| subflow.memory.ratio.is_some());
            known.for_each(|subflow| self.buffer.follow(&mut subflow.memory));
        }
    }

    /// The application reads what arrived in order on a subflow: pushed segments of it, or after a gap was closed of all
    /// subflows, are acknowledged then, if it leaves nothing and does not reply (Linux `mptcp_cleanup_rbuf`,
    /// `__tcp_cleanup_rbuf`); and all delayed ACKs are sent if the window opens widely.
    #[inline]
    fn acknowledge_read(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        closed: bool,
    ) {
        let read = if closed { &mut *subflows } else { &mut subflows[id..=id] };
        let reading = self.buffer.read_after();
        let is_pending =
            |s: &&mut Subflow| s.phase != Phase::Closed && s.receiver.deadline() < NEVER;
        for subflow in read.iter_mut().filter(is_pending) {
            let Subflow { receiver, memory, ack_timer, .. } = subflow;
            let is_empty = memory.stuck == 0 && receiver.out_of_order_count() == 0;
            let is_read = memory.pushed && is_empty && !receiver.awaits_reply();
            if let Some(reading) = reading.filter(|_| is_read) {
                receiver.acknowledge_by(io.now + reading);
                io.queue.set_no_later(*ack_timer, receiver.deadline());
            } else if closed && self.buffer.reopens(memory) {
                self.acknowledge(io, subflow, false);
            }
        }
    }
}

/// The subflow has no memory for the segment. An in-order segment is still accepted unless others are stuck before it:
/// all data may wait for it.
fn refuses(
    memory: &ReceiveMemory,
    own: &SubflowMemory,
    receiver: &Receiver<Mapping>,
    seq: Seq,
) -> bool {
    let exempt = seq == receiver.next() && own.stuck == 0;
    !exempt && memory.refuses(own, receiver.out_of_order_count()) && !receiver.has_received(seq)
}

/// A new segment lets the subflow offer more, up to a limit; until then, and after a duplicate segment, ACKs are not
/// delayed.
fn grow_window(
    now: Nanos,
    memory: &mut ReceiveMemory,
    own: &mut SubflowMemory,
    receiver: &mut Receiver<Mapping>,
    segment: &Segment,
) {
    if segment.seq < receiver.next() {
        receiver.end_replies();
        receiver.enter_quickack();
        return;
    }
    let (payload, in_order) = (u32::from(segment.mapping.length), segment.seq == receiver.next());
    if memory.grows(now, own, payload, in_order) {
        receiver.extend_quickack();
    }
}

/// A segment that its subflow accepted, and the state that it changes.
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
    #[inline(always)]
    fn take(&mut self, mapping: &Mapping) {
        let (now, payload) = (self.now, u32::from(mapping.length));
        if !accepts(self.memory, self.own, mapping, self.reassembly.next()) {
            return;
        }
        match self.reassembly.on_segment(mapping.data, mapping.length) {
            Arrival::Duplicate => return,
            Arrival::OutOfOrder => self.memory.add_out_of_order(now, payload),
            Arrival::InOrder => self.deliver(mapping),
        }
        self.series.add(now, Bytes::from(payload));
    }

    /// Delivers the next segment, and those that waited for it.
    #[inline]
    fn deliver(&mut self, mapping: &Mapping) {
        let mut bytes = Bytes::from(mapping.length);
        self.memory.on_delivered(self.now, mapping.length.into());
        while let Some(waited) = self.reassembly.release() {
            self.memory.remove_out_of_order(waited);
            bytes += Bytes::from(waited);
        }
        self.delivered.add(self.now, bytes);
    }

    /// Off the fast path: passes on the segments that are now in order.
    #[inline(never)]
    fn take_released(&mut self, receiver: &mut Receiver<Mapping>, segment: &Segment) -> Reply {
        receiver.on_segment(self.now, segment.seq, segment.mapping, |mapping| self.take(&mapping))
    }
}

/// The connection, which expects `next`, accepts a segment in subflow order.
fn accepts(
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
        memory.check_in_order_start(mapping.start);
    }
    let beyond = mapping.data >= next && memory.is_beyond(mapping.start);
    memory.beyond_window += u64::from(beyond);
    !beyond
}

/// SACK ranges that an ACK has room for (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const RANGES_EXPECTED: usize = 2;

/// A compressed ACK is pending, and the segment begins a range that would displace one from it: the ACK is sent before
/// (Linux `tcp_sack_new_ofo_skb`, `tcp_sack_compress_send_ack`).
#[inline]
fn would_lose_range(subflow: &Subflow, seq: Seq) -> bool {
    let Subflow { receiver, memory, .. } = subflow;
    memory.compression.is_pending()
        && receiver.ranges() >= RANGES_EXPECTED
        && receiver.begins_range(seq)
}

/// The reply, at most `longest` later if the ACK of a gap at `gap` is compressed.
fn compressed(
    own: &mut SubflowMemory,
    receiver: &mut Receiver<Mapping>,
    now: Nanos,
    gap: Seq,
    reply: Reply,
    longest: impl Fn(&SubflowMemory) -> Nanos,
) -> Reply {
    let behind_gap = reply == Reply::Now { duplicate: false } && receiver.next() == gap;
    if !behind_gap || receiver.in_quickack() {
        return reply;
    }
    if !own.compression.postpones(gap) {
        return reply;
    }
    receiver.acknowledge_by(now + longest(own));
    Reply::Later
}

/// The receiver's estimate of the RTT, or that of its handshake if it is shorter, for which the sender's smallest stands;
/// 0 is unknown.
fn shorter(estimate: Nanos, smallest: Nanos) -> Nanos {
    if estimate > 0 && (smallest == 0 || estimate < smallest) { estimate } else { smallest }
}
