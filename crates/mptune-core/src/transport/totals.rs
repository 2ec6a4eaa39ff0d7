//! Totals of a connection and its subflows.

use crate::pathmanager::PathId;
use crate::units::{Bytes, Nanos};
use serde::Serialize;

/// The counters of a connection at its end.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Segments resent on another subflow, or by the connection.
    pub reinjected: u64,
    /// Their payload bytes; with Linux accounting only those that the connection's timer repeated
    /// (`mptcpi_bytes_retrans`).
    pub reinjected_bytes: Bytes,
    /// Segments that arrived again after they had been received.
    pub duplicates: u64,
    /// Time during which the shared buffers kept a subflow with room in cwnd from sending.
    pub window_limited: Nanos,
    /// Times the offered window fell to zero, under Linux accounting.
    pub zero_windows: u64,
    /// Segments the receiver dropped because they were beyond its window, under Linux accounting.
    pub beyond_window: u64,
    /// Most payload bytes that waited in the receive buffer for an earlier segment; counted in full segments.
    pub largest_waiting: Bytes,
    /// Changes of role after the subflows were opened, in order of time, if the path manager takes samples.
    pub changes: Vec<RoleChange>,
    /// Every subflow, in order of creation.
    pub subflows: Vec<SubflowOutcome>,
}

/// A change of role of a path's subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RoleChange {
    /// Time of the change.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Its path.
    pub path: PathId,
    /// It carries no data from then on, or only in place of others.
    pub backup: bool,
}

/// The counters of a subflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubflowOutcome {
    /// Its path.
    pub path: PathId,
    /// It carried data at some point.
    pub active: bool,
    /// Payload bytes that it delivered first.
    pub bytes: Bytes,
    /// The same per bin.
    pub bins: Vec<Bytes>,
    /// Smoothed RTT at the end.
    pub srtt_ns: Nanos,
    /// Smallest RTT.
    pub min_rtt_ns: Nanos,
    /// Retransmission timeout at the end, without back-off; 0 before the first RTT.
    pub rto_ns: Nanos,
    /// Data segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted on it.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions of cwnd undone as spurious.
    pub undone: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
    /// Segments that another subflow had carried before.
    pub reinjected: u64,
    /// Segments dropped on arrival for lack of memory (accounting "linux").
    pub refused: u64,
}
