//! A device that is given its addresses, with a routing table for what leaves from them (rtnetlink(7)).

use crate::kernel::address::family;
use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use crate::kernel::routes;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

/// Looks for a route that the kernel makes by itself: those that let its worker run, and then those after a pause.
const YIELDS: u32 = 100;
const PAUSES: u32 = 5000;
const PAUSE: Duration = Duration::from_millis(1);

/// A device, by name and number.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// For errors.
    pub name: &'a str,
    /// Its number in this namespace.
    pub index: u32,
}

/// The devices of one network namespace.
pub struct Devices {
    netlink: Netlink,
}

impl Devices {
    /// Those of the current namespace.
    ///
    /// # Errors
    /// There is no netlink.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open(NETLINK_ROUTE)? })
    }

    /// Switches one on, with a largest packet (bytes) and a queue (packets).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn up(&mut self, device: Device<'_>, mtu: u32, queue_packets: u32) -> Result<(), Error> {
        let mut link = LinkMessage::default();
        link.header.index = device.index;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        link.attributes = vec![LinkAttribute::Mtu(mtu), LinkAttribute::TxQueueLen(queue_packets)];
        let name = format!("{}: up", device.name);
        self.netlink.command(&name, RouteNetlinkMessage::NewLink(link))
    }

    /// Gives one an address, and lets packets from there leave by it: by a routing table, whose number is the
    /// rule's priority too. What arrives there from now on is for this host.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn assign(&mut self, device: Device<'_>, ip: IpAddr, table: u32) -> Result<(), Error> {
        let parts = [
            ("address", RouteNetlinkMessage::NewAddress(device.address(ip))),
            ("route", RouteNetlinkMessage::NewRoute(device.route(ip, table))),
            ("rule", RouteNetlinkMessage::NewRule(rule(ip, table))),
        ];
        parts.into_iter().try_for_each(|(part, message)| {
            self.netlink.create(&format!("{}: {part} {ip}", device.name), message)
        })?;
        self.wait_for_deliveries(device, ip)
    }

    /// Waits until packets to an address are delivered here: a moment after the kernel has taken an IPv6 address,
    /// when its worker comes to it (`addrconf_dad_start`, net/ipv6/addrconf.c). What arrives before is lost.
    fn wait_for_deliveries(&mut self, device: Device<'_>, ip: IpAddr) -> Result<(), Error> {
        let name = format!("{}: route to {ip}", device.name);
        for look in 0..YIELDS + PAUSES {
            if self.delivers(&name, ip)? {
                return Ok(());
            }
            if look < YIELDS { thread::yield_now() } else { thread::sleep(PAUSE) }
        }
        Err(Error::Failed(format!("{name}: expected one to this host itself")))
    }

    fn delivers(&mut self, name: &str, ip: IpAddr) -> Result<bool, Error> {
        let mut question = RouteMessage::default();
        question.header.address_family = family_of(ip);
        question.header.destination_prefix_length = bits(ip);
        question.attributes = vec![RouteAttribute::Destination(ip.into())];
        let mut local = false;
        let asked = self.netlink.ask(name, RouteNetlinkMessage::GetRoute(question), |answer| {
            let route = routes::read::<RouteMessage>(answer, routes::NEW_ROUTE);
            local |= route.is_some_and(|route| route.header.kind == RouteType::Local);
            Ok(())
        });
        match asked {
            Err(Error::Refused(_)) => Ok(false), // there is no route at all
            asked => asked.map(|()| local),
        }
    }
}

/// Table of packets without an address that a rule knows, RT_TABLE_MAIN.
const MAIN: u32 = 254;

impl Devices {
    /// Packets of programs that choose no address of their own leave by a device, with its address of this family.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn prefer(&mut self, device: Device<'_>, ip: IpAddr) -> Result<(), Error> {
        let route = RouteNetlinkMessage::NewRoute(device.route(ip, MAIN));
        self.netlink.create(&format!("{}: route", device.name), route)
    }
}

impl Device<'_> {
    /// It works at once, without a search for duplicates.
    fn address(self, ip: IpAddr) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = family_of(ip);
        message.header.prefix_len = bits(ip);
        message.header.index = self.index;
        if ip.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        message
    }

    /// The default route of a table.
    fn route(self, ip: IpAddr, table: u32) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(ip);
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Table(table), RouteAttribute::Oif(self.index)];
        message
    }
}

fn rule(ip: IpAddr, table: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family_of(ip);
    message.header.src_len = bits(ip);
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Table(table),
        RuleAttribute::Source(ip),
        RuleAttribute::Priority(table),
    ];
    message
}

fn family_of(ip: IpAddr) -> AddressFamily {
    AddressFamily::from(family(ip) as u8)
}

fn bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}
