//! A world for the policies' tests: it executes commands at once and reports the results. Not a network: the test
//! establishes, loses and restores subflows.

use super::{Command, Event, PathEnds, PathId, PathManager, SubflowId, SubflowView};
use super::{ConnectionStatistics, SubflowStatistics, TransferSize, View};
use crate::network::Family;
use crate::units::{Bytes, MILLISECOND, Nanos};

/// The command for another subflow that carries data.
pub fn connect(path: PathId) -> Command {
    Command::Connect { path, backup: false }
}

/// The command for another subflow that stays silent.
pub fn connect_backup(path: PathId) -> Command {
    Command::Connect { path, backup: true }
}

/// The command that lets a subflow carry data.
pub fn activate(subflow: SubflowId) -> Command {
    Command::SetBackup { subflow, backup: false }
}

/// The command that silences a subflow.
pub fn silence(subflow: SubflowId) -> Command {
    Command::SetBackup { subflow, backup: true }
}

/// A subflow that is being opened.
fn opening(path: PathId, backup: bool) -> SubflowView {
    let statistics = SubflowStatistics::default();
    SubflowView { path, alive: false, backup, min_rtt: 0, statistics }
}

/// A connection whose policy is under test. Path `n` of M remote interfaces joins local interface
/// `n / M` and remote interface `n % M`, as in a topology.
pub struct World<P> {
    pub policy: P,
    pub paths: Vec<PathEnds>,
    pub lsrr_honoured: bool,
    pub size: TransferSize,
    pub subflows: Vec<SubflowView>,
    pub statistics: ConnectionStatistics,
}

impl<P: PathManager> World<P> {
    pub fn new(locals: usize, remotes: usize, options: P::Options) -> Self {
        let ends = |n| PathEnds { local: n / remotes, remote: n % remotes, ..PathEnds::default() };
        Self {
            policy: P::new(options).expect("valid options"),
            paths: (0..locals * remotes).map(ends).collect(),
            lsrr_honoured: false,
            size: TransferSize::Unknown,
            subflows: Vec::new(),
            statistics: ConnectionStatistics::default(),
        }
    }

    /// Adds every path over IPv6 too.
    pub fn over_ipv6_too(&mut self) {
        let six = |&ends: &PathEnds| PathEnds { family: Family::Ipv6, ..ends };
        self.paths.extend(self.paths.iter().map(six).collect::<Vec<_>>());
    }

    /// The policy's path for the initial subflow.
    pub fn initial_path(&self, default: PathId) -> PathId {
        self.policy.initial_path(&self.paths, self.size, default)
    }

    /// The connection is established on `path`, with an RTT of 50 ms.
    pub fn start(&mut self, path: PathId) -> Vec<Command> {
        let min_rtt = 50 * MILLISECOND;
        self.subflows.push(SubflowView { alive: true, min_rtt, ..opening(path, false) });
        self.dispatch(Event::Established)
    }

    pub fn establish(&mut self, subflow: SubflowId, min_rtt_ms: u64) -> Vec<Command> {
        self.subflows[subflow].alive = true;
        self.subflows[subflow].min_rtt = min_rtt_ms * MILLISECOND;
        self.dispatch(Event::SubflowEstablished(subflow))
    }

    pub fn lose(&mut self, subflow: SubflowId) -> Vec<Command> {
        self.subflows[subflow].alive = false;
        self.dispatch(Event::SubflowLost(subflow))
    }

    pub fn restore(&mut self, subflow: SubflowId) -> Vec<Command> {
        self.subflows[subflow].alive = true;
        self.dispatch(Event::SubflowRestored(subflow))
    }

    /// A sample at this time, with the current statistics.
    pub fn sample(&mut self, now: Nanos) -> Vec<Command> {
        self.dispatch(Event::Sample(now))
    }

    /// Adds a path.
    pub fn add_path(&mut self, local: usize, remote: usize) -> Vec<Command> {
        self.paths.push(PathEnds { local, remote, ..PathEnds::default() });
        self.dispatch(Event::PathAdded(self.paths.len() - 1))
    }

    pub fn send(&mut self, bytes: Bytes) -> Vec<Command> {
        self.dispatch(Event::BytesSent(bytes))
    }

    /// The live subflows that carry data.
    pub fn active(&self) -> Vec<SubflowId> {
        let active = |&id: &SubflowId| self.subflows[id].alive && !self.subflows[id].backup;
        (0..self.subflows.len()).filter(active).collect()
    }

    /// Passes an event to the policy and executes its commands.
    fn dispatch(&mut self, event: Event) -> Vec<Command> {
        let view = View {
            paths: &self.paths,
            lsrr_honoured: self.lsrr_honoured,
            subflows: &self.subflows,
            size: self.size,
            statistics: self.statistics,
        };
        let mut commands = Vec::new();
        self.policy.on_event(event, view, &mut commands);
        for command in &commands {
            match *command {
                Command::Connect { path, backup } => {
                    self.subflows.push(opening(path, backup));
                }
                Command::SetBackup { subflow, backup } => {
                    assert_ne!(
                        self.subflows[subflow].backup, backup,
                        "{command:?} changes nothing"
                    );
                    self.subflows[subflow].backup = backup;
                }
                Command::NotifyAtBytes(_) => {}
            }
        }
        commands
    }
}
