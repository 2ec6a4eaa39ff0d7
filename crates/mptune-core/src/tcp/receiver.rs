//! The receiving half of a subflow: reassembly, and when to acknowledge (RFC 5681 section 4.2, RFC
//! 2018, RFC 2883; timing as in Linux `net/ipv4/tcp_input.c`).
//!
//! Data goes to the connection in subflow order, as in Linux, where the subflow's socket reassembles
//! its byte stream before MPTCP sees it.

use super::{Acknowledgement, SackBlocks};
use crate::engine::RangeSet;
use crate::units::{MILLISECOND, NEVER, Nanos, Seq};

/// Linux `TCP_DELACK_MIN`; RFC 5681 requires at most 500 ms.
pub const DELAYED_ACK: Nanos = 40 * MILLISECOND;
/// Linux `TCP_MAX_QUICKACKS`: this many ACKs at the start, or after a segment that was received before, are not
/// delayed, so that slow start is not slowed down.
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

/// Reassembly and acknowledgement state. It keeps a `T` for each segment that it holds.
#[derive(Debug, Clone)]
pub struct Receiver<T> {
    next: Seq,
    held: RangeSet,
    /// Segments held out of order.
    holding: u32,
    /// What came with held segments, by segment number modulo the length.
    data: Vec<T>,
    newest: Seq,
    before_newest: Seq,
    unacknowledged: u32,
    quick: u32,
    deadline: Nanos,
    ecn_per_segment: bool,
    ecn_echo: bool,
}

impl<T: Copy + Default> Receiver<T> {
    /// Nothing received yet. `ecn_per_segment` echoes marks as DCTCP requires.
    pub fn new(ecn_per_segment: bool) -> Self {
        Self {
            next: 0,
            held: RangeSet::default(),
            holding: 0,
            data: Vec::new(),
            newest: 0,
            before_newest: 0,
            unacknowledged: 0,
            quick: QUICK_ACKS,
            deadline: NEVER,
            ecn_per_segment,
            ecn_echo: false,
        }
    }

    /// A segment with this mark (CE) and this sign of a reduction (CWR) arrived; to be called before
    /// [`Self::on_segment`]. Returns whether pending segments must be acknowledged first.
    ///
    /// RFC 3168 section 6.1.3: the echo is repeated until the sender says that it obeyed. RFC 8257 section 3.2:
    /// with DCTCP it says whether exactly the acknowledged segments were marked.
    #[inline]
    pub fn on_ecn(&mut self, marked: bool, reduced: bool) -> bool {
        if self.ecn_per_segment {
            return marked != self.ecn_echo && self.unacknowledged > 0;
        }
        self.ecn_echo = marked || (self.ecn_echo && !reduced);
        false
    }

    /// DCTCP: whether segments acknowledged from now on are marked ones.
    #[inline]
    pub fn set_ecn_state(&mut self, marked: bool) {
        if self.ecn_per_segment {
            self.ecn_echo = marked;
        }
    }

    /// The segment that is expected arrived while none is held, as nearly all do: the response. None if it is
    /// another one, or others may follow it: see [`Self::on_segment`].
    #[inline]
    pub fn on_next(&mut self, now: Nanos, seq: Seq) -> Option<Reply> {
        if seq != self.next || !self.held.is_empty() {
            return None;
        }
        self.next += 1;
        Some(self.in_order(now))
    }

    /// A segment arrived, and `data` with it; `deliver` is called with what came with each segment that is now
    /// in subflow order.
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
            if self.held.is_empty() {
                return self.in_order(now);
            }
            self.release(deliver);
            return Reply::Now { duplicate: false };
        }
        if self.knows(seq) {
            return Reply::Now { duplicate: true };
        }
        self.hold(seq, data);
        Reply::Now { duplicate: false }
    }

    /// RFC 5681 section 4.2: an ACK for at least every second segment, within the timer.
    #[inline]
    fn in_order(&mut self, now: Nanos) -> Reply {
        self.unacknowledged += 1;
        if self.unacknowledged >= 2 || self.is_quick() {
            return Reply::Now { duplicate: false };
        }
        self.deadline = now + DELAYED_ACK;
        Reply::Later
    }

    /// Acknowledgements are currently not delayed.
    #[inline]
    pub fn is_quick(&self) -> bool {
        self.quick > 0
    }

    /// At least the next acknowledgement is not delayed (Linux `tcp_grow_window`, which sets the lowest bit of
    /// the count).
    #[inline]
    pub fn stay_quick(&mut self) {
        self.quick |= 1;
    }

    /// As many acknowledgements as at the start are not delayed (Linux `tcp_enter_quickack_mode`).
    pub fn be_quick(&mut self) {
        self.quick = self.quick.max(QUICK_ACKS);
    }

    /// From now on acknowledgements are delayed again.
    #[inline]
    pub fn be_slow(&mut self) {
        self.quick = 0;
    }

    /// An acknowledgement is due by `until`.
    pub fn acknowledge_by(&mut self, until: Nanos) {
        self.deadline = self.deadline.min(until);
    }

    /// What came with a segment that is or was held.
    #[inline]
    fn data_of(&self, seq: Seq) -> T {
        self.data[seq as usize & (self.data.len() - 1)]
    }

    /// The segment just received may have closed a gap (RFC 5681 section 4.2: acknowledge at once).
    #[inline(never)]
    fn release(&mut self, mut deliver: impl FnMut(T)) {
        if let Some(range) = self.held.first().filter(|range| range.start == self.next) {
            self.holding -= range.end - range.start;
            self.next = range.end;
            self.held.remove_below(self.next);
            for seq in range {
                deliver(self.data_of(seq));
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
        self.holding += 1;
        let before = self.held.containing(self.newest);
        self.held.insert(seq..seq + 1, |_| ());
        let grew = before.is_some_and(|range| range.end == seq || range.start == seq + 1);
        if !grew {
            self.before_newest = self.newest;
        }
        self.newest = seq;
    }

    fn grow(&mut self, len: usize) {
        let mut data = vec![T::default(); len];
        let end = self.held.end().unwrap_or(self.next);
        for seq in self.next..end {
            data[seq as usize & (len - 1)] = self.data[seq as usize & (self.data.len() - 1)];
        }
        self.data = data;
    }

    /// Returns the content of an acknowledgement that is being sent. Clears what was pending.
    #[inline]
    pub fn acknowledge(&mut self, duplicate: bool) -> Acknowledgement {
        self.unacknowledged = 0;
        self.quick = self.quick.saturating_sub(1);
        self.deadline = NEVER;
        let sack = if self.held.is_empty() { SackBlocks::default() } else { self.blocks() };
        Acknowledgement { next: self.next, sack, duplicate, ecn_echo: self.ecn_echo }
    }

    /// RFC 2018 section 4: first the block with the most recent segment, then the one before.
    fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let first = self.held.containing(self.newest).or_else(|| self.held.first());
        let second = self.held.containing(self.before_newest);
        if let Some(first) = first {
            blocks[0] = (first.start, first.end);
            if let Some(second) = second.filter(|second| second.start != first.start) {
                blocks[1] = (second.start, second.end);
            }
        }
        blocks
    }

    /// When a delayed acknowledgement is due, or [`NEVER`].
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Segments received in subflow order.
    #[inline]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Segments held out of order.
    #[inline]
    pub fn holding(&self) -> u32 {
        self.holding
    }

    /// It holds as many as it counted.
    pub fn is_consistent(&self) -> bool {
        self.held.size() == self.holding
    }

    /// Ranges held out of order.
    #[inline]
    pub fn ranges(&self) -> usize {
        self.held.count()
    }

    /// The segment is held next to no other: it begins a range.
    pub fn begins_range(&self, seq: Seq) -> bool {
        seq > self.next && (seq - 1..=seq + 1).all(|near| self.held.containing(near).is_none())
    }

    /// The segment was received before.
    pub fn knows(&self, seq: Seq) -> bool {
        seq < self.next || self.held.containing(seq).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_ONCE: Reply = Reply::Now { duplicate: false };

    /// A receiver past its quick ACKs, expecting segment 16.
    fn settled() -> Receiver<Seq> {
        let mut receiver = Receiver::new(false);
        for seq in 0..16 {
            assert_eq!(receiver.on_segment(0, seq, seq, |_| ()), AT_ONCE);
            receiver.acknowledge(false);
        }
        receiver
    }

    #[test]
    fn every_second_segment_is_acknowledged() {
        // RFC 5681 section 4.2: "an ACK SHOULD be generated for at least every second full-sized
        // segment, and MUST be generated within 500 ms".
        let mut receiver = settled();
        assert_eq!(receiver.on_segment(5, 16, 16, |_| ()), Reply::Later);
        assert_eq!(receiver.deadline(), 5 + DELAYED_ACK);
        assert_eq!(receiver.on_segment(6, 17, 17, |_| ()), AT_ONCE);
        assert_eq!(receiver.acknowledge(false).next, 18);
        assert_eq!(receiver.deadline(), NEVER);
    }

    #[test]
    fn while_the_window_grows_every_segment_is_acknowledged() {
        // Linux `tcp_grow_window`: traced on 6.18, 170 segments with SO_RCVBUF of 2 MiB.
        let mut receiver = settled();
        for seq in 16..50 {
            receiver.stay_quick();
            assert_eq!(receiver.on_segment(0, seq, seq, |_| ()), AT_ONCE);
            receiver.acknowledge(false);
        }
        assert_eq!(receiver.on_segment(0, 50, 50, |_| ()), Reply::Later);
        receiver.acknowledge(false);
        // Linux `tcp_enter_quickack_mode`, and `__tcp_select_window` when half the memory is taken.
        receiver.be_quick();
        assert_eq!(receiver.on_segment(0, 51, 51, |_| ()), AT_ONCE);
        receiver.acknowledge(false);
        receiver.be_slow();
        assert_eq!(receiver.on_segment(0, 52, 52, |_| ()), Reply::Later);
    }

    #[test]
    fn out_of_order_segments_are_acknowledged_at_once_with_the_newest_block_first() {
        let mut receiver = settled();
        assert_eq!(receiver.on_segment(0, 18, 18, |_| ()), AT_ONCE);
        receiver.on_segment(0, 19, 19, |_| ());
        assert_eq!(receiver.acknowledge(false).sack, [(18, 20), (0, 0)]);
        receiver.on_segment(0, 22, 22, |_| ());
        assert_eq!(receiver.acknowledge(false).sack, [(22, 23), (18, 20)]);
        receiver.on_segment(0, 20, 20, |_| ());
        assert_eq!(receiver.acknowledge(false).sack, [(18, 21), (22, 23)]);
    }

    #[test]
    fn a_segment_beside_no_other_begins_a_range() {
        let mut receiver = settled();
        for seq in [18, 22] {
            receiver.on_segment(0, seq, seq, |_| ());
        }
        let begins: Vec<_> = (14..25).filter(|&seq| receiver.begins_range(seq)).collect();
        assert_eq!((begins, receiver.ranges()), (vec![20, 24], 2));
    }

    #[test]
    fn a_filled_gap_is_acknowledged_at_once_and_delivers_what_waited() {
        let mut receiver = settled();
        receiver.on_segment(0, 17, 170, |_| ());
        let mut delivered = Vec::new();
        assert_eq!(receiver.on_segment(0, 16, 160, |data| delivered.push(data)), AT_ONCE);
        assert_eq!(delivered, [160, 170]);
        assert_eq!(receiver.acknowledge(false), Acknowledgement { next: 18, ..Default::default() });
    }

    #[test]
    fn a_segment_received_before_is_reported_as_duplicate() {
        let mut receiver = settled();
        receiver.on_segment(0, 18, 18, |_| ());
        for seq in [3, 18] {
            let reply = receiver.on_segment(0, seq, seq, |_| panic!("delivered twice"));
            assert_eq!(reply, Reply::Now { duplicate: true });
        }
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_says_that_it_obeyed() {
        // RFC 3168 section 6.1.3.
        let mut receiver = settled();
        let mut receive = |seq, marked, reduced| {
            assert!(!receiver.on_ecn(marked, reduced));
            receiver.on_segment(0, seq, seq, |_| ());
            receiver.acknowledge(false).ecn_echo
        };
        let echoes = [(false, false), (true, false), (false, false), (false, true), (false, false)];
        let echoes: Vec<_> = (16..).zip(echoes).map(|(seq, (m, r))| receive(seq, m, r)).collect();
        assert_eq!(echoes, [false, true, true, false, false]);
    }

    #[test]
    fn dctcp_acknowledges_before_the_mark_changes() {
        // RFC 8257 section 3.2, figure 1.
        let mut receiver = Receiver::new(true);
        receiver.quick = 0;
        assert!(!receiver.on_ecn(false, false));
        receiver.on_segment(0, 0, 0, |_| ());
        assert!(receiver.on_ecn(true, false), "segment 0 was not marked, 1 is");
        assert!(!receiver.acknowledge(false).ecn_echo);
        receiver.set_ecn_state(true);
        receiver.on_segment(0, 1, 1, |_| ());
        assert!(receiver.acknowledge(false).ecn_echo);
    }

    proptest! {
        #[test]
        fn delivers_every_segment_once_in_order(order in Just((0u32..200).collect::<Vec<_>>()).prop_shuffle(),
                                                twice in prop::collection::vec(0usize..200, 0..50)) {
            let mut arrivals = order.clone();
            for at in twice {
                arrivals.insert(at, order[at]);
            }
            let mut receiver = Receiver::new(false);
            let mut delivered = Vec::new();
            for seq in arrivals {
                let mut short = receiver.clone();
                let expected = short.on_next(0, seq);
                let reply = receiver.on_segment(0, seq, seq * 3, |data| delivered.push(data));
                // The short way, where it may be taken, leads where the other does.
                if expected.is_some() {
                    prop_assert_eq!(expected, Some(reply));
                    prop_assert_eq!(format!("{short:?}"), format!("{receiver:?}"));
                }
                let ack = receiver.acknowledge(false);
                prop_assert_eq!(ack.next as usize, delivered.len());
                let held = receiver.held.clone();
                let holding = (0..200).filter(|&seq| held.containing(seq).is_some()).count();
                prop_assert_eq!(receiver.holding() as usize, holding);
            }
            prop_assert_eq!(delivered, (0..200).map(|seq| seq * 3).collect::<Vec<_>>());
        }
    }
}
