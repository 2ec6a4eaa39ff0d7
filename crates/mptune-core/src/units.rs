//! Units of the whole crate: integers, named by alias, with their bounds.
//!
//! Time is nanoseconds since the start of the run, below 2^52 (52 days), which lets the event queue
//! pack a source number next to it. Sequence numbers count segments, not bytes: 2^32 of them are
//! 6 TB at 1448 bytes, more than any trial sends.

/// Nanoseconds since the start of the run, or a span of nanoseconds.
pub type Nanos = u64;
/// Bytes.
pub type Bytes = u64;
/// Bits per second.
pub type BitsPerSecond = u64;
/// A segment's number within a subflow or within the data sequence space.
pub type Seq = u32;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub const SECOND: Nanos = 1_000_000_000;
/// Later than any event.
pub const NEVER: Nanos = (1 << 52) - 1;

/// Seconds of a span, for formulas.
#[inline]
pub fn seconds(span: Nanos) -> f64 {
    span as f64 / 1e9
}
