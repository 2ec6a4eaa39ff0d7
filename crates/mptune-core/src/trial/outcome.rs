//! The outcome of a trial.

use super::spec::TrialSpec;
use crate::pathmanager::PathId;
use crate::simulation::Simulation;
use crate::transport::{RoleChange, SubflowOutcome, Transport};
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
    pub(super) fn outcome(
        &self,
        simulation: &Simulation<impl Transport>,
        number: usize,
        span: &Span,
    ) -> Outcome {
        let connection = simulation.connection(number);
        let completion = connection.completed_at();
        let end = completion.unwrap_or(span.end);
        let stalled = if completion.is_some() { None } else { connection.stalled(span.alive) };
        let contradiction = simulation.contradiction();
        let consistent = contradiction.is_none();
        let failure = match contradiction {
            Some(reason) => Some((FailureKind::Miscounted, format!("accounting: {reason}"))),
            None => self.failure(connection, span.end, stalled.as_ref()),
        };
        let (failed_kind, failed) = failure.unzip();
        let totals = connection.totals(end);
        Outcome {
            duration_ns: end,
            in_order_bytes: connection.series().total(),
            bins: connection.series().clone().finish(end),
            expected_bytes: span.expected.filter(|_| consistent),
            completion_ns: completion.filter(|_| consistent),
            failed,
            failed_kind,
            stalled_ns: stalled.map(|(at, _)| at),
            reinjected: totals.reinjected,
            reinjected_bytes: totals.reinjected_bytes,
            duplicates: totals.duplicates,
            window_limited_ns: totals.window_limited,
            zero_windows: totals.zero_windows,
            beyond_window: totals.beyond_window,
            largest_reordering_bytes: totals.largest_waiting,
            changes: totals.changes,
            events: simulation.events(),
            subflows: totals.subflows,
            background: self.background(simulation, number + 1, end),
        }
    }

    /// Why there is no usable number, if there is none.
    fn failure(
        &self,
        connection: &impl Transport,
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
        simulation: &Simulation<impl Transport>,
        first: usize,
        end: Nanos,
    ) -> Vec<BackgroundOutcome> {
        let flows = self.network.background.iter().enumerate();
        let outcome = flows.map(|(i, flow)| {
            let connection = simulation.connection(first + i);
            let stop = flow.stop_ns.unwrap_or(end).min(end);
            BackgroundOutcome {
                path: flow.path,
                duration_ns: stop.saturating_sub(flow.start_ns),
                bytes: connection.series().total(),
                retransmitted: connection
                    .totals(end)
                    .subflows
                    .iter()
                    .map(|s| s.retransmitted)
                    .sum(),
            }
        });
        outcome.collect()
    }
}
