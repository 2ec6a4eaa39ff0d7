//! Several subflows between one pair of interfaces, distinguished by their ports (path-management
//! study, section II, with 2 of them; Linux MPTCP fork, `mptcp_ndiffports.c`, default 2). Meant for
//! load balancers, which this network does not have: they all take the initial path.

use super::{Command, Event, MAX_SUBFLOWS, OptionInfo, OptionKind, PathManager, View};
use crate::error::SpecError;
use serde::{Deserialize, Serialize};

/// The options of ndiffports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Subflows on the initial path, including the initial one.
    pub ndiffports: usize,
}

impl Default for Options {
    /// Path-management study, section IV-C: 2 port pairs.
    fn default() -> Self {
        Self { ndiffports: 2 }
    }
}

/// A fixed number of subflows on the initial path.
#[derive(Debug, Clone)]
pub struct Ndiffports {
    subflows: usize,
}

impl PathManager for Ndiffports {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[OptionInfo {
        name: "ndiffports",
        kind: OptionKind::Count,
        unit: "",
        help: "subflows on the initial path, including the initial one",
    }];

    fn new(options: Options) -> Result<Self, SpecError> {
        let subflows = options.ndiffports;
        if (1..=MAX_SUBFLOWS).contains(&subflows) {
            return Ok(Self { subflows });
        }
        let expected = format!("expected 1 to {MAX_SUBFLOWS}, found {subflows}");
        Err(SpecError::new("ndiffports", expected))
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        if event == Event::Established {
            let another = Command::Connect { path: view.subflows[0].path, backup: false };
            commands.extend((1..self.subflows).map(|_| another));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, connect};

    #[test]
    fn all_subflows_take_the_initial_path() {
        for (ndiffports, further) in [(1, 0), (2, 1), (4, 3)] {
            let mut world = World::<Ndiffports>::new(2, 2, Options { ndiffports });
            assert_eq!(world.start(2), vec![connect(2); further]);
        }
    }

    #[test]
    fn there_is_at_least_the_initial_subflow_and_no_more_than_a_connection_can_have() {
        for ndiffports in [0, MAX_SUBFLOWS + 1] {
            let refused = Ndiffports::new(Options { ndiffports }).expect_err("refused");
            assert_eq!(refused.key, "ndiffports");
            assert_eq!(refused.expected, format!("expected 1 to 64, found {ndiffports}"));
        }
    }
}
