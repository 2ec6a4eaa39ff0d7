//! One FIFO link. Its queue is a number: the time at which it will have sent what it has.

use super::spec::LinkSpec;
use crate::engine::Random;
use crate::units::Nanos;

/// Fraction bits of the fixed-point nanoseconds per byte.
const FRACTION: u32 = 32;

/// What a link did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets that left it towards the next hop.
    pub forwarded: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets lost on the wire.
    pub lost: u64,
}

/// Rate, delay, jitter, drop-tail queue and Bernoulli loss of one direction.
#[derive(Debug, Clone)]
pub struct Link {
    /// Nanoseconds per byte, with [`FRACTION`] bits after the point, rounded up so that a packet's
    /// whole nanoseconds come out exact; 0 is infinitely fast. At the
    /// lowest rate of 100 bit/s it is 8 * 10^7 * 2^32 (below 2^59), so it fits 64 bits.
    ns_per_byte: u64,
    /// The queue limit as the time it takes to send that many bytes.
    queue_ns: Nanos,
    delay: Nanos,
    jitter: Nanos,
    /// A packet is lost when a uniform 64-bit number is below this.
    loss: u64,
    /// When everything accepted so far will have been sent.
    busy_until: Nanos,
    last_exit: Nanos,
    random: Random,
    counters: LinkCounters,
}

impl Link {
    /// An idle link.
    pub fn new(spec: &LinkSpec, random: Random) -> Self {
        let ns_per_byte = spec
            .rate_bps
            .map_or(0, |rate| (8_000_000_000_u128 << FRACTION).div_ceil(u128::from(rate)) as u64);
        let time = |bytes: u64| ((u128::from(bytes) * u128::from(ns_per_byte)) >> FRACTION) as u64;
        Self {
            ns_per_byte,
            queue_ns: spec.queue_bytes.map_or(Nanos::MAX, time),
            delay: spec.delay_ns,
            jitter: spec.jitter_ns,
            loss: ((u128::from(spec.loss_ppb) << 64) / 1_000_000_000) as u64,
            busy_until: 0,
            last_exit: 0,
            random,
            counters: LinkCounters::default(),
        }
    }

    /// What the link did so far.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// A packet enters at `at`, no earlier than any before it: when it reaches the far end, or none
    /// when it was dropped or lost. Lindley's recursion: it is sent once everything before it is.
    #[inline]
    pub fn traverse(&mut self, at: Nanos, size: u32) -> Option<Nanos> {
        let sending = ((u128::from(size) * u128::from(self.ns_per_byte)) >> FRACTION) as Nanos;
        let waiting = self.busy_until.saturating_sub(at);
        if waiting > 0 && waiting + sending > self.queue_ns {
            self.counters.dropped += 1;
            return None;
        }
        self.busy_until = at + waiting + sending;
        if self.loss > 0 && self.random.hits(self.loss) {
            self.counters.lost += 1;
            return None;
        }
        self.counters.forwarded += 1;
        let mut exit = self.busy_until + self.delay;
        if self.jitter > 0 {
            exit = (exit + self.random.up_to(self.jitter)).max(self.last_exit);
            self.last_exit = exit;
        }
        Some(exit)
    }
}
