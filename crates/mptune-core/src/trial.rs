//! The specification of a trial and its outcome: the interface to every caller. Both are plain data; a
//! specification is checked once, here, before the run.

mod background;
mod check;
mod flows;
mod forecast;
mod names;
mod outcome;
mod path_parameters;
mod recorded;
mod script;
mod spec;

pub use crate::transport::{Sample, SubflowOutcome};
pub use forecast::Forecaster;
pub use outcome::{BackgroundOutcome, ConnectionOutcome, FailureKind, FlowOutcome, Outcome};
pub use path_parameters::PathParameters;
pub use recorded::{Recorded, Recording};
pub use script::{ScriptAction, ScriptSpec};
pub use spec::{FlowSpec, TrialSpec};

use crate::early_end::EarlyEnd;
use crate::error::SpecError;
use crate::mptcp::accounting::{self, Accounting, BufferMode};
use crate::mptcp::{Connection, ConnectionOptions, scheduler};
use crate::network::Family;
use crate::pathmanager::{PathEnds, Policy, TransferSize};
use crate::simulation::Simulation;
use crate::transport::Transport;
use crate::units::Nanos;
use outcome::Span;
use std::sync::Arc;

impl TrialSpec {
    /// Runs the trial.
    ///
    /// # Errors
    /// The first key that is wrong; a trial that runs but stalls is an outcome with a reason.
    pub fn run(&self) -> Result<Outcome, SpecError> {
        if self.is_many() {
            return self.run_many();
        }
        let (mut simulation, number) = self.prepare()?;
        let span = self.drive(&mut simulation, number, self.workload.limit());
        Ok(self.outcome(&simulation, number, &span))
    }

    /// The simulation at time 0, and the number of the measured connection.
    fn prepare(&self) -> Result<(Simulation<Connection>, usize), SpecError> {
        self.network.validate()?;
        let options = self.options()?;
        let background = background::connections(&self.network, self.mss, self.family)?;
        let mut simulation = Simulation::over(&self.network, self.family, self.seed);
        let back = back(&options);
        let number = simulation.connect(options);
        for flow in background {
            simulation.connect(flow);
        }
        if let Some(options) = back {
            answer(&mut simulation, number, options);
        }
        Ok((simulation, number))
    }

    /// Runs the simulation to the limit, or until the throughput is known well enough if it may end early.
    fn drive(
        &self,
        simulation: &mut Simulation<impl Transport>,
        number: usize,
        limit: Nanos,
    ) -> Span {
        let mut early = self.workload.ends_early().then(|| EarlyEnd::new(limit, self.bin_ns));
        while let Some((early, look)) = early.as_mut().and_then(|e| e.next().map(|at| (e, at))) {
            if !simulation.run(look, number) {
                return Span { end: limit, alive: false, expected: None };
            }
            let connection = simulation.connection(number);
            let ended = early.look(&connection.series().clone().finish(look));
            if let Some(ended) = ended.filter(|_| connection.stalled(true).is_none()) {
                return Span { end: ended.at, alive: true, expected: Some(ended.expected) };
            }
        }
        Span { end: limit, alive: simulation.run(limit, number), expected: None }
    }

    /// Payload bytes of a full segment: the longest header among the paths leaves fewer in a packet of the same
    /// length. Over both families packets of IPv4 are shorter by the difference.
    fn segment(&self) -> u32 {
        let families = self.network.paths.iter().map(|path| path.family.unwrap_or(self.family));
        self.mss - families.map(Family::longer_header).max().unwrap_or(0)
    }

    fn options(&self) -> Result<ConnectionOptions, SpecError> {
        let (controller, path_policy) = names::paired("cc", &self.cc, &self.scheduler)?;
        let scheduler = scheduler::Policy::new(&self.scheduler)
            .ok_or_else(|| names::unknown("scheduler", &self.scheduler, scheduler::NAMES))?;
        let accounting = Accounting::new(&self.accounting)
            .ok_or_else(|| names::unknown("accounting", &self.accounting, accounting::NAMES))?;
        let buffer_mode = BufferMode::new(&self.buffer_mode)
            .ok_or_else(|| names::unknown("buffer_mode", &self.buffer_mode, accounting::MODES))?;
        self.check_numbers()?;
        let ends = PathEnds::of_all(&self.network, self.family);
        let mut path_manager = Policy::new(&self.pm, &self.pm_options, ends.len())?;
        path_manager.foresee(|| Arc::new(Forecaster::new(self)));
        let size = if self.size_known {
            self.workload.drawn(self.seed).size()
        } else {
            TransferSize::Unknown
        };
        let default = || path_manager.initial_path(&ends, size, self.network.initial_path);
        let multipath = self.protocol.rules().is_multipath();
        let mut options = ConnectionOptions {
            protocol: self.protocol,
            controller: if self.members.olia_integers && multipath {
                controller.in_integers()
            } else {
                controller
            },
            scheduler,
            // Without MPTCP it is the window algorithm alone, as in the kernel.
            path_policy: path_policy.filter(|_| multipath),
            path_parameters: vec![],
            members: self.members,
            workload: self.workload.drawn(self.seed),
            size,
            accounting,
            buffer_mode,
            send_buffer: self.buffer_bytes,
            receive_buffer: self.receive_buffer_bytes.unwrap_or(self.buffer_bytes),
            mss: self.segment(),
            initial_path: self.initial_path.unwrap_or_else(default),
            path_manager,
            phase: self.phase_ns,
            bin: self.bin_ns,
            start: 0,
            reversed: false,
            script: self.script.iter().map(ScriptSpec::action).collect(),
        };
        let (told, full) = (self.path_parameters.iter(), options.counted_segment());
        options.path_parameters = told.map(|of_path| of_path.told(full)).collect();
        Ok(options)
    }
}

/// The connection of requests, or of messages that go back, if there are any: otherwise alike.
fn back(options: &ConnectionOptions) -> Option<ConnectionOptions> {
    let workload = &options.workload;
    let is_there = workload.purpose().is_some() || workload.both_ways();
    is_there.then(|| ConnectionOptions { reversed: true, ..options.clone() })
}

/// Adds it for the connection with this number.
fn answer(simulation: &mut Simulation<Connection>, number: usize, options: ConnectionOptions) {
    let purpose = options.workload.purpose();
    let both = [number, simulation.connect(options)];
    match purpose {
        Some(purpose) => simulation.exchange(purpose, both),
        None => simulation.send_both_ways(both),
    }
}

#[cfg(test)]
mod tests;
