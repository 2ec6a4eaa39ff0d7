//! One MPTCP connection, both ends: handshakes, the script, roles of subflows and the orders of the path
//! manager's driver (RFC 8684). One file per subject.
//!
//! [`DataSender`] decides what data goes where, [`DataReceiver`] delivers in order; this module passes
//! events to them and decides which subflows there are.
//!
//! Simplifications, each harmless to throughput: ADD_ADDRs arrive with the first DATA_ACK (they are
//! sent then, on the same subflow); MP_PRIO takes effect at the sender at once, as in Linux, where the
//! option informs the peer about its own direction; the application reads in-order data at once.

mod addresses;
mod audit;
mod change;
mod handshake;
mod management;
mod sampling;
mod sending;
mod stall;

pub use change::RoleChange;
pub use stall::Stall;

use super::io::{Io, Timer};
use super::options::{ConnectionOptions, ScriptedAction};
use super::packet::{Content, Packet};
use super::receiver::DataReceiver;
use super::sender::DataSender;
use super::series::Series;
use super::subflow::Subflow;
use crate::congestion::Controller;
use crate::engine::Source;
use crate::pathmanager::{Assignment, Driver, PathId, Stack, SubflowId};
use crate::units::{Bytes, NEVER, Nanos};
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
    driver: Driver,
    start: Nanos,
    /// Width of the bins of every series.
    bin: Nanos,
    initial_path: PathId,
    script: VecDeque<ScriptedAction>,
    script_timer: Source,
    fully_established: bool,
    /// Bytes of a packet of a handshake.
    syn_size: u32,
    /// Roles that changed after the subflows were opened, if the path manager wants samples.
    changes: Vec<RoleChange>,
    /// The timer of the path manager's samples, if it wants any.
    sampling: Option<Source>,
}

impl Connection {
    /// A connection that begins with [`Self::on_timer`] of its script timer at `options.start`.
    pub fn new(number: usize, options: ConnectionOptions, io: &mut Io) -> Self {
        let script_timer = io.add_timer(number, Timer::Script);
        io.queue.set(script_timer, options.start);
        let receiver = DataReceiver::new(&options);
        let sender = DataSender::new(number, &options, receiver.buffer(), io);
        let syn_size = options.syn_size();
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
            driver,
            start: options.start,
            bin: options.bin,
            initial_path: options.initial_path,
            script: script.into(),
            script_timer,
            fully_established: false,
            syn_size,
            changes: Vec::new(),
            sampling,
        }
    }

    /// Payload bytes delivered in order.
    pub fn series(&self) -> &Series {
        &self.receiver.delivered().series
    }

    /// When bytes were last delivered in order.
    pub fn progress_at(&self) -> Nanos {
        self.receiver.delivered().progress_at
    }

    /// When the whole transfer was delivered.
    #[inline]
    pub fn completed_at(&self) -> Option<Nanos> {
        self.receiver.delivered().completed_at
    }

    /// Payload bytes of a full segment.
    pub fn full_segment(&self) -> u32 {
        self.sender.buffer().full()
    }

    /// Segments resent on another subflow, or by the connection.
    pub fn reinjected(&self) -> u64 {
        self.sender.reinjected()
    }

    /// Payload bytes of these segments; under Linux accounting only of those that the connection's timer
    /// repeated, which is what Linux counts (`mptcpi_bytes_retrans`).
    pub fn reinjected_bytes(&self) -> Bytes {
        self.sender.reinjected_bytes()
    }

    /// Most payload bytes that waited in the receive buffer for an earlier segment; counted in full
    /// segments.
    pub fn largest_waiting(&self) -> Bytes {
        Bytes::from(self.receiver.largest_waiting()) * Bytes::from(self.sender.buffer().full())
    }

    /// Segments that arrived again after they had been received.
    pub fn duplicates(&self) -> u64 {
        self.receiver.duplicates()
    }

    /// Times the offered window fell to zero, under Linux accounting.
    pub fn zero_windows(&self) -> u64 {
        self.receiver.buffer().zero_windows()
    }

    /// Segments the receiver dropped because they were beyond its window, under Linux accounting.
    pub fn beyond_window(&self) -> u64 {
        self.receiver.buffer().beyond_window()
    }

    /// Roles that changed after the subflows were opened, in order of time, if the path manager wants samples.
    pub fn changes(&self) -> &[RoleChange] {
        &self.changes
    }

    /// How long the shared buffers kept a subflow with room from sending, until `now`.
    pub fn window_limited(&self, now: Nanos) -> Nanos {
        self.sender.window_limited(now)
    }

    /// A packet of a subflow arrived at the data receiver.
    #[inline]
    pub fn on_receiver_packet(&mut self, io: &mut Io, id: SubflowId, packet: &Packet) {
        match &packet.content {
            Content::Data(segment) => self.receiver.on_data(io, &mut self.subflows, id, segment),
            Content::Syn => self.answer(io, id, Content::SynAck),
            Content::JoinAck => self.on_join(io, id),
            Content::SynAck | Content::JoinConfirmed | Content::Ack(_) => {}
        }
    }

    /// A packet of a subflow arrived at the data sender.
    #[inline]
    pub fn on_sender_packet(&mut self, io: &mut Io, id: SubflowId, packet: &Packet) {
        match &packet.content {
            Content::Ack(ack) => self.on_ack(io, id, ack),
            Content::SynAck => self.on_syn_ack(io, id),
            Content::JoinConfirmed => self.on_join_confirmed(io, id),
            Content::Syn | Content::JoinAck | Content::Data(_) => {}
        }
    }

    /// A timer's event is due. Timers are re-armed lazily: it may turn out to be too early.
    pub fn on_timer(&mut self, io: &mut Io, source: Source, timer: Timer) {
        io.queue.set(source, NEVER);
        match timer {
            Timer::Subflow(id) => self.on_subflow_timer(io, id),
            Timer::DelayedAck(id) => {
                let deadline = self.subflows[id].receiver.deadline();
                if deadline <= io.now {
                    self.receiver.acknowledge(io, &mut self.subflows[id], false);
                } else {
                    io.queue.set(source, deadline);
                }
            }
            Timer::Script => self.follow_script(io),
            Timer::Data => self.on_data_timer(io),
            Timer::Application => self.on_application(io),
            Timer::Sample => self.sample(io),
        }
    }
}
