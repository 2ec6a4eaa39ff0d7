//! What a connection did.

use crate::pathmanager::PathId;
use crate::units::{Bytes, Nanos};
use serde::Serialize;

/// What a connection did, besides what it delivered.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Segments resent on another subflow, or by the connection.
    pub reinjected: u64,
    /// Their payload bytes; under Linux accounting only of those that the connection's timer repeated, which is
    /// what Linux counts (`mptcpi_bytes_retrans`).
    pub reinjected_bytes: Bytes,
    /// Segments that arrived again after they had been received.
    pub duplicates: u64,
    /// How long the shared buffers kept a subflow with room from sending.
    pub window_limited: Nanos,
    /// Times the offered window fell to zero, under Linux accounting.
    pub zero_windows: u64,
    /// Segments the receiver dropped because they were beyond its window, under Linux accounting.
    pub beyond_window: u64,
    /// Most payload bytes that waited in the receive buffer for an earlier segment; counted in full segments.
    pub largest_waiting: Bytes,
    /// Roles that changed after the subflows were opened, in order of time, if the path manager wants samples.
    pub changes: Vec<RoleChange>,
    /// Every subflow, in order of creation.
    pub subflows: Vec<SubflowOutcome>,
}

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

/// What one subflow did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubflowOutcome {
    /// Its path.
    pub path: PathId,
    /// It carried data at some point.
    pub active: bool,
    /// Payload bytes it was the first to deliver.
    pub bytes: Bytes,
    /// The same per bin.
    pub bins: Vec<Bytes>,
    /// Smoothed RTT at the end.
    pub srtt_ns: Nanos,
    /// Smallest RTT.
    pub min_rtt_ns: Nanos,
    /// Data segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted on it.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions of the window undone because nothing had been lost.
    pub undone: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
    /// Segments that another subflow had carried before.
    pub reinjected: u64,
    /// Segments dropped on arrival for lack of memory (accounting "linux").
    pub refused: u64,
}
