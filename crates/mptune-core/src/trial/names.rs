//! Looks up names in the lists of available choices.

use crate::congestion::{self, Controller};
use crate::error::SpecError;
use crate::mptcp::pathpolicy;

/// A name that is not in its list.
pub(super) fn unknown(key: &str, name: &str, known: &[&str]) -> SpecError {
    SpecError::new(key, format!("expected one of {}, found {name:?}", known.join(", ")))
}

/// The congestion control called `name`, alone or with a path policy, which only the scheduler `kernel` obeys.
pub(super) fn paired(
    key: &str,
    name: &str,
    scheduler: &str,
) -> Result<(Controller, Option<pathpolicy::Policy>), SpecError> {
    let (window, Some(policy)) = pathpolicy::parts(name) else {
        return Ok((controller(key, name)?, None));
    };
    let known =
        pathpolicy::Policy::new(policy).ok_or_else(|| unknown(key, policy, pathpolicy::NAMES))?;
    if scheduler != "kernel" {
        let expected = format!("expected scheduler kernel with a path policy, found {scheduler}");
        return Err(SpecError::new(key, expected));
    }
    Ok((controller(key, window)?, Some(known)))
}

/// The congestion control called `name`.
pub(super) fn controller(key: &str, name: &str) -> Result<Controller, SpecError> {
    Controller::new(name).ok_or_else(|| unknown(key, name, congestion::NAMES))
}
