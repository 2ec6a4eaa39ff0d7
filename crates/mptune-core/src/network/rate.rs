//! Serialisation at a fixed rate, and the drop-tail queue before it, each as a number.

use crate::units::{BitsPerSecond, Bytes, NEVER, Nanos};

/// Fraction bits of the fixed-point nanoseconds per byte.
const FRACTION: u32 = 32;

/// The reciprocal of a rate: nanoseconds per byte, with [`FRACTION`] bits after the point, rounded up
/// so that a packet's whole nanoseconds come out exact; 0 is infinitely fast. At the lowest rate of
/// 100 bit/s it is 8 * 10^7 * 2^32 (below 2^59), so it fits 64 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace(u64);

impl Pace {
    /// The reciprocal of a rate; none is infinitely fast.
    pub fn new(rate: Option<BitsPerSecond>) -> Self {
        let pace = |rate| (8_000_000_000_u128 << FRACTION).div_ceil(u128::from(rate)) as u64;
        Self(rate.map_or(0, pace))
    }

    /// The time a packet takes.
    #[inline]
    pub fn of(self, size: u32) -> Nanos {
        ((u128::from(size) * u128::from(self.0)) >> FRACTION) as Nanos
    }

    /// The time this many bytes take, at most [`NEVER`].
    pub fn of_bytes(self, bytes: Bytes) -> Nanos {
        let span = (u128::from(bytes) * u128::from(self.0)) >> FRACTION;
        span.min(u128::from(NEVER)) as Nanos
    }
}

/// A drop-tail FIFO of fixed rate. Its queue is a number: the time at which it will have sent
/// everything it holds (Lindley's recursion).
#[derive(Debug, Clone)]
pub(super) struct Fifo {
    pace: Pace,
    /// The queue limit as the time it takes to send that many bytes.
    queue_ns: Nanos,
    /// End of the transmission of all accepted packets.
    busy_until: Nanos,
}

impl Fifo {
    /// An idle FIFO; without a limit it never drops.
    pub fn new(rate: Option<BitsPerSecond>, queue: Option<Bytes>) -> Self {
        let pace = Pace::new(rate);
        let queue_ns = queue.map_or(Nanos::MAX, |bytes| pace.of_bytes(bytes));
        Self { pace, queue_ns, busy_until: 0 }
    }

    /// A packet arrives at `at`, no earlier than any before it. Returns the end of its transmission; none if the
    /// queue is full. An idle line takes any packet.
    #[inline]
    pub fn accept(&mut self, at: Nanos, size: u32) -> Option<Nanos> {
        let sending = self.pace.of(size);
        let waiting = self.busy_until.saturating_sub(at);
        if waiting > 0 && waiting + sending > self.queue_ns {
            return None;
        }
        self.busy_until = at + waiting + sending;
        Some(self.busy_until)
    }
}
