//! The outcome of a trial.

use super::spec::TrialSpec;
use crate::mptcp::{Connection, RoleChange, Stall, Subflow};
use crate::pathmanager::PathId;
use crate::simulation::Simulation;
use crate::units::{Bytes, Nanos};
use serde::Serialize;

/// Why a trial gave no usable number, for callers that distinguish failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The connection stopped for good.
    Stalled,
    /// No byte arrived.
    Unreachable,
    /// The time limit came before a transfer's last byte.
    Incomplete,
    /// The simulator's books contradict themselves: a fault of the simulator.
    Miscounted,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// How long the measurement took: the trial's duration or less if it ended early, or a transfer's
    /// completion time.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub in_order_bytes: Bytes,
    /// The same per bin.
    pub bins: Vec<Bytes>,
    /// What they would have been over the trial's duration, of a trial that ended early.
    pub expected_bytes: Option<Bytes>,
    /// When a transfer's last byte was delivered in order.
    pub completion_ns: Option<Nanos>,
    /// Why the trial gave no usable number.
    pub failed: Option<String>,
    /// The kind of that failure.
    pub failed_kind: Option<FailureKind>,
    /// When the connection stopped for good, if it did.
    pub stalled_ns: Option<Nanos>,
    /// Segments resent on another subflow, or by the connection.
    pub reinjected: u64,
    /// Their payload bytes; under Linux accounting only of those that the connection's timer repeated,
    /// which is what Linux counts (`mptcpi_bytes_retrans`): not what is handed out anew because a subflow is
    /// stale.
    pub reinjected_bytes: Bytes,
    /// Segments that arrived again after they had been received.
    pub duplicates: u64,
    /// How long the shared buffers kept a subflow with room from sending.
    pub window_limited_ns: Nanos,
    /// Times the offered window fell to zero (accounting "linux").
    pub zero_windows: u64,
    /// Segments the receiver dropped because they were beyond its window, under Linux accounting: the
    /// sender believes the window to be wider than it is while a subflow has a hole.
    pub beyond_window: u64,
    /// Most bytes held in the receive buffer while earlier ones were missing.
    pub largest_reordering_bytes: Bytes,
    /// Roles that changed after the subflows were opened, of a path manager that acts on samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RoleChange>,
    /// Events the simulator handled.
    pub events: u64,
    /// Every subflow, in order of creation.
    pub subflows: Vec<SubflowOutcome>,
    /// Every background connection, in the order of the network's list.
    pub background: Vec<BackgroundOutcome>,
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

/// What a background connection did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackgroundOutcome {
    /// Its path.
    pub path: PathId,
    /// How long it had data to send, up to the end of the trial.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub bytes: Bytes,
    /// Segments retransmitted.
    pub retransmitted: u64,
}

/// How far a trial ran.
pub(super) struct Span {
    /// Its limit, unless it ended early.
    pub(super) end: Nanos,
    /// Something could still have happened.
    pub(super) alive: bool,
    /// Bytes expected by the limit, if it ended early.
    pub(super) expected: Option<Bytes>,
}

impl TrialSpec {
    pub(super) fn outcome(&self, simulation: &Simulation, number: usize, span: &Span) -> Outcome {
        let connection = simulation.connection(number);
        let completion = connection.completed_at();
        let end = completion.unwrap_or(span.end);
        let stalled = if completion.is_some() { None } else { stalled(connection, span.alive) };
        let miscount = simulation.miscount();
        let failure = match miscount {
            Some(miscount) => Some((FailureKind::Miscounted, format!("accounting: {miscount}"))),
            None => self.failure(connection, span.end, stalled.as_ref()),
        };
        let (failed_kind, failed) = failure.unzip();
        Outcome {
            duration_ns: end,
            in_order_bytes: connection.series().total(),
            bins: connection.series().clone().finish(end),
            expected_bytes: span.expected.filter(|_| miscount.is_none()),
            completion_ns: completion.filter(|_| miscount.is_none()),
            failed,
            failed_kind,
            stalled_ns: stalled.map(|(at, _)| at),
            reinjected: connection.reinjected(),
            reinjected_bytes: connection.reinjected_bytes(),
            duplicates: connection.duplicates(),
            window_limited_ns: connection.window_limited(end),
            zero_windows: connection.zero_windows(),
            beyond_window: connection.beyond_window(),
            largest_reordering_bytes: connection.largest_waiting(),
            changes: connection.changes().to_vec(),
            events: simulation.events(),
            subflows: connection.subflows.iter().map(|s| SubflowOutcome::new(s, end)).collect(),
            background: self.background(simulation, number + 1, end),
        }
    }

    /// Why there is no usable number, if there is none.
    fn failure(
        &self,
        connection: &Connection,
        limit: Nanos,
        stalled: Option<&(Nanos, String)>,
    ) -> Option<(FailureKind, String)> {
        let seconds = |at: Nanos| at as f64 / 1e9;
        let delivered = connection.series().total();
        if connection.completed_at().is_some() {
            None
        } else if delivered == 0 {
            Some((FailureKind::Unreachable, "no byte was delivered".to_owned()))
        } else if let Some((at, reason)) = stalled {
            let reason = format!("stalled at {:.3} s: {reason}", seconds(*at));
            Some((FailureKind::Stalled, reason))
        } else {
            self.workload.completes().then(|| {
                let limit = seconds(limit);
                let reason =
                    format!("not completed within {limit:.3} s: {delivered} bytes delivered");
                (FailureKind::Incomplete, reason)
            })
        }
    }

    fn background(
        &self,
        simulation: &Simulation,
        first: usize,
        end: Nanos,
    ) -> Vec<BackgroundOutcome> {
        let flows = self.network.background.iter().enumerate();
        let outcome = flows.map(|(i, flow)| {
            let connection = simulation.connection(first + i);
            let totals = connection.subflows.first().map(Subflow::totals).unwrap_or_default();
            let stop = flow.stop_ns.unwrap_or(end).min(end);
            BackgroundOutcome {
                path: flow.path,
                duration_ns: stop.saturating_sub(flow.start_ns),
                bytes: connection.series().total(),
                retransmitted: totals.retransmitted,
            }
        });
        outcome.collect()
    }
}

/// When and why the connection stopped for good.
fn stalled(connection: &Connection, alive: bool) -> Option<(Nanos, String)> {
    let last = connection.progress_at();
    match connection.stall() {
        Some(stall @ Stall::MemoryFull { at, .. }) => Some((at, stall.to_string())),
        Some(stall) => Some((last, stall.to_string())),
        None if !alive && !connection.is_withdrawn() => Some((last, "no events left".to_owned())),
        None => None,
    }
}

impl SubflowOutcome {
    fn new(subflow: &Subflow, end: Nanos) -> Self {
        let totals = subflow.totals();
        Self {
            path: subflow.path,
            active: subflow.carried_data,
            bytes: subflow.series.total(),
            bins: subflow.series.clone().finish(end),
            srtt_ns: subflow.sender.rtt.srtt,
            min_rtt_ns: subflow.min_rtt(),
            sent: totals.sent,
            retransmitted: totals.retransmitted,
            timeouts: totals.timeouts,
            recoveries: totals.recoveries,
            undone: totals.undone,
            ecn_reductions: totals.ecn_reductions,
            reinjected: totals.reinjected,
            refused: totals.refused,
        }
    }
}
