//! What a sender thinks at one time.

use crate::units::Nanos;
use serde::Serialize;

/// What a subflow's sender thought at one time; windows are in segments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// When.
    pub t_ns: Nanos,
    /// Its path.
    pub path: usize,
    /// Its number among those of the connection.
    pub subflow: usize,
    /// Congestion window.
    pub cwnd: f64,
    /// Slow-start threshold; none before the first reduction.
    pub ssthresh: Option<f64>,
    /// Smoothed RTT.
    pub srtt_ns: Nanos,
    /// Sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// Of these, selectively acknowledged.
    pub sacked: u32,
    /// Of these, believed lost.
    pub lost: u32,
    /// Handed to it and not sent.
    pub queued: usize,
    /// What it is doing about losses, as Linux numbers it.
    pub state: u8,
    /// Its timer's backoff: timeouts in a row.
    pub backoff: u32,
}
