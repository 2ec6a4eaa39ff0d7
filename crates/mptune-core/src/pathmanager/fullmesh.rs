//! Every pair of interfaces: N x M subflows (path-management study, section II; Linux MPTCP fork,
//! `mptcp_fullmesh.c`). All carry data, none is a backup. A path that is added later gets a subflow too.

use super::{Command, Event, NoOptions, PathManager, View};
use crate::error::SpecError;

/// One subflow per path.
#[derive(Debug, Clone)]
pub struct Fullmesh;

impl PathManager for Fullmesh {
    type Options = NoOptions;

    fn new(_options: NoOptions) -> Result<Self, SpecError> {
        Ok(Self)
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        match event {
            Event::Established => {
                let initial = view.subflows[0].path;
                let others = (0..view.paths.len()).filter(|&path| path != initial);
                commands.extend(others.map(|path| Command::Connect { path, backup: false }));
            }
            Event::PathAdded(path) => commands.push(Command::Connect { path, backup: false }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, connect};

    #[test]
    fn every_other_path_gets_a_subflow() {
        let mut world = World::<Fullmesh>::new(2, 3, NoOptions {});
        assert_eq!(world.start(4), [0, 1, 2, 3, 5].map(connect));
    }

    #[test]
    fn a_single_path_stays_alone() {
        assert_eq!(World::<Fullmesh>::new(1, 1, NoOptions {}).start(0), []);
    }

    #[test]
    fn a_path_that_is_added_later_gets_a_subflow_too() {
        let mut world = World::<Fullmesh>::new(2, 1, NoOptions {});
        world.start(0);
        assert_eq!(world.add_path(2, 0), [connect(2)]);
    }

    #[test]
    fn later_events_change_nothing() {
        let mut world = World::<Fullmesh>::new(2, 1, NoOptions {});
        world.start(0);
        assert_eq!(world.establish(1, 30), []);
        assert_eq!(world.lose(0), []);
        assert_eq!(world.restore(0), []);
    }
}
