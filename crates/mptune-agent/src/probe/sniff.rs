//! Multipath TCP in a SYN-ACK: the kernel does not report it, so a raw socket reads it.
//!
//! RFC 8684, section 3.1: the SYN has an MP_CAPABLE of 4 bytes, the SYN-ACK one of 12 with the key. A
//! middlebox that copies unknown options sends the 4 bytes back.

use crate::kernel::address;
use crate::kernel::sys;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// Room for the headers of a segment.
const ROOM: usize = 256;
/// Segments to look at: the same peer may send others.
const MOST: usize = 1000;
const SYN_ACK: u8 = 0x12;
const END: u8 = 0;
const PADDING: u8 = 1;
/// The option, and the length of MP_CAPABLE in a SYN.
const MPTCP: u8 = 30;
const SYN_LENGTH: u8 = 4;

/// Sees the TCP segments that a host sends to an address.
pub struct Sniffer {
    socket: OwnedFd,
    v4: bool,
}

impl Sniffer {
    /// Starts listening; none without the privilege.
    pub fn open(local: IpAddr, peer: IpAddr) -> Option<Self> {
        let socket = sys::socket(address::family(local), libc::SOCK_RAW, libc::IPPROTO_TCP).ok()?;
        let any_port = |ip| address::encode(SocketAddr::new(ip, 0));
        sys::bind(socket.as_fd(), &any_port(local)).ok()?;
        sys::connect(socket.as_fd(), &any_port(peer)).ok()?;
        Some(Self { socket, v4: local.is_ipv4() })
    }

    /// Options in the SYN-ACK from one port to another; none if there was none.
    pub fn syn_ack(&self, from: u16, to: u16) -> Option<&'static str> {
        let mut data = [0; ROOM];
        for _ in 0..MOST {
            let length = sys::receive(self.socket.as_fd(), &mut data).ok()?.length;
            let heads = if self.v4 { usize::from(data[0] & 15) * 4 } else { 0 };
            if let Some(option) = data[..length].get(heads..).and_then(|tcp| kind(tcp, from, to)) {
                return Some(option);
            }
        }
        None
    }
}

/// Options of a segment, if it is the SYN-ACK.
fn kind(tcp: &[u8], from: u16, to: u16) -> Option<&'static str> {
    let port = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
    if port(0)? != from || port(2)? != to || tcp.get(13)? & 0x3f & SYN_ACK != SYN_ACK {
        return None;
    }
    let end = usize::from(tcp[12] >> 4) * 4;
    let mut options = tcp.get(20..end.min(tcp.len()))?;
    while let [option, rest @ ..] = options {
        match *option {
            END => break,
            PADDING => options = rest,
            _ => {
                let length = *rest.first()?;
                if *option == MPTCP {
                    return Some(if length == SYN_LENGTH { "mirrored" } else { "mptcp" });
                }
                options = options.get(usize::from(length).max(2)..)?;
            }
        }
    }
    Some("plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(flags: u8, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0; 20];
        tcp[1] = 80;
        tcp[3] = 90;
        tcp[12] = (((20 + options.len()) / 4) << 4) as u8;
        tcp[13] = flags;
        tcp.extend(options);
        tcp
    }

    #[test]
    fn the_option_of_a_syn_ack_is_distinguished_from_its_copy() {
        let mss = [2, 4, 5, 180];
        let key = [&mss[..], &[1, 1, 1, 1], &[30, 12, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        let copy = [&mss[..], &[30, 4, 1, 1]].concat();
        for (options, expected) in [(&key[..], "mptcp"), (&copy, "mirrored"), (&mss, "plain")] {
            assert_eq!(kind(&segment(SYN_ACK, options), 80, 90), Some(expected));
        }
        assert_eq!(kind(&segment(SYN_ACK, &key), 81, 90), None);
        assert_eq!(kind(&segment(2, &key), 80, 90), None);
        assert_eq!(kind(&segment(SYN_ACK, &[9, 0, 0, 0]), 80, 90), Some("plain"));
    }
}
