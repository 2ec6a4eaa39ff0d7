//! A manager's view of the addresses of its host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Hosts anywhere (RFC 5737, RFC 3849): an interface that leads there leads to the Internet.
pub const ANYWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// A host of a private network (RFC 4193), which counts where nothing leads to the Internet by IPv6.
pub const ANYWHERE_NEAR: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));

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
