//! Many connections of a trial: several of one workload, or several workloads at once, each on connections of its own.
//!
//! They share paths and queues; path manager, congestion control and buffers are those of the host, and apply to each.
//! The caller decides when each begins: connections that begin together are in step, which those of real
//! programs are not.

use super::outcome::{ConnectionOutcome, FailureKind, FlowOutcome, Outcome, Span};
use super::spec::TrialSpec;
use crate::error::SpecError;
use crate::mptcp::{Connection, ConnectionOptions, ScriptedAction, ScriptedEvent};
use crate::pathmanager::TransferSize;
use crate::simulation::Simulation;
use crate::transport::SubflowOutcome;
use crate::units::{Bytes, Nanos};
use crate::workload::Workload;

/// Most connections of a trial that are measured.
const MOST: usize = 1_000;

/// A connection in the simulation, and its outcome once its measurement ended.
#[derive(Debug)]
struct Flow {
    workload: Workload,
    number: usize,
    start: Nanos,
    ended: Option<Outcome>,
}

impl TrialSpec {
    /// There is more than one connection to measure.
    pub(super) fn is_many(&self) -> bool {
        !self.beside.is_empty() || self.starts_ns != [0]
    }

    /// The workloads with the times at which their connections begin, the trial's own first.
    fn groups(&self) -> impl Iterator<Item = (&Workload, &[Nanos])> {
        let beside = self.beside.iter().map(|flow| (&flow.workload, flow.starts_ns.as_slice()));
        std::iter::once((&self.workload, self.starts_ns.as_slice())).chain(beside)
    }

    pub(super) fn check_flows(&self, segment: u32) -> Result<(), SpecError> {
        self.groups().try_for_each(|(workload, _)| workload.validate(segment))?;
        if !self.is_many() {
            return Ok(());
        }
        let count: usize = self.groups().map(|(_, starts)| starts.len()).sum();
        if count > MOST || self.groups().any(|(_, starts)| starts.is_empty()) {
            let expected = format!("expected 1 to {MOST} connections, found {count}");
            return Err(SpecError::new("starts_ns", expected));
        }
        if self.starts_ns[0] != 0 {
            return Err(SpecError::new("starts_ns", "expected 0 for the first connection"));
        }
        for (workload, starts) in self.groups() {
            if workload.ends_early() {
                let expected = "expected a single connection to end early";
                return Err(SpecError::new("workload.ends_early", expected));
            }
            if let Some(start) = starts.iter().find(|&&start| start >= workload.limit()) {
                let expected =
                    format!("expected less than the limit of the workload, found {start}");
                return Err(SpecError::new("starts_ns", expected));
            }
        }
        Ok(())
    }

    /// Runs a trial of many connections.
    pub(super) fn run_many(&self) -> Result<Outcome, SpecError> {
        let (mut simulation, number) = self.prepare()?;
        let mut groups = self.connect_all(&mut simulation, number)?;
        self.drive_many(&mut simulation, &mut groups);
        let contradiction = simulation.contradiction();
        Ok(self.merged(&groups, contradiction, simulation.events()))
    }

    /// All connections but the first, whose number is known.
    fn connect_all(
        &self,
        simulation: &mut Simulation<Connection>,
        first: usize,
    ) -> Result<Vec<Vec<Flow>>, SpecError> {
        let options = self.options()?;
        let mut known = Some(first);
        let mut seeds = (0..).map(|number| self.seed.wrapping_add(number));
        let mut connect = |workload: &Workload, start: Nanos| {
            let workload = workload.drawn(seeds.next().unwrap_or(self.seed));
            let own = || options_of(&options, workload.clone(), start, self.size_known);
            let number = known.take().unwrap_or_else(|| join(simulation, own()));
            Flow { workload, number, start, ended: None }
        };
        let groups = self.groups();
        Ok(groups
            .map(|(workload, starts)| starts.iter().map(|&at| connect(workload, at)).collect())
            .collect())
    }

    /// Runs until the time of every saturated sender is over, and all others are done or late.
    fn drive_many(&self, simulation: &mut Simulation<Connection>, groups: &mut [Vec<Flow>]) {
        let mut alive = true;
        let is_saturated = |flow: &&mut Flow| flow.workload.duration().is_some();
        let mut saturated: Vec<_> = groups.iter_mut().flatten().filter(is_saturated).collect();
        saturated.sort_by_key(|flow| flow.workload.limit());
        for flow in saturated {
            let end = flow.workload.limit();
            alive = alive && simulation.run(end, flow.number);
            flow.ended = Some(self.ended(simulation, flow, end, alive));
        }
        for flow in groups.iter_mut().flatten().filter(|flow| flow.ended.is_none()) {
            let limit = flow.start + flow.workload.limit();
            if simulation.completed_at(flow.number).is_none() {
                alive = alive && simulation.run(limit, flow.number);
            }
            flow.ended = Some(self.ended(simulation, flow, limit, alive));
        }
    }

    /// The outcome of a connection alone, whose measurement ends now.
    fn ended(
        &self,
        simulation: &Simulation<Connection>,
        flow: &Flow,
        end: Nanos,
        alive: bool,
    ) -> Outcome {
        let span = Span { end, alive, expected: None };
        self.outcome_of(simulation, &flow.workload, flow.number, &span, None)
    }

    /// The outcome of the first workload's connections together, with every connection's.
    fn merged(&self, groups: &[Vec<Flow>], contradiction: Option<String>, events: u64) -> Outcome {
        let own = || groups[0].iter().filter_map(|flow| Some((flow, flow.ended.as_ref()?)));
        let sum = |of: fn(&Outcome) -> u64| own().map(|(_, one)| of(one)).sum::<u64>();
        let end = own().map(|(_, one)| one.duration_ns).max().unwrap_or(0);
        let completed: Option<Vec<_>> = own().map(|(_, one)| one.completion_ns).collect();
        let (failed_kind, failed) = failure(groups, contradiction).unzip();
        let all = groups.iter().flatten().filter_map(|flow| flow.ended.as_ref());
        let latest = all.max_by_key(|one| one.duration_ns);
        Outcome {
            duration_ns: end,
            in_order_bytes: sum(|one| one.in_order_bytes),
            bins: self.added(own().map(|(flow, one)| (flow.start, one.bins.as_slice()))),
            expected_bytes: None,
            completion_ns: completed.and_then(|all| all.into_iter().max()),
            delays_ns: own().flat_map(|(_, one)| one.delays_ns.clone()).collect(),
            pieces: own().flat_map(|(_, one)| one.pieces.clone()).collect(),
            failed,
            failed_kind,
            stalled_ns: own().find_map(|(_, one)| one.stalled_ns),
            reinjected: sum(|one| one.reinjected),
            reinjected_bytes: sum(|one| one.reinjected_bytes),
            duplicates: sum(|one| one.duplicates),
            window_limited_ns: sum(|one| one.window_limited_ns),
            zero_windows: sum(|one| one.zero_windows),
            beyond_window: sum(|one| one.beyond_window),
            largest_reordering_bytes: sum(|one| one.largest_reordering_bytes),
            changes: vec![],
            events,
            subflows: self.by_path(&groups[0]),
            background: latest.map(|one| one.background.clone()).unwrap_or_default(),
            flows: groups.iter().map(|group| of_group(group)).collect(),
        }
    }

    /// Bins of connections by the trial's time; those of a connection that begins within a bin count from its edge.
    fn added<'a>(&self, series: impl Iterator<Item = (Nanos, &'a [Bytes])>) -> Vec<Bytes> {
        let mut bins = vec![];
        for (start, own) in series {
            let first = usize::try_from(start / self.bin_ns).unwrap_or(usize::MAX);
            bins.resize(bins.len().max(first + own.len()), 0);
            own.iter().zip(&mut bins[first..]).for_each(|(bytes, bin)| *bin += bytes);
        }
        bins
    }

    /// One subflow for each path that any connection used: sums, mean of the smoothed RTTs.
    fn by_path(&self, group: &[Flow]) -> Vec<SubflowOutcome> {
        let of_group = group.iter().filter_map(|flow| Some((flow.start, flow.ended.as_ref()?)));
        let subflows: Vec<_> = of_group
            .flat_map(|(start, one)| one.subflows.iter().map(move |subflow| (start, subflow)))
            .collect();
        let paths = 0..self.network.paths.len();
        paths
            .filter_map(|path| {
                let of_path = || subflows.iter().filter(|(_, subflow)| subflow.path == path);
                let mut pooled = of_path().map(|(_, one)| one).copied().cloned().reduce(pooled)?;
                pooled.srtt_ns /=
                    of_path().filter(|(_, one)| one.srtt_ns > 0).count().max(1) as Nanos;
                pooled.bins =
                    self.added(of_path().map(|(start, one)| (*start, one.bins.as_slice())));
                Some(pooled)
            })
            .collect()
    }
}

/// Another connection, with that of the other direction if it has one.
fn join(simulation: &mut Simulation<Connection>, options: ConnectionOptions) -> usize {
    let back = super::back(&options);
    let number = simulation.connect(options);
    if let Some(options) = back {
        super::answer(simulation, number, options);
    }
    number
}

/// The same host's options of a connection of another workload that begins at another time.
fn options_of(
    first: &ConnectionOptions,
    workload: Workload,
    start: Nanos,
    size_known: bool,
) -> ConnectionOptions {
    // The first connection cuts and restores paths for all.
    let of_network = |event| matches!(event, ScriptedEvent::Cut | ScriptedEvent::Restore);
    let own = first.script.iter().filter(|action| !of_network(action.event));
    let moved = own.map(|action| ScriptedAction { at: action.at.saturating_sub(start), ..*action });
    ConnectionOptions {
        size: if size_known { workload.size() } else { TransferSize::Unknown },
        workload,
        start,
        script: moved.collect(),
        ..first.clone()
    }
}

/// The first failure. Of many saturated senders some may starve: their share shows it.
fn failure(groups: &[Vec<Flow>], contradiction: Option<String>) -> Option<(FailureKind, String)> {
    if let Some(reason) = contradiction {
        return Some((FailureKind::Miscounted, format!("accounting: {reason}")));
    }
    for (part, group) in groups.iter().enumerate() {
        let got = |flow: &Flow| flow.ended.as_ref().is_some_and(|one| one.in_order_bytes > 0);
        let is_crowd = group.len() > 1 && !group[0].workload.completes();
        let may_starve = is_crowd && group.iter().filter(|flow| !is_stalled(flow)).any(got);
        for (index, flow) in group.iter().enumerate() {
            let ended = flow.ended.as_ref();
            let Some((kind, reason)) =
                ended.and_then(|one| one.failed_kind.zip(one.failed.clone()))
            else {
                continue;
            };
            if !may_starve {
                let (part, of, count) = (part + 1, index + 1, group.len());
                let reason = format!("workload {part}, connection {of} of {count}: {reason}");
                return Some((kind, reason));
            }
        }
    }
    None
}

fn is_stalled(flow: &Flow) -> bool {
    flow.ended.as_ref().is_some_and(|one| one.stalled_ns.is_some())
}

fn of_group(group: &[Flow]) -> FlowOutcome {
    let ended = group.iter().filter_map(|flow| Some((flow.start, flow.ended.as_ref()?)));
    let one = |(start, one): (Nanos, &Outcome)| ConnectionOutcome {
        duration_ns: one.duration_ns.saturating_sub(start),
        bytes: one.in_order_bytes,
        retransmitted: one.subflows.iter().map(|subflow| subflow.retransmitted).sum(),
        completion_ns: one.completion_ns.map(|at| at - start),
        delays_ns: one.delays_ns.clone(),
        pieces: one.pieces.clone(),
    };
    FlowOutcome { connections: ended.map(one).collect() }
}

/// Two subflows on one path as one, but for the bins; its smoothed RTT is their sum.
fn pooled(one: SubflowOutcome, other: SubflowOutcome) -> SubflowOutcome {
    let least = |a: Nanos, b: Nanos| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
    SubflowOutcome {
        path: one.path,
        active: one.active || other.active,
        bytes: one.bytes + other.bytes,
        bins: vec![],
        srtt_ns: one.srtt_ns + other.srtt_ns,
        min_rtt_ns: least(one.min_rtt_ns, other.min_rtt_ns),
        rto_ns: one.rto_ns.max(other.rto_ns),
        sent: one.sent + other.sent,
        retransmitted: one.retransmitted + other.retransmitted,
        timeouts: one.timeouts + other.timeouts,
        recoveries: one.recoveries + other.recoveries,
        undone: one.undone + other.undone,
        ecn_reductions: one.ecn_reductions + other.ecn_reductions,
        reinjected: one.reinjected + other.reinjected,
        refused: one.refused + other.refused,
    }
}
