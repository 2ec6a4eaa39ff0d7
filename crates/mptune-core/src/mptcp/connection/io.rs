//! What of the simulation a connection may touch while it handles an event.

use crate::engine::{EventQueue, Source};
use crate::mptcp::Packet;
use crate::network::Network;
use crate::pathmanager::{PathEnds, SubflowId};
use crate::units::Nanos;

/// Whose timer an event source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The sender's or the handshake's, of a subflow.
    Subflow(SubflowId),
    /// The delayed ACK's, of a subflow.
    DelayedAck(SubflowId),
    /// The script's.
    Script,
}

/// Everything of the simulation that a connection may touch.
#[derive(Debug)]
pub struct Io<'a> {
    /// The current time.
    pub now: Nanos,
    /// The event queue.
    pub queue: &'a mut EventQueue,
    /// The network.
    pub network: &'a mut Network<Packet>,
    /// For each flow number, its connection and subflow.
    pub flows: &'a mut Vec<(usize, SubflowId)>,
    /// For each timer's source, counted from the first one, its connection and purpose.
    pub timers: &'a mut Vec<(usize, Timer)>,
    /// The ends of every path.
    pub paths: &'a [PathEnds],
    /// The network obeys loose source routes.
    pub lsrr_honoured: bool,
}

impl Io<'_> {
    pub(super) fn add_timer(&mut self, connection: usize, timer: Timer) -> Source {
        self.timers.push((connection, timer));
        self.queue.add_source()
    }

    #[inline]
    pub(super) fn send(&mut self, route: usize, size: u32, packet: Packet) {
        self.network.send(self.queue, self.now, route, size, packet);
    }
}
