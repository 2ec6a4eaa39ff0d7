//! The congestion control of connections that leave by a route, which exists already.
//!
//! A route cannot be changed in place: it is read, and replaced by one that is the same but for this
//! (`RTAX_CC_ALGO`). It is kept as bytes in between, so that nothing is lost that nobody here knows of
//! (rtnetlink(7), include/uapi/linux/rtnetlink.h).

use super::kind::{Kind, State, words};
use super::steps;
use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use crate::kernel::routes::Routes;
use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NetlinkSerializable, NlasIterator};
use netlink_sys::protocols::NETLINK_ROUTE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;
// Where in it: family, length of the prefix, type of service, table, protocol, type, flags.
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
/// The only flag that somebody sets; the others say how it is (`RTNH_F_ONLINK`).
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
/// Where in it (`struct rta_cacheinfo`) is when the route ends.
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
/// The table that routes are in if nobody says otherwise.
const MAIN: u32 = 254;
/// `TCP_CA_NAME_MAX` without its end.
const NAME_BYTES: usize = 15;

/// A route that exists, and its congestion control. What is not given is whatever the only route has that
/// fits the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `10.0.0.0/8`, or `default`.
    pub to: String,
    /// Number of its table.
    #[serde(default = "main_table")]
    pub table: u32,
    /// The next router.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// The device.
    #[serde(default)]
    pub device: Option<String>,
    /// Its metric, which tells routes to the same place apart.
    #[serde(default)]
    pub metric: Option<u32>,
    /// The congestion control; none for that of the machine.
    pub congctl: Option<String>,
}

fn main_table() -> u32 {
    MAIN
}

/// A prefix: the family as the kernel has it, the length and the bytes of the address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Prefix {
    family: u8,
    length: u8,
    bytes: Vec<u8>,
}

/// A route as the kernel tells it and as it takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Raw {
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
    known.map(|one| (one.kind(), one.value().to_vec())).collect()
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
    fn read(payload: &[u8]) -> Option<Self> {
        let header = *payload.first_chunk()?;
        Some(Self { header, attributes: unpacked(&payload[HEADER..]) })
    }

    fn get(&self, kind: u16) -> Option<&[u8]> {
        self.attributes.iter().find(|(one, _)| *one == kind).map(|(_, value)| value.as_slice())
    }

    fn table(&self) -> u32 {
        self.get(TABLE_NUMBER).and_then(number).unwrap_or(self.header[TABLE].into())
    }

    fn metric(&self) -> u32 {
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
        let zeros = vec![0; prefix.bytes.len()];
        self.header[FAMILY] == prefix.family
            && self.header[LENGTH] == prefix.length
            && self.header[SOURCE_LENGTH] == 0
            && self.header[TYPE] == UNICAST
            && flags & CLONED == 0
            && self.table() == table
            && self.get(DESTINATION).unwrap_or(&zeros) == prefix.bytes
    }

    /// The routers and devices it leads to: one, or several.
    fn hops(&self) -> Vec<(Option<IpAddr>, Option<u32>)> {
        let Some(mut hops) = self.get(MULTIPATH) else {
            return vec![(router(&self.attributes), self.get(DEVICE).and_then(number))];
        };
        let mut found = Vec::new();
        while hops.len() >= HOP {
            let length = usize::from(u16::from_ne_bytes([hops[0], hops[1]])).clamp(HOP, hops.len());
            let attributes = unpacked(&hops[HOP..length]);
            found.push((router(&attributes), number(&hops[HOP_DEVICE..])));
            hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        found
    }

    fn metrics(&self) -> BTreeMap<u16, Vec<u8>> {
        self.get(METRICS).map(unpacked).unwrap_or_default().into_iter().collect()
    }

    fn congestion(&self) -> Option<String> {
        let bytes = self.metrics().remove(&CONGESTION)?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// The same as somebody asks for it: without what only the kernel says.
    fn asked(&self) -> Self {
        let mut asked = self.clone();
        let mut flags = [0; 4];
        // The flags are in the order of the machine's bytes.
        let kept = self.header[FLAGS..].iter().zip(u32::from(ONLINK).to_ne_bytes());
        for (to, (flag, mask)) in flags.iter_mut().zip(kept) {
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
    fn with(&self, congestion: Option<&str>) -> Self {
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

/// Clears the flags of next hops that only say how they are.
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

impl Route {
    fn prefix(&self) -> Result<Prefix, String> {
        let expected = || {
            format!("route: to: expected default or a prefix such as 10.0.0.0/8, found {}", self.to)
        };
        let (address, length) = match (self.to.as_str(), self.via) {
            ("default", Some(IpAddr::V6(_))) => (IpAddr::from([0; 16]), 0),
            ("default", _) => (IpAddr::from([0; 4]), 0),
            (to, _) => {
                let (address, length) =
                    to.split_once('/').map_or((to, None), |(a, l)| (a, Some(l)));
                let address: IpAddr = address.parse().map_err(|_| expected())?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                let length = length.map_or(Ok(most), str::parse).map_err(|_| expected())?;
                if length > most {
                    return Err(expected());
                }
                (address, length)
            }
        };
        Ok(match address {
            IpAddr::V4(ip) => {
                Prefix { family: libc::AF_INET as u8, length, bytes: ip.octets().to_vec() }
            }
            IpAddr::V6(ip) => {
                Prefix { family: libc::AF_INET6 as u8, length, bytes: ip.octets().to_vec() }
            }
        })
    }

    fn said(&self, error: &Error) -> String {
        format!("{}: {error}", self.name())
    }

    /// The routes that fit.
    fn found(&self) -> Result<Vec<Raw>, String> {
        let prefix = self.prefix()?;
        let links = Routes::open().and_then(|mut routes| routes.links());
        let links = links.map_err(|error| self.said(&error))?;
        let fits = |(via, device): &(Option<IpAddr>, Option<u32>)| {
            let name = device.and_then(|number| links.get(&number)).map(|link| &link.device);
            (self.via.is_none() || self.via == *via)
                && (self.device.is_none() || self.device.as_ref() == name)
        };
        let metric = |route: &Raw| self.metric.is_none_or(|metric| metric == route.metric());
        let all = all(&prefix, self.table).map_err(|error| self.said(&error))?;
        Ok(all.into_iter().filter(|route| metric(route) && route.hops().iter().any(fits)).collect())
    }

    /// The only route that fits; none if there is none.
    fn only(&self) -> Result<Option<Raw>, String> {
        let mut found = self.found()?;
        if found.len() > 1 {
            return Err(format!(
                "{}: expected one route, found {}: say via, device or metric",
                self.name(),
                found.len()
            ));
        }
        Ok(found.pop())
    }

    /// The same with all that tells the route apart, as long as there is one.
    ///
    /// # Errors
    /// One line: there is none, or there are several, or it is the kernel's own business.
    pub fn resolved(&self) -> Result<Self, String> {
        let route =
            self.only()?.ok_or_else(|| format!("{}: there is no such route", self.name()))?;
        if LEARNED.contains(&route.header[PROTOCOL]) || route.expires() {
            return Err(format!(
                "{}: it was learned from a router, and the kernel renews it: make a static one",
                self.name()
            ));
        }
        let alike = all(&self.prefix()?, self.table).map_err(|error| self.said(&error))?;
        let alike = alike.iter().filter(|one| {
            one.metric() == route.metric() && one.header[SERVICE] == route.header[SERVICE]
        });
        if alike.count() > 1 {
            return Err(format!(
                "{}: there are several with its metric, and the kernel would replace the first",
                self.name()
            ));
        }
        let (mut via, mut device) = (None, None);
        if let [(router, number)] = route.hops()[..] {
            let links = Routes::open().and_then(|mut routes| routes.links());
            let mut links = links.map_err(|error| self.said(&error))?;
            via = router;
            device = number.and_then(|number| links.remove(&number)).map(|link| link.device);
        }
        let prefix = self.prefix()?;
        let address = ip(&prefix.bytes).expect("made from an address");
        let to =
            if prefix.length == 0 && (address.is_ipv4() || via.is_some_and(|via| via.is_ipv6())) {
                "default".to_owned()
            } else {
                format!("{address}/{}", prefix.length)
            };
        let (table, metric, congctl) = (self.table, Some(route.metric()), self.congctl.clone());
        Ok(Self { to, table, via, device, metric, congctl })
    }

    /// Replaces the route, and sees that nothing else of it has changed.
    fn replace(&self, congestion: Option<&str>) -> Result<(), String> {
        let before =
            self.only()?.ok_or_else(|| format!("{}: there is no such route", self.name()))?;
        let wanted = before.asked().with(congestion);
        self.send(wanted.clone())?;
        steps::changed();
        let after = self.only()?.map(|route| route.asked());
        if after.as_ref() == Some(&wanted) {
            return Ok(());
        }
        self.send(before.asked())?;
        steps::changed();
        Err(format!("{}: the kernel made something else of it", self.name()))
    }

    fn send(&self, mut route: Raw) -> Result<(), String> {
        // Of two routes by the number of a next hop the kernel takes the one that it has, whatever its
        // metrics are, unless some are given, and be it none (fib_create_info, net/ipv4/fib_semantics.c).
        if route.get(NEXT_HOP).is_some() && route.get(METRICS).is_none() {
            route.attributes.push((METRICS, Vec::new()));
        }
        let message = Message { kind: RTM_NEWROUTE, route };
        Netlink::open(NETLINK_ROUTE)
            .and_then(|mut netlink| netlink.replace(&self.name(), message))
            .map_err(|error| error.to_string())
    }
}

/// All routes to a prefix in a table.
fn all(prefix: &Prefix, table: u32) -> Result<Vec<Raw>, Error> {
    let mut header = [0; HEADER];
    header[FAMILY] = prefix.family;
    let question = Message { kind: RTM_GETROUTE, route: Raw { header, attributes: Vec::new() } };
    let mut found = Vec::new();
    Netlink::open(NETLINK_ROUTE)?.dump("routes", question, |answer| {
        let route = Raw::read(answer.payload()).filter(|route| route.is_for(prefix, table));
        found.extend(route);
        Ok(())
    })?;
    Ok(found)
}

impl Kind for Route {
    fn name(&self) -> String {
        let mut name = format!("route {} table {}", self.to, self.table);
        let via = self.via.map(|via| format!(" via {via}"));
        let device = self.device.as_ref().map(|device| format!(" dev {device}"));
        let metric = self.metric.map(|metric| format!(" metric {metric}"));
        name.extend([via, device, metric].into_iter().flatten());
        name
    }

    fn rank(&self) -> u8 {
        6
    }

    fn check(&self) -> Result<(), String> {
        self.prefix()?;
        match &self.congctl {
            Some(name) if name.is_empty() || name.len() > NAME_BYTES => {
                Err(format!("{}: congctl: expected a name, found {name:?}", self.name()))
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<State, String> {
        Ok(match self.only()? {
            None => State::Gone,
            Some(route) => route.congestion().map_or(State::Absent, State::Text),
        })
    }

    fn wanted(&self, _present: &State, _known: &[State]) -> Result<State, String> {
        Ok(self.congctl.clone().map_or(State::Absent, State::Text))
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), String> {
        match to {
            State::Text(name) => self.replace(Some(name)),
            State::Absent => self.replace(None),
            _ => Err(format!("{}: expected a name, found {}", self.name(), words(to))),
        }
    }

    fn shown(&self, state: &State) -> Value {
        let mut shown = json!({
            "kind": "route", "to": self.to, "table": self.table, "via": self.via,
            "device": self.device, "metric": self.metric, "congctl": null,
        });
        match state {
            State::Text(name) => shown["congctl"] = json!(name),
            State::Gone => shown["absent"] = json!(true),
            _ => {}
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str) -> Route {
        let to = to.to_owned();
        Route { to, table: MAIN, via: None, device: None, metric: None, congctl: None }
    }

    fn raw(attributes: &[(u16, &[u8])]) -> Raw {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&[2, 16, 0, 0, 254, 3, 0, 1]);
        header[FLAGS..].copy_from_slice(&0x15u32.to_ne_bytes()); // dead, onlink, linkdown
        let attributes = attributes.iter().map(|(kind, value)| (*kind, value.to_vec()));
        Raw { header, attributes: attributes.collect() }
    }

    #[test]
    fn prefixes_of_both_families() {
        let prefix = |to| route(to).prefix().unwrap();
        assert_eq!(prefix("default"), Prefix { family: 2, length: 0, bytes: vec![0; 4] });
        assert_eq!(
            prefix("10.9.0.0/16"),
            Prefix { family: 2, length: 16, bytes: vec![10, 9, 0, 0] }
        );
        assert_eq!(prefix("10.9.0.1").length, 32);
        assert_eq!((prefix("fd00::/8").family, prefix("::/0").bytes.len()), (10, 16));
        for wrong in ["", "10.9.0.0/33", "10.9/16", "everywhere", "10.9.0.0/"] {
            let reason = route(wrong).check().unwrap_err();
            assert!(reason.contains("expected default or a prefix"), "{reason}");
        }
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
    fn what_only_the_kernel_says_is_left_out() {
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
        let one = [16, 0, 0, 0, 7, 0, 0, 0, 8, 0, 5, 0, 10, 0, 1, 1];
        let other = [16, 0, 0, 0, 8, 0, 0, 0, 8, 0, 5, 0, 10, 0, 2, 1];
        let found = raw(&[(9, &[one, other].concat())]).hops();
        let ip = |text: &str| Some(text.parse().unwrap());
        assert_eq!(found, [(ip("10.0.1.1"), Some(7)), (ip("10.0.2.1"), Some(8))]);
    }
}
