//! The ways through the network, and where on them packets must wait for an event.

use super::spec::{LinkSpec, NetworkSpec};

/// Where packets leaving a link on some route go next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// Straight into the route's next link: nothing else can enter it in between.
    Link,
    /// Into a ring, to be taken out at the time of arrival: at a link that must see its packets in the
    /// order of time, or at the end of the route.
    Ring(usize),
    /// First into a heap, which puts them in order of time: behind a link that reorders.
    Ordered(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub link: usize,
    pub next: Next,
}

#[derive(Debug, Clone)]
pub(super) struct Route {
    pub hops: Vec<Hop>,
    pub up: bool,
}

/// The link that packets leave, and the one they go to, if they are not at their end.
type Place = (usize, Option<usize>);

/// All routes, with the places on them.
pub(super) struct Map {
    pub routes: Vec<Route>,
    /// Places where packets arrive in order of time, whatever route they are on.
    pub rings: Vec<Place>,
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
        let mut map = Self { routes: Vec::new(), rings: Vec::new(), ordered: Vec::new() };
        for way in ways {
            let hops = way.iter().enumerate().map(|(i, &link)| {
                let place = (link, way.get(i + 1).copied());
                Hop { link, next: map.next(place, &spec.links[link], &in_time) }
            });
            let hops = hops.collect();
            map.routes.push(Route { hops, up: true });
        }
        map
    }

    fn next(&mut self, place: Place, from: &LinkSpec, in_time: &[bool]) -> Next {
        if from.reorder.is_some() {
            let ring = number(&mut self.rings, place);
            Next::Ordered(number(&mut self.ordered, ring))
        } else if place.1.is_some_and(|to| !in_time[to]) {
            Next::Link
        } else {
            Next::Ring(number(&mut self.rings, place))
        }
    }
}

/// The number of a thing, which is appended if it is not there yet.
fn number<T: PartialEq>(things: &mut Vec<T>, thing: T) -> usize {
    things.iter().position(|known| *known == thing).unwrap_or_else(|| {
        things.push(thing);
        things.len() - 1
    })
}

/// Packets must enter the link when their time has come, not before: because they come from more than
/// one place (an upstream link, an end host, a background source), or because its queue has events.
fn must_be_in_time(link: &LinkSpec, number: usize, ways: &[&[usize]]) -> bool {
    let mut upstream = ways.iter().flat_map(|way| {
        let places = way.iter().enumerate().filter(move |&(_, &l)| l == number);
        places.map(|(i, _)| i.checked_sub(1).map(|before| way[before]))
    });
    let first = upstream.next();
    link.is_active() || !link.udp.is_empty() || upstream.any(|other| Some(other) != first)
}
