//! Bounds that the parts of a link share, and the check of a rate.

use crate::error::SpecError;
use crate::units::{BitsPerSecond, Bytes, Nanos, SECOND};

/// Lowest rate whose serialisation time per byte fits the fixed-point arithmetic of a link.
const MIN_RATE: BitsPerSecond = 100;
/// Longest delay, jitter or lateness.
pub(super) const MAX_DELAY: Nanos = 100 * SECOND;
/// The largest packet the model carries in full: a 1500-byte IP packet.
pub(super) const FULL_PACKET: Bytes = 1500;

/// Checks that a rate is one a link can have.
pub(super) fn check_rate(key: &str, rate: BitsPerSecond) -> Result<(), SpecError> {
    if rate >= MIN_RATE {
        return Ok(());
    }
    Err(SpecError::new(key, format!("expected at least {MIN_RATE} bit/s, found {rate}")))
}
