//! The trait of protocols.

use crate::mptcp::accounting::memory::{ReceiveMemory, SendMemory};
use crate::mptcp::accounting::{BufferMode, SendTuning};
use crate::mptcp::packet::HandshakeSizes;
use crate::units::Bytes;

/// The differences between protocols. Memory and its growth are those under Linux accounting.
pub trait Rules {
    /// Bytes of a pure ACK without SACK blocks, over IPv4.
    fn ack_size(&self) -> u32;

    /// Of the first subflow's handshake, and of the others'.
    fn handshakes(&self) -> [HandshakeSizes; 2];

    /// Bytes that its options take from the payload of a full segment, where they are counted.
    fn option_size(&self) -> u32;

    /// A connection may have several subflows: data lost on one is reinjected on others.
    fn is_multipath(&self) -> bool;

    /// A receive buffer of this many bytes, or one that grows up to them; full segments have `full` bytes of
    /// payload.
    fn receive_memory(&self, mode: BufferMode, bytes: Bytes, full: u32) -> ReceiveMemory;

    /// A send buffer with this value of `sk_sndbuf` for `total` bytes in all; the receiver's window ends at
    /// `edge`.
    fn send_memory(&self, limit: Bytes, full: u32, total: Bytes, edge: Bytes) -> SendMemory;

    /// Growth of a send buffer up to a limit; `windows` as in [`SendTuning::linux`].
    fn send_tuning(&self, limit: Bytes, windows: Bytes) -> SendTuning;
}
