//! The addresses of both ends of a connection whose paths are not all known beforehand.
//!
//! Each address has a place, and a path is a pair of places. When an interface is renumbered its new address
//! takes the place of the old one, and so do the subflows: a policy sees that they are back. Nothing is ordered
//! here.

use mptune_core::pathmanager::PathId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Places at either end.
pub const MOST_PLACES: usize = 8;

/// True if an address of this host is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    There,
    /// It is not, but the connection has nothing else yet.
    Leaving,
    /// It is not.
    Gone,
}

/// A place at this end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its number in paths.
    pub number: usize,
    /// The device; none if it is not known.
    pub device: Option<String>,
    /// The address that is or was there.
    pub address: IpAddr,
    /// It is usable.
    pub presence: Presence,
}

/// A place at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its number in paths.
    pub number: usize,
    /// The address that is or was there.
    pub address: IpAddr,
    /// The port that subflows go to; none for that of the connection.
    pub port: Option<u16>,
    /// The number by which the peer announced it.
    pub id: Option<u8>,
    /// The peer has not withdrawn it.
    pub there: bool,
}

/// Both ends.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// This host's.
    pub locals: Vec<Local>,
    /// The peer's, that of the first subflow first.
    pub remotes: Vec<Remote>,
}

impl Ends {
    /// The place of an address of this host; none if there is no room for it.
    pub fn local(&mut self, address: IpAddr, device: Option<String>) -> Option<usize> {
        if let Some(known) = self.locals.iter().position(|end| end.address == address) {
            return Some(known);
        }
        // The two families have paths of their own.
        let gone = |end: &Local| {
            end.presence == Presence::Gone && end.address.is_ipv4() == address.is_ipv4()
        };
        let same = |end: &Local| end.device.is_some() && end.device == device;
        let vacant = self.locals.iter().position(|end| gone(end) && same(end));
        let full = self.locals.len() >= MOST_PLACES;
        let vacant = vacant.or_else(|| if full { self.locals.iter().position(gone) } else { None });
        let presence = Presence::There;
        if let Some(place) = vacant {
            let number = self.locals[place].number;
            self.locals[place] = Local { number, device, address, presence };
            return Some(place);
        }
        let number = self.locals.iter().map(|end| end.number + 1).max().unwrap_or(0);
        (!full).then(|| self.locals.push(Local { number, device, address, presence }))?;
        Some(self.locals.len() - 1)
    }

    /// The place of an address of the peer; `in_use` are numbers of places that may not be taken.
    pub fn remote(&mut self, address: IpAddr, in_use: impl Fn(usize) -> bool) -> Option<usize> {
        if let Some(known) = self.remotes.iter().position(|end| end.address == address) {
            return Some(known);
        }
        let number = self.remotes.iter().map(|end| end.number + 1).max().unwrap_or(0);
        let new = Remote { number, address, port: None, id: None, there: true };
        if self.remotes.len() < MOST_PLACES {
            self.remotes.push(new);
            return Some(self.remotes.len() - 1);
        }
        let replaced = |place: &usize| {
            let end = &self.remotes[*place];
            !in_use(end.number) && end.address.is_ipv4() == address.is_ipv4()
        };
        let place = (1..self.remotes.len()).find(replaced)?;
        self.remotes[place] = Remote { number: self.remotes[place].number, ..new };
        Some(place)
    }
}

/// Number of the peer's announcements (ADD_ADDR) that lead to subflows: some at once, and later one now and then. Each
/// makes this host send to an address that the peer chose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowance {
    /// Time at which all of it is there again, CLOCK_MONOTONIC.
    full_ns: u64,
    /// That there was none has been reported, and it was not full since.
    pub told: bool,
}

impl Allowance {
    /// Announcements at once: every place of the peer.
    pub const AT_ONCE: u64 = MOST_PLACES as u64;
    /// Time until one more is allowed.
    pub const EACH_NS: u64 = 5_000_000_000;

    /// Takes one. If there is none: when there will be one.
    ///
    /// # Errors
    /// There is none until then.
    pub fn take(&mut self, now_ns: u64) -> Result<(), u64> {
        if self.full_ns <= now_ns {
            self.told = false;
        }
        let full_ns = self.full_ns.max(now_ns) + Self::EACH_NS;
        if full_ns > now_ns + Self::AT_ONCE * Self::EACH_NS {
            return Err(full_ns - Self::AT_ONCE * Self::EACH_NS);
        }
        self.full_ns = full_ns;
        Ok(())
    }
}

/// Additional state of a connection whose paths are not all known beforehand.
pub struct Appearing {
    /// Its addresses.
    pub ends: Ends,
    /// Addresses of this host that lead to the peer again, and whose subflows are not yet back.
    pub back: Vec<IpAddr>,
    /// Further addresses of this host and of the peer are paths from which subflows are opened.
    pub grows: bool,
    /// The peer wants no further subflows to the address of the first one.
    pub denies_initial: bool,
    /// Addresses of this host that were announced to the peer.
    pub announced: BTreeSet<IpAddr>,
    /// Time of the next retry of paths, and the wait before it.
    pub retries: BTreeMap<PathId, (u64, u64)>,
    /// The number of bytes that the policy waits for.
    pub notify_at: Option<u64>,
    /// Bytes of subflows that are closed.
    pub carried: u64,
    /// For the peer's announcements.
    pub allowance: Allowance,
    /// The socket takes subflows of its own family alone, and that was reported.
    pub one_family: bool,
}

/// The numbers of this host's addresses in MP_JOIN and ADD_ADDR.
#[derive(Debug, Clone, Default)]
pub struct Numbers(BTreeMap<IpAddr, u8>);

impl Numbers {
    /// The kernel has this number for an address.
    pub fn learn(&mut self, address: IpAddr, number: u8) {
        self.0.retain(|known, taken| *taken != number || *known == address);
        self.0.insert(address, number);
    }

    /// The number of an address if it has one.
    pub fn known(&self, address: IpAddr) -> Option<u8> {
        self.0.get(&address).copied()
    }

    /// The number of an address: the wanted one if it is free, otherwise any, perhaps that of an address
    /// that is no longer `kept`. None if there is no other way.
    pub fn of(&mut self, address: IpAddr, preferred: u8, in_use: &[IpAddr]) -> Option<u8> {
        if let Some(known) = self.known(address) {
            return Some(known);
        }
        let is_free = |numbers: &Self, id: u8| id > 0 && numbers.0.values().all(|&it| it != id);
        let free = std::iter::once(preferred).chain(1..=u8::MAX).find(|&id| is_free(self, id));
        let number = free.or_else(|| {
            let mut old = self.0.iter().filter(|(known, id)| **id > 0 && !in_use.contains(known));
            old.next().map(|(_, id)| *id)
        })?;
        self.learn(address, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn eth(number: u8) -> Option<String> {
        Some(format!("eth{number}"))
    }

    #[test]
    fn a_new_address_of_a_device_takes_the_place_of_the_old_one_once_that_is_gone() {
        let mut ends = Ends::default();
        assert_eq!(ends.local(ip(1), eth(1)), Some(0));
        assert_eq!(ends.local(ip(2), eth(2)), Some(1));
        assert_eq!(ends.local(ip(1), eth(1)), Some(0));
        assert_eq!(ends.local(ip(3), eth(2)), Some(2));
        ends.locals[1].presence = Presence::Gone;
        assert_eq!(ends.local(ip(4), eth(1)), Some(3));
        assert_eq!(ends.local(ip(5), eth(2)), Some(1));
        assert_eq!((ends.locals[1].number, ends.locals[1].address), (1, ip(5)));
    }

    #[test]
    fn there_is_room_for_so_many_addresses_and_no_more() {
        let mut ends = Ends::default();
        for number in 0..MOST_PLACES as u8 {
            assert_eq!(ends.local(ip(number), eth(number)), Some(number.into()));
            assert_eq!(ends.remote(ip(number), |_| true), Some(number.into()));
        }
        assert_eq!(ends.local(ip(99), eth(99)), None);
        assert_eq!(ends.remote(ip(99), |_| true), None);
        ends.locals[3].presence = Presence::Gone;
        assert_eq!(ends.local(ip(99), eth(99)), Some(3));
        assert_eq!(ends.remote(ip(99), |number| number != 5), Some(5));
    }

    #[test]
    fn announcements_are_allowed_at_once_and_then_now_and_then() {
        let mut allowance = Allowance::default();
        let now_ns = 7 * Allowance::EACH_NS;
        for _ in 0..Allowance::AT_ONCE {
            assert_eq!(allowance.take(now_ns), Ok(()));
        }
        assert_eq!(allowance.take(now_ns), Err(now_ns + Allowance::EACH_NS));
        assert_eq!(allowance.take(now_ns + Allowance::EACH_NS), Ok(()));
        assert!(allowance.take(now_ns + Allowance::EACH_NS).is_err());
        allowance.told = true;
        assert_eq!(allowance.take(now_ns + 100 * Allowance::EACH_NS), Ok(()));
        assert!(!allowance.told);
    }

    #[test]
    fn numbers_are_those_of_the_kernel_and_unlike_each_other() {
        let mut numbers = Numbers::default();
        numbers.learn(ip(1), 0);
        numbers.learn(ip(2), 3);
        assert_eq!(numbers.of(ip(1), 1, &[]), Some(0));
        assert_eq!(numbers.of(ip(2), 2, &[]), Some(3));
        assert_eq!(numbers.of(ip(3), 3, &[]), Some(1));
        for last in 4..=255 {
            numbers.of(ip(last), last, &[]);
        }
        let in_use: Vec<_> = (0..=255).map(ip).filter(|&address| address != ip(9)).collect();
        let other = [10, 1, 0, 0].into();
        numbers.of([10, 2, 0, 0].into(), 1, &in_use);
        let freed = numbers.of(other, 1, &in_use);
        assert!(freed.is_some_and(|id| id > 0));
        let full: Vec<IpAddr> = numbers.0.keys().copied().collect();
        assert_eq!(numbers.of([10, 3, 0, 0].into(), 1, &full), None);
    }
}
