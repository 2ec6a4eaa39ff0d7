//! The receiving half of a subflow: reassembly and acknowledgements (RFC 5681 section 4.2, RFC 2018, RFC 2883;
//! timing as in Linux `net/ipv4/tcp_input.c`).
//!
//! Data goes to the connection in subflow order, as in Linux, where the subflow's socket reassembles
//! its byte stream before MPTCP sees it.

use super::{Acknowledgement, Clock, SackBlocks, Timing};
use crate::engine::RangeSet;
use crate::units::{MILLISECOND, NEVER, Nanos, Seq};

/// Linux `TCP_DELACK_MIN`; RFC 5681 requires at most 500 ms.
pub const DELAYED_ACK: Nanos = 40 * MILLISECOND;
/// Linux `TCP_DELACK_MAX`, as long as `TCP_RTO_MIN`.
const LONGEST_DELAY: Nanos = 200 * MILLISECOND;
/// Linux `TCP_MAX_QUICKACKS`: ACKs that are not delayed at the start, for slow start, or after a duplicate segment.
pub const QUICK_ACKS: u32 = 16;

/// The receiver's response to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Acknowledge at once.
    Now {
        /// The segment had been received before.
        duplicate: bool,
    },
    /// Acknowledge with the next segment or when the delayed-ACK timer fires.
    Later,
}

/// The delay of ACKs: by a kernel's clock it follows the time between segments (Linux `tcp_event_data_recv`,
/// `tcp_send_delayed_ack`).
#[derive(Debug, Clone, Copy)]
struct Delay {
    clock: Clock,
    /// Least ticks of it (Linux `TCP_ATO_MIN`).
    least: u64,
    /// Most ticks of it: one fewer than of the least timeout (Linux `tcp_delack_max`), and by the RTT of the handshake.
    most: u64,
    bound: u64,
    /// Ticks of the delay (Linux `ato`), 0 before the first segment, and tick of the last segment (`lrcvtime`).
    ticks: u64,
    last: u64,
    /// Ticks without a segment after which ACKs are not delayed (Linux `icsk_rto`).
    silence: u64,
}

impl Delay {
    fn new(timing: &Timing) -> Self {
        let clock = timing.clock;
        let most = clock.in_ticks(timing.rto_min).max(2) - 1;
        let delay = Self {
            clock,
            least: clock.in_ticks(DELAYED_ACK),
            most,
            bound: 0,
            ticks: 0,
            last: 0,
            silence: 0,
        };
        delay.for_rtt(0)
    }

    /// The handshake took this RTT, 0 if that is unknown.
    fn for_rtt(self, rtt: Nanos) -> Self {
        let clock = self.clock;
        let bound = if rtt > 0 { rtt.clamp(DELAYED_ACK, LONGEST_DELAY) } else { LONGEST_DELAY };
        // RFC 6298 (2.2).
        let silence = clock.in_ticks(rtt + (2 * rtt).max(LONGEST_DELAY));
        Self { bound: clock.in_ticks(bound), silence, ..self }
    }

    /// A segment arrived in order. True if so long after the last that ACKs are not delayed for a while.
    #[inline]
    fn on_segment(&mut self, now: Nanos) -> bool {
        let (tick, least) = (self.clock.ticks(now), self.least);
        let elapsed = tick - std::mem::replace(&mut self.last, tick);
        if self.ticks == 0 {
            self.ticks = least;
        } else if elapsed <= least / 2 {
            self.ticks = self.ticks / 2 + least / 2;
        } else if elapsed < self.ticks {
            self.ticks = (self.ticks / 2 + elapsed).min(self.clock.in_ticks(LONGEST_DELAY));
        } else {
            return elapsed > self.silence;
        }
        false
    }

    /// Data that leave now reply to the last segment (Linux `tcp_event_data_sent`).
    fn is_reply(&self, now: Nanos) -> bool {
        !self.clock.is_exact() && self.clock.ticks(now) < self.last + self.ticks
    }

    /// Latest time of the ACK of the last segment.
    #[inline]
    fn until(&self) -> Nanos {
        self.clock.after_tick(self.last, self.ticks.min(self.bound).min(self.most))
    }
}

/// Reassembly and acknowledgement state, with a `T` for each out-of-order segment.
#[derive(Debug, Clone)]
pub struct Receiver<T> {
    next: Seq,
    out_of_order: RangeSet,
    out_of_order_count: u32,
    /// Payload of out-of-order segments, by segment number modulo the length.
    data: Vec<T>,
    newest: Seq,
    before_newest: Seq,
    unacknowledged: u32,
    quick: u32,
    deadline: Nanos,
    delay: Delay,
    ecn_per_segment: bool,
    ecn_echo: bool,
    /// Timestamps that are echoed are those of a segment's first copy.
    original: bool,
    /// Time of the last segment, if silences count.
    heard_at: Nanos,
    /// This end replies with data, and ACKs wait for these (Linux "pingpong" mode).
    replies: bool,
}

impl<T: Copy + Default> Receiver<T> {
    /// Nothing received yet. `ecn_per_segment` echoes marks as DCTCP requires.
    pub fn new(ecn_per_segment: bool) -> Self {
        Self {
            next: 0,
            out_of_order: RangeSet::default(),
            out_of_order_count: 0,
            data: Vec::new(),
            newest: 0,
            before_newest: 0,
            unacknowledged: 0,
            quick: QUICK_ACKS,
            deadline: NEVER,
            delay: Delay::new(&Timing::EXACT),
            ecn_per_segment,
            ecn_echo: false,
            original: false,
            heard_at: 0,
            replies: false,
        }
    }

    /// The same with these timers.
    pub fn with_timing(self, timing: &Timing) -> Self {
        Self { delay: Delay::new(timing), ..self }
    }

    /// The handshake took this RTT.
    pub fn note_rtt(&mut self, rtt: Nanos) {
        self.delay = self.delay.for_rtt(rtt);
    }

    /// A segment with `marked` (CE) and `reduced` (CWR) arrived; to be called before [`Self::on_segment`]. True if
    /// pending segments must be acknowledged first.
    ///
    /// RFC 3168 section 6.1.3: ECE is repeated until CWR. RFC 8257 section 3.2: with DCTCP ECE reports the marks
    /// of exactly the acknowledged segments.
    #[inline]
    pub fn on_ecn(&mut self, marked: bool, reduced: bool) -> bool {
        if self.ecn_per_segment {
            return marked != self.ecn_echo && self.unacknowledged > 0;
        }
        if marked || self.ecn_echo {
            self.ecn_echo = marked || !reduced;
        }
        false
    }

    /// A segment's timestamp; to be called before [`Self::on_segment`]. What is echoed is that of the first segment
    /// since the last ACK, if it is the next one (RFC 7323 section 4.3, Linux `tcp_replace_ts_recent`).
    #[inline]
    pub fn note_stamp(&mut self, seq: Seq, repeated: bool) {
        if seq == self.next && self.unacknowledged == 0 {
            self.original = !repeated;
        }
    }

    /// DCTCP: the mark of the segments acknowledged from now on (`DCTCP.CE`).
    #[inline]
    pub fn set_ecn_state(&mut self, marked: bool) {
        if self.ecn_per_segment {
            self.ecn_echo = marked;
        }
    }

    /// The fast path: the response to a segment at RCV.NXT with none out of order; otherwise none, see
    /// [`Self::on_segment`].
    #[inline]
    pub fn on_next(&mut self, now: Nanos, seq: Seq) -> Option<Reply> {
        if seq != self.next || !self.out_of_order.is_empty() {
            return None;
        }
        self.next += 1;
        Some(self.in_order(now))
    }

    /// A segment with payload `data` arrived; `deliver` gets the payload of each segment that is now in order.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Nanos,
        seq: Seq,
        data: T,
        mut deliver: impl FnMut(T),
    ) -> Reply {
        if seq == self.next {
            self.next += 1;
            deliver(data);
            if self.out_of_order.is_empty() {
                return self.in_order(now);
            }
            self.release(deliver);
            return Reply::Now { duplicate: false };
        }
        if self.has_received(seq) {
            return Reply::Now { duplicate: true };
        }
        self.hold(seq, data);
        Reply::Now { duplicate: false }
    }

    /// RFC 5681 section 4.2: an ACK for at least every second segment, within the timer.
    #[inline]
    fn in_order(&mut self, now: Nanos) -> Reply {
        self.unacknowledged += 1;
        if !self.delay.clock.is_exact() {
            return self.in_order_by_clock(now);
        }
        if self.unacknowledged >= 2 || self.in_quickack() {
            return Reply::Now { duplicate: false };
        }
        self.deadline = now + DELAYED_ACK;
        Reply::Later
    }

    /// The same with the timers of a kernel.
    #[inline(never)]
    fn in_order_by_clock(&mut self, now: Nanos) -> Reply {
        if self.delay.on_segment(now) {
            self.enter_quickack();
        }
        if self.unacknowledged >= 2 || self.in_quickack() {
            return Reply::Now { duplicate: false };
        }
        self.deadline = self.deadline.min(self.delay.until());
        Reply::Later
    }

    /// ACKs are currently not delayed.
    #[inline]
    pub fn in_quickack(&self) -> bool {
        self.quick > 0 && !self.replies
    }

    /// ACKs wait for data that this end sends.
    #[inline]
    pub fn awaits_reply(&self) -> bool {
        self.replies
    }

    /// This end sends data of its own on the subflow. True if they take a delayed ACK with them.
    pub fn on_data_sent(&mut self, now: Nanos) -> bool {
        self.replies |= self.delay.is_reply(now);
        self.unacknowledged > 0
    }

    /// A delayed ACK leaves without data: none are waited for until there is another reply (Linux `tcp_delack_timer_handler`).
    pub fn end_replies(&mut self) {
        if std::mem::take(&mut self.replies) {
            self.delay.ticks = self.delay.least;
        }
    }

    /// The next ACK is not delayed (Linux `tcp_grow_window`, which sets the lowest bit of the count).
    #[inline]
    pub fn extend_quickack(&mut self) {
        self.quick |= 1;
    }

    /// The next [`QUICK_ACKS`] ACKs are not delayed (Linux `tcp_enter_quickack_mode`).
    pub fn enter_quickack(&mut self) {
        self.quick = self.quick.max(QUICK_ACKS);
    }

    /// A segment arrives, perhaps after a silence of more than `rto`: the sender begins anew then, and so do the ACKs that are
    /// not delayed (Linux `tcp_event_data_recv`).
    pub fn note_silence(&mut self, now: Nanos, rto: Nanos) {
        if now > self.heard_at + rto {
            self.enter_quickack();
        }
        self.heard_at = now;
    }

    /// ACKs are delayed from now on.
    #[inline]
    pub fn leave_quickack(&mut self) {
        self.quick = 0;
    }

    /// An ACK is due by `until`.
    pub fn acknowledge_by(&mut self, until: Nanos) {
        self.deadline = self.deadline.min(until);
    }

    /// The payload of a segment that is or was out of order.
    #[inline]
    fn payload_of(&self, seq: Seq) -> T {
        self.data[seq as usize & (self.data.len() - 1)]
    }

    /// Delivers the segments behind a closed gap (RFC 5681 section 4.2: acknowledge at once).
    #[inline(never)]
    fn release(&mut self, mut deliver: impl FnMut(T)) {
        if let Some(range) = self.out_of_order.first().filter(|range| range.start == self.next) {
            self.out_of_order_count -= range.end - range.start;
            self.next = range.end;
            self.out_of_order.remove_below(self.next);
            for seq in range {
                deliver(self.payload_of(seq));
            }
        }
    }

    fn hold(&mut self, seq: Seq, data: T) {
        let distance = (seq - self.next) as usize + 1;
        if distance > self.data.len() {
            self.grow(distance.next_power_of_two().max(64));
        }
        let mask = self.data.len() - 1;
        self.data[seq as usize & mask] = data;
        self.out_of_order_count += 1;
        let before = self.out_of_order.containing(self.newest);
        self.out_of_order.insert(seq..seq + 1, |_| ());
        let grew = before.is_some_and(|range| range.end == seq || range.start == seq + 1);
        if !grew {
            self.before_newest = self.newest;
        }
        self.newest = seq;
    }

    fn grow(&mut self, len: usize) {
        let mut data = vec![T::default(); len];
        let end = self.out_of_order.end().unwrap_or(self.next);
        for seq in self.next..end {
            data[seq as usize & (len - 1)] = self.data[seq as usize & (self.data.len() - 1)];
        }
        self.data = data;
    }

    /// The acknowledgement to send; nothing is pending afterwards.
    #[inline]
    pub fn acknowledge(&mut self, duplicate: bool) -> Acknowledgement {
        self.unacknowledged = 0;
        self.quick = self.quick.saturating_sub(1);
        self.deadline = NEVER;
        let sack = if self.out_of_order.is_empty() { SackBlocks::default() } else { self.blocks() };
        let Self { next, ecn_echo, original, .. } = *self;
        Acknowledgement { next, sack, duplicate, ecn_echo, original }
    }

    /// RFC 2018 section 4: the block with the most recent segment first, then its predecessor.
    fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let first = self.out_of_order.containing(self.newest).or_else(|| self.out_of_order.first());
        let second = self.out_of_order.containing(self.before_newest);
        if let Some(first) = first {
            blocks[0] = (first.start, first.end);
            if let Some(second) = second.filter(|second| second.start != first.start) {
                blocks[1] = (second.start, second.end);
            }
        }
        blocks
    }

    /// Time of a delayed ACK, or [`NEVER`].
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// RCV.NXT.
    #[inline]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Segments out of order.
    #[inline]
    pub fn out_of_order_count(&self) -> u32 {
        self.out_of_order_count
    }

    /// The count of out-of-order segments is right.
    pub fn is_consistent(&self) -> bool {
        self.out_of_order.size() == self.out_of_order_count
    }

    /// Ranges out of order.
    #[inline]
    pub fn ranges(&self) -> usize {
        self.out_of_order.count()
    }

    /// The segment would begin a range of its own.
    pub fn begins_range(&self, seq: Seq) -> bool {
        seq > self.next
            && (seq - 1..=seq + 1).all(|near| self.out_of_order.containing(near).is_none())
    }

    /// The segment was received.
    pub fn has_received(&self, seq: Seq) -> bool {
        seq < self.next || self.out_of_order.containing(seq).is_some()
    }
}

#[cfg(test)]
mod tests;
