//! A socket of a measurement: creating it, setting it up, reading back settings and statistics, closing it.

use super::config::Job;
use super::error::Error;
use crate::kernel::address;
use crate::kernel::apart;
use crate::kernel::info::{FullInfo, MptcpInfo, SubflowInfo, TcpInfo};
use crate::kernel::sys;
use serde::Serialize;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Room for a congestion control's name (`TCP_CA_NAME_MAX`).
const CC_NAME_ROOM: usize = 16;
/// Room for `struct tcp_info`.
const TCP_INFO_ROOM: usize = 512;

/// Send and receive buffer as the kernel stores them: twice what was granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Buffers {
    /// `SO_SNDBUF`, bytes.
    pub sndbuf: u32,
    /// `SO_RCVBUF`, bytes.
    pub rcvbuf: u32,
}

/// A stream socket for an address; `mptcp` false makes it plain TCP.
pub fn open(ip: IpAddr, mptcp: bool) -> io::Result<OwnedFd> {
    let protocol = if mptcp { sys::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
    sys::socket(address::family(ip), libc::SOCK_STREAM, protocol)
}

/// The same for a job, whose connection may have subflows of both families.
pub fn open_for(job: &Job, ip: IpAddr, mptcp: bool) -> io::Result<OwnedFd> {
    if job.both_families { open_for_both(mptcp) } else { open(ip, mptcp) }
}

/// A stream socket for an address of either family, IPv4 ones mapped into IPv6: Linux allows subflows of both
/// families in such a socket alone.
pub fn open_for_both(mptcp: bool) -> io::Result<OwnedFd> {
    let fd = open(Ipv6Addr::UNSPECIFIED.into(), mptcp)?;
    // Whatever `net.ipv6.bindv6only` is.
    let no = 0i32.to_ne_bytes();
    sys::set_option(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &no)?;
    Ok(fd)
}

/// True for the error of a namespace or kernel without MPTCP.
pub fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOPROTOOPT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP | libc::EINVAL)
    )
}

/// A socket as programs get one: of MPTCP if they ask for it and there is any, otherwise of TCP.
///
/// # Errors
/// Those of `open`, whose argument asks for MPTCP.
pub fn either(mptcp: bool, open: impl Fn(bool) -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    match open(mptcp) {
        Err(error) if mptcp && is_unsupported(&error) => open(false),
        socket => socket,
    }
}

/// Requests buffers of this size; without one the kernel lets them grow. Above the system's maximum only a
/// privileged process gets them; read back what was granted with [`buffers`].
///
/// # Errors
/// [`Error::Buffer`] of this half.
pub fn set_buffers(
    fd: BorrowedFd<'_>,
    bytes: Option<u32>,
    half: &'static str,
) -> Result<(), Error> {
    let Some(bytes) = bytes else { return Ok(()) };
    let options = [
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, "SO_SNDBUF"),
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, "SO_RCVBUF"),
    ];
    for (plain, force, option) in options {
        let value = bytes.to_ne_bytes();
        sys::set_option(fd, libc::SOL_SOCKET, plain, &value).map_err(|error| Error::Buffer {
            half,
            option,
            bytes,
            error,
        })?;
        if integer(fd, libc::SOL_SOCKET, plain).unwrap_or(0) < 2 * bytes {
            // Refused without the privilege; the effective value shows it.
            let _ = sys::set_option(fd, libc::SOL_SOCKET, force, &value);
        }
    }
    Ok(())
}

/// The effective buffers.
pub fn buffers(fd: BorrowedFd<'_>) -> io::Result<Buffers> {
    Ok(Buffers {
        sndbuf: integer(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)?,
        rcvbuf: integer(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?,
    })
}

/// Sets the congestion control. Requires a bound socket, whose first subflow exists: only that
/// subflow can refuse.
///
/// # Errors
/// [`Error::Congestion`].
pub fn set_congestion_control(fd: BorrowedFd<'_>, name: &str) -> Result<(), Error> {
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()).map_err(|error| {
        let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(available).unwrap_or_default();
        Error::Congestion { name: name.to_owned(), available: known.trim().to_owned(), error }
    })
}

/// Sends what is written at once, in however small segments; subflows to come do so too.
///
/// # Errors
/// An MPTCP socket before Linux 5.16 cannot.
pub fn set_no_delay(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32.to_ne_bytes())
}

/// The effective congestion control of the first subflow.
pub fn congestion_control(fd: BorrowedFd<'_>) -> io::Result<String> {
    let name = sys::option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, CC_NAME_ROOM)?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

fn integer(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<u32> {
    let value = sys::option(fd, level, name, 4)?;
    let value = value.try_into().map_err(|_| io::Error::other("a short integer option"))?;
    Ok(u32::from_ne_bytes(value))
}

/// The connection and its subflows at one moment.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Payload bytes reinjected on another subflow; none before Linux 6.5.
    pub reinjected: Option<u64>,
    /// Grows with the payload that the peer acknowledged, from an unspecified origin.
    pub acknowledged: u64,
    /// The subflows.
    pub subflows: Vec<SubflowInfo>,
    /// They are one connection of TCP.
    pub plain: bool,
}

impl Statistics {
    /// The subflow that the connection began with: the kernel numbers them.
    pub fn initial(&self) -> Option<SubflowInfo> {
        self.subflows.iter().min_by_key(|flow| flow.id).copied()
    }
}

/// Reason for missing statistics.
#[derive(Debug)]
pub enum NoStatistics {
    /// The connection became plain TCP.
    Fallback,
    /// Anything else.
    Other(String),
}

/// The statistics of a connected socket.
pub fn statistics(stream: &TcpStream, mptcp: bool) -> Result<Statistics, NoStatistics> {
    if !mptcp {
        return plain_statistics(stream)
            .map_err(|error| NoStatistics::Other(format!("TCP_INFO: {error}")));
    }
    connection_info(stream)?;
    let info = FullInfo::of(stream.as_fd()).map_err(|error| {
        let what = "statistics of subflows, which Linux has since 5.16";
        NoStatistics::Other(format!("{what}: {error}"))
    })?;
    Ok(Statistics {
        reinjected: info.mptcp.bytes_reinjected,
        acknowledged: info.mptcp.snd_una,
        subflows: info.subflows,
        plain: false,
    })
}

/// The statistics of a job's connection: TCP's if it became TCP, and the job takes that.
pub fn statistics_for(job: &Job, stream: &TcpStream) -> Result<Statistics, NoStatistics> {
    match statistics(stream, job.mptcp) {
        Err(NoStatistics::Fallback) if job.takes_tcp => statistics(stream, false),
        found => found,
    }
}

/// The initial subflow of a job's connection; none if there are no statistics of it.
pub fn initial_for(job: &Job, stream: &TcpStream) -> Option<SubflowInfo> {
    statistics_for(job, stream).ok().and_then(|statistics| statistics.initial())
}

/// `MPTCP_INFO`. A connection that became plain TCP passes the request on to TCP, which has no
/// such option (net/mptcp/sockopt.c, `mptcp_getsockopt`).
fn connection_info(stream: &TcpStream) -> Result<MptcpInfo, NoStatistics> {
    match sys::option(stream.as_fd(), sys::SOL_MPTCP, apart::MPTCP_INFO, 256) {
        Ok(bytes) => match MptcpInfo::parse(&bytes) {
            info if info.fallback => Err(NoStatistics::Fallback),
            info => Ok(info),
        },
        Err(error) if is_unsupported(&error) => Err(NoStatistics::Fallback),
        Err(error) => Err(NoStatistics::Other(format!("MPTCP_INFO: {error}"))),
    }
}

fn plain_statistics(stream: &TcpStream) -> io::Result<Statistics> {
    let fd = stream.as_fd();
    let bytes = sys::option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, TCP_INFO_ROOM)?;
    let tcp = TcpInfo::parse(&bytes);
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    let subflows = vec![SubflowInfo { id: 1, local, remote, tcp }];
    Ok(Statistics { reinjected: Some(0), acknowledged: tcp.bytes_acked, subflows, plain: true })
}

/// Starts connecting to `remote`.
pub fn connect(fd: BorrowedFd<'_>, remote: SocketAddr) -> io::Result<()> {
    match sys::connect(fd, &address::encode(remote)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// Ends a connection at once: queued data is discarded, the peer gets a reset (MP_FASTCLOSE),
/// and the kernel keeps no orphan that would continue sending.
pub fn abort(stream: TcpStream) {
    // A socket that is no longer connected refuses; closing it is then enough.
    let _ = sys::connect(stream.as_fd(), &[0; 16]);
}
