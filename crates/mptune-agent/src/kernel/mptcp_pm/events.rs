//! Events of the kernel's MPTCP connections in one network namespace (include/uapi/linux/mptcp_pm.h),
//! for IPv4 and IPv6.

use super::family::{self, NAME};
use crate::kernel::error::Error;
use crate::kernel::netlink::Netlink;
use crate::kernel::pair::Pair;
use netlink_packet_core::{
    DecodeError, ErrorContext, NetlinkMessage, NetlinkPayload, NlaBuffer, NlasIterator, Parseable,
    ParseableParametrized, parse_ip, parse_u8, parse_u16, parse_u16_be, parse_u32,
};
use netlink_packet_generic::{GenlHeader, GenlMessage};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

// enum mptcp_event_type
const CREATED: u8 = 1;
const ESTABLISHED: u8 = 2;
const CLOSED: u8 = 3;
const ANNOUNCED: u8 = 6;
const REMOVED: u8 = 7;
const SUB_ESTABLISHED: u8 = 10;
const SUB_CLOSED: u8 = 11;
const SUB_PRIORITY: u8 = 13;
/// MPTCP_PM_EV_FLAG_SERVER_SIDE, which replaces a separate attribute from Linux 6.18 on.
const SERVER_SIDE: u16 = 1 << 1;
/// MPTCP_PM_EV_FLAG_DENY_JOIN_ID0
const DENY_JOIN_ID0: u16 = 1 << 0;

/// Kinds of events of a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its handshake is done.
    Established,
    /// It was closed, or its join failed.
    Closed,
    /// The peer changed its priority (MP_PRIO).
    Priority,
}

/// An event about a subflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubflowEvent {
    /// The event.
    pub change: Change,
    /// The connection.
    pub token: u32,
    /// The subflow.
    pub pair: Pair,
    /// The number of the local address.
    pub local_id: u8,
    /// The number of the remote one.
    pub remote_id: u8,
    /// Standby at the *peer's* request; what this side requested is in the statistics.
    pub backup: bool,
    /// The error number that closed it; 0 if none.
    pub error: u8,
    /// The peer's reason for resetting it (RFC 8684 section 3.6), if given.
    pub reset_reason: Option<u32>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A connection's first handshake is under way; `token` names it in all later events.
    Created {
        /// The connection.
        token: u32,
        /// The ends of its first subflow.
        pair: Pair,
        /// The peer opened it.
        server_side: bool,
    },
    /// A connection is fully established.
    Established {
        /// The connection.
        token: u32,
        /// The peer accepts no further subflows at the address of the first one (RFC 8684 section 3.1, "C").
        denies_initial: bool,
    },
    /// A connection is gone.
    Closed {
        /// The connection.
        token: u32,
    },
    /// The peer announced another of its addresses (ADD_ADDR); port 0 if it named none.
    Announced {
        /// The connection.
        token: u32,
        /// The address's number.
        id: u8,
        /// The address.
        address: SocketAddr,
    },
    /// The peer withdrew an address (REMOVE_ADDR).
    Removed {
        /// The connection.
        token: u32,
        /// The address's number.
        id: u8,
    },
    /// Something happened to a subflow.
    Subflow(SubflowEvent),
    /// An event that does not matter here.
    Other(u8),
}

impl Event {
    /// The connection that it is about; none if that does not matter.
    pub fn token(&self) -> Option<u32> {
        match self {
            Self::Created { token, .. }
            | Self::Established { token, .. }
            | Self::Closed { token }
            | Self::Announced { token, .. }
            | Self::Removed { token, .. } => Some(*token),
            Self::Subflow(event) => Some(event.token),
            Self::Other(_) => None,
        }
    }
}

/// An attribute of an event.
enum Attribute {
    Token(u32),
    LocalId(u8),
    RemoteId(u8),
    Source(IpAddr),
    Destination(IpAddr),
    SourcePort(u16),
    DestinationPort(u16),
    Backup(u8),
    Error(u8),
    Flags(u16),
    ResetReason(u32),
    ServerSide(u8),
    Other,
}

impl<'a, T: AsRef<[u8]> + ?Sized> Parseable<NlaBuffer<&'a T>> for Attribute {
    fn parse(buffer: &NlaBuffer<&'a T>) -> Result<Self, DecodeError> {
        let (kind, value) = (buffer.kind(), buffer.value());
        let attribute = match kind {
            1 => parse_u32(value).map(Self::Token),
            3 => parse_u8(value).map(Self::LocalId),
            4 => parse_u8(value).map(Self::RemoteId),
            5 | 6 => parse_ip(value).map(Self::Source),
            7 | 8 => parse_ip(value).map(Self::Destination),
            9 => parse_u16_be(value).map(Self::SourcePort),
            10 => parse_u16_be(value).map(Self::DestinationPort),
            11 => parse_u8(value).map(Self::Backup),
            12 => parse_u8(value).map(Self::Error),
            13 => parse_u16(value).map(Self::Flags),
            16 => parse_u32(value).map(Self::ResetReason),
            18 => parse_u8(value).map(Self::ServerSide),
            _ => Ok(Self::Other),
        };
        attribute.with_context(|| format!("attribute {kind} of an event of {NAME}"))
    }
}

/// The attributes of an event; absent ones have the value that means absent.
#[derive(Default)]
struct Attributes {
    token: u32,
    local_id: u8,
    remote_id: u8,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    ports: (u16, u16),
    backup: bool,
    error: u8,
    reset_reason: Option<u32>,
    server_side: bool,
    denies_initial: bool,
}

impl Attributes {
    fn parse(buffer: &[u8]) -> Result<Self, DecodeError> {
        let mut attributes = Self::default();
        for attribute in NlasIterator::new(buffer) {
            attributes.note(Attribute::parse(&attribute?)?);
        }
        Ok(attributes)
    }

    fn note(&mut self, attribute: Attribute) {
        match attribute {
            Attribute::Token(token) => self.token = token,
            Attribute::LocalId(id) => self.local_id = id,
            Attribute::RemoteId(id) => self.remote_id = id,
            Attribute::Source(ip) => self.source = Some(ip),
            Attribute::Destination(ip) => self.destination = Some(ip),
            Attribute::SourcePort(port) => self.ports.0 = port,
            Attribute::DestinationPort(port) => self.ports.1 = port,
            Attribute::Backup(backup) => self.backup = backup != 0,
            Attribute::Error(error) => self.error = error,
            Attribute::Flags(flags) => {
                self.server_side |= flags & SERVER_SIDE != 0;
                self.denies_initial |= flags & DENY_JOIN_ID0 != 0;
            }
            Attribute::ResetReason(reason) => self.reset_reason = Some(reason),
            Attribute::ServerSide(is) => self.server_side |= is != 0,
            Attribute::Other => {}
        }
    }

    fn end(ip: Option<IpAddr>, port: u16) -> Result<SocketAddr, DecodeError> {
        let missing = || DecodeError::from(format!("an event of {NAME} without an address"));
        ip.map(|ip| SocketAddr::new(ip, port)).ok_or_else(missing)
    }

    fn pair(&self) -> Result<Pair, DecodeError> {
        let (local, remote) = self.ports;
        Ok(Pair {
            local: Self::end(self.source, local)?,
            remote: Self::end(self.destination, remote)?,
        })
    }

    fn subflow(self, change: Change) -> Result<Event, DecodeError> {
        Ok(Event::Subflow(SubflowEvent {
            change,
            token: self.token,
            pair: self.pair()?,
            local_id: self.local_id,
            remote_id: self.remote_id,
            backup: self.backup,
            error: self.error,
            reset_reason: self.reset_reason,
        }))
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Event {
    fn parse_with_param(buffer: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes = Attributes::parse(buffer)?;
        let token = attributes.token;
        Ok(match header.cmd {
            CREATED => Self::Created {
                token,
                pair: attributes.pair()?,
                server_side: attributes.server_side,
            },
            ESTABLISHED => Self::Established { token, denies_initial: attributes.denies_initial },
            CLOSED => Self::Closed { token },
            ANNOUNCED => {
                let address = Attributes::end(attributes.destination, attributes.ports.1)?;
                Self::Announced { token, id: attributes.remote_id, address }
            }
            REMOVED => Self::Removed { token, id: attributes.remote_id },
            SUB_ESTABLISHED => attributes.subflow(Change::Established)?,
            SUB_CLOSED => attributes.subflow(Change::Closed)?,
            SUB_PRIORITY => attributes.subflow(Change::Priority)?,
            number => Self::Other(number),
        })
    }
}

/// Everything that happens to the MPTCP connections of a namespace, from now on.
pub struct Events {
    netlink: Netlink,
}

impl Events {
    /// In the current namespace.
    ///
    /// # Errors
    /// The kernel has no MPTCP events.
    pub fn open() -> Result<Self, Error> {
        let (netlink, family) = family::open()?;
        let lacking =
            || Error::Failed(format!("netlink family {NAME}: no events: they need Linux 5.12"));
        netlink.join(family.events.ok_or_else(lacking)?)?;
        Ok(Self { netlink })
    }

    /// Events that have arrived, without waiting; true if the kernel dropped some.
    pub fn take(&mut self, into: &mut Vec<Event>) -> Result<bool, Error> {
        self.netlink.take(|message| {
            let bytes = message.clone().into_inner();
            let message = NetlinkMessage::<GenlMessage<Event>>::deserialize(bytes)?;
            if let NetlinkPayload::InnerMessage(message) = message.payload {
                into.push(message.payload);
            }
            Ok(())
        })
    }

    /// Events that the kernel has dropped so far, see [`Netlink::dropped`].
    pub fn dropped(&self) -> u32 {
        self.netlink.dropped()
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{attribute, ends};
    use proptest::prelude::*;

    fn parse(number: u8, body: &[Vec<u8>]) -> Event {
        let bytes = [&[number, 1, 0, 0], &body.concat()[..]].concat();
        GenlMessage::<Event>::parse_with_param(&bytes[..], 28).unwrap().payload
    }

    fn token(token: u32) -> Vec<u8> {
        attribute(1, &token.to_ne_bytes())
    }

    fn addresses(pair: &Pair) -> Vec<u8> {
        let address_of = |end: SocketAddr, kind| match end.ip() {
            IpAddr::V4(ip) => attribute(kind, &ip.octets()),
            IpAddr::V6(ip) => attribute(kind + 1, &ip.octets()),
        };
        let ports = [(9, pair.local), (10, pair.remote)]
            .map(|(kind, end)| attribute(kind, &end.port().to_be_bytes()));
        [address_of(pair.local, 5), address_of(pair.remote, 7), ports.concat()].concat()
    }

    proptest! {
        #[test]
        fn a_subflow_event_comes_out_as_it_went_in(number: u32, pair in ends(), backup: bool) {
            let body = vec![
                token(number),
                addresses(&pair),
                attribute(3, &[2]),
                attribute(4, &[0]),
                attribute(11, &[backup.into()]),
            ];
            let expected = SubflowEvent {
                change: Change::Established,
                token: number,
                pair,
                local_id: 2,
                remote_id: 0,
                backup,
                error: 0,
                reset_reason: None,
            };
            prop_assert_eq!(parse(10, &body), Event::Subflow(expected.clone()));
            let why = vec![attribute(12, &[104]), attribute(16, &3u32.to_ne_bytes())];
            let closed = SubflowEvent {
                change: Change::Closed,
                error: 104,
                reset_reason: Some(3),
                ..expected
            };
            prop_assert_eq!(parse(11, &[body, why].concat()), Event::Subflow(closed));
        }

        #[test]
        fn a_message_that_was_cut_short_is_an_error_and_no_panic(
            number: u8,
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let _ = GenlMessage::<Event>::parse_with_param(&[&[number, 1, 0, 0], &bytes[..]].concat()[..], 28);
            let _ = GenlMessage::<Event>::parse_with_param(&bytes[..bytes.len().min(3)], 28);
        }
    }

    #[test]
    fn every_kind_of_event_is_parsed() {
        let id = attribute(4, &[4]);
        assert_eq!(parse(3, &[token(9)]), Event::Closed { token: 9 });
        for (flags, denies_initial) in [(0u16, false), (1, true)] {
            let flags = attribute(13, &flags.to_ne_bytes());
            let expected = Event::Established { token: 9, denies_initial };
            assert_eq!(parse(2, &[token(9), flags]), expected);
        }
        assert_eq!(parse(7, &[token(9), id.clone()]), Event::Removed { token: 9, id: 4 });
        assert_eq!(
            parse(6, &[token(9), id, attribute(7, &[10, 65, 1, 1])]),
            Event::Announced { token: 9, id: 4, address: "10.65.1.1:0".parse().unwrap() }
        );
        assert_eq!(parse(15, &[attribute(9, &[0, 1])]), Event::Other(15));
    }

    #[test]
    fn the_side_that_opened_a_connection_is_read_in_either_encoding() {
        let pair =
            Pair { local: "10.0.0.1:1".parse().unwrap(), remote: "10.0.0.2:2".parse().unwrap() };
        let own = attribute(18, &[1]);
        let flag = attribute(13, &2u16.to_ne_bytes());
        let others = attribute(13, &1u16.to_ne_bytes());
        for (further, expected) in [(vec![], false), (own, true), (flag, true), (others, false)] {
            let event = parse(1, &[token(1), addresses(&pair), further]);
            assert_eq!(event, Event::Created { token: 1, pair, server_side: expected });
        }
    }

    #[test]
    fn an_ipv4_address_inside_an_ipv6_socket_is_kept_and_is_itself_when_it_is_looked_up() {
        let pair = Pair {
            local: "[::ffff:10.0.0.1]:1".parse().unwrap(),
            remote: "[::ffff:10.0.0.2]:2".parse().unwrap(),
        };
        let Event::Created { pair: parsed, .. } = parse(1, &[token(1), addresses(&pair)]) else {
            panic!("a connection");
        };
        assert_eq!(parsed, pair);
        assert!(parsed.is_mapped());
        let plain = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert_eq!(parsed.addresses(), plain);
    }
}
