//! The packets of a connection, and their sizes on the wire.

use crate::network::Carried;
use crate::tcp::SackBlocks;
use crate::units::Seq;

/// IPv4 (20) and TCP (20) headers with timestamps (12, RFC 7323). With 1448 bytes of payload a full segment is a
/// 1500-byte packet. The DSS option of a data segment is not counted: it would reduce the payload to 1428 bytes in the
/// same packet, for which the segment size can be set.
pub const DATA_HEADER: u32 = 52;
/// Each SACK block adds 8 bytes, the first one 4 more for the option's header and padding (RFC 2018).
const SACK_HEAD: u32 = 4;
const SACK_BLOCK: u32 = 8;

/// The mapping of a DSS option: the payload's position in the data sequence space (RFC 8684 section 3.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapping {
    /// The segment within the data sequence space.
    pub data: Seq,
    /// Its first byte: the lower 32 bits, as in a data sequence number of 4 octets. Windows are below 2^30.
    pub start: u32,
    /// Payload bytes, at least one.
    pub length: u16,
}

/// A data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Subflow sequence number.
    pub seq: Seq,
    /// Its place in the data.
    pub mapping: Mapping,
    /// The network may mark it instead of dropping it (ECT, RFC 3168 section 5).
    pub ecn_capable: bool,
    /// The network marked it (CE).
    pub congestion_experienced: bool,
    /// The sender responded to the echo of a mark (CWR, RFC 3168 section 6.1).
    pub reduced: bool,
    /// No other follows it at once (PSH, RFC 9293 section 3.9.1.2): the receiver does not delay its ACK beyond the
    /// application's read.
    pub pushed: bool,
    /// Sent before on this subflow.
    pub repeated: bool,
    /// Timestamp of the newest acknowledgement before it, whole ms (TSecr, RFC 7323 section 3.2).
    pub echo: u16,
}

/// The segment that an ACK answers, as its D-SACK block (RFC 2883) and its echoed timestamp (TSecr, RFC 7323 section 4.3)
/// tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The first copy of one that is new.
    Original,
    /// A retransmission of one that is new.
    Repeated,
    /// One that was received before.
    Duplicate,
}

/// A pure acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Next segment expected on the subflow.
    pub next: Seq,
    /// DATA_ACK.
    pub data: Seq,
    /// Data sequence number up to which the sender may send (right edge of the window); under Linux accounting
    /// the window in bytes.
    pub window: Seq,
    /// Selectively acknowledged ranges.
    pub sack: SackBlocks,
    /// The packet that it answers.
    pub answers: Answered,
    /// A mark is echoed (ECE, RFC 3168 section 6.1).
    pub ecn_echo: bool,
    /// When it was sent, whole ms (TSval, RFC 7323 section 3.2).
    pub stamp: u16,
}

/// The content of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// SYN with MP_CAPABLE or MP_JOIN: the number of the copy, from 1 on.
    Syn(u32),
    /// SYN/ACK, and the copy that it answers, as its echoed timestamp tells (TSecr, RFC 7323 section 4.1).
    SynAck(u32),
    /// Third packet of the first subflow's handshake; nobody waits for it, data follows at once.
    #[default]
    HandshakeAck,
    /// Third packet of an MP_JOIN handshake, with the HMAC (RFC 8684 section 3.2).
    JoinAck,
    /// Fourth packet of an MP_JOIN handshake: only now may the initiator send data.
    JoinConfirmed,
    /// Data.
    Data(Segment),
    /// An acknowledgement without data.
    Ack(Ack),
}

/// Bytes of the packets of a handshake in their order, over IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeSizes([u32; 4]);

impl HandshakeSizes {
    /// SYN, SYN/ACK, ACK, and the confirmation that only a join has.
    pub const fn new(sizes: [u32; 4]) -> Self {
        Self(sizes)
    }

    /// Of a packet of a handshake.
    pub fn of(&self, content: &Content) -> u32 {
        let [syn, syn_ack, ack, confirmed] = self.0;
        match content {
            Content::Syn(_) => syn,
            Content::SynAck(_) => syn_ack,
            Content::HandshakeAck | Content::JoinAck => ack,
            Content::JoinConfirmed | Content::Data(_) | Content::Ack(_) => confirmed,
        }
    }
}

/// A packet, small enough to be copied into the rings of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The subflow among all subflows of the simulation.
    pub flow: u32,
    /// Its content.
    pub content: Content,
}

// With its times and route it fits a cache line in a link's ring.
const _: () = assert!(size_of::<Packet>() <= 36);

impl Carried for Packet {
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn is_ect(&self) -> bool {
        matches!(self.content, Content::Data(Segment { ecn_capable: true, .. }))
    }

    #[inline]
    fn mark_ce(&mut self) {
        if let Content::Data(segment) = &mut self.content {
            segment.congestion_experienced = true;
        }
    }

    fn is(&self, entered: &Self) -> bool {
        let [packet, original] = [self, entered].map(|packet| {
            let mut marked = *packet;
            marked.mark_ce();
            marked
        });
        packet == original
    }

    fn is_marked(&self) -> bool {
        matches!(self.content, Content::Data(Segment { congestion_experienced: true, .. }))
    }
}

/// Bytes that SACK blocks add to a pure ACK.
#[inline]
pub fn sack_size(sack: &SackBlocks) -> u32 {
    if sack[0].1 == 0 {
        return 0;
    }
    let blocks = sack.iter().filter(|block| block.1 > 0).count() as u32;
    SACK_HEAD + SACK_BLOCK * blocks
}
