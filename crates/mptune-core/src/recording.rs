//! A packet at the network's edge as a record of fixed length. The simulator fills it from its own state, the
//! emulator from headers.
//!
//! Positions count payload bytes from the first one, on the subflow and in the data sequence space; a handshake has
//! none. All numbers are little-endian. `python/mptune/capture` reads them.

use crate::network::Fate;
use crate::units::{NEVER, Nanos};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 88;
/// A position that a packet does not have; the time of an event that did not happen.
pub const NONE: u64 = u64::MAX;
/// SACK ranges in a record.
pub const SACKS: usize = 3;

/// Flags of TCP (RFC 9293 section 3.1).
pub mod flag {
    /// FIN.
    pub const FIN: u8 = 1;
    /// SYN.
    pub const SYN: u8 = 1 << 1;
    /// RST.
    pub const RST: u8 = 1 << 2;
    /// ACK.
    pub const ACK: u8 = 1 << 4;
    /// ECE.
    pub const ECE: u8 = 1 << 6;
    /// CWR.
    pub const CWR: u8 = 1 << 7;
}

/// Options of MPTCP (RFC 8684 section 3), and events on the way.
pub mod option {
    /// MP_CAPABLE.
    pub const CAPABLE: u8 = 1;
    /// MP_JOIN.
    pub const JOIN: u8 = 1 << 1;
    /// ADD_ADDR or REMOVE_ADDR.
    pub const ADDRESS: u8 = 1 << 2;
    /// MP_PRIO.
    pub const PRIORITY: u8 = 1 << 3;
    /// The DSS option's flag DATA_FIN.
    pub const DATA_FIN: u8 = 1 << 4;
    /// MP_FAIL, MP_FASTCLOSE or MP_TCPRST.
    pub const END: u8 = 1 << 5;
    /// The network marked the packet (CE).
    pub const MARKED: u8 = 1 << 6;
    /// The receiver had the segment before (D-SACK, RFC 2883).
    pub const DUPLICATE: u8 = 1 << 7;
}

/// A packet at the network's edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Entry into the network.
    pub entered: Nanos,
    /// Exit from the network; [`NEVER`] if unknown.
    pub left: Nanos,
    /// Position of its first byte on the subflow.
    pub seq: u64,
    /// Position of the next byte expected, in the other direction.
    pub ack: u64,
    /// Position of its first byte in the data sequence space.
    pub data: u64,
    /// DATA_ACK, a position in the other direction's data sequence space.
    pub data_ack: u64,
    /// The receive window in bytes.
    pub window: u32,
    /// Selectively acknowledged ranges, relative to `ack`; an empty one is none.
    pub sack: [(i32, i32); SACKS],
    /// Bytes of payload.
    pub length: u16,
    /// Bytes on the wire.
    pub size: u16,
    /// The subflow's number, in order of the first packets.
    pub flow: u16,
    /// Direction of its path ([`crate::network::RouteId`]).
    pub route: u8,
    /// See [`flag`].
    pub flags: u8,
    /// See [`option`].
    pub options: u8,
    /// Its fate.
    pub fate: Fate,
    /// Link that dropped or lost it.
    pub link: u8,
}

impl Record {
    /// Appends its bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let never = |at: Nanos| if at >= NEVER { NONE } else { at };
        for word in [self.entered, never(self.left), self.seq, self.ack, self.data, self.data_ack] {
            to.extend(word.to_le_bytes());
        }
        to.extend(self.window.to_le_bytes());
        for (start, end) in self.sack {
            to.extend(start.to_le_bytes());
            to.extend(end.to_le_bytes());
        }
        for half in [self.length, self.size, self.flow] {
            to.extend(half.to_le_bytes());
        }
        to.extend([self.route, self.flags, self.options, fate_number(self.fate), self.link, 0]);
    }
}

/// The encoding of a fate.
fn fate_number(fate: Fate) -> u8 {
    match fate {
        Fate::UnderWay => 0,
        Fate::Arrived => 1,
        Fate::Dropped => 2,
        Fate::Lost => 3,
        Fate::Cut => 4,
    }
}

/// Positions from numbers of 32 bits that wrap, each close to one before it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwrapped(u64);

impl Unwrapped {
    /// The position of a number relative to that of the first byte; what lies before is 0.
    pub fn position(&mut self, relative: u32) -> u64 {
        let step = relative.wrapping_sub(self.0 as u32) as i32;
        let position = self.0.saturating_add_signed(i64::from(step));
        self.0 = self.0.max(position);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_length() {
        let record = Record {
            entered: 1,
            left: NEVER,
            seq: 2,
            ack: 3,
            data: NONE,
            data_ack: 4,
            window: 5,
            sack: [(-6, 7), (0, 0), (0, 0)],
            length: 8,
            size: 9,
            flow: 10,
            route: 11,
            flags: flag::ACK,
            options: option::JOIN,
            fate: Fate::Lost,
            link: 12,
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(bytes[8..16], NONE.to_le_bytes());
        assert_eq!(bytes[52..56], (-6i32).to_le_bytes());
        assert_eq!(bytes[82..], [11, 16, 2, 3, 12, 0]);
    }

    #[test]
    fn positions_go_on_where_numbers_wrap() {
        let mut unwrapped = Unwrapped::default();
        let all = [0u64, 1 << 30, (1 << 31) + 5, (1 << 32) - 1, (1 << 32) + 7, (1 << 32) - 9];
        for position in all {
            assert_eq!(unwrapped.position(position as u32), position);
        }
        assert_eq!(Unwrapped::default().position(u32::MAX), 0, "a SYN comes before the first byte");
    }
}
