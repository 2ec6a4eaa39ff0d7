//! A trial as the outside asks for it and the observation it gives: the seam to every caller.
//!
//! Both are plain data that (de)serialise; everything is checked here, once, before the run.

mod background;
mod check;
mod outcome;
mod script;

pub use outcome::{BackgroundOutcome, Outcome, SubflowOutcome};
pub use script::{ScriptAction, ScriptSpec};

use crate::mptcp::memory::Accounting;
use crate::mptcp::{ConnectionOptions, Workload, scheduler};
use crate::network::{NetworkSpec, SpecError};
use crate::pathmanager::{self, PathEnds, PathId};
use crate::simulation::Simulation;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;

/// One simulated measurement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The network between the two sites, with the TCP connections that share it.
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
    /// Segments leave in bursts, as with segmentation offload.
    #[serde(default)]
    pub tso: bool,
    /// What the bytes of the buffer are charged with: "payload", or "linux" for socket memory as the
    /// kernel counts it.
    #[serde(default = "payload")]
    pub accounting: String,
    /// Connection-level send and receive buffer, bytes each: of payload, or the value given to
    /// `SO_SNDBUF` and `SO_RCVBUF`.
    pub buffer_bytes: Bytes,
    /// Payload bytes of a full segment. With the accounting "linux" the DSS option is part of them, as
    /// on the wire.
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

fn yes() -> bool {
    true
}

fn payload() -> String {
    "payload".into()
}

impl TrialSpec {
    /// Runs the trial.
    ///
    /// # Errors
    /// The first key that is wrong; a trial that runs but stalls is an outcome with a reason.
    pub fn run(&self) -> Result<Outcome, SpecError> {
        self.network.validate()?;
        let options = self.options()?;
        let background = background::connections(&self.network, self.mss)?;
        let mut simulation = Simulation::new(&self.network, self.seed);
        let number = simulation.connect(options);
        for flow in background {
            simulation.connect(flow);
        }
        let limit = self.duration_ns.unwrap_or(self.deadline_ns);
        let alive = simulation.run(limit, number);
        Ok(self.outcome(&simulation, number, limit, alive))
    }

    fn options(&self) -> Result<ConnectionOptions, SpecError> {
        let controller = check::controller("cc", &self.cc)?;
        let scheduler = scheduler::Policy::new(&self.scheduler)
            .ok_or_else(|| check::unknown("scheduler", &self.scheduler, scheduler::NAMES))?;
        let accounting = Accounting::new(&self.accounting).ok_or_else(|| {
            check::unknown("accounting", &self.accounting, crate::mptcp::memory::NAMES)
        })?;
        let path_manager = pathmanager::Policy::new(&self.pm, &self.policy_options())
            .ok_or_else(|| check::unknown("pm", &self.pm, pathmanager::NAMES))?;
        self.check_numbers()?;
        let ends = self.network.paths.iter();
        let ends: Vec<_> = ends.map(|p| PathEnds { local: p.local, remote: p.remote }).collect();
        let default = self.network.initial_path;
        Ok(ConnectionOptions {
            controller,
            scheduler,
            opportunistic: self.opportunistic,
            ecn: self.ecn,
            tso: self.tso,
            workload: self.transfer_bytes.map_or(Workload::Saturated, Workload::Transfer),
            accounting,
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

    fn policy_options(&self) -> pathmanager::Options {
        pathmanager::Options {
            active: self.active.clone(),
            standby_order: self.standby_order.clone(),
            class_bytes: self.class_bytes,
            ndiffports: self.ndiffports,
        }
    }
}
