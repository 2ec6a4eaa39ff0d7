//! An MPTCP connection, both ends: handshakes, the script, roles of subflows and the commands of the path manager's
//! driver (RFC 8684). One file per subject.
//!
//! [`DataSender`] assigns data to subflows, [`DataReceiver`] delivers in order; this module passes events to them, and
//! opens and closes subflows.
//!
//! Simplifications, each harmless to throughput: ADD_ADDRs arrive with the first DATA_ACK (they are
//! sent then, on the same subflow); MP_PRIO takes effect at the sender at once, as in Linux, where the
//! option informs the peer about its own direction; the application reads in-order data at once.

mod addresses;
mod audit;
mod handshake;
mod management;
mod pieces;
mod program;
mod sampling;
mod sending;
mod stall;
mod transport;

use super::io::{Io, Timer};
use super::options::{ConnectionOptions, ScriptedAction};
use super::packet::HandshakeSizes;
use super::receiver::DataReceiver;
use super::sender::DataSender;
use super::subflow::Subflow;
use crate::congestion::Controller;
use crate::engine::Source;
use crate::pathmanager::{Assignment, Driver, PathId, Stack};
use crate::tcp::Timing;
use crate::tcp::pacing::Lengths;
use crate::transport::RoleChange;
use crate::units::Nanos;
use program::Program;
use std::collections::VecDeque;

/// An MPTCP connection.
#[derive(Debug)]
pub struct Connection {
    number: usize,
    /// Its subflows, in order of creation; both ends of each.
    pub subflows: Vec<Subflow>,
    sender: DataSender,
    receiver: DataReceiver,
    /// The congestion control of every subflow, in its initial state.
    controller: Controller,
    lengths: Lengths,
    timing: Timing,
    driver: Driver,
    start: Nanos,
    /// Width of the bins of every series.
    bin: Nanos,
    initial_path: PathId,
    script: VecDeque<ScriptedAction>,
    script_timer: Source,
    fully_established: bool,
    /// Of the first subflow's handshake, and of the others'.
    handshakes: [HandshakeSizes; 2],
    /// Changes of role after the subflows were opened, if the path manager takes samples.
    changes: Vec<RoleChange>,
    /// The timer of the path manager's samples, if it takes any.
    sampling: Option<Source>,
    /// The program that offers its data in pieces, if it does so.
    program: Option<Program>,
    /// Data goes from the receiver's site of the network to the sender's.
    reversed: bool,
    /// The data receiver opens it and its subflows.
    accepts: bool,
    /// Subflows that have joined it since.
    joined: u32,
}

impl Connection {
    /// A connection that begins with its script timer at `options.start`.
    pub fn new(number: usize, options: ConnectionOptions, io: &mut Io) -> Self {
        let script_timer = io.add_timer(number, Timer::Script);
        io.queue.set(script_timer, options.start);
        let receiver = DataReceiver::new(&options);
        let sender = DataSender::new(number, &options, receiver.buffer(), io);
        let program = Program::new(number, &options, io);
        let (handshakes, lengths) = (options.handshakes(), options.paced_lengths());
        let timing = options.timing();
        let (paths, size) = (io.paths.as_slice(), options.size);
        let assignment =
            Assignment::with_policy(options.path_manager, paths, size, io.lsrr_honoured);
        let driver = Driver::new(assignment, Stack::SIMULATED, options.initial_path);
        let sampling = driver.sampling().map(|_| io.add_timer(number, Timer::Sample));
        let mut script = options.script;
        script.sort_by_key(|action| action.at);
        Self {
            number,
            subflows: Vec::new(),
            sender,
            receiver,
            controller: options.controller,
            lengths,
            timing,
            driver,
            start: options.start,
            bin: options.bin,
            initial_path: options.initial_path,
            script: script.into(),
            script_timer,
            fully_established: false,
            handshakes,
            changes: Vec::new(),
            sampling,
            program,
            reversed: options.reversed,
            accepts: false,
            joined: 0,
        }
    }

    /// The data receiver opens it and its subflows, unless its path manager goes by what the data sender sees.
    pub(super) fn accept(&mut self) {
        self.accepts = self.sampling.is_none();
    }

    /// Payload bytes of a full segment.
    pub fn full_segment(&self) -> u32 {
        self.sender.buffer().full()
    }
}
