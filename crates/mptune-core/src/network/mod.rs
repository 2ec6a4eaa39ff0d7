//! The network model: FIFO links with rate, delay, jitter, a drop-tail queue and random loss, put
//! together to routes that may share links.
//!
//! One model with two drivers: the simulator calls it with a virtual clock, an emulator with the
//! real one. It carries an opaque payload and knows no protocol. What makes it fast: a packet's way
//! through a FIFO is known the moment it enters, so a packet costs one event at the end of its route
//! plus one for each link on the way that packets enter from more than one upstream link; packets
//! in flight wait in one ring per such place.

mod link;
mod spec;

pub use link::{Link, LinkCounters};
pub use spec::{LinkSpec, NetworkSpec, PathSpec, SpecError};

use crate::engine::{EventQueue, Random, Ring, Source};
use crate::units::{NEVER, Nanos};

/// A direction of a path: `2 * path` from the data sender to the receiver, `2 * path + 1` back.
pub type RouteId = usize;

/// The route of a path's data direction.
#[inline]
pub fn forward(path: usize) -> RouteId {
    2 * path
}

/// The route of a path's ACK direction.
#[inline]
pub fn reverse(path: usize) -> RouteId {
    2 * path + 1
}

/// A packet on its way, in a ring.
#[derive(Debug, Clone, Copy, Default)]
struct InFlight<P> {
    at: Nanos,
    route: u32,
    hop: u16,
    size: u16,
    payload: P,
}

/// Where packets leaving a link on some route go next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Straight into the route's next link: nothing else can enter it in between.
    Link,
    /// Into a ring, to be taken out at the time of arrival: at a link where routes merge, or at the
    /// end of the route.
    Ring(usize),
}

#[derive(Debug, Clone)]
struct Hop {
    link: usize,
    next: Next,
}

#[derive(Debug, Clone)]
struct Route {
    hops: Vec<Hop>,
    up: bool,
}

/// All links and routes with the packets on them.
#[derive(Debug)]
pub struct Network<P> {
    links: Vec<Link>,
    routes: Vec<Route>,
    rings: Vec<Ring<InFlight<P>>>,
    first_source: Source,
}

impl<P: Copy + Default> Network<P> {
    /// Builds the network; its rings become sources of `queue`. The specification must be valid
    /// ([`NetworkSpec::validate`]).
    pub fn new(spec: &NetworkSpec, seed: u64, queue: &mut EventQueue) -> Self {
        let links = spec.links.iter().enumerate();
        let links = links.map(|(i, link)| Link::new(link, Random::new(seed, i as u64))).collect();
        let ways = spec.paths.iter().flat_map(|path| [&path.forward, &path.reverse]);
        let ways: Vec<&Vec<usize>> = ways.collect();
        let mut ring_of = Vec::new();
        let routes = ways.iter().map(|way| route(way, &ways, &mut ring_of)).collect();
        let sources: Vec<Source> = ring_of.iter().map(|_| queue.add_source()).collect();
        Self {
            links,
            routes,
            rings: ring_of.iter().map(|_| Ring::new()).collect(),
            first_source: sources.first().copied().unwrap_or(0),
        }
    }

    /// The number of its event sources, which are consecutive.
    pub fn sources(&self) -> usize {
        self.rings.len()
    }

    /// A packet of `size` bytes enters a route. It is dropped silently where a queue is full, where
    /// the link loses it or when the path is down; the counters of the link tell.
    #[inline]
    pub fn send(&mut self, queue: &mut EventQueue, now: Nanos, to: RouteId, size: u32, payload: P) {
        debug_assert!(size <= u32::from(u16::MAX));
        if self.routes[to].up {
            let packet = InFlight { at: now, route: to as u32, hop: 0, size: size as u16, payload };
            self.traverse(queue, packet);
        }
    }

    /// The event of a ring is due: its first packet goes on, and is returned with its route when
    /// that was the end of it.
    #[inline]
    pub fn advance(&mut self, queue: &mut EventQueue, source: Source) -> Option<(RouteId, P)> {
        let ring = &mut self.rings[source - self.first_source];
        let packet = ring.pop()?;
        queue.set(source, ring.front().map_or(NEVER, |next| next.at));
        if usize::from(packet.hop) == self.routes[packet.route as usize].hops.len() {
            return Some((packet.route as usize, packet.payload));
        }
        self.traverse(queue, packet);
        None
    }

    #[inline]
    fn traverse(&mut self, queue: &mut EventQueue, mut packet: InFlight<P>) {
        let route = &self.routes[packet.route as usize];
        loop {
            let hop = &route.hops[usize::from(packet.hop)];
            let Some(at) = self.links[hop.link].traverse(packet.at, u32::from(packet.size)) else {
                return;
            };
            packet.at = at;
            packet.hop += 1;
            if let Next::Ring(ring) = hop.next {
                if self.rings[ring].is_empty() {
                    queue.set(self.first_source + ring, at);
                }
                self.rings[ring].push(packet);
                return;
            }
        }
    }

    /// Cuts or restores both directions of a path. Packets already on it arrive.
    pub fn set_path_up(&mut self, path: usize, up: bool) {
        self.routes[forward(path)].up = up;
        self.routes[reverse(path)].up = up;
    }

    /// What happened on each link so far, in the order of the specification.
    pub fn counters(&self) -> impl Iterator<Item = &LinkCounters> {
        self.links.iter().map(Link::counters)
    }
}

/// The hops of a route. A ring belongs to a pair (link, next link or end): packets leave a FIFO in
/// order, so a ring's packets are in order of time whatever route they are on.
fn route(way: &[usize], all: &[&Vec<usize>], rings: &mut Vec<(usize, Option<usize>)>) -> Route {
    let hops = way.iter().enumerate().map(|(i, &link)| {
        let next = way.get(i + 1).copied();
        if next.is_some_and(|next| !merges(next, all)) {
            return Hop { link, next: Next::Link };
        }
        let place = (link, next);
        let ring = rings.iter().position(|&known| known == place).unwrap_or_else(|| {
            rings.push(place);
            rings.len() - 1
        });
        Hop { link, next: Next::Ring(ring) }
    });
    Route { hops: hops.collect(), up: true }
}

/// Packets enter the link from more than one place (an upstream link, or an end host).
fn merges(link: usize, ways: &[&Vec<usize>]) -> bool {
    let mut upstream = ways.iter().flat_map(|way| {
        let places = way.iter().enumerate().filter(move |&(_, &l)| l == link);
        places.map(|(i, _)| i.checked_sub(1).map(|before| way[before]))
    });
    let first = upstream.next();
    upstream.any(|other| Some(other) != first)
}

#[cfg(test)]
mod tests;
