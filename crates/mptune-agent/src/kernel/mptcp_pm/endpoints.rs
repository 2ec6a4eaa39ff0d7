//! Endpoints and limits of the kernel's own path manager, over the generic netlink family `mptcp_pm`
//! (include/uapi/linux/mptcp_pm.h).
//!
//! The commands that name no connection; those that do are in `commands`.

use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::family::{self, ATTR_ADDR, Command, address};
use crate::kernel::netlink::{Netlink, Received};
use mptcp_pm::{MptcpPathManagerAddressAttr as Part, MptcpPathManagerAddressAttrFlag as Flag};
use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NlasIterator, parse_i32, parse_ip, parse_u8, parse_u16,
    parse_u32,
};
use netlink_packet_generic::GenlMessage;
use std::net::IpAddr;

/// `MPTCP_PM_ADDR_FLAG_*`.
pub const SIGNAL: u32 = 1 << 0;
/// Subflows may begin there.
pub const SUBFLOW: u32 = 1 << 1;
/// Its subflows are standby.
pub const BACKUP: u32 = 1 << 2;
/// A subflow to every address of the peer.
pub const FULLMESH: u32 = 1 << 3;
/// The kernel has made it by itself; it gives way to one by request.
pub const IMPLICIT: u32 = 1 << 4;
/// One subflow, to an announced address, from an address that has none yet (Linux 6.18).
pub const LAMINAR: u32 = 1 << 5;
/// Flags by their names in `ip-mptcp(8)`.
pub const FLAGS: [(&str, u32); 6] = [
    ("signal", SIGNAL),
    ("subflow", SUBFLOW),
    ("backup", BACKUP),
    ("fullmesh", FULLMESH),
    ("implicit", IMPLICIT),
    ("laminar", LAMINAR),
];

/// Names of the flags that are set.
pub fn names(flags: u32) -> Vec<&'static str> {
    FLAGS.iter().filter(|(_, bit)| flags & bit != 0).map(|(name, _)| *name).collect()
}

// enum mptcp_pm_attrs
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
// enum mptcp_pm_addr_attrs
const PART_ID: u16 = 2;
const PART_ADDR4: u16 = 3;
const PART_ADDR6: u16 = 4;
const PART_PORT: u16 = 5;
const PART_FLAGS: u16 = 6;
const PART_DEVICE: u16 = 7;
/// Bytes of the header of a generic netlink message.
const GENERIC_HEADER: usize = 4;

/// A command's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Number {
    AddAddress = 1,
    DeleteAddress = 2,
    GetAddress = 3,
    SetLimits = 5,
    GetLimits = 6,
    SetFlags = 7,
}

/// An endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number.
    pub id: u8,
    /// Its address.
    pub ip: IpAddr,
    /// Its port; 0 for that of the connection.
    pub port: u16,
    /// Its flags.
    pub flags: u32,
    /// Number of its device; 0 if it has none.
    pub device: i32,
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Subflows beyond the first.
    pub subflows: u32,
    /// Announced addresses that are used.
    pub add_addr_accepted: u32,
}

/// The path manager of one network namespace.
pub struct PathManager {
    netlink: Netlink,
    family: u16,
}

impl PathManager {
    /// Of the current namespace.
    ///
    /// # Errors
    /// The kernel has no MPTCP.
    pub fn open() -> Result<Self, Error> {
        let (netlink, family) = family::open()?;
        Ok(Self { netlink, family: family.number })
    }

    /// All endpoints, by their numbers.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, Error> {
        let mut endpoints = Vec::new();
        let question = self.message(Number::GetAddress, Vec::new());
        self.netlink.dump("endpoints", question, |answer| {
            let addresses = attributes(answer).into_iter().filter(|(kind, _)| *kind == ATTR_ADDR);
            endpoints.extend(addresses.filter_map(|(_, bytes)| endpoint(&bytes)));
            Ok(())
        })?;
        Ok(endpoints)
    }

    /// Adds an endpoint with the number it has.
    pub fn add(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let name = format!("endpoint {}", endpoint.ip);
        self.obey(&name, Number::AddAddress, vec![packed(&whole(endpoint))])
    }

    /// Removes an endpoint; subflows from it end.
    pub fn delete(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let mut parts = address(endpoint.ip);
        parts.push(Part::Id(endpoint.id));
        let name = format!("end of endpoint {}", endpoint.ip);
        self.obey(&name, Number::DeleteAddress, vec![packed(&parts)])
    }

    /// Makes an endpoint standby or not, and fullmesh or not, with all its subflows.
    pub fn set_flags(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        let parts = [Part::Id(endpoint.id), flags(endpoint.flags)];
        let name = format!("flags of endpoint {}", endpoint.ip);
        self.obey(&name, Number::SetFlags, vec![packed(&parts)])
    }

    /// The limits.
    pub fn limits(&mut self) -> Result<Limits, Error> {
        let mut limits = Limits::default();
        let question = self.message(Number::GetLimits, Vec::new());
        self.netlink.ask("limits", question, |answer| {
            for (kind, value) in attributes(answer) {
                match kind {
                    ATTR_SUBFLOWS => limits.subflows = parse_u32(&value)?,
                    ATTR_RCV_ADD_ADDRS => limits.add_addr_accepted = parse_u32(&value)?,
                    _ => {}
                }
            }
            Ok(())
        })?;
        Ok(limits)
    }

    /// Sets both limits.
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), Error> {
        let attribute = |kind, value: u32| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let attributes = vec![
            attribute(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted),
            attribute(ATTR_SUBFLOWS, limits.subflows),
        ];
        self.obey("limits", Number::SetLimits, attributes)
    }

    fn obey(&mut self, name: &str, number: Number, with: Vec<DefaultNla>) -> Result<(), Error> {
        let message = self.message(number, with);
        self.netlink.command(name, message)
    }

    fn message(&self, number: Number, with: Vec<DefaultNla>) -> GenlMessage<Command<DefaultNla>> {
        Command::new(number as u8, with).message(self.family)
    }
}

/// The attributes of an answer, by their kinds.
fn attributes(answer: &Received<'_>) -> Vec<(u16, Vec<u8>)> {
    read(answer.payload().get(GENERIC_HEADER..).unwrap_or_default())
}

fn read(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let known = NlasIterator::new(bytes).filter_map(Result::ok);
    known.map(|attribute| (attribute.kind(), attribute.value().to_vec())).collect()
}

/// An endpoint from its attributes; none if there is no address among them.
fn endpoint(bytes: &[u8]) -> Option<Endpoint> {
    let (mut ip, mut id, mut port, mut flags, mut device) = (None, 0, 0, 0, 0);
    for (kind, value) in read(bytes) {
        match kind {
            PART_ID => id = parse_u8(&value).ok()?,
            PART_ADDR4 | PART_ADDR6 => ip = parse_ip(&value).ok(),
            PART_PORT => port = parse_u16(&value).ok()?,
            PART_FLAGS => flags = parse_u32(&value).ok()?,
            PART_DEVICE => device = parse_i32(&value).ok()?,
            _ => {}
        }
    }
    ip.map(|ip| Endpoint { id, ip, port, flags, device })
}

fn flags(flags: u32) -> Part {
    Part::Flags(vec![Flag::Other(flags)])
}

fn whole(endpoint: &Endpoint) -> Vec<Part> {
    let mut parts = address(endpoint.ip);
    parts.extend([Part::Id(endpoint.id), flags(endpoint.flags)]);
    parts.extend((endpoint.port != 0).then_some(Part::Port(endpoint.port)));
    parts.extend((endpoint.device != 0).then_some(Part::IfIndex(endpoint.device)));
    parts
}

/// The attribute of an address.
fn packed(parts: &[Part]) -> DefaultNla {
    let mut bytes = vec![0; parts.buffer_len()];
    parts.emit(&mut bytes);
    DefaultNla::new(ATTR_ADDR | NLA_F_NESTED, bytes)
}

#[cfg(test)]
mod tests {
    //! Messages against the layout of include/uapi/linux/mptcp_pm.h, packed by hand.

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn there() -> Endpoint {
        let ip = "10.0.1.2".parse().unwrap();
        Endpoint { id: 7, ip, port: 0, flags: SUBFLOW | BACKUP, device: 3 }
    }

    #[test]
    fn an_endpoint_is_packed_as_the_kernel_reads_it_and_read_as_it_packs_it() {
        let parts = [
            attribute(1, &2u16.to_ne_bytes()),
            attribute(3, &[10, 0, 1, 2]),
            attribute(2, &[7]),
            attribute(6, &6u32.to_ne_bytes()),
            attribute(7, &3i32.to_ne_bytes()),
        ]
        .concat();
        let packet = packed(&whole(&there()));
        let mut bytes = vec![0; packet.buffer_len()];
        packet.emit(&mut bytes);
        assert_eq!(bytes, attribute(0x8001, &parts));
        assert_eq!(endpoint(&parts), Some(there()));
        let port = [parts, attribute(5, &5000u16.to_ne_bytes())].concat();
        assert_eq!(endpoint(&port), Some(Endpoint { port: 5000, ..there() }));
        assert_eq!(endpoint(&attribute(2, &[7])), None);
    }
}
