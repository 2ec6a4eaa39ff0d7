//! The interface that both modes of the daemon implement.

use crate::kernel::error::Error;
use crate::kernel::pair::Pair;
use crate::paths::happening::Happening;
use crate::paths::hosting::AddressChange;
use crate::paths::manager::Manager;
use crate::paths::policies::Policies;
use crate::paths::survey::Resynced;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A connection under a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steered {
    /// Its token.
    pub token: u32,
    /// The name of its policy.
    pub policy: Arc<str>,
    /// The peer opened it.
    pub server_side: bool,
    /// Its established subflows, and whether they are standby.
    pub subflows: Vec<(Pair, bool)>,
}

/// Keeps connections under their policies.
pub trait Steering {
    /// Readable when there are events; none while they wait, until the pause is over.
    fn events(&self, now_ns: u64) -> Option<BorrowedFd<'_>>;

    /// Time until something is due besides events and changes of addresses, at this CLOCK_MONOTONIC;
    /// none means forever.
    fn pause(&self, now_ns: u64) -> Option<Duration>;

    /// Does what is due.
    ///
    /// # Errors
    /// The kernel's side no longer works.
    fn step(&mut self) -> Result<(), Error>;

    /// Something about the host's addresses is different.
    ///
    /// # Errors
    /// As for a step.
    fn on_address(&mut self, change: &AddressChange) -> Result<(), Error>;

    /// New connections get these from now on; living ones keep what they have.
    fn set_policies(&mut self, policies: Box<dyn Policies>);

    /// Everything is compared with what the kernel has, soon.
    fn resynchronise(&mut self);

    /// Lost events, and what was made up for.
    fn resynced(&self) -> Resynced;

    /// Actions since the last call.
    fn take_happenings(&mut self) -> Vec<Happening>;

    /// The connections at this moment.
    fn steered(&self) -> Vec<Steered>;

    /// A clean end: takes back what should not outlive this.
    ///
    /// # Errors
    /// One line: what could not be taken back.
    fn end(&mut self) -> Result<(), Error>;
}

impl Steering for Manager {
    fn events(&self, now_ns: u64) -> Option<BorrowedFd<'_>> {
        (!self.rests(now_ns)).then(|| self.events())
    }

    fn pause(&self, now_ns: u64) -> Option<Duration> {
        self.pause(now_ns)
    }

    fn step(&mut self) -> Result<(), Error> {
        self.step()
    }

    fn on_address(&mut self, change: &AddressChange) -> Result<(), Error> {
        self.on_address(change)
    }

    fn set_policies(&mut self, policies: Box<dyn Policies>) {
        self.set_policies(policies);
    }

    fn resynchronise(&mut self) {
        self.resynchronise();
    }

    fn resynced(&self) -> Resynced {
        self.resynced()
    }

    fn take_happenings(&mut self) -> Vec<Happening> {
        self.take_happenings()
    }

    fn steered(&self) -> Vec<Steered> {
        let all = self.live();
        let steered = all.map(|(token, connection)| Steered {
            token,
            policy: connection.policy(),
            server_side: connection.server_side,
            subflows: connection.roles(),
        });
        steered.collect()
    }

    /// Connections live on with the subflows they have.
    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
