//! `struct tcp_info`, `struct mptcp_info` and `struct mptcp_full_info`, read from bytes.
//!
//! Layouts: Linux `include/uapi/linux/tcp.h` and `include/uapi/linux/mptcp.h`. Both have only grown
//! at the end, so a field is read at its offset and is none if the running kernel's structure
//! ends before it; the headers of the build machine do not matter.

use crate::kernel::address;
use crate::kernel::apart::{
    ADDRESSES, Answer, DATA_HEAD, FULL_INFO_HEADER, SUBFLOW_INFO, assemble,
};
use crate::kernel::sys;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// `MPTCP_INFO_FLAG_FALLBACK`.
const FLAG_FALLBACK: u32 = 1;
/// Offset of the remote address in `struct mptcp_subflow_info`; the local one is at 8.
const SUBFLOW_REMOTE: usize = 8 + 128;
/// Room for `struct mptcp_info`, 96 bytes in Linux 6.18.
const MPTCP_INFO_ROOM: usize = 256;
/// Room for one `struct tcp_info`, 248 bytes in Linux 6.7, 280 with accurate ECN.
const TCP_INFO_ROOM: usize = 512;
/// Subflows asked for; a connection has at most one per pair of addresses and ports in use.
const MAX_SUBFLOWS: usize = 64;
/// With this variable in the environment connections are read as on Linux before 6.5.
const AS_BEFORE: &str = "MPTUNE_INFO_APART";

macro_rules! read {
    ($type:ty, $bytes:expr, $offset:expr) => {
        $bytes
            .get($offset..$offset + size_of::<$type>())
            .map(|field| <$type>::from_ne_bytes(field.try_into().expect("as long as the type")))
    };
}

/// The fields of `struct tcp_info` that are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed RTT, nanoseconds; 0 before the first sample.
    pub srtt_ns: u64,
    /// Smallest RTT, nanoseconds; 0 before the first sample.
    pub min_rtt_ns: u64,
    /// Retransmission timeout, with back-off, nanoseconds.
    pub rto_ns: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Size of a segment, bytes; its MPTCP options take some of it.
    pub mss: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Retransmission timeouts, including those of the handshake; none before Linux 6.7.
    pub timeouts: Option<u16>,
    /// The same without progress so far.
    pub timeouts_in_a_row: u8,
    /// Segments that were sent and not acknowledged yet.
    pub unacked: u32,
    /// Part of them that the peer has out of order.
    pub sacked: u32,
    /// Part of them that is believed lost.
    pub lost: u32,
    /// Slow-start threshold, segments; `TCP_INFINITE_SSTHRESH` before the first reduction.
    pub ssthresh: u32,
    /// State of its loss recovery (`tcp_ca_state`).
    pub state: u8,
    /// Part of them that was sent again.
    pub resent: u32,
    /// Bytes in its queue that were not sent yet.
    pub unsent: u32,
    /// Payload acknowledged per second at the last sample, bit/s; 0 before the first.
    pub delivery_rate_bps: u64,
    /// Its pacing rate is 0: the scheduler skips it, because a path policy holds it.
    pub held: bool,
    /// Zero-window or tail probes in a row without an answer.
    pub probes: u8,
    /// Payload bytes the peer acknowledged, and one for the handshake.
    pub bytes_acked: u64,
    /// Time since the last acknowledgement arrived, nanoseconds.
    pub silent_ns: u64,
    /// Payload bytes received in sequence on this subflow.
    pub bytes_received: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Time with data to send or unacknowledged, nanoseconds.
    pub busy_ns: u64,
    /// Part of it limited by the peer's receive window.
    pub rwnd_limited_ns: u64,
    /// Part of it limited by the send buffer.
    pub sndbuf_limited_ns: u64,
    /// RTT as a receiver of data estimates it, nanoseconds; 0 before the first sample.
    pub receive_rtt_ns: u64,
    /// The receive window that was offered last, bytes; none before Linux 6.2.
    pub receive_window: Option<u32>,
}

impl TcpInfo {
    /// Reads a `struct tcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> Self {
        let micros = |offset| u64::from(read!(u32, bytes, offset).unwrap_or(0)) * 1000;
        let long_micros = |offset| read!(u64, bytes, offset).unwrap_or(0).saturating_mul(1000);
        // All ones means "not measured".
        let min_rtt = read!(u32, bytes, 148).filter(|&rtt| rtt != u32::MAX).unwrap_or(0);
        Self {
            srtt_ns: micros(68),
            min_rtt_ns: u64::from(min_rtt) * 1000,
            rto_ns: micros(8),
            cwnd: read!(u32, bytes, 80).unwrap_or(0),
            mss: read!(u32, bytes, 16).unwrap_or(0),
            retransmitted: read!(u32, bytes, 100).unwrap_or(0),
            timeouts: read!(u16, bytes, 240),
            timeouts_in_a_row: bytes.get(2).copied().unwrap_or(0),
            unacked: read!(u32, bytes, 24).unwrap_or(0),
            silent_ns: u64::from(read!(u32, bytes, 56).unwrap_or(0)) * 1_000_000,
            sacked: read!(u32, bytes, 28).unwrap_or(0),
            lost: read!(u32, bytes, 32).unwrap_or(0),
            ssthresh: read!(u32, bytes, 76).unwrap_or(0),
            state: bytes.get(1).copied().unwrap_or(0),
            resent: read!(u32, bytes, 36).unwrap_or(0),
            unsent: read!(u32, bytes, 144).unwrap_or(0),
            delivery_rate_bps: read!(u64, bytes, 160).unwrap_or(0).saturating_mul(8),
            held: read!(u64, bytes, 104) == Some(0),
            probes: bytes.get(3).copied().unwrap_or(0),
            bytes_acked: read!(u64, bytes, 120).unwrap_or(0),
            bytes_received: read!(u64, bytes, 128).unwrap_or(0),
            bytes_sent: read!(u64, bytes, 200).unwrap_or(0),
            bytes_retransmitted: read!(u64, bytes, 208).unwrap_or(0),
            busy_ns: long_micros(168),
            rwnd_limited_ns: long_micros(176),
            sndbuf_limited_ns: long_micros(184),
            receive_rtt_ns: micros(92),
            receive_window: read!(u32, bytes, 232),
        }
    }
}

/// The fields of `struct mptcp_info` that are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// The connection became plain TCP.
    pub fallback: bool,
    /// Sequence number of the application's next byte in the payload.
    pub write_seq: u64,
    /// First byte of the payload's sequence that the peer has not acknowledged.
    pub snd_una: u64,
    /// Payload bytes reinjected on another subflow; none before Linux 6.5.
    pub bytes_reinjected: Option<u64>,
    /// Its token here; none for a structure that ends before it.
    pub token: Option<u32>,
    /// The limits of the kernel's own path manager apply to it. Without any it may still be that one's.
    pub kernel_limits: bool,
    /// Payload bytes handed to subflows for the first time; none before Linux 6.5, as the next two.
    pub bytes_sent: Option<u64>,
    /// Payload bytes received in order.
    pub bytes_received: Option<u64>,
    /// Payload bytes the peer acknowledged.
    pub bytes_acked: Option<u64>,
}

impl MptcpInfo {
    /// Reads a `struct mptcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            fallback: read!(u32, bytes, 8).unwrap_or(0) & FLAG_FALLBACK != 0,
            write_seq: read!(u64, bytes, 16).unwrap_or(0),
            snd_una: read!(u64, bytes, 24).unwrap_or(0),
            bytes_reinjected: read!(u64, bytes, 48),
            token: read!(u32, bytes, 12),
            kernel_limits: bytes.get(3..6).is_some_and(|limits| limits != [0; 3]),
            bytes_sent: read!(u64, bytes, 56),
            bytes_received: read!(u64, bytes, 64),
            bytes_acked: read!(u64, bytes, 72),
        }
    }
}

/// One subflow at one moment, as seen by its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubflowInfo {
    /// The kernel's number of the subflow in its connection, from 1 and never used twice; 0 before Linux 6.5, where
    /// they have none.
    pub id: u32,
    /// Own address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Its TCP state.
    pub tcp: TcpInfo,
}

/// The connection and its subflows at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullInfo {
    /// The connection.
    pub mptcp: MptcpInfo,
    /// The subflows.
    pub subflows: Vec<SubflowInfo>,
}

/// The data of `MPTCP_FULL_INFO`, not yet parsed.
struct RawFullInfo {
    /// `struct mptcp_full_info`, as long as the kernel wrote it.
    header: Vec<u8>,
    /// The array of `struct mptcp_subflow_info`.
    subflow_infos: Vec<u8>,
    /// The array of `struct tcp_info`.
    tcp_infos: Vec<u8>,
}

impl RawFullInfo {
    /// Nothing known yet.
    fn new() -> Self {
        Self {
            header: vec![0; FULL_INFO_HEADER + MPTCP_INFO_ROOM],
            subflow_infos: vec![0; MAX_SUBFLOWS * SUBFLOW_INFO],
            tcp_infos: vec![0; MAX_SUBFLOWS * TCP_INFO_ROOM],
        }
    }

    /// By `MPTCP_FULL_INFO`, at one moment.
    fn whole(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut raw = Self::new();
        for (offset, size) in [(4, TCP_INFO_ROOM), (12, SUBFLOW_INFO)] {
            raw.header[offset..offset + 4].copy_from_slice(&(size as u32).to_ne_bytes());
        }
        let arrays = [&mut raw.subflow_infos[..], &mut raw.tcp_infos[..]];
        let length = sys::full_info(fd, &mut raw.header, arrays, MAX_SUBFLOWS as u32)?;
        raw.header.truncate(length);
        Ok(raw)
    }

    /// By the calls that older kernels have.
    fn apart(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut raw = Self::new();
        let mut spare = vec![0; DATA_HEAD + MAX_SUBFLOWS * TCP_INFO_ROOM.max(ADDRESSES)];
        let mut answer = Answer {
            header: &mut raw.header,
            subflows: &mut raw.subflow_infos,
            tcp: &mut raw.tcp_infos,
            tcp_size: TCP_INFO_ROOM,
            spare: &mut spare,
        };
        let option = |name, room: &mut [u8]| sys::read_option(fd, sys::SOL_MPTCP, name, room);
        let length = assemble(option, &mut answer)?;
        raw.header.truncate(length);
        Ok(raw)
    }
}

impl FullInfo {
    /// Of a connected socket. The kernel is asked once whether it has the call for all of it.
    ///
    /// # Errors
    /// It has neither that nor the older ones (before Linux 5.16), or the socket is no connection of MPTCP.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        static APART: OnceLock<AtomicBool> = OnceLock::new();
        let apart = APART.get_or_init(|| AtomicBool::new(std::env::var_os(AS_BEFORE).is_some()));
        if !apart.load(Ordering::Relaxed) {
            match RawFullInfo::whole(fd) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    apart.store(true, Ordering::Relaxed);
                }
                whole => return whole.map(|raw| Self::parse(&raw)),
            }
        }
        RawFullInfo::apart(fd).map(|raw| Self::parse(&raw))
    }

    /// Parses what the kernel wrote, using the strides it reports.
    fn parse(raw: &RawFullInfo) -> Self {
        let size = |offset| read!(u32, raw.header, offset).unwrap_or(0) as usize;
        let (tcp_stride, subflow_stride, count) = (size(4), size(12), size(16));
        let element = |array: &[u8], stride: usize, index: usize| {
            array.get(index * stride..(index + 1) * stride).map(<[u8]>::to_vec)
        };
        let subflow = |index| {
            let info = element(&raw.subflow_infos, subflow_stride, index)?;
            let tcp = element(&raw.tcp_infos, tcp_stride, index)?;
            Some(SubflowInfo {
                id: read!(u32, info, 0)?,
                local: address::decode(info.get(8..)?)?,
                remote: address::decode(info.get(SUBFLOW_REMOTE..)?)?,
                tcp: TcpInfo::parse(&tcp),
            })
        };
        Self {
            mptcp: MptcpInfo::parse(raw.header.get(FULL_INFO_HEADER..).unwrap_or(&[])),
            // The socket of a first subflow that ended stays, without a peer.
            subflows: (0..count)
                .filter_map(subflow)
                .filter(|flow| flow.remote.port() != 0)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
        bytes[offset..offset + value.len()].copy_from_slice(value);
    }

    /// A `struct tcp_info` as Linux 6.18 lays it out, cut to `length` bytes.
    fn tcp_info(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; 280];
        put(&mut bytes, 1, &[3, 6, 5]);
        let in_flight = [(16, 1_448u32), (24, 12), (28, 3), (32, 4), (36, 2), (144, 900)];
        let others = [
            (8, 220_000),
            (56, 1_500),
            (68, 20_000),
            (76, 21),
            (80, 33),
            (92, 21_000),
            (100, 7),
            (148, 19_000),
            (232, 65_536),
        ];
        for (offset, value) in in_flight.into_iter().chain(others) {
            put(&mut bytes, offset, &value.to_ne_bytes());
        }
        let counters = [(120, 1), (128, 1u64 << 40), (160, 125_000), (200, 5_000), (208, 300)];
        // All ones means "not limited".
        for (offset, value) in counters.into_iter().chain([(104, u64::MAX)]) {
            put(&mut bytes, offset, &value.to_ne_bytes());
        }
        for (offset, micros) in [(168, 900u64), (176, 200), (184, 30)] {
            put(&mut bytes, offset, &micros.to_ne_bytes());
        }
        put(&mut bytes, 240, &2u16.to_ne_bytes());
        bytes.truncate(length);
        bytes
    }

    fn full_info(tcp_stride: usize, subflows: &[(&str, &str)]) -> RawFullInfo {
        let mut header = vec![0; FULL_INFO_HEADER + 96];
        for (offset, size) in [(4, tcp_stride), (12, 264), (16, subflows.len())] {
            put(&mut header, offset, &(size as u32).to_ne_bytes());
        }
        put(&mut header, FULL_INFO_HEADER + 48, &77u64.to_ne_bytes());
        let mut subflow_infos = vec![0; 64 * 264];
        for (index, (local, remote)) in subflows.iter().enumerate() {
            let info = &mut subflow_infos[index * 264..];
            put(info, 0, &(index as u32 + 1).to_ne_bytes());
            put(info, 8, &address::encode(local.parse().unwrap()));
            put(info, 136, &address::encode(remote.parse().unwrap()));
        }
        let mut tcp_infos = tcp_info(tcp_stride).repeat(subflows.len());
        tcp_infos.resize(64 * 512, 0);
        RawFullInfo { header, subflow_infos, tcp_infos }
    }

    #[test]
    fn fields_are_read_where_the_kernel_writes_them() {
        let info = TcpInfo::parse(&tcp_info(280));
        let expected = TcpInfo {
            srtt_ns: 20_000_000,
            min_rtt_ns: 19_000_000,
            rto_ns: 220_000_000,
            cwnd: 33,
            mss: 1_448,
            retransmitted: 7,
            timeouts: Some(2),
            timeouts_in_a_row: 6,
            unacked: 12,
            silent_ns: 1_500_000_000,
            sacked: 3,
            lost: 4,
            ssthresh: 21,
            state: 3,
            resent: 2,
            unsent: 900,
            delivery_rate_bps: 1_000_000,
            held: false,
            probes: 5,
            bytes_acked: 1,
            bytes_received: 1 << 40,
            bytes_sent: 5_000,
            bytes_retransmitted: 300,
            busy_ns: 900_000,
            rwnd_limited_ns: 200_000,
            sndbuf_limited_ns: 30_000,
            receive_rtt_ns: 21_000_000,
            receive_window: Some(65_536),
        };
        assert_eq!(info, expected);
        assert_eq!(TcpInfo::parse(&tcp_info(248)), expected);
    }

    #[test]
    fn an_older_kernel_reports_what_it_has() {
        let linux_6_1 = TcpInfo::parse(&tcp_info(240));
        assert_eq!((linux_6_1.timeouts, linux_6_1.bytes_sent), (None, 5_000));
        assert_eq!(TcpInfo::parse(&tcp_info(228)).receive_window, None);
        let linux_4_9 = TcpInfo::parse(&tcp_info(160));
        assert_eq!((linux_4_9.bytes_sent, linux_4_9.bytes_received), (0, 1 << 40));
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
    }

    #[test]
    fn a_pacing_rate_of_0_is_that_of_a_held_subflow() {
        let mut bytes = tcp_info(248);
        put(&mut bytes, 104, &0u64.to_ne_bytes());
        assert!(TcpInfo::parse(&bytes).held);
        put(&mut bytes, 104, &1u64.to_ne_bytes());
        assert!(!TcpInfo::parse(&bytes).held && !TcpInfo::parse(&bytes[..104]).held);
    }

    #[test]
    fn an_unmeasured_smallest_rtt_is_zero() {
        let mut bytes = tcp_info(248);
        put(&mut bytes, 148, &u32::MAX.to_ne_bytes());
        assert_eq!(TcpInfo::parse(&bytes).min_rtt_ns, 0);
    }

    #[test]
    fn fallback_and_reinjection_of_the_connection() {
        let mut bytes = vec![0; 96];
        put(&mut bytes, 8, &3u32.to_ne_bytes());
        put(&mut bytes, 24, &9u64.to_ne_bytes());
        put(&mut bytes, 48, &11u64.to_ne_bytes());
        let info = MptcpInfo::parse(&bytes);
        assert!(info.fallback);
        assert_eq!((info.snd_una, info.bytes_reinjected), (9, Some(11)));
        put(&mut bytes, 8, &2u32.to_ne_bytes());
        assert!(!MptcpInfo::parse(&bytes).fallback);
        assert_eq!(MptcpInfo::parse(&bytes[..48]).bytes_reinjected, None);
    }

    #[test]
    fn token_limits_and_bytes_of_the_connection() {
        let mut bytes = vec![0; 96];
        put(&mut bytes, 12, &0xdead_beef_u32.to_ne_bytes());
        for (offset, value) in [(16, 4u64), (56, 5), (64, 6), (72, 7)] {
            put(&mut bytes, offset, &value.to_ne_bytes());
        }
        let info = MptcpInfo::parse(&bytes);
        assert_eq!((info.token, info.kernel_limits), (Some(0xdead_beef), false));
        assert_eq!(info.write_seq, 4);
        let counted = (info.bytes_sent, info.bytes_received, info.bytes_acked);
        assert_eq!(counted, (Some(5), Some(6), Some(7)));
        put(&mut bytes, 3, &[2]);
        assert!(MptcpInfo::parse(&bytes).kernel_limits);
        assert_eq!(MptcpInfo::parse(&bytes[..56]).bytes_sent, None); // Linux 6.4
    }

    #[test]
    fn subflows_are_read_at_the_kernels_stride() {
        let ends = [("10.64.0.1:4000", "10.65.0.1:5000"), ("[fd64:0:1::1]:1", "[fd65::1]:2")];
        for tcp_stride in [160, 240, 248, 280] {
            let info = FullInfo::parse(&full_info(tcp_stride, &ends));
            assert_eq!(info.mptcp.bytes_reinjected, Some(77));
            assert_eq!(info.subflows.len(), 2);
            for (index, subflow) in info.subflows.iter().enumerate() {
                assert_eq!(subflow.id, index as u32 + 1);
                assert_eq!(subflow.local.to_string(), ends[index].0);
                assert_eq!(subflow.remote.to_string(), ends[index].1);
                assert_eq!(subflow.tcp, TcpInfo::parse(&tcp_info(tcp_stride)));
            }
        }
    }

    #[test]
    fn a_subflow_without_a_peer_is_none() {
        let ends = [("10.64.0.1:4000", "10.65.0.1:0"), ("10.64.1.1:4001", "10.65.0.1:5000")];
        let info = FullInfo::parse(&full_info(248, &ends));
        assert_eq!(info.subflows.iter().map(|flow| flow.id).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn more_subflows_than_asked_for_are_left_out() {
        let mut raw = full_info(248, &[("10.64.0.1:4000", "10.65.0.1:5000")]);
        put(&mut raw.header, 16, &1000u32.to_ne_bytes());
        assert_eq!(FullInfo::parse(&raw).subflows.len(), 1);
    }
}
