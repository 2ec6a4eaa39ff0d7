//! A subflow of a connection: both halves of its transport, its handshake and its role.

use super::accounting::SendWindow;
use super::accounting::memory::SubflowMemory;
use super::packet::Mapping;
use super::send_queue::SendQueue;
use crate::engine::Source;
use crate::pathmanager::Role;
use crate::tcp::{Receiver, Sender, Timing};
use crate::transport::Series;
use crate::units::{NEVER, Nanos, SECOND, Seq};

/// RFC 6298 (2.1) and Linux `TCP_TIMEOUT_INIT`: the initial RTO of a handshake packet.
const HANDSHAKE_TIMEOUT: Nanos = SECOND;
/// Linux `net.ipv4.tcp_syn_retries`.
const HANDSHAKE_RETRIES: u32 = 6;

/// The state of a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// SYN sent.
    SynSent,
    /// SYN/ACK of an MP_JOIN answered, waiting for confirmation (RFC 8684 section 3.2); or any SYN/ACK of a subflow that the
    /// data receiver opens, waiting for the data sender to hear of it.
    JoinAckSent,
    /// Data may be sent.
    Established,
    /// The handshake was given up.
    Refused,
    /// Its address was removed, and both ends closed it (RFC 8684 section 3.4.2).
    Closed,
}

/// Totals of a subflow in segments and events, over all times that it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Data segments sent, retransmissions included.
    pub sent: u64,
    /// Of these, retransmissions on this subflow.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions of cwnd undone as spurious.
    pub undone: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
    /// Segments that another subflow had carried before.
    pub reinjected: u64,
    /// Segments that arrived and were dropped for lack of memory.
    pub refused: u64,
}

/// One subflow.
#[derive(Debug)]
pub struct Subflow {
    /// The path it runs on.
    pub path: usize,
    /// The route to the data receiver.
    pub there: usize,
    /// The route back.
    pub back: usize,
    /// Its number among all subflows of the simulation.
    pub flow: u32,
    /// Bytes by which the IP header of its packets is longer than that of IPv4.
    pub longer_header: u32,
    /// Sending half, at the data sender.
    pub sender: Sender,
    /// Receiving half, at the data receiver.
    pub receiver: Receiver<Mapping>,
    /// The state of the subflow.
    pub phase: Phase,
    /// Its role (MP_PRIO, the B bit of MP_JOIN).
    pub role: Role,
    /// No progress since its last RTO.
    pub timed_out: bool,
    /// Nothing new is scheduled on it until it makes progress: after the first timeout (`pf`, potentially
    /// failed, in the v0.9x kernels), or under Linux accounting when it is stale.
    pub failing: bool,
    /// Periods of the connection's retransmission timer without an answer, under Linux accounting (Linux
    /// `stale_count`).
    pub stale_count: u32,
    /// Tick of the last ACK when they began (Linux `stale_rcv_tstamp`).
    pub stale_since: u64,
    /// Time of the last ACK.
    pub acked_at: Nanos,
    /// It carried data at some point.
    pub carried_data: bool,
    /// Its send queue: segments that wait for cwnd.
    pub queue: SendQueue,
    /// Its next segment with a redundant scheduler.
    pub position: Seq,
    /// Its TCP's send window, under Linux accounting.
    pub send_window: SendWindow,
    /// Its queue waits for a burst, until an ACK or more data.
    pub deferred: bool,
    /// Time of the ACK of its next keepalive, while a path policy holds it and nothing is in flight.
    pub beat_at: Nanos,
    /// Time at which it last penalised a slower subflow.
    pub penalised_at: Nanos,
    /// Payload bytes that it delivered first.
    pub series: Series,
    /// Place among the subflows that the peer opened ([`crate::congestion::Peer::rank`]).
    pub rank: u32,
    /// The last SYN/ACK left, if the data sender accepts the subflow.
    pub answered_at: Nanos,
    /// The newest timestamp from the data receiver (Linux `ts_recent`).
    pub newest_stamp: u16,
    /// Its receive memory, under Linux accounting.
    pub memory: SubflowMemory,
    /// Event source of the sender's and the handshake's timer.
    pub timer: Source,
    /// Event source of the delayed-ACK timer.
    pub ack_timer: Source,
    /// Totals of earlier times that it was open, added to the sender's counters.
    pub counted: Totals,
    /// Of the packet that waits for an answer: when its last and its first copy left, and how many did.
    asked_at: Nanos,
    first_asked_at: Nanos,
    asked: u32,
    deadline: Nanos,
}

impl Subflow {
    /// A subflow whose SYN is about to be sent.
    pub fn new(
        path: usize,
        [there, back]: [usize; 2],
        flow: u32,
        longer_header: u32,
        sender: Sender,
        series: Series,
        timers: [Source; 2],
    ) -> Self {
        Self {
            path,
            there,
            back,
            flow,
            longer_header,
            receiver: Receiver::new(sender.ecn_per_segment()),
            sender,
            phase: Phase::SynSent,
            role: Role::Active,
            timed_out: false,
            failing: false,
            stale_count: 0,
            stale_since: 0,
            acked_at: 0,
            carried_data: false,
            queue: SendQueue::default(),
            position: 0,
            send_window: SendWindow::default(),
            deferred: false,
            beat_at: NEVER,
            penalised_at: 0,
            rank: 0,
            answered_at: 0,
            newest_stamp: 0,
            series,
            memory: SubflowMemory::default(),
            timer: timers[0],
            ack_timer: timers[1],
            counted: Totals::default(),
            asked_at: 0,
            first_asked_at: 0,
            asked: 0,
            deadline: NEVER,
        }
    }

    /// The same with delayed ACKs timed so.
    pub fn with_timing(self, timing: &Timing) -> Self {
        Self { receiver: self.receiver.with_timing(timing), ..self }
    }

    /// Its address is restored: a new SYN is about to be sent.
    pub fn reopen(&mut self, flow: u32, sender: Sender, timing: &Timing) {
        self.counted = self.totals();
        self.receiver = Receiver::new(sender.ecn_per_segment()).with_timing(timing);
        self.sender = sender;
        self.flow = flow;
        self.phase = Phase::SynSent;
        (self.timed_out, self.failing) = (false, false);
        self.stale_count = 0;
        (self.position, self.asked) = (0, 0);
        self.deferred = false;
        self.queue.restart();
        self.beat_at = NEVER;
        self.send_window = SendWindow::default();
        self.memory = SubflowMemory::default();
    }

    /// Everything it did so far.
    pub fn totals(&self) -> Totals {
        let (counted, sender) = (&self.counted, self.sender.counters());
        Totals {
            sent: counted.sent + self.sender.sent(),
            retransmitted: counted.retransmitted + self.sender.retransmitted(),
            timeouts: counted.timeouts + self.sender.timeouts(),
            recoveries: counted.recoveries + sender.recoveries,
            undone: counted.undone + sender.undone,
            ecn_reductions: counted.ecn_reductions + sender.ecn_reductions,
            refused: counted.refused + self.memory.refused,
            ..*counted
        }
    }

    /// Established and not potentially failed.
    #[inline]
    pub fn alive(&self) -> bool {
        self.phase == Phase::Established && !self.failing
    }

    /// It does not answer, under Linux accounting.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.stale_count > 0
    }

    /// It failed, was closed, or its handshake has been unanswered for long.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.phase, Phase::Refused | Phase::Closed) || self.asked > 2
    }

    /// Smallest RTT seen, 0 before the first sample.
    pub fn min_rtt(&self) -> Nanos {
        self.sender.rtt.smallest()
    }

    /// A handshake packet that requires an answer was sent (again).
    pub fn on_handshake_sent(&mut self, now: Nanos) {
        self.asked_at = now;
        if self.asked == 0 {
            self.first_asked_at = now;
        }
        self.deadline = now + (HANDSHAKE_TIMEOUT << self.asked.min(HANDSHAKE_RETRIES));
        self.asked += 1;
    }

    /// Number of the next copy of the packet that waits for an answer, from 1 on.
    pub fn next_copy(&self) -> u32 {
        self.asked + 1
    }

    /// The handshake's next packet answers this copy: the round trip by timestamps (RFC 6298 section 3), of the first and of the
    /// last copy, whose times are known.
    pub fn on_handshake_answered(&mut self, now: Nanos, copy: u32) -> Option<Nanos> {
        let sent_at = match copy {
            _ if copy == self.asked => Some(self.asked_at),
            1 => Some(self.first_asked_at),
            _ => None,
        };
        let rtt = sent_at.map(|sent_at| now - sent_at);
        self.asked = 0;
        self.deadline = NEVER;
        rtt
    }

    /// The handshake was repeated as often as allowed.
    pub fn gives_up(&self) -> bool {
        self.asked > HANDSHAKE_RETRIES
    }

    /// When the subflow's timer is due.
    #[inline]
    pub fn deadline(&self, now: Nanos) -> Nanos {
        match self.phase {
            Phase::Established => self.sender.deadline(now).min(self.beat_at),
            Phase::SynSent | Phase::JoinAckSent => self.deadline,
            Phase::Refused | Phase::Closed => NEVER,
        }
    }
}
