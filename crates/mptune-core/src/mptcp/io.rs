//! The timers of a connection, and its interface to the simulation.

use super::packet::Packet;
use crate::pathmanager::SubflowId;
use crate::transport;

/// The parts of the simulation that a connection may touch.
pub type Io = transport::Io<Packet, Timer>;

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The sender's or the handshake's, of a subflow.
    Subflow(SubflowId),
    /// The delayed ACK's, of a subflow.
    DelayedAck(SubflowId),
    /// The script's.
    Script,
    /// The connection-level retransmission's.
    Data,
    /// The application's, when it waits for room to write.
    Application,
    /// The program's, when it has something to do.
    Program,
    /// The path manager's, if it takes samples.
    Sample,
}
