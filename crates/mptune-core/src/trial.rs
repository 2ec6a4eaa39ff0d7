//! A trial as the outside asks for it and the observation it gives: the seam to every caller.
//!
//! Both are plain data that (de)serialise; everything is checked here, once, before the run.

use crate::congestion::{self, Controller};
use crate::mptcp::{
    ConnectionOptions, MAX_SUBFLOWS, ScriptedAction, ScriptedEvent, Workload, scheduler,
};
use crate::network::{NetworkSpec, SpecError};
use crate::pathmanager::{self, PathEnds, PathId};
use crate::simulation::Simulation;
use crate::units::{Bytes, NEVER, Nanos};
use serde::{Deserialize, Serialize};

/// One simulated measurement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The network between the two sites.
    pub network: NetworkSpec,
    /// Path manager.
    pub pm: String,
    /// Congestion control.
    pub cc: String,
    /// Scheduler.
    pub scheduler: String,
    /// Opportunistic retransmission and penalisation, as in the v0.9x kernels.
    #[serde(default)]
    pub opportunistic: bool,
    /// Data is ECN-capable (RFC 3168); on unless said otherwise, as in the papers.
    #[serde(default = "yes")]
    pub ecn: bool,
    /// Connection-level send and receive buffer, payload bytes each.
    pub buffer_bytes: Bytes,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Saturated sender for so long; none for a transfer.
    #[serde(default)]
    pub duration_ns: Option<Nanos>,
    /// Transfer of so many bytes; none for a saturated sender.
    #[serde(default)]
    pub transfer_bytes: Option<Bytes>,
    /// A transfer is given up after so long.
    pub deadline_ns: Nanos,
    /// Path of the first handshake; none leaves it to the path manager.
    #[serde(default)]
    pub initial_path: Option<PathId>,
    /// pcdc: paths whose subflows carry data; none means all.
    #[serde(default)]
    pub active: Option<Vec<PathId>>,
    /// pcdc: standby paths, the first to take over first.
    #[serde(default)]
    pub standby_order: Vec<PathId>,
    /// pcdc: limits of the data-size classes.
    pub class_bytes: (Bytes, Bytes),
    /// ndiffports: number of subflows.
    pub ndiffports: usize,
    /// Scripted events.
    #[serde(default)]
    pub script: Vec<ScriptSpec>,
}

/// A scripted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// When, from the first SYN.
    pub at_ns: Nanos,
    /// The path.
    pub path: PathId,
    /// What.
    pub action: ScriptAction,
}

/// What a scripted event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScriptAction {
    /// The path's subflows carry no data any more.
    Standby,
    /// They may again.
    Active,
    /// The path is cut.
    Down,
    /// The path is restored.
    Up,
}

/// What a trial gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// How long was measured: the trial's duration, or a transfer's completion time.
    pub duration_ns: Nanos,
    /// Payload bytes delivered in order.
    pub in_order_bytes: Bytes,
    /// The same per 100 ms.
    pub bins: Vec<Bytes>,
    /// When a transfer's last byte was delivered in order.
    pub completion_ns: Option<Nanos>,
    /// Why the trial gave no usable number.
    pub failed: Option<String>,
    /// Segments repeated on another subflow.
    pub reinjected: u64,
    /// Most bytes held in the receive buffer for want of earlier ones.
    pub largest_reordering_bytes: Bytes,
    /// Events the simulator handled.
    pub events: u64,
    /// Every subflow, in the order of creation.
    pub subflows: Vec<SubflowOutcome>,
}

/// What one subflow did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubflowOutcome {
    /// Its path.
    pub path: PathId,
    /// It carried data at some time.
    pub active: bool,
    /// Payload bytes it was the first to deliver.
    pub bytes: Bytes,
    /// The same per 100 ms.
    pub bins: Vec<Bytes>,
    /// Smoothed RTT at the end.
    pub srtt_ns: Nanos,
    /// Smallest RTT.
    pub min_rtt_ns: Nanos,
    /// Segments sent again on it.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

fn yes() -> bool {
    true
}

impl TrialSpec {
    /// Runs the trial.
    ///
    /// # Errors
    /// The first key that is wrong; a trial that runs but stalls is an outcome with a reason.
    pub fn run(&self) -> Result<Outcome, SpecError> {
        self.network.validate()?;
        let options = self.options()?;
        let mut simulation = Simulation::new(&self.network, self.seed);
        let number = simulation.connect(options);
        let limit = self.duration_ns.unwrap_or(self.deadline_ns);
        let alive = simulation.run(limit, number);
        Ok(self.outcome(&simulation, number, limit, alive))
    }

    fn options(&self) -> Result<ConnectionOptions, SpecError> {
        let named = |key: &str, name: &str, known: &[&str]| {
            SpecError::new(key, format!("one of {} expected, found {name:?}", known.join(", ")))
        };
        let controller =
            Controller::new(&self.cc).ok_or_else(|| named("cc", &self.cc, congestion::NAMES))?;
        let scheduler = scheduler::Policy::new(&self.scheduler)
            .ok_or_else(|| named("scheduler", &self.scheduler, scheduler::NAMES))?;
        let policy_options = pathmanager::Options {
            active: self.active.clone(),
            standby_order: self.standby_order.clone(),
            class_bytes: self.class_bytes,
            ndiffports: self.ndiffports,
        };
        let path_manager = pathmanager::Policy::new(&self.pm, &policy_options)
            .ok_or_else(|| named("pm", &self.pm, pathmanager::NAMES))?;
        self.check_numbers()?;
        let ends = self.network.paths.iter();
        let ends: Vec<_> = ends.map(|p| PathEnds { local: p.local, remote: p.remote }).collect();
        let default = self.network.initial_path;
        Ok(ConnectionOptions {
            controller,
            scheduler,
            opportunistic: self.opportunistic,
            ecn: self.ecn,
            workload: self.transfer_bytes.map_or(Workload::Saturated, Workload::Transfer),
            send_buffer: self.buffer_bytes,
            receive_buffer: self.buffer_bytes,
            mss: self.mss,
            initial_path: self
                .initial_path
                .unwrap_or_else(|| path_manager.initial_path(&ends, default)),
            path_manager,
            start: 0,
            script: self.script.iter().map(ScriptSpec::action).collect(),
        })
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let wrong = |key: &str, expected: String| Err(SpecError::new(key, expected));
        if !(64..=8960).contains(&self.mss) {
            return wrong("mss", format!("64 to 8960 bytes expected, found {}", self.mss));
        }
        if self.buffer_bytes < u64::from(self.mss) {
            let found = self.buffer_bytes;
            return wrong(
                "buffer_bytes",
                format!("at least one segment of {} bytes expected, found {found}", self.mss),
            );
        }
        // A window of 2^30 segments is 1.5 TB: more than any host has, and safely within 32 bits.
        if self.buffer_bytes / u64::from(self.mss) > 1 << 30 {
            return wrong("buffer_bytes", "less than 2^30 segments expected".into());
        }
        let span = match (self.duration_ns, self.transfer_bytes) {
            (Some(duration), None) => duration,
            (None, Some(1..)) => self.deadline_ns,
            (None, Some(0)) => return wrong("transfer_bytes", "at least 1 byte expected".into()),
            _ => {
                return wrong(
                    "duration_ns",
                    "either a duration or a transfer size expected".into(),
                );
            }
        };
        if span == 0 || span >= NEVER / 2 {
            return wrong(
                "duration_ns",
                format!("more than 0 and less than 26 days expected, found {span} ns"),
            );
        }
        if self.transfer_bytes.is_some_and(|bytes| bytes / u64::from(self.mss) >= 1 << 31) {
            return wrong("transfer_bytes", "less than 2^31 segments expected".into());
        }
        if !(1..=MAX_SUBFLOWS).contains(&self.ndiffports) {
            return wrong(
                "ndiffports",
                format!("1 to {MAX_SUBFLOWS} expected, found {}", self.ndiffports),
            );
        }
        self.check_paths()
    }

    fn check_paths(&self) -> Result<(), SpecError> {
        let count = self.network.paths.len();
        let check = |key: &str, paths: &[PathId]| match paths.iter().find(|&&path| path >= count) {
            Some(path) => {
                Err(SpecError::new(key, format!("a path below {count} expected, found {path}")))
            }
            None => Ok(()),
        };
        check("initial_path", self.initial_path.as_slice())?;
        check("active", self.active.as_deref().unwrap_or_default())?;
        check("standby_order", &self.standby_order)?;
        let scripted: Vec<_> = self.script.iter().map(|action| action.path).collect();
        check("script", &scripted)
    }

    fn outcome(
        &self,
        simulation: &Simulation,
        number: usize,
        limit: Nanos,
        alive: bool,
    ) -> Outcome {
        let connection = simulation.connection(number);
        let completion = connection.completed_at;
        let end = completion.unwrap_or(limit);
        let delivered = connection.series.total();
        let failed = match completion {
            Some(_) => None,
            None if !alive && !connection.is_withdrawn() => Some(format!(
                "stalled at {:.3} s: nothing left to happen",
                simulation.now() as f64 / 1e9
            )),
            None if delivered == 0 => Some("no byte was delivered".to_owned()),
            None if self.transfer_bytes.is_some() => Some(format!(
                "not completed within {:.3} s: {delivered} bytes delivered",
                limit as f64 / 1e9
            )),
            None => None,
        };
        let subflows = connection.subflows.iter().map(|subflow| SubflowOutcome {
            path: subflow.path,
            active: subflow.carried_data,
            bytes: subflow.series.total(),
            bins: subflow.series.clone().finish(end),
            srtt_ns: subflow.sender.rtt.srtt,
            min_rtt_ns: subflow.min_rtt(),
            retransmitted: subflow.sender.retransmitted(),
            timeouts: subflow.sender.timeouts(),
        });
        Outcome {
            duration_ns: end,
            in_order_bytes: delivered,
            bins: connection.series.clone().finish(end),
            completion_ns: completion,
            failed,
            reinjected: connection.reinjected,
            largest_reordering_bytes: u64::from(connection.largest_waiting()) * u64::from(self.mss),
            events: simulation.events(),
            subflows: subflows.collect(),
        }
    }
}

impl ScriptSpec {
    fn action(&self) -> ScriptedAction {
        let event = match self.action {
            ScriptAction::Standby => ScriptedEvent::Withdraw,
            ScriptAction::Active => ScriptedEvent::Readmit,
            ScriptAction::Down => ScriptedEvent::Cut,
            ScriptAction::Up => ScriptedEvent::Restore,
        };
        ScriptedAction { at: self.at_ns, path: self.path, event }
    }
}
