//! A record of what the path manager changed.

use crate::pathmanager::PathId;
use crate::units::Nanos;
use serde::Serialize;

/// A subflow on a path changed its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoleChange {
    /// When.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Its path.
    pub path: PathId,
    /// It carries no data from then on, or only in place of others.
    pub backup: bool,
}
