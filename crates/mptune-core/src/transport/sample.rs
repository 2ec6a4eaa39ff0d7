//! A sample of a sender's state.

use crate::units::Nanos;
use serde::Serialize;

/// The state of a subflow's sender at one time; windows in segments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// Time of the sample.
    pub t_ns: Nanos,
    /// Its path.
    pub path: usize,
    /// Number of the subflow in the connection.
    pub subflow: usize,
    /// Congestion window.
    pub cwnd: f64,
    /// Slow-start threshold; none before the first reduction.
    pub ssthresh: Option<f64>,
    /// Smoothed RTT.
    pub srtt_ns: Nanos,
    /// Segments from SND.UNA to SND.NXT.
    pub unacked: u32,
    /// Of these, selectively acknowledged.
    pub sacked: u32,
    /// Of these, marked lost.
    pub lost: u32,
    /// Segments assigned to it and not sent.
    pub queued: usize,
    /// Recovery state (Linux `tcp_ca_state`).
    pub state: u8,
    /// Backoff of the RTO: timeouts in a row.
    pub backoff: u32,
}
