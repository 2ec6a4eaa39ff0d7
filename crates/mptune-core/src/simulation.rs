//! The virtual clock: one network, any number of connections on it, events in time order.
//!
//! It decides nothing; it delivers packets and timers to their owners.

use crate::engine::EventQueue;
use crate::mptcp::{Connection, ConnectionOptions, Io, Packet, Timer};
use crate::network::{Network, NetworkSpec};
use crate::pathmanager::{PathEnds, SubflowId};
use crate::units::Nanos;

/// A simulated network with its connections.
#[derive(Debug)]
pub struct Simulation {
    now: Nanos,
    events: u64,
    queue: EventQueue,
    network: Network<Packet>,
    /// The first source that is a timer; earlier ones belong to the network.
    first_timer: usize,
    flows: Vec<(usize, SubflowId)>,
    timers: Vec<(usize, Timer)>,
    paths: Vec<PathEnds>,
    lsrr_honoured: bool,
    connections: Vec<Connection>,
}

/// The parts of a simulation that a connection may touch, borrowed separately from the connections.
macro_rules! io {
    ($simulation:ident) => {
        Io {
            now: $simulation.now,
            queue: &mut $simulation.queue,
            network: &mut $simulation.network,
            flows: &mut $simulation.flows,
            timers: &mut $simulation.timers,
            paths: &$simulation.paths,
            lsrr_honoured: $simulation.lsrr_honoured,
        }
    };
}

impl Simulation {
    /// A network at time 0; the specification must be valid ([`NetworkSpec::validate`]).
    pub fn new(spec: &NetworkSpec, seed: u64) -> Self {
        let mut queue = EventQueue::new();
        let network = Network::new(spec, seed, &mut queue);
        let first_timer = network.sources();
        let ends =
            spec.paths.iter().map(|path| PathEnds { local: path.local, remote: path.remote });
        Self {
            now: 0,
            events: 0,
            queue,
            network,
            first_timer,
            flows: Vec::new(),
            timers: Vec::new(),
            paths: ends.collect(),
            lsrr_honoured: spec.lsrr_honoured,
            connections: Vec::new(),
        }
    }

    /// Adds a connection and returns its number.
    pub fn connect(&mut self, options: ConnectionOptions) -> usize {
        let number = self.connections.len();
        let connection = Connection::new(number, options, &mut io!(self));
        self.connections.push(connection);
        number
    }

    /// The connection with that number.
    pub fn connection(&self, number: usize) -> &Connection {
        &self.connections[number]
    }

    /// Keeps what happens at the network's edge from now on, see [`Network::watch`].
    pub fn watch(&mut self, limit: usize) {
        self.network.watch(limit);
    }

    /// The connection of a flow, unless the flow is closed.
    pub fn owner(&self, flow: u16) -> Option<usize> {
        let (number, _) = *self.flows.get(usize::from(flow))?;
        (number < self.connections.len()).then_some(number)
    }

    /// The network.
    pub fn network(&self) -> &Network<Packet> {
        &self.network
    }

    /// The current time: the last event's, or the end of the last run.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Handles everything up to and including `until`, or until `connection` has completed its
    /// transfer. False when no events are left: without completion, that is a stall.
    pub fn run(&mut self, until: Nanos, connection: usize) -> bool {
        while let Some((at, source)) = self.queue.earliest() {
            if at > until {
                self.now = until;
                return true;
            }
            debug_assert!(at >= self.now, "time went backwards");
            self.now = at;
            self.events += 1;
            if source < self.first_timer {
                let arrived = self.network.advance(&mut self.queue, source, until);
                if let Some((route, packet)) = arrived {
                    self.deliver(route, &packet);
                    if self.connections[connection].completed_at().is_some() {
                        return true;
                    }
                }
            } else {
                let (number, timer) = self.timers[source - self.first_timer];
                self.connections[number].on_timer(&mut io!(self), source, timer);
            }
        }
        false
    }

    #[inline]
    fn deliver(&mut self, route: usize, packet: &Packet) {
        let (number, id) = self.flows[usize::from(packet.flow)];
        // A closed flow belongs to no connection.
        let Some(connection) = self.connections.get_mut(number) else { return };
        if route % 2 == 0 {
            connection.on_receiver_packet(&mut io!(self), id, packet);
        } else {
            connection.on_sender_packet(&mut io!(self), id, packet);
        }
    }
}
