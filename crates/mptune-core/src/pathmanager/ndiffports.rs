//! Several subflows between one pair of interfaces, told apart by their ports (path-management
//! study, section II, with 2 of them; Linux MPTCP fork, `mptcp_ndiffports.c`, default 2). Meant for
//! load balancers, which the network here does not have: they all take the initial path.

use super::{Command, Event, Options, PathManager, View};

/// A fixed number of subflows on the initial path.
#[derive(Debug, Clone)]
pub struct Ndiffports {
    subflows: usize,
}

impl PathManager for Ndiffports {
    fn new(options: &Options) -> Self {
        Self { subflows: options.ndiffports }
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
        for (ndiffports, further) in [(0, 0), (1, 0), (2, 1), (4, 3)] {
            let options = Options { ndiffports, ..Options::default() };
            let mut world = World::<Ndiffports>::new(2, 2, &options);
            assert_eq!(world.start(2), vec![connect(2); further]);
        }
    }
}
