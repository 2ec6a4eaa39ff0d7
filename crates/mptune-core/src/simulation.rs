//! The virtual clock: one network, any number of connections on it, events in time order.
//!
//! It delivers packets and timers to their owners, decides nothing, and knows no protocol.

use crate::engine::EventQueue;
use crate::exchange::Exchange;
use crate::network::{Carried, Family, Network, NetworkSpec};
use crate::pathmanager::PathEnds;
use crate::transport::{Io, Transport};
use crate::units::Nanos;
use crate::workload::{Piece, Purpose};
use std::sync::Arc;

/// A simulated network with its connections.
#[derive(Debug)]
pub struct Simulation<T: Transport> {
    /// The parts that connections may touch.
    io: Io<T::Packet, T::Timer>,
    events: u64,
    /// The first source that is a timer; earlier ones belong to the network.
    first_timer: usize,
    connections: Vec<T>,
    /// Clients and servers, each on two of them.
    exchanges: Vec<Exchange>,
    /// Of each connection, the number of its exchange; shorter where the last have none.
    exchanging: Vec<Option<usize>>,
}

impl<T: Transport> Simulation<T> {
    /// A network at time 0; the specification must be valid ([`NetworkSpec::validate`]).
    pub fn new(spec: &NetworkSpec, seed: u64) -> Self {
        Self::over(spec, Family::default(), seed)
    }

    /// The same with the family of paths that have none of their own.
    pub fn over(spec: &NetworkSpec, family: Family, seed: u64) -> Self {
        let mut queue = EventQueue::new();
        let network = Network::new(spec, seed, &mut queue);
        let first_timer = network.sources();
        let io = Io {
            now: 0,
            queue,
            network,
            flows: Vec::new(),
            timers: Vec::new(),
            paths: PathEnds::of_all(spec, family),
            lsrr_honoured: spec.lsrr_honoured,
        };
        Self {
            io,
            events: 0,
            first_timer,
            connections: vec![],
            exchanges: vec![],
            exchanging: vec![],
        }
    }

    /// Adds a connection and returns its number.
    pub fn connect(&mut self, options: T::Options) -> usize {
        let number = self.connections.len();
        let connection = T::open(number, options, &mut self.io);
        self.connections.push(connection);
        number
    }

    /// A client and a server from now on, on the connections of the responses and of the requests.
    pub fn exchange(&mut self, purpose: Arc<dyn Purpose>, connections: [usize; 2]) {
        for number in connections {
            if self.exchanging.len() <= number {
                self.exchanging.resize(number + 1, None);
            }
            self.exchanging[number] = Some(self.exchanges.len());
        }
        self.exchanges.push(Exchange::new(purpose, connections));
    }

    /// The exchange whose responses a connection carries.
    fn exchange_of(&self, number: usize) -> Option<&Exchange> {
        let exchange = &self.exchanges[(*self.exchanging.get(number)?)?];
        exchange.is_on(number).then_some(exchange)
    }

    /// Time at which the whole workload of a connection was delivered, or the last response to its client.
    pub fn completed_at(&self, number: usize) -> Option<Nanos> {
        match self.exchange_of(number) {
            Some(exchange) => exchange.over_at(),
            None => self.connections[number].completed_at(),
        }
    }

    /// Delays of the messages of a connection, or times of the responses to its client.
    pub fn delays(&self, number: usize) -> &[Nanos] {
        self.exchange_of(number).map_or_else(
            || self.connections[number].delays().unwrap_or_default(),
            |exchange| exchange.times(),
        )
    }

    /// Records of the pieces of a connection's workload beside their times.
    pub fn pieces(&self, number: usize) -> &[Piece] {
        self.exchange_of(number).map_or(&[], Exchange::pieces)
    }

    /// The connection with that number.
    pub fn connection(&self, number: usize) -> &T {
        &self.connections[number]
    }

    /// A contradiction in the accounts of any connection: a fault of the simulator.
    pub fn contradiction(&self) -> Option<String> {
        self.connections.iter().find_map(T::contradiction)
    }

    /// Records packets at the network's edge from now on, see [`Network::watch`].
    pub fn watch(&mut self, limit: usize) {
        self.io.network.watch(limit);
    }

    /// The connection of a flow, unless the flow is closed.
    pub fn owner(&self, flow: u32) -> Option<usize> {
        let (number, _) = *self.io.flows.get(flow as usize)?;
        (number < self.connections.len()).then_some(number)
    }

    /// The network.
    pub fn network(&self) -> &Network<T::Packet> {
        &self.io.network
    }

    /// The current time: the last event's, or the end of the last run.
    pub fn now(&self) -> Nanos {
        self.io.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Handles everything up to and including `until`, or until `connection` has completed its
    /// transfer, or its client has the last response. False when no events are left: without completion, that is a
    /// stall.
    pub fn run(&mut self, until: Nanos, connection: usize) -> bool {
        while let Some((at, source)) = self.io.queue.earliest() {
            if at > until {
                self.io.now = until;
                return true;
            }
            debug_assert!(at >= self.io.now, "time went backwards");
            self.io.now = at;
            self.events += 1;
            let touched = if source < self.first_timer {
                let (network, queue) = (&mut self.io.network, &mut self.io.queue);
                let arrived = match network.arrive(queue, source) {
                    None => network.advance(queue, source, until),
                    arrived => arrived,
                };
                let Some((route, packet)) = arrived else { continue };
                let Some(number) = self.deliver(route, &packet) else { continue };
                number
            } else {
                let (number, timer) = self.io.timers[source - self.first_timer];
                self.connections[number].on_timer(&mut self.io, source, timer);
                number
            };
            if !self.exchanges.is_empty() {
                self.step(touched);
            }
            if touched == connection && self.completed_at(connection).is_some() {
                return true;
            }
        }
        false
    }

    /// The programs of the exchange on this connection do what is due.
    fn step(&mut self, number: usize) {
        let Some(Some(exchange)) = self.exchanging.get(number) else { return };
        self.exchanges[*exchange].step(&mut self.connections, &mut self.io);
    }

    /// Delivers a forged packet at the end of a route.
    #[cfg(test)]
    pub(crate) fn inject(&mut self, route: usize, packet: &T::Packet) {
        self.deliver(route, packet);
    }

    /// The connection with that number, to be damaged.
    #[cfg(test)]
    pub(crate) fn connection_mut(&mut self, number: usize) -> &mut T {
        &mut self.connections[number]
    }

    /// Delivers a packet at the end of its route: the connection that got it.
    #[inline]
    fn deliver(&mut self, route: usize, packet: &T::Packet) -> Option<usize> {
        let (number, id) = self.io.flows[packet.flow() as usize];
        // A closed flow belongs to no connection.
        let connection = self.connections.get_mut(number)?;
        let to_receiver = route.is_multiple_of(2) != connection.is_reversed();
        if to_receiver {
            connection.on_receiver_packet(&mut self.io, id, packet);
        } else {
            connection.on_sender_packet(&mut self.io, id, packet);
        }
        Some(number)
    }
}
