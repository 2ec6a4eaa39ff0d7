//! Roles of subflows: the script's actions, the path manager's commands, who may carry data.

use super::{Connection, Io, ScriptedAction, ScriptedEvent, Workload};
use crate::mptcp::subflow::Phase;
use crate::pathmanager::{Command, Event, SubflowView, View};
use crate::units::{Bytes, NEVER, Nanos, Seq};

impl Connection {
    pub(super) fn follow_script(&mut self, io: &mut Io<'_>) {
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
            ScriptedEvent::Remove => self.remove_address(io, action.path),
            ScriptedEvent::Announce => self.announce_address(io, action.path),
            ScriptedEvent::Finish => self.finish(),
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

    /// What was handed to subflows is all there is.
    fn finish(&mut self) {
        self.segments = self.segments.min(self.data_next);
        if let Some(memory) = &mut self.memory {
            memory.sender.finish();
            self.update_window_edge();
        }
    }

    /// Which subflows may carry data: the active ones, or without a living active one the backup
    /// subflows (RFC 8684 section 3.3.8).
    pub(super) fn update_roles(&mut self, now: Nanos) {
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

    pub(super) fn tell_path_manager(&mut self, io: &mut Io<'_>, event: Event) {
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
