//! The data receiver's memory under Linux accounting: charges, the resulting window, and overflow.
//!
//! The connection is charged for its out-of-order queue (Linux `net/mptcp/protocol.c`,
//! `mptcp_data_queue_ofo`), and briefly for data that the application has not read. Packets are not
//! merged in the queues: TUN's linear buffers cannot be (`skb_try_coalesce`).
//!
//! Plain TCP has one socket: its own out-of-order queue is charged to the memory from which the window is
//! derived (Linux `net/ipv4/tcp_input.c`, `tcp_data_queue_ofo`; `include/net/tcp.h`, `tcp_space`). A
//! missing segment always finds memory there: the queue is pruned for it (`tcp_prune_queue`).

use super::charge::truesize;
use super::send::doubled;
use super::subflow::{DEFAULT_RATIO, RATIO_BITS, SubflowMemory, ratio};
use crate::mptcp::accounting::autotuning::{FIRST_RECEIVE, ReceiveTuning};
use crate::mptcp::accounting::{BufferMode, Miscount, Release};
use crate::units::{Bytes, MICROSECOND, Nanos, Seq};

/// Linux `SOCK_MIN_RCVBUF`: one packet of 2 KiB with its header.
const SMALLEST_BUFFER: Bytes = 2304;
/// Memory of the smallest segment that lets a window grow: to the memory that is free besides it (Linux
/// `tcp_grow_window`). Measured on Linux 6.18, with 64 and 128 KiB, where short segments arrived.
const LAST_STEP: Bytes = 1280;
/// Delay of the application's read after data arrived in order. Measured on Linux 6.18: ACKs that wait for it leave
/// 20 to 35 us after the segment.
const READING: Nanos = 30 * MICROSECOND;
/// Largest shift of RFC 7323 section 2.3, and the largest window without one.
const MAX_SHIFT: u32 = 14;
const UNSCALED_WINDOW: Bytes = 65_535;
/// Linux `net.core.rmem_max` since 6.18: a window that may grow has a scale for at least that much.
const LARGEST_DEFAULT: Bytes = 4 * 1024 * 1024;
/// RTTs that 7.3 remembers (Linux `MPTCP_RTT_SAMPLES`).
const RTTS: usize = 5;
/// Linux `net.ipv4.tcp_rmem[2]` where the buffer is fixed, since 6.16.
const DEFAULT_MOST: Bytes = 32 * 1024 * 1024;
/// Segments with less payload do not make the window grow (Linux `tcp_event_data_recv`).
const SMALL: u32 = 128;

/// Rule by which the connection's share of payload in memory (Linux `scaling_ratio`) follows from its subflows'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// That of the only subflow applies at once: plain TCP.
    Only,
    /// The least of all subflows, once in the longest RTT (Linux up to 6.18, `mptcp_rcv_space_adjust`). A subflow
    /// without a large segment yet, such as a standby one, counts as half: on Linux 6.18 with 275 KiB the window fell
    /// from 346,184 to 281,600 bytes when a second subflow joined, until data arrived on it.
    Least,
    /// A moving average: each subflow counts for an eighth once per window of its own (Linux 7.3,
    /// `mptcp_rcv_rtt_update`). Silent ones do not count.
    Average,
}

/// The receive memory of a connection.
#[derive(Debug)]
pub struct ReceiveMemory {
    /// `sk_rcvbuf`: of each subflow at first; of the connection now, and at most (`tcp_rmem[2]`).
    first: Bytes,
    /// Window of the SYN/ACK ([`first_offer`]).
    first_offer: Bytes,
    limit: Bytes,
    most: Bytes,
    tuning: Option<ReceiveTuning>,
    /// Payload in 256 bytes of memory (Linux `scaling_ratio`), and its rule; the end of the last RTT at which it was
    /// determined, and the end of the current (Linux `rcvq_space.time`, `rcvq_space.rtt_us`).
    ratio: Bytes,
    share: Share,
    release: Release,
    /// Of 7.3: the last RTTs, each of a window of a subflow, and the place of the next (Linux `rcv_rtt_est`).
    rtts: [Nanos; RTTS],
    next_rtt: usize,
    measured_at: Nanos,
    measured_until: Nanos,
    /// Window scale (RFC 7323).
    shift: u32,
    /// Payload of a full segment, and its charge.
    full: Bytes,
    full_cost: Bytes,
    /// The announced MSS minus timestamps (Linux `advmss`).
    segment: Bytes,
    /// Charge of a segment in the out-of-order queue of a plain TCP, and of the whole queue.
    queue_cost: Bytes,
    queued: Bytes,
    /// Memory of the out-of-order queue.
    out_of_order: Bytes,
    /// Memory of in-order data not yet read.
    unread: Bytes,
    read_at: Nanos,
    /// Payload delivered in order (Linux `ack_seq`), and the right edge of the window offered (Linux
    /// `rcv_wnd_sent`).
    delivered: Bytes,
    edge: Bytes,
    /// Times the window fell to zero.
    pub zero_windows: u64,
    /// Segments dropped because they were beyond the window.
    pub beyond_window: u64,
    /// Time at which the out-of-order queue exceeded the memory: nothing moves since.
    pub overflowed_at: Option<Nanos>,
    /// The first contradiction.
    miscount: Option<Miscount>,
}

impl ReceiveMemory {
    /// For this value of `SO_RCVBUF`, or one that grows up to this value of `net.ipv4.tcp_rmem[2]`; full segments
    /// have `full` bytes of payload, and the announced MSS minus timestamps is `segment`.
    pub fn new(mode: BufferMode, bytes: Bytes, full: u32, segment: u32) -> Self {
        match mode {
            BufferMode::Fixed => {
                let limit = doubled(bytes).max(SMALLEST_BUFFER);
                // From half the memory.
                Self::with(limit, limit, shift_for(limit / 2), full, segment)
            }
            BufferMode::Auto => {
                let most = bytes.min(i32::MAX as Bytes).max(SMALLEST_BUFFER);
                let shift = shift_for(most.max(LARGEST_DEFAULT));
                let mut memory = Self::with(most.min(FIRST_RECEIVE), most, shift, full, segment);
                memory.tuning = Some(ReceiveTuning::linux(memory.segment));
                memory
            }
        }
    }

    /// For plain TCP: its out-of-order queue is charged here too, and the measured ratio applies at once (Linux
    /// `tcp_measure_rcv_mss`, `tcp_rcvbuf_grow`).
    pub fn of_plain_tcp(self) -> Self {
        Self { queue_cost: self.full_cost, share: Share::Only, ..self }
    }

    /// As this release counts it; plain TCP is the same in all.
    pub fn of_release(self, release: Release) -> Self {
        match (self.share, release) {
            (Share::Least, Release::Linux7) => Self { share: Share::Average, release, ..self },
            _ => Self { release, ..self },
        }
    }

    /// Delay of the application's read: none in a guest, where time does not pass while a program runs, but after what
    /// the arrival causes.
    #[inline]
    fn reading(&self) -> Nanos {
        match self.release {
            Release::Linux6 => READING,
            Release::Linux7 => 1,
        }
    }

    /// The release.
    #[inline]
    pub fn release(&self) -> Release {
        self.release
    }

    fn with(limit: Bytes, most: Bytes, shift: u32, full: u32, segment: u32) -> Self {
        let full = Bytes::from(full);
        let mut memory = Self {
            first: limit,
            first_offer: first_offer(limit, segment.into()),
            limit,
            most,
            tuning: None,
            ratio: DEFAULT_RATIO,
            measured_at: 0,
            measured_until: 0,
            shift,
            full,
            full_cost: Bytes::from(truesize(full as u32)),
            segment: Bytes::from(segment),
            queue_cost: 0,
            queued: 0,
            share: Share::Least,
            release: Release::Linux6,
            rtts: [Nanos::MAX; RTTS],
            next_rtt: 0,
            out_of_order: 0,
            unread: 0,
            read_at: 0,
            delivered: 0,
            edge: 0,
            zero_windows: 0,
            beyond_window: 0,
            overflowed_at: None,
            miscount: None,
        };
        memory.edge = memory.first_offer.max(full).min(memory.rest_window());
        memory
    }

    /// The receiver opens the connection: the end of its handshake offers the window with its scale, where a SYN/ACK has none
    /// (Linux `tcp_create_openreq_child`, `mptcp_sk_clone_init`).
    pub fn open_scaled(&mut self) {
        self.edge = self.edge.max(self.scaled(self.first_window())).min(self.rest_window());
    }

    /// The largest window that a subflow may offer at first (Linux `tcp_init_buffer_space`): half the
    /// memory minus a segment.
    fn first_window(&self) -> Bytes {
        let (half, segment) = (self.first / 2, self.segment);
        if half > 2 * segment { (half - segment).max(2 * segment) } else { half }
    }

    /// A subflow's own `sk_rcvbuf`. It grows with the connection's, but a subflow that joins after the
    /// connection's has reached its limit keeps the first size (Linux `mptcp_rcv_space_adjust`).
    fn limit_of(&self, subflow: &SubflowMemory) -> Bytes {
        if self.is_growing() { subflow.grown.unwrap_or(self.first) } else { self.limit }
    }

    /// The largest window that a subflow may offer now.
    fn largest_window(&self, subflow: &SubflowMemory) -> Bytes {
        subflow.largest.unwrap_or_else(|| self.first_window())
    }

    /// Charges the full segments in the out-of-order queue of a plain TCP. Queues of MPTCP's subflows are charged to
    /// their own sockets, which do not determine the window.
    #[inline]
    pub fn charge_subflow_queue(&mut self, out_of_order: u32) {
        self.queued = Bytes::from(out_of_order) * self.queue_cost;
    }

    /// A new segment arrived on a subflow. True if the largest window that it may offer grew, by two segments for
    /// each (Linux `tcp_grow_window`); ACKs are then not delayed. Traced on Linux 6.18 with a buffer of 2 MiB: 170
    /// segments on each subflow, during which
    /// `rcv_ssthresh` (`ss -tin`) grew from 2,095,704 to 2,588,672.
    #[inline]
    pub fn grows(
        &mut self,
        now: Nanos,
        subflow: &mut SubflowMemory,
        payload: u32,
        in_order: bool,
    ) -> bool {
        let measured = subflow.measure(payload);
        let begins = subflow.begins_window(now, payload, in_order, self.first_offer);
        match self.share {
            Share::Only if measured => self.ratio = subflow.ratio.unwrap_or(DEFAULT_RATIO),
            Share::Average if begins && subflow.rtt > 0 => {
                let ratio = subflow.ratio.unwrap_or(DEFAULT_RATIO);
                self.ratio = (7 * self.ratio + ratio) >> 3;
                self.rtts[self.next_rtt] = subflow.rtt;
                self.next_rtt = (self.next_rtt + 1) % RTTS;
            }
            _ => {}
        }
        !subflow.is_largest && self.grows_further(subflow, payload)
    }

    #[inline(never)]
    fn grows_further(&self, subflow: &mut SubflowMemory, payload: u32) -> bool {
        let ratio = subflow.ratio.unwrap_or(DEFAULT_RATIO);
        let limit = self.limit_of(subflow);
        let before = self.largest_window(subflow);
        subflow.is_largest = before >= payload_in(limit - LAST_STEP, ratio);
        if subflow.is_largest || payload < SMALL {
            return false;
        }
        let (length, memory) = (Bytes::from(payload), Bytes::from(truesize(payload)));
        let largest = payload_in(limit.saturating_sub(memory), ratio);
        if before >= largest {
            return false;
        }
        let step = if payload_in(memory, ratio) <= length {
            2 * self.segment
        } else if self.is_worth(payload, before, ratio) {
            2 * subflow.received_mss()
        } else {
            return false;
        };
        subflow.largest = Some(largest.min(before + step.max(2 * length)));
        true
    }

    /// A segment that takes much memory for its payload makes a small window grow, the smaller the more memory (Linux
    /// `__tcp_grow_window`).
    fn is_worth(&self, payload: u32, window: Bytes, ratio: Bytes) -> bool {
        let most = if self.is_growing() { self.most } else { DEFAULT_MOST };
        let mut memory = payload_in(Bytes::from(truesize(payload)), ratio) / 2;
        let mut below = payload_in(most, ratio) / 2;
        while window <= below {
            if memory <= Bytes::from(payload) {
                return true;
            }
            (memory, below) = (memory / 2, below / 2);
        }
        false
    }

    /// Less than half of the memory is free: ACKs are delayed (Linux `__tcp_select_window`).
    pub fn is_half_full(&self) -> bool {
        let free = self.limit.saturating_sub(self.out_of_order + self.queued);
        payload_in(free, self.ratio) < payload_in(self.limit, self.ratio) / 2
    }

    /// A subflow joined: its ratio is the default until the first segment.
    pub fn join(&self, subflow: &mut SubflowMemory) {
        subflow.ratio.get_or_insert(DEFAULT_RATIO);
    }

    /// It grows.
    #[inline]
    fn is_growing(&self) -> bool {
        self.tuning.is_some()
    }

    /// The connection is established: the first measurement begins.
    pub fn begin(&mut self, now: Nanos) {
        self.measured_at = now;
        if let Some(tuning) = &mut self.tuning {
            tuning.begin(now);
        }
    }

    /// [`Self::on_read`] has a measurement due.
    #[inline]
    pub fn measures_on_read(&self, now: Nanos) -> bool {
        now >= self.measured_until
    }

    /// The application read: once in the longest RTT, of 7.3 the least of the last few, the ratio and the size are
    /// determined ([`Share`]). True if it grew; the memories of the subflows [follow](Self::follow).
    pub fn on_read<'a>(
        &mut self,
        now: Nanos,
        subflows: impl Iterator<Item = &'a SubflowMemory>,
    ) -> bool {
        if !self.measures_on_read(now) {
            return false;
        }
        let (mut least, mut rtt) = (Bytes::MAX, 0);
        for subflow in subflows {
            least = least.min(subflow.ratio.unwrap_or(Bytes::MAX));
            rtt = rtt.max(subflow.rtt);
        }
        if self.share == Share::Average {
            rtt = self.rtts.iter().copied().min().filter(|&rtt| rtt < Nanos::MAX).unwrap_or(0);
        } else {
            self.ratio = if least < Bytes::MAX { least } else { DEFAULT_RATIO };
        }
        if now >= self.measured_at + rtt {
            self.measured_at = now;
        }
        self.measured_until = self.measured_at + rtt;
        let delivered = self.delivered;
        let tuning = self.tuning.as_mut();
        let Some(window) = tuning.and_then(|tuning| tuning.on_read(now, rtt, delivered)) else {
            return false;
        };
        let before = self.limit;
        self.limit = before.max(memory_for(window, self.ratio).min(self.most));
        self.limit > before
    }

    /// The connection's memory grew: that of a subflow grows too, by its own ratio and by what was read when it last grew
    /// (Linux `tcp_rcvbuf_grow`).
    pub fn follow(&self, subflow: &mut SubflowMemory) {
        let Some(tuning) = &self.tuning else { return };
        let (window, read) = tuning.of_subflow(subflow.space, self.segment);
        subflow.space = Some(read);
        let ratio = subflow.ratio.unwrap_or(DEFAULT_RATIO);
        let needed = memory_for(window, ratio).min(self.most);
        subflow.grow(needed.max(self.limit_of(subflow)));
    }

    /// The right edge of the window.
    pub fn edge(&self) -> Bytes {
        self.edge
    }

    /// Bytes of `sk_rcvbuf`.
    pub fn limit(&self) -> Bytes {
        self.limit
    }

    /// The window of an empty, fully grown buffer.
    pub fn rest_window(&self) -> Bytes {
        self.scaled(payload_in(self.most - LAST_STEP, ratio(self.full as u32)))
    }

    /// The same in full segments.
    pub fn rest_segments(&self) -> Seq {
        (self.rest_window() / self.full).max(1) as Seq
    }

    /// A window that the header's 16 bits can express, rounded up.
    #[inline]
    fn scaled(&self, window: Bytes) -> Bytes {
        // Not `div_ceil`, which would divide.
        let units = (window + (1 << self.shift) - 1) >> self.shift;
        units.min(UNSCALED_WINDOW) << self.shift
    }

    /// The out-of-order queue exceeds the memory: the connection accepts nothing more from subflows (Linux
    /// `__mptcp_move_skbs_from_subflow`), not even the segment that would empty the queue.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.out_of_order > self.limit
    }

    /// Charge of a segment with this payload; nearly all are full.
    #[inline]
    fn cost(&self, payload: u32) -> Bytes {
        let is_full = Bytes::from(payload) == self.full;
        if is_full { self.full_cost } else { Bytes::from(truesize(payload)) }
    }

    /// A segment went to the out-of-order queue.
    #[inline]
    pub fn add_out_of_order(&mut self, now: Nanos, payload: u32) {
        self.out_of_order += self.cost(payload);
        if self.is_full() {
            self.overflowed_at.get_or_insert(now);
        }
    }

    /// The next in-order segment has this data sequence number (lower 32 bits).
    #[inline]
    pub fn check_in_order_start(&mut self, start: u32) {
        if start != self.delivered as u32 {
            self.miscount.get_or_insert(Miscount::Displaced);
        }
    }

    /// A segment arrived in order.
    #[inline]
    pub fn on_delivered(&mut self, now: Nanos, payload: u32) {
        self.delivered += Bytes::from(payload);
        if now >= self.read_at {
            self.unread = 0;
            self.read_at = now + self.reading();
        }
        self.unread += self.cost(payload);
    }

    /// A segment left the out-of-order queue because it is now in order; it is read at once.
    #[inline]
    pub fn remove_out_of_order(&mut self, payload: u32) {
        let cost = self.cost(payload);
        if cost > self.out_of_order {
            self.miscount.get_or_insert(Miscount::Released);
        }
        self.out_of_order = self.out_of_order.saturating_sub(cost);
        self.delivered += Bytes::from(payload);
        self.unread = 0;
    }

    /// A subflow's socket has no memory for another segment (Linux `tcp_can_ingest`): its stuck and its
    /// `out_of_order` segments exceed it.
    #[inline]
    pub fn refuses(&self, subflow: &SubflowMemory, out_of_order: u32) -> bool {
        subflow.stuck + Bytes::from(out_of_order) * self.full_cost > self.limit
    }

    /// The window that an ACK on a subflow offers, from the DATA_ACK on (Linux `__tcp_select_window`,
    /// `mptcp_set_rwin`). Its right edge, which all subflows share, never moves back, so a subflow's window shrinks by
    /// the data that others deliver. An ACK that would offer less than the last on its subflow, or at most half of the
    /// memory free after a read, is left to the application's read (`__tcp_ack_snd_check`, `mptcp_cleanup_rbuf`).
    pub fn offer(&mut self, now: Nanos, subflow: &mut SubflowMemory) -> u32 {
        let largest = self.largest_window(subflow);
        let mut free = self.free_window(0, largest, subflow);
        if now < self.read_at {
            let until_read = self.free_window(self.unread, largest, subflow);
            if until_read >= subflow.window && free < 2 * until_read {
                free = until_read;
            }
        }
        self.edge = self.edge.max(self.delivered + free);
        let window = (self.edge - self.delivered).min(UNSCALED_WINDOW << self.shift);
        self.zero_windows += u64::from(window == 0 && subflow.window > 0);
        subflow.window = window;
        // At most 65535 << 14.
        window as u32
    }

    /// Delay after which the application has read everything, none while out-of-order data is held (Linux
    /// `mptcp_cleanup_rbuf`).
    #[inline]
    pub fn read_after(&self) -> Option<Nanos> {
        (self.out_of_order == 0).then(|| self.reading())
    }

    /// After a read the window is at least twice that last offered (Linux `mptcp_cleanup_rbuf`,
    /// `__tcp_cleanup_rbuf`).
    pub fn reopens(&self, subflow: &SubflowMemory) -> bool {
        let free = self.free_window(0, self.largest_window(subflow), subflow);
        free > 0 && free >= 2 * subflow.window
    }

    /// A segment that starts here (lower 32 bits) is beyond the window, and is dropped although its subflow
    /// acknowledges it (Linux `mptcp_data_queue_ofo`).
    #[inline]
    pub fn is_beyond(&self, start: u32) -> bool {
        let ahead = start.wrapping_sub(self.delivered as u32);
        self.delivered + Bytes::from(ahead) > self.edge
    }

    /// A contradiction with `waiting`, the payloads of out-of-order segments, and `delivered` bytes.
    pub fn miscount(
        &self,
        waiting: impl Iterator<Item = u32>,
        delivered: Bytes,
    ) -> Option<Miscount> {
        let charged =
            || waiting.map(|payload| self.cost(payload)).sum::<Bytes>() == self.out_of_order;
        self.miscount
            .or_else(|| (self.delivered != delivered).then_some(Miscount::Delivered))
            .or_else(|| (!charged()).then_some(Miscount::OutOfOrder))
    }

    /// Linux `__tcp_select_window`: with less than half free, the offer is at least a segment or a sixteenth, or 0.
    fn free_window(&self, unread: Bytes, largest: Bytes, subflow: &SubflowMemory) -> Bytes {
        let whole = payload_in(self.limit, self.ratio);
        let charged = self.out_of_order + self.queued + unread;
        let mut free = payload_in(self.limit.saturating_sub(charged), self.ratio);
        if free < whole / 2 {
            free = free >> self.shift << self.shift;
            if free < whole / 16 || free < self.full.min(whole) {
                return 0;
            }
        }
        let free = free.min(largest);
        if self.shift > 0 {
            return self.scaled(free);
        }
        whole_segments(free, whole, subflow.received_mss(), subflow.window).min(UNSCALED_WINDOW)
    }
}

/// The window of the SYN/ACK, which has no scale: whole segments of half the memory (Linux `tcp_select_initial_window`).
fn first_offer(memory: Bytes, segment: Bytes) -> Bytes {
    let half = memory / 2;
    let whole = if half > segment { half / segment * segment } else { half };
    whole.min(UNSCALED_WINDOW)
}

/// The window of `free` bytes in a header without a scale: whole segments of `mss` bytes, unless the last window is
/// closer (Linux `__tcp_select_window`).
fn whole_segments(free: Bytes, whole: Bytes, mss: Bytes, last: Bytes) -> Bytes {
    let mss = mss.min(whole).max(1);
    if last + mss <= free || last > free {
        free / mss * mss
    } else if mss == whole && free > last + whole / 2 {
        free
    } else {
        last
    }
}

/// The window scale that lets the header express this window (Linux `tcp_select_initial_window`).
fn shift_for(window: Bytes) -> u32 {
    window.ilog2().saturating_sub(15).min(MAX_SHIFT)
}

/// Linux `__tcp_space_from_win`.
fn memory_for(window: Bytes, ratio: Bytes) -> Bytes {
    (window << RATIO_BITS) / ratio
}

/// Linux `__tcp_win_from_space`.
#[inline]
fn payload_in(memory: Bytes, ratio: Bytes) -> Bytes {
    (memory * ratio) >> RATIO_BITS
}

#[cfg(test)]
mod tests;
