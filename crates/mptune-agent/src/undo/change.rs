//! A changed setting: its state before, every state that it may have because of us, and the way back.

use super::kind::{self, Kind, State, bring};
use serde::{Deserialize, Serialize};

/// A setting of some kind, as a journal has it.
pub trait Setting: Clone {
    /// The kind, which reads and writes it.
    fn kind(&self) -> &dyn Kind;

    /// Its name.
    fn name(&self) -> String {
        self.kind().name()
    }

    /// Settings are made in this order, and put back in the opposite one.
    fn place(&self) -> (u8, usize) {
        (self.kind().rank(), 0)
    }

    /// True if it is still there after a restart of the machine.
    fn outlives_the_machine(&self) -> bool {
        false
    }

    /// True if its value is for its owner's eyes only.
    fn is_private(&self) -> bool {
        false
    }

    /// True if it stays where it cannot be removed because others use it too.
    fn gives_way(&self) -> bool {
        false
    }

    /// True if mptune itself has renewed it to this state since.
    fn is_renewed(&self, _present: &State) -> bool {
        false
    }
}

/// A setting that was changed, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change<S> {
    /// The setting.
    pub setting: S,
    /// Its state before the first order.
    pub before: State,
    /// The state that the order gave it; `wanted` in the file.
    #[serde(rename = "wanted")]
    pub target: State,
    /// Every other state that it may have because of us.
    pub passed: Vec<State>,
}

/// Outcome of putting a setting back.
#[derive(Debug)]
pub enum Fate {
    /// It is as before; true if it had to be changed.
    Restored(bool),
    /// It was never changed here.
    Unchanged,
    /// The device or route that it belongs to is gone.
    Gone,
    /// Another program or person gave it this state, which stays.
    Foreign(State),
    /// Others use it, and it stays: the reason.
    Given(kind::Error),
    /// It can be tried again: the reason.
    Stuck(kind::Error),
}

impl<S: Setting> Change<S> {
    /// True if another program or person gave it this state.
    pub fn is_foreign(&self, present: &State) -> bool {
        let kind = self.setting.kind();
        let ours = self.passed.iter().chain([&self.target, &self.before]);
        !ours.into_iter().any(|state| kind.same(state, present))
            && !self.setting.is_renewed(present)
    }

    /// Puts it back; with `force` also a state that another program or person gave it.
    pub fn put_back(&self, force: bool) -> Fate {
        let kind = self.setting.kind();
        kind.tidy();
        let present = match kind.read() {
            Ok(present) => present,
            Err(error) => return Fate::Stuck(error),
        };
        if kind.same(&present, &self.before) {
            return Fate::Restored(false);
        }
        if present == State::Gone {
            return Fate::Gone;
        }
        if self.is_foreign(&present) && !force {
            let unchanged = kind.same(&self.target, &self.before);
            return if unchanged { Fate::Unchanged } else { Fate::Foreign(present) };
        }
        match bring(kind, &present, &self.before) {
            Ok(()) => Fate::Restored(true),
            Err(error) if self.setting.gives_way() => Fate::Given(error),
            Err(error) => Fate::Stuck(error),
        }
    }
}
