//! The result: what both ends found, joined and told in one line of JSON.

use crate::config::Config;
use crate::counters::{Counters, describe};
use crate::receiver::Received;
use crate::sender::Sent;
use crate::session::Ending;
use crate::socket::Buffers;
use crate::subflows::{SubflowReport, join};
use serde::Serialize;

/// The buffers in force at both ends, bytes; Linux shows twice what it was asked for.
#[derive(Debug, Clone, Serialize)]
struct Effective {
    sender_sndbuf: u32,
    sender_rcvbuf: u32,
    receiver_sndbuf: u32,
    receiver_rcvbuf: u32,
}

/// Counters that moved at each end.
#[derive(Debug, Clone, Serialize)]
struct BothCounters {
    sender: Counters,
    receiver: Counters,
}

/// The last line. Times count from the `connect` call.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename = "result")]
pub struct Report {
    duration_ns: u64,
    in_order_bytes: u64,
    bins: Vec<u64>,
    completion_ns: Option<u64>,
    failed: Option<String>,
    corrupt_at: Option<u64>,
    fallback: bool,
    requested: Buffers,
    effective: Effective,
    cc_effective: String,
    reinjected_bytes: u64,
    subflows: Vec<SubflowReport>,
    counters: BothCounters,
    cpu_ns: u64,
}

impl Report {
    /// Joins what both ends found; `cpu_ns` is the processor time of both.
    pub fn new(
        config: &Config,
        ending: &Ending,
        sent: Sent,
        received: Received,
        cpu_ns: u64,
    ) -> Self {
        let subflows = join(sent.subflows, received.subflows, received.end_ns);
        let stalled = BothCounters {
            sender: sent.counters.since_progress,
            receiver: received.counters.since_progress,
        };
        let progress = (received.in_order_bytes, config.transfer_bytes);
        Self {
            duration_ns: received.end_ns,
            in_order_bytes: received.in_order_bytes,
            bins: received.bins.until(received.end_ns),
            completion_ns: received.completion_ns,
            failed: failure(ending, progress, &stalled, &subflows),
            corrupt_at: received.corrupt_at,
            fallback: matches!(ending, Ending::Fallback(_)),
            requested: Buffers { sndbuf: config.buffer_bytes, rcvbuf: config.buffer_bytes },
            effective: Effective {
                sender_sndbuf: sent.buffers.sndbuf,
                sender_rcvbuf: sent.buffers.rcvbuf,
                receiver_sndbuf: received.buffers.sndbuf,
                receiver_rcvbuf: received.buffers.rcvbuf,
            },
            cc_effective: sent.cc,
            reinjected_bytes: sent.reinjected_bytes,
            subflows,
            counters: BothCounters {
                sender: sent.counters.whole,
                receiver: received.counters.whole,
            },
            cpu_ns,
        }
    }
}

/// Why there is no usable number; a stall with what the kernel counted during it and the subflows
/// that probe.
fn failure(
    ending: &Ending,
    (bytes, transfer_bytes): (u64, Option<u64>),
    stalled: &BothCounters,
    subflows: &[SubflowReport],
) -> Option<String> {
    match ending {
        Ending::Complete | Ending::Stopped if bytes == 0 => Some("no byte arrived".to_owned()),
        Ending::Complete => None,
        Ending::Stopped => {
            transfer_bytes.map(|all| format!("stopped after {bytes} of {all} bytes"))
        }
        Ending::Failed(reason) | Ending::Fallback(reason) | Ending::Impossible(reason) => {
            Some(reason.clone())
        }
        Ending::Stalled(reason) => {
            let mut parts = vec![reason.clone()];
            for (end, moved) in [("receiver", &stalled.receiver), ("sender", &stalled.sender)] {
                if !moved.is_empty() {
                    parts.push(format!("{end}: {}", describe(moved)));
                }
            }
            for flow in subflows.iter().filter(|flow| flow.probes > 0) {
                let (local, remote, probes) = (flow.local, flow.remote, flow.probes);
                parts.push(format!("{local} to {remote}: {probes} probes without an answer"));
            }
            Some(parts.join("; "))
        }
    }
}
