//! State of every established TCP connection in a namespace, as the kernel reports it, including MPTCP
//! subflows (include/uapi/linux/{inet_diag,tcp,mptcp}.h).
//!
//! It also sees the connections of other processes, and is read-only. Five queries: a glance at all of
//! them in one dump, without their `tcp_info`, for which the kernel would have to take each socket's
//! lock (and without which it reports nothing about MPTCP either); a survey, which is the same with it
//! and with those that are being opened; a close look at one; a census of all sockets that are open, TCP's or MPTCP's, with all there is; and
//! the same for a single one.

mod subflow;

pub use self::subflow::Mptcp;
use crate::kernel::error::Error;
use crate::kernel::info::TcpInfo;
use crate::kernel::netlink::{Netlink, Received};
use crate::kernel::pair::Pair;
use crate::kernel::sys::IPPROTO_MPTCP;
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkSerializable, NlaBuffer, NlasIterator, Parseable,
    parse_u32,
};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponseBuffer, InetResponseHeader, SocketId, StateFlags,
    Timer,
};
use netlink_packet_sock_diag::{AF_INET, AF_INET6, INET_DIAG_INFO, IPPROTO_TCP, SockDiagMessage};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_ULP_INFO: u16 = 19;
/// Attribute of a request: its protocol, if that needs more than a byte.
const INET_DIAG_REQ_PROTOCOL: u16 = 3;
/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: u8 = 10;
/// TCP_ESTABLISHED, likewise.
pub const ESTABLISHED: u8 = 1;
/// TCP_SYN_SENT, likewise.
const SYN_SENT: u8 = 2;
/// `idiag_cookie` that matches any.
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// The families to query: IPv4, IPv6 or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Families {
    /// AF_INET.
    pub v4: bool,
    /// AF_INET6; also those that carry IPv4.
    pub v6: bool,
}

impl Families {
    /// The families of a connection: one with IPv4 addresses in an IPv6 socket may have subflows of
    /// both.
    pub fn of(pair: &Pair) -> Self {
        Self { v4: pair.local.is_ipv4() || pair.is_mapped(), v6: pair.local.is_ipv6() }
    }

    /// The families of both.
    pub fn and(self, other: Self) -> Self {
        Self { v4: self.v4 || other.v4, v6: self.v6 || other.v6 }
    }
}

/// A subflow at a close look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Consecutive retransmission timeouts without progress. (Zero-window probes do not count: they are
    /// no sign of a dead path.)
    pub timeouts: u32,
    /// Smallest RTT seen, nanoseconds; 0 before the first sample.
    pub min_rtt_ns: u64,
    /// Milliseconds since the last acknowledgement arrived.
    pub silent_ms: u32,
    /// Acknowledged so far, bytes; the SYN counts as one.
    pub acked_bytes: u64,
    /// Segments in flight.
    pub unacked: u32,
    /// Bytes that it was given and that are not acknowledged.
    pub queued: u32,
    /// This side made it standby.
    pub backup: bool,
}

/// A socket at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Its ends.
    pub pair: Pair,
    /// Consecutive retransmission timeouts.
    pub timeouts: u32,
    /// Bytes that it was given and that are not acknowledged.
    pub queued: u32,
}

/// A subflow in a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surveyed {
    /// Its ends.
    pub pair: Pair,
    /// Its part in the connection.
    pub mptcp: Mptcp,
    /// It is established; otherwise it is being opened.
    pub is_established: bool,
    /// A program has its connection: it is accepted, and not closed.
    pub has_program: bool,
}

/// The sockets of a census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// TCP sockets, subflows among them.
    Tcp,
    /// MPTCP connections themselves.
    Mptcp,
}

/// A socket in a census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted<'a> {
    /// Its ends.
    pub pair: Pair,
    /// Consecutive retransmission timeouts.
    pub timeouts: u32,
    /// Bytes that it was given and that are not acknowledged.
    pub queued: u32,
    /// Its state, a number of include/net/tcp_states.h.
    pub state: u8,
    /// Its inode, which a connection shares with its subflows; 0 if no program has it any more.
    pub inode: u32,
    /// The number of the device that it is bound to; 0 if any.
    pub device: u32,
    /// `struct tcp_info` or `struct mptcp_info`.
    pub info: &'a [u8],
    /// The name of its congestion control; empty if not reported.
    pub cc: &'a [u8],
    /// Its memory, `SK_MEMINFO_*` of include/uapi/linux/sock_diag.h, four bytes each; empty if not asked for.
    pub memory: &'a [u8],
    /// Its part in the connection; none if it is no subflow, or if this is not reported to this process.
    pub mptcp: Option<Mptcp>,
    /// Bytes in the send buffer and its size in memory; none if its memory was not asked for.
    pub send_buffer: Option<(u32, u32)>,
    /// The size of the receive buffer in memory; likewise.
    pub receive_buffer: Option<u32>,
}

/// Queries one network namespace.
pub struct Diag {
    netlink: Netlink,
}

impl Diag {
    /// For the current namespace.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { netlink: Netlink::open(NETLINK_SOCK_DIAG)? })
    }

    /// Calls `each` for every established TCP connection of these families.
    ///
    /// # Errors
    /// The kernel does not answer such queries (CONFIG_INET_DIAG).
    pub fn glance(
        &mut self,
        families: Families,
        mut each: impl FnMut(Glance),
    ) -> Result<(), Error> {
        self.dump(families, StateFlags::ESTABLISHED, ExtensionFlags::empty(), |message| {
            each(head(&InetResponseHeader::parse(message.payload())?));
            Ok(())
        })
    }

    /// Calls `each` for every subflow that is established, and for every one that this side has begun to open
    /// and that nobody has answered yet.
    ///
    /// One dump has both, so that a subflow that is answered meanwhile is not missed.
    ///
    /// # Errors
    /// As for a glance.
    pub fn survey(&mut self, mut each: impl FnMut(Surveyed)) -> Result<(), Error> {
        let states = StateFlags::ESTABLISHED | StateFlags::SYN_SENT;
        let both = Families { v4: true, v6: true };
        self.dump(both, states, ExtensionFlags::INFO, |message| {
            counted(message.payload(), |socket| {
                if let Some(mptcp) = socket.mptcp
                    && matches!(socket.state, ESTABLISHED | SYN_SENT)
                {
                    let (is_established, has_program) =
                        (socket.state == ESTABLISHED, socket.inode != 0);
                    each(Surveyed { pair: socket.pair, mptcp, is_established, has_program });
                }
            })?;
            Ok(())
        })
    }

    /// Calls `each` for every open socket of both families.
    ///
    /// # Errors
    /// As for a glance; the kernel counts no MPTCP connections (CONFIG_INET_MPTCP_DIAG).
    pub fn census(
        &mut self,
        counting: Counting,
        mut each: impl FnMut(Counted<'_>),
    ) -> Result<(), Error> {
        let open = StateFlags::all()
            - (StateFlags::LISTEN
                | StateFlags::CLOSE
                | StateFlags::TIME_WAIT
                | StateFlags::SYN_RECV);
        let extensions = ExtensionFlags::INFO | ExtensionFlags::CONG | ExtensionFlags::SKMEMINFO;
        for family in [AF_INET, AF_INET6] {
            let question = request(family, open.clone(), extensions.clone(), SocketId::new_v4());
            let asked = self.netlink.stream(NAME, counting.question(question), |message| {
                Ok(counted(message.payload(), &mut each)?)
            });
            explain(asked)?;
        }
        Ok(())
    }

    fn dump(
        &mut self,
        families: Families,
        states: StateFlags,
        extensions: ExtensionFlags,
        mut each: impl FnMut(&Received<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (is_queried, family) in [(families.v4, AF_INET), (families.v6, AF_INET6)] {
            if is_queried {
                let socket = SocketId::new_v4();
                let question = request(family, states.clone(), extensions.clone(), socket);
                explain(self.netlink.stream(NAME, question, &mut each))?;
            }
        }
        Ok(())
    }

    /// The lowest port at which a program of this namespace accepts connections; none if none does.
    ///
    /// # Errors
    /// As for a glance.
    pub fn listening(&mut self) -> Result<Option<u16>, Error> {
        let (both, mut lowest) = (Families { v4: true, v6: true }, None);
        self.dump(both, StateFlags::LISTEN, ExtensionFlags::empty(), |message| {
            let port = InetResponseHeader::parse(message.payload())?.socket_id.source_port;
            lowest = Some(lowest.map_or(port, |known: u16| known.min(port)));
            Ok(())
        })?;
        Ok(lowest)
    }

    /// A program accepts connections there.
    ///
    /// # Errors
    /// As for a glance.
    pub fn is_listened_at(&mut self, end: SocketAddr) -> Result<bool, Error> {
        let socket = SocketId {
            source_port: end.port(),
            source_address: end.ip(),
            destination_address: match end {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            cookie: NO_COOKIE,
            ..SocketId::new_v4()
        };
        let family = if end.is_ipv4() { AF_INET } else { AF_INET6 };
        let mut listens = false;
        let question = request(family, StateFlags::LISTEN, ExtensionFlags::empty(), socket);
        let asked = self.netlink.ask(NAME, question, |message| {
            listens |= InetResponseHeader::parse(message.payload())?.state == LISTEN;
            Ok(())
        });
        match asked {
            Err(Error::Refused(refusal)) if refusal.number() == libc::ENOENT => Ok(false),
            asked => explain(asked).map(|()| listens),
        }
    }

    /// One subflow as it is now; none if it is gone.
    ///
    /// # Errors
    /// As for a glance.
    pub fn look_at(&mut self, pair: &Pair) -> Result<Option<Statistics>, Error> {
        let mut statistics = None;
        self.look_at_all(&[*pair], |_, seen| statistics = Some(seen))?;
        Ok(statistics)
    }

    /// Subflows as they are now; `each` is called with a subflow's place among `pairs`, unless it is gone.
    ///
    /// # Errors
    /// As for a glance.
    pub fn look_at_all(
        &mut self,
        pairs: &[Pair],
        mut each: impl FnMut(usize, Statistics),
    ) -> Result<(), Error> {
        let questions: Vec<_> =
            pairs.iter().map(|pair| Single::Subflow(*pair).question()).collect();
        self.exact(&questions, |place, payload| {
            counted(payload, |socket| {
                socket.statistics().into_iter().for_each(|seen| each(place, seen));
            })
        })
    }

    /// Single sockets with what a census has of them, connections with their memory; `each` is called with a
    /// socket's place among these, unless it is gone or the kernel does not count such sockets.
    ///
    /// The kernel looks at them in this order.
    ///
    /// # Errors
    /// As for a glance.
    pub fn count(
        &mut self,
        sockets: &[Single],
        mut each: impl FnMut(usize, Counted<'_>),
    ) -> Result<(), Error> {
        let questions: Vec<_> = sockets.iter().map(Single::question).collect();
        self.exact(&questions, |place, payload| counted(payload, |socket| each(place, socket)))
    }

    /// Questions about one socket each; without an answer where there is no such socket.
    fn exact(
        &mut self,
        questions: &[OfProtocol],
        mut each: impl FnMut(usize, &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), Error> {
        self.netlink.ask_all(NAME, questions, |place, answer| match answer {
            Ok(message) => Ok(each(place, message.payload())?),
            Err(Error::Refused(refusal)) if refusal.number() == libc::ENOENT => Ok(()),
            Err(error) => Err(error),
        })
    }
}

/// A socket of which there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single {
    /// A subflow, by its ends.
    Subflow(Pair),
    /// A connection, by its token.
    Connection(u32),
}

impl Single {
    fn question(&self) -> OfProtocol {
        match self {
            Self::Subflow(pair) => {
                let family = if pair.local.is_ipv4() { AF_INET } else { AF_INET6 };
                let states = StateFlags::ESTABLISHED;
                let extensions = ExtensionFlags::INFO | ExtensionFlags::CONG;
                Counting::Tcp.question(request(family, states, extensions, socket_id(pair)))
            }
            Self::Connection(token) => {
                // The first half of the cookie is the token (net/mptcp/mptcp_diag.c, mptcp_diag_dump_one).
                let mut cookie = [0; 8];
                cookie[..4].copy_from_slice(&token.to_ne_bytes());
                let socket = SocketId { cookie, ..SocketId::new_v4() };
                let extensions = ExtensionFlags::INFO | ExtensionFlags::SKMEMINFO;
                let question = request(AF_INET, StateFlags::ESTABLISHED, extensions, socket);
                Counting::Mptcp.question(question)
            }
        }
    }
}

/// The socket with these ends.
fn socket_id(pair: &Pair) -> SocketId {
    SocketId {
        source_port: pair.local.port(),
        destination_port: pair.remote.port(),
        source_address: pair.local.ip(),
        destination_address: pair.remote.ip(),
        cookie: NO_COOKIE,
        ..SocketId::new_v4()
    }
}

/// A request about the sockets of a protocol whose number needs more than a byte.
struct OfProtocol {
    request: SockDiagMessage,
    protocol: Option<DefaultNla>,
}

impl Counting {
    fn question(self, request: SockDiagMessage) -> OfProtocol {
        let number = IPPROTO_MPTCP.to_ne_bytes().to_vec();
        let mptcp = self == Self::Mptcp;
        OfProtocol {
            request,
            protocol: mptcp.then(|| DefaultNla::new(INET_DIAG_REQ_PROTOCOL, number)),
        }
    }
}

impl NetlinkSerializable for OfProtocol {
    fn message_type(&self) -> u16 {
        self.request.message_type()
    }

    fn buffer_len(&self) -> usize {
        Emitable::buffer_len(&self.request) + self.protocol.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (request, protocol) = buffer.split_at_mut(Emitable::buffer_len(&self.request));
        self.request.emit(request);
        self.protocol.as_slice().emit(protocol);
    }
}

/// The name of the request, in refusals.
const NAME: &str = "socket statistics";

fn explain(asked: Result<(), Error>) -> Result<(), Error> {
    match asked {
        Err(Error::Refused(refusal)) if refusal.number() == libc::ENOENT => {
            Err(Error::Refused(refusal.meaning("this kernel lacks CONFIG_INET_DIAG")))
        }
        asked => asked,
    }
}

fn request(
    family: u8,
    states: StateFlags,
    extensions: ExtensionFlags,
    socket_id: SocketId,
) -> SockDiagMessage {
    SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions,
        states,
        socket_id,
    })
}

/// The attributes of every socket.
fn head(header: &InetResponseHeader) -> Glance {
    let socket = &header.socket_id;
    let pair = Pair {
        local: SocketAddr::new(socket.source_address, socket.source_port),
        remote: SocketAddr::new(socket.destination_address, socket.destination_port),
    };
    let timeouts = match header.timer {
        Some(Timer::Retransmit(_, timeouts)) => timeouts.into(),
        _ => 0,
    };
    // `idiag_wqueue` of a TCP socket: from what is not acknowledged to what was written.
    Glance { pair, timeouts, queued: header.send_queue }
}

/// A socket with its attributes; unless `tcp_info` is requested there is none, and without CAP_NET_ADMIN there is
/// nothing about MPTCP.
fn counted(payload: &[u8], each: impl FnOnce(Counted<'_>)) -> Result<(), DecodeError> {
    let header = InetResponseHeader::parse(payload)?;
    let Glance { pair, timeouts, queued } = head(&header);
    let (mut info, mut cc, mut memory, mut mptcp) = (None, None, None, None);
    let attributes = payload.get(size_of::<InetResponseBuffer>()..).unwrap_or_default();
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        match attribute.kind() {
            INET_DIAG_INFO => info = Some(attribute),
            INET_DIAG_CONG => cc = Some(attribute),
            INET_DIAG_SKMEMINFO => memory = Some(attribute),
            INET_DIAG_ULP_INFO => mptcp = Mptcp::parse(&attribute)?,
            _ => {}
        }
    }
    each(Counted {
        pair,
        timeouts,
        queued,
        state: header.state,
        inode: header.inode,
        device: header.socket_id.interface_id,
        info: info.as_ref().map_or(&[], NlaBuffer::value),
        cc: cc.as_ref().map_or(&[], NlaBuffer::value),
        memory: memory.as_ref().map_or(&[], NlaBuffer::value),
        mptcp,
        send_buffer: memory.as_ref().and_then(|memory| send_buffer(memory.value())),
        receive_buffer: memory.as_ref().and_then(|memory| number(memory.value(), 1)),
    });
    Ok(())
}

/// `SK_MEMINFO_*` of include/uapi/linux/sock_diag.h by its number: 1 is RCVBUF, 3 SNDBUF, 5 WMEM_QUEUED.
fn number(values: &[u8], index: usize) -> Option<u32> {
    parse_u32(values.get(4 * index..4 * index + 4)?).ok()
}

fn send_buffer(values: &[u8]) -> Option<(u32, u32)> {
    Some((number(values, 5)?, number(values, 3)?))
}

impl Counted<'_> {
    /// A subflow at a close look; none if it is no subflow.
    fn statistics(&self) -> Option<Statistics> {
        let mptcp = self.mptcp.filter(|_| !self.info.is_empty())?;
        let info = TcpInfo::parse(self.info);
        Some(Statistics {
            timeouts: self.timeouts,
            min_rtt_ns: info.min_rtt_ns,
            silent_ms: u32::try_from(info.silent_ns / 1_000_000).unwrap_or(u32::MAX),
            acked_bytes: info.bytes_acked,
            unacked: info.unacked,
            queued: self.queued,
            backup: mptcp.backup,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Answers as the kernel packs them, by hand.

    use super::subflow::INET_ULP_INFO_MPTCP;
    use super::*;
    use crate::kernel::testing::attribute;

    fn answer(flags: u32) -> Vec<u8> {
        let subflow = [
            attribute(1, &[9; 4]),
            attribute(8, &flags.to_ne_bytes()),
            attribute(9, &[3]),
            attribute(10, &[2]),
        ];
        let nested = attribute(INET_ULP_INFO_MPTCP, &subflow.concat());
        let mut bytes = vec![0; size_of::<InetResponseBuffer>()];
        bytes[0] = AF_INET;
        bytes.extend(attribute(INET_DIAG_INFO, &[0; 248]));
        bytes.extend(attribute(INET_DIAG_CONG, b"cubic\0"));
        bytes.extend(attribute(INET_DIAG_ULP_INFO, &[attribute(1, b"mptcp\0"), nested].concat()));
        bytes
    }

    #[test]
    fn a_subflow_is_read_with_its_role_at_both_ends() {
        for (flags, here, there) in
            [(0x1cf, false, false), (1 << 4, false, true), (1 << 5, true, false)]
        {
            let mut seen = false;
            counted(&answer(flags), |socket| {
                let mptcp = socket.mptcp.unwrap();
                assert_eq!((mptcp.backup, mptcp.backup_by_peer), (here, there));
                assert_eq!((mptcp.local_id, mptcp.remote_id), (2, 3));
                assert_eq!((socket.cc, socket.info.len()), (&b"cubic\0"[..], 248));
                seen = true;
            })
            .unwrap();
            assert!(seen);
        }
    }

    #[test]
    fn truncated_answers_are_harmless() {
        let whole = answer(0);
        for length in 0..whole.len() {
            let _ = counted(&whole[..length], |socket| assert_eq!(socket.mptcp, None, "{length}"));
        }
    }
}
