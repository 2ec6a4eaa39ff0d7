//! Multipath TCP (RFC 8684): each subflow has a socket, below that of the connection.

use super::rules::Rules;
use crate::mptcp::accounting::memory::{DSS_SIZE, ReceiveMemory, SendMemory};
use crate::mptcp::accounting::{BufferMode, SendTuning};
use crate::units::Bytes;

/// Multipath TCP.
pub(super) struct Mptcp;

impl Rules for Mptcp {
    /// TCP's headers and the DSS option with a DATA_ACK (RFC 8684 section 3.3).
    fn ack_size(&self) -> u32 {
        64
    }

    /// SYN with MSS, SACK-permitted, timestamps, window scale and MP_CAPABLE or MP_JOIN.
    fn syn_size(&self) -> u32 {
        72
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
