//! The connection as a transport of the simulation.

use super::Connection;
use crate::congestion::INFINITE_SSTHRESH;
use crate::engine::Source;
use crate::mptcp::io::{Io, Timer};
use crate::mptcp::options::ConnectionOptions;
use crate::mptcp::packet::{Content, Packet};
use crate::mptcp::subflow::{Phase, Subflow};
use crate::pathmanager::SubflowId;
use crate::transport::{Sample, Series, SubflowOutcome, Totals, Transport};
use crate::units::{Bytes, NEVER, Nanos};

impl Transport for Connection {
    type Packet = Packet;
    type Timer = Timer;
    type Options = ConnectionOptions;

    fn open(number: usize, options: ConnectionOptions, io: &mut Io) -> Self {
        Self::new(number, options, io)
    }

    #[inline]
    fn on_receiver_packet(&mut self, io: &mut Io, id: SubflowId, packet: &Packet) {
        match &packet.content {
            Content::Data(segment) => self.receiver.on_data(io, &mut self.subflows, id, segment),
            Content::SynAck(copy) if self.accepts => self.on_answer(io, id, *copy),
            Content::Syn(copy) => self.send_handshake_reply(io, id, Content::SynAck(*copy)),
            Content::JoinAck => self.on_join(io, id),
            Content::HandshakeAck => self.receiver.on_established(io.now),
            Content::SynAck(_) | Content::JoinConfirmed | Content::Ack(_) => {}
        }
    }

    #[inline]
    fn on_sender_packet(&mut self, io: &mut Io, id: SubflowId, packet: &Packet) {
        match &packet.content {
            Content::Ack(ack) => self.on_ack(io, id, ack),
            Content::Syn(copy) if self.accepts => self.on_syn(io, id, *copy),
            Content::HandshakeAck | Content::JoinAck if self.accepts => self.on_accepted(io, id),
            Content::SynAck(copy) => self.on_syn_ack(io, id, *copy),
            Content::JoinConfirmed => self.on_join_confirmed(io, id),
            Content::Syn(_) | Content::HandshakeAck | Content::JoinAck | Content::Data(_) => {}
        }
    }

    /// Timers are re-armed lazily: the event may be too early.
    fn on_timer(&mut self, io: &mut Io, source: Source, timer: Timer) {
        io.queue.set(source, NEVER);
        match timer {
            Timer::Subflow(id) => self.on_subflow_timer(io, id),
            Timer::DelayedAck(id) => {
                let deadline = self.subflows[id].receiver.deadline();
                if deadline <= io.now {
                    self.subflows[id].receiver.end_replies();
                    self.receiver.acknowledge(io, &mut self.subflows[id], false);
                } else {
                    io.queue.set(source, deadline);
                }
            }
            Timer::Script => self.follow_script(io),
            Timer::Data => self.on_data_timer(io),
            Timer::Application => self.on_application(io),
            Timer::Program => self.on_program(io),
            Timer::Sample => self.sample(io),
        }
    }

    #[inline]
    fn completed_at(&self) -> Option<Nanos> {
        self.receiver.delivered().completed_at
    }

    fn series(&self) -> &Series {
        &self.receiver.delivered().series
    }

    #[inline]
    fn is_reversed(&self) -> bool {
        self.reversed
    }

    fn accept(&mut self) {
        Self::accept(self);
    }

    fn is_fully_established(&self) -> bool {
        self.fully_established
    }

    fn on_peer_established(&mut self, io: &mut Io) {
        if self.accepts {
            self.establish_fully(io);
        }
    }

    fn is_open(&self) -> bool {
        self.is_begun()
    }

    fn offer(&mut self, io: &mut Io, bytes: Bytes) {
        if self.accepts && !self.is_begun() {
            // A server answers a request, which took the place of a lost end of its handshake.
            self.on_accepted(io, 0);
        }
        self.offer_now(io, bytes);
    }

    fn wake_at(&mut self, io: &mut Io, at: Nanos) {
        self.wake_program(io, at);
    }

    fn sent(&self, number: usize) -> Option<u64> {
        self.subflows.get(number).map(|subflow| subflow.sender.sent())
    }

    fn on_data_sent_back(&mut self, io: &mut Io, number: usize) {
        let Some(subflow) = self.subflows.get_mut(number) else { return };
        if subflow.phase != Phase::Closed && subflow.receiver.on_data_sent(io.now) {
            self.receiver.acknowledge(io, subflow, false);
        }
    }

    fn delays(&self) -> Option<&[Nanos]> {
        self.receiver.delivered().delays()
    }

    fn stalled(&self, alive: bool) -> Option<(Nanos, String)> {
        let last = self.receiver.delivered().progress_at;
        match self.stall() {
            Some(stall) => Some((stall.since().unwrap_or(last), stall.to_string())),
            None if !alive && !self.is_withdrawn() => Some((last, "no events left".to_owned())),
            None => None,
        }
    }

    fn contradiction(&self) -> Option<String> {
        self.miscount().map(|miscount| miscount.to_string())
    }

    fn add_samples(&self, now: Nanos, samples: &mut Vec<Sample>) {
        let numbered = self.subflows.iter().enumerate();
        samples.extend(numbered.map(|(id, subflow)| sample(now, id, subflow)));
    }

    fn totals(&self, end: Nanos) -> Totals {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let full = Bytes::from(sender.buffer().full());
        Totals {
            reinjected: sender.reinjected(),
            reinjected_bytes: sender.reinjected_bytes(),
            duplicates: receiver.duplicates(),
            window_limited: sender.window_limited(end),
            zero_windows: receiver.buffer().zero_windows(),
            beyond_window: receiver.buffer().beyond_window(),
            largest_waiting: Bytes::from(receiver.largest_waiting()) * full,
            changes: self.changes.clone(),
            subflows: self.subflows.iter().map(|subflow| outcome(subflow, end)).collect(),
        }
    }
}

fn sample(now: Nanos, id: SubflowId, subflow: &Subflow) -> Sample {
    let sender = &subflow.sender;
    Sample {
        t_ns: now,
        path: subflow.path,
        subflow: id,
        cwnd: sender.window.cwnd,
        ssthresh: Some(sender.window.ssthresh).filter(|&segments| segments < INFINITE_SSTHRESH),
        srtt_ns: sender.rtt.srtt,
        unacked: sender.outstanding(),
        sacked: sender.sacked(),
        lost: sender.lost(),
        queued: subflow.queue.len(),
        state: sender.state_number(),
        backoff: sender.consecutive_timeouts(),
    }
}

fn outcome(subflow: &Subflow, end: Nanos) -> SubflowOutcome {
    let totals = subflow.totals();
    SubflowOutcome {
        path: subflow.path,
        active: subflow.carried_data,
        bytes: subflow.series.total(),
        bins: subflow.series.clone().finish(end),
        srtt_ns: subflow.sender.rtt.srtt,
        min_rtt_ns: subflow.min_rtt(),
        rto_ns: subflow.sender.rtt.known_rto(),
        sent: totals.sent,
        retransmitted: totals.retransmitted,
        timeouts: totals.timeouts,
        recoveries: totals.recoveries,
        undone: totals.undone,
        ecn_reductions: totals.ecn_reductions,
        reinjected: totals.reinjected,
        refused: totals.refused,
    }
}
