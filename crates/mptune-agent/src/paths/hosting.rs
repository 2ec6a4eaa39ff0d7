//! A manager's view of the addresses of its host.

use std::net::IpAddr;

/// The addresses of a host.
pub trait Hosting {
    /// Names of devices and their addresses from which packets to another host leave by that device; those
    /// that something new should use.
    fn usable_towards(&self, remote: IpAddr) -> Vec<(String, IpAddr)>;

    /// An address is still there, and its packets to another host leave by its device.
    fn leads(&self, local: IpAddr, remote: IpAddr) -> bool;

    /// The device that has an address.
    fn device_of(&self, address: IpAddr) -> Option<String>;
}

/// Something about the host's addresses is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressChange {
    /// An address is there.
    Came {
        /// Its device.
        device: String,
        /// The address.
        address: IpAddr,
    },
    /// An address is gone, or its device is down.
    Went {
        /// Its device.
        device: String,
        /// The address.
        address: IpAddr,
    },
    /// Routes or rules have changed: other addresses may be usable.
    Routes,
}
