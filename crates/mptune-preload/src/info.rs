//! `struct tcp_info`, `struct mptcp_info` and socket addresses, read from bytes.
//!
//! Layouts: Linux `include/uapi/linux/tcp.h` and `include/uapi/linux/mptcp.h`. Both have only grown
//! at the end, so a field is read at its offset, and is none if the running kernel's structure ends
//! before it.

use crate::apart::{Answer, FULL_INFO_HEADER, assemble};
use crate::system::{Errno, FullInfo, SOL_MPTCP, System, TCP_INFO_ROOM, spare};
use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `MPTCP_INFO_FLAG_FALLBACK`.
const FLAG_FALLBACK: u32 = 1;
/// Offset of the local address in `struct mptcp_subflow_info`; the remote one follows.
const SUBFLOW_LOCAL: usize = 8;
const SUBFLOW_REMOTE: usize = SUBFLOW_LOCAL + 128;

macro_rules! read {
    ($type:ty, $bytes:expr, $offset:expr) => {
        $bytes
            .get($offset..)
            .and_then(|rest| rest.first_chunk())
            .map(|field| <$type>::from_ne_bytes(*field))
    };
}

/// A socket address as the kernel writes it; IPv4 in IPv6 becomes IPv4.
pub fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match i32::from(read!(u16, bytes, 0)?) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// The fields of `struct tcp_info` that are reported.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The kernel's number of the state, 1 for established.
    pub state: u8,
    /// Smoothed RTT; none before the first sample.
    pub rtt_ns: Option<u64>,
    /// Smallest RTT; none before the first sample.
    pub min_rtt_ns: Option<u64>,
    /// Congestion window, segments.
    pub cwnd: Option<u32>,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: Option<u64>,
    /// Payload bytes that the peer acknowledged.
    pub acked_bytes: Option<u64>,
    /// Payload bytes received in sequence on this subflow.
    pub received_bytes: Option<u64>,
    /// Payload bytes retransmitted.
    pub retransmitted_bytes: Option<u64>,
    /// Segments retransmitted.
    pub retransmitted_segments: Option<u32>,
    /// Retransmission timeouts (Linux 6.7).
    pub timeouts: Option<u16>,
    /// Time with data to send or unacknowledged.
    pub busy_ns: Option<u64>,
    /// Part of it limited by the peer's receive window.
    pub rwnd_limited_ns: Option<u64>,
    /// Part of it limited by the send buffer.
    pub sndbuf_limited_ns: Option<u64>,
}

impl TcpInfo {
    /// Reads a `struct tcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> Self {
        let ns = |micros: u64| micros.saturating_mul(1000);
        let rtt = |found: Option<u32>| {
            found.filter(|&micros| micros != 0 && micros != u32::MAX).map(|one| ns(one.into()))
        };
        Self {
            state: bytes.first().copied().unwrap_or(0),
            rtt_ns: rtt(read!(u32, bytes, 68)),
            min_rtt_ns: rtt(read!(u32, bytes, 148)),
            cwnd: read!(u32, bytes, 80),
            sent_bytes: read!(u64, bytes, 200),
            // The handshake's SYN counts as a byte.
            acked_bytes: read!(u64, bytes, 120).map(|bytes| bytes.saturating_sub(1)),
            received_bytes: read!(u64, bytes, 128),
            retransmitted_bytes: read!(u64, bytes, 208),
            retransmitted_segments: read!(u32, bytes, 100),
            timeouts: read!(u16, bytes, 240),
            busy_ns: read!(u64, bytes, 168).map(ns),
            rwnd_limited_ns: read!(u64, bytes, 176).map(ns),
            sndbuf_limited_ns: read!(u64, bytes, 184).map(ns),
        }
    }
}

/// The fields of `struct mptcp_info` that are reported.
#[derive(Debug, PartialEq, Eq)]
pub struct MptcpInfo {
    /// The connection became plain TCP.
    pub fallback: bool,
    /// Payload bytes handed to subflows once (Linux 6.5, as the next three).
    pub sent_bytes: Option<u64>,
    /// Payload bytes that the peer acknowledged.
    pub acked_bytes: Option<u64>,
    /// Payload bytes received in order.
    pub received_bytes: Option<u64>,
    /// Payload bytes sent again on another subflow.
    pub reinjected_bytes: Option<u64>,
}

/// One subflow with its ends.
pub struct Subflow {
    /// The kernel's number of the subflow in its connection (Linux 6.5).
    pub id: Option<u32>,
    /// This end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Its TCP state.
    pub tcp: TcpInfo,
}

impl FullInfo {
    /// Of a connected socket: by one call, or by those that kernels before it have.
    ///
    /// # Errors
    /// It is no connection of MPTCP.
    pub fn read(&mut self, system: &impl System, fd: c_int) -> Result<(), Errno> {
        let whole = system.full_info(fd, self);
        if whole != Err(libc::EOPNOTSUPP) {
            return whole;
        }
        let mut answer = Answer {
            header: &mut self.header,
            subflows: &mut self.subflows,
            tcp: &mut self.tcp,
            tcp_size: TCP_INFO_ROOM,
            spare: &mut spare(),
        };
        let option = |name, room: &mut [u8]| system.option(fd, SOL_MPTCP, name, room);
        self.header_length = assemble(option, &mut answer)?;
        Ok(())
    }

    /// The connection as a whole.
    pub fn connection(&self) -> MptcpInfo {
        let written = self.header.get(..self.header_length).unwrap_or(&[]);
        let bytes = written.get(FULL_INFO_HEADER..).unwrap_or(&[]);
        MptcpInfo {
            fallback: read!(u32, bytes, 8).unwrap_or(0) & FLAG_FALLBACK != 0,
            reinjected_bytes: read!(u64, bytes, 48),
            sent_bytes: read!(u64, bytes, 56),
            received_bytes: read!(u64, bytes, 64),
            acked_bytes: read!(u64, bytes, 72),
        }
    }

    /// Its subflows. The socket of a first subflow that ended stays, without a peer: it is left
    /// out.
    pub fn subflows(&self) -> impl Iterator<Item = Subflow> + '_ {
        let size = |offset| read!(u32, self.header, offset).unwrap_or(0) as usize;
        let (tcp_stride, subflow_stride, count) = (size(4), size(12), size(16));
        let flows = self.subflows.chunks_exact(subflow_stride.max(1));
        let infos = self.tcp.chunks_exact(tcp_stride.max(1));
        flows.zip(infos).take(count).filter_map(|(flow, info)| {
            Some(Subflow {
                id: read!(u32, flow, 0).filter(|&id| id != 0),
                local: address(flow.get(SUBFLOW_LOCAL..)?)?,
                remote: address(flow.get(SUBFLOW_REMOTE..)?).filter(|peer| peer.port() != 0)?,
                tcp: TcpInfo::parse(info),
            })
        })
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests may fail")]
mod tests {
    use super::*;
    use crate::testing::{put, socket_address};

    #[test]
    fn addresses_are_read_and_ipv4_in_ipv6_is_ipv4() {
        for (text, read) in [
            ("10.0.1.2:80", "10.0.1.2:80"),
            ("[fd00::1]:443", "[fd00::1]:443"),
            ("[::ffff:10.0.0.1]:22", "10.0.0.1:22"),
        ] {
            let bytes = socket_address(text.parse().unwrap());
            assert_eq!(address(&bytes), Some(read.parse().unwrap()), "{text}");
        }
        assert_eq!(address(&[1, 0, b'/', b't']), None, "a UNIX socket");
        assert_eq!(address(&[]), None);
    }

    #[test]
    fn fields_that_a_kernel_does_not_have_are_unknown() {
        let mut bytes = [0u8; 248];
        put(&mut bytes, 0, &[1]);
        put(&mut bytes, 68, &20_000u32.to_ne_bytes());
        put(&mut bytes, 148, &u32::MAX.to_ne_bytes());
        put(&mut bytes, 120, &1001u64.to_ne_bytes());
        put(&mut bytes, 240, &3u16.to_ne_bytes());
        let whole = TcpInfo::parse(&bytes);
        assert_eq!((whole.state, whole.rtt_ns, whole.min_rtt_ns), (1, Some(20_000_000), None));
        assert_eq!((whole.acked_bytes, whole.timeouts), (Some(1000), Some(3)));
        let old = TcpInfo::parse(&bytes[..104]);
        assert_eq!((old.rtt_ns, old.acked_bytes, old.timeouts), (Some(20_000_000), None, None));
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
    }
}
