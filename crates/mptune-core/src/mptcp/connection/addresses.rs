//! Addresses that go away and come back: REMOVE_ADDR and ADD_ADDR (RFC 8684 sections 3.4.1 and 3.4.2).
//!
//! An action is about one path, so about an address pair; to withdraw an interface, script all its
//! paths. Both ends act at once: the option's way over another subflow is not simulated, and what is
//! on its way on a closed subflow is lost, as at a socket that is gone.

use super::{Connection, Io};
use crate::mptcp::packet::Kind;
use crate::mptcp::subflow::Phase;
use crate::pathmanager::{Event, PathId, SubflowId};
use crate::tcp::Sender;
use crate::units::NEVER;

impl Connection {
    /// The path's address is removed: its subflows are closed, and other ones carry what they had.
    pub(super) fn remove_address(&mut self, io: &mut Io<'_>, path: PathId) {
        let open = |phase| !matches!(phase, Phase::Refused | Phase::Closed);
        let closing: Vec<SubflowId> = (0..self.subflows.len())
            .filter(|&id| self.subflows[id].path == path && open(self.subflows[id].phase))
            .collect();
        for &id in &closing {
            let subflow = &mut self.subflows[id];
            subflow.phase = Phase::Closed;
            io.close_flow(subflow.flow);
            io.queue.set(subflow.timer, NEVER);
            io.queue.set(subflow.ack_timer, NEVER);
        }
        self.update_roles(io.now);
        self.reinject_unfinished(closing.iter().fold(0, |set, &id| set | 1 << id));
        for &id in &closing {
            if !std::mem::replace(&mut self.subflows[id].lost, true) && self.fully_established {
                self.tell_path_manager(io, Event::SubflowLost(id));
            }
        }
        self.pump(io);
    }

    /// What only closed subflows carried is sent again. A failing one does not count: what it had was
    /// reinjected when it began to fail, perhaps on those that are closed now.
    fn reinject_unfinished(&mut self, closed: u64) {
        let sound = self.sound() & !closed;
        for data in self.data_una..self.data_next {
            let carriers = self.carried_by.at_mut(data);
            let orphaned = *carriers & closed != 0 && *carriers & sound == 0;
            *carriers &= !closed;
            if orphaned {
                self.reinjections.push_back(data);
            }
        }
    }

    /// The path's address is announced again: the subflows it had are opened anew, in their roles, as
    /// the path manager had asked for them.
    pub(super) fn announce_address(&mut self, io: &mut Io<'_>, path: PathId) {
        for id in 0..self.subflows.len() {
            let subflow = &mut self.subflows[id];
            if subflow.path == path && subflow.phase == Phase::Closed {
                let flow = io.add_flow(self.number, id);
                subflow.reopen(flow, Sender::new(self.controller.clone()));
                self.refresh(io.now, id);
                self.ask(io, id, Kind::Syn);
            }
        }
    }
}
