//! Removed and restored addresses: REMOVE_ADDR and ADD_ADDR (RFC 8684 sections 3.4.1 and 3.4.2).
//!
//! An action applies to one path, that is, to an address pair; to withdraw an interface, script all its paths. Both
//! ends act at once: the option's transfer over another subflow is not simulated. Packets in flight on a closed subflow
//! are lost, as with a closed socket.

use super::Connection;
use crate::mptcp::io::Io;
use crate::mptcp::subflow::Phase;
use crate::pathmanager::{PathId, Report, Role, SubflowId};
use crate::units::NEVER;

impl Connection {
    /// The path's address is removed: its subflows are closed, and their data is reinjected.
    pub(super) fn remove_address(&mut self, io: &mut Io, path: PathId) {
        let was_open: Vec<bool> =
            self.subflows.iter().map(|subflow| subflow.phase != Phase::Closed).collect();
        self.report(io, Report::AddressRemoved(path));
        let closed = |id: &SubflowId| was_open[*id] && self.subflows[*id].phase == Phase::Closed;
        let closed: Vec<SubflowId> = (0..was_open.len()).filter(closed).collect();
        let set = closed.iter().fold(0, |set, &id| set | 1 << id);
        self.sender.reinject_unfinished(&self.subflows, set);
        for id in closed {
            self.report(io, Report::Closed(id));
        }
        self.pump(io);
    }

    /// Both ends close a subflow.
    pub(super) fn close(&mut self, io: &mut Io, id: SubflowId) {
        let subflow = &mut self.subflows[id];
        subflow.phase = Phase::Closed;
        subflow.stale_count = 0;
        io.close_flow(subflow.flow);
        io.queue.set(subflow.timer, NEVER);
        io.queue.set(subflow.ack_timer, NEVER);
    }

    /// The path's address is announced again: its subflows are reopened.
    pub(super) fn announce_address(&mut self, io: &mut Io, path: PathId) {
        self.report(io, Report::AddressAnnounced(path));
    }

    /// Reopens a closed subflow.
    pub(super) fn reopen(&mut self, io: &mut Io, id: SubflowId, role: Role) {
        let flow = io.add_flow(self.number, id);
        let sender = self.new_sender();
        let subflow = &mut self.subflows[id];
        subflow.reopen(flow, sender, &self.timing);
        subflow.role = role;
        self.sender.refresh_one(io.now, &self.subflows, id);
        self.send_syn(io, id);
    }
}
