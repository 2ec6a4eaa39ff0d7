//! Multipath TCP (RFC 8684): each subflow has a socket, below that of the connection.

use super::rules::Rules;
use crate::mptcp::accounting::memory::{DSS_SIZE, ReceiveMemory, SendMemory};
use crate::mptcp::accounting::{BufferMode, SendTuning};
use crate::mptcp::packet::HandshakeSizes;
use crate::units::Bytes;

/// Multipath TCP.
pub(super) struct Mptcp;

impl Rules for Mptcp {
    /// TCP's headers and the DSS option with a DATA_ACK (RFC 8684 section 3.3).
    fn ack_size(&self) -> u32 {
        64
    }

    /// Headers (40), in a SYN with MSS, SACK-permitted, timestamps and window scale (20), later with timestamps
    /// alone (12); with them MP_CAPABLE (4, 12, 20 bytes; RFC 8684 figure 4), or MP_JOIN (12, 16, 24; figures 5 to
    /// 7). An acknowledgement with a DATA_ACK confirms a join.
    fn handshakes(&self) -> [HandshakeSizes; 2] {
        [[64, 72, 72, 64], [72, 76, 76, 64]].map(HandshakeSizes::new)
    }

    fn option_size(&self) -> u32 {
        DSS_SIZE
    }

    fn is_multipath(&self) -> bool {
        true
    }

    fn receive_memory(&self, mode: BufferMode, bytes: Bytes, full: u32) -> ReceiveMemory {
        ReceiveMemory::new(mode, bytes, full, full + DSS_SIZE)
    }

    fn send_memory(&self, limit: Bytes, full: u32, total: Bytes, edge: Bytes) -> SendMemory {
        SendMemory::new(limit, full, total, edge)
    }

    fn send_tuning(&self, limit: Bytes, windows: Bytes) -> SendTuning {
        SendTuning::linux(limit, windows)
    }
}
