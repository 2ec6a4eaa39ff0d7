//! Roles of subflows: scripted actions, commands of the path manager's driver, subflows that may carry data.

use super::Connection;
use crate::mptcp::io::Io;
use crate::mptcp::options::{ScriptedAction, ScriptedEvent};
use crate::pathmanager::{Order, Report, Role, SubflowId};
use crate::transport::RoleChange;
use crate::units::{NEVER, Nanos};

impl Connection {
    pub(super) fn follow_script(&mut self, io: &mut Io) {
        if self.subflows.is_empty() {
            self.connect(io, 0, self.initial_path, Role::Active);
        }
        while self.script.front().is_some_and(|action| self.start + action.at <= io.now) {
            let Some(action) = self.script.pop_front() else { break };
            self.perform(io, action);
        }
        let next = self.script.front().map_or(NEVER, |action| self.start + action.at);
        io.queue.set(self.script_timer, next);
    }

    fn perform(&mut self, io: &mut Io, action: ScriptedAction) {
        match action.event {
            ScriptedEvent::Cut => io.network.set_path_up(action.path, false),
            ScriptedEvent::Restore => io.network.set_path_up(action.path, true),
            ScriptedEvent::Remove => self.remove_address(io, action.path),
            ScriptedEvent::Announce => self.announce_address(io, action.path),
            ScriptedEvent::Finish => self.sender.finish(),
            ScriptedEvent::Withdraw => self.change_service(io, Report::Withdrawn(action.path)),
            ScriptedEvent::Readmit => self.change_service(io, Report::Readmitted(action.path)),
        }
    }

    /// A path was taken out of service or put back.
    fn change_service(&mut self, io: &mut Io, report: Report) {
        self.report(io, report);
        self.pump(io);
    }

    /// Updates the subflows that may carry data: the active ones, or if none of these is alive the backup subflows
    /// (RFC 8684 section 3.3.8).
    pub(super) fn update_roles(&mut self, now: Nanos) {
        let set = |role: Role| {
            let subflows = self.subflows.iter().enumerate();
            let chosen = subflows.filter(|(_, subflow)| subflow.alive() && subflow.role == role);
            chosen.fold(0, |set, (id, _)| set | 1 << id)
        };
        let (active, standby): (u64, u64) = (set(Role::Active), set(Role::Standby));
        let usable = if active != 0 { active } else { standby };
        self.sender.use_only(now, &mut self.subflows, usable);
    }

    fn change_role(&mut self, now: Nanos, id: SubflowId, role: Role) {
        let subflow = &mut self.subflows[id];
        subflow.role = role;
        // Of other path managers they follow from the script and from the outages.
        if self.sampling.is_some() {
            self.changes.push(RoleChange { at: now, path: subflow.path, backup: role.backup() });
        }
    }

    /// Reports to the path manager's driver and executes its commands.
    pub(super) fn report(&mut self, io: &mut Io, report: Report) {
        for (id, subflow) in self.subflows.iter().enumerate() {
            self.driver.set_min_rtt(id, subflow.min_rtt());
        }
        let mut orders = Vec::new();
        self.driver.handle(report, &mut orders);
        if orders.is_empty() && matches!(report, Report::Timeouts { .. } | Report::JoinFailed(_)) {
            return;
        }
        for order in orders {
            match order {
                Order::Connect { subflow, path, role } => self.connect(io, subflow, path, role),
                Order::SetRole { subflow, role } => self.change_role(io.now, subflow, role),
                Order::Close { subflow } => self.close(io, subflow),
                Order::NotifyAtBytes(bytes) => self.sender.notify_at(bytes),
                Order::NoteLost { .. } | Order::NoteRestored { .. } => {}
            }
        }
        self.update_roles(io.now);
    }
}
