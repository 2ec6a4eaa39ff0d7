//! One changed setting: what it was, all that it may be because of us, and how it goes back.

use super::kind::{self, Kind, State, bring};
use serde::{Deserialize, Serialize};

/// A setting of some kind, as a journal has it.
pub trait Setting: Clone {
    /// What its kind can do.
    fn kind(&self) -> &dyn Kind;

    /// Its name.
    fn name(&self) -> String {
        self.kind().name()
    }

    /// Settings are made in this order, and put back in the opposite one.
    fn place(&self) -> (u8, usize) {
        (self.kind().rank(), 0)
    }

    /// Whether it is still there after a restart of the machine.
    fn outlives_the_machine(&self) -> bool {
        false
    }

    /// Whether what it was, and is, is nobody else's business.
    fn is_private(&self) -> bool {
        false
    }

    /// Whether it stays where it cannot go, because others use it too.
    fn gives_way(&self) -> bool {
        false
    }

    /// Whether mptune itself has renewed it to this since.
    fn is_renewed(&self, _present: &State) -> bool {
        false
    }
}

/// A setting that was changed, or was about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change<S> {
    /// It.
    pub setting: S,
    /// What it was before the first order.
    pub before: State,
    /// What it was made.
    pub wanted: State,
    /// Everything that it may be because of us, before and `wanted` apart.
    pub passed: Vec<State>,
}

/// What becomes of one setting.
#[derive(Debug)]
pub enum Fate {
    /// It is as before; whether it had to be changed.
    Restored(bool),
    /// It was never changed here.
    Unchanged,
    /// What it belongs to is gone.
    Gone,
    /// Somebody else has made it this, and keeps it.
    Foreign(State),
    /// Others use it, and it stays: the reason.
    Given(kind::Error),
    /// It can be tried again: the reason.
    Stuck(kind::Error),
}

impl<S: Setting> Change<S> {
    /// Whether somebody else has made it what it is.
    pub fn is_foreign(&self, present: &State) -> bool {
        let kind = self.setting.kind();
        let ours = self.passed.iter().chain([&self.wanted, &self.before]);
        !ours.into_iter().any(|state| kind.same(state, present))
            && !self.setting.is_renewed(present)
    }

    /// Puts it back; with `force` also what somebody else has made of it.
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
            let unchanged = kind.same(&self.wanted, &self.before);
            return if unchanged { Fate::Unchanged } else { Fate::Foreign(present) };
        }
        match bring(kind, &present, &self.before) {
            Ok(()) => Fate::Restored(true),
            Err(error) if self.setting.gives_way() => Fate::Given(error),
            Err(error) => Fate::Stuck(error),
        }
    }
}
