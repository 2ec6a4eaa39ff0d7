//! Events of a connection with their reasons, for a journal.

use crate::kernel::pair::Pair;
use serde::Serialize;
use std::sync::Arc;

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A connection came under a policy.
    Opened,
    /// A subflow was established.
    Joined,
    /// A subflow was made standby.
    Standby,
    /// A subflow was made active.
    Active,
    /// A subflow no longer makes progress, or was closed.
    Lost,
    /// It makes progress again.
    Restored,
    /// A subflow could not be opened, or the kernel refused something else.
    Refused,
    /// Subflows of the other address family are not possible; of all connections of a policy the first tells.
    OneFamily,
    /// A connection is over.
    Closed,
}

/// Something that happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// The kind.
    pub what: What,
    /// The subflow; none if it concerns the connection.
    pub subflow: Option<Pair>,
    /// The reason, one line; empty if that is plain.
    pub why: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Time, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The connection.
    pub token: u32,
    /// The name of its policy.
    pub policy: Arc<str>,
    /// The subflow; none if it concerns the connection.
    pub subflow: Option<Pair>,
    /// The kind.
    pub what: What,
    /// The reason, one line; empty if that is plain.
    pub why: String,
}
