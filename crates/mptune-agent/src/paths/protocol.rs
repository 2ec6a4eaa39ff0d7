//! The lines of JSON of role `paths`.
//!
//! ```text
//! in   {"side": "sender", "assignment": {...}, "ports": [40123]}    or {"side": "receiver", "ports": [40123]}
//! out  {"event": "ready"}
//! in   {"action": "sent", "bytes": 524288}
//! in   {"action": "withdraw", "path": <label>}    or "readmit", "remove", "add"
//! in   {"action": "report"}
//! in   {"action": "stop"}
//! out  {"event": "report", "connections": [...], "cpu_ns": 31000000}    for "report" and "stop"
//! out  {"event": "error", "reason": "..."} instead of any of them, and status 1
//! ```
//!
//! With ports, which are the receiver's, connections to or from any other are left alone. On the receiver's
//! side "remove" and "add" name one of its own addresses, and a report has how many
//! connections were accepted. The end of the input and SIGTERM are "stop".

use super::assignment::Specification;
use super::connection::{Connection, PathChange};
use super::ports::Ports;
use super::sampling::Sampled;
use super::subflow::{Outage, PriorityChange};
use crate::kernel::diag::Statistics;
use crate::kernel::pair::Pair;
use mptune_core::pathmanager::State;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The first line.
#[derive(Deserialize)]
#[serde(tag = "side", rename_all = "lowercase", deny_unknown_fields)]
pub enum Config {
    /// The side that opens connections.
    Sender {
        /// Their assignment.
        assignment: Specification,
        /// The receiver's ports, of connections between addresses of the assignment.
        #[serde(default)]
        ports: Ports,
    },
    /// The side that accepts them.
    Receiver {
        /// Its ports.
        #[serde(default)]
        ports: Ports,
    },
}

/// A later line, on the sender's side.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum AtSender {
    /// This many payload bytes of the connection were sent.
    Sent {
        /// Number of bytes.
        bytes: u64,
    },
    /// Take a path out of service: its subflows become standby.
    Withdraw {
        /// Its label.
        path: String,
    },
    /// Put it back into service.
    Readmit {
        /// Its label.
        path: String,
    },
    /// A path's address goes away: its subflows are closed.
    Remove {
        /// Its label.
        path: String,
    },
    /// It comes back: they are reopened.
    Add {
        /// Its label.
        path: String,
    },
    /// Report on the connections so far.
    Report,
    /// Report and end.
    Stop,
}

impl AtSender {
    /// The change it makes, and to which path.
    pub fn path_change(&self) -> Option<(PathChange, &str)> {
        match self {
            Self::Withdraw { path } => Some((PathChange::Withdraw, path)),
            Self::Readmit { path } => Some((PathChange::Readmit, path)),
            Self::Remove { path } => Some((PathChange::Remove, path)),
            Self::Add { path } => Some((PathChange::Add, path)),
            Self::Sent { .. } | Self::Report | Self::Stop => None,
        }
    }
}

/// A later line, on the receiver's side.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum AtReceiver {
    /// One of its addresses goes away (REMOVE_ADDR).
    Remove {
        /// The address.
        address: IpAddr,
    },
    /// It comes back (ADD_ADDR).
    Add {
        /// The address.
        address: IpAddr,
    },
    /// Report on what happened so far.
    Report,
    /// Report and end.
    Stop,
}

/// A line of output.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Message {
    /// Connections that are opened from now on are managed.
    Ready,
    /// Report of the connections.
    Report {
        /// In order of creation.
        connections: Vec<ConnectionReport>,
        /// Processor time of this process so far.
        cpu_ns: u64,
    },
    /// The same for the receiver's side.
    #[serde(rename = "report")]
    Accepted {
        /// Number of connections that were accepted.
        accepted: u64,
        /// One line each: what the kernel refused.
        problems: Vec<String>,
        /// Processor time of this process so far.
        cpu_ns: u64,
    },
}

/// A subflow so far.
#[derive(Debug, PartialEq, Serialize)]
pub struct SubflowReport {
    /// Label of its path.
    path: String,
    /// Its ends; none if it was never established.
    pair: Option<Pair>,
    /// "joining", "established", "refused" or "closed".
    state: &'static str,
    /// Standby in the kernel.
    backup: bool,
    /// Time of its handshake's end.
    established_ns: u64,
    /// The kernel's present report; none if the subflow is gone.
    kernel: Option<KernelReport>,
}

/// The kernel's report of a subflow.
#[derive(Debug, PartialEq, Serialize)]
pub struct KernelReport {
    /// This side made it standby.
    backup: bool,
    /// Acknowledged so far, bytes; the SYN counts as one.
    acked_bytes: u64,
    /// Segments in flight.
    unacked: u32,
    /// Smallest RTT seen; 0 before the first sample.
    min_rtt_ns: u64,
    /// Consecutive retransmission timeouts.
    timeouts: u32,
}

/// A connection so far; times are CLOCK_MONOTONIC.
#[derive(Debug, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// Time of the kernel's report of its creation.
    created_ns: u64,
    /// Time of the kernel's report of its end; none while it exists.
    closed_ns: Option<u64>,
    /// In order of creation, the initial one first.
    subflows: Vec<SubflowReport>,
    /// Priorities that were changed after the subflows were opened.
    changes: Vec<PriorityChange>,
    /// Subflows that were lost in use, with their successors and takeover times.
    outages: Vec<Outage>,
    /// One line each: joins that failed, orders that the kernel refused.
    problems: Vec<String>,
    /// Composition of the path manager's samples; none if it takes none.
    sampled: Option<Sampled>,
}

impl ConnectionReport {
    /// The report of a connection; queries `kernel` about every established subflow.
    pub fn new(
        connection: &Connection,
        mut kernel: impl FnMut(&Pair) -> Option<Statistics>,
    ) -> Self {
        let subflows = connection.subflows().enumerate().map(|(id, (flow, state))| SubflowReport {
            path: connection.label(id),
            pair: flow.last_pair,
            state: name(state),
            backup: flow.kernel_backup,
            established_ns: flow.established_ns,
            kernel: flow.pair.and_then(|pair| kernel(&pair)).map(KernelReport::from),
        });
        Self {
            created_ns: connection.created_ns,
            closed_ns: connection.closed_ns,
            subflows: subflows.collect(),
            changes: connection.changes.clone(),
            outages: connection.outages.clone(),
            problems: connection.problems.clone(),
            sampled: connection.sampled(),
        }
    }
}

impl From<Statistics> for KernelReport {
    fn from(seen: Statistics) -> Self {
        let Statistics { backup, acked_bytes, unacked, min_rtt_ns, timeouts, .. } = seen;
        Self { backup, acked_bytes, unacked, min_rtt_ns, timeouts }
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::Joining => "joining",
        State::Established => "established",
        State::Refused => "refused",
        State::Closed => "closed",
    }
}
