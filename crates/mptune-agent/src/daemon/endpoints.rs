//! Endpoints of the kernel's own path manager, kept for the usable interfaces of this host, with the roles
//! that the policy of one connection wants.
//!
//! An endpoint's flags concern all connections, so one speaks for all: the one that lately carried most. It
//! keeps speaking until another has carried clearly more for a while. What is made here is noted in a file
//! before it is made (`noted`), so that after a crash the next one knows it as its own; endpoints that are not
//! among that are somebody else's and are left alone, and so are the roles of their subflows.

pub mod kept;
pub mod needed;

use self::kept::Kept;
use self::needed::{STAYS, each_subflow, needed};
use super::endpoint_journal::{EndpointJournal, Place};
use super::hosting::Addresses;
use super::steering::{Steered, Steering};
use crate::kernel::diag::Diag;
use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::endpoints::PathManager;
use crate::kernel::pair::Pair;
use crate::kernel::sys;
use crate::log;
use crate::paths::connection::Act;
use crate::paths::happening::Happening;
use crate::paths::hosting::{ANYWHERE, ANYWHERE_NEAR, AddressChange};
use crate::paths::manager::{Executor, Manager};
use crate::paths::policies::Policies;
use crate::paths::survey::Resynced;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// Time between two surveys of who carries most, and the share of the time that they may take.
const SURVEY_NS: u64 = 2_000_000_000;
const SURVEY_SHARE: u64 = 300;
/// Another connection takes over if it carried this many times as much in this many surveys in a row.
const CLEARLY_MORE: u64 = 2;
const SURVEYS: u32 = 3;
/// Addresses that come and go together are acted on together, after this long.
const SETTLING_NS: u64 = 100_000_000;

/// Carries out roles by endpoints, and nothing else: the kernel opens and closes subflows by itself.
struct Roles(Rc<RefCell<Kept>>);

impl Executor for Roles {
    fn obey(&mut self, _diag: &mut Diag, _token: u32, act: &Act) -> Result<(), Error> {
        match act {
            Act::SetPriority { pair, backup, .. } => self.0.borrow_mut().set(pair, *backup),
            _ => Ok(()),
        }
    }

    fn is_managed(&mut self, _token: u32, _pair: &Pair) -> Result<bool, Error> {
        Ok(true)
    }

    fn opens(&self) -> bool {
        false
    }
}

/// The load of each address.
#[derive(Debug, Default)]
struct Loads {
    /// Bytes so far, by connection.
    total: BTreeMap<u32, u64>,
    /// The one that carried clearly more than the one that speaks, and how often in a row.
    rival: Option<(u32, u32)>,
}

impl Loads {
    /// Takes the totals of a survey; the connection that is to speak.
    fn choose(&mut self, now: BTreeMap<u32, u64>, speaker: Option<u32>) -> Option<u32> {
        let carried = |token: &u32, total: u64| {
            total.saturating_sub(self.total.get(token).copied().unwrap_or(0))
        };
        let loads = now.iter().map(|(token, total)| (carried(token, *total), *token));
        let most = loads.max_by_key(|&(load, token)| (load, std::cmp::Reverse(token)));
        let speaker = speaker.filter(|token| now.contains_key(token));
        let own = speaker.map_or(0, |token| carried(&token, now[&token]));
        let rival =
            most.filter(|&(load, _)| load > own.saturating_mul(CLEARLY_MORE)).map(|it| it.1);
        let next = match (speaker, rival) {
            (None, _) => most.map(|(_, token)| token),
            (Some(_), None) => {
                self.rival = None;
                speaker
            }
            (Some(_), Some(rival)) => {
                let before = self.rival.filter(|(token, _)| *token == rival);
                let times = before.map_or(1, |(_, times)| times + 1);
                self.rival = Some((rival, times));
                if times >= SURVEYS { Some(rival) } else { speaker }
            }
        };
        if next != speaker {
            self.rival = None;
        }
        self.total = now;
        next
    }
}

/// The endpoints of the current network namespace.
pub struct Endpoints {
    manager: Manager,
    kept: Rc<RefCell<Kept>>,
    policies: Rc<dyn Policies>,
    addresses: Rc<Addresses>,
    diag: Diag,
    loads: Loads,
    speaker: Option<u32>,
    survey_at_ns: u64,
    addresses_at_ns: Option<u64>,
}

impl Endpoints {
    /// Keeps endpoints for these addresses. What it makes is noted in a file, so that after a crash the
    /// next one knows it as its own; unless `keep` it is removed at a clean end.
    ///
    /// # Errors
    /// The kernel has no path management, or the journal cannot be written.
    pub fn open(
        policies: Box<dyn Policies>,
        addresses: Rc<Addresses>,
        journal: Place,
        keep: bool,
    ) -> Result<Self, Error> {
        let policies: Rc<dyn Policies> = policies.into();
        let mut pm = PathManager::open()?;
        let mut journal = EndpointJournal::open(journal, &pm.endpoints()?)?;
        journal.keep(keep)?;
        let kept = Rc::new(RefCell::new(Kept::new(pm, journal)));
        let roles = Box::new(Roles(kept.clone()));
        let manager = Manager::of_one(Box::new(policies.clone()), addresses.clone(), roles)?;
        let mut endpoints = Self {
            manager,
            kept,
            policies,
            addresses,
            diag: Diag::open()?,
            loads: Loads::default(),
            speaker: None,
            survey_at_ns: 0,
            addresses_at_ns: None,
        };
        endpoints.keep()?;
        Ok(endpoints)
    }

    /// One endpoint for each usable address, and none for the others.
    fn keep(&mut self) -> Result<(), Error> {
        let mut remotes = self.policies.destinations();
        remotes.extend(self.manager.live().map(|(_, one)| one.initial.addresses().1));
        remotes.extend(ANYWHERE);
        let mut usable = self.addresses.usable_towards_any(&remotes);
        if !usable.iter().any(|(_, _, address)| address.is_ipv6()) {
            usable.extend(self.addresses.usable_towards_any(&[ANYWHERE_NEAR]));
        }
        let mut kept = self.kept.borrow_mut();
        for made in kept.journal.endpoints.clone() {
            let same = |(_, device, address): &(_, u32, IpAddr)| {
                (*device, *address) == (made.device, made.address)
            };
            if !usable.iter().any(same) {
                kept.remove(&made)?;
            }
        }
        for (_, device, address) in usable {
            match kept.make(address, device) {
                // There is no room, or it has gone meanwhile.
                Err(Error::Refused(refusal)) => log::write(&format!("mptune-agent: {refusal}")),
                done => done?,
            }
        }
        kept.raise_limits()
    }

    /// Looks who carries how much, and lets that connection speak.
    fn survey(&mut self) -> Result<(), Error> {
        let began_ns = sys::monotonic_ns();
        let mut total: BTreeMap<u32, u64> = BTreeMap::new();
        each_subflow(&mut self.diag, |token, _, carried| {
            let sum = total.entry(token).or_default();
            *sum = sum.saturating_add(carried);
        })?;
        let next = self.loads.choose(total, self.speaker);
        if next != self.speaker {
            self.speaker = next;
            self.kept.borrow_mut().forget_wanted();
            self.manager.turn_to(next)?;
            // It may lead where no connection has led before.
            self.addresses_at_ns.get_or_insert_with(sys::monotonic_ns);
        }
        let now_ns = sys::monotonic_ns();
        self.survey_at_ns = now_ns + SURVEY_NS.max((now_ns - began_ns) * SURVEY_SHARE);
        Ok(())
    }
}

impl Steering for Endpoints {
    fn events(&self, _now_ns: u64) -> Option<BorrowedFd<'_>> {
        Some(self.manager.events())
    }

    fn pause(&self, now_ns: u64) -> Option<Duration> {
        let own = self.addresses_at_ns.into_iter().chain([self.survey_at_ns]).min();
        let own = own.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(now_ns)));
        own.into_iter().chain(self.manager.pause(now_ns)).min()
    }

    fn step(&mut self) -> Result<(), Error> {
        self.manager.step()?;
        // A role that was refused because of a subflow that has ended is ordered again at the next glance.
        let established = self.manager.live().flat_map(|(_, one)| one.established());
        let pairs = established.map(|(_, pair)| pair).collect();
        self.kept.borrow_mut().established(&pairs);
        let now_ns = sys::monotonic_ns();
        if self.addresses_at_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.addresses_at_ns = None;
            self.keep()?;
        }
        if now_ns >= self.survey_at_ns {
            self.survey()?;
        }
        Ok(())
    }

    fn on_address(&mut self, change: &AddressChange) -> Result<(), Error> {
        self.addresses_at_ns.get_or_insert_with(|| sys::monotonic_ns() + SETTLING_NS);
        self.manager.on_address(change)
    }

    fn set_policies(&mut self, policies: Box<dyn Policies>) {
        self.policies = policies.into();
        self.manager.set_policies(Box::new(self.policies.clone()));
        self.addresses_at_ns.get_or_insert_with(sys::monotonic_ns);
    }

    fn resynchronise(&mut self) {
        self.manager.resynchronise();
    }

    fn resynced(&self) -> Resynced {
        self.manager.resynced()
    }

    fn take_happenings(&mut self) -> Vec<Happening> {
        self.manager.take_happenings()
    }

    /// The one that speaks.
    fn steered(&self) -> Vec<Steered> {
        self.manager.steered()
    }

    fn end(&mut self) -> Result<(), Error> {
        let mut kept = self.kept.borrow_mut();
        if kept.journal.keep {
            return Ok(());
        }
        let needed = needed(&mut self.diag, &kept.journal.addresses())?;
        for address in &needed {
            log::write(&format!(
                "mptune-agent: the endpoint at {address} {STAYS}; the next daemon or `mptune daemon --restore` takes it \
                 back without them"
            ));
        }
        kept.take_back(&needed).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(loads: &mut Loads, speaker: Option<u32>, totals: &[(u32, u64)]) -> Option<u32> {
        loads.choose(totals.iter().copied().collect(), speaker)
    }

    #[test]
    fn the_one_that_carries_most_speaks_and_another_only_after_a_while() {
        let mut loads = Loads::default();
        assert_eq!(choose(&mut loads, None, &[]), None);
        assert_eq!(choose(&mut loads, None, &[(1, 10), (2, 30)]), Some(2));
        assert_eq!(choose(&mut loads, Some(2), &[(1, 60), (2, 60)]), Some(2));
        for total in [200, 400] {
            assert_eq!(choose(&mut loads, Some(2), &[(1, total), (2, 70)]), Some(2));
        }
        assert_eq!(choose(&mut loads, Some(2), &[(1, 600), (2, 70)]), Some(1));
        assert_eq!(choose(&mut loads, Some(1), &[(2, 70)]), Some(2));
    }

    #[test]
    fn one_that_carries_more_only_now_and_then_does_not_take_over() {
        let mut loads = Loads::default();
        choose(&mut loads, None, &[(2, 1)]);
        let mut total = 0;
        for round in 0..20 {
            total += if round % 3 == 2 { 0 } else { 100 };
            assert_eq!(choose(&mut loads, Some(2), &[(1, total), (2, round)]), Some(2));
        }
    }
}
