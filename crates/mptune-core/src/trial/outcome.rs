//! The outcome of a trial.

use super::spec::TrialSpec;
use crate::pathmanager::PathId;
use crate::simulation::Simulation;
use crate::transport::{RoleChange, SubflowOutcome, Transport};
use crate::units::{Bytes, Nanos};
use crate::workload::{Piece, Workload};
use serde::Serialize;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The connection stopped for good.
    Stalled,
    /// No byte arrived.
    Unreachable,
    /// The time limit came before a transfer's last byte.
    Incomplete,
    /// The simulator's accounts contradict themselves: a fault of the simulator.
    Miscounted,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Length of the measurement: the trial's duration, less if it ended early, or a transfer's completion time.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub in_order_bytes: Bytes,
    /// The same per bin.
    pub bins: Vec<Bytes>,
    /// Bytes expected over the whole duration, of a trial that ended early.
    pub expected_bytes: Option<Bytes>,
    /// Delivery of the last byte of a transfer, or of the last message, in order.
    pub completion_ns: Option<Nanos>,
    /// Of each message, in order, the time from when it was due until its last byte arrived in order; of each response
    /// from the request on. Of messages both ways those back follow the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays_ns: Vec<Nanos>,
    /// Record of each segment of a video beside its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<Piece>,
    /// Reason for a trial without a usable number.
    pub failed: Option<String>,
    /// The kind of that failure.
    pub failed_kind: Option<FailureKind>,
    /// Time of a permanent stall.
    pub stalled_ns: Option<Nanos>,
    /// Segments resent on another subflow, or by the connection.
    pub reinjected: u64,
    /// Their payload bytes; with Linux accounting only those that the connection's timer repeated
    /// (`mptcpi_bytes_retrans`), not those of a stale subflow reassigned to another.
    pub reinjected_bytes: Bytes,
    /// Segments that arrived again after they had been received.
    pub duplicates: u64,
    /// Time during which the shared buffers kept a subflow with room in cwnd from sending.
    pub window_limited_ns: Nanos,
    /// Times the offered window fell to zero (accounting "linux").
    pub zero_windows: u64,
    /// Segments that the receiver dropped beyond its window (accounting "linux"): while a subflow has a hole,
    /// the sender takes the window for wider than it is.
    pub beyond_window: u64,
    /// Most bytes out of order in the receive buffer.
    pub largest_reordering_bytes: Bytes,
    /// Changes of role after the subflows were opened, of a path manager that acts on samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RoleChange>,
    /// Events the simulator handled.
    pub events: u64,
    /// Every subflow, in order of creation.
    pub subflows: Vec<SubflowOutcome>,
    /// Every background connection, in the order of the network's list.
    pub background: Vec<BackgroundOutcome>,
    /// Of a trial with many connections: each workload's, in the order of the specification. What is above is of the
    /// connections of the first workload together: payload and counters are sums, the duration that of the last,
    /// there is one subflow for each path, and the delays of a connection follow those of the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowOutcome>,
}

/// The counters of a background connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackgroundOutcome {
    /// Its path.
    pub path: PathId,
    /// Time with data to send, up to the end of the trial.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub bytes: Bytes,
    /// Segments retransmitted.
    pub retransmitted: u64,
}

/// The connections of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowOutcome {
    /// Each of them, in the order of the specification.
    pub connections: Vec<ConnectionOutcome>,
}

/// One connection of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionOutcome {
    /// Length of its measurement, from its first SYN.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub bytes: Bytes,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Last byte of a transfer or of the last part, from its first SYN.
    pub completion_ns: Option<Nanos>,
    /// As the outcome's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays_ns: Vec<Nanos>,
    /// As the outcome's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<Piece>,
}

/// The end of a run.
pub(super) struct Span {
    /// Its limit, unless it ended early.
    pub(super) end: Nanos,
    /// Events were left.
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
        let contradiction = simulation.contradiction();
        self.outcome_of(simulation, &self.workload.drawn(self.seed), number, span, contradiction)
    }

    /// That of the connection with this number.
    pub(super) fn outcome_of(
        &self,
        simulation: &Simulation<impl Transport>,
        workload: &Workload,
        number: usize,
        span: &Span,
        contradiction: Option<String>,
    ) -> Outcome {
        let connection = simulation.connection(number);
        let completion = simulation.completed_at(number);
        let end = completion.unwrap_or(span.end);
        let stalled = if completion.is_some() { None } else { connection.stalled(span.alive) };
        let consistent = contradiction.is_none();
        let failure = match contradiction {
            Some(reason) => Some((FailureKind::Miscounted, format!("accounting: {reason}"))),
            None if completion.is_some() => None,
            None => failure(workload, connection, span.end, stalled.as_ref()),
        };
        let (failed_kind, failed) = failure.unzip();
        let totals = connection.totals(end);
        Outcome {
            duration_ns: end,
            in_order_bytes: connection.series().total(),
            bins: connection.series().clone().finish(end),
            expected_bytes: span.expected.filter(|_| consistent),
            completion_ns: completion.filter(|_| consistent),
            delays_ns: simulation.delays(number),
            pieces: pieces_of(simulation, workload, number),
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
            background: self.background(simulation, end),
            flows: vec![],
        }
    }

    fn background(
        &self,
        simulation: &Simulation<impl Transport>,
        end: Nanos,
    ) -> Vec<BackgroundOutcome> {
        let flows = self.network.background.iter().enumerate();
        let outcome = flows.map(|(i, flow)| {
            let connection = simulation.connection(1 + i);
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

/// Kind and reason of a failure.
fn failure(
    workload: &Workload,
    connection: &impl Transport,
    limit: Nanos,
    stalled: Option<&(Nanos, String)>,
) -> Option<(FailureKind, String)> {
    let seconds = |at: Nanos| at as f64 / 1e9;
    let delivered = connection.series().total();
    if delivered == 0 {
        Some((FailureKind::Unreachable, "no byte was delivered".to_owned()))
    } else if let Some((at, reason)) = stalled {
        let reason = format!("stalled at {:.3} s: {reason}", seconds(*at));
        Some((FailureKind::Stalled, reason))
    } else {
        workload.completes().then(|| {
            let limit = seconds(limit);
            let reason = format!("not completed within {limit:.3} s: {delivered} bytes delivered");
            (FailureKind::Incomplete, reason)
        })
    }
}

/// Records of segments of a video, or of bursts, beside their times.
fn pieces_of(
    simulation: &Simulation<impl Transport>,
    workload: &Workload,
    number: usize,
) -> Vec<Piece> {
    let bursts = workload.pieces(simulation.delays(number).len());
    if bursts.is_empty() { simulation.pieces(number).to_vec() } else { bursts }
}
