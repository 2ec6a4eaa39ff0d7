//! What a connection should do, and what is done to it from outside.

use super::accounting::memory::full_payload;
use super::accounting::{Accounting, BufferMode};
use super::packet::DATA_HEADER;
use super::scheduler;
use crate::congestion::Controller;
use crate::pathmanager::{self, PathId, TransferSize};
use crate::units::{Bytes, Nanos};

/// What the connection has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// The application always has more.
    Saturated,
    /// This many payload bytes.
    Transfer(Bytes),
}

impl Workload {
    /// Total payload bytes, [`Bytes::MAX`] without an end.
    pub fn bytes(self) -> Bytes {
        match self {
            Self::Saturated => Bytes::MAX,
            Self::Transfer(bytes) => bytes,
        }
    }

    /// What a path manager that is informed of it knows.
    pub fn size(self) -> TransferSize {
        match self {
            Self::Saturated => TransferSize::Unlimited,
            Self::Transfer(bytes) => TransferSize::Known(bytes),
        }
    }
}

/// Something done to a path from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedEvent {
    /// Its subflows carry no data from now on.
    Withdraw,
    /// They may carry data again.
    Readmit,
    /// The path is cut.
    Cut,
    /// The path is restored.
    Restore,
    /// Its addresses are removed: its subflows are closed.
    Remove,
    /// They are announced again: its subflows are reopened.
    Announce,
    /// The application has no more to send; the path does not matter.
    Finish,
}

/// A scripted event with its time and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptedAction {
    /// When.
    pub at: Nanos,
    /// Where.
    pub path: PathId,
    /// What.
    pub event: ScriptedEvent,
}

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Congestion control of every subflow, in its initial state.
    pub controller: Controller,
    /// Scheduler.
    pub scheduler: scheduler::Policy,
    /// Path manager.
    pub path_manager: pathmanager::Policy,
    /// What there is to send.
    pub workload: Workload,
    /// What the path manager knows about it beforehand.
    pub size: TransferSize,
    /// What the bytes of the buffers are charged with.
    pub accounting: Accounting,
    /// Whether the buffers have the size below or grow up to it.
    pub buffer_mode: BufferMode,
    /// Shared send buffer: payload bytes, or the value of `SO_SNDBUF` or of `tcp_wmem[2]`.
    pub send_buffer: Bytes,
    /// Shared receive buffer: payload bytes, or the value of `SO_RCVBUF` or of `tcp_rmem[2]`.
    pub receive_buffer: Bytes,
    /// Payload bytes of a full segment; under Linux accounting, including the DSS option.
    pub mss: u32,
    /// Path of the MP_CAPABLE handshake.
    pub initial_path: PathId,
    /// Opportunistic retransmission and penalisation, as in the v0.9x kernels.
    pub opportunistic: bool,
    /// Segments leave in bursts, as with segmentation offload (TSO).
    pub tso: bool,
    /// Data is ECN-capable (RFC 3168).
    pub ecn: bool,
    /// When the first SYN is sent.
    pub start: Nanos,
    /// Scripted events, in any order.
    pub script: Vec<ScriptedAction>,
}

impl ConnectionOptions {
    /// Payload bytes of a full segment: under Linux accounting the DSS option takes up some of them.
    pub fn full_segment(&self) -> u32 {
        match self.accounting {
            Accounting::Payload => self.mss,
            Accounting::Linux => full_payload(self.mss),
        }
    }

    /// Bytes that come before the payload of a full segment in its packet.
    pub fn header(&self) -> u32 {
        DATA_HEADER + (self.mss - self.full_segment())
    }
}
