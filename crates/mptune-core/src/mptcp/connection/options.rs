//! What a connection is asked to do, and what is done to it from outside.

use crate::congestion::Controller;
use crate::mptcp::memory::Accounting;
use crate::mptcp::scheduler;
use crate::pathmanager::{self, PathId};
use crate::units::{Bytes, Nanos};

/// What the connection has to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// The application always has more.
    Saturated,
    /// So many payload bytes.
    Transfer(Bytes),
}

/// Something done to a path from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedEvent {
    /// Its subflows carry no data from now on.
    Withdraw,
    /// They may again.
    Readmit,
    /// The path is cut.
    Cut,
    /// The path is restored.
    Restore,
    /// Its addresses are removed: its subflows are closed.
    Remove,
    /// They are announced again: its subflows are opened again.
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

/// How a connection is to behave.
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
    /// What the bytes of the buffers are charged with.
    pub accounting: Accounting,
    /// Shared send buffer: payload bytes, or the value of `SO_SNDBUF`.
    pub send_buffer: Bytes,
    /// Shared receive buffer: payload bytes, or the value of `SO_RCVBUF`.
    pub receive_buffer: Bytes,
    /// Payload bytes of a full segment; under Linux' accounting, including the DSS option.
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
