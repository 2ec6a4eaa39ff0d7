//! Limits of a connection of the kernel's path manager: subflows and announced addresses.

use crate::kernel::mptcp_pm::endpoints::{self as pm, PathManager};
use crate::kernel::mptcp_pm::most;
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Both limits; there is one pair of them in a network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Subflows beyond the first.
    pub subflows: u32,
    /// Announced addresses that are used.
    pub add_addr_accepted: u32,
}

/// The most of a limit, if a value is above it, and who takes no more. Where nobody may ask the kernel, it is left
/// to refuse by itself.
fn exceeded(value: u32) -> Option<(u32, &'static str)> {
    if value > u32::from(u8::MAX) {
        return Some((u8::MAX.into(), ""));
    }
    if value <= most::EVERY {
        return None;
    }
    let most = most::read()?.subflows;
    (value > most).then_some((most, " (the most that this kernel takes)"))
}

impl Kind for Limits {
    fn name(&self) -> String {
        "limits".to_owned()
    }

    fn rank(&self) -> u8 {
        3
    }

    fn check(&self) -> Result<(), Error> {
        for (key, value) in
            [("subflows", self.subflows), ("add_addr_accepted", self.add_addr_accepted)]
        {
            if let Some((most, who)) = exceeded(value) {
                let (place, expected) = (format!("limits: {key}"), format!("at most {most}{who}"));
                return Err(Error::unexpected(place, expected, value.to_string()));
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<State, Error> {
        let pm::Limits { subflows, add_addr_accepted } =
            PathManager::open().and_then(|mut manager| manager.limits())?;
        Ok(State::Limits { subflows, add_addr_accepted })
    }

    fn target(&self, _present: &State, _known: &[State]) -> Result<State, Error> {
        let &Self { subflows, add_addr_accepted } = self;
        Ok(State::Limits { subflows, add_addr_accepted })
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        let &State::Limits { subflows, add_addr_accepted } = to else {
            return Err(Error::unexpected("limits", "two numbers", words(to)));
        };
        let limits = pm::Limits { subflows, add_addr_accepted };
        PathManager::open().and_then(|mut manager| manager.set_limits(limits))?;
        steps::changed();
        Ok(())
    }

    fn as_order(&self, state: &State) -> Value {
        match state {
            State::Limits { subflows, add_addr_accepted } => json!({
                "kind": "limits", "subflows": subflows, "add_addr_accepted": add_addr_accepted,
            }),
            _ => json!({"kind": "limits", "absent": true}),
        }
    }
}
