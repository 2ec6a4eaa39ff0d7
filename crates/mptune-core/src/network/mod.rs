//! The network model: links with rate, delay, jitter, queue and random loss, combined into routes that may share
//! links; and all other effects of links, one file each.
//!
//! The simulator drives it with a virtual clock, the emulator with the real one. It carries an opaque payload and
//! knows no protocol. It is fast because a packet's departure from a FIFO is known on arrival, so that a packet
//! costs one event, at the end of its route.
//! Packets in flight wait in rings: there, and before links that packets enter from several upstream
//! links. Such a link takes in one go all packets that will enter it before anything sent later can. Only
//! what cannot be known in advance costs more: an event per packet at a queue that decides when packets
//! leave (CoDel), and where packets from a host or background traffic meet others; a heap behind a link
//! that reorders.

mod active;
mod aqm;
mod bucket;
mod carried;
mod chance;
mod composite;
mod counters;
mod effects;
mod family;
mod limits;
mod link;
mod passive;
mod place;
mod rate;
mod route;
mod schedule;
mod server;
mod spec;
mod stream;
mod trace;
mod udp;
mod watch;
mod wire;

pub use aqm::{AqmSpec, CodelSpec, FqCodelSpec, RedSpec, StepMarkingSpec};
pub use bucket::BucketSpec;
pub use carried::Carried;
pub use counters::LinkCounters;
pub use effects::mean_loss_ppb as wire_mean_loss_ppb;
pub use effects::specs::*;
pub use effects::{
    DECLARED as WIRE_EFFECTS, EffectInfo, ParameterDefault, ParameterInfo, ParameterKind,
};
pub use family::Family;
pub use schedule::{ScheduleSpec, StepSpec};
pub use spec::{BackgroundSpec, LinkSpec, NetworkSpec, PathSpec};
pub use udp::{Lengths, OnOffSpec, UdpSpec};
pub use watch::{Fate, Passage};

use crate::engine::{EventQueue, Ring, Source};
use crate::units::{NEVER, Nanos};
use link::Link;
use place::{BACKGROUND, InFlight, Ordered};
use route::{Hop, Junction, Map, Next, Route, Waiting};
use stream::Streams;
use udp::UdpSource;
use watch::Watch;
use wire::Exit;

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

/// The kinds of event source other than a ring.
#[derive(Debug, Clone, Copy)]
enum Role {
    /// The first packet of a heap is due.
    Ordered(usize),
    /// The line behind a link's active queue is free.
    Queue(usize),
    /// A background source sends.
    Udp(usize),
}

/// Packets behind a link that reorders, until they are due; then they enter a ring.
#[derive(Debug)]
struct Heap<P> {
    packets: Ordered<P>,
    ring: usize,
}

/// Background traffic of a link.
#[derive(Debug)]
struct Udp {
    link: usize,
    traffic: UdpSource,
    /// Flow number, for queues that separate flows.
    flow: u32,
}

/// Packets that waited, see [`Network::pause`].
#[must_use]
pub struct Waiters<P>(Vec<InFlight<P>>);

/// All links and routes with the packets on them.
#[derive(Debug)]
pub struct Network<P> {
    links: Vec<Link<P>>,
    routes: Vec<Route>,
    /// Those of all routes, one route after another.
    hops: Vec<Hop>,
    rings: Vec<Ring<InFlight<P>>>,
    /// The next step of the packets in each ring.
    waiting: Vec<Waiting>,
    junctions: Vec<Junction>,
    first_source: Source,
    /// The sources after those of the rings: first the heaps.
    roles: Vec<Role>,
    ordered: Vec<Heap<P>>,
    udp: Vec<Udp>,
    watch: Option<Box<Watch<P>>>,
    /// Packets wait in `paused` ([`Self::pause`]).
    is_paused: bool,
    paused: Vec<InFlight<P>>,
    /// A packet off the fast path, passed by memory. On the fast path nothing takes a packet's address: it would
    /// be assembled in memory and copied to its ring, a stall of the processor.
    aside: InFlight<P>,
}

impl<P: Carried> Network<P> {
    /// Builds the network and registers its event sources with `queue`. The specification must
    /// be valid ([`NetworkSpec::validate`]).
    pub fn new(spec: &NetworkSpec, seed: u64, queue: &mut EventQueue) -> Self {
        let Map { routes, hops, rings, waiting, junctions, ordered } = Map::new(spec);
        let sources: Vec<Source> = rings.iter().map(|_| queue.add_source()).collect();
        let heaps = ordered.iter().map(|&ring| Heap { packets: Ordered::new(), ring });
        let mut network = Self {
            links: Vec::new(),
            routes,
            hops,
            rings: rings.iter().map(|_| Ring::new()).collect(),
            waiting,
            junctions,
            first_source: sources.first().copied().unwrap_or(0),
            roles: Vec::new(),
            ordered: heaps.collect(),
            udp: Vec::new(),
            watch: None,
            is_paused: false,
            paused: Vec::new(),
            aside: InFlight::default(),
        };
        for heap in 0..ordered.len() {
            network.add_role(queue, Role::Ordered(heap));
        }
        for (number, link) in spec.links.iter().enumerate() {
            network.add_link(queue, number, link, Streams::new(seed, number));
        }
        network
    }

    fn add_role(&mut self, queue: &mut EventQueue, role: Role) -> Source {
        self.roles.push(role);
        queue.add_source()
    }

    fn add_link(
        &mut self,
        queue: &mut EventQueue,
        number: usize,
        spec: &LinkSpec,
        streams: Streams,
    ) {
        let source = spec.is_active().then(|| self.add_role(queue, Role::Queue(number)));
        self.links.push(Link::new(spec, streams, source));
        for (i, udp) in spec.udp.iter().enumerate() {
            let source = self.add_role(queue, Role::Udp(self.udp.len()));
            let traffic = UdpSource::new(udp, streams.udp(i));
            queue.set(source, traffic.next_at());
            // Counted down from the maximum, which flows of a simulation never reach.
            let flow = u32::MAX - self.udp.len() as u32;
            self.udp.push(Udp { link: number, traffic, flow });
        }
    }

    /// The number of its event sources, which are consecutive.
    pub fn sources(&self) -> usize {
        self.rings.len() + self.roles.len()
    }

    /// A packet of `size` bytes enters a route. It is dropped silently where a queue is full, where
    /// the link loses it or when the path is down; see the counters of the link.
    // Inlined, so that a packet is assembled in its ring, not copied there.
    #[inline(always)]
    pub fn send(&mut self, queue: &mut EventQueue, now: Nanos, to: RouteId, size: u32, payload: P) {
        debug_assert!(size <= u32::from(u16::MAX));
        let packet = InFlight { at: now, route: to as u8, hop: 0, size: size as u16, payload };
        if self.routes[to].is_plain {
            self.traverse(queue, packet);
        } else {
            self.aside = packet;
            self.send_off_fast_path(queue);
        }
    }

    /// [`Self::send`] on a route that is down or recorded, or while packets wait.
    #[cold]
    #[inline(never)]
    fn send_off_fast_path(&mut self, queue: &mut EventQueue) {
        let packet = self.aside;
        if self.is_paused {
            self.paused.push(packet);
            return;
        }
        let InFlight { at, route, size, payload, .. } = packet;
        let up = self.routes[RouteId::from(route)].up;
        if let Some(watch) = &mut self.watch {
            watch.enter(at, RouteId::from(route), u32::from(size), payload, up);
        }
        if up {
            self.traverse(queue, packet);
        }
    }

    /// Packets that are sent wait from now on, all of them at this time, until [`Self::release`].
    pub fn pause(&mut self) {
        self.is_paused = true;
        self.mark_routes();
    }

    /// What is sent goes at once again, also before the packets that wait, which are returned.
    pub fn resume(&mut self) -> Waiters<P> {
        self.is_paused = false;
        self.mark_routes();
        Waiters(std::mem::take(&mut self.paused))
    }

    /// Packets that waited enter their routes.
    pub fn release(&mut self, queue: &mut EventQueue, waiters: Waiters<P>) {
        let Waiters(mut packets) = waiters;
        for packet in packets.drain(..) {
            self.aside = packet;
            self.send_off_fast_path(queue);
        }
        // Its memory serves again.
        self.paused = packets;
    }

    fn mark_routes(&mut self) {
        let plain = self.watch.is_none() && !self.is_paused;
        for route in &mut self.routes {
            route.is_plain = plain && route.up;
        }
    }

    /// Records the passages of the next `limit` packets.
    pub fn watch(&mut self, limit: usize) {
        let dropped = self.counters().map(|counters| counters.dropped).collect();
        self.watch = Some(Box::new(Watch::new(self.routes.len(), dropped, limit)));
        self.mark_routes();
        for waiting in self.waiting.iter_mut().filter(|waiting| **waiting == Waiting::End) {
            *waiting = Waiting::WatchedEnd;
        }
    }

    /// Passages since [`Self::watch`], in order of sending. A drop by active queue management (CoDel) cannot be
    /// assigned to its packet, which stays under way.
    pub fn passages(&self) -> &[Passage<P>] {
        self.watch.as_ref().map_or(&[], |watch| watch.passages())
    }

    /// Packets sent after the limit of [`Self::watch`].
    pub fn unrecorded(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.unrecorded())
    }

    /// The fast path of [`Self::advance`]: the packet that an event brings to the end of its route; none of another
    /// event.
    #[inline(always)]
    pub fn arrive(&mut self, queue: &mut EventQueue, source: Source) -> Option<(RouteId, P)> {
        let number = source - self.first_source;
        if self.waiting.get(number) != Some(&Waiting::End) {
            return None;
        }
        let ring = &mut self.rings[number];
        let packet = ring.front()?;
        let arrived = (RouteId::from(packet.route), packet.payload);
        ring.skip(1);
        queue.set(source, ring.front().map_or(NEVER, |next| next.at));
        Some(arrived)
    }

    /// Handles the event of a source. The first packet of a ring moves on; at the end of its route it is
    /// returned. Steps after `until` are left to later calls, so that the counters are those at `until`.
    #[inline(never)]
    pub fn advance(
        &mut self,
        queue: &mut EventQueue,
        source: Source,
        until: Nanos,
    ) -> Option<(RouteId, P)> {
        let number = source - self.first_source;
        let Some(&waiting) = self.waiting.get(number) else {
            self.advance_other(queue, source);
            return None;
        };
        if let Waiting::Junction(junction) = waiting {
            let horizon = until.min(queue.time_of(source) + self.junctions[junction].lookahead - 1);
            self.enter_junction(queue, junction, horizon);
            return None;
        }
        if waiting == Waiting::End {
            return self.arrive(queue, source);
        }
        let ring = &mut self.rings[number];
        let packet = *ring.front()?;
        ring.skip(1);
        queue.set(source, ring.front().map_or(NEVER, |next| next.at));
        if waiting == Waiting::WatchedEnd {
            return Some(self.record_arrival(&packet));
        }
        self.enter(queue, packet);
        None
    }

    /// Records a packet at the end of its route.
    #[cold]
    #[inline(never)]
    fn record_arrival(&mut self, packet: &InFlight<P>) -> (RouteId, P) {
        let route = RouteId::from(packet.route);
        if let Some(watch) = &mut self.watch {
            watch.arrive(packet.at, route, &packet.payload);
        }
        (route, packet.payload)
    }

    /// Records a packet that a plain link dropped or lost.
    #[cold]
    #[inline(never)]
    fn record_loss(&mut self, link: usize) {
        let Some(watch) = &mut self.watch else { return };
        let packet = &self.aside;
        let dropped = watch.has_dropped(link, self.links[link].counters().dropped);
        let fate = if dropped { Fate::Dropped } else { Fate::Lost };
        watch.lose(packet.at, RouteId::from(packet.route), &packet.payload, fate, link);
    }

    /// Moves waiting packets into a junction, up to `horizon`, before which no other can arrive.
    fn enter_junction(&mut self, queue: &mut EventQueue, junction: usize, horizon: Nanos) {
        let upstream = std::mem::take(&mut self.junctions[junction].upstream);
        while let Some((ring, _, turn)) = self.first_of(&upstream).filter(|f| f.1 <= horizon) {
            let last = turn.min(horizon);
            while let Some(&packet) = self.rings[ring].front().filter(|packet| packet.at <= last) {
                self.rings[ring].pop();
                self.traverse(queue, packet);
            }
        }
        for &ring in &upstream {
            let next = self.rings[ring].front().map_or(NEVER, |next| next.at);
            queue.set(self.first_source + ring, next);
        }
        self.junctions[junction].upstream = upstream;
    }

    /// The ring with the earliest packet among these, the packet's time, and the end of this ring's turn. Of two
    /// packets at the same time, the one in the lower ring is earlier.
    fn first_of(&self, rings: &[usize]) -> Option<(usize, Nanos, Nanos)> {
        let (mut first, mut second) = ((NEVER, usize::MAX), (NEVER, usize::MAX));
        for &ring in rings {
            let Some(packet) = self.rings[ring].front() else { continue };
            let key = (packet.at, ring);
            if key < first {
                (first, second) = (key, first);
            } else if key < second {
                second = key;
            }
        }
        let (at, ring) = first;
        let turn = if ring < second.1 { second.0 } else { second.0 - 1 };
        (at < NEVER).then_some((ring, at, turn))
    }

    #[inline(never)]
    fn advance_other(&mut self, queue: &mut EventQueue, source: Source) {
        match self.roles[source - self.first_source - self.rings.len()] {
            Role::Ordered(number) => {
                let Heap { packets, ring } = &mut self.ordered[number];
                let Some(packet) = packets.pop() else { return };
                queue.set(source, packets.next_at().unwrap_or(NEVER));
                let ring = *ring;
                self.wait(queue, ring, packet);
            }
            Role::Queue(link) => {
                let now = queue.time_of(source);
                let Link::Composite(composite) = &mut self.links[link] else { return };
                let left = composite.serve(now);
                self.settle(queue, link, left);
            }
            Role::Udp(number) => {
                let udp = &mut self.udp[number];
                let at = udp.traffic.next_at();
                let size = udp.traffic.send() as u16;
                queue.set(source, udp.traffic.next_at());
                let payload = P::default();
                let packet = InFlight { at, route: BACKGROUND, hop: 0, size, payload };
                let (link, flow) = (udp.link, udp.flow);
                let Link::Composite(composite) = &mut self.links[link] else { return };
                let left = composite.arrive(packet, flow);
                self.settle(queue, link, left);
            }
        }
    }

    /// Moves a packet to the next place where it must wait.
    #[inline(always)]
    fn traverse(&mut self, queue: &mut EventQueue, mut packet: InFlight<P>) {
        let mut number = self.hop(&packet);
        loop {
            let hop = &self.hops[number];
            let Link::Plain(link) = &mut self.links[hop.link] else {
                self.aside = packet;
                return self.enter_composite(queue);
            };
            let Some(at) = link.traverse(packet.at, u32::from(packet.size)) else {
                let link = hop.link;
                self.aside = packet;
                return self.record_loss(link);
            };
            packet.at = at;
            packet.hop += 1;
            number += 1;
            if let Next::Ring(ring) = hop.next {
                return self.wait(queue, ring, packet);
            }
        }
    }

    /// The number of a packet's next hop.
    #[inline]
    fn hop(&self, packet: &InFlight<P>) -> usize {
        self.routes[usize::from(packet.route)].first + usize::from(packet.hop)
    }

    /// [`Self::traverse`] where a packet has to be copied anyway.
    #[inline(never)]
    fn enter(&mut self, queue: &mut EventQueue, packet: InFlight<P>) {
        self.traverse(queue, packet);
    }

    // Inlined into the hottest loop in spite of its other callers.
    #[inline(always)]
    fn wait(&mut self, queue: &mut EventQueue, ring: usize, packet: InFlight<P>) {
        if self.rings[ring].is_empty() {
            queue.set(self.first_source + ring, packet.at);
        }
        self.rings[ring].push(packet);
    }

    #[inline(never)]
    fn enter_composite(&mut self, queue: &mut EventQueue) {
        let packet = self.aside;
        let link = self.hops[self.hop(&packet)].link;
        if let Link::Composite(composite) = &mut self.links[link] {
            let before = composite.counters();
            let left = composite.arrive(packet, packet.payload.flow());
            if let (None, Some(watch)) = (&left, &mut self.watch) {
                if let Some(fate) = composite.fate_since(before) {
                    let route = RouteId::from(packet.route);
                    watch.lose(packet.at, route, &packet.payload, fate, link);
                }
            }
            self.settle(queue, link, left);
        }
    }

    /// After a packet entered or left a composite link's queue: sets the queue's event, and forwards
    /// the packet that left the link.
    fn settle(&mut self, queue: &mut EventQueue, link: usize, left: Option<(InFlight<P>, Exit)>) {
        if let Link::Composite(composite) = &self.links[link] {
            if let Some((source, at)) = composite.event() {
                queue.set(source, at);
            }
        }
        let Some((mut packet, exit)) = left else { return };
        let next = self.hops[self.hop(&packet)].next;
        packet.at = exit.at;
        packet.hop += 1;
        if exit.copies > 1 {
            packet.payload.duplicate();
        }
        for _ in 0..exit.copies {
            match next {
                Next::Link => self.enter(queue, packet),
                Next::Ring(ring) => self.wait(queue, ring, packet),
                Next::Ordered(heap) => {
                    let packets = &mut self.ordered[heap].packets;
                    packets.push(packet);
                    let at = packets.next_at().unwrap_or(NEVER);
                    queue.set(self.first_source + self.rings.len() + heap, at);
                }
            }
        }
    }

    /// Earliest possible arrival of a packet in flight; [`NEVER`] if there is none. Background traffic is left
    /// out: its events can be handled later.
    pub fn next_at(&self, queue: &EventQueue) -> Nanos {
        if self.udp.is_empty() {
            return queue.earliest().map_or(NEVER, |(at, _)| at);
        }
        let roles = self.roles.iter().map(|role| !matches!(role, Role::Udp(_)));
        let carries = std::iter::repeat_n(true, self.rings.len()).chain(roles);
        let sources = (self.first_source..).zip(carries).filter(|source| source.1);
        sources.map(|(source, _)| queue.time_of(source)).min().unwrap_or(NEVER)
    }

    /// Visits the payload of every packet on the network. Drops are silent: this is how a driver that stores more
    /// of a packet than its payload learns which to discard.
    pub fn for_each_payload(&self, mut visit: impl FnMut(&P)) {
        let mut visit = |packet: &InFlight<P>| visit(&packet.payload);
        self.rings.iter().flat_map(Ring::iter).for_each(&mut visit);
        self.ordered.iter().flat_map(|heap| heap.packets.iter()).for_each(&mut visit);
        self.links.iter().for_each(|link| link.for_each_queued(&mut visit));
    }

    /// Cuts or restores both directions of a path. Packets already on it arrive.
    pub fn set_path_up(&mut self, path: usize, up: bool) {
        for route in [forward(path), reverse(path)] {
            self.routes[route].up = up;
        }
        self.mark_routes();
    }

    /// The counters of each link, in the order of the specification.
    pub fn counters(&self) -> impl Iterator<Item = LinkCounters> {
        self.links.iter().map(Link::counters)
    }

    /// Packets in each link's queue whose departure is not decided yet.
    pub fn queued(&self) -> impl Iterator<Item = usize> {
        self.links.iter().map(Link::queued)
    }
}

#[cfg(test)]
mod tests;
