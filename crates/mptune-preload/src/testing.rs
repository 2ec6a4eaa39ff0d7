//! An operating system made up for the tests.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests may fail")]
#![allow(clippy::arithmetic_side_effects, reason = "tests may fail")]

use crate::apart::{
    ADDRESSES, DATA_HEAD, FULL_INFO_HEADER, MPTCP_INFO, MPTCP_SUBFLOW_ADDRS, MPTCP_TCPINFO,
    SUBFLOW_INFO,
};
use crate::settings::Settings;
use crate::system::{End, Errno, FullInfo, IPPROTO_MPTCP, SOL_MPTCP, System, TCP_INFO_ROOM};
use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::net::{IpAddr, SocketAddr};

/// Settings of everything.
pub fn settings(mptcp: bool) -> Settings {
    Settings::read(|name| match name.to_bytes() {
        b"MPTUNE_EXEC_PROTOCOL" => Some(if mptcp { b"mptcp" } else { b"tcp" }),
        b"MPTUNE_EXEC_CC" => Some(b"olia"),
        b"MPTUNE_EXEC_BUFFER" => Some(b"4096"),
        _ => Some(b"/statistics"),
    })
}

/// Writes `value` at an offset.
pub fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// An address as the kernel writes it.
pub fn socket_address(address: SocketAddr) -> [u8; 28] {
    let mut bytes = [0; 28];
    let (family, place, ip) = match address.ip() {
        IpAddr::V4(ip) => (libc::AF_INET, 4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, 8, ip.octets().to_vec()),
    };
    put(&mut bytes, 0, &(family as u16).to_ne_bytes());
    put(&mut bytes, 2, &address.port().to_be_bytes());
    put(&mut bytes, place, &ip);
    bytes
}

/// An option that was set: descriptor, level, name, value.
type OptionSet = (c_int, c_int, c_int, Vec<u8>);

/// Its own ends of the two subflows, and the peer's.
const LOCAL: [&str; 2] = ["10.0.1.1:1", "10.0.2.1:2"];
const REMOTE: &str = "10.0.9.1:80";

/// The same subflows, by the options of older kernels; bytes that were written.
fn before_6_5(name: c_int, room: &mut [u8]) -> usize {
    let size = match name {
        MPTCP_INFO => return 48,
        MPTCP_TCPINFO => 232,
        _ => ADDRESSES,
    };
    for (offset, value) in [(4, LOCAL.len()), (8, size), (12, size)] {
        put(room, offset, &(value as u32).to_ne_bytes());
    }
    for (number, local) in LOCAL.iter().enumerate() {
        let element = &mut room[DATA_HEAD + number * size..][..size];
        element.fill(0);
        if name == MPTCP_SUBFLOW_ADDRS {
            put(element, 0, &socket_address(local.parse().unwrap()));
            put(element, 128, &socket_address(REMOTE.parse().unwrap()));
        } else {
            put(element, 80, &(10 + number as u32).to_ne_bytes());
        }
    }
    DATA_HEAD + LOCAL.len() * size
}

/// Notes what it is asked for.
#[derive(Default)]
pub struct Fake {
    /// The error with which it refuses MPTCP sockets.
    pub no_mptcp: Option<Errno>,
    /// The error with which it refuses options.
    pub no_option: Option<Errno>,
    /// True if every descriptor is an MPTCP connection of two subflows; otherwise none is of interest.
    pub connected: bool,
    /// True if it has no `MPTCP_FULL_INFO`.
    pub before_6_5: bool,
    /// True if the program is in a sandbox.
    pub confined: bool,
    /// Sockets asked for.
    pub made: RefCell<Vec<(c_int, c_int, c_int)>>,
    /// Options set.
    pub set: RefCell<Vec<OptionSet>>,
    /// Lines written.
    pub lines: RefCell<Vec<String>>,
}

impl System for Fake {
    fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        self.made.borrow_mut().push((domain, kind, protocol));
        if protocol == IPPROTO_MPTCP && self.no_mptcp.is_some() { -1 } else { 3 }
    }

    fn set_option(&self, fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
        self.set.borrow_mut().push((fd, level, name, value.to_vec()));
        self.no_option.map_or(Ok(()), Err)
    }

    fn option(&self, _: c_int, level: c_int, name: c_int, room: &mut [u8]) -> Result<usize, Errno> {
        if !self.connected {
            return Err(libc::ENOTSOCK);
        }
        if level == SOL_MPTCP {
            return Ok(before_6_5(name, room));
        }
        let value: &[u8] = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => &IPPROTO_MPTCP.to_ne_bytes(),
            (libc::SOL_SOCKET, libc::SO_COOKIE) => &77u64.to_ne_bytes(),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => &0i32.to_ne_bytes(),
            _ => b"olia\0",
        };
        put(room, 0, value);
        Ok(value.len())
    }

    fn full_info(&self, _: c_int, info: &mut FullInfo) -> Result<(), Errno> {
        if self.before_6_5 {
            return Err(libc::EOPNOTSUPP);
        }
        info.header_length = FULL_INFO_HEADER + 96;
        for (offset, size) in [(4, TCP_INFO_ROOM), (12, SUBFLOW_INFO), (16, 2)] {
            put(&mut info.header, offset, &(size as u32).to_ne_bytes());
        }
        for (number, local) in LOCAL.iter().enumerate() {
            let flow = &mut info.subflows[number * SUBFLOW_INFO..];
            put(flow, 0, &(number as u32 + 1).to_ne_bytes());
            put(flow, 8, &socket_address(local.parse().unwrap()));
            put(flow, 136, &socket_address(REMOTE.parse().unwrap()));
        }
        Ok(())
    }

    fn address(&self, _: c_int, _: End, _: &mut [u8; 128]) -> Option<usize> {
        None
    }

    fn error(&self) -> Errno {
        self.no_mptcp.unwrap_or(0)
    }

    fn append(&self, file: &CStr, line: &[u8]) {
        assert_eq!(file, c"/statistics");
        self.lines.borrow_mut().push(String::from_utf8(line.to_vec()).unwrap());
    }

    fn pid(&self) -> u32 {
        9
    }

    fn program(&self) -> &[u8] {
        b"prog"
    }

    fn now_ns(&self) -> u64 {
        1
    }

    fn descriptors(&self) -> c_int {
        8
    }

    fn is_free(&self) -> bool {
        !self.confined
    }
}
