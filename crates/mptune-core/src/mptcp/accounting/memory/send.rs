//! The data sender's memory under Linux accounting: lengths of segments, and the room to send (Linux
//! `net/mptcp/protocol.c`, `mptcp_sendmsg_frag`, `mptcp_check_allowed_size`).

use crate::engine::Ring;
use crate::mptcp::send_queue::PACKET_OVERHEAD;
use crate::units::{Bytes, Nanos, Seq};
use std::collections::VecDeque;

/// Linux `SOCK_MIN_SNDBUF`: two packets of 2 KiB with their headers.
const SMALLEST_BUFFER: Bytes = 4608;
/// Memory of a packet in a subflow's send queue besides its payload: 832 bytes for each buffer (`struct
/// sk_buff` with its clone and head), two segments in a buffer while the window opens by two segments
/// with each acknowledgement. Measured on Linux 6.18: 14,144 bytes for 17 buffers with 32 segments.
const OVERHEAD: u32 = 416;

/// The send buffer is a list of fragments in order-3 pages of 32 KiB, each after a Linux `struct mptcp_data_frag`: a
/// scheduler's burst ends with a fragment.
const HEADER: Bytes = 40;
const FRAGMENT: Bytes = 32_768 - HEADER;

/// Fragments from a position on: up to the end of the first, and whole ones after it.
#[derive(Debug, Clone, Copy)]
struct Fragments {
    begin: Bytes,
    first_end: Bytes,
}

impl Fragments {
    /// End of the fragment of a byte at or after their beginning.
    fn end(self, byte: Bytes) -> Bytes {
        if byte < self.first_end {
            return self.first_end;
        }
        self.first_end + ((byte - self.first_end) / FRAGMENT + 1) * FRAGMENT
    }
}
/// Delay of the application's write after there is room for it: data leaves with the ACK that made room for it, as on a
/// guest's Linux 7.3.
pub const WRITING: Nanos = 0;

/// Linux doubles the value, limited to what fits an `int`.
pub(super) fn doubled(value: Bytes) -> Bytes {
    value.saturating_mul(2).min(i32::MAX as Bytes)
}

/// `sk_sndbuf` for this value of `SO_SNDBUF`.
pub fn fixed_limit(buffer: Bytes) -> Bytes {
    doubled(buffer).max(SMALLEST_BUFFER)
}

/// Full segments in a send queue of this much memory, at least one.
fn packets_in(memory: Bytes, full: u32) -> Bytes {
    (memory / Bytes::from(full + OVERHEAD)).max(1)
}

/// Their payload.
fn payload_of_packets(memory: Bytes, full: u32) -> Bytes {
    packets_in(memory, full) * Bytes::from(full)
}

/// Start and length of a segment in the data sequence space.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Its first byte.
    pub start: Bytes,
    /// Payload bytes.
    pub length: u16,
}

impl Extent {
    /// Payload bytes.
    #[inline]
    pub fn length(&self) -> u32 {
        u32::from(self.length)
    }
}

/// The sender's side of the data sequence space, in bytes.
#[derive(Debug)]
pub struct SendMemory {
    full: u32,
    /// `sk_sndbuf`; of packets, their payload that fits it.
    limit: Bytes,
    /// Charge of a full segment in a subflow's send queue.
    cost: u32,
    /// The bytes are in fragments, not in packets; and both ends of the fragment of `next`.
    has_fragments: bool,
    fragment_begin: Bytes,
    fragment_end: Bytes,
    /// Bytes of the whole workload, and of what the program has offered so far: of a transfer at once all.
    total: Bytes,
    offered: Bytes,
    /// DATA_ACKed; handed to subflows; written by the application; the right edge of the receiver's
    /// window (Linux `snd_una`, `snd_nxt`, `write_seq`, `wnd_end`).
    una: Bytes,
    next: Bytes,
    written: Bytes,
    edge: Bytes,
    /// End of the data that may be handed to subflows: the lesser of the last two.
    sendable: Bytes,
    /// The newest segment is short and may be filled up: only one subflow has it, unsent.
    newest_is_short: bool,
    /// Each segment that is not DATA_ACKed.
    segments: Ring<Extent>,
    /// Fragments from the beginning and from writes on while nothing waited to be handed over (Linux
    /// `mptcp_frag_can_collapse_to`, of the tail of what is pending). Those before that of `una` may be left.
    begins: VecDeque<Fragments>,
}

impl SendMemory {
    /// An empty buffer with this value of `sk_sndbuf`, which may change, for `total` bytes in all; the
    /// receiver's window ends at `edge`.
    pub fn new(limit: Bytes, full: u32, total: Bytes, edge: Bytes) -> Self {
        Self::filled(full, limit, full + OVERHEAD, true, total, edge)
    }

    /// The same for plain TCP, whose packets take the memory (Linux `net/ipv4/tcp.c`, `tcp_sendmsg_locked`;
    /// `include/net/sock.h`, `sk_stream_memory_free`).
    pub fn of_packets(limit: Bytes, full: u32, total: Bytes, edge: Bytes) -> Self {
        Self::filled(full, payload_of_packets(limit, full), full, false, total, edge)
    }

    fn filled(
        full: u32,
        limit: Bytes,
        cost: u32,
        has_fragments: bool,
        total: Bytes,
        edge: Bytes,
    ) -> Self {
        let mut memory = Self {
            full,
            limit,
            cost,
            has_fragments,
            fragment_begin: 0,
            fragment_end: if has_fragments { FRAGMENT } else { Bytes::MAX },
            total,
            offered: total,
            una: 0,
            next: 0,
            written: 0,
            edge,
            sendable: 0,
            newest_is_short: false,
            segments: Ring::new(),
            begins: VecDeque::from([Fragments { begin: 0, first_end: FRAGMENT }]),
        };
        memory.write();
        memory
    }

    /// The buffer grew to this value of `sk_sndbuf`.
    pub fn set_limit(&mut self, limit: Bytes) {
        self.limit = self.limit.max(self.queue_memory(limit));
    }

    /// The application waits for room.
    pub fn is_application_waiting(&self) -> bool {
        self.written < self.offered
    }

    /// The application waits for room and there is enough (Linux `sk_stream_is_writeable`: a third of
    /// the buffer).
    pub fn wakes_application(&self) -> bool {
        self.written < self.offered && self.written - self.una <= self.limit / 3 * 2
    }

    /// The application writes until the buffer is full, to the end of a fragment (Linux
    /// `mptcp_sendmsg`).
    pub fn write(&mut self) {
        let full = self.una + self.limit;
        // The last byte that it has room for, to the end of its fragment.
        let until = match self.begins.back() {
            Some(newest) if self.has_fragments && full > newest.begin => newest.end(full - 1),
            _ => full,
        };
        self.written = self.written.max(until).min(self.offered);
        self.sendable = self.written.min(self.edge);
    }

    /// The program offers nothing before [`Self::offer`].
    pub fn wait_for_offers(&mut self) {
        (self.offered, self.written, self.sendable) = (0, 0, 0);
    }

    /// The program offers more, and writes it unless it still waits for room for what it offered before.
    pub fn offer(&mut self, bytes: Bytes) {
        let waits = self.is_application_waiting();
        if self.next == self.offered && self.has_fragments {
            self.begin_fragment();
        }
        self.offered += bytes;
        if !waits {
            self.write();
        }
    }

    /// A write finds nothing waiting: a fragment begins, in the rest of the page of the newest, or at the beginning of the
    /// page if nothing else is in it any more (Linux `skb_page_frag_refill`, `mptcp_carve_data_frag`).
    fn begin_fragment(&mut self) {
        while self.begins.get(1).is_some_and(|later| later.begin <= self.una) {
            self.begins.pop_front();
        }
        let (left, is_full) = (self.fragment_left(), self.begins_fragment());
        let goes_on = self.una < self.next && left > HEADER && !is_full;
        self.fragment_begin = self.next;
        self.fragment_end = self.next + if goes_on { left - HEADER } else { FRAGMENT };
        self.begins.push_back(Fragments { begin: self.next, first_end: self.fragment_end });
    }

    /// Some of what the program offered was not handed to a subflow; in segments.
    pub fn left(&self) -> Seq {
        (self.offered - self.next).div_ceil(Bytes::from(self.full)).min(Bytes::from(Seq::MAX))
            as Seq
    }

    /// Segments that fit the send buffer of one subflow, which has the size of the connection's.
    pub fn subflow_segments(&self) -> Seq {
        (self.limit / Bytes::from(self.cost)).max(1) as Seq
    }

    /// Memory of the send buffer of a subflow with this value of `sk_sndbuf`; of packets, their payload that fits it.
    pub fn queue_memory(&self, buffer: Bytes) -> Bytes {
        if self.has_fragments { buffer } else { payload_of_packets(buffer, self.full) }
    }

    /// The same of a subflow whose buffer has the size of the connection's.
    pub fn subflow_memory(&self) -> Bytes {
        self.limit
    }

    /// Memory of a packet in a subflow's send queue besides its payload; 0 where packets are counted by their payload.
    pub fn packet_overhead(&self) -> Bytes {
        if self.has_fragments { PACKET_OVERHEAD } else { 0 }
    }

    /// Payload bytes handed to subflows so far.
    pub fn sent(&self) -> Bytes {
        self.next
    }

    /// Payload bytes that are DATA_ACKed.
    pub fn acked(&self) -> Bytes {
        self.una
    }

    /// Everything was handed to subflows.
    pub fn is_finished(&self) -> bool {
        self.next == self.total
    }

    /// The workload ends with the data handed to subflows.
    pub fn finish(&mut self) {
        (self.total, self.offered) = (self.next, self.next);
        self.written = self.next;
        self.sendable = self.written.min(self.edge);
    }

    /// Bytes that may be handed to subflows now.
    #[inline]
    fn room(&self) -> Bytes {
        self.sendable.saturating_sub(self.next)
    }

    /// Segments that may be handed to subflows now. With `cut`, for a scheduler that hands over data ahead of cwnd, the
    /// window's edge may cut a segment; TCP sends such a part only with nothing in flight (RFC 9293 section
    /// 3.8.6.2.1).
    #[inline]
    pub fn segments(&self, cut: bool) -> Seq {
        let room = self.room();
        let full = Bytes::from(self.full);
        let whole = (room / full) as Seq;
        let rest = !room.is_multiple_of(full);
        let is_last = room == self.offered - self.next;
        whole + Seq::from(rest && (cut || is_last || self.next == self.una))
    }

    /// Bytes up to the end of the fragment.
    #[inline]
    fn fragment_left(&self) -> Bytes {
        self.fragment_end - self.next
    }

    /// The next segment is the first of a fragment.
    #[inline]
    pub fn begins_fragment(&self) -> bool {
        !self.has_fragments || self.next == self.fragment_begin
    }

    /// Hands over more bytes, at most the rest of the fragment.
    #[inline]
    fn advance(&mut self, bytes: Bytes) {
        self.next += bytes;
        if self.next == self.fragment_end {
            self.fragment_begin = self.next;
            self.fragment_end += FRAGMENT;
        }
    }

    /// Hands over the next segment, as long as window and fragment allow.
    #[inline]
    pub fn take(&mut self) -> Extent {
        let length = self.room().min(Bytes::from(self.full)).min(self.fragment_left());
        let segment = Extent { start: self.next, length: length as u16 };
        self.newest_is_short = length < Bytes::from(self.full);
        self.segments.push(segment);
        self.advance(length);
        segment
    }

    /// Fills up the newest segment in a subflow's send queue. True if it was short.
    pub fn fill_up(&mut self, newest: Seq) -> bool {
        let missing = Bytes::from(self.full - self.length(newest));
        let more = self.room().min(missing).min(self.fragment_left());
        self.newest_is_short = more < missing;
        self.segments.at_mut(newest).length += more as u16;
        self.advance(more);
        more > 0
    }

    /// Fixes a segment's length before another copy of it is made.
    #[inline]
    pub fn settle(&mut self, data: Seq, newest: Seq) {
        self.newest_is_short &= data != newest;
    }

    /// The newest segment is short and may be filled up.
    #[inline]
    pub fn newest_is_short(&self) -> bool {
        self.newest_is_short
    }

    /// A segment, until it is DATA_ACKed.
    #[inline]
    pub fn segment(&self, data: Seq) -> Option<&Extent> {
        self.segments.get(data)
    }

    /// Payload bytes of a segment that is not DATA_ACKed.
    #[inline]
    pub fn length(&self, data: Seq) -> u32 {
        self.segments.at(data).length()
    }

    /// Start of a segment that is not DATA_ACKed.
    #[inline]
    pub fn start(&self, data: Seq) -> Bytes {
        self.segments.at(data).start
    }

    /// The first segment of the next fragment after one that is not DATA_ACKed, among those before `next`.
    pub fn next_fragment(&self, data: Seq, next: Seq) -> Seq {
        let start = self.start(data);
        let later = self.begins.partition_point(|fragments| fragments.begin <= start);
        let begin = self.begins.get(later).map_or(Bytes::MAX, |later| later.begin);
        let end = self.begins[later - 1].end(start).min(begin);
        (data..next).find(|&later| self.start(later) >= end).unwrap_or(next)
    }

    /// Bytes that may be under way: the smaller of the receiver's window and the send buffer.
    pub fn window(&self) -> Bytes {
        self.edge.saturating_sub(self.una).min(self.limit)
    }

    /// Written, within the receiver's window, and not yet handed to subflows (Linux `__mptcp_check_push`).
    pub fn has_unsent(&self) -> bool {
        self.next < self.sendable
    }

    /// Segments from the next one to the right edge of the receiver's window.
    pub fn open_window(&self) -> Seq {
        let bytes = self.edge.saturating_sub(self.next);
        bytes.div_ceil(Bytes::from(self.full)).min(Bytes::from(Seq::MAX)) as Seq
    }

    /// The window from there on (Linux `mptcp_check_allowed_size`).
    #[inline]
    pub fn window_from(&self, start: Bytes) -> u32 {
        u32::try_from(self.edge.saturating_sub(start)).unwrap_or(u32::MAX)
    }

    /// The first `segments` segments are DATA_ACKed.
    #[inline]
    pub fn on_data_ack(&mut self, segments: Seq) {
        self.segments.skip(segments);
        self.una = self.segments.front().map_or(self.next, |first| first.start);
    }

    /// Its bytes are those of `segments` segments, all written and offered.
    pub fn is_consistent(&self, segments: Seq) -> bool {
        let bytes: Bytes = self.segments.iter().map(|extent| Bytes::from(extent.length)).sum();
        self.segments.len() == segments as usize
            && self.una + bytes == self.next
            && self.next <= self.sendable
            && self.sendable == self.written.min(self.edge)
            && self.written <= self.offered
            && self.offered <= self.total
    }

    /// The receiver offers this much from the DATA_ACK on.
    #[inline]
    pub fn on_window(&mut self, window: u32) {
        self.edge = self.edge.max(self.una + Bytes::from(window));
        self.sendable = self.written.min(self.edge);
    }
}

#[cfg(test)]
mod tests;
