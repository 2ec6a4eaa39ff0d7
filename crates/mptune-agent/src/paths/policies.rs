//! Choice of a connection's policy: the seam between the manager and those who know policies.

use super::assignment::Assignment;
use super::ports::Ports;
use crate::kernel::pair::Pair;
use std::net::IpAddr;
use std::rc::Rc;

/// A connection that has just begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The ends of its first subflow.
    pub pair: Pair,
    /// The peer opened it.
    pub server_side: bool,
}

/// Policies by connection.
pub trait Policies {
    /// The assignment of a connection; none leaves it alone.
    fn assignment(&self, opened: &Opened) -> Option<Assignment>;

    /// Hosts that connections will lead to, as far as that is known beforehand.
    fn destinations(&self) -> Vec<IpAddr> {
        Vec::new()
    }
}

impl<P: Policies + ?Sized> Policies for Rc<P> {
    fn assignment(&self, opened: &Opened) -> Option<Assignment> {
        (**self).assignment(opened)
    }

    fn destinations(&self) -> Vec<IpAddr> {
        (**self).destinations()
    }
}

/// One assignment for all connections that this side opens between its addresses.
pub struct One {
    /// Their assignment.
    pub assignment: Assignment,
    /// The receiver's ports.
    pub ports: Ports,
}

impl Policies for One {
    fn assignment(&self, opened: &Opened) -> Option<Assignment> {
        let is_its_port = self.ports.have(opened.pair.remote.port());
        let known = is_its_port && !opened.server_side;
        (known && self.assignment.path_of(&opened.pair).is_some()).then(|| self.assignment.clone())
    }
}
