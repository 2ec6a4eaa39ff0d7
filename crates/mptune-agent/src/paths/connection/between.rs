//! Paths of a connection between the places of its ends.

use super::Connection;
use super::ends::{Local, Remote};
use crate::paths::assignment::KernelPath;
use mptune_core::pathmanager::{PathId, State};
use std::collections::BTreeSet;
use std::net::IpAddr;

impl Connection {
    /// The places of the peer to which subflows are open.
    pub(super) fn remotes_in_use(&self) -> BTreeSet<usize> {
        let open = |state| matches!(state, State::Joining | State::Established);
        let used = self.subflows().filter(|(_, state)| open(*state));
        used.map(|(one, _)| self.assignment.paths[one.path].remote).collect()
    }

    /// The path between two places of one family.
    pub(super) fn path_between(&self, here: &Local, there: &Remote) -> Option<PathId> {
        let numbers = (here.number, there.number);
        let is_it = |path: &PathId| {
            let KernelPath { local, remote, .. } = self.assignment.paths[*path];
            (local, remote) == numbers && self.has_family(*path, here.address)
        };
        (0..self.assignment.paths.len()).find(is_it)
    }

    /// The paths from a place of this host.
    pub(super) fn paths_from(&self, here: &Local) -> Vec<PathId> {
        let is_it = |path: &PathId| {
            self.assignment.paths[*path].local == here.number
                && self.has_family(*path, here.address)
        };
        (0..self.assignment.paths.len()).filter(is_it).collect()
    }

    /// The paths to a place of the peer.
    pub(super) fn paths_to_place(&self, there: &Remote) -> Vec<PathId> {
        let is_it = |path: &PathId| {
            self.assignment.paths[*path].remote == there.number
                && self.has_family(*path, there.address)
        };
        (0..self.assignment.paths.len()).filter(is_it).collect()
    }

    /// A path has addresses of this one's family in this connection.
    pub(super) fn has_family(&self, path: PathId, address: IpAddr) -> bool {
        let own = self.assignment.addresses_for(path, &self.initial);
        own.is_some_and(|(local, _)| local.is_ipv4() == address.is_ipv4())
    }
}
