//! The bounds of the time that a trial may take, and of what a client may ask for.

use crate::error::SpecError;
use crate::units::{Bytes, NEVER, Nanos};

/// Checks a time within which a trial ends.
pub(super) fn check(key: &str, span: Nanos) -> Result<(), SpecError> {
    if span == 0 || span >= NEVER / 2 {
        let expected = format!("expected more than 0 and less than 26 days, found {span} ns");
        return Err(SpecError::new(key, expected));
    }
    Ok(())
}

/// Checks the times of a client: it asks for `duration`, the last part is to arrive within `patience` after that, and it
/// thinks for less than it asks.
pub(super) fn check_client(
    duration: Nanos,
    patience: Nanos,
    think: Nanos,
) -> Result<(), SpecError> {
    check("duration_ns", duration)?;
    check("patience_ns", patience)?;
    if think >= duration {
        return Err(SpecError::new("think_ns", "expected less than duration_ns"));
    }
    Ok(())
}

/// Checks the payload of a request or of a response, by the payload bytes of a full segment.
pub(super) fn check_payload(key: &str, bytes: Bytes, segment: u32) -> Result<(), SpecError> {
    if bytes == 0 || bytes / u64::from(segment) >= 1 << 24 {
        let expected = "expected at least 1 byte and less than 2^24 segments";
        return Err(SpecError::new(key, expected));
    }
    Ok(())
}
