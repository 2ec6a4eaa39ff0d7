//! The parts of the simulation that a connection may touch while it handles an event.

use super::packet::Packet;
use crate::engine::{EventQueue, Source};
use crate::network::Network;
use crate::pathmanager::{PathEnds, SubflowId};
use crate::units::Nanos;

/// Which timer an event source is.
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
    /// The path manager's, if it wants samples.
    Sample,
}

/// Everything in the simulation that a connection may touch.
#[derive(Debug)]
pub struct Io {
    /// The current time.
    pub now: Nanos,
    /// The event queue.
    pub queue: EventQueue,
    /// The network.
    pub network: Network<Packet>,
    /// For each flow number, its connection and subflow.
    pub flows: Vec<(usize, SubflowId)>,
    /// For each timer's source, counted from the first one, its connection and purpose.
    pub timers: Vec<(usize, Timer)>,
    /// The ends of every path.
    pub paths: Vec<PathEnds>,
    /// The network obeys loose source routes.
    pub lsrr_honoured: bool,
}

/// Stands for the connection of a closed flow: there is none.
const NOBODY: usize = usize::MAX;

impl Io {
    pub(super) fn add_timer(&mut self, connection: usize, timer: Timer) -> Source {
        self.timers.push((connection, timer));
        self.queue.add_source()
    }

    /// A number for a new flow.
    pub(super) fn add_flow(&mut self, connection: usize, id: SubflowId) -> u16 {
        let flow = self.flows.len() as u16;
        self.flows.push((connection, id));
        flow
    }

    /// Packets of the flow that still arrive are discarded.
    pub(super) fn close_flow(&mut self, flow: u16) {
        self.flows[usize::from(flow)].0 = NOBODY;
    }

    #[inline(always)]
    pub(super) fn send(&mut self, route: usize, size: u32, packet: Packet) {
        self.network.send(&mut self.queue, self.now, route, size, packet);
    }
}
