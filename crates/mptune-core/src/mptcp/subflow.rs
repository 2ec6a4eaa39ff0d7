//! One subflow of a connection: both halves of its transport, its handshake and its role.

use super::series::Series;
use crate::engine::Source;
use crate::tcp::{Receiver, Sender};
use crate::units::{NEVER, Nanos, SECOND, Seq};
use std::collections::VecDeque;

/// RFC 6298 (2.1) and Linux `TCP_TIMEOUT_INIT`: first wait for an answer to a handshake packet.
const HANDSHAKE_TIMEOUT: Nanos = SECOND;
/// Linux `net.ipv4.tcp_syn_retries`.
const HANDSHAKE_RETRIES: u32 = 6;

/// How far a subflow has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// SYN sent.
    SynSent,
    /// SYN/ACK of an MP_JOIN answered, its confirmation awaited (RFC 8684 section 3.2).
    JoinAckSent,
    /// Data may be sent.
    Established,
    /// The handshake was given up.
    Refused,
}

/// One subflow.
#[derive(Debug)]
pub struct Subflow {
    /// The path it runs on.
    pub path: usize,
    /// Its number among all subflows of the simulation.
    pub flow: u16,
    /// Sending half, at the data sender.
    pub sender: Sender,
    /// Receiving half, at the data receiver.
    pub receiver: Receiver,
    /// How far the handshake has got.
    pub phase: Phase,
    /// Carries no data while a subflow without this flag lives (MP_PRIO, MP_JOIN's B bit).
    pub backup: bool,
    /// Withdrawn by the trial's script: carries no data in any case.
    pub withdrawn: bool,
    /// A timeout is not yet followed by progress: nothing new is scheduled on it (`pf`, potentially
    /// failed, in the v0.9x kernels).
    pub failing: bool,
    /// The path manager was told that it is lost.
    pub lost: bool,
    /// It carried data at some time.
    pub carried_data: bool,
    /// Segments handed to it that its window has not let go yet.
    pub queue: VecDeque<Seq>,
    /// Next segment it sends when every subflow sends everything.
    pub position: Seq,
    /// When it last made a slower subflow slow down.
    pub penalised_at: Nanos,
    /// Payload bytes it was the first to deliver.
    pub series: Series,
    /// Event source of the sender's and the handshake's timer.
    pub timer: Source,
    /// Event source of the delayed-ACK timer.
    pub ack_timer: Source,
    asked_at: Nanos,
    asked: u32,
    deadline: Nanos,
}

impl Subflow {
    /// A subflow whose SYN is about to be sent.
    pub fn new(path: usize, flow: u16, sender: Sender, start: Nanos, timers: [Source; 2]) -> Self {
        Self {
            path,
            flow,
            receiver: Receiver::new(sender.ecn_per_segment()),
            sender,
            phase: Phase::SynSent,
            backup: false,
            withdrawn: false,
            failing: false,
            lost: false,
            carried_data: false,
            queue: VecDeque::new(),
            position: 0,
            penalised_at: 0,
            series: Series::new(start),
            timer: timers[0],
            ack_timer: timers[1],
            asked_at: 0,
            asked: 0,
            deadline: NEVER,
        }
    }

    /// Established and not potentially failed.
    #[inline]
    pub fn alive(&self) -> bool {
        self.phase == Phase::Established && !self.failing
    }

    /// Smallest RTT seen, 0 before the first sample.
    pub fn min_rtt(&self) -> Nanos {
        if self.sender.rtt.srtt > 0 { self.sender.rtt.min } else { 0 }
    }

    /// A handshake packet that wants an answer was sent (again).
    pub fn note_asked(&mut self, now: Nanos) {
        self.asked_at = now;
        self.deadline = now + (HANDSHAKE_TIMEOUT << self.asked.min(HANDSHAKE_RETRIES));
        self.asked += 1;
    }

    /// The handshake's next packet: the round trip just measured unless it was repeated.
    pub fn note_answered(&mut self, now: Nanos) -> Option<Nanos> {
        let rtt = (self.asked == 1).then(|| now - self.asked_at);
        self.asked = 0;
        self.deadline = NEVER;
        rtt
    }

    /// The handshake was repeated as often as it may be.
    pub fn gives_up(&self) -> bool {
        self.asked > HANDSHAKE_RETRIES
    }

    /// When the subflow's timer is due.
    #[inline]
    pub fn deadline(&self, now: Nanos) -> Nanos {
        match self.phase {
            Phase::Established => self.sender.deadline(now),
            Phase::SynSent | Phase::JoinAckSent => self.deadline,
            Phase::Refused => NEVER,
        }
    }
}
