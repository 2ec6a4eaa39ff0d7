//! A record of every packet at the network's edge: entry, exit, fate.
//!
//! Packets only have to be recognisable ([`Carried::is`]). A network that is not recorded pays nothing: routes, ends
//! of routes and drops lead here only if it is.

use super::carried::Carried;
use crate::units::{NEVER, Nanos, SECOND};
use std::collections::VecDeque;

/// Age at which an overtaken packet is given up: active queue management may have dropped it.
const FORGOTTEN: Nanos = 10 * SECOND;

/// The end of a packet's passage.
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
    /// Time of entry.
    pub entered: Nanos,
    /// Time of exit; [`NEVER`] if it has not left, or at an unknown time.
    pub left: Nanos,
    /// Its route.
    pub route: usize,
    /// Bytes on the wire.
    pub size: u16,
    /// Its fate.
    pub fate: Fate,
    /// Link that dropped or lost it.
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
    /// Most passages.
    limit: usize,
    /// Packets after the limit.
    unrecorded: u64,
}

impl<P: Carried> Watch<P> {
    /// Records `limit` passages; `dropped` are the links' counters at the start.
    pub fn new(routes: usize, dropped: Vec<u64>, limit: usize) -> Self {
        let limit = limit.min(u32::MAX as usize);
        Self {
            passages: Vec::new(),
            pending: vec![VecDeque::new(); routes],
            dropped,
            limit,
            unrecorded: 0,
        }
    }

    pub fn passages(&self) -> &[Passage<P>] {
        &self.passages
    }

    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// A packet enters; `up` if its path is.
    pub fn enter(&mut self, now: Nanos, route: usize, size: u32, payload: P, up: bool) {
        if self.passages.len() >= self.limit {
            self.unrecorded += 1;
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

    /// A packet is at the end of its route: usually the first under way.
    pub fn arrive(&mut self, now: Nanos, route: usize, payload: &P) {
        let Self { passages, pending, .. } = self;
        let place = pending[route].iter().position(|&i| payload.is(&passages[i as usize].payload));
        // None: it entered after the limit, or it is a copy whose original has arrived.
        let Some(index) = place.and_then(|place| pending[route].remove(place)) else { return };
        let passage = &mut passages[index as usize];
        (passage.left, passage.fate) = (now, Fate::Arrived);
        passage.marked = payload.is_marked();
        let is_old = |i: &u32| passages[*i as usize].entered + FORGOTTEN < now;
        while pending[route].front().is_some_and(is_old) {
            pending[route].pop_front();
        }
    }

    /// Updates a link's drop counter after a packet did not leave it. True if the packet was dropped, not lost.
    pub fn has_dropped(&mut self, link: usize, dropped: u64) -> bool {
        std::mem::replace(&mut self.dropped[link], dropped) < dropped
    }

    /// A packet is dropped or lost: usually the last that entered.
    pub fn lose(&mut self, now: Nanos, route: usize, payload: &P, fate: Fate, link: usize) {
        let Self { passages, pending, .. } = self;
        let Some(pending) = pending.get_mut(route) else { return };
        let place = pending.iter().rposition(|&i| payload.is(&passages[i as usize].payload));
        let Some(index) = place.and_then(|place| pending.remove(place)) else { return };
        let passage = &mut passages[index as usize];
        (passage.left, passage.fate, passage.link) = (now, fate, link as u16);
    }
}
