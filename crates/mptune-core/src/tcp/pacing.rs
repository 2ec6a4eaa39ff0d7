//! Departure times of paced segments (Linux `net/ipv4/tcp_output.c`, `tcp_update_skb_after_send`,
//! `tcp_pacing_check`), the size of bursts (`tcp_tso_autosize`, `bbr_min_tso_segs`), and Linux's own rate.
//!
//! Senders are paced by the controller's rate alone ([`crate::congestion::CongestionControl::pacing_rate`]).

use crate::units::Nanos;

/// The first segments of a connection are not paced (as the first 10 of a flow in `sch_fq`).
const UNPACED: u32 = 10;
/// Linux `sk_pacing_shift` 10: a burst is what the pacing rate sends in 1/1024 s.
const BURSTS_PER_SECOND: f64 = 1024.0;
/// Linux `GSO_LEGACY_MAX_SIZE`, bytes of the largest burst.
const LARGEST_BURST: u32 = 65_536;
/// Linux `net.ipv4.tcp_tso_rtt_log`: RTTs below 2^9 us add a full burst, and the addition is halved with
/// each further 2^9 us.
const RTT_LOG: u32 = 9;
/// A burst is at least two segments, below this many bit/s one (Linux `bbr_min_tso_rate`).
const SMALLEST_BURST: u32 = 2;
const SINGLY_BELOW_BPS: f64 = 1.2e6;
/// Bytes of a segment where only segments are counted.
const SEGMENT_BYTES: u32 = 1448;

/// Bytes of a full segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// As rates count it: without the options of single packets (Linux `mss_cache`).
    mss: u32,
    /// Its payload.
    payload: u32,
    /// The bytes of a burst are counted, otherwise segments.
    bytes: bool,
}

impl Lengths {
    /// Segments are counted: rates and bursts are those of segments with `mss` bytes.
    pub const fn counted(mss: u32) -> Self {
        Self { mss, payload: mss, bytes: false }
    }

    /// A rate counts segments of `mss` bytes, which carry `payload` bytes because of their options.
    pub const fn new(mss: u32, payload: u32) -> Self {
        Self { mss, payload, bytes: true }
    }
}

impl Default for Lengths {
    fn default() -> Self {
        Self::counted(SEGMENT_BYTES)
    }
}

/// Linux `net.ipv4.tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const SLOW_START_RATIO: f64 = 2.0;
const AVOIDANCE_RATIO: f64 = 1.2;

/// Segments for each smoothed RTT of Linux's pacing rate: from the larger of cwnd and the segments outstanding, which in a
/// recovery are a cwnd of before the loss (Linux `net/ipv4/tcp_input.c`, `tcp_update_pacing_rate`).
#[inline]
pub fn per_rtt(window: f64, ssthresh: f64, outstanding: u32) -> f64 {
    let slow_start = window < ssthresh / 2.0;
    let ratio = if slow_start { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
    ratio * window.max(f64::from(outstanding))
}

/// Segments of a burst at a pacing rate of `rate` segments/s, at least `least`.
pub fn burst(rate: f64, min_rtt: Nanos, lengths: Lengths, least: u32) -> u32 {
    let halvings = (min_rtt / 1000) >> RTT_LOG;
    let short_way = if halvings < 32 { LARGEST_BURST >> halvings } else { 0 };
    let full = lengths.payload;
    // Saturates; the rate is never NaN.
    let segments = if lengths.bytes {
        let paced = (rate * f64::from(lengths.mss) / BURSTS_PER_SECOND) as u32;
        paced.saturating_add(short_way) / full
    } else {
        ((rate / BURSTS_PER_SECOND) as u32).saturating_add(short_way / full)
    };
    segments.min(LARGEST_BURST / full).max(least)
}

/// The pace of one sender.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pacing {
    lengths: Lengths,
    /// Segments per ns and the time between two, 0 if it is not paced, and segments that leave together.
    rate: f64,
    gap: Nanos,
    burst: u32,
    /// Earliest departure of the next burst (Linux `tcp_wstamp_ns`).
    until: Nanos,
    /// Start of the current burst, its remaining segments, and the part of its time that may be saved because it
    /// began late.
    began: Nanos,
    left: u32,
    credit: Nanos,
    /// Segments so far that were not paced.
    unpaced: u32,
}

impl Pacing {
    /// Nothing is paced yet.
    pub fn new(lengths: Lengths) -> Self {
        Self { lengths, ..Self::default() }
    }

    /// The pace from now on, segments/s; none if it is not paced.
    #[inline]
    pub fn set(&mut self, rate: Option<f64>, min_rtt: Nanos) {
        let Some(rate) = rate else { return };
        let rate = rate.max(1e-3);
        self.rate = rate / 1e9;
        let Lengths { mss, payload, .. } = self.lengths;
        self.gap = (1e9 / rate * (f64::from(payload) / f64::from(mss))) as Nanos;
        let is_slow = rate * f64::from(SEGMENT_BYTES) * 8.0 < SINGLY_BELOW_BPS;
        let least = if is_slow { 1 } else { SMALLEST_BURST };
        self.burst = burst(rate, min_rtt, self.lengths, least);
    }

    /// It is not paced any more.
    pub fn stop(&mut self) {
        *self = Self { unpaced: self.unpaced, ..Self::new(self.lengths) };
    }

    /// Segments per ns, 0 if it is not paced.
    #[inline]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// A segment may leave now.
    #[inline]
    pub fn allows(&self, now: Nanos) -> bool {
        now >= self.until || (self.left > 0 && now == self.began)
    }

    /// Earliest departure of the next burst.
    #[inline]
    pub fn until(&self) -> Nanos {
        self.until
    }

    /// A segment leaves.
    #[inline]
    pub fn on_departure(&mut self, now: Nanos) {
        if self.gap > 0 {
            self.advance(now);
        }
    }

    fn advance(&mut self, now: Nanos) {
        if self.unpaced < UNPACED {
            self.unpaced += 1;
            return;
        }
        if self.left == 0 || now != self.began {
            (self.began, self.left) = (now, self.burst);
            self.credit = now.saturating_sub(self.until);
            self.until = self.until.max(now);
        }
        self.left -= 1;
        let saved = self.credit.min(self.gap / 2);
        self.credit -= saved;
        self.until += self.gap - saved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MILLISECOND, SECOND};

    /// Departure times, ns, of this many segments that leave as soon as they may.
    fn departures(mut pacing: Pacing, mut now: Nanos, number: usize) -> Vec<Nanos> {
        let mut times = vec![];
        while times.len() < number {
            if !pacing.allows(now) {
                now = pacing.until();
            }
            pacing.on_departure(now);
            times.push(now);
        }
        times
    }

    fn paced(rate: f64, min_rtt: Nanos) -> Pacing {
        let mut pacing = Pacing::default();
        pacing.set(Some(rate), min_rtt);
        pacing
    }

    #[test]
    fn the_rate_is_of_the_larger_of_window_and_flight() {
        assert_eq!(per_rtt(40.0, 40.0, 40), 1.2 * 40.0);
        // After a loss still of the 40 that are out; 22 in a slow start to 50.
        assert_eq!(per_rtt(22.0, 20.0, 40), 1.2 * 40.0);
        assert_eq!(per_rtt(22.0, 20.0, 10), 1.2 * 22.0);
        assert_eq!(per_rtt(22.0, 50.0, 10), 2.0 * 22.0);
    }

    #[test]
    fn ten_segments_leave_at_once_and_then_pairs_at_the_rate() {
        let times = departures(paced(1_000.0, 100 * MILLISECOND), 0, 16);
        let (second, third) = (2 * MILLISECOND, 4 * MILLISECOND);
        assert_eq!(times[..10], [0; 10]);
        assert_eq!(times[10..], [0, 0, second, second, third, third]);
    }

    #[test]
    fn slow_senders_send_segments_one_by_one() {
        // 1.2 Mbit/s are 103.6 segments of 1448 bytes.
        let apart = |rate| {
            let times = departures(paced(rate, SECOND), 0, 14);
            times[11] != times[12] && times[12] != times[13]
        };
        assert!(apart(103.0) && !apart(104.0));
    }

    #[test]
    fn a_late_burst_is_followed_sooner_but_by_no_more_than_half() {
        let mut pacing = paced(1_000.0, SECOND);
        for _ in 0..12 {
            pacing.on_departure(0);
        }
        let gap_after = |late: Nanos| {
            let mut pacing = pacing;
            let now = pacing.until() + late;
            pacing.on_departure(now);
            pacing.on_departure(now);
            pacing.until() - now
        };
        assert_eq!(gap_after(0), 2 * MILLISECOND);
        assert_eq!(gap_after(MILLISECOND / 2), 3 * MILLISECOND / 2);
        assert_eq!(gap_after(SECOND), MILLISECOND);
    }

    #[test]
    fn bursts_are_a_millisecond_of_the_rate_and_more_at_short_rtts() {
        let full = Lengths::counted(1448);
        assert_eq!(burst(10_240.0, SECOND, full, 2), 10);
        assert_eq!(burst(10.0, SECOND, full, 2), 2);
        // 64 KiB halved 4 times, after 2 ms.
        assert_eq!(burst(0.0, 2_048_000, full, 2), (65_536 >> 4) / 1448);
        assert_eq!(burst(1e9, SECOND, full, 2), 45);
    }

    #[test]
    fn rates_count_more_than_the_payload_of_segments_with_options() {
        let lengths = Lengths::new(1448, 1424);
        // tcp_tso_autosize: 40.7 segments of 1448 bytes hold 41 of 1424.
        let rate = 40.7 * 1024.0;
        assert_eq!(burst(rate, SECOND, Lengths::counted(1448), 2), 40);
        assert_eq!(burst(rate, SECOND, lengths, 2), 41);
        let mut pacing = Pacing::new(lengths);
        pacing.set(Some(1_000.0), SECOND);
        let apart = departures(pacing, 0, 16).windows(2).map(|pair| pair[1] - pair[0]).max();
        assert_eq!(apart, Some(2 * 983_425));
    }
}
