//! Plain TCP (RFC 9293): one subflow, whose socket is that of the connection.

use super::rules::Rules;
use crate::mptcp::accounting::memory::{ReceiveMemory, SendMemory};
use crate::mptcp::accounting::{BufferMode, SendTuning};
use crate::mptcp::packet::HandshakeSizes;
use crate::units::Bytes;

/// Plain TCP.
pub(super) struct Tcp;

impl Rules for Tcp {
    /// Headers alone.
    fn ack_size(&self) -> u32 {
        52
    }

    /// Headers (40), in a SYN with MSS, SACK-permitted, timestamps and window scale (20), later with timestamps
    /// alone (12). There is one subflow.
    fn handshakes(&self) -> [HandshakeSizes; 2] {
        [HandshakeSizes::new([60, 60, 52, 52]); 2]
    }

    fn option_size(&self) -> u32 {
        0
    }

    fn is_multipath(&self) -> bool {
        false
    }

    fn receive_memory(&self, mode: BufferMode, bytes: Bytes, full: u32) -> ReceiveMemory {
        ReceiveMemory::new(mode, bytes, full, full).of_plain_tcp()
    }

    fn send_memory(&self, limit: Bytes, full: u32, total: Bytes, edge: Bytes) -> SendMemory {
        SendMemory::of_packets(limit, full, total, edge)
    }

    /// A single, limited buffer (Linux `tcp_sndbuf_expand`).
    fn send_tuning(&self, limit: Bytes, windows: Bytes) -> SendTuning {
        SendTuning::limited(limit, windows)
    }
}
