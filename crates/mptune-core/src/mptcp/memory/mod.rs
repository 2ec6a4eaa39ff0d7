//! What the bytes of a buffer are charged with: payload, or memory as Linux counts it.
//!
//! Under [`Accounting::Payload`] a buffer of B bytes holds B bytes of payload, and nothing of this
//! module is used. Under [`Accounting::Linux`] B is the value given to `SO_SNDBUF` and `SO_RCVBUF`:
//! the kernel doubles it, charges each packet with the memory it occupies, derives the window from
//! what is free, and lets the window cut segments anywhere, so that they have different lengths.
//! `docs/explanation/buffers.md` tells what follows from that. The numbers and rules are those of
//! Linux 6.18, named file by file.
//!
//! Segments are counted here as everywhere; this keeps their lengths, and the byte positions of both
//! ends of the data sequence space.

mod charge;
mod receive;
mod send;
mod subflow;

pub use charge::{DSS_SIZE, full_payload, truesize};
pub use receive::ReceiveMemory;
pub use send::{SendMemory, WRITING};
pub use subflow::{Compression, SubflowMemory};

use crate::units::{Bytes, Seq};

/// What a buffer's bytes are charged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accounting {
    /// Payload.
    #[default]
    Payload,
    /// Socket memory, as the Linux kernel counts it.
    Linux,
}

/// The names of both, in the order of the enum.
pub const NAMES: &[&str] = &["payload", "linux"];

impl Accounting {
    /// The accounting called `name`, or none.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "payload" => Some(Self::Payload),
            "linux" => Some(Self::Linux),
            _ => None,
        }
    }
}

/// The socket memory of both ends.
#[derive(Debug)]
pub struct KernelMemory {
    /// The data sender's.
    pub sender: SendMemory,
    /// The data receiver's.
    pub receiver: ReceiveMemory,
}

impl KernelMemory {
    /// For these values of `SO_SNDBUF` and `SO_RCVBUF`, segments of at most `full` bytes, and a
    /// transfer of `total` bytes.
    pub fn new(send: Bytes, receive: Bytes, full: u32, total: Bytes) -> Self {
        let receiver = ReceiveMemory::new(receive, full);
        Self { sender: SendMemory::new(send, full, total, receiver.edge()), receiver }
    }

    /// The window of a connection at rest, in full segments.
    pub fn receive_window(&self) -> Seq {
        (self.receiver.rest_window() / Bytes::from(self.sender.full())).max(1) as Seq
    }
}
