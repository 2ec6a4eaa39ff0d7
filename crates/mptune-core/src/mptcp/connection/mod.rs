//! One MPTCP connection, both ends: handshakes, the shared buffers, the scheduler's loop,
//! reinjection, and the path manager's commands (RFC 8684).
//!
//! Loss recovery on a subflow is `tcp::Sender`'s business, in-order delivery `Reassembly`'s.
//!
//! Simplifications, each harmless to throughput: ADD_ADDRs arrive with the first DATA_ACK (they are
//! sent then, on the same subflow); MP_PRIO takes effect at the sender at once, as in Linux, where the
//! option tells the peer about its own direction; the application reads at once what is in order.

mod handshake;
mod io;
mod management;
mod options;
mod pumping;
mod receiving;
mod reinjection;
mod sending;

pub use io::{Io, Timer};
pub use options::{ConnectionOptions, ScriptedAction, ScriptedEvent, Workload};

use super::packet::{Kind, Packet};
use super::reassembly::Reassembly;
use super::scheduler;
use super::series::Series;
use super::subflow::Subflow;
use crate::congestion::{Controller, Peer};
use crate::engine::{Ring, Source};
use crate::pathmanager::{self, PathId, SubflowId};
use crate::units::{Bytes, NEVER, Nanos, Seq};
use std::collections::VecDeque;

/// Consecutive timeouts after which the path manager is told that a subflow is lost: with the
/// timer's back-off about 7 RTOs. (Linux' `net.mptcp.stale_loss_cnt`, default 4, counts intervals of
/// one RTO.)
const LOST_AFTER_TIMEOUTS: u32 = 3;
/// A full window of segments' space: the mask of subflows a segment was sent on has 64 bits.
pub const MAX_SUBFLOWS: usize = 64;

/// An MPTCP connection.
#[derive(Debug)]
pub struct Connection {
    number: usize,
    /// Its subflows, in the order of creation.
    pub subflows: Vec<Subflow>,
    controller: Controller,
    scheduler: scheduler::Policy,
    opportunistic: bool,
    ecn: bool,
    path_manager: pathmanager::Policy,
    workload: Workload,
    mss: u32,
    /// Segments of the whole transfer.
    segments: Seq,
    send_window: Seq,
    receive_window: Seq,
    start: Nanos,
    initial_path: PathId,
    script: VecDeque<ScriptedAction>,
    script_timer: Source,
    // The sender's side of the data sequence space.
    data_una: Seq,
    data_next: Seq,
    window_edge: Seq,
    /// For each segment from `data_una` on, the subflows it was sent on.
    carried_by: Ring<u64>,
    reinjections: VecDeque<Seq>,
    peers: Vec<Peer>,
    /// Bit sets of subflows: with room in their window; allowed to carry data.
    room: u64,
    usable: u64,
    fully_established: bool,
    notify_at: Seq,
    // The receiver's side.
    reassembly: Reassembly,
    /// Payload bytes delivered in order.
    pub series: Series,
    /// When the whole transfer had been delivered.
    pub completed_at: Option<Nanos>,
    /// Segments sent again on another subflow.
    pub reinjected: u64,
}

impl Connection {
    /// A connection that begins with [`Self::on_timer`] of its script timer at `options.start`.
    pub fn new(number: usize, options: ConnectionOptions, io: &mut Io<'_>) -> Self {
        let segments = match options.workload {
            Workload::Saturated => Seq::MAX,
            Workload::Transfer(bytes) => bytes.div_ceil(u64::from(options.mss)) as Seq,
        };
        let window = |bytes: Bytes| (bytes / u64::from(options.mss)) as Seq;
        let receive_window = window(options.receive_buffer);
        let mut script = options.script;
        script.sort_by_key(|action| action.at);
        let script_timer = io.add_timer(number, Timer::Script);
        io.queue.set(script_timer, options.start);
        Self {
            number,
            subflows: Vec::new(),
            controller: options.controller,
            scheduler: options.scheduler,
            opportunistic: options.opportunistic,
            ecn: options.ecn,
            path_manager: options.path_manager,
            workload: options.workload,
            mss: options.mss,
            segments,
            send_window: window(options.send_buffer),
            receive_window,
            start: options.start,
            initial_path: options.initial_path,
            script: script.into(),
            script_timer,
            data_una: 0,
            data_next: 0,
            window_edge: receive_window,
            carried_by: Ring::new(),
            reinjections: VecDeque::new(),
            peers: Vec::new(),
            room: 0,
            usable: 0,
            fully_established: false,
            notify_at: Seq::MAX,
            reassembly: Reassembly::new(receive_window),
            series: Series::new(options.start),
            completed_at: None,
            reinjected: 0,
        }
    }

    /// Most segments that waited in the receive buffer for one before them.
    pub fn largest_waiting(&self) -> u32 {
        self.reassembly.largest_waiting
    }

    /// The script took every subflow out of service: nothing happens, and nothing is wrong.
    pub fn is_withdrawn(&self) -> bool {
        !self.subflows.is_empty() && self.subflows.iter().all(|subflow| subflow.withdrawn)
    }

    /// Payload bytes of segments `from..to` of the data sequence space.
    #[inline]
    fn payload(&self, from: Seq, to: Seq) -> Bytes {
        let full = u64::from(to - from) * u64::from(self.mss);
        match self.workload {
            Workload::Transfer(total) if to == self.segments => {
                full - (u64::from(self.segments) * u64::from(self.mss) - total)
            }
            _ => full,
        }
    }

    /// A packet of a subflow arrived at the data receiver.
    #[inline]
    pub fn on_receiver_packet(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        match packet.kind {
            Kind::Data => self.on_data(io, id, packet),
            Kind::Syn => self.answer(io, id, Kind::SynAck),
            Kind::JoinAck => self.answer(io, id, Kind::JoinConfirmed),
            Kind::SynAck | Kind::JoinConfirmed | Kind::Ack => {}
        }
    }

    /// A packet of a subflow arrived at the data sender.
    #[inline]
    pub fn on_sender_packet(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        match packet.kind {
            Kind::Ack => self.on_ack(io, id, packet),
            Kind::SynAck => self.on_syn_ack(io, id),
            Kind::JoinConfirmed => self.on_join_confirmed(io, id),
            Kind::Syn | Kind::JoinAck | Kind::Data => {}
        }
    }

    /// A timer's event is due. Timers are re-armed lazily: it may turn out to be too early.
    pub fn on_timer(&mut self, io: &mut Io<'_>, source: Source, timer: Timer) {
        io.queue.set(source, NEVER);
        match timer {
            Timer::Subflow(id) => self.on_subflow_timer(io, id),
            Timer::DelayedAck(id) => {
                let deadline = self.subflows[id].receiver.deadline();
                if deadline <= io.now {
                    self.acknowledge(io, id, false);
                } else {
                    io.queue.set(source, deadline);
                }
            }
            Timer::Script => self.follow_script(io),
        }
    }
}
