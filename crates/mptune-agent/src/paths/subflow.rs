//! One kernel subflow as its connection tracks it, and the records of what happened to it.
//!
//! All times are CLOCK_MONOTONIC, nanoseconds. Nothing is decided here.

use crate::kernel::diag::Statistics;
use crate::kernel::pair::Pair;
use mptune_core::pathmanager::PathId;
use serde::Serialize;

/// The kernel made a subflow on a path standby or active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PriorityChange {
    /// Time.
    pub at_ns: u64,
    /// Label of the path.
    pub path: String,
    /// Standby from then on.
    pub backup: bool,
}

/// A subflow that was lost while it was in use, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outage {
    /// Label of its path.
    pub path: String,
    /// Arrival of its last acknowledgement.
    pub last_heard_ns: u64,
    /// Time of the detection.
    pub detected_ns: u64,
    /// Labels of the paths that the policy used in its place.
    pub successors: Vec<String>,
    /// Time at which the first of them was seen carrying data, at most one close look late.
    pub carrying_ns: Option<u64>,
    /// Duration from the last sign of life until then: detection and switching together. It may be
    /// shorter than the detection, since the kernel uses standby subflows by itself once it finds all
    /// active ones stale (`net.mptcp.stale_loss_cnt`). None without a successor that carries data.
    pub take_over_ns: Option<u64>,
    /// Time of its next progress.
    pub restored_ns: Option<u64>,
}

/// A subflow and its state in the kernel.
#[derive(Debug, Clone)]
pub struct Subflow {
    /// Its path.
    pub path: PathId,
    /// Its ends; none before it is established and after it is closed.
    pub pair: Option<Pair>,
    /// Its last ends.
    pub last_pair: Option<Pair>,
    /// It is standby in the kernel.
    pub kernel_backup: bool,
    /// The latest statistics.
    pub last: Option<Statistics>,
    /// Since when it has carried data without a pause; none while it carries none.
    pub carrying_ns: Option<u64>,
    /// Time of its handshake's end.
    pub established_ns: u64,
    /// Arrival of the last acknowledgement.
    pub heard_ns: u64,
    /// Since when the kernel refuses to change its priority.
    pub refused_ns: Option<u64>,
    /// The refusal has been recorded.
    pub refusal_told: bool,
    /// Close it as soon as it has joined.
    pub unwanted: bool,
}

impl Subflow {
    /// A subflow that is being opened.
    pub fn new(path: PathId, backup: bool) -> Self {
        Self {
            path,
            pair: None,
            last_pair: None,
            kernel_backup: backup,
            last: None,
            carrying_ns: None,
            established_ns: 0,
            heard_ns: 0,
            refused_ns: None,
            refusal_told: false,
            unwanted: false,
        }
    }

    /// Its handshake is done.
    pub fn establish(&mut self, pair: Pair, now_ns: u64) {
        (self.pair, self.last_pair) = (Some(pair), Some(pair));
        (self.established_ns, self.heard_ns) = (now_ns, now_ns);
        (self.last, self.carrying_ns) = (None, None);
    }

    /// It was polled.
    pub fn note(&mut self, seen: Statistics, now_ns: u64) {
        let before = self.last.map_or(1, |last| last.acked_bytes); // the SYN
        if seen.acked_bytes > before {
            self.carrying_ns = self.carrying_ns.or(Some(now_ns));
        } else if seen.unacked == 0 {
            self.carrying_ns = None;
        }
        let silent_ns = u64::from(seen.silent_ms) * 1_000_000;
        self.heard_ns = self.heard_ns.max(now_ns.saturating_sub(silent_ns));
        self.last = Some(seen);
    }

    /// Consecutive timeouts at the last poll.
    pub fn timeouts(&self) -> u32 {
        self.last.map_or(0, |last| last.timeouts)
    }
}
