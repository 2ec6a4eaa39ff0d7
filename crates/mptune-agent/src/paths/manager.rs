//! All connections that are opened from one network namespace, or in it, each under its policy.
//!
//! It watches them through the kernel's events and by polling: a glance at all of them in one dump,
//! a close look at those where something is wrong, and samples of those whose policy decides by them (see
//! `sampling` for which and when). There is no per-connection work except what its
//! events require. It decides nothing (see `connection` for what does).

mod execution;
mod executor;
mod looks;
mod resync;

pub use self::executor::Executor;

use super::connection::{Connection, PathChange};
use super::happening::{Happening, Noted, What};
use super::hosting::{AddressChange, Hosting};
use super::policies::{Opened, Policies};
use super::protocol::{ConnectionReport, Message};
use super::sampling::Schedule;
use crate::kernel::diag::Diag;
use crate::kernel::error::Error;
use crate::kernel::mptcp_pm::commands::Commands;
use crate::kernel::mptcp_pm::events::{Change, Event, Events, SubflowEvent};
use crate::kernel::pair::Pair;
use crate::kernel::sys;
use crate::paths::survey::Resync;
use mptune_core::pathmanager::PathId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Time between two glances.
const GLANCE_NS: u64 = 100_000_000;
/// Time between two close looks at a connection in trouble, for the takeover time.
const CLOSE_LOOK_NS: u64 = 20_000_000;
/// Number of finished connections, the latest ones, that the report has.
const KEPT: usize = 1000;
/// Addresses that come and go together are acted on together, after this long.
const SETTLING_NS: u64 = 100_000_000;
/// The processor slept if the clock that counts sleep is ahead by this much more than before.
const SLEPT_NS: u64 = 1_000_000_000;
/// On a busy host events wait for each other: taken one by one they would cost a turn each, and most connections
/// that open with some of them end with the next. In the long run they are taken once in this time,
const EVENTS_NS: u64 = 20_000_000;
/// but after a pause this many times at once: a connection begins with three.
const EVENTS_AT_ONCE: u64 = 4;
/// Events that no caller takes, after which the oldest are dropped.
const MOST_HAPPENINGS: usize = 4096;

/// Runs a policy for every connection that is opened from this namespace after `open`.
pub struct Manager {
    policies: Box<dyn Policies>,
    /// For paths that are not known beforehand.
    host: Option<Rc<dyn Hosting>>,
    happenings: VecDeque<Happening>,
    /// Policies with what is reported of their first connection that it concerns, and not again.
    told: HashSet<(Arc<str>, String)>,
    /// Time to act on changed addresses.
    addresses_at_ns: Option<u64>,
    /// Time slept since the machine started.
    slept_ns: u64,
    events: Events,
    kernel: Box<dyn Executor>,
    /// The only connection that is managed; none for all.
    only: Option<u32>,
    all: bool,
    diag: Diag,
    withdrawn: BTreeSet<PathId>,
    /// By token.
    live: BTreeMap<u32, Connection>,
    over: VecDeque<Connection>,
    /// The connections of established subflows.
    tokens: HashMap<Pair, u32>,
    troubled: BTreeSet<u32>,
    sampling: Schedule,
    /// The connection that had the last turn.
    turn: u32,
    glance_at_ns: u64,
    close_look_at_ns: u64,
    /// Time at which the budget for taking events is used up, see `EVENTS_NS`.
    events_paid_ns: u64,
    /// Connections that end with the events that were taken, by the number of the event.
    ending: HashMap<u32, usize>,
    /// Schedule of surveys, and their corrections.
    resync: Resync,
    /// Connections whose beginning was missed.
    to_begin: VecDeque<u32>,
    /// Connections that other programs manage, or that had no policy when they began.
    left_alone: HashSet<u32>,
}

impl Manager {
    /// Starts watching.
    ///
    /// # Errors
    /// The kernel has no path management.
    pub fn open(policies: Box<dyn Policies>) -> Result<Self, Error> {
        Ok(Self {
            policies,
            host: None,
            happenings: VecDeque::new(),
            told: HashSet::new(),
            addresses_at_ns: None,
            slept_ns: slept_ns(),
            events: Events::open()?,
            kernel: Box::new(Commands::open()?),
            only: None,
            all: true,
            diag: Diag::open()?,
            withdrawn: BTreeSet::new(),
            live: BTreeMap::new(),
            over: VecDeque::new(),
            tokens: HashMap::new(),
            troubled: BTreeSet::new(),
            sampling: Schedule::default(),
            turn: 0,
            glance_at_ns: 0,
            close_look_at_ns: 0,
            events_paid_ns: 0,
            ending: HashMap::new(),
            resync: Resync::default(),
            to_begin: VecDeque::new(),
            left_alone: HashSet::new(),
        })
    }

    /// The same for all connections of this host, whose addresses become paths. Those that are there
    /// already are taken over.
    ///
    /// # Errors
    /// The kernel has no path management.
    pub fn of_host(policies: Box<dyn Policies>, host: Rc<dyn Hosting>) -> Result<Self, Error> {
        let mut manager = Self { host: Some(host), ..Self::open(policies)? };
        manager.resync = Resync::now_and_then();
        manager.take_over()?;
        Ok(manager)
    }

    /// The same for one connection at a time ([`Manager::turn_to`]), whose orders are carried out elsewhere.
    ///
    /// # Errors
    /// The kernel has no path management.
    pub fn of_one(
        policies: Box<dyn Policies>,
        host: Rc<dyn Hosting>,
        kernel: Box<dyn Executor>,
    ) -> Result<Self, Error> {
        let resync = Resync::now_and_then();
        Ok(Self { host: Some(host), kernel, all: false, resync, ..Self::open(policies)? })
    }

    /// From now on this connection is managed, or none.
    ///
    /// # Errors
    /// The kernel's side no longer works.
    pub fn turn_to(&mut self, token: Option<u32>) -> Result<(), Error> {
        for other in self.live.keys().copied().collect::<Vec<_>>() {
            self.close(other);
        }
        self.only = token;
        self.left_alone.clear();
        if token.is_some() { self.take_over() } else { Ok(()) }
    }

    /// New connections get these from now on; living ones keep what they have.
    pub fn set_policies(&mut self, policies: Box<dyn Policies>) {
        self.policies = policies;
        self.told.clear();
    }

    /// Something about the host's addresses is different.
    ///
    /// # Errors
    /// The kernel's side no longer works.
    pub fn on_address(&mut self, _change: &AddressChange) -> Result<(), Error> {
        self.addresses_at_ns.get_or_insert_with(|| sys::monotonic_ns() + SETTLING_NS);
        Ok(())
    }

    /// Events since the last call.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings).into()
    }

    /// The connections that exist, by their tokens.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Connection)> {
        self.live.iter().map(|(token, connection)| (*token, connection))
    }

    /// Readable when there are events.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Events wait until then, CLOCK_MONOTONIC; for one connection, or for a measurement, none do.
    fn events_at_ns(&self) -> u64 {
        self.events_paid_ns.saturating_sub(EVENTS_AT_ONCE * EVENTS_NS)
    }

    /// Events are not taken now: [`Manager::pause`] returns for how long.
    pub fn rests(&self, now_ns: u64) -> bool {
        now_ns < self.events_at_ns()
    }

    /// Time without anything to do except events and commands; none means forever.
    pub fn pause(&self, now_ns: u64) -> Option<Duration> {
        let glance = (!self.live.is_empty()).then_some(self.glance_at_ns);
        let close_look = (!self.troubled.is_empty()).then_some(self.close_look_at_ns);
        let addresses = self.addresses_at_ns.filter(|_| !self.live.is_empty());
        let events = self.rests(now_ns).then(|| self.events_at_ns());
        let resync = (!self.rests(now_ns)).then(|| self.resync_at_ns()).flatten();
        let further = addresses.into_iter().chain(self.sampling.due_ns()).chain(events);
        let further = further.chain(resync);
        let next = glance.into_iter().chain(close_look).chain(further).min()?;
        Some(Duration::from_nanos(next.saturating_sub(now_ns)))
    }

    /// Does what is due: events that have arrived, then polling.
    ///
    /// # Errors
    /// The kernel's side no longer works.
    pub fn step(&mut self) -> Result<(), Error> {
        if self.has_slept() {
            self.resync.ask();
        }
        if !self.rests(sys::monotonic_ns()) {
            self.take_events()?;
            self.begin_some()?;
            self.resynchronise_if_due()?;
        }
        if self.addresses_at_ns.is_some_and(|at_ns| sys::monotonic_ns() >= at_ns) {
            self.look_at_addresses()?;
        }
        if !self.troubled.is_empty() && sys::monotonic_ns() >= self.close_look_at_ns {
            self.close_look_at_ns = sys::monotonic_ns() + CLOSE_LOOK_NS;
            let troubled = self.troubled.clone();
            self.look_closely(troubled)?;
        }
        if !self.live.is_empty() && sys::monotonic_ns() >= self.glance_at_ns {
            self.glance()?;
        }
        self.sample()
    }

    /// This many payload bytes of the connection were sent.
    pub fn on_bytes_sent(&mut self, bytes: u64) -> Result<(), Error> {
        self.each(|connection, now_ns| connection.on_bytes_sent(bytes, now_ns))
    }

    /// A path should be used differently; when this returns the kernel has its commands.
    pub fn on_path(&mut self, change: PathChange, path: PathId) -> Result<(), Error> {
        match change {
            PathChange::Withdraw => self.withdrawn.insert(path),
            PathChange::Readmit => self.withdrawn.remove(&path),
            PathChange::Remove | PathChange::Add => false,
        };
        self.each(|connection, now_ns| connection.on_path(change, path, now_ns))
    }

    /// Every connection so far, in order of creation.
    pub fn report(&mut self) -> Result<Message, Error> {
        let mut failure = None;
        let diag = &mut self.diag;
        let mut kernel = |pair: &Pair| match diag.look_at(pair) {
            Ok(seen) => seen,
            Err(error) => {
                failure = Some(error);
                None
            }
        };
        let mut all: Vec<_> = self.over.iter().chain(self.live.values()).collect();
        all.sort_by_key(|connection| connection.created_ns);
        let connections =
            all.into_iter().map(|one| ConnectionReport::new(one, &mut kernel)).collect();
        let report = Message::Report { connections, cpu_ns: sys::cpu_ns() };
        failure.map_or(Ok(report), Err)
    }

    // Events

    /// Acts on the events that have arrived; the connections that they were about.
    fn take_events(&mut self) -> Result<HashSet<u32>, Error> {
        let mut events = Vec::new();
        if self.events.take(&mut events)? {
            self.resync.on_lost(self.events.dropped());
        }
        if self.is_of_host() {
            if !events.is_empty() {
                self.events_paid_ns = self.events_paid_ns.max(sys::monotonic_ns()) + EVENTS_NS;
            }
            self.ending = endings(&events);
        }
        for (number, event) in events.iter().enumerate() {
            if let Event::Closed { token } = event
                && self.ending.get(token) == Some(&number)
            {
                self.ending.remove(token);
            }
            self.on_event(event)?;
        }
        Ok(events.iter().filter_map(Event::token).collect())
    }

    /// All connections of a host are managed.
    fn is_of_host(&self) -> bool {
        self.host.is_some() && self.all
    }

    fn on_event(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            &Event::Created { token, pair, server_side } => {
                self.create(token, &Opened { pair, server_side });
                Ok(())
            }
            &Event::Established { token, denies_initial } => self.establish(token, denies_initial),
            Event::Closed { token } => {
                self.left_alone.remove(token);
                self.close(*token);
                Ok(())
            }
            Event::Subflow(event) => self.on_subflow(event),
            &Event::Announced { token, id, address } => {
                self.on_peers_address(token, id, true);
                match self.host.clone() {
                    Some(host) => self.with(token, |connection, now_ns| {
                        connection.on_announced(id, address, &*host, now_ns);
                    }),
                    None => self.announce(token, address.ip().to_canonical()),
                }
            }
            Event::Removed { token, id } => {
                self.on_peers_address(*token, *id, false);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn create(&mut self, token: u32, opened: &Opened) {
        let pair = opened.pair;
        if !self.all && self.only != Some(token) {
            return;
        }
        // A look at what there is may have been faster than the event.
        if self.live.get(&token).is_some_and(|known| known.initial == pair) {
            return;
        }
        let Some(assignment) = self.policies.assignment(opened) else {
            self.left_alone.insert(token);
            return;
        };
        self.left_alone.remove(&token);
        let now_ns = sys::monotonic_ns();
        let connection = match (&self.host, assignment.path_of(&pair)) {
            (Some(host), _) => {
                let device = host.device_of(pair.addresses().0);
                Connection::of_host(&assignment, opened, device, self.kernel.opens(), now_ns)
            }
            (None, Some(path)) => Connection::new(&assignment, pair, path, &self.withdrawn, now_ns),
            (None, None) => return,
        };
        self.close(token);
        if self.live.is_empty() {
            self.glance_at_ns = now_ns + GLANCE_NS;
        }
        self.tokens.insert(pair, token);
        self.live.insert(token, connection);
    }

    fn establish(&mut self, token: u32, denies_initial: bool) -> Result<(), Error> {
        if !self.live.contains_key(&token) {
            return Ok(());
        }
        self.note([token])?;
        let host = self.host.clone();
        self.with(token, |connection, now_ns| match host {
            Some(host) => connection.on_begun(denies_initial, &*host, now_ns),
            None => connection.on_established(now_ns),
        })
    }

    fn close(&mut self, token: u32) {
        let Some(mut connection) = self.live.remove(&token) else { return };
        for (_, pair) in connection.established() {
            self.forget_pair(token, &pair);
        }
        self.troubled.remove(&token);
        self.sampling.forget(token);
        connection.on_closed(sys::monotonic_ns());
        if self.host.is_some() {
            return note_all(&mut self.happenings, &mut self.told, token, &mut connection);
        }
        self.over.push_back(connection);
        if self.over.len() > KEPT {
            self.over.pop_front();
        }
    }

    fn on_subflow(&mut self, event: &SubflowEvent) -> Result<(), Error> {
        if !self.live.contains_key(&event.token) || event.change == Change::Priority {
            return Ok(());
        }
        self.note([event.token])?;
        if event.change == Change::Established {
            if let Some(connection) = self.live.get_mut(&event.token) {
                connection.learn_numbers(&event.pair, event.local_id, event.remote_id);
            }
            return self.join(event.token, event.pair);
        }
        self.forget_pair(event.token, &event.pair);
        self.with(event.token, |connection, now_ns| connection.on_ended(event, now_ns))
    }

    /// A subflow of a connection is no more; another connection may have its ends already.
    fn forget_pair(&mut self, token: u32, pair: &Pair) {
        if self.tokens.get(pair) == Some(&token) {
            self.tokens.remove(pair);
        }
    }

    fn on_peers_address(&mut self, token: u32, id: u8, there: bool) {
        if let Some(connection) = self.live.get_mut(&token) {
            connection.on_peers_address(id, there);
        }
    }

    /// The peer has an address (again).
    fn announce(&mut self, token: u32, address: IpAddr) -> Result<(), Error> {
        let known = self.live.get(&token).map(|connection| connection.paths_to(address));
        for path in known.unwrap_or_default() {
            self.with(token, |connection, now_ns| {
                connection.on_path(PathChange::Add, path, now_ns);
            })?;
        }
        Ok(())
    }

    fn join(&mut self, token: u32, pair: Pair) -> Result<(), Error> {
        let is_ending = self.ending.contains_key(&token);
        let seen = if is_ending { None } else { self.diag.look_at(&pair)? };
        let tokens = &mut self.tokens;
        let mut joined = false;
        if let Some(connection) = self.live.get_mut(&token) {
            joined = connection.on_joined(pair, seen, sys::monotonic_ns()).is_some();
        }
        if joined {
            tokens.insert(pair, token);
        }
        self.carry_out(token)
    }

    /// Acts on what has become of the host's addresses.
    fn look_at_addresses(&mut self) -> Result<(), Error> {
        self.addresses_at_ns = None;
        let Some(host) = self.host.clone() else { return Ok(()) };
        self.each(|connection, now_ns| connection.on_addresses(&*host, now_ns))?;
        self.each(|connection, now_ns| connection.on_usable(&*host, now_ns))
    }

    /// The machine slept: timers did not run, and peers may have given up.
    fn has_slept(&mut self) -> bool {
        let before_ns = std::mem::replace(&mut self.slept_ns, slept_ns());
        self.slept_ns.saturating_sub(before_ns) > SLEPT_NS
    }

    // Polling
}

/// The connections that end, with the number of their last event.
fn endings(events: &[Event]) -> HashMap<u32, usize> {
    let ends = events.iter().enumerate().filter_map(|(number, event)| match event {
        Event::Closed { token } => Some((*token, number)),
        _ => None,
    });
    ends.collect()
}

/// The record of an event of a connection, for a journal.
fn note_all(
    happenings: &mut VecDeque<Happening>,
    told: &mut HashSet<(Arc<str>, String)>,
    token: u32,
    connection: &mut Connection,
) {
    for Noted { what, subflow, why } in connection.take_happened() {
        let (at_ns, policy) = (sys::monotonic_ns(), connection.policy());
        if what == What::OneFamily && !told.insert((policy.clone(), why.clone())) {
            continue;
        }
        if happenings.len() == MOST_HAPPENINGS {
            happenings.pop_front();
        }
        happenings.push_back(Happening { at_ns, token, policy, subflow, what, why });
    }
}

/// Time that the machine has slept since it started.
fn slept_ns() -> u64 {
    sys::boottime_ns().saturating_sub(sys::monotonic_ns())
}
