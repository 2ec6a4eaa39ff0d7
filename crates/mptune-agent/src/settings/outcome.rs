//! Outcomes of orders: a refusal with its reason, or what was put back.

use crate::undo::applied::Kept;
use crate::undo::error::Error;
use crate::undo::kind;
use serde::{Deserialize, Serialize};

/// Reason of a refusal, for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Because {
    /// The order is wrong.
    Input,
    /// Other programs manage the same.
    Foreign,
    /// Another order is being carried out.
    Busy,
    /// This process may not.
    Privilege,
    /// The journal cannot be written.
    Journal,
    /// Somebody else has changed what was made.
    Drift,
    /// The kernel did not do it; everything is as before.
    Kernel,
    /// The daemon does not take what it was to read; everything is as before.
    Daemon,
    /// Putting back after an error did not work.
    Stuck,
}

/// Outcome of a request to the daemon to read its files again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Reload {
    /// It did.
    Reloaded,
    /// No daemon runs.
    Absent,
    /// It did not.
    Refused {
        /// Its reason.
        reason: String,
    },
}

/// Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// For code.
    pub because: Because,
    /// For people, in a line.
    pub reason: String,
}

impl Refusal {
    /// With a reason.
    pub fn new(because: Because, reason: impl ToString) -> Self {
        Self { because, reason: reason.to_string() }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let because = match error {
            Error::Busy => Because::Busy,
            Error::Hidden => Because::Privilege,
            _ => Because::Journal,
        };
        Self::new(because, error)
    }
}

impl From<kind::Error> for Refusal {
    fn from(error: kind::Error) -> Self {
        Self::new(Because::Kernel, error)
    }
}

/// Outcome of a rollback.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Names of the settings that are as before again.
    pub restored: Vec<String>,
    /// The others.
    pub kept: Vec<Kept>,
    /// The daemon's answer, if it is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Reload>,
}
