//! Scripted changes of paths during a trial.

use crate::mptcp::{ScriptedAction, ScriptedEvent};
use crate::pathmanager::PathId;
use crate::units::Nanos;
use serde::Deserialize;

/// A scripted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// Time from the first SYN.
    pub at_ns: Nanos,
    /// The path.
    pub path: PathId,
    /// The action.
    pub action: ScriptAction,
}

/// The action of a scripted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScriptAction {
    /// The path's subflows stop carrying data.
    Standby,
    /// They may carry data again.
    Active,
    /// The path is cut.
    Down,
    /// The path is restored.
    Up,
    /// The path's addresses are removed (REMOVE_ADDR): its subflows are closed.
    Remove,
    /// They are announced again (ADD_ADDR): its subflows are reopened.
    Add,
}

impl ScriptSpec {
    pub(super) fn action(&self) -> ScriptedAction {
        let event = match self.action {
            ScriptAction::Standby => ScriptedEvent::Withdraw,
            ScriptAction::Active => ScriptedEvent::Readmit,
            ScriptAction::Down => ScriptedEvent::Cut,
            ScriptAction::Up => ScriptedEvent::Restore,
            ScriptAction::Remove => ScriptedEvent::Remove,
            ScriptAction::Add => ScriptedEvent::Announce,
        };
        ScriptedAction { at: self.at_ns, path: self.path, event }
    }
}
