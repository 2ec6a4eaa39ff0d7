//! The lines of JSON of the role `watch`. Values that the kernel does not report are null.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Time between two looks, nanoseconds.
    #[serde(default = "a_second")]
    pub interval_ns: u64,
}

fn a_second() -> u64 {
    1_000_000_000
}

/// A later line.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Make a subflow standby or active.
    SetBackup(Change),
    /// The end.
    Stop,
}

/// New role of a subflow, which is named as in the last report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its connection.
    pub token: u32,
    /// This side's end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// Standby.
    pub backup: bool,
}

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Message<'a> {
    /// Everything there is at a moment.
    Connections(&'a Census),
    /// The kernel has changed the role of a subflow.
    Changed(&'a Change),
    /// The kernel, or the role itself, refuses an order.
    Refused {
        /// In a sentence.
        reason: &'a str,
    },
}

/// All MPTCP connections of the network namespace at a moment.
#[derive(Debug, Default, Serialize)]
pub struct Census {
    /// Time, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Roles of subflows may be changed: this process has CAP_NET_ADMIN.
    pub may_change: bool,
    /// Parts that the report lacks, with the reason.
    pub limits: Vec<&'static str>,
    /// The connections.
    pub connections: Vec<Connection>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Its token here.
    pub token: u32,
    /// This side's end when it was opened.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// TCP's name of its state.
    pub state: Option<&'static str>,
    /// A process that has it open.
    pub pid: Option<u32>,
    /// The name of that process.
    pub command: Option<String>,
    /// It became plain TCP.
    pub fallback: Option<bool>,
    /// "kernel" if the limits of the kernel's own path manager apply to it.
    pub path_manager: Option<&'static str>,
    /// Payload sent, each byte once.
    pub sent_bytes: Option<u64>,
    /// Payload received in order.
    pub received_bytes: Option<u64>,
    /// Payload acknowledged.
    pub acked_bytes: Option<u64>,
    /// Payload sent again on another subflow.
    pub reinjected_bytes: Option<u64>,
    /// Its subflows.
    pub subflows: Vec<Subflow>,
}

/// A subflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subflow {
    /// This side's end.
    pub local: SocketAddr,
    /// The other.
    pub remote: SocketAddr,
    /// The device by which its packets leave.
    pub device: Option<String>,
    /// The number of its local address.
    pub local_id: Option<u8>,
    /// The number of its remote address.
    pub remote_id: Option<u8>,
    /// One of the two sides made it standby.
    pub backup: Option<bool>,
    /// TCP's name of its state.
    pub state: Option<&'static str>,
    /// Its congestion control.
    pub cc: Option<String>,
    /// A path policy holds it: its pacing rate is 0 (`tcpi_pacing_rate`).
    pub held: bool,
    /// Smoothed RTT.
    pub rtt_ns: Option<u64>,
    /// Smallest RTT.
    pub min_rtt_ns: Option<u64>,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Payload that the peer acknowledged, and one for the handshake.
    pub acked_bytes: u64,
    /// Payload received in order.
    pub received_bytes: u64,
    /// Payload sent again on it.
    pub retransmitted_bytes: u64,
    /// Segments that are believed lost now.
    pub lost: u32,
    /// Segments in flight.
    pub unacked: u32,
    /// Payload acknowledged per second at the last sample.
    pub delivery_rate_bps: Option<u64>,
    /// Time with data to send or unacknowledged.
    pub busy_ns: u64,
    /// Part of it limited by the peer's receive window.
    pub rwnd_limited_ns: u64,
    /// Part of it limited by the send buffer.
    pub sndbuf_limited_ns: u64,
    /// Retransmission timeouts, those of the handshake included.
    pub timeouts: Option<u16>,
    /// Those since the last progress.
    pub timeouts_in_a_row: u8,
    /// Time since the last acknowledgement arrived.
    pub silent_ns: u64,
}
