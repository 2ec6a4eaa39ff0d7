//! Commands to the kernel's path management in one network namespace.
//!
//! The kernel obeys a command only for connections that began while `net.mptcp.path_manager` was
//! "userspace" in that namespace, and only from a process with CAP_NET_ADMIN over it. What to command
//! is decided elsewhere.
//!
//! `mptcp-pm` supports addresses only as used by the kernel's own path manager; the commands of
//! include/uapi/linux/mptcp_pm.h that name a connection are written here, with their addresses.

use super::family::{self, ATTR_ADDR, Command};
use crate::kernel::error::{Error, Refusal};
use crate::kernel::netlink::Netlink;
use crate::kernel::pair::Pair;
use mptcp_pm::{MptcpPathManagerAddressAttr as Part, MptcpPathManagerAddressAttrFlag as Flag};
use netlink_packet_core::{Emitable, NLA_F_NESTED, Nla, emit_u32};
use std::net::SocketAddr;

// enum mptcp_pm_attrs
const ATTR_TOKEN: u16 = 4;
const ATTR_LOC_ID: u16 = 5;
const ATTR_ADDR_REMOTE: u16 = 6;

/// A command's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Number {
    SetFlags = 7,
    Announce = 8,
    Remove = 9,
    SubflowCreate = 10,
    SubflowDestroy = 11,
}

/// An attribute of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    /// The connection.
    Token(u32),
    /// The number of a local address.
    LocalId(u8),
    /// A local address; its port is in host order, unlike those of events.
    Local(Vec<Part>),
    /// A remote address, likewise.
    Remote(Vec<Part>),
}

impl Nla for Attribute {
    fn value_len(&self) -> usize {
        match self {
            Self::Token(_) => 4,
            Self::LocalId(_) => 1,
            Self::Local(parts) | Self::Remote(parts) => parts.as_slice().buffer_len(),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Token(_) => ATTR_TOKEN,
            Self::LocalId(_) => ATTR_LOC_ID,
            Self::Local(_) => ATTR_ADDR | NLA_F_NESTED,
            Self::Remote(_) => ATTR_ADDR_REMOTE | NLA_F_NESTED,
        }
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self {
            Self::Token(token) => emit_u32(buffer, *token).expect("four bytes, see value_len"),
            Self::LocalId(id) => buffer[0] = *id,
            Self::Local(parts) | Self::Remote(parts) => parts.as_slice().emit(buffer),
        }
    }
}

/// A command for a connection.
fn command(
    number: Number,
    token: u32,
    attributes: impl IntoIterator<Item = Attribute>,
) -> Command<Attribute> {
    let token = [Attribute::Token(token)];
    Command::new(number as u8, token.into_iter().chain(attributes).collect())
}

/// The attributes of an address; a port of 0 leaves the choice to the kernel.
fn address(end: SocketAddr) -> Vec<Part> {
    let mut parts = family::address(end.ip());
    parts.extend((end.port() != 0).then(|| Part::Port(end.port())));
    parts
}

/// The attributes of an address with its number and flags.
fn numbered(end: SocketAddr, id: u8, flags: Vec<Flag>) -> Vec<Part> {
    let mut parts = address(end);
    parts.extend([Part::Id(id), Part::Flags(flags)]);
    parts
}

fn backup_flag(backup: bool) -> Vec<Flag> {
    if backup { vec![Flag::Backup] } else { Vec::new() }
}

fn create(token: u32, pair: &Pair, address_id: u8, backup: bool) -> Command<Attribute> {
    let local = numbered(pair.local, address_id, backup_flag(backup));
    let ends = [Attribute::Local(local), Attribute::Remote(address(pair.remote))];
    command(Number::SubflowCreate, token, ends)
}

fn destroy(token: u32, pair: &Pair) -> Command<Attribute> {
    let ends = [Attribute::Local(address(pair.local)), Attribute::Remote(address(pair.remote))];
    command(Number::SubflowDestroy, token, ends)
}

fn set_backup(token: u32, pair: &Pair, backup: bool) -> Command<Attribute> {
    let mut local = address(pair.local);
    local.push(Part::Flags(backup_flag(backup)));
    let ends = [Attribute::Local(local), Attribute::Remote(address(pair.remote))];
    command(Number::SetFlags, token, ends)
}

fn announce(token: u32, end: SocketAddr, address_id: u8) -> Command<Attribute> {
    let local = numbered(end, address_id, vec![Flag::Signal]);
    command(Number::Announce, token, [Attribute::Local(local)])
}

fn remove(token: u32, address_id: u8) -> Command<Attribute> {
    command(Number::Remove, token, [Attribute::LocalId(address_id)])
}

/// Commands for the connections of a namespace; each fails with [`Error::Refused`] when the kernel
/// refuses it.
pub struct Commands {
    netlink: Netlink,
    family: u16,
}

impl Commands {
    /// For the current namespace.
    ///
    /// # Errors
    /// The kernel has no MPTCP.
    pub fn open() -> Result<Self, Error> {
        let (netlink, family) = family::open()?;
        Ok(Self { netlink, family: family.number })
    }

    /// Opens a subflow; the event that follows gives the local port, or why the join failed.
    ///
    /// The kernel replaces a local port of 0. `address_id` is the number of the local address in MP_JOIN,
    /// the same for every subflow from it; 0 for that of the first subflow (RFC 8684
    /// section 3.2). With `backup` it joins as standby.
    pub fn create(&mut self, token: u32, pair: &Pair, id: u8, backup: bool) -> Result<(), Error> {
        let (local, remote) = pair.addresses();
        self.obey(&format!("subflow {local} to {remote}"), create(token, pair, id, backup))
    }

    /// Closes a subflow; what it held is sent on others.
    pub fn destroy(&mut self, token: u32, pair: &Pair) -> Result<(), Error> {
        let (local, remote) = pair.addresses();
        self.obey(&format!("end of subflow {local} to {remote}"), destroy(token, pair))
    }

    /// A connection that has a subflow with these ends is managed from outside the kernel.
    pub fn is_managed(&mut self, token: u32, pair: &Pair) -> Result<bool, Error> {
        // A subflow from the peer to this host cannot be there, and is looked for only then.
        let nowhere = Pair { local: pair.remote, remote: pair.local };
        match self.obey("path manager", destroy(token, &nowhere)) {
            Err(Error::Refused(refusal)) => Ok(refusal.number() == libc::ESRCH),
            done => done.map(|()| false),
        }
    }

    /// Makes a subflow standby or active, here and, by MP_PRIO, at the peer.
    ///
    /// It takes effect for what is handed to the subflow from now on; what it already holds is still
    /// sent.
    pub fn set_backup(&mut self, token: u32, pair: &Pair, backup: bool) -> Result<(), Error> {
        let (local, remote) = pair.addresses();
        let name = format!("priority of subflow {local} to {remote}");
        self.obey(&name, set_backup(token, pair, backup))
    }

    /// Announces an address to the peer (ADD_ADDR), which may then open subflows to it.
    pub fn announce(&mut self, token: u32, end: SocketAddr, id: u8) -> Result<(), Error> {
        self.obey(&format!("announcement of {}", end.ip()), announce(token, end, id))
    }

    /// Withdraws an announced address (REMOVE_ADDR), which ends its subflows.
    pub fn remove(&mut self, token: u32, id: u8) -> Result<(), Error> {
        self.obey(&format!("removal of address {id}"), remove(token, id))
    }

    fn obey(&mut self, name: &str, command: Command<Attribute>) -> Result<(), Error> {
        match self.netlink.command(name, command.message(self.family)) {
            Err(Error::Refused(refusal)) => Err(Error::Refused(explained(refusal))),
            done => done,
        }
    }
}

/// Meaning of a refusal; the kernel's own words if there is nothing to add.
fn explained(refusal: Refusal) -> Refusal {
    let meaning = match refusal.number() {
        libc::EPERM => "needs CAP_NET_ADMIN over the network namespace",
        libc::EADDRNOTAVAIL => "the address is on no interface of the namespace",
        libc::ENETUNREACH => "no route leaves from this address",
        libc::EHOSTUNREACH => "no route leads to this address",
        libc::ESRCH => "there is no such subflow",
        _ => return refusal,
    };
    refusal.meaning(meaning)
}

#[cfg(test)]
mod tests {
    //! Messages against the layout of include/uapi/linux/mptcp_pm.h, packed by hand.

    use super::*;
    use crate::kernel::testing::{NESTED, attribute, ends};
    use proptest::prelude::*;
    use std::net::IpAddr;

    fn encoded(command: Command<Attribute>) -> Vec<u8> {
        let message = command.message(0);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    fn packed(end: SocketAddr, with_port: bool) -> Vec<u8> {
        let (family, kind, octets) = match end.ip() {
            IpAddr::V4(ip) => (2u16, 3, ip.octets().to_vec()),
            IpAddr::V6(ip) => (10u16, 4, ip.octets().to_vec()),
        };
        let mut bytes = attribute(1, &family.to_ne_bytes());
        bytes.extend(attribute(kind, &octets));
        if with_port {
            bytes.extend(attribute(5, &end.port().to_ne_bytes()));
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_subflow_is_asked_for_as_the_kernel_reads_it(
            token: u32,
            pair in ends(),
            id: u8,
            backup: bool,
        ) {
            let pair = Pair { local: SocketAddr::new(pair.local.ip(), 0), ..pair };
            let mut local = packed(pair.local, false);
            local.extend(attribute(2, &[id]));
            local.extend(attribute(6, &(if backup { 4u32 } else { 0 }).to_ne_bytes()));
            let expected = [
                vec![10, 1, 0, 0],
                attribute(4, &token.to_ne_bytes()),
                attribute(NESTED | 1, &local),
                attribute(NESTED | 6, &packed(pair.remote, true)),
            ];
            prop_assert_eq!(encoded(create(token, &pair, id, backup)), expected.concat());
        }

        #[test]
        fn a_priority_names_both_ends_and_has_flags_even_when_none_is_set(
            token: u32,
            pair in ends(),
            backup: bool,
        ) {
            let mut local = packed(pair.local, true);
            local.extend(attribute(6, &(if backup { 4u32 } else { 0 }).to_ne_bytes()));
            let expected = [
                vec![7, 1, 0, 0],
                attribute(4, &token.to_ne_bytes()),
                attribute(NESTED | 1, &local),
                attribute(NESTED | 6, &packed(pair.remote, true)),
            ];
            prop_assert_eq!(encoded(set_backup(token, &pair, backup)), expected.concat());
        }

        #[test]
        fn a_subflow_is_ended_by_its_ends(token: u32, pair in ends()) {
            let expected = [
                vec![11, 1, 0, 0],
                attribute(4, &token.to_ne_bytes()),
                attribute(NESTED | 1, &packed(pair.local, true)),
                attribute(NESTED | 6, &packed(pair.remote, true)),
            ];
            prop_assert_eq!(encoded(destroy(token, &pair)), expected.concat());
        }
    }

    #[test]
    fn a_refusal_names_its_cause() {
        let words_of = |number| {
            let refusal = Refusal::new("subflow", number, Some("the kernel's words".to_owned()));
            explained(refusal).to_string()
        };
        for (number, words) in [
            (libc::EPERM, "CAP_NET_ADMIN"),
            (libc::EADDRNOTAVAIL, "on no interface of the namespace"),
            (libc::ENETUNREACH, "no route leaves from this address"),
            (libc::EHOSTUNREACH, "no route leads to this address"),
            (libc::ESRCH, "no such subflow"),
            (libc::EINVAL, "the kernel's words"),
        ] {
            assert!(words_of(number).contains(words), "{}", words_of(number));
        }
    }

    #[test]
    fn an_address_is_announced_with_its_number_and_removed_by_it() {
        let mut local = packed("10.65.1.1:0".parse().unwrap(), false);
        local.extend(attribute(2, &[5]));
        local.extend(attribute(6, &1u32.to_ne_bytes()));
        let expected =
            [vec![8, 1, 0, 0], attribute(4, &7u32.to_ne_bytes()), attribute(NESTED | 1, &local)];
        assert_eq!(encoded(announce(7, "10.65.1.1:0".parse().unwrap(), 5)), expected.concat());
        let expected = [vec![9, 1, 0, 0], attribute(4, &7u32.to_ne_bytes()), attribute(5, &[3])];
        assert_eq!(encoded(remove(7, 3)), expected.concat());
    }
}
