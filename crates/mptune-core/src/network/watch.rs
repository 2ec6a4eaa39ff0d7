//! What happens to every packet at the network's edge, for whoever asks: when it entered, when it left, and how.
//!
//! Nothing is asked of a packet but that it can be recognised ([`Carried::is`]). A network that is not watched pays
//! nothing: routes, ends of routes and drops lead here only if it is.

use super::carried::Carried;
use crate::units::{NEVER, Nanos, SECOND};
use std::collections::VecDeque;

/// A packet that others overtake is looked for until it is this old: a queue that manages itself drops without saying
/// which.
const FORGOTTEN: Nanos = 10 * SECOND;

/// How a packet left the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has not left.
    UnderWay,
    /// At the end of its route.
    Arrived,
    /// In a queue, by its limit or by its management.
    Dropped,
    /// On the wire.
    Lost,
    /// Its path was down when it was sent.
    Cut,
}

/// A packet's way through the network.
#[derive(Debug, Clone, Copy)]
pub struct Passage<P> {
    /// When it entered.
    pub entered: Nanos,
    /// When it left; [`NEVER`] if it did not, or if only the fact is known.
    pub left: Nanos,
    /// Its direction of its path.
    pub route: usize,
    /// Bytes on the wire.
    pub size: u16,
    /// How it left.
    pub fate: Fate,
    /// Where it was lost or dropped.
    pub link: u16,
    /// It was marked on the way (CE).
    pub marked: bool,
    /// As it entered.
    pub payload: P,
}

/// All passages so far, in order of entry.
#[derive(Debug)]
pub(super) struct Watch<P> {
    passages: Vec<Passage<P>>,
    /// Those under way, by route.
    pending: Vec<VecDeque<u32>>,
    /// Packets that each link has dropped.
    dropped: Vec<u64>,
    /// How many are kept, and how many came later.
    limit: usize,
    beyond: u64,
}

impl<P: Carried> Watch<P> {
    /// Keeps the first `limit` passages; each link has dropped this many packets before.
    pub fn new(routes: usize, dropped: Vec<u64>, limit: usize) -> Self {
        let limit = limit.min(u32::MAX as usize);
        Self {
            passages: Vec::new(),
            pending: vec![VecDeque::new(); routes],
            dropped,
            limit,
            beyond: 0,
        }
    }

    pub fn passages(&self) -> &[Passage<P>] {
        &self.passages
    }

    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// A packet enters; `up` if its path is.
    pub fn enter(&mut self, now: Nanos, route: usize, size: u32, payload: P, up: bool) {
        if self.passages.len() >= self.limit {
            self.beyond += 1;
            return;
        }
        let (left, fate) = if up { (NEVER, Fate::UnderWay) } else { (now, Fate::Cut) };
        if up {
            self.pending[route].push_back(self.passages.len() as u32);
        }
        let (size, link) = (size as u16, 0);
        let passage =
            Passage { entered: now, left, route, size, fate, link, marked: false, payload };
        self.passages.push(passage);
    }

    /// A packet is at the end of its route, where the first one under way is usually the one.
    pub fn arrive(&mut self, now: Nanos, route: usize, payload: &P) {
        let Self { passages, pending, .. } = self;
        let found = pending[route].iter().position(|&i| payload.is(&passages[i as usize].payload));
        // None is one that entered beyond the limit, or a copy made on the way, whose original has arrived.
        let Some(index) = found.and_then(|place| pending[route].remove(place)) else { return };
        let passage = &mut passages[index as usize];
        (passage.left, passage.fate) = (now, Fate::Arrived);
        passage.marked = payload.is_marked();
        let is_old = |i: &u32| passages[*i as usize].entered + FORGOTTEN < now;
        while pending[route].front().is_some_and(is_old) {
            pending[route].pop_front();
        }
    }

    /// A link lost a packet, and has now dropped this many: whether that one was dropped. Asked about every loss.
    pub fn has_dropped(&mut self, link: usize, dropped: u64) -> bool {
        std::mem::replace(&mut self.dropped[link], dropped) < dropped
    }

    /// A packet is dropped or lost, usually the one that entered last.
    pub fn lose(&mut self, now: Nanos, route: usize, payload: &P, fate: Fate, link: usize) {
        let Self { passages, pending, .. } = self;
        let Some(pending) = pending.get_mut(route) else { return };
        let found = pending.iter().rposition(|&i| payload.is(&passages[i as usize].payload));
        let Some(index) = found.and_then(|place| pending.remove(place)) else { return };
        let passage = &mut passages[index as usize];
        (passage.left, passage.fate, passage.link) = (now, fate, link as u16);
    }
}
