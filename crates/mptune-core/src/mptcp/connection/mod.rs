//! One MPTCP connection, both ends: handshakes, the shared buffers, the scheduler's loop,
//! reinjection, and the path manager's commands (RFC 8684). One file for each subject.
//!
//! Loss recovery on a subflow is `tcp::Sender`'s business, in-order delivery `Reassembly`'s, socket
//! memory `memory`'s.
//!
//! Simplifications, each harmless to throughput: ADD_ADDRs arrive with the first DATA_ACK (they are
//! sent then, on the same subflow); MP_PRIO takes effect at the sender at once, as in Linux, where the
//! option tells the peer about its own direction; the application reads at once what is in order.

mod addresses;
mod bursts;
mod charged;
mod handshake;
mod io;
mod management;
mod options;
mod pumping;
mod receiving;
mod reinjection;
mod repeating;
mod sending;
mod stall;

pub use io::{Io, Timer};
pub use options::{ConnectionOptions, ScriptedAction, ScriptedEvent, Workload};
pub use stall::Stall;

use super::memory::{Accounting, KernelMemory, full_payload};
use super::packet::{DATA_HEADER, Kind, Packet};
use super::reassembly::Reassembly;
use super::scheduler;
use super::series::Series;
use super::subflow::Subflow;
use crate::congestion::{Controller, Peer};
use crate::engine::{Ring, Source};
use crate::pathmanager::{self, PathId, SubflowId};
use crate::units::{Bytes, NEVER, Nanos, Seq};
use repeating::Repetition;
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
    tso: bool,
    ecn: bool,
    path_manager: pathmanager::Policy,
    workload: Workload,
    /// Payload bytes of a full segment, and of what comes before the payload in its packet.
    mss: u32,
    header: u32,
    /// Segments of the whole transfer, as far as they are known; those before this are full.
    segments: Seq,
    regular_until: Seq,
    /// Windows in segments: of the send buffer and of the receive buffer, both together, and of a
    /// subflow's send queue.
    send_window: Seq,
    receive_window: Seq,
    whole_window: Seq,
    queue_limit: Seq,
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
    /// Since when the shared buffers keep a subflow with room from sending, [`NEVER`] if they do not;
    /// and how long they did before.
    blocked_since: Nanos,
    blocked: Nanos,
    /// Linux' accounting: the memory of both ends, and the connection-level retransmission.
    memory: Option<Box<KernelMemory>>,
    repetition: Option<Repetition>,
    application: Option<Source>,
    // The receiver's side.
    reassembly: Reassembly,
    /// Segments that a subflow just put in order; kept to reuse its memory.
    arrived: Vec<Seq>,
    /// Payload bytes delivered in order.
    pub series: Series,
    /// When bytes were last delivered in order.
    pub progress_at: Nanos,
    /// When the whole transfer had been delivered.
    pub completed_at: Option<Nanos>,
    /// Segments sent again on another subflow, or again by the connection.
    pub reinjected: u64,
}

impl Connection {
    /// A connection that begins with [`Self::on_timer`] of its script timer at `options.start`.
    pub fn new(number: usize, options: ConnectionOptions, io: &mut Io<'_>) -> Self {
        let total = match options.workload {
            Workload::Saturated => Bytes::MAX,
            Workload::Transfer(bytes) => bytes,
        };
        let charged = options.accounting == Accounting::Linux;
        let mss = if charged { full_payload(options.mss) } else { options.mss };
        let memory = charged.then(|| {
            let (send, receive) = (options.send_buffer, options.receive_buffer);
            Box::new(KernelMemory::new(send, receive, mss, total))
        });
        // Under Linux' accounting segments are counted as they are made.
        let known = (total < Bytes::MAX && !charged).then(|| total.div_ceil(Bytes::from(mss)));
        let window = |bytes: Bytes| (bytes / Bytes::from(mss)) as Seq;
        let (send_window, receive_window, queue_limit) = memory.as_ref().map_or_else(
            || {
                let send = window(options.send_buffer);
                (send, window(options.receive_buffer), send)
            },
            |memory| (Seq::MAX, memory.receive_window(), memory.sender.subflow_segments()),
        );
        let segments = known.map_or(Seq::MAX, |segments| segments as Seq);
        let mut script = options.script;
        script.sort_by_key(|action| action.at);
        let script_timer = io.add_timer(number, Timer::Script);
        io.queue.set(script_timer, options.start);
        let mut connection = Self {
            number,
            subflows: Vec::new(),
            controller: options.controller,
            scheduler: options.scheduler,
            opportunistic: options.opportunistic,
            tso: options.tso,
            ecn: options.ecn,
            path_manager: options.path_manager,
            workload: options.workload,
            mss,
            header: DATA_HEADER + (options.mss - mss),
            segments,
            regular_until: if charged { 0 } else { segments - 1 },
            send_window,
            receive_window,
            whole_window: queue_limit.min(receive_window),
            queue_limit,
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
            blocked_since: NEVER,
            blocked: 0,
            memory,
            repetition: charged.then(|| Repetition::new(io.add_timer(number, Timer::Data))),
            application: charged.then(|| io.add_timer(number, Timer::Application)),
            reassembly: Reassembly::new(receive_window),
            arrived: Vec::new(),
            series: Series::new(options.start),
            progress_at: options.start,
            completed_at: None,
            reinjected: 0,
        };
        connection.update_window_edge();
        connection
    }

    /// Most payload bytes that waited in the receive buffer for one before them; counted in full
    /// segments.
    pub fn largest_waiting(&self) -> Bytes {
        Bytes::from(self.reassembly.largest_waiting) * Bytes::from(self.mss)
    }

    /// Segments that arrived although they had been received before.
    pub fn duplicates(&self) -> u64 {
        self.reassembly.duplicates
    }

    /// Times the window offered fell to zero, under Linux' accounting.
    pub fn zero_windows(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.receiver.zero_windows)
    }

    /// Segments the receiver dropped because they were beyond its window, under Linux' accounting.
    pub fn beyond_window(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.receiver.beyond_window)
    }

    /// How long the shared buffers kept a subflow with room from sending, until `now`.
    pub fn window_limited(&self, now: Nanos) -> Nanos {
        self.blocked + now.saturating_sub(self.blocked_since)
    }

    /// Payload bytes of segments `from..to` of the data sequence space, all of one size but the last.
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
            Kind::Data if self.memory.is_some() => self.on_charged_data(io, id, packet),
            Kind::Data => self.on_data(io, id, packet),
            Kind::Syn => self.answer(io, id, Kind::SynAck),
            Kind::JoinAck => self.on_join(io, id),
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
            Timer::Data => self.on_data_timer(io),
            Timer::Application => self.on_application(io),
        }
    }
}
