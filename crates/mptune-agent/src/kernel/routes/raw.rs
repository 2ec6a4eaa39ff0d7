//! A route as bytes, so that nothing of it is lost that nobody here knows of (rtnetlink(7),
//! include/uapi/linux/rtnetlink.h).
//!
//! For replacing one by another that is the same but for its congestion control (`RTAX_CC_ALGO`); who only reads
//! routes uses `Routes`.

use crate::kernel::address::{family, octets};
use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use crate::kernel::prefix::Prefix;
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkSerializable, NlasIterator};
use netlink_sys::protocols::NETLINK_ROUTE;
use std::collections::BTreeMap;
use std::net::IpAddr;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;
// Offsets in it: family, length of the prefix, type of service, table, protocol, type, flags.
const FAMILY: usize = 0;
const LENGTH: usize = 1;
const SOURCE_LENGTH: usize = 2;
const SERVICE: usize = 3;
const TABLE: usize = 4;
const PROTOCOL: usize = 5;
const TYPE: usize = 7;
const FLAGS: usize = 8;
const UNICAST: u8 = 1;
/// Learned from routers (`RTPROT_REDIRECT`, `RTPROT_RA`): the kernel renews and forgets them by itself.
const LEARNED: [u8; 2] = [1, 9];
/// The only flag that a request sets; the kernel derives the others (`RTNH_F_ONLINK`).
const ONLINK: u8 = 4;
/// `RTM_F_CLONED`: no route, but what was once found out by one.
const CLONED: u32 = 0x200;
// enum rtattr_type_t
const DESTINATION: u16 = 1;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;
const METRIC: u16 = 6;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const CACHE: u16 = 12;
/// Offset of the time at which the route ends, in it (`struct rta_cacheinfo`).
const CACHE_EXPIRES: usize = 8;
const TABLE_NUMBER: u16 = 15;
const VIA: u16 = 18;
const ENCAPSULATION: [u16; 2] = [21, 22];
const NEXT_HOP: u16 = 30;
/// `RTAX_CC_ALGO`, among the metrics.
const CONGESTION: u16 = 16;
/// Bytes of `struct rtnexthop`, and where its flags and its device are.
const HOP: usize = 8;
const HOP_FLAGS: usize = 2;
const HOP_DEVICE: usize = 4;

/// A route in the kernel's format, for reading and writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    header: [u8; HEADER],
    attributes: Vec<(u16, Vec<u8>)>,
}

/// A message of rtnetlink.
struct Message {
    kind: u16,
    route: Raw,
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER + packed(&self.route.attributes).len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..HEADER].copy_from_slice(&self.route.header);
        buffer[HEADER..].copy_from_slice(&packed(&self.route.attributes));
    }
}

fn unpacked(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let known = NlasIterator::new(bytes).filter_map(Result::ok);
    known.map(|attribute| (attribute.kind(), attribute.value().to_vec())).collect()
}

fn packed(attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let nested = |kind| if kind == METRICS { kind | NLA_F_NESTED } else { kind };
    let all: Vec<_> = attributes
        .iter()
        .map(|(kind, value)| DefaultNla::new(nested(*kind), value.clone()))
        .collect();
    let mut bytes = vec![0; all.as_slice().buffer_len()];
    all.as_slice().emit(&mut bytes);
    bytes
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_ne_bytes(*four))
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

impl Raw {
    /// All routes to a prefix in a table.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn all(prefix: &Prefix, table: u32) -> Result<Vec<Raw>, Error> {
        let mut header = [0; HEADER];
        header[FAMILY] = family(prefix.address()) as u8;
        let question =
            Message { kind: RTM_GETROUTE, route: Raw { header, attributes: Vec::new() } };
        let mut routes = Vec::new();
        Netlink::open(NETLINK_ROUTE)?.dump("routes", question, |answer| {
            let route = Raw::read(answer.payload()).filter(|route| route.is_for(prefix, table));
            routes.extend(route);
            Ok(())
        })?;
        Ok(routes)
    }

    /// Puts it in the place of the route that is the same but for its metrics.
    ///
    /// # Errors
    /// The kernel refuses `name`.
    pub fn replace(&self, name: &str) -> Result<(), Error> {
        let mut route = self.clone();
        // Of two routes by the number of a next hop the kernel takes the one that it has, whatever its
        // metrics are, unless some are given, and be it none (fib_create_info, net/ipv4/fib_semantics.c).
        if route.get(NEXT_HOP).is_some() && route.get(METRICS).is_none() {
            route.attributes.push((METRICS, Vec::new()));
        }
        let message = Message { kind: RTM_NEWROUTE, route };
        Netlink::open(NETLINK_ROUTE)?.replace(name, message)
    }

    /// Learned from a router: the kernel renews it, or forgets it.
    pub fn is_learned(&self) -> bool {
        LEARNED.contains(&self.header[PROTOCOL]) || self.expires()
    }

    /// Its type of service.
    pub fn service(&self) -> u8 {
        self.header[SERVICE]
    }

    fn read(payload: &[u8]) -> Option<Self> {
        let header = *payload.first_chunk()?;
        Some(Self { header, attributes: unpacked(&payload[HEADER..]) })
    }

    fn get(&self, kind: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(of, _)| *of == kind).map(|(_, value)| value.as_slice())
    }

    fn table(&self) -> u32 {
        self.get(TABLE_NUMBER).and_then(number).unwrap_or(self.header[TABLE].into())
    }

    /// Its metric, which distinguishes routes to the same place.
    pub fn metric(&self) -> u32 {
        self.get(METRIC).and_then(number).unwrap_or(0)
    }

    /// It is there for some time only.
    fn expires(&self) -> bool {
        let expires = self.get(CACHE).and_then(|cache| number(cache.get(CACHE_EXPIRES..)?));
        expires.is_some_and(|expires| expires != 0)
    }

    fn is_for(&self, prefix: &Prefix, table: u32) -> bool {
        let flags = u32::from_ne_bytes([
            self.header[FLAGS],
            self.header[FLAGS + 1],
            self.header[FLAGS + 2],
            self.header[FLAGS + 3],
        ]);
        let bytes = octets(prefix.address());
        let zeros = vec![0; bytes.len()];
        self.header[FAMILY] == family(prefix.address()) as u8
            && self.header[LENGTH] == prefix.bits()
            && self.header[SOURCE_LENGTH] == 0
            && self.header[TYPE] == UNICAST
            && flags & CLONED == 0
            && self.table() == table
            && self.get(DESTINATION).unwrap_or(&zeros) == bytes
    }

    /// The routers and devices it leads to: one, or several.
    pub fn hops(&self) -> Vec<(Option<IpAddr>, Option<u32>)> {
        let Some(mut hops) = self.get(MULTIPATH) else {
            return vec![(router(&self.attributes), self.get(DEVICE).and_then(number))];
        };
        let mut all = Vec::new();
        while hops.len() >= HOP {
            let length = usize::from(u16::from_ne_bytes([hops[0], hops[1]])).clamp(HOP, hops.len());
            let attributes = unpacked(&hops[HOP..length]);
            all.push((router(&attributes), number(&hops[HOP_DEVICE..])));
            hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        all
    }

    fn metrics(&self) -> BTreeMap<u16, Vec<u8>> {
        self.get(METRICS).map(unpacked).unwrap_or_default().into_iter().collect()
    }

    /// Its congestion control, if it has one.
    pub fn congestion(&self) -> Option<String> {
        let bytes = self.metrics().remove(&CONGESTION)?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// The route as a request: without what the kernel adds.
    pub fn asked(&self) -> Self {
        let mut asked = self.clone();
        let mut flags = [0; 4];
        // The flags are in the order of the machine's bytes.
        let masked = self.header[FLAGS..].iter().zip(u32::from(ONLINK).to_ne_bytes());
        for (to, (flag, mask)) in flags.iter_mut().zip(masked) {
            *to = flag & mask;
        }
        asked.header[FLAGS..].copy_from_slice(&flags);
        let by_number = self.get(NEXT_HOP).is_some();
        let implied = |kind: u16| {
            let of_hop = [DEVICE, GATEWAY, VIA, MULTIPATH].contains(&kind);
            kind == CACHE || by_number && (of_hop || ENCAPSULATION.contains(&kind))
        };
        asked.attributes.retain(|(kind, _)| !implied(*kind));
        for (kind, value) in &mut asked.attributes {
            if *kind == MULTIPATH {
                clear_flags(value);
            }
        }
        asked.attributes.sort_by_key(|(kind, _)| *kind);
        asked
    }

    /// The same with another congestion control, or with none.
    pub fn with(&self, congestion: Option<&str>) -> Self {
        let mut metrics = self.metrics();
        metrics.remove(&CONGESTION);
        if let Some(name) = congestion {
            metrics.insert(CONGESTION, [name.as_bytes(), &[0]].concat());
        }
        let mut with = self.clone();
        with.attributes.retain(|(kind, _)| *kind != METRICS);
        if !metrics.is_empty() {
            let metrics: Vec<_> = metrics.into_iter().collect();
            with.attributes.push((METRICS, packed(&metrics)));
        }
        with.attributes.sort_by_key(|(kind, _)| *kind);
        with
    }
}

/// Clears the flags of next hops that the kernel derives.
fn clear_flags(hops: &mut [u8]) {
    let mut at = 0;
    while at + HOP <= hops.len() {
        hops[at + HOP_FLAGS] &= ONLINK;
        let length = usize::from(u16::from_ne_bytes([hops[at], hops[at + 1]]));
        at += length.max(HOP).next_multiple_of(4);
    }
}

fn router(attributes: &[(u16, Vec<u8>)]) -> Option<IpAddr> {
    attributes.iter().find_map(|(kind, value)| match *kind {
        GATEWAY => ip(value),
        VIA => ip(value.get(2..)?), // after the family
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(attributes: &[(u16, &[u8])]) -> Raw {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&[2, 16, 0, 0, 254, 3, 0, 1]);
        header[FLAGS..].copy_from_slice(&0x15u32.to_ne_bytes()); // dead, onlink, linkdown
        let attributes = attributes.iter().map(|(kind, value)| (*kind, value.to_vec()));
        Raw { header, attributes: attributes.collect() }
    }

    #[test]
    fn only_the_congestion_control_of_a_route_changes_and_it_changes_back() {
        let metrics = packed(&[(2, 1400u32.to_ne_bytes().to_vec()), (11, vec![12, 0, 0, 0])]);
        let before =
            raw(&[(1, &[10, 9, 0, 0]), (8, &metrics), (5, &[10, 0, 1, 1]), (4, &[2, 0, 0, 0])]);
        let with = before.asked().with(Some("olia"));
        assert_eq!(with.congestion().as_deref(), Some("olia"));
        assert_eq!(with.metrics().len(), 3);
        assert_eq!(with.with(None), before.asked());
        let bare = raw(&[(1, &[10, 9, 0, 0]), (4, &[2, 0, 0, 0])]).asked();
        assert_eq!(bare.with(Some("olia")).with(None), bare);
    }

    #[test]
    fn attributes_of_the_kernel_are_left_out() {
        let hops = [12, 0, 0x11 | ONLINK, 2, 7, 0, 0, 0, 4, 0, 99, 0];
        let asked = raw(&[(12, &[0; 32]), (9, &hops), (1, &[10, 9, 0, 0])]).asked();
        assert_eq!(asked.header[FLAGS..], u32::from(ONLINK).to_ne_bytes());
        let kinds: Vec<_> = asked.attributes.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [DESTINATION, MULTIPATH]);
        assert_eq!(asked.get(MULTIPATH).unwrap()[HOP_FLAGS], ONLINK);
        let by_number = raw(&[(30, &[7, 0, 0, 0]), (5, &[10, 0, 1, 1]), (4, &[2, 0, 0, 0])]);
        assert_eq!(by_number.asked().attributes, [(NEXT_HOP, vec![7, 0, 0, 0])]);
    }

    #[test]
    fn the_next_hops_of_a_route_are_all_seen() {
        let first = [16, 0, 0, 0, 7, 0, 0, 0, 8, 0, 5, 0, 10, 0, 1, 1];
        let second = [16, 0, 0, 0, 8, 0, 0, 0, 8, 0, 5, 0, 10, 0, 2, 1];
        let leads_to = raw(&[(9, &[first, second].concat())]).hops();
        let ip = |text: &str| Some(text.parse().unwrap());
        assert_eq!(leads_to, [(ip("10.0.1.1"), Some(7)), (ip("10.0.2.1"), Some(8))]);
    }
}
