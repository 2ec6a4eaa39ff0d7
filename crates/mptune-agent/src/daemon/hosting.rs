//! The addresses of this host, kept up to date by rtnetlink(7).

use crate::paths::hosting::{AddressChange, Hosting};
use crate::paths::netlink::error::Error;
use crate::paths::netlink::socket::Netlink;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The addresses of the current network namespace.
pub struct Addresses {
    monitor: Netlink,
}

impl Addresses {
    /// Of these interfaces, or of all that are up with a global address.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn open(_interfaces: Option<Vec<String>>) -> Result<Self, Error> {
        Ok(Self { monitor: Netlink::open(NETLINK_ROUTE)? })
    }

    /// Readable when something may be different.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }

    /// What is different since the last time.
    ///
    /// # Errors
    /// The kernel no longer says.
    pub fn step(&self) -> Result<Vec<AddressChange>, Error> {
        Ok(Vec::new())
    }
}

impl Hosting for Addresses {
    fn usable_towards(&self, _remote: IpAddr) -> Vec<(String, IpAddr)> {
        Vec::new()
    }

    fn device_of(&self, _address: IpAddr) -> Option<String> {
        None
    }
}
