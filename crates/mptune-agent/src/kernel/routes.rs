//! Devices, addresses, routes and rules of this network namespace, over rtnetlink(7); `assign` and `raw` write.

#[cfg(feature = "local")]
pub mod assign;
pub mod raw;

use crate::kernel::error::Error;
use crate::kernel::netlink::{Netlink, Received};
use netlink_packet_core::{Emitable, NetlinkSerializable, NlasIterator, Parseable};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

// Kinds of messages: RTM_NEWLINK and what follows (include/uapi/linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_RULE: u16 = 32;
/// The question about a kind has the number after the next one.
const GET: u16 = 2;
/// Bytes of `struct ifinfomsg`, and where its number and its flags are.
const LINK_HEADER: usize = 16;
const LINK_INDEX: usize = 4;
const LINK_FLAGS: usize = 8;
/// IFLA_IFNAME and IFLA_MTU (include/uapi/linux/if_link.h).
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
/// IFF_UP, IFF_LOOPBACK and IFF_LOWER_UP (include/uapi/linux/if.h).
const UP: u32 = 1;
const LOOPBACK: u32 = 1 << 3;
const LOWER_UP: u32 = 1 << 16;

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub device: String,
    /// It is up.
    pub up: bool,
    /// It is up and something is at its other end.
    pub carrier: bool,
    /// It leads to this host alone.
    pub loopback: bool,
    /// Largest packet, bytes.
    pub mtu: u32,
}

/// A message of one kind. The codec's own type has a variant for every kind there is, and a program that names it
/// has the code of all of them.
struct Message<T> {
    kind: u16,
    content: T,
}

impl<T: Emitable> NetlinkSerializable for Message<T> {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.content.buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        self.content.emit(buffer);
    }
}

/// The question about all devices, with its header alone.
struct AllLinks;

impl Emitable for AllLinks {
    fn buffer_len(&self) -> usize {
        LINK_HEADER
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

/// An address of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Length of its network's prefix.
    pub prefix: u8,
}

/// A default route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefaultRoute {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Number of its table; 254 is the main one.
    pub table: u32,
    /// The next router; none if the route has only a device.
    pub via: Option<IpAddr>,
    /// In each table the smallest wins.
    pub metric: u32,
}

/// A routing rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// Rules apply in this order.
    pub priority: u32,
    /// The sources it applies to, such as `10.0.0.0/24`; none for all.
    pub from: Option<String>,
    /// Number of the table.
    pub table: u32,
}

/// Queries one network namespace.
pub struct Routes {
    netlink: Netlink,
}

const FAMILIES: [(AddressFamily, &str); 2] =
    [(AddressFamily::Inet, "ipv4"), (AddressFamily::Inet6, "ipv6")];

impl Routes {
    /// For the current namespace.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open(NETLINK_ROUTE)? })
    }

    /// All devices by their number.
    pub fn links(&mut self) -> Result<BTreeMap<u32, Link>, Error> {
        let mut links = BTreeMap::new();
        let question = Message { kind: NEW_LINK + GET, content: AllLinks };
        self.netlink.dump("devices", question, |answer| {
            if answer.message_type() == NEW_LINK {
                links.extend(read_link(answer.payload()));
            }
            Ok(())
        })?;
        Ok(links)
    }

    /// All addresses by the number of their device.
    pub fn addresses(&mut self) -> Result<BTreeMap<u32, Vec<Address>>, Error> {
        let mut addresses: BTreeMap<_, Vec<_>> = BTreeMap::new();
        self.each_address(|address| {
            if let Some(ip) = own_address(&address) {
                let prefix = address.header.prefix_len;
                addresses.entry(address.header.index).or_default().push(Address { ip, prefix });
            }
        })?;
        Ok(addresses)
    }

    /// Every address with what the kernel knows of it.
    pub fn each_address(&mut self, each: impl FnMut(AddressMessage)) -> Result<(), Error> {
        self.dump("addresses", NEW_ADDRESS, AddressMessage::default(), each)
    }

    /// The default routes of all tables by the number of their device.
    pub fn default_routes(&mut self) -> Result<BTreeMap<u32, Vec<DefaultRoute>>, Error> {
        let mut routes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (family, name) in FAMILIES {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            self.dump("routes", NEW_ROUTE, question, |route| {
                for (device, route) in read_default(&route, name) {
                    routes.entry(device).or_default().push(route);
                }
            })?;
        }
        Ok(routes)
    }

    /// All rules, in the order in which they apply.
    pub fn rules(&mut self) -> Result<Vec<Rule>, Error> {
        let mut rules = Vec::new();
        for (family, name) in FAMILIES {
            let mut question = RuleMessage::default();
            question.header.family = family;
            self.dump("rules", NEW_RULE, question, |rule: RuleMessage| {
                if rule.header.family == family {
                    rules.push(read_rule(&rule, name));
                }
            })?;
        }
        rules.sort_by_key(|rule: &Rule| (rule.family, rule.priority));
        Ok(rules)
    }

    /// The number of the device by which packets from an address of this host to another leave.
    pub fn leaves_by(&mut self, from: IpAddr, to: IpAddr) -> Result<Option<u32>, Error> {
        let mut question = RouteMessage::default();
        let (family, length) =
            if to.is_ipv4() { (AddressFamily::Inet, 32) } else { (AddressFamily::Inet6, 128) };
        question.header.address_family = family;
        question.header.destination_prefix_length = length;
        question.header.source_prefix_length = length;
        question.attributes =
            vec![RouteAttribute::Destination(to.into()), RouteAttribute::Source(from.into())];
        let mut device = None;
        let name = format!("route from {from} to {to}");
        let question = Message { kind: NEW_ROUTE + GET, content: question };
        self.netlink.ask(&name, question, |answer| {
            if let Some(route) = read::<RouteMessage>(answer, NEW_ROUTE) {
                device = route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(device) => Some(*device),
                    _ => None,
                });
            }
            Ok(())
        })?;
        Ok(device)
    }

    /// All objects of a kind; those with parts that the codec does not understand are left out.
    fn dump<T: Emitable + Parseable<[u8]>>(
        &mut self,
        name: &str,
        kind: u16,
        question: T,
        mut each: impl FnMut(T),
    ) -> Result<(), Error> {
        let question = Message { kind: kind + GET, content: question };
        self.netlink.dump(name, question, |answer| {
            read(answer, kind).into_iter().for_each(&mut each);
            Ok(())
        })
    }
}

/// One object of a kind; none if it has a part that the codec does not understand: the others are still reported.
fn read<T: Parseable<[u8]>>(answer: &Received<'_>, kind: u16) -> Option<T> {
    (answer.message_type() == kind).then(|| T::parse(answer.payload()).ok()).flatten()
}

/// A device and its number. The rest of the message, such as its kind, is not looked at.
fn read_link(payload: &[u8]) -> Option<(u32, Link)> {
    let number = |bytes: &[u8]| Some(u32::from_ne_bytes(*bytes.first_chunk()?));
    let index = number(payload.get(LINK_INDEX..)?)?;
    let flags = number(payload.get(LINK_FLAGS..)?)?;
    let (mut device, mut mtu) = (String::new(), 0);
    for attribute in NlasIterator::new(payload.get(LINK_HEADER..)?).filter_map(Result::ok) {
        match attribute.kind() {
            LINK_NAME => {
                let name = String::from_utf8_lossy(attribute.value());
                name.trim_end_matches('\0').clone_into(&mut device);
            }
            LINK_MTU => mtu = number(attribute.value()).unwrap_or(0),
            _ => {}
        }
    }
    let (up, loopback) = (flags & UP != 0, flags & LOOPBACK != 0);
    Some((index, Link { device, up, carrier: up && flags & LOWER_UP != 0, loopback, mtu }))
}

/// The local address: on a point-to-point device the other one is the peer's.
pub fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    let any = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(ip) => Some(*ip),
        _ => None,
    });
    local.or(any)
}

/// The default routes that a route stands for: one for each of its next hops.
fn read_default(route: &RouteMessage, family: &'static str) -> Vec<(u32, DefaultRoute)> {
    if route.header.destination_prefix_length != 0 || route.header.kind != RouteType::Unicast {
        return Vec::new();
    }
    let (mut table, mut metric) = (u32::from(route.header.table), 0);
    let (mut single, mut hops_of_route) = (None, Vec::new());
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Oif(device) => single = Some(*device),
            RouteAttribute::MultiPath(hops) => {
                let hops = hops.iter().map(|hop| (hop.interface_index, router(&hop.attributes)));
                hops_of_route.extend(hops);
            }
            _ => {}
        }
    }
    hops_of_route.extend(single.map(|device| (device, router(&route.attributes))));
    let named = |(device, via)| (device, DefaultRoute { family, table, via, metric });
    hops_of_route.into_iter().map(named).collect()
}

fn router(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(ip)) => Some((*ip).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(ip)) => Some((*ip).into()),
        RouteAttribute::Via(RouteVia::Inet(ip)) => Some((*ip).into()),
        RouteAttribute::Via(RouteVia::Inet6(ip)) => Some((*ip).into()),
        _ => None,
    })
}

fn read_rule(rule: &RuleMessage, family: &'static str) -> Rule {
    let mut read = Rule { family, priority: 0, from: None, table: u32::from(rule.header.table) };
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(number) => read.priority = *number,
            RuleAttribute::Table(number) => read.table = *number,
            RuleAttribute::Source(ip) => read.from = Some(format!("{ip}/{}", rule.header.src_len)),
            _ => {}
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<T>(ask: impl FnOnce(&mut Routes) -> Result<T, Error>) -> T {
        ask(&mut Routes::open().unwrap()).unwrap()
    }

    #[test]
    fn the_loopback_device_is_there_with_its_address() {
        let (index, link) =
            asked(Routes::links).into_iter().find(|(_, link)| link.device == "lo").unwrap();
        assert!(link.mtu > 0);
        if link.up {
            let addresses = asked(Routes::addresses).remove(&index).unwrap();
            assert!(addresses.contains(&Address { ip: [127, 0, 0, 1].into(), prefix: 8 }));
            let here = [127, 0, 0, 1].into();
            assert_eq!(asked(|routes| routes.leaves_by(here, here)), Some(index));
        }
    }

    #[test]
    fn a_device_is_read_with_its_name_and_its_flags() {
        let mut message = vec![0; LINK_HEADER];
        message[LINK_INDEX] = 7;
        message[LINK_FLAGS..][..4].copy_from_slice(&(UP | LOWER_UP).to_ne_bytes());
        assert_eq!(read_link(&message).unwrap().1.device, "");
        message.extend([9, 0, 3, 0, b'e', b't', b'h', b'1', 0, 0, 0, 0]);
        message.extend([8, 0, 4, 0, 220, 5, 0, 0]);
        let (index, link) = read_link(&message).unwrap();
        assert_eq!((index, link.device.as_str(), link.mtu), (7, "eth1", 1500));
        assert!(link.up && link.carrier && !link.loopback);
        message[LINK_FLAGS] = LOOPBACK as u8;
        let (_, link) = read_link(&message).unwrap();
        assert!(!link.up && !link.carrier && link.loopback);
        assert_eq!(read_link(&message[..9]), None);
    }

    #[test]
    fn every_namespace_has_a_rule_for_the_main_table() {
        let rules = asked(Routes::rules);
        assert!(rules.iter().any(|rule| rule.table == 254 && rule.from.is_none()), "{rules:?}");
    }

    #[test]
    fn a_default_route_has_a_line_for_each_next_hop() {
        let mut route = RouteMessage::default();
        route.header.kind = RouteType::Unicast;
        let via: IpAddr = "10.0.0.1".parse().unwrap();
        route.attributes = vec![
            RouteAttribute::Table(1000),
            RouteAttribute::Priority(7),
            RouteAttribute::Gateway(via.into()),
            RouteAttribute::Oif(3),
        ];
        let expected = DefaultRoute { family: "ipv4", table: 1000, via: Some(via), metric: 7 };
        assert_eq!(read_default(&route, "ipv4"), [(3, expected)]);
        route.header.destination_prefix_length = 8;
        assert_eq!(read_default(&route, "ipv4"), []);
    }
}
