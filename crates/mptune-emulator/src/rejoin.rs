//! Rejoining of segments that arrive together, as by generic receive offload (`net/ipv4/tcp_offload.c`,
//! `tcp_gro_receive`): consecutive segments of a connection that differ only in their payload pass the stack as one.
//! Only above [`REJOINING`]: below, every segment is delivered, and acknowledged, by itself.

use crate::frame::{
    CHECKSUM, DATA_OFFSET, FLAGS, NEEDS_CHECKSUM, PREFIX, SEQUENCE, TCP_HEADER, TCP_V4, TCP_V6,
};
use crate::header::{replace, updated};
use mptune_core::network::RouteId;
use mptune_core::units::{BitsPerSecond, MICROSECOND, Nanos};

/// Capacity above which segments are rejoined: about the limit of two processors without.
pub(crate) const REJOINING: BitsPerSecond = 1_200_000_000;
/// Time for which segments are gathered: about that of a network card's interrupt coalescing.
pub(crate) const GATHERING: Nanos = 50 * MICROSECOND;

/// The largest packet.
const LARGEST: usize = u16::MAX as usize;
/// ACK, and PSH, which only the last segment may have.
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

/// One or more segments, as a device's frame.
#[derive(Debug)]
pub(crate) struct Train {
    route: RouteId,
    bytes: Vec<u8>,
    /// Offsets of TCP's header and of its payload.
    transport: usize,
    payload: usize,
    /// Payload of each segment; the last may have less.
    segment: usize,
    /// Due time of each of its packets.
    due: Vec<Nanos>,
    /// The sequence number that follows.
    next: u32,
    /// Nothing can follow.
    closed: bool,
}

impl Train {
    pub fn new() -> Self {
        let bytes = Vec::with_capacity(PREFIX + LARGEST);
        Self {
            route: 0,
            bytes,
            transport: 0,
            payload: 0,
            segment: 0,
            due: Vec::new(),
            next: 0,
            closed: true,
        }
    }

    /// Begins with a packet of any kind ([`crate::frame::Frame::write`]), due at `at`.
    pub fn begin(&mut self, route: RouteId, at: Nanos, written: &[u8]) {
        self.route = route;
        self.bytes.clear();
        self.bytes.extend_from_slice(written);
        self.due.clear();
        self.due.push(at);
        self.closed = true;
        if let Some(headers) = Headers::of(written) {
            self.transport = headers.transport;
            self.payload = headers.payload;
            self.segment = written.len() - headers.payload;
            self.next = headers.sequence.wrapping_add(self.segment as u32);
            self.closed = headers.flags != ACK;
        }
    }

    /// Appends a packet; false if it cannot follow.
    pub fn append(&mut self, at: Nanos, written: &[u8]) -> bool {
        if self.closed || self.bytes.len() - PREFIX + self.segment > LARGEST {
            return false;
        }
        let Some(headers) = Headers::of(written) else { return false };
        let length = written.len() - headers.payload;
        let follows = headers.payload == self.payload
            && headers.sequence == self.next
            && length <= self.segment
            && self.is_alike(written);
        if !follows {
            return false;
        }
        self.bytes.extend_from_slice(&written[headers.payload..]);
        let tcp = self.transport;
        self.bytes[tcp + FLAGS] |= headers.flags;
        self.next = self.next.wrapping_add(length as u32);
        self.due.push(at);
        self.closed = length < self.segment || headers.flags != ACK;
        true
    }

    /// The packet's headers are those of the first, except the fields that [`Self::finish`] sets, the sequence number
    /// and IPv4's identification.
    fn is_alike(&self, written: &[u8]) -> bool {
        let (own, other) = (&self.bytes[..self.payload], &written[..self.payload]);
        let tcp = self.transport;
        let ip = if own[PREFIX] >> 4 == 4 {
            // Up to the length, from the flags to the checksum, and the addresses.
            own[PREFIX..PREFIX + 2] == other[PREFIX..PREFIX + 2]
                && own[PREFIX + 6..PREFIX + 10] == other[PREFIX + 6..PREFIX + 10]
                && own[PREFIX + 12..tcp] == other[PREFIX + 12..tcp]
        } else {
            own[PREFIX..PREFIX + 4] == other[PREFIX..PREFIX + 4]
                && own[PREFIX + 6..tcp] == other[PREFIX + 6..tcp]
        };
        // Ports; the number acknowledged and the length of the header; the window; options, with those of MPTCP.
        ip && own[tcp..tcp + SEQUENCE] == other[tcp..tcp + SEQUENCE]
            && own[tcp + SEQUENCE + 4..tcp + FLAGS] == other[tcp + SEQUENCE + 4..tcp + FLAGS]
            && own[tcp + FLAGS + 1..tcp + CHECKSUM] == other[tcp + FLAGS + 1..tcp + CHECKSUM]
            && own[tcp + CHECKSUM + 2..] == other[tcp + CHECKSUM + 2..]
    }

    /// The frame for the device.
    pub fn finish(&mut self) -> &[u8] {
        if self.due.len() > 1 {
            self.close();
        }
        &self.bytes
    }

    /// Sets lengths, checksums and offloads of the whole.
    fn close(&mut self) {
        let tcp = self.transport;
        let (whole, first) = (self.bytes.len() - tcp, self.payload - tcp + self.segment);
        let (prefix, packet) = self.bytes.split_at_mut(PREFIX);
        let length = packet.len();
        let kind = if packet[0] >> 4 == 4 {
            replace(packet, 2, length as u16, 10);
            TCP_V4
        } else {
            packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
            TCP_V6
        };
        prefix[1] = kind;
        prefix[2..4].copy_from_slice(&((self.payload - PREFIX) as u16).to_ne_bytes());
        prefix[4..6].copy_from_slice(&(self.segment as u16).to_ne_bytes());
        let sum = &mut self.bytes[tcp + CHECKSUM..tcp + CHECKSUM + 2];
        let old = u16::from_be_bytes([sum[0], sum[1]]);
        // The sum of the pseudo-header, not its complement, and the length is part of it.
        sum.copy_from_slice(&(!updated(!old, first as u16, whole as u16)).to_be_bytes());
    }

    /// Due time of each of its packets.
    pub fn due(&self) -> &[Nanos] {
        &self.due
    }

    /// The bytes of its packets, each with its headers.
    pub fn packet_bytes(&self) -> u64 {
        let headers = if self.due.len() > 1 { self.payload - PREFIX } else { 0 };
        (self.bytes.len() - PREFIX + (self.due.len() - 1) * headers) as u64
    }

    pub fn route(&self) -> RouteId {
        self.route
    }
}

/// Of a segment with payload whose checksum is left to the device. All offsets are from the prefix's begin.
struct Headers {
    transport: usize,
    payload: usize,
    sequence: u32,
    flags: u8,
}

impl Headers {
    /// None for everything else, and for flags besides ACK and PSH.
    fn of(written: &[u8]) -> Option<Self> {
        let number = |at: usize| usize::from(u16::from_ne_bytes([written[at], written[at + 1]]));
        let transport = PREFIX + number(6);
        if written[0] != NEEDS_CHECKSUM || number(8) != CHECKSUM {
            return None;
        }
        let tcp = written.get(transport..).filter(|tcp| tcp.len() >= TCP_HEADER)?;
        let flags = tcp[FLAGS];
        let payload = transport + 4 * usize::from(tcp[DATA_OFFSET] >> 4);
        let is_data =
            flags & !PSH == ACK && payload >= transport + TCP_HEADER && payload < written.len();
        let sequence = u32::from_be_bytes(tcp[SEQUENCE..SEQUENCE + 4].try_into().ok()?);
        is_data.then_some(Self { transport, payload, sequence, flags })
    }
}

#[cfg(test)]
mod tests;
