//! The interface of a connection to the simulation.

use crate::engine::{EventQueue, Source};
use crate::network::{Carried, Network};
use crate::pathmanager::{PathEnds, SubflowId};
use crate::units::Nanos;

/// The parts of the simulation that a connection may touch: `P` is its packet, `T` the purpose of a timer.
#[derive(Debug)]
pub struct Io<P, T> {
    /// The current time.
    pub now: Nanos,
    /// The event queue.
    pub queue: EventQueue,
    /// The network.
    pub network: Network<P>,
    /// For each flow number, its connection and subflow.
    pub flows: Vec<(usize, SubflowId)>,
    /// For each timer's source, counted from the first one, its connection and purpose.
    pub timers: Vec<(usize, T)>,
    /// The ends of every path.
    pub paths: Vec<PathEnds>,
    /// The network obeys loose source routes.
    pub lsrr_honoured: bool,
}

/// The connection number of a closed flow.
const NOBODY: usize = usize::MAX;

impl<P: Carried, T> Io<P, T> {
    pub(crate) fn add_timer(&mut self, connection: usize, timer: T) -> Source {
        self.timers.push((connection, timer));
        self.queue.add_source()
    }

    /// The number of a new flow.
    pub(crate) fn add_flow(&mut self, connection: usize, id: SubflowId) -> u32 {
        let flow = self.flows.len() as u32;
        self.flows.push((connection, id));
        flow
    }

    /// Packets of the flow that still arrive are discarded.
    pub(crate) fn close_flow(&mut self, flow: u32) {
        self.flows[flow as usize].0 = NOBODY;
    }

    #[inline(always)]
    pub(crate) fn send(&mut self, route: usize, size: u32, packet: P) {
        self.network.send(&mut self.queue, self.now, route, size, packet);
    }
}
