//! The routes through the network, and the places where packets wait for an event.

use super::spec::{LinkSpec, NetworkSpec};
use crate::units::Nanos;

/// The next step of packets leaving a link on some route.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// Straight into the route's next link: nothing else can enter it in between.
    Link,
    /// Into a ring until the time of arrival: before a link whose packets must enter in time order, or at the end
    /// of the route.
    Ring(usize),
    /// First into a heap, which puts them in time order: behind a link that reorders.
    Ordered(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub link: usize,
    pub next: Next,
}

#[derive(Debug, Clone)]
pub(super) struct Route {
    /// Its first hop's number among all hops; the others follow.
    pub first: usize,
    length: usize,
    pub up: bool,
    /// It is up and not recorded.
    pub is_plain: bool,
}

/// The link that packets leave, and the one they go to, unless they are at the end.
type Place = (usize, Option<usize>);

/// The next step of a ring's packets when they are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// They are at the end of their route.
    End,
    /// The same, in a network that records passages.
    WatchedEnd,
    /// Each enters the next link.
    Link,
    /// They enter the next link together with all that arrive within the lookahead.
    Junction(usize),
}

/// A plain link that packets enter only from several upstream links, each with a ring before it. Packets sent from
/// now on arrive after the lookahead at the earliest, so all packets within it enter at once, in time order.
#[derive(Debug, Clone)]
pub(super) struct Junction {
    pub upstream: Vec<usize>,
    /// The shortest time between an event and a packet entering the link because of it.
    pub lookahead: Nanos,
}

/// All routes and the places on them.
pub(super) struct Map {
    pub routes: Vec<Route>,
    pub hops: Vec<Hop>,
    /// Places where packets arrive in time order, whatever their route.
    pub rings: Vec<Place>,
    /// The next step of the packets in each ring.
    pub waiting: Vec<Waiting>,
    pub junctions: Vec<Junction>,
    /// The rings behind links that reorder: each gets its packets from a heap.
    pub ordered: Vec<usize>,
}

impl Map {
    pub fn new(spec: &NetworkSpec) -> Self {
        let ways = spec.paths.iter().flat_map(|path| [&path.forward, &path.reverse]);
        let ways: Vec<&[usize]> = ways.map(Vec::as_slice).collect();
        let in_time: Vec<bool> = spec
            .links
            .iter()
            .enumerate()
            .map(|(i, link)| must_be_in_time(link, i, &ways))
            .collect();
        let mut map = Self {
            routes: Vec::new(),
            hops: Vec::new(),
            rings: Vec::new(),
            waiting: Vec::new(),
            junctions: Vec::new(),
            ordered: Vec::new(),
        };
        for way in ways {
            let (first, length) = (map.hops.len(), way.len());
            for (i, &link) in way.iter().enumerate() {
                let place = (link, way.get(i + 1).copied());
                let next = map.next(place, &spec.links[link], &in_time);
                map.hops.push(Hop { link, next });
            }
            map.routes.push(Route { first, length, up: true, is_plain: true });
        }
        let waiting = |&(_, to): &Place| to.map_or(Waiting::End, |_| Waiting::Link);
        map.waiting = map.rings.iter().map(waiting).collect();
        for link in 0..spec.links.len() {
            map.add_junction(spec, link);
        }
        map
    }

    /// Makes a link a junction if it can be one.
    fn add_junction(&mut self, spec: &NetworkSpec, link: usize) {
        let lookahead = self.lookahead(spec, link);
        if !spec.links[link].is_plain() || lookahead == 0 {
            return;
        }
        let into = |place: &Place| place.1 == Some(link);
        let upstream: Vec<usize> =
            (0..self.rings.len()).filter(|&r| into(&self.rings[r])).collect();
        for &ring in &upstream {
            self.waiting[ring] = Waiting::Junction(self.junctions.len());
        }
        if !upstream.is_empty() {
            self.junctions.push(Junction { upstream, lookahead });
        }
    }

    /// The shortest time between any event and the arrival at a link of a packet that the event sent or
    /// released: 0 if packets enter the link as they are sent, or as a heap or a queue releases them.
    fn lookahead(&self, spec: &NetworkSpec, link: usize) -> Nanos {
        let visits = self.routes.iter().flat_map(|route| {
            let hops = &self.hops[route.first..route.first + route.length];
            let visits = hops.iter().enumerate().filter(move |(_, hop)| hop.link == link);
            visits.map(|(i, _)| &hops[..i])
        });
        visits.map(|before| delay_since_event(spec, before)).min().unwrap_or(0)
    }

    fn next(&mut self, place: Place, from: &LinkSpec, in_time: &[bool]) -> Next {
        if from.effects().reorders() {
            let ring = index_of(&mut self.rings, place);
            Next::Ordered(index_of(&mut self.ordered, ring))
        } else if place.1.is_some_and(|to| !in_time[to]) {
            Next::Link
        } else {
            Next::Ring(index_of(&mut self.rings, place))
        }
    }
}

/// Delay of the last hops of a route, back to where packets wait or are sent, or to a link
/// that has more than a fixed delay.
fn delay_since_event(spec: &NetworkSpec, hops: &[Hop]) -> Nanos {
    let mut delay = 0;
    for (back, hop) in hops.iter().rev().enumerate() {
        let waits = back > 0 && !matches!(hop.next, Next::Link);
        let link = &spec.links[hop.link];
        if waits || !link.is_plain() {
            break;
        }
        delay += link.delay_ns;
    }
    delay
}

/// The index of an item, appended if missing.
fn index_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Packets must enter the link in time order: they come from more than one place (an upstream link, an end host, a
/// background source), or its queue has events.
fn must_be_in_time(link: &LinkSpec, number: usize, ways: &[&[usize]]) -> bool {
    let mut upstream = ways.iter().flat_map(|way| {
        let places = way.iter().enumerate().filter(move |&(_, &l)| l == number);
        places.map(|(i, _)| i.checked_sub(1).map(|before| way[before]))
    });
    let first = upstream.next();
    link.is_active() || !link.udp.is_empty() || upstream.any(|other| Some(other) != first)
}
