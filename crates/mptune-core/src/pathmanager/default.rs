//! The kernel's "default": opens nothing and accepts what the peer opens (path-management study,
//! section II; Linux MPTCP fork, `mptcp_pm.c`, "default"). The initial path carries everything.

use super::{Command, Event, NoOptions, PathManager, View};
use crate::error::SpecError;

/// Only the initial subflow.
#[derive(Debug, Clone)]
pub struct DefaultManager;

impl PathManager for DefaultManager {
    type Options = NoOptions;

    fn new(_options: NoOptions) -> Result<Self, SpecError> {
        Ok(Self)
    }

    fn on_event(&mut self, _event: Event, _view: View<'_>, _commands: &mut Vec<Command>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::World;

    #[test]
    fn nothing_is_opened() {
        let mut world = World::<DefaultManager>::new(2, 2, NoOptions {});
        assert_eq!(world.start(3), []);
        assert_eq!(world.add_path(2, 0), []);
    }
}
