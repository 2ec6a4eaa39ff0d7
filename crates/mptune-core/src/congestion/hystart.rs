//! HyStart: slow start ends before it overflows the queue. S. Ha, I. Rhee, "Taming the elephants: new
//! TCP slow start", Computer Networks 55(9), 2011, as in Linux `hystart_update` (`net/ipv4/tcp_cubic.c`, on by
//! default).
//!
//! Not HyStart++ (RFC 9406), which RFC 9438 section 4.10 prefers for CUBIC and Linux does not have: it does not
//! watch trains of ACKs, and after a rise in delay continues with a quarter of the growth for up to 5 rounds,
//! and with slow start if the delay falls again. Here, as in Linux, the first sign ends slow start for good. In
//! both the rise is an eighth of an RTT, between 4 and 16 ms, seen in 8 samples; of the smallest RTT of all in
//! Linux, of the previous round's in RFC 9406 section 4.2.
//!
//! Compared with Linux:
//!
//! - The train of ACKs may be as long as half of the smallest RTT plus 1 ms. What Linux adds for TSO and GRO
//!   (`hystart_ack_delay`) is less above 2 Gbit/s; it takes the whole RTT if the sender paces, which CUBIC here
//!   does not.
//! - The smallest RTT is the subflow's. Linux' own (`delay_min`) leaves out the first second after a
//!   congestion event and is forgotten by a timeout.
//! - A round that a timeout begins starts with the first ACK that counts, not with the timeout.

use super::{Ack, Window};
use crate::units::{MILLISECOND, Nanos, Seq};

/// Smaller windows grow undisturbed, segments (`hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// Largest delay of ACKs by TSO and GRO (`hystart_ack_delay`): four bursts of 64 KiB at the pacing rate.
const ACK_DELAY: Nanos = MILLISECOND;
/// ACKs no further apart belong to one train (`hystart_ack_delta_us`).
const TRAIN_SPACING: Nanos = 2 * MILLISECOND;
/// RTT samples of a round before its smallest counts (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// Bounds of the rise of the RTT that ends slow start (`HYSTART_DELAY_MIN`, `_MAX`).
const MIN_RISE: Nanos = 4 * MILLISECOND;
const MAX_RISE: Nanos = 16 * MILLISECOND;

/// The observations of a round of about an RTT.
#[derive(Debug, Clone)]
struct Round {
    /// It ends when a segment after this one is acknowledged.
    end: Seq,
    start: Nanos,
    /// The latest ACK of the train that began with the round.
    train: Nanos,
    min_rtt: Nanos,
    samples: u32,
}

impl Round {
    fn new(ack: &Ack) -> Self {
        Self { end: ack.next, start: ack.now, train: ack.now, min_rtt: Nanos::MAX, samples: 0 }
    }

    /// The ACKs of what left in one burst span as much as the path holds without a queue.
    fn train_is_long(&mut self, ack: &Ack) -> bool {
        if ack.now - self.train > TRAIN_SPACING {
            return false;
        }
        self.train = ack.now;
        ack.now - self.start > (ack.min_rtt + ACK_DELAY) / 2
    }

    /// A queue builds up.
    fn delay_rose(&mut self, rtt: Nanos, min_rtt: Nanos) -> bool {
        self.min_rtt = self.min_rtt.min(rtt);
        self.samples += 1;
        let rise = (min_rtt / 8).clamp(MIN_RISE, MAX_RISE);
        self.samples > MIN_SAMPLES && self.min_rtt > min_rtt + rise
    }
}

/// The detector of one subflow.
#[derive(Debug, Clone, Default)]
pub struct HyStart {
    /// HyStart ended slow start.
    ended: bool,
    round: Option<Round>,
}

impl HyStart {
    /// Segments were delivered: ends slow start at a sign of a full path.
    #[inline]
    pub fn on_delivered(&mut self, window: &mut Window, ack: &Ack) {
        if window.in_slow_start() && !self.ended {
            self.update(window, ack);
        }
    }

    fn update(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt) = ack.rtt else { return };
        if self.round.as_ref().is_none_or(|round| ack.una > round.end) {
            self.round = None;
        }
        let round = self.round.get_or_insert_with(|| Round::new(ack));
        // Also for small windows: a round begins when the previous one has been acknowledged.
        if window.cwnd < LOW_WINDOW {
            return;
        }
        let (long, rose) = (round.train_is_long(ack), round.delay_rose(rtt, ack.min_rtt));
        if long || rose {
            self.ended = true;
            window.ssthresh = window.cwnd;
        }
    }

    /// A timeout: the path must be probed again.
    pub fn on_timeout(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::ack;

    const RTT: Nanos = 100 * MILLISECOND;

    /// A flow in slow start on a path with an RTT of 100 ms.
    struct Start {
        hystart: HyStart,
        window: Window,
        una: Seq,
    }

    impl Start {
        fn new() -> Self {
            let window = Window { cwnd: 100.0, ..Window::new() };
            Self { hystart: HyStart::default(), window, una: 0 }
        }

        /// An ACK of a round of 1000 segments. True if slow start continues.
        fn ack(&mut self, now: Nanos, rtt: Nanos) -> bool {
            self.una += 1;
            let mut report = ack(1).at(now).rtt(rtt).sequence(self.una, self.una + 1_000);
            report.min_rtt = RTT;
            self.hystart.on_delivered(&mut self.window, &report);
            self.window.in_slow_start()
        }

        /// Evenly spaced ACKs of a round. Returns the end of slow start, from the first ACK.
        fn round(&mut self, acks: u64, spacing: Nanos, rtt: Nanos) -> Option<Nanos> {
            (0..acks).map(|number| number * spacing).find(|&at| !self.ack(RTT + at, rtt))
        }
    }

    #[test]
    fn a_train_of_acks_longer_than_half_the_rtt_ends_slow_start() {
        for spacing in [MILLISECOND / 10, MILLISECOND, 2 * MILLISECOND] {
            let ended = Start::new().round(900, spacing, RTT).expect("a long train");
            let longest = (RTT + MILLISECOND) / 2;
            assert!(ended > longest && ended <= longest + spacing, "{ended}");
        }
        let mut short = Start::new();
        assert_eq!(short.round(50, MILLISECOND, RTT), None);
    }

    #[test]
    fn acks_further_apart_are_no_train() {
        assert_eq!(Start::new().round(900, 2 * MILLISECOND + 1, RTT), None);
        // A gap ends the train for the rest of the round.
        let mut gap = Start::new();
        assert!(gap.ack(RTT, RTT) && gap.ack(RTT + 3 * MILLISECOND, RTT));
        assert!((4..90).all(|ms| gap.ack(RTT + ms * MILLISECOND, RTT)));
    }

    #[test]
    fn a_rise_of_an_eighth_of_the_rtt_ends_slow_start_at_the_ninth_sample() {
        let rise = RTT / 8;
        assert_eq!(Start::new().round(50, 3 * MILLISECOND, RTT + rise), None);
        let ended = Start::new().round(50, 3 * MILLISECOND, RTT + rise + 1);
        assert_eq!(ended, Some(8 * 3 * MILLISECOND));
    }

    #[test]
    fn the_rise_is_at_least_4_and_at_most_16_ms() {
        for (min_rtt_ms, rise_ms) in [(10, 4), (64, 8), (300, 16)] {
            let rose = |rise: Nanos| {
                let mut round = Round::new(&ack(1));
                let min_rtt = min_rtt_ms * MILLISECOND;
                (0..9).any(|_| round.delay_rose(min_rtt + rise, min_rtt))
            };
            assert!(!rose(rise_ms * MILLISECOND) && rose(rise_ms * MILLISECOND + 1));
        }
    }

    #[test]
    fn one_sample_without_delay_clears_a_round() {
        let mut start = Start::new();
        assert!(start.ack(RTT, RTT));
        assert_eq!(start.round(100, 3 * MILLISECOND, 2 * RTT), None);
    }

    #[test]
    fn the_next_round_begins_anew() {
        let mut start = Start::new();
        assert_eq!(start.round(40, MILLISECOND, RTT), None);
        start.una += 2_000;
        assert!((0..40).all(|ms| start.ack(2 * RTT + ms * MILLISECOND, RTT)));
        assert!(!(40..60).all(|ms| start.ack(2 * RTT + ms * MILLISECOND, RTT)));
    }

    #[test]
    fn a_small_window_grows_undisturbed() {
        let mut start = Start::new();
        start.window.cwnd = 15.0;
        assert_eq!(start.round(500, MILLISECOND, 2 * RTT), None);
    }

    /// Sends two segments for each acknowledged one, on a path of 350 Mbit/s with an RTT of 20 ms; returns the
    /// window at the end of slow start.
    fn window_at_the_end() -> f64 {
        const PACKET: Nanos = 1500 * 8 * 1_000 / 350;
        let mut hystart = HyStart::default();
        let mut window = Window::new();
        let (mut una, mut next, mut busy) = (0, 0, 0);
        let mut arrivals: Vec<Nanos> = Vec::new();
        let mut send = |now: Nanos, arrivals: &mut Vec<Nanos>| {
            busy = now.max(busy) + PACKET;
            arrivals.push(busy + 20 * MILLISECOND);
        };
        while f64::from(next) < window.cwnd {
            send(0, &mut arrivals);
            next += 1;
        }
        while window.in_slow_start() {
            let now = arrivals[una as usize];
            una += 1;
            let mut report = ack(1).at(now).rtt(20 * MILLISECOND).sequence(una, next);
            report.min_rtt = 20 * MILLISECOND;
            hystart.on_delivered(&mut window, &report);
            if window.in_slow_start() {
                window.cwnd += 1.0;
                (0..2).for_each(|_| send(now, &mut arrivals));
                next += 2;
            }
        }
        window.cwnd
    }

    #[test]
    fn a_round_begins_with_the_flight_of_a_window_also_when_the_first_was_small() {
        // `ss` on Linux 6.18 on such a path: 636. The flight of 320 takes 11 ms, of which 10.5 are enough.
        let window = window_at_the_end();
        assert!((window - 636.0).abs() < 15.0, "{window}");
    }

    #[test]
    fn slow_start_ends_once_until_a_timeout() {
        let mut start = Start::new();
        assert!(start.round(900, MILLISECOND, RTT).is_some());
        start.window.ssthresh = 1e9;
        assert!(start.ack(10 * RTT, 2 * RTT) && start.round(900, MILLISECOND, RTT).is_none());
        start.hystart.on_timeout();
        assert!(start.round(900, MILLISECOND, RTT).is_some());
    }
}
