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
    /// Messages there and back, each on two of them.
    both_ways: Vec<BothWays>,
    /// Of each connection, its part in programs that have two of them; shorter where the last have none.
    parts: Vec<Option<Part>>,
}

/// A connection's part in programs whose data go both ways: each direction is a connection here.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Responses or requests of the exchange with this number.
    Exchange(usize),
    /// Messages both ways with this number.
    Messages(usize),
}

/// Messages both ways.
#[derive(Debug)]
struct BothWays {
    /// Numbers of the connections that carry them there and back.
    connections: [usize; 2],
    /// Segments that each had sent on its subflows when something last happened on one of them.
    sent: [Vec<u64>; 2],
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
            both_ways: vec![],
            parts: vec![],
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
        self.take_part(Part::Exchange(self.exchanges.len()), connections);
        self.connections[connections[0]].accept();
        self.exchanges.push(Exchange::new(purpose, connections));
    }

    /// Messages go both ways from now on, there and back on these connections.
    pub fn send_both_ways(&mut self, connections: [usize; 2]) {
        self.take_part(Part::Messages(self.both_ways.len()), connections);
        self.both_ways.push(BothWays { connections, sent: [vec![], vec![]] });
    }

    fn take_part(&mut self, part: Part, connections: [usize; 2]) {
        for number in connections {
            self.parts.resize(self.parts.len().max(number + 1), None);
            self.parts[number] = Some(part);
        }
    }

    fn part_of(&self, number: usize) -> Option<Part> {
        *self.parts.get(number)?
    }

    /// The exchange whose responses a connection carries.
    fn exchange_of(&self, number: usize) -> Option<&Exchange> {
        let Part::Exchange(exchange) = self.part_of(number)? else { return None };
        let exchange = &self.exchanges[exchange];
        exchange.is_on(number).then_some(exchange)
    }

    /// The connections that carry the messages of a connection there and back, or itself.
    fn ways_of(&self, number: usize) -> impl Iterator<Item = &T> {
        let back = match self.part_of(number) {
            Some(Part::Messages(both)) => Some(self.both_ways[both].connections[1]),
            _ => None,
        };
        std::iter::once(number).chain(back).map(|number| &self.connections[number])
    }

    /// Time at which the whole workload of a connection was delivered, or the last response to its client.
    pub fn completed_at(&self, number: usize) -> Option<Nanos> {
        match self.exchange_of(number) {
            Some(exchange) => exchange.over_at(),
            // The latest of them, if all have completed.
            None => self
                .ways_of(number)
                .map(T::completed_at)
                .reduce(|all, own| Some(all?.max(own?)))
                .flatten(),
        }
    }

    /// Delays of the messages of a connection, those of the way back behind the others; or times of the responses to
    /// its client.
    pub fn delays(&self, number: usize) -> Vec<Nanos> {
        if let Some(exchange) = self.exchange_of(number) {
            return exchange.times().to_vec();
        }
        self.ways_of(number).flat_map(|way| way.delays().unwrap_or_default()).copied().collect()
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
            let mut touched = if source < self.first_timer {
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
            if !self.parts.is_empty() {
                touched = self.step(touched);
            }
            if touched == connection && self.completed_at(connection).is_some() {
                return true;
            }
        }
        false
    }

    /// The programs on this connection do what is due; the connection by which they are measured.
    fn step(&mut self, number: usize) -> usize {
        match self.part_of(number) {
            Some(Part::Exchange(exchange)) => {
                self.exchanges[exchange].step(&mut self.connections, &mut self.io);
                number
            }
            Some(Part::Messages(both)) => {
                self.ride(both);
                self.both_ways[both].connections[0]
            }
            None => number,
        }
    }

    /// ACKs of one direction travel with what was just sent in the other.
    fn ride(&mut self, both: usize) {
        let BothWays { connections, sent } = &mut self.both_ways[both];
        for (way, counts) in sent.iter_mut().enumerate() {
            let (sending, acknowledging) = (connections[way], connections[1 - way]);
            let mut number = 0;
            while let Some(count) = self.connections[sending].sent(number) {
                counts.resize(counts.len().max(number + 1), 0);
                if std::mem::replace(&mut counts[number], count) < count {
                    self.connections[acknowledging].on_data_sent_back(&mut self.io, number);
                }
                number += 1;
            }
        }
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
