//! Status of the daemon, for readers of its socket.

use crate::paths::survey::Resynced;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Everything.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename = "status")]
pub struct Status {
    /// Of the agent.
    pub version: &'static str,
    /// Of the process.
    pub pid: u32,
    /// "userspace" or "endpoints".
    pub mode: &'static str,
    /// The policy file.
    pub policy_file: PathBuf,
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Time since it began.
    pub uptime_s: f64,
    /// New connections are steered in this mode; false if another program has changed the kernel's setting.
    pub in_force: bool,
    /// The reason of the last reload's refusal; none if it was not refused.
    pub reload_refused: Option<String>,
    /// Address of the metrics, over HTTP; none without.
    pub metrics: Option<SocketAddr>,
    /// Connections to the socket.
    pub readers: u64,
    /// Lines that readers have lost.
    pub lines_dropped: u64,
    /// The number of the last event.
    pub last_event: u64,
    /// Events of the kernel that were lost, and what was made up for.
    pub resync: Resynced,
    /// Processor time.
    pub cpu_s: f64,
    /// Resident.
    pub memory_bytes: u64,
    /// The permission to repeat measurements.
    pub remeasure: Option<RemeasureStatus>,
    /// The limits of the buffers; none if they are not adapted.
    pub buffers: Option<BuffersStatus>,
    /// The devices of this machine and their addresses.
    pub interfaces: Vec<InterfaceStatus>,
    /// In the order of the file.
    pub policies: Vec<PolicyStatus>,
}

/// The limits of the buffers, and the permission to adapt them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BuffersStatus {
    /// No limit is below.
    pub least_bytes: u64,
    /// No limit is above.
    pub most_bytes: u64,
    /// Share of a curve's maximum that is enough.
    pub target: f64,
    /// Length of an interval.
    pub every_ns: u64,
    /// Of the send and of the receive buffers.
    pub limits: Vec<LimitStatus>,
}

/// The limit of the send or the receive buffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitStatus {
    /// The kernel's setting.
    pub name: &'static str,
    /// Its third value.
    pub limit_bytes: u64,
    /// The same when the daemon came.
    pub before_bytes: u64,
    /// The policy whose connections decided last; none if none did.
    pub policy: Option<String>,
    /// Result of the last interval, or the reason why it is not adapted.
    pub why: String,
    /// False if somebody else has set it, or the kernel refused it.
    pub adapted: bool,
}

/// A device with one of its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub device: String,
    /// None if it has no address that could be used.
    pub address: Option<IpAddr>,
    /// New subflows may begin there, towards a destination of a policy or towards anywhere.
    pub used: bool,
    /// The reason; empty if they may.
    pub why: String,
}

/// The permission to repeat measurements, as in the policy file.
#[derive(Debug, Clone, Serialize)]
pub struct RemeasureStatus {
    /// Hours of the day.
    pub hours: String,
    /// Most data.
    pub max_data: Option<String>,
    /// Most time on the network.
    pub budget: Option<String>,
}

/// A policy; counts are totals since the daemon began.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: String,
    /// Its destinations; empty for all others.
    pub to: Vec<String>,
    /// The path manager.
    pub pm: String,
    /// The run that it came from.
    pub run: Option<PathBuf>,
    /// Time of its measurement.
    pub measured_at: Option<String>,
    /// New connections are left alone during a measurement.
    pub suspended: bool,
    /// Connections now.
    pub connections: u64,
    /// Subflows now that carry data.
    pub active: u64,
    /// Subflows now that are in reserve.
    pub standby: u64,
    /// Connections that came under the policy.
    pub opened: u64,
    /// Subflows that joined.
    pub joined: u64,
    /// Subflows made standby or active.
    pub role_changes: u64,
    /// Subflows made standby.
    pub demotions: u64,
    /// Subflows that were lost.
    pub outages: u64,
    /// Actions that failed.
    pub errors: u64,
    /// Payload sent.
    pub sent_bytes: u64,
    /// Payload that was sent once more on another subflow.
    pub reinjected_bytes: u64,
    /// Payload received.
    pub received_bytes: u64,
    /// The prediction of the run.
    pub expected_mbit_s: Option<f64>,
    /// At least.
    pub expected_low_mbit_s: Option<f64>,
    /// At most.
    pub expected_high_mbit_s: Option<f64>,
    /// A quarter of the saturated time lately was below.
    pub seen_low_mbit_s: Option<f64>,
    /// A quarter of it was above.
    pub seen_high_mbit_s: Option<f64>,
    /// The prediction no longer holds.
    pub outdated: bool,
    /// The same in a sentence.
    pub notice: Option<String>,
}

/// Resident memory of this process, bytes.
pub fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
