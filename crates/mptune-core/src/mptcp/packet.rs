//! What the two ends of a connection exchange, and how large it is on the wire.

use crate::network::Carried;
use crate::tcp::SackBlocks;
use crate::units::Seq;

/// IPv4 (20) and TCP (20) headers with timestamps (12, RFC 7323). With 1448 bytes of payload a full
/// segment is a 1500-byte packet. The DSS option of a data segment is not counted: it would take the
/// payload to 1428 bytes in the same packet, which is up to the chosen segment size.
pub const DATA_HEADER: u32 = 52;
/// A pure ACK of plain TCP: headers alone.
pub const TCP_ACK_SIZE: u32 = 52;
/// MPTCP adds the DSS option with a DATA_ACK (RFC 8684 section 3.3).
pub const ACK_SIZE: u32 = 64;
/// Each SACK block adds 8 bytes, the first one 4 more for the option's header and padding (RFC 2018).
const SACK_HEAD: u32 = 4;
const SACK_BLOCK: u32 = 8;
/// SYN with MSS, SACK-permitted, timestamps, window scale and MP_CAPABLE or MP_JOIN.
pub const SYN_SIZE: u32 = 72;
/// The same without MP_CAPABLE.
pub const TCP_SYN_SIZE: u32 = 60;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// SYN with MP_CAPABLE or MP_JOIN.
    #[default]
    Syn,
    /// SYN/ACK.
    SynAck,
    /// Third packet of an MP_JOIN handshake, with the HMAC (RFC 8684 section 3.2).
    JoinAck,
    /// Fourth packet of an MP_JOIN handshake: only now may the initiator send data.
    JoinConfirmed,
    /// A data segment.
    Data,
    /// A pure acknowledgement.
    Ack,
}

/// A packet, small enough to be copied into the rings of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The subflow among all subflows of the simulation.
    pub flow: u16,
    /// What it is.
    pub kind: Kind,
    /// Ack: caused by a segment received twice (D-SACK).
    pub duplicate: bool,
    /// Data: the network may mark it instead of dropping it (ECT, RFC 3168 section 5).
    pub ecn_capable: bool,
    /// Data: the network marked it (CE).
    pub congestion_experienced: bool,
    /// Ack: a mark is echoed (ECE, RFC 3168 section 6.1). Data: the sender responded to the echo (CWR).
    pub ecn_signal: bool,
    /// Data: subflow sequence number. Ack: next one expected.
    pub seq: Seq,
    /// Data: data sequence number. Ack: DATA_ACK.
    pub data: Seq,
    /// Ack: data sequence number up to which the sender may send (right edge of the window); under
    /// Linux accounting the window in bytes. Data: payload bytes, under Linux accounting.
    pub window_edge: Seq,
    /// Ack: selectively acknowledged ranges.
    pub sack: SackBlocks,
}

impl Carried for Packet {
    #[inline]
    fn flow(&self) -> u32 {
        u32::from(self.flow)
    }

    #[inline]
    fn is_ect(&self) -> bool {
        self.ecn_capable
    }

    #[inline]
    fn mark_ce(&mut self) {
        self.congestion_experienced = true;
    }

    fn is(&self, entered: &Self) -> bool {
        let marked = Self { congestion_experienced: self.congestion_experienced, ..*entered };
        *self == marked
    }

    fn is_marked(&self) -> bool {
        self.congestion_experienced
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
