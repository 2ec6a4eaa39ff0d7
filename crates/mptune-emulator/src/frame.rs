//! Frames of a TUN device: a packet behind a header with its offloads.
//!
//! The header is `struct virtio_net_hdr` of Linux `include/uapi/linux/virtio_net.h`. Two offloads are used: the
//! transport's checksum, which is not needed where no bit changes, and segmentation (TSO). The network carries
//! segments, so a large packet is cut here as the kernel would (`net/ipv4/tcp_offload.c`, `tcp_gso_segment`). Segments
//! are rejoined only in networks of high capacity (`rejoin`): otherwise the receiver acknowledges each.

use crate::header::{replace, updated};

/// Bytes before the packet.
pub(crate) const PREFIX: usize = 10;
/// The largest packet and what precedes it.
pub(crate) const LARGEST: usize = PREFIX + u16::MAX as usize;

/// Flag: so far the transport's checksum covers only the pseudo-header.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of packets to cut; with the bit only the first segment reports a reduced window (CWR).
pub(crate) const TCP_V4: u8 = 1;
pub(crate) const TCP_V6: u8 = 4;
const ECN: u8 = 0x80;

/// Offsets in a TCP header (RFC 9293, section 3.1).
pub(crate) const SEQUENCE: usize = 4;
pub(crate) const DATA_OFFSET: usize = 12;
pub(crate) const FLAGS: usize = 13;
pub(crate) const CHECKSUM: usize = 16;
pub(crate) const TCP_HEADER: usize = 20;
/// FIN and PSH belong to the last segment, CWR (RFC 3168) to the first.
const LAST_ONLY: u8 = 0x01 | 0x08;
const FIRST_ONLY: u8 = 0x80;

/// A frame read from a device: a packet, or several segments of a TCP connection.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    needs_checksum: bool,
    /// Offset of the transport's header, and of its checksum from there.
    transport: usize,
    checksum: usize,
    packet: &'a [u8],
    cut: Option<Cut>,
}

/// The segmentation of a packet.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Headers of IP and TCP.
    headers: usize,
    /// Payload of all segments but the last.
    payload: usize,
}

impl<'a> Frame<'a> {
    /// Parses the bytes that were read; none if they cannot come from a device.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (prefix, packet) = bytes.split_at_checked(PREFIX)?;
        let number = |at: usize| usize::from(u16::from_ne_bytes([prefix[at], prefix[at + 1]]));
        let (transport, checksum) = (number(6), number(8));
        let needs_checksum = prefix[0] & NEEDS_CHECKSUM != 0;
        let cut = match prefix[1] & !ECN {
            0 => None,
            TCP_V4 | TCP_V6 if needs_checksum && transport >= TCP_HEADER => {
                let offset = packet.get(transport + DATA_OFFSET)? >> 4;
                let headers = transport + 4 * usize::from(offset);
                let payload = number(4);
                if headers < transport + TCP_HEADER || headers >= packet.len() || payload == 0 {
                    return None;
                }
                Some(Cut { headers, payload })
            }
            _ => return None,
        };
        Some(Self { needs_checksum, transport, checksum, packet, cut })
    }

    /// The packet before it is cut.
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// The number of packets in it.
    pub fn count(&self) -> usize {
        self.cut.map_or(1, |cut| (self.packet.len() - cut.headers).div_ceil(cut.payload))
    }

    /// Length of its largest packet.
    pub fn largest(&self) -> usize {
        self.cut.map_or(self.packet.len(), |cut| self.packet.len().min(cut.headers + cut.payload))
    }

    /// Writes one of its packets as a device's frame. Returns the packet's length. `to` must have room for [`PREFIX`]
    /// and [`Self::largest`] bytes.
    pub fn write(&self, number: usize, to: &mut [u8]) -> usize {
        let (prefix, to) = to.split_at_mut(PREFIX);
        let length = match self.cut {
            None => {
                to[..self.packet.len()].copy_from_slice(self.packet);
                self.packet.len()
            }
            Some(cut) => self.write_segment(cut, number, to),
        };
        prefix.fill(0);
        if self.needs_checksum {
            prefix[0] = NEEDS_CHECKSUM;
            // The kernel keeps this much of the packet in one piece: all of it, as without this header.
            prefix[2..4].copy_from_slice(&(length as u16).to_ne_bytes());
            prefix[6..8].copy_from_slice(&(self.transport as u16).to_ne_bytes());
            prefix[8..10].copy_from_slice(&(self.checksum as u16).to_ne_bytes());
        }
        length
    }

    fn write_segment(&self, cut: Cut, number: usize, to: &mut [u8]) -> usize {
        let begin = number * cut.payload;
        let payload = &self.packet[cut.headers..][begin..];
        let payload = &payload[..payload.len().min(cut.payload)];
        let length = cut.headers + payload.len();
        to[..cut.headers].copy_from_slice(&self.packet[..cut.headers]);
        to[cut.headers..length].copy_from_slice(payload);
        if to[0] >> 4 == 4 {
            replace(to, 2, length as u16, 10);
            let identification = u16::from_be_bytes([to[4], to[5]]);
            replace(to, 4, identification.wrapping_add(number as u16), 10);
        } else {
            // The length behind the fixed header (RFC 8200, section 3).
            to[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        }
        let is_last = begin + payload.len() == self.packet.len() - cut.headers;
        let whole = (self.packet.len() - self.transport) as u16;
        segment_tcp(&mut to[self.transport..length], number, begin as u32, is_last, whole);
        length
    }
}

/// Turns the TCP header of everything sent at once into that of one segment; `whole` was its length.
fn segment_tcp(tcp: &mut [u8], number: usize, begin: u32, is_last: bool, whole: u16) {
    let sequence: &mut [u8; 4] = (&mut tcp[SEQUENCE..SEQUENCE + 4]).try_into().expect("4 bytes");
    *sequence = u32::from_be_bytes(*sequence).wrapping_add(begin).to_be_bytes();
    if !is_last {
        tcp[FLAGS] &= !LAST_ONLY;
    }
    if number > 0 {
        tcp[FLAGS] &= !FIRST_ONLY;
    }
    // So far it is the sum of the pseudo-header, not its complement; the length is part of that.
    let sum = u16::from_be_bytes([tcp[CHECKSUM], tcp[CHECKSUM + 1]]);
    let sum = !updated(!sum, whole, tcp.len() as u16);
    tcp[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests;
