//! One MPTCP connection, both ends: handshakes, the shared buffers, the scheduler's loop,
//! reinjection, and the path manager's commands (RFC 8684).
//!
//! Loss recovery on a subflow is `tcp::Sender`'s business, in-order delivery `Reassembly`'s.
//!
//! Simplifications, each harmless to throughput: ADD_ADDRs arrive with the first DATA_ACK (they are
//! sent then, on the same subflow); MP_PRIO takes effect at the sender at once, as in Linux, where the
//! option tells the peer about its own direction; the application reads at once what is in order.

use super::packet::{DATA_HEADER, Kind, Packet, SYN_SIZE, ack_size};
use super::reassembly::Reassembly;
use super::scheduler::{self, Choice, Style};
use super::series::Series;
use super::subflow::{Phase, Subflow};
use crate::congestion::{Controller, Peer};
use crate::engine::{EventQueue, Ring, Source};
use crate::network::{Network, forward, reverse};
use crate::pathmanager::{self, Command, Event, PathEnds, PathId, SubflowId, SubflowView, View};
use crate::tcp::{Acknowledgement, Reply, Sender, TimerAction};
use crate::units::{Bytes, NEVER, Nanos, Seq};
use std::collections::VecDeque;

/// Consecutive timeouts after which the path manager is told that a subflow is lost: with the
/// timer's back-off about 7 RTOs. (Linux' `net.mptcp.stale_loss_cnt`, default 4, counts intervals of
/// one RTO.)
const LOST_AFTER_TIMEOUTS: u32 = 3;
/// A full window of segments' space: the mask of subflows a segment was sent on has 64 bits.
pub const MAX_SUBFLOWS: usize = 64;

/// What the connection has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// The application always has more.
    Saturated,
    /// So many payload bytes.
    Transfer(Bytes),
}

/// Something done to a path from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedEvent {
    /// Its subflows carry no data from now on.
    Withdraw,
    /// They may again.
    Readmit,
    /// The path is cut.
    Cut,
    /// The path is restored.
    Restore,
    /// The application has no more to send; the path does not matter.
    Finish,
}

/// A scripted event with its time and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptedAction {
    /// When.
    pub at: Nanos,
    /// Where.
    pub path: PathId,
    /// What.
    pub event: ScriptedEvent,
}

/// How a connection is to behave.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Congestion control of every subflow, in its initial state.
    pub controller: Controller,
    /// Scheduler.
    pub scheduler: scheduler::Policy,
    /// Path manager.
    pub path_manager: pathmanager::Policy,
    /// What there is to send.
    pub workload: Workload,
    /// Shared send buffer, payload bytes.
    pub send_buffer: Bytes,
    /// Shared receive buffer, payload bytes.
    pub receive_buffer: Bytes,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Path of the MP_CAPABLE handshake.
    pub initial_path: PathId,
    /// Opportunistic retransmission and penalisation, as in the v0.9x kernels.
    pub opportunistic: bool,
    /// Data is ECN-capable (RFC 3168).
    pub ecn: bool,
    /// When the first SYN is sent.
    pub start: Nanos,
    /// Scripted events, in any order.
    pub script: Vec<ScriptedAction>,
}

/// Whose timer an event source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The sender's or the handshake's, of a subflow.
    Subflow(SubflowId),
    /// The delayed ACK's, of a subflow.
    DelayedAck(SubflowId),
    /// The script's.
    Script,
}

/// Everything of the simulation that a connection may touch.
#[derive(Debug)]
pub struct Io<'a> {
    /// The current time.
    pub now: Nanos,
    /// The event queue.
    pub queue: &'a mut EventQueue,
    /// The network.
    pub network: &'a mut Network<Packet>,
    /// For each flow number, its connection and subflow.
    pub flows: &'a mut Vec<(usize, SubflowId)>,
    /// For each timer's source, counted from the first one, its connection and purpose.
    pub timers: &'a mut Vec<(usize, Timer)>,
    /// The ends of every path.
    pub paths: &'a [PathEnds],
    /// The network obeys loose source routes.
    pub lsrr_honoured: bool,
}

impl Io<'_> {
    fn add_timer(&mut self, connection: usize, timer: Timer) -> Source {
        self.timers.push((connection, timer));
        self.queue.add_source()
    }

    #[inline]
    fn send(&mut self, route: usize, size: u32, packet: Packet) {
        self.network.send(self.queue, self.now, route, size, packet);
    }
}

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

    // ---- events -------------------------------------------------------------------------------

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

    fn follow_script(&mut self, io: &mut Io<'_>) {
        if self.subflows.is_empty() {
            self.connect(io, self.initial_path, false);
        }
        while self.script.front().is_some_and(|action| self.start + action.at <= io.now) {
            let Some(action) = self.script.pop_front() else { break };
            self.perform(io, action);
        }
        let next = self.script.front().map_or(NEVER, |action| self.start + action.at);
        io.queue.set(self.script_timer, next);
    }

    fn perform(&mut self, io: &mut Io<'_>, action: ScriptedAction) {
        match action.event {
            ScriptedEvent::Cut => io.network.set_path_up(action.path, false),
            ScriptedEvent::Restore => io.network.set_path_up(action.path, true),
            ScriptedEvent::Finish => self.segments = self.segments.min(self.data_next),
            ScriptedEvent::Withdraw | ScriptedEvent::Readmit => {
                let withdrawn = action.event == ScriptedEvent::Withdraw;
                for subflow in self.subflows.iter_mut().filter(|s| s.path == action.path) {
                    subflow.withdrawn = withdrawn;
                }
                self.update_roles(io.now);
                self.pump(io);
            }
        }
    }

    // ---- handshakes ---------------------------------------------------------------------------

    fn connect(&mut self, io: &mut Io<'_>, path: PathId, backup: bool) {
        let id = self.subflows.len();
        if id == MAX_SUBFLOWS {
            return;
        }
        let flow = io.flows.len() as u16;
        io.flows.push((self.number, id));
        let timers = [Timer::Subflow(id), Timer::DelayedAck(id)];
        let timers = timers.map(|timer| io.add_timer(self.number, timer));
        let sender = Sender::new(self.controller.clone());
        let mut subflow = Subflow::new(path, flow, sender, self.start, timers);
        subflow.backup = backup;
        self.subflows.push(subflow);
        self.peers.push(Peer::default());
        self.ask(io, id, Kind::Syn);
    }

    /// Sends a handshake packet that wants an answer.
    fn ask(&mut self, io: &mut Io<'_>, id: SubflowId, kind: Kind) {
        let subflow = &mut self.subflows[id];
        subflow.note_asked(io.now);
        io.queue.set(subflow.timer, subflow.deadline(io.now));
        let packet = Packet { flow: subflow.flow, kind, ..Packet::default() };
        io.send(forward(subflow.path), SYN_SIZE, packet);
    }

    fn answer(&mut self, io: &mut Io<'_>, id: SubflowId, kind: Kind) {
        let subflow = &self.subflows[id];
        let packet = Packet { flow: subflow.flow, kind, ..Packet::default() };
        io.send(reverse(subflow.path), SYN_SIZE, packet);
    }

    fn on_syn_ack(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        if subflow.phase != Phase::SynSent {
            return;
        }
        let rtt = subflow.note_answered(io.now);
        subflow.sender.on_established(io.now, rtt);
        if id == 0 {
            self.on_established(io, id);
        } else {
            subflow.phase = Phase::JoinAckSent;
            self.ask(io, id, Kind::JoinAck);
        }
    }

    fn on_join_confirmed(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        if subflow.phase == Phase::JoinAckSent {
            subflow.note_answered(io.now);
            self.on_established(io, id);
        }
    }

    fn on_established(&mut self, io: &mut Io<'_>, id: SubflowId) {
        self.subflows[id].phase = Phase::Established;
        self.update_roles(io.now);
        if self.fully_established {
            self.tell_path_manager(io, Event::SubflowEstablished(id));
        }
        self.pump(io);
    }

    // ---- the receiver's side ------------------------------------------------------------------

    #[inline]
    fn on_data(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        let now = io.now;
        let before = self.reassembly.next();
        let mut first_delivered: u32 = 0;
        let mut last_payload_short = false;
        let last = self.segments - 1;
        if self.subflows[id].receiver.on_ecn(packet.congestion_experienced, packet.ecn_signal) {
            self.acknowledge(io, id, false);
        }
        self.subflows[id].receiver.set_ecn_state(packet.congestion_experienced);
        let (subflow, reassembly) = (&mut self.subflows[id], &mut self.reassembly);
        let reply = subflow.receiver.on_segment(now, packet.seq, packet.data, |data| {
            if reassembly.on_segment(data).is_some() {
                first_delivered += 1;
                last_payload_short |= data == last;
            }
        });
        if first_delivered > 0 {
            let mut bytes = u64::from(first_delivered) * u64::from(self.mss);
            if last_payload_short {
                bytes -= u64::from(self.mss) - self.payload(last, self.segments);
            }
            self.subflows[id].series.add(now, bytes);
        }
        let next = self.reassembly.next();
        if next > before {
            let bytes = self.payload(before, next);
            self.series.add(now, bytes);
            if next == self.segments {
                self.completed_at.get_or_insert(now);
            }
        }
        // A gap in the data sequence space closed: the window opens by more than a segment or two
        // and the sender may be waiting for it (RFC 9293 section 3.8.6.2.2).
        let window_opened = next - before > 2;
        match reply {
            Reply::Now { duplicate } => self.acknowledge(io, id, duplicate),
            Reply::Later if window_opened => self.acknowledge(io, id, false),
            Reply::Later => {
                let subflow = &self.subflows[id];
                io.queue.set_no_later(subflow.ack_timer, subflow.receiver.deadline());
            }
        }
    }

    #[inline]
    fn acknowledge(&mut self, io: &mut Io<'_>, id: SubflowId, duplicate: bool) {
        let subflow = &mut self.subflows[id];
        let ack = subflow.receiver.acknowledge(duplicate);
        let data = self.reassembly.next();
        let packet = Packet {
            flow: subflow.flow,
            kind: Kind::Ack,
            duplicate,
            seq: ack.next,
            data,
            window_edge: data.saturating_add(self.receive_window),
            sack: ack.sack,
            ecn_signal: ack.ecn_echo,
            ..Packet::default()
        };
        io.send(reverse(subflow.path), ack_size(&ack.sack), packet);
    }

    // ---- the sender's side --------------------------------------------------------------------

    #[inline]
    fn on_ack(&mut self, io: &mut Io<'_>, id: SubflowId, packet: &Packet) {
        while self.data_una < packet.data {
            self.data_una += 1;
            self.carried_by.pop();
        }
        self.window_edge = self.window_edge.max(packet.window_edge);
        let subflow = &mut self.subflows[id];
        let ack = Acknowledgement {
            next: packet.seq,
            sack: packet.sack,
            duplicate: packet.duplicate,
            ecn_echo: packet.ecn_signal,
        };
        let progress = subflow.sender.on_ack(io.now, &ack, &self.peers, id);
        if progress.delivered > 0 && subflow.failing {
            self.on_progress_again(io, id);
        }
        if !self.fully_established {
            self.fully_established = true;
            self.tell_path_manager(io, Event::Established);
        }
        self.send_from(io, id);
    }

    /// After something changed for one subflow: its retransmissions, then whatever the scheduler
    /// gives to whom.
    #[inline]
    fn send_from(&mut self, io: &mut Io<'_>, id: SubflowId) {
        self.retransmit(io, id);
        self.refresh(io.now, id);
        self.pump(io);
        let subflow = &self.subflows[id];
        io.queue.set_no_later(subflow.timer, subflow.deadline(io.now));
    }

    fn on_progress_again(&mut self, io: &mut Io<'_>, id: SubflowId) {
        self.subflows[id].failing = false;
        let was_lost = std::mem::take(&mut self.subflows[id].lost);
        self.update_roles(io.now);
        if was_lost {
            self.tell_path_manager(io, Event::SubflowRestored(id));
        }
    }

    fn on_subflow_timer(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        match subflow.phase {
            Phase::SynSent | Phase::JoinAckSent => self.on_handshake_timer(io, id),
            Phase::Refused => {}
            Phase::Established => {
                match subflow.sender.on_timer(io.now, &self.peers, id) {
                    TimerAction::None => {}
                    TimerAction::Probe => {
                        if let Some(segment) = subflow.sender.probe(io.now) {
                            self.transmit(io, id, segment, false);
                        }
                    }
                    TimerAction::Timeout => self.on_timeout(io, id),
                }
                self.send_from(io, id);
            }
        }
    }

    fn on_handshake_timer(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        let deadline = subflow.deadline(io.now);
        if deadline > io.now {
            io.queue.set(subflow.timer, deadline);
        } else if subflow.gives_up() {
            subflow.phase = Phase::Refused;
        } else {
            let syn = subflow.phase == Phase::SynSent;
            self.ask(io, id, if syn { Kind::Syn } else { Kind::JoinAck });
        }
    }

    /// A subflow timed out: what it carries may be lost for long, so other subflows carry it too.
    fn on_timeout(&mut self, io: &mut Io<'_>, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        if !subflow.failing {
            subflow.failing = true;
            let una = self.data_una;
            self.reinjections.extend(subflow.sender.undelivered().filter(|&data| data >= una));
            self.update_roles(io.now);
        }
        let subflow = &mut self.subflows[id];
        if !subflow.lost && subflow.sender.consecutive_timeouts() >= LOST_AFTER_TIMEOUTS {
            subflow.lost = true;
            self.tell_path_manager(io, Event::SubflowLost(id));
        }
    }

    #[inline]
    fn retransmit(&mut self, io: &mut Io<'_>, id: SubflowId) {
        while let Some(segment) = self.subflows[id].sender.next_retransmission(io.now) {
            self.transmit(io, id, segment, false);
        }
    }

    #[inline]
    fn transmit(&mut self, io: &mut Io<'_>, id: SubflowId, (seq, data): (Seq, Seq), new: bool) {
        let payload = if data == self.segments - 1 {
            self.payload(data, self.segments) as u32
        } else {
            self.mss
        };
        let subflow = &mut self.subflows[id];
        let packet = Packet {
            flow: subflow.flow,
            kind: Kind::Data,
            seq,
            data,
            // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
            ecn_capable: new && (self.ecn || subflow.sender.ecn_per_segment()),
            ecn_signal: new && subflow.sender.take_ecn_signal(),
            ..Packet::default()
        };
        io.send(forward(subflow.path), payload + DATA_HEADER, packet);
    }

    /// Sends what the windows, the buffers and the scheduler allow.
    #[inline]
    fn pump(&mut self, io: &mut Io<'_>) {
        match self.scheduler.style() {
            Style::Pull => self.pull(io),
            Style::Push => self.push(io),
            Style::Copy => self.copy(io),
        }
    }

    /// The first segment that may not be sent: the receiver's window, the send buffer or the end of
    /// the transfer.
    #[inline]
    fn limit(&self) -> Seq {
        let buffers = self.window_edge.min(self.data_una.saturating_add(self.send_window));
        buffers.min(self.segments)
    }

    /// Each segment goes to a subflow whose window has room for it.
    #[inline]
    fn pull(&mut self, io: &mut Io<'_>) {
        loop {
            let ready = self.usable & self.room;
            if ready == 0 {
                return;
            }
            if !self.reinjections.is_empty() && self.reinject(io, ready) {
                continue;
            }
            let limit = self.limit();
            if self.data_next >= limit {
                self.note_app_limited(ready);
                if self.opportunistic && limit < self.segments {
                    self.unblock(io, ready);
                }
                return;
            }
            let Some(id) = self.select(io.now, ready, limit - self.data_next) else { return };
            let data = self.take_next(id);
            self.assign(io, id, data);
            self.notify_bytes_sent(io);
        }
    }

    /// Segments are handed to subflows whose send queue has room, and leave it when the window has.
    fn push(&mut self, io: &mut Io<'_>) {
        loop {
            let limit = self.limit();
            if self.data_next >= limit {
                break;
            }
            let open = scheduler::bits(self.usable)
                .filter(|&id| self.peers[id].outstanding < self.send_window)
                .fold(0, |set, id| set | 1 << id);
            let Some(id) = self.select(io.now, open, limit - self.data_next) else { break };
            let data = self.take_next(id);
            self.subflows[id].queue.push_back(data);
            self.peers[id].outstanding += 1;
            self.notify_bytes_sent(io);
        }
        while !self.reinjections.is_empty() && self.reinject(io, self.usable & self.room) {}
        for id in scheduler::bits(self.usable & self.room) {
            while self.room >> id & 1 == 1 {
                let Some(data) = self.subflows[id].queue.pop_front() else { break };
                self.assign(io, id, data);
            }
        }
    }

    /// Every subflow sends every segment that is not acknowledged when its turn comes.
    fn copy(&mut self, io: &mut Io<'_>) {
        self.reinjections.clear();
        for id in scheduler::bits(self.usable & self.room) {
            while self.room >> id & 1 == 1 {
                let data = self.subflows[id].position.max(self.data_una);
                if data >= self.limit() {
                    break;
                }
                if data == self.data_next {
                    self.take_next(id);
                } else {
                    *self.carried_by.at_mut(data) |= 1 << id;
                }
                self.subflows[id].position = data + 1;
                self.assign(io, id, data);
            }
        }
        self.notify_bytes_sent(io);
    }

    /// The next segment of the data sequence space, now carried by a subflow.
    #[inline]
    fn take_next(&mut self, id: SubflowId) -> Seq {
        let data = self.data_next;
        self.data_next += 1;
        self.carried_by.push(1 << id);
        data
    }

    #[inline]
    fn notify_bytes_sent(&mut self, io: &mut Io<'_>) {
        if self.data_next >= self.notify_at {
            self.notify_at = Seq::MAX;
            let bytes = u64::from(self.data_next) * u64::from(self.mss);
            self.tell_path_manager(io, Event::BytesSent(bytes));
        }
    }

    /// The shared window is full although a subflow has room: the v0.9x kernels' opportunistic
    /// retransmission and penalisation (`net/mptcp/mptcp_sched.c`, `mptcp_rcv_buf_optimization`;
    /// Raiciu et al., NSDI 2012, section 4.2). The slower subflows that hold the first missing
    /// segment are slowed down, once each round trip, and if they are much slower the segment is
    /// sent again on the faster one.
    fn unblock(&mut self, io: &mut Io<'_>, ready: u64) {
        if self.data_una == self.data_next {
            return;
        }
        let Some(id) = self.select(io.now, ready, 1) else { return };
        let carriers = *self.carried_by.at(self.data_una);
        let mine = self.peers[id];
        if io.now - self.subflows[id].penalised_at >= mine.srtt {
            for other in scheduler::bits(carriers & !(1 << id)) {
                if mine.srtt < self.peers[other].srtt && self.subflows[other].sender.penalise() {
                    self.subflows[id].penalised_at = io.now;
                    self.refresh(io.now, other);
                }
            }
        }
        if carriers >> id & 1 == 0 && self.much_slower(carriers, mine.srtt) {
            *self.carried_by.at_mut(self.data_una) |= 1 << id;
            self.reinjected += 1;
            self.assign(io, id, self.data_una);
        }
    }

    /// Every carrier is more than four times slower, or one hardly has a window.
    fn much_slower(&self, carriers: u64, srtt: Nanos) -> bool {
        let mut slower = false;
        for peer in scheduler::bits(carriers).map(|other| &self.peers[other]) {
            if peer.cwnd <= 4.0 {
                return true;
            }
            if 4 * srtt >= peer.srtt {
                return false;
            }
            slower = true;
        }
        slower
    }

    /// There was room on these subflows and nothing the buffers allowed to be sent.
    #[inline]
    fn note_app_limited(&mut self, ready: u64) {
        if self.controller.rate_samples() {
            for id in scheduler::bits(ready) {
                self.subflows[id].sender.note_app_limited();
            }
        }
    }

    #[inline]
    fn select(&mut self, now: Nanos, ready: u64, window: Seq) -> Option<SubflowId> {
        self.scheduler.select(Choice {
            subflows: &self.peers,
            ready,
            usable: self.usable,
            window,
            whole_window: self.send_window.min(self.receive_window),
            now,
        })
    }

    /// Sends the first segment waiting for reinjection on a subflow that has not carried it yet;
    /// whether there was one.
    fn reinject(&mut self, io: &mut Io<'_>, ready: u64) -> bool {
        while self.reinjections.front().is_some_and(|&data| data < self.data_una) {
            self.reinjections.pop_front();
        }
        let Some(&data) = self.reinjections.front() else { return false };
        let fresh = ready & !*self.carried_by.at(data);
        if fresh == 0 {
            return false;
        }
        let Some(id) = scheduler::bits(fresh).min_by_key(|&id| self.peers[id].srtt) else {
            return false;
        };
        self.reinjections.pop_front();
        *self.carried_by.at_mut(data) |= 1 << id;
        self.reinjected += 1;
        self.assign(io, id, data);
        true
    }

    /// A segment goes out on a subflow for the first time there.
    #[inline]
    fn assign(&mut self, io: &mut Io<'_>, id: SubflowId, data: Seq) {
        let sender = &mut self.subflows[id].sender;
        if sender.outstanding() == 0 {
            sender.on_start(io.now);
        }
        let seq = sender.send(io.now, data);
        self.transmit(io, id, (seq, data), true);
        let subflow = &mut self.subflows[id];
        subflow.carried_data = true;
        if !subflow.sender.ready(io.now) {
            self.room &= !(1 << id);
        }
        io.queue.set_no_later(subflow.timer, subflow.sender.deadline(io.now));
    }

    // ---- roles and path management ------------------------------------------------------------

    /// Brings what schedulers and coupled controllers see of a subflow up to date.
    #[inline]
    fn refresh(&mut self, now: Nanos, id: SubflowId) {
        let sender = &self.subflows[id].sender;
        self.peers[id] = sender.summary(self.usable >> id & 1 == 1);
        self.peers[id].outstanding += self.subflows[id].queue.len() as u32;
        let bit = 1 << id;
        if sender.ready(now) {
            self.room |= bit;
        } else {
            self.room &= !bit;
        }
    }

    /// Which subflows may carry data: the active ones, or without a living active one the backup
    /// subflows (RFC 8684 section 3.3.8).
    fn update_roles(&mut self, now: Nanos) {
        let set = |backup: bool| {
            let chosen = self.subflows.iter().enumerate().filter(|(_, subflow)| {
                subflow.alive() && !subflow.withdrawn && subflow.backup == backup
            });
            chosen.fold(0, |set, (id, _)| set | 1 << id)
        };
        let (active, backup): (u64, u64) = (set(false), set(true));
        self.usable = if active != 0 { active } else { backup };
        self.recall_queues();
        for id in 0..self.subflows.len() {
            self.refresh(now, id);
        }
    }

    /// What waits in the send queue of a subflow that carries no data any more goes to others, before
    /// anything that was already sent once: nobody else would ever send it.
    fn recall_queues(&mut self) {
        let usable = self.usable;
        let silent = self.subflows.iter_mut().enumerate();
        for (id, subflow) in silent.filter(|(id, _)| usable >> id & 1 == 0) {
            for data in subflow.queue.drain(..).rev().filter(|&data| data >= self.data_una) {
                *self.carried_by.at_mut(data) &= !(1 << id);
                self.reinjections.push_front(data);
            }
        }
    }

    fn tell_path_manager(&mut self, io: &mut Io<'_>, event: Event) {
        let subflows = self.subflows.iter().map(|subflow| SubflowView {
            path: subflow.path,
            alive: subflow.phase == Phase::Established && !subflow.lost,
            backup: subflow.backup,
            min_rtt: subflow.min_rtt(),
        });
        let subflows: Vec<_> = subflows.collect();
        let transfer_bytes = match self.workload {
            Workload::Saturated => Bytes::MAX,
            Workload::Transfer(bytes) => bytes,
        };
        let view = View {
            paths: io.paths,
            lsrr_honoured: io.lsrr_honoured,
            subflows: &subflows,
            transfer_bytes: Some(transfer_bytes),
        };
        let mut commands = Vec::new();
        self.path_manager.on_event(event, view, &mut commands);
        for command in commands {
            match command {
                Command::Connect { path, backup } => self.connect(io, path, backup),
                Command::SetBackup { subflow, backup } => self.subflows[subflow].backup = backup,
                Command::NotifyAtBytes(bytes) => {
                    self.notify_at = bytes.div_ceil(u64::from(self.mss)) as Seq;
                }
            }
        }
        self.update_roles(io.now);
    }
}
