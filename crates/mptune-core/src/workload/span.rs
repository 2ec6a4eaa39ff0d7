//! The bounds of the time that a trial may take.

use crate::error::SpecError;
use crate::units::{NEVER, Nanos};

/// Checks a time within which a trial ends.
pub(super) fn check(key: &str, span: Nanos) -> Result<(), SpecError> {
    if span == 0 || span >= NEVER / 2 {
        let expected = format!("expected more than 0 and less than 26 days, found {span} ns");
        return Err(SpecError::new(key, expected));
    }
    Ok(())
}
