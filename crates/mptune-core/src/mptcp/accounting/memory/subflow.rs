//! A subflow's state at the data receiver, most of it only under Linux accounting.

use super::charge::truesize;
use crate::mptcp::accounting::Release;
use crate::mptcp::echoes::Echoes;
use crate::units::{Bytes, MICROSECOND, MILLISECOND, Nanos, Seq};

/// Linux `TCP_RMEM_TO_WIN_SCALE`: bits of the share of memory that is payload (`scaling_ratio`).
pub const RATIO_BITS: u32 = 8;
/// The share assumed before anything arrives (Linux `TCP_DEFAULT_SCALING_RATIO`): half.
pub const DEFAULT_RATIO: Bytes = 1 << (RATIO_BITS - 1);
/// Segments with no more payload than this do not update the share (Linux `TCP_MSS_DEFAULT`).
const SMALLEST_TELLING: u32 = 536;

/// Linux `TCP_FASTRETRANS_THRESH`: ACKs of a gap that are sent at once.
const AT_ONCE: u32 = 3;
/// Linux `tcp_comp_sack_nr`: ACKs that are skipped before the next.
const LEFT_OUT: u32 = 44;
/// Longest delay of an ACK: at most Linux `tcp_comp_sack_delay_ns`, plus `tcp_comp_sack_slack_ns`.
const LONGEST: Nanos = MILLISECOND;
const SLACK: Nanos = 100 * MICROSECOND;
const SLACK_LINUX7: Nanos = 10 * MICROSECOND;

/// Longest delay of an ACK for segments behind a gap on a subflow with this RTT: a twentieth of it, since 7.0 a third
/// (`tcp_comp_sack_rtt_percent`).
pub fn postponed(release: Release, rtt: Nanos) -> Nanos {
    let (share, slack) = match release {
        Release::Linux6 => (rtt / 20, SLACK),
        Release::Linux7 => (rtt / 100 * 33, SLACK_LINUX7),
    };
    LONGEST.min(share) + slack
}

/// Charges and window of a subflow.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubflowMemory {
    /// Memory of segments that were received in order but cannot be moved to the connection.
    pub stuck: Bytes,
    /// Segments dropped because there was no memory.
    pub refused: u64,
    /// The largest payload of any segment so far (Linux `rcv_mss`).
    segment: u32,
    /// Payload received, and after how much the next window of it is over (Linux `rcv_rtt_est.seq`).
    received: Bytes,
    window_end: Bytes,
    /// Payload in 256 bytes of its memory (Linux `scaling_ratio`); none before it joined.
    pub ratio: Option<Bytes>,
    /// The window last offered (Linux `rcv_wnd`).
    pub window: Bytes,
    /// The largest window it may offer (Linux `rcv_ssthresh`); none before the first segment.
    pub largest: Option<Bytes>,
    /// `largest` is final unless the ratio or the memory changes.
    pub is_largest: bool,
    /// Its own `sk_rcvbuf`, once it grew with the connection's.
    pub grown: Option<Bytes>,
    /// Bytes read in the RTT before its memory last grew (Linux `rcvq_space.space`); none before.
    pub space: Option<Bytes>,
    /// Its RTT at the receiver (Linux `rcv_rtt_est`); 0 before any data.
    pub rtt: Nanos,
    echoes: Echoes,
    /// A segment that is not acknowledged yet was pushed, or is shorter than others (Linux `ICSK_ACK_PUSHED`), and the
    /// length of the last such one (`last_seg_size`).
    pub pushed: bool,
    short: u32,
    /// Acknowledgements of its gaps.
    pub compression: Compression,
}

impl SubflowMemory {
    /// A new segment arrived. True if the ratio changed.
    #[inline]
    pub fn measure(&mut self, payload: u32) -> bool {
        let larger = payload > self.segment;
        if larger {
            self.segment = payload;
            self.ratio = Some(ratio(payload));
            self.is_largest = false;
        }
        larger
    }

    /// A segment arrived in order, after [`Self::measure`]. A second one of the same length below the largest counts as
    /// full (Linux `tcp_measure_rcv_mss`).
    #[inline]
    pub fn note_pushed(&mut self, payload: u32, pushed: bool) {
        let is_short = payload < self.segment;
        self.pushed |= pushed || is_short && payload != self.short;
        self.short = if is_short { payload } else { 0 };
    }

    /// An ACK was sent.
    #[inline]
    pub fn on_acknowledged(&mut self) {
        self.pushed = false;
        self.compression.on_acknowledged();
    }

    /// A segment arrived with the echo of a timestamp, before [`Self::measure`].
    #[inline]
    pub fn note_echo(&mut self, now: Nanos, echo: u16, payload: u32) {
        let full = Bytes::from(payload) >= self.received_mss();
        self.echoes.on_segment(now, echo, full);
        self.rtt = self.echoes.rtt();
    }

    /// A new segment arrived, in order or not. True for the first one, and then for the first in order once per window,
    /// of which the `first` was offered with the SYN/ACK.
    #[inline]
    pub fn begins_window(
        &mut self,
        now: Nanos,
        payload: u32,
        in_order: bool,
        first: Bytes,
    ) -> bool {
        self.received += Bytes::from(payload);
        let begins = in_order && self.received >= self.window_end;
        if begins {
            let window = if self.window_end == 0 { first } else { self.window };
            self.window_end = self.received + window;
            self.echoes.on_window(now);
            self.rtt = self.echoes.rtt();
        }
        begins
    }

    /// The largest payload of any segment so far, at least the initial value (Linux `rcv_mss`,
    /// `tcp_initialize_rcv_mss`).
    pub fn received_mss(&self) -> Bytes {
        Bytes::from(self.segment.max(SMALLEST_TELLING))
    }

    /// Its own `sk_rcvbuf` grew to this.
    pub fn grow(&mut self, limit: Bytes) {
        self.grown = Some(limit);
        self.is_largest = false;
    }
}

/// Payload in 256 bytes of memory, if no segment had more payload than this (Linux `tcp_measure_rcv_mss`,
/// rounded down).
pub fn ratio(payload: u32) -> Bytes {
    if payload <= SMALLEST_TELLING {
        return DEFAULT_RATIO;
    }
    (Bytes::from(payload) << RATIO_BITS) / Bytes::from(truesize(payload))
}

/// SACK compression (Linux `__tcp_ack_snd_check`): the first ACKs for segments behind a gap are sent at once, later
/// ones together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compression {
    /// The gap, and its ACKs sent at once.
    gap: Seq,
    sent: u32,
    left_out: u32,
}

impl Compression {
    /// An ACK for a segment behind the gap at `gap` is due. True if it may be sent later.
    pub fn postpones(&mut self, gap: Seq) -> bool {
        if self.left_out >= LEFT_OUT {
            return false;
        }
        if self.gap != gap {
            (self.gap, self.sent) = (gap, 0);
        }
        if self.sent < AT_ONCE {
            self.sent += 1;
            return false;
        }
        self.left_out += 1;
        true
    }

    /// A compressed ACK is pending.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.left_out > 0
    }

    /// An ACK was sent.
    #[inline]
    pub fn on_acknowledged(&mut self) {
        self.left_out = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SECOND;

    #[test]
    fn acknowledgements_of_a_gap_are_sent_three_times_and_then_skipped() {
        let mut compression = Compression::default();
        for gap in [7, 9] {
            assert_eq!([(); 4].map(|()| compression.postpones(gap)), [false, false, false, true]);
            compression.on_acknowledged();
        }
    }

    #[test]
    fn what_is_pushed_or_shorter_than_others_is_acknowledged_after_the_read() {
        // tcp_measure_rcv_mss.
        let pushed = |segments: &[(u32, bool)]| {
            let mut memory = SubflowMemory::default();
            for &(payload, push) in segments {
                memory.measure(payload);
                memory.note_pushed(payload, push);
            }
            let pushed = memory.pushed;
            memory.on_acknowledged();
            assert!(!memory.pushed);
            pushed
        };
        assert!(!pushed(&[(1424, false), (1424, false)]));
        assert!(pushed(&[(1424, true), (1424, false)]));
        assert!(pushed(&[(1424, false), (700, false)]));
    }

    #[test]
    fn an_acknowledgement_is_postponed_by_a_part_of_the_rtt() {
        // ip-sysctl.rst: 1 ms; 5 % of a short RTT; and 0.1 ms of slack. Of 7.3: 33 %, and 0.01 ms.
        let delays = |release| [SECOND, 2 * MILLISECOND].map(|rtt| postponed(release, rtt));
        assert_eq!(delays(Release::Linux6), [1_100_000, 200_000]);
        assert_eq!(delays(Release::Linux7), [1_010_000, 670_000]);
    }

    #[test]
    fn no_more_than_44_acknowledgements_are_left_out() {
        let mut compression = Compression::default();
        let at_once = (0..100).filter(|_| {
            let now = !compression.postpones(7);
            if now {
                compression.on_acknowledged();
            }
            now
        });
        assert_eq!(at_once.collect::<Vec<_>>(), [0, 1, 2, 47, 92]);
    }
}
