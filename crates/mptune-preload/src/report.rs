//! The lines of statistics: one JSON object each, appended to the file that `mptune exec` reads.
//!
//! | event | when | fields |
//! |---|---|---|
//! | `open` | a connection is begun or accepted | `role`, `remote` |
//! | `state` | before it is closed, shut down or asked for `TCP_INFO`, and when the process ends | `kind`, addresses, counters, `subflows` |
//! | `refused` | something could not be had | `what`, `errno` |
//!
//! All have `pid`, `command` and `at_ns`, the first two `cookie`: the kernel's number of the socket,
//! the same in every process that shares it. A later `state` replaces an earlier one.

use crate::info::{MptcpInfo, Subflow, TcpInfo, address};
use crate::line::Line;
use crate::system::{End, Errno, FullInfo, IPPROTO_MPTCP, System, TCP_INFO_ROOM};
use std::ffi::{CStr, c_int};
use std::fmt::{self, Display, Write};
use std::net::SocketAddr;

/// Room for what closes a line.
const CLOSING: usize = 8;
/// Room for the name of a congestion control, `TCP_CA_NAME_MAX`.
const CC_ROOM: usize = 16;

/// Something that a program does not get as it was asked for.
#[derive(Clone, Copy)]
pub enum Refused {
    /// An MPTCP socket.
    Mptcp,
    /// The congestion control.
    Congestion,
    /// The buffers.
    Buffer,
    /// An option that the program set itself, by its name.
    Option(&'static str),
}

/// End that began a connection.
#[derive(Clone, Copy)]
pub enum Role {
    /// This program did.
    Client,
    /// The peer did.
    Server,
}

/// Writes lines about this process's sockets to a file.
pub struct Reporter<'a, S> {
    /// The system calls.
    pub system: &'a S,
    /// Destination of the lines.
    pub file: &'a CStr,
}

impl<S: System> Reporter<'_, S> {
    /// Something was refused.
    pub fn refused(&self, what: Refused, error: Errno) {
        let what = match what {
            Refused::Mptcp => "mptcp",
            Refused::Congestion => "congestion control",
            Refused::Buffer => "buffer",
            Refused::Option(name) => name,
        };
        self.write("refused", |line| write!(line, r#","what":"{what}","errno":{error}}}"#));
    }

    /// A connection is begun, to `remote` if that is known already, or accepted.
    pub fn opened(&self, fd: c_int, role: Role, remote: Option<SocketAddr>) {
        let Some((_, cookie)) = self.stream(fd) else { return };
        let role = match role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let remote = remote.or_else(|| self.end(fd, End::Remote));
        self.write("open", |line| {
            write!(line, r#","cookie":{cookie},"role":"{role}","remote":{}}}"#, Text(remote))
        });
    }

    /// Totals of a connection until now; nothing if `fd` is none.
    pub fn state(&self, fd: c_int) {
        let Some((protocol, cookie)) = self.stream(fd) else { return };
        if self.number(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1) {
            return;
        }
        let mut full = FullInfo::new();
        let known = protocol == IPPROTO_MPTCP && full.read(self.system, fd).is_ok();
        let info = full.connection();
        self.write("state", |line| {
            write!(line, r#","cookie":{cookie},"kind":"#)?;
            line.quoted(kind(protocol, known, &info))?;
            let (local, remote) = (self.end(fd, End::Local), self.end(fd, End::Remote));
            write!(line, r#","local":{},"remote":{},"cc":"#, Text(local), Text(remote))?;
            self.congestion_control(fd, line)?;
            if known && !info.fallback {
                connection(line, &info)?;
                subflows(line, full.subflows())
            } else {
                let tcp = self.tcp(fd);
                write!(line, r#","tcp":"#)?;
                counters(line, &tcp)?;
                line.write_str("}")
            }
        });
    }

    /// Protocol and cookie of a TCP or MPTCP socket; none of anything else.
    fn stream(&self, fd: c_int) -> Option<(c_int, u64)> {
        let protocol = self.number(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
        if protocol != libc::IPPROTO_TCP && protocol != IPPROTO_MPTCP {
            return None;
        }
        let mut cookie = [0; 8];
        self.system.option(fd, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie).ok()?;
        Some((protocol, u64::from_ne_bytes(cookie)))
    }

    fn number(&self, fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
        let mut value = [0; 4];
        self.system.option(fd, level, name, &mut value).ok()?;
        Some(c_int::from_ne_bytes(value))
    }

    fn end(&self, fd: c_int, end: End) -> Option<SocketAddr> {
        let mut room = [0; 128];
        let length = self.system.address(fd, end, &mut room)?;
        address(room.get(..length)?)
    }

    fn tcp(&self, fd: c_int) -> TcpInfo {
        let mut room = [0; TCP_INFO_ROOM];
        let length = self.system.option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut room);
        TcpInfo::parse(room.get(..length.unwrap_or(0)).unwrap_or(&[]))
    }

    fn congestion_control(&self, fd: c_int, line: &mut Line) -> fmt::Result {
        let mut room = [0; CC_ROOM];
        match self.system.option(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut room) {
            Ok(_) => line.quoted(room.split(|&byte| byte == 0).next().unwrap_or(&[])),
            Err(_) => line.write_str("null"),
        }
    }

    /// Writes a line that begins as all do, and is finished by `rest`.
    fn write(&self, event: &str, rest: impl FnOnce(&mut Line) -> fmt::Result) {
        let mut line = Line::new();
        let (pid, now) = (self.system.pid(), self.system.now_ns());
        let written = write!(line, r#"{{"event":"{event}","pid":{pid},"at_ns":{now},"command":"#)
            .and_then(|()| line.quoted(self.system.program()))
            .and_then(|()| rest(&mut line))
            .and_then(|()| line.write_str("\n"));
        if written.is_ok() {
            self.system.append(self.file, line.as_bytes());
        }
    }
}

/// Kind of a socket. One of MPTCP that has become plain TCP no longer answers for MPTCP.
fn kind(protocol: c_int, known: bool, info: &MptcpInfo) -> &'static [u8] {
    match protocol {
        IPPROTO_MPTCP if known && !info.fallback => b"mptcp",
        IPPROTO_MPTCP => b"fallback",
        _ => b"tcp",
    }
}

fn connection(line: &mut Line, info: &MptcpInfo) -> fmt::Result {
    field(line, "sent_bytes", info.sent_bytes)?;
    field(line, "acked_bytes", info.acked_bytes)?;
    field(line, "received_bytes", info.received_bytes)?;
    field(line, "reinjected_bytes", info.reinjected_bytes)
}

/// As many subflows as fit.
fn subflows(line: &mut Line, found: impl Iterator<Item = Subflow>) -> fmt::Result {
    line.write_str(r#","subflows":["#)?;
    let mut separator = "";
    for flow in found {
        let fits = line.whole(CLOSING, |line| {
            write!(line, r#"{separator}{{"local":"{}","remote":"{}""#, flow.local, flow.remote)?;
            field(line, "id", flow.id)?;
            write!(line, r#","tcp":"#)?;
            counters(line, &flow.tcp)?;
            line.write_str("}")
        });
        if fits.is_err() {
            break;
        }
        separator = ",";
    }
    line.write_str("]}")
}

fn counters(line: &mut Line, tcp: &TcpInfo) -> fmt::Result {
    write!(line, r#"{{"state":{}"#, tcp.state)?;
    field(line, "rtt_ns", tcp.rtt_ns)?;
    field(line, "min_rtt_ns", tcp.min_rtt_ns)?;
    field(line, "cwnd", tcp.cwnd)?;
    field(line, "sent_bytes", tcp.sent_bytes)?;
    field(line, "acked_bytes", tcp.acked_bytes)?;
    field(line, "received_bytes", tcp.received_bytes)?;
    field(line, "retransmitted_bytes", tcp.retransmitted_bytes)?;
    field(line, "retransmitted_segments", tcp.retransmitted_segments)?;
    field(line, "timeouts", tcp.timeouts)?;
    field(line, "busy_ns", tcp.busy_ns)?;
    field(line, "rwnd_limited_ns", tcp.rwnd_limited_ns)?;
    field(line, "sndbuf_limited_ns", tcp.sndbuf_limited_ns)?;
    line.write_str("}")
}

/// A field of the line, unless its value is unknown.
fn field(line: &mut Line, name: &str, value: Option<impl Display>) -> fmt::Result {
    value.map_or(Ok(()), |known| write!(line, r#","{name}":{known}"#))
}

/// An address in quotation marks, or null.
struct Text(Option<SocketAddr>);

impl Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(known) => write!(out, "\"{known}\""),
            None => out.write_str("null"),
        }
    }
}
