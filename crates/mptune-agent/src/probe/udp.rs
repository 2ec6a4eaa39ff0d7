//! A socket for datagrams at one of the addresses.

use super::packet::{HEAD, LARGEST};
use crate::kernel::address;
use crate::kernel::sys;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Room for what arrives while this process waits for the processor, and for a burst to be sent, bytes.
const BUFFER: i32 = 8 << 20;

/// No packet waits this long to be read.
const IMPOSSIBLE_NS: u64 = 10_000_000_000;

/// A bound socket.
pub struct Endpoint {
    socket: UdpSocket,
    /// Bytes of the headers of IP and UDP.
    heads: usize,
}

/// Fate of a packet.
pub enum Outcome {
    /// It left.
    Sent,
    /// There is no room at the moment.
    Full,
    /// The kernel refuses to send it.
    Refused(String),
}

/// A packet that arrived.
pub struct Packet {
    /// Its bytes in the buffer.
    pub length: usize,
    /// Its sender.
    pub from: SocketAddr,
    /// Time of its arrival at this machine, CLOCK_MONOTONIC.
    pub at_ns: u64,
}

impl Endpoint {
    /// Opens it; packets are never fragmented, and the kernel stamps their arrival.
    pub fn open(ip: IpAddr, port: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(ip, port))?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_fd();
        let whole = match ip {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            IpAddr::V6(_) => {
                (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
            }
        };
        sys::set_option(fd, whole.0, whole.1, &whole.2.to_ne_bytes())?;
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32.to_ne_bytes())?;
        for (plain, force) in
            [(libc::SO_RCVBUF, libc::SO_RCVBUFFORCE), (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE)]
        {
            let bytes = BUFFER.to_ne_bytes();
            if sys::set_option(fd, libc::SOL_SOCKET, force, &bytes).is_err() {
                sys::set_option(fd, libc::SOL_SOCKET, plain, &bytes)?;
            }
        }
        Ok(Self { socket, heads: if ip.is_ipv4() { 28 } else { 48 } })
    }

    /// Its port.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// For poll(2).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends the beginning of `buffer` as a packet of `bytes` in all.
    pub fn send(&self, buffer: &[u8], bytes: usize, to: Option<SocketAddr>) -> Outcome {
        let Some(to) = to else {
            return Outcome::Refused("nothing arrived on this path yet".to_owned());
        };
        match self.socket.send_to(&buffer[..bytes - self.heads], to) {
            Ok(_) => Outcome::Sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Outcome::Full,
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }

    /// Answers; an answer that cannot be sent is lost like any other packet.
    pub fn answer(&self, packet: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(packet, to);
    }

    /// Takes a packet, if there is one.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
        let datagram = match sys::receive(self.socket.as_fd(), buffer) {
            Ok(datagram) => datagram,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(from) = address::decode(&datagram.from) else { return Ok(None) };
        // The kernel's clock may be set at any time, so only the age of the packet counts, if it is possible.
        let age_ns = datagram.arrived_ns.map_or(0, |at| sys::realtime_ns().saturating_sub(at));
        let age_ns = if age_ns < IMPOSSIBLE_NS { age_ns } else { 0 };
        let at_ns = sys::monotonic_ns().saturating_sub(age_ns);
        Ok(Some(Packet { length: datagram.length, from, at_ns }))
    }

    /// The least and the largest size of a packet.
    pub fn sizes(&self) -> (usize, usize) {
        (self.heads + HEAD, LARGEST)
    }
}
