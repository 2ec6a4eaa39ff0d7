//! The first paths: a toy that shows what adding a path manager with an option takes.
//!
//! Besides the initial subflow it opens one on each of the paths with the lowest numbers. All of them carry
//! data; none is a backup.

use super::{Command, Event, MAX_SUBFLOWS, OptionInfo, OptionKind, PathManager, View};
use crate::error::SpecError;
use serde::{Deserialize, Serialize};

/// The options of first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Subflows in all, including the initial one.
    pub first_count: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { first_count: 2 }
    }
}

/// A fixed number of subflows, on the first paths.
#[derive(Debug, Clone)]
pub struct First {
    subflows: usize,
}

impl PathManager for First {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[OptionInfo {
        name: "first_count",
        kind: OptionKind::Count,
        unit: "",
        help: "subflows in all, including the initial one",
    }];

    fn new(options: Options) -> Result<Self, SpecError> {
        let subflows = options.first_count;
        if (1..=MAX_SUBFLOWS).contains(&subflows) {
            return Ok(Self { subflows });
        }
        let expected = format!("expected 1 to {MAX_SUBFLOWS}, found {subflows}");
        Err(SpecError::new("first_count", expected))
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        if event == Event::Established {
            let initial = view.subflows[0].path;
            let others = (0..view.paths.len()).filter(|&path| path != initial);
            let others = others.take(self.subflows - 1);
            commands.extend(others.map(|path| Command::Connect { path, backup: false }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, connect};

    #[test]
    fn the_first_other_paths_get_a_subflow() {
        for (first_count, further) in [(1, vec![]), (2, vec![0]), (3, vec![0, 2])] {
            let mut world = World::<First>::new(2, 2, Options { first_count });
            assert_eq!(world.start(1), further.into_iter().map(connect).collect::<Vec<_>>());
        }
    }
}
