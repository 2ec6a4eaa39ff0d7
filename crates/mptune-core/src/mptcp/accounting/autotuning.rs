//! Growth of the buffers in the mode `auto`, up to a limit.
//!
//! The rules count bytes of window (receiver) and of `sk_sndbuf` (sender); not here: the memory of a window. Both
//! stacks measure over the longest RTT of all subflows, so that the buffer suffices for data that waits for the
//! slowest (`mptcp_rcv_space_adjust` of Linux 6.18, `mptcp_check_rtt` of the kernels v0.9x).

use crate::units::{Bytes, Nanos};

/// Linux `net.ipv4.tcp_rmem[1]`: the receive buffer of a new connection.
pub const FIRST_RECEIVE: Bytes = 131_072;
/// The same in the kernels v0.9x (Linux 4.19 and before).
pub const FIRST_RECEIVE_V0_9X: Bytes = 87_380;
/// Linux `net.ipv4.tcp_wmem[1]`: the send buffer before the first subflow is established.
const FIRST_SEND: Bytes = 16_384;
/// Linux `net.ipv4.tcp_wmem[0]`, which the connection has besides those of its subflows.
const OWN: Bytes = 4096;
/// Linux `TCP_INIT_CWND`, segments.
const FIRST_SEGMENTS: Bytes = 10;
/// Memory that `tcp_sndbuf_expand` reckons for a segment: an MSS of 1460, `MAX_TCP_HEADER` and `struct
/// skb_shared_info` (320) rounded up to 2 KiB, and `struct sk_buff` (256). Kernels with IP tunnels have a
/// longer `MAX_TCP_HEADER`, which makes it 4352.
const PACKET: Bytes = 2304;
/// Dynamic right-sizing of the receive buffer.
#[derive(Debug)]
pub struct ReceiveTuning {
    /// Most payload read in an RTT so far (Linux `rcvq_space.space`).
    space: Bytes,
    /// Payload delivered and time at the start of the current measurement.
    from: Bytes,
    since: Nanos,
    /// Segments of 16 were added to the window before Linux 6.15.
    extra: Bytes,
}

impl ReceiveTuning {
    /// The rule of Linux 6.18 (`mptcp_rcvbuf_grow`); segments have `segment` bytes (`advmss`).
    pub fn linux(segment: Bytes) -> Self {
        Self { space: FIRST_SEGMENTS * segment, from: 0, since: 0, extra: 0 }
    }

    /// The rule of the kernels v0.9x (`tcp_rcv_space_adjust` of Linux 4.19, the base of the last).
    pub fn v0_9x(segment: Bytes) -> Self {
        Self { extra: 16 * segment, ..Self::linux(segment) }
    }

    /// The connection is established: measurements begin.
    pub fn begin(&mut self, now: Nanos) {
        self.since = now;
    }

    /// The application has read all of the `delivered` bytes. Once in the longest `rtt`, returns the window needed
    /// if it read more than in any RTT before: twice that amount, as the measurement is an RTT late, plus twice the
    /// growth, as a sender in slow start doubles its rate.
    pub fn on_read(&mut self, now: Nanos, rtt: Nanos, delivered: Bytes) -> Option<Bytes> {
        if rtt == 0 || now < self.since + rtt {
            return None;
        }
        let read = delivered - self.from;
        (self.from, self.since) = (delivered, now);
        if read <= self.space {
            return None;
        }
        let before = std::mem::replace(&mut self.space, read);
        Some(needed(2 * read + self.extra, read, before))
    }

    /// The window that a subflow needs for what was read in the last RTT, where it read `before`, or nothing yet (Linux
    /// `tcp_rcvbuf_grow`); and what was read.
    pub fn of_subflow(&self, before: Option<Bytes>, segment: Bytes) -> (Bytes, Bytes) {
        let before = before.unwrap_or(FIRST_SEGMENTS * segment);
        (needed(2 * self.space, self.space, before), self.space)
    }
}

/// `window`, and twice its growth since so much was read `before`.
fn needed(window: Bytes, read: Bytes, before: Bytes) -> Bytes {
    window + 2 * (window * read.saturating_sub(before) / before)
}

/// Growth of the send buffer with the congestion windows of its subflows.
#[derive(Debug)]
pub struct SendTuning {
    /// `net.ipv4.tcp_wmem[2]`.
    limit: Bytes,
    /// The connection's buffer is limited as well (v0.9x), or only those of its subflows (Linux).
    whole_is_limited: bool,
    /// Windows that fit the buffer of a subflow (`sndbuf_expand` of the congestion control).
    windows: Bytes,
    /// The buffer of each subflow.
    subflows: Vec<Bytes>,
}

impl SendTuning {
    /// The rule of upstream Linux (`__mptcp_sync_sndbuf`): the sum of the subflows' buffers, each limited and of
    /// this many `windows`.
    pub fn linux(limit: Bytes, windows: Bytes) -> Self {
        Self { limit, whole_is_limited: false, windows, subflows: Vec::new() }
    }

    /// The sum is limited, as in the kernels v0.9x (`mptcp_update_sndbuf`), or where there is one buffer.
    pub fn limited(limit: Bytes, windows: Bytes) -> Self {
        Self { whole_is_limited: true, ..Self::linux(limit, windows) }
    }

    /// A subflow has a cwnd of `segments`, of `packet` bytes each. True if its buffer grew
    /// (Linux `tcp_sndbuf_expand`).
    pub fn expand(&mut self, subflow: usize, segments: Bytes, packet: Bytes) -> bool {
        if self.subflows.len() <= subflow {
            self.subflows.resize(subflow + 1, 0);
        }
        let needed = self.windows * segments.max(FIRST_SEGMENTS) * packet;
        let own = &mut self.subflows[subflow];
        let before = *own;
        *own = before.max(needed.min(self.limit));
        *own > before
    }

    /// The same in memory.
    pub fn expand_memory(&mut self, subflow: usize, segments: Bytes) -> bool {
        self.expand(subflow, segments, PACKET)
    }

    /// The connection's buffer.
    pub fn whole(&self) -> Bytes {
        let sum: Bytes = self.subflows.iter().sum();
        match sum {
            0 => self.limit.min(FIRST_SEND),
            _ if self.whole_is_limited => sum.min(self.limit),
            _ => OWN + sum,
        }
    }

    /// The buffer of a subflow.
    pub fn of(&self, subflow: usize) -> Bytes {
        self.subflows.get(subflow).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;
    use proptest::prelude::*;

    const RTT: Nanos = 20 * MILLISECOND;

    #[test]
    fn the_receiver_measures_once_per_rtt_and_asks_for_twice_as_much_and_twice_the_growth() {
        let mut tuning = ReceiveTuning::linux(1448);
        assert_eq!(tuning.on_read(RTT / 2, RTT, 10_000), None, "before the first RTT is over");
        assert_eq!(tuning.on_read(RTT, RTT, 14_480), None, "no more than ten segments");
        // 28,960 bytes, 14,480 more than before: 57,920 + 2 * (57,920 * 14,480 / 14,480).
        assert_eq!(tuning.on_read(2 * RTT, RTT, 43_440), Some(173_760));
        assert_eq!(tuning.on_read(2 * RTT + 1, RTT, 400_000), None, "too early");
        // 36,200 bytes, a quarter more: 72,400 + 2 * 18,100.
        assert_eq!(tuning.on_read(3 * RTT, RTT, 79_640), Some(108_600));
        assert_eq!(tuning.on_read(4 * RTT, RTT, 115_840), None, "as much as before");
        assert_eq!(tuning.on_read(9 * RTT, 0, 1 << 30), None, "no RTT is known");
    }

    #[test]
    fn the_older_receiver_adds_sixteen_segments() {
        let mut tuning = ReceiveTuning::v0_9x(1000);
        // 20,000 bytes, twice as many as 10,000: 56,000 + 2 * 56,000.
        assert_eq!(tuning.on_read(RTT, RTT, 20_000), Some(168_000));
    }

    #[test]
    fn the_sender_has_room_for_two_windows_of_each_subflow() {
        let mut tuning = SendTuning::linux(1 << 20, 2);
        assert_eq!(tuning.whole(), 16_384);
        assert!(tuning.expand_memory(0, 4), "an initial window at least");
        assert_eq!((tuning.of(0), tuning.whole()), (46_080, 50_176));
        assert!(tuning.expand_memory(1, 100));
        assert_eq!((tuning.of(1), tuning.whole()), (460_800, 510_976));
        assert!(!tuning.expand_memory(1, 50), "it never shrinks");
        assert!(tuning.expand_memory(0, 1000));
        assert_eq!(tuning.whole(), 4096 + (1 << 20) + 460_800, "each has the limit for itself");
    }

    #[test]
    fn the_older_sender_limits_the_whole() {
        let mut tuning = SendTuning::limited(100_000, 2);
        tuning.expand(0, 30, 1000);
        assert_eq!(tuning.whole(), 60_000);
        tuning.expand(1, 30, 1000);
        assert_eq!((tuning.of(1), tuning.whole()), (60_000, 100_000));
    }

    proptest! {
        #[test]
        fn no_send_buffer_exceeds_its_limit_or_shrinks(
            limit in 1u64..1 << 24,
            windows in prop::collection::vec((0usize..4, 0u64..10_000), 1..100),
        ) {
            let (mut linux, mut older) = (SendTuning::linux(limit, 2), SendTuning::limited(limit, 2));
            let mut before = 0;
            for (subflow, segments) in windows {
                let grew = linux.expand_memory(subflow, segments);
                older.expand(subflow, segments, 1428);
                prop_assert!(linux.of(subflow) <= limit && older.whole() <= limit);
                prop_assert!(linux.whole() > before || !grew);
                before = linux.whole();
            }
        }
    }
}
