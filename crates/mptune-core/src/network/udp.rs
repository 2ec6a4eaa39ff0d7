//! Background traffic on one link: datagrams at a constant rate, in periods of sending and silence.

use super::limits::{FULL_PACKET, check_rate};
use super::rate::Pace;
use crate::engine::Random;
use crate::error::SpecError;
use crate::units::{BitsPerSecond, NEVER, Nanos, SECOND};
use serde::Deserialize;

/// IPv4 (20) and UDP (8) headers.
const SMALLEST: u32 = 28;
/// 1 Tbit/s: a full packet still takes some nanoseconds.
const MAX_RATE: BitsPerSecond = 1_000_000_000_000;
/// Longest period of sending or silence.
const MAX_PERIOD: Nanos = 1_000_000 * SECOND;

/// A source: its packets enter the link, take up room in its queue and leave the network after it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpSpec {
    /// Rate while it sends.
    pub rate_bps: BitsPerSecond,
    /// Size of its packets, headers included.
    #[serde(default = "full_packet")]
    pub packet_bytes: u32,
    /// Periods of sending and silence; none always sends.
    #[serde(default)]
    pub on_off: Option<OnOffSpec>,
    /// Start of its first period of sending.
    #[serde(default)]
    pub start_ns: Nanos,
    /// Time of its stop; none never stops.
    #[serde(default)]
    pub stop_ns: Option<Nanos>,
}

/// Periods of sending and silence.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOffSpec {
    /// Length of a sending period; the mean if lengths are drawn. At least one packet's time.
    pub on_ns: Nanos,
    /// Length of a silence; the mean if lengths are drawn.
    pub off_ns: Nanos,
    /// Distribution of the lengths.
    pub lengths: Lengths,
}

/// Distribution of the lengths of periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lengths {
    /// All the same.
    Fixed,
    /// Exponential.
    Exponential,
}

fn full_packet() -> u32 {
    FULL_PACKET as u32
}

impl UdpSpec {
    /// Errors have keys relative to the source.
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let wrong = |key: &str, expected: String| Err(SpecError::new(key, expected));
        check_rate("rate_bps", self.rate_bps)?;
        if self.rate_bps > MAX_RATE {
            return wrong("rate_bps", "expected at most 1 Tbit/s".into());
        }
        if !(SMALLEST..=full_packet()).contains(&self.packet_bytes) {
            let bytes = self.packet_bytes;
            let expected = format!("expected {SMALLEST} to {FULL_PACKET} bytes, found {bytes}");
            return wrong("packet_bytes", expected);
        }
        if let Some(on_off) = &self.on_off {
            let least = self.gap();
            if !(least..=MAX_PERIOD).contains(&on_off.on_ns) {
                let expected = format!("expected one packet's time, {least} ns, to 10^6 s");
                return wrong("on_off.on_ns", expected);
            }
            if on_off.off_ns > MAX_PERIOD {
                return wrong("on_off.off_ns", "expected at most 10^6 s".into());
            }
        }
        if self.start_ns >= NEVER / 2 || self.stop_ns.is_some_and(|stop| stop <= self.start_ns) {
            return wrong(
                "stop_ns",
                "expected more than start_ns, and start_ns below 26 days".into(),
            );
        }
        Ok(())
    }

    /// Time between two packets while it sends.
    fn gap(&self) -> Nanos {
        Pace::new(Some(self.rate_bps)).of(self.packet_bytes).max(1)
    }
}

/// The state of a source.
#[derive(Debug, Clone)]
pub(super) struct UdpSource {
    size: u32,
    gap: Nanos,
    on_off: Option<OnOffSpec>,
    stop: Nanos,
    /// Time of the next packet, [`NEVER`] after the last.
    next: Nanos,
    /// End of the current period of sending.
    on_until: Nanos,
    random: Random,
}

impl UdpSource {
    pub fn new(spec: &UdpSpec, random: Random) -> Self {
        let mut source = Self {
            size: spec.packet_bytes,
            gap: spec.gap(),
            on_off: spec.on_off.clone(),
            stop: spec.stop_ns.unwrap_or(NEVER),
            next: spec.start_ns,
            on_until: NEVER,
            random,
        };
        if let Some(on_off) = &spec.on_off {
            source.on_until = spec.start_ns + source.length(on_off.on_ns, on_off.lengths);
        }
        source.schedule();
        source
    }

    /// Time of its next packet, or [`NEVER`].
    pub fn next_at(&self) -> Nanos {
        self.next
    }

    /// Sends the packet that is due and returns its size.
    pub fn send(&mut self) -> u32 {
        self.schedule();
        self.size
    }

    /// A packet follows the previous one after a gap of sending time, across any silences in
    /// between, so the mean rate is exact however short the periods are.
    fn schedule(&mut self) {
        let mut left = self.gap;
        let mut at = self.next;
        if let Some(OnOffSpec { on_ns, off_ns, lengths }) = self.on_off {
            while self.on_until - at < left && self.on_until < self.stop {
                left -= self.on_until - at;
                at = self.on_until + self.length(off_ns, lengths);
                self.on_until = at + self.length(on_ns, lengths);
            }
        }
        self.next = if at + left < self.stop { at + left } else { NEVER };
    }

    fn length(&mut self, mean: Nanos, lengths: Lengths) -> Nanos {
        const STEPS: u64 = 1 << 53;
        match lengths {
            Lengths::Fixed => mean,
            Lengths::Exponential => {
                // Uniform in (0, 1]: the longest draw is 37 times the mean.
                let uniform = (self.random.up_to(STEPS - 1) + 1) as f64 / STEPS as f64;
                (-libm::log(uniform) * mean as f64) as Nanos
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;
    use proptest::prelude::*;

    const MS: Nanos = MILLISECOND;

    /// A packet per millisecond while it sends.
    fn spec(on_off: Option<OnOffSpec>) -> UdpSpec {
        let rate_bps = 12_000_000;
        UdpSpec { rate_bps, packet_bytes: 1500, on_off, start_ns: 0, stop_ns: None }
    }

    fn on_off(on_ns: Nanos, off_ns: Nanos, lengths: Lengths) -> Option<OnOffSpec> {
        Some(OnOffSpec { on_ns, off_ns, lengths })
    }

    fn times(spec: &UdpSpec, until: Nanos) -> Vec<Nanos> {
        spec.validate().expect("valid");
        let mut source = UdpSource::new(spec, Random::new(1, 1));
        let next = || {
            let at = source.next_at();
            (at < until).then(|| {
                source.send();
                at
            })
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_constant_rate_is_constant_from_start_to_stop() {
        let spec = UdpSpec { start_ns: 5 * MS, stop_ns: Some(9 * MS), ..spec(None) };
        assert_eq!(times(&spec, NEVER), [6 * MS, 7 * MS, 8 * MS]);
    }

    #[test]
    fn a_gap_continues_after_the_silence() {
        let spec = spec(on_off(3 * MS / 2, 10 * MS, Lengths::Fixed));
        // Sending from 0 to 1.5, 11.5 to 13, 23 to 24.5 ms.
        assert_eq!(
            times(&spec, 25 * MS).iter().map(|at| at / (MS / 2)).collect::<Vec<_>>(),
            [2, 24, 26, 48]
        );
    }

    #[test]
    fn drawn_periods_give_the_mean_rate() {
        let spec = spec(on_off(4 * MS, 12 * MS, Lengths::Exponential));
        let sent = times(&spec, 1000 * SECOND).len() as f64;
        // n = 62500 cycles on average; the time spent sending has the variance of an alternating
        // renewal process, 2 n (on off / (on + off))^2 = 18 n ms^2.
        let deviation = (62_500.0_f64 * 18.0).sqrt();
        assert!((sent - 250_000.0).abs() < 5.0 * deviation, "{sent}");
    }

    #[test]
    fn impossible_sources_are_refused() {
        let refused = |spec: UdpSpec| spec.validate().expect_err("impossible").key;
        assert_eq!(refused(UdpSpec { rate_bps: 0, ..spec(None) }), "rate_bps");
        assert_eq!(refused(UdpSpec { rate_bps: MAX_RATE + 1, ..spec(None) }), "rate_bps");
        assert_eq!(refused(UdpSpec { packet_bytes: 0, ..spec(None) }), "packet_bytes");
        assert_eq!(refused(spec(on_off(MS - 1, 0, Lengths::Fixed))), "on_off.on_ns");
        assert_eq!(refused(spec(on_off(MS, NEVER, Lengths::Fixed))), "on_off.off_ns");
        assert_eq!(refused(UdpSpec { stop_ns: Some(0), ..spec(None) }), "stop_ns");
    }

    proptest! {
        #[test]
        fn any_source_moves_on(
            on in 1_000_000u64..20_000_000, off in 0u64..20_000_000, exponential: bool,
            stop in prop::option::of(1u64..500_000_000),
        ) {
            let lengths = if exponential { Lengths::Exponential } else { Lengths::Fixed };
            let spec = UdpSpec { stop_ns: stop, ..spec(on_off(on, off, lengths)) };
            let times = times(&spec, SECOND);
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= MS));
            prop_assert!(times.last().is_none_or(|&last| stop.is_none_or(|stop| last < stop)));
        }
    }
}
