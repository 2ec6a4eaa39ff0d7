//! ACKs and timers at the data sender, in this order: loss recovery on the subflow, roles and path manager, new data.

use super::Connection;
use crate::mptcp::echoes::newer;
use crate::mptcp::io::Io;
use crate::mptcp::packet::{Ack, Answered};
use crate::mptcp::subflow::Phase;
use crate::pathmanager::{Report, SubflowId};
use crate::tcp::{Acknowledgement, TimerAction};

impl Connection {
    #[inline]
    pub(super) fn on_ack(&mut self, io: &mut Io, id: SubflowId, packet: &Ack) {
        self.sender.on_data_ack(io, &mut self.subflows, id, packet);
        let subflow = &mut self.subflows[id];
        let ack = Acknowledgement {
            next: packet.next,
            sack: packet.sack,
            duplicate: packet.answers == Answered::Duplicate,
            ecn_echo: packet.ecn_echo,
            original: packet.answers == Answered::Original,
        };
        let progress = subflow.sender.on_ack(io.now, &ack, self.sender.peers(), id);
        subflow.acked_at = io.now;
        if !self.timing.clock.is_exact() {
            subflow.newest_stamp = newer(subflow.newest_stamp, packet.stamp);
        }
        subflow.queue.on_acknowledged(subflow.sender.una());
        if progress.delivered > 0 && subflow.timed_out {
            self.on_recovered(io, id);
        }
        if !self.accepts {
            self.establish_fully(io);
        }
        self.sender.pace(io.now, &mut self.subflows, id);
        self.send_from(io, id);
        if self.sender.expand(io, &self.subflows, id, false) {
            self.pump(io);
        }
    }

    /// The connection's retransmission is due.
    pub(super) fn on_data_timer(&mut self, io: &mut Io) {
        if self.sender.on_data_timer(io, &mut self.subflows) {
            self.update_roles(io.now);
            self.pump(io);
        }
    }

    pub(super) fn on_application(&mut self, io: &mut Io) {
        self.sender.on_application();
        self.pump(io);
    }

    /// After an event of a subflow: its retransmissions, then the data that the scheduler assigns to any subflow.
    #[inline]
    fn send_from(&mut self, io: &mut Io, id: SubflowId) {
        self.sender.retransmit(io, &mut self.subflows[id]);
        self.subflows[id].deferred = false;
        self.sender.refresh(io.now, &self.subflows, id);
        self.pump(io);
        let subflow = &self.subflows[id];
        io.queue.set_no_later(subflow.timer, subflow.deadline(io.now));
    }

    /// Sends, and notifies the path manager at the numbers of bytes that it requested.
    #[inline]
    pub(super) fn pump(&mut self, io: &mut Io) {
        while let Some(bytes) = self.sender.pump(io, &mut self.subflows) {
            self.report(io, Report::BytesSent(bytes));
            if self.sender.is_redundant() {
                return;
            }
        }
    }

    pub(super) fn on_subflow_timer(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        match subflow.phase {
            Phase::SynSent | Phase::JoinAckSent => self.on_handshake_timer(io, id),
            Phase::Refused | Phase::Closed => {}
            Phase::Established => {
                if io.now >= subflow.beat_at {
                    self.sender.pace(io.now, &mut self.subflows, id);
                    self.sender.expand(io, &self.subflows, id, false);
                }
                let subflow = &mut self.subflows[id];
                match subflow.sender.on_timer(io.now, self.sender.peers(), id) {
                    TimerAction::None => {}
                    TimerAction::Probe => self.sender.probe(io, subflow),
                    TimerAction::Timeout => self.on_timeout(io, id),
                }
                self.send_from(io, id);
            }
        }
    }

    /// A subflow timed out: its data is reinjected on others, if a timeout is enough for that.
    fn on_timeout(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        subflow.timed_out = true;
        if !subflow.failing && self.sender.fails_at_timeout() {
            subflow.failing = true;
            self.sender.reinject_undelivered(subflow);
            self.update_roles(io.now);
        }
        let consecutive = self.subflows[id].sender.consecutive_timeouts();
        self.report(io, Report::Timeouts { subflow: id, consecutive });
    }

    fn on_recovered(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        (subflow.timed_out, subflow.failing) = (false, false);
        subflow.stale_count = 0;
        self.update_roles(io.now);
        self.report(io, Report::Timeouts { subflow: id, consecutive: 0 });
    }
}
