//! Handshakes: MP_CAPABLE on the initial subflow, MP_JOIN with its four packets on the others (RFC 8684 sections 3.1 and
//! 3.2), and their retransmission. The data sender opens the subflows; where it is a server, its client does.

use super::Connection;
use crate::mptcp::echoes::stamp;
use crate::mptcp::io::{Io, Timer};
use crate::mptcp::packet::{Content, Packet};
use crate::mptcp::subflow::{Phase, Subflow};
use crate::network::{forward, reverse};
use crate::pathmanager::{PathId, Report, Role, SubflowId};
use crate::tcp::Sender;
use crate::transport::Series;

impl Connection {
    /// Opens a subflow for the first time, or reopens a closed one.
    pub(super) fn connect(&mut self, io: &mut Io, id: SubflowId, path: PathId, role: Role) {
        if id < self.subflows.len() {
            return self.reopen(io, id, role);
        }
        let flow = io.add_flow(self.number, id);
        let timers = [Timer::Subflow(id), Timer::DelayedAck(id)];
        let timers = timers.map(|timer| io.add_timer(self.number, timer));
        let longer = io.paths[path].family.longer_header();
        let sender = self.new_sender();
        let series = Series::new(self.start, self.bin);
        let ways = [forward(path), reverse(path)];
        let [there, back] = if self.reversed { [ways[1], ways[0]] } else { ways };
        let mut subflow = Subflow::new(path, [there, back], flow, longer, sender, series, timers)
            .with_timing(&self.timing);
        subflow.role = role;
        self.subflows.push(subflow);
        self.sender.add_subflow();
        self.send_syn(io, id);
    }

    /// The sender of a subflow that starts.
    pub(super) fn new_sender(&self) -> Sender {
        let sampled = self.sender.samples_rates();
        Sender::new(self.controller.clone(), sampled)
            .of_host(self.lengths, self.timing)
            .counting_whole(self.program.is_some())
    }

    /// Sends a SYN, or another copy of it.
    pub(super) fn send_syn(&mut self, io: &mut Io, id: SubflowId) {
        let copy = self.subflows[id].next_copy();
        self.send_handshake(io, id, Content::Syn(copy));
    }

    /// Sends a handshake packet that requires an answer.
    pub(super) fn send_handshake(&mut self, io: &mut Io, id: SubflowId, content: Content) {
        let subflow = &mut self.subflows[id];
        subflow.on_handshake_sent(io.now);
        io.queue.set(subflow.timer, subflow.deadline(io.now));
        self.send_of_opener(io, id, content);
    }

    fn send_of_opener(&self, io: &mut Io, id: SubflowId, content: Content) {
        let subflow = &self.subflows[id];
        let packet = Packet { flow: subflow.flow, content };
        let way = if self.accepts { subflow.back } else { subflow.there };
        io.send(way, self.handshake_size(id, &content), packet);
    }

    /// The initial subflow, too, joins when its address is restored.
    fn joins(&self, id: SubflowId) -> bool {
        id != 0 || self.fully_established
    }

    fn handshake_size(&self, id: SubflowId, content: &Content) -> u32 {
        let [first, join] = &self.handshakes;
        let sizes = if self.joins(id) { join } else { first };
        sizes.of(content) + self.subflows[id].longer_header
    }

    pub(super) fn send_handshake_reply(&mut self, io: &mut Io, id: SubflowId, content: Content) {
        let subflow = &mut self.subflows[id];
        subflow.newest_stamp = stamp(self.timing.clock.time(io.now));
        let packet = Packet { flow: subflow.flow, content };
        let way = if self.accepts { subflow.there } else { subflow.back };
        io.send(way, self.handshake_size(id, &content), packet);
    }

    pub(super) fn on_syn_ack(&mut self, io: &mut Io, id: SubflowId, copy: u32) {
        let subflow = &mut self.subflows[id];
        if subflow.phase != Phase::SynSent {
            return;
        }
        let rtt = subflow.on_handshake_answered(io.now, copy);
        subflow.sender.on_established(io.now, rtt);
        subflow.receiver.note_rtt(rtt.unwrap_or(0));
        if self.joins(id) {
            self.subflows[id].phase = Phase::JoinAckSent;
            self.send_handshake(io, id, Content::JoinAck);
        } else {
            self.send_of_opener(io, id, Content::HandshakeAck);
            self.on_established(io, id);
        }
    }

    /// The data receiver has asked for a subflow.
    pub(super) fn on_syn(&mut self, io: &mut Io, id: SubflowId, copy: u32) {
        self.subflows[id].answered_at = io.now;
        self.send_handshake_reply(io, id, Content::SynAck(copy));
    }

    /// The data receiver, which asked for a subflow, has its answer.
    pub(super) fn on_answer(&mut self, io: &mut Io, id: SubflowId, copy: u32) {
        let subflow = &mut self.subflows[id];
        if subflow.phase != Phase::SynSent {
            return;
        }
        let rtt = subflow.on_handshake_answered(io.now, copy);
        subflow.receiver.note_rtt(rtt.unwrap_or(0));
        subflow.phase = Phase::JoinAckSent;
        if self.joins(id) {
            self.receiver.on_joined(&mut self.subflows[id]);
            self.send_handshake(io, id, Content::JoinAck);
        } else {
            self.receiver.on_established(io.now);
            self.send_handshake(io, id, Content::HandshakeAck);
        }
    }

    /// The data sender, which accepts a subflow, hears that its answer has arrived: it may send.
    pub(super) fn on_accepted(&mut self, io: &mut Io, id: SubflowId) {
        let joins = self.joins(id);
        let subflow = &mut self.subflows[id];
        if subflow.phase != Phase::JoinAckSent {
            return;
        }
        let rtt = io.now - subflow.answered_at;
        subflow.on_handshake_answered(io.now, 1);
        subflow.sender.on_established(io.now, Some(rtt));
        subflow.rank = self.joined;
        self.joined += 1;
        if joins {
            self.send_handshake_reply(io, id, Content::JoinConfirmed);
        }
        self.on_established(io, id);
    }

    /// The peer answered data of its opener: further subflows may join (RFC 8684 section 3.1).
    pub(super) fn establish_fully(&mut self, io: &mut Io) {
        if !self.fully_established {
            self.fully_established = true;
            self.report(io, Report::Established);
            self.sample_later(io);
        }
    }

    pub(super) fn on_join(&mut self, io: &mut Io, id: SubflowId) {
        self.receiver.on_joined(&mut self.subflows[id]);
        self.send_handshake_reply(io, id, Content::JoinConfirmed);
    }

    pub(super) fn on_join_confirmed(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        if subflow.phase == Phase::JoinAckSent {
            subflow.on_handshake_answered(io.now, 1);
            self.on_established(io, id);
        }
    }

    pub(super) fn on_established(&mut self, io: &mut Io, id: SubflowId) {
        self.subflows[id].phase = Phase::Established;
        self.update_roles(io.now);
        self.sender.restart_pace(&self.subflows, id);
        self.sender.pace(io.now, &mut self.subflows, id);
        self.sender.expand(io, &self.subflows, id, true);
        self.report(io, Report::Joined(id));
        self.begin_program(io);
        self.pump(io);
    }

    pub(super) fn on_handshake_timer(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        let deadline = subflow.deadline(io.now);
        if deadline > io.now {
            io.queue.set(subflow.timer, deadline);
        } else if subflow.gives_up() {
            subflow.phase = Phase::Refused;
            self.report(io, Report::JoinFailed(id));
        } else {
            match subflow.phase {
                Phase::SynSent => self.send_syn(io, id),
                _ => self.send_handshake(io, id, Content::JoinAck),
            }
        }
    }
}
