//! Looks up names in the lists of available choices.

use crate::congestion::{self, Controller};
use crate::error::SpecError;

/// A name that is not in its list.
pub(super) fn unknown(key: &str, name: &str, known: &[&str]) -> SpecError {
    SpecError::new(key, format!("expected one of {}, found {name:?}", known.join(", ")))
}

/// The congestion control called `name`.
pub(super) fn controller(key: &str, name: &str) -> Result<Controller, SpecError> {
    Controller::new(name).ok_or_else(|| unknown(key, name, congestion::NAMES))
}
