//! Failures that end a session on a host.

use crate::control;
use crate::kernel::error as kernel;
use crate::undo::error as undo;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Failure of a session, or of an order in it.
#[derive(Debug, Error)]
pub enum Error {
    /// The journal, its lock or a setting failed.
    #[error(transparent)]
    Undo(#[from] undo::Error),
    /// The journal cannot be written while settings are restored.
    #[error("journal: {0}")]
    Journal(io::Error),
    /// The guardian cannot be started.
    #[error("no guardian: {0}")]
    Guardian(io::Error),
    /// The guardian was killed, and another cannot be started.
    #[error("the guardian was killed, and {0}")]
    Unguarded(Box<Error>),
    /// A line is no order.
    #[error("expected an order: {0}")]
    Order(#[from] serde_json::Error),
    /// A role of this number exists.
    #[error("start: expected a new number, found {0}")]
    Number(u64),
    /// The controller is gone.
    #[error("standard output has no reader any more")]
    Unread,
    /// The controller has been silent for this long.
    #[error("nothing heard for {:.0} s", .0.as_secs_f64())]
    Silence(Duration),
    /// A question to the kernel failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// The conversation with the controller failed, or a signal ended it.
    #[error(transparent)]
    Control(#[from] control::Error),
    /// Another system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}
