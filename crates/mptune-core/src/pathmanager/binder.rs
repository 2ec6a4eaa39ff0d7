//! Gateway aggregation by loose source routes: L. Boccassi et al., "Binder: a system to aggregate
//! multiple Internet gateways in community networks", LCDNet 2013 (path-management study,
//! section II).
//!
//! As in the Linux MPTCP fork (`mptcp_binder.c`) every subflow connects the initial pair of
//! addresses, and one per further gateway carries an LSRR option that routes it through a relay
//! behind that gateway. A gateway is a local interface here, since each has its own ISP, and the
//! destination stays the initial remote interface, in the family of the initial path: IPv6 has no loose source routes
//! (RFC 5095). Where the network ignores the option, as nearly all do, all these
//! subflows share the initial path: the study measured the throughput of one path (section V-A).

use super::{Command, Event, NoOptions, PathManager, View};
use crate::error::SpecError;
use crate::network::Family;

/// One subflow per local gateway towards the initial remote interface.
#[derive(Debug, Clone)]
pub struct Binder;

impl PathManager for Binder {
    type Options = NoOptions;

    fn new(_options: NoOptions) -> Result<Self, SpecError> {
        Ok(Self)
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        let paths = match event {
            Event::Established => 0..view.paths.len(),
            Event::PathAdded(path) => path..path + 1,
            _ => return,
        };
        let initial = view.subflows[0].path;
        let ends = view.paths[initial];
        let is_routed = view.lsrr_honoured && ends.family == Family::Ipv4;
        for path in paths {
            let other = view.paths[path];
            let is_gateway = (other.remote, other.family) == (ends.remote, ends.family);
            if is_gateway && other.local != ends.local {
                let path = if is_routed { path } else { initial };
                commands.push(Command::Connect { path, backup: false });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, connect};

    #[test]
    fn honoured_source_routes_spread_the_subflows_over_the_gateways() {
        let mut world = World::<Binder>::new(3, 2, NoOptions {});
        world.lsrr_honoured = true;
        // Paths 1, 3 and 5 end at remote interface 1.
        assert_eq!(world.start(3), [1, 5].map(connect));
    }

    #[test]
    fn ignored_source_routes_leave_all_subflows_on_the_initial_path() {
        let mut world = World::<Binder>::new(3, 2, NoOptions {});
        assert_eq!(world.start(3), [3, 3].map(connect));
    }

    #[test]
    fn gateways_of_the_other_family_are_left_out_and_ipv6_has_no_source_routes() {
        // Paths 2 and 3 are the same pairs over IPv6.
        for (initial, other) in [(0, 1), (2, 2)] {
            let mut world = World::<Binder>::new(2, 1, NoOptions {});
            world.lsrr_honoured = true;
            world.over_ipv6_too();
            assert_eq!(world.start(initial), [connect(other)]);
        }
    }

    #[test]
    fn a_single_gateway_stays_alone() {
        let mut world = World::<Binder>::new(1, 2, NoOptions {});
        world.lsrr_honoured = true;
        assert_eq!(world.start(0), []);
    }
}
