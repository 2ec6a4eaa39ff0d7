//! Connections whose paths are not all known beforehand: the addresses of this host and of the peer become
//! paths as they come, and lose their subflows when they go.
//!
//! - Where this side opens subflows, every usable address of this host makes a path with every address of the
//!   peer, unless the policy came with paths for this peer. Otherwise paths appear when the peer joins.
//! - The last subflow is never closed because its address is gone: it may come back, and until another
//!   subflow is there the connection has nothing else.
//! - A subflow that failed without anybody's will is tried again, ever less often.
//! - In a socket of IPv6 both address families have paths, those of the other one as soon as the peer has an address
//!   of it. Linux allows no subflow over IPv6 in a socket of IPv4, which is reported once.

use super::ends::{Allowance, Appearing, Ends, Local, Presence, Remote};
use super::retrying::FIRST_WAIT_NS;
use super::{Act, Connection};
use crate::kernel::pair::Pair;
use crate::paths::assignment::{Assignment, KernelPath};
use crate::paths::happening::What;
use crate::paths::hosting::{ANYWHERE, ANYWHERE_NEAR, Hosting};
use crate::paths::policies::Opened;
use mptune_core::pathmanager::{PathId, Report, Stack, State, SubflowId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

impl Connection {
    /// A connection of this host, its first subflow from this device; `opens` if this side may open
    /// others.
    pub fn of_host(
        assignment: &Assignment,
        opened: &Opened,
        device: Option<String>,
        opens: bool,
        now_ns: u64,
    ) -> Self {
        let terms = assignment.terms.clone().unwrap_or_default();
        let opens = opens && (!opened.server_side || terms.open_accepted);
        let stack = if opens { Stack::LINUX } else { Stack::LINUX_ACCEPTED };
        let mut assignment = assignment.clone();
        if !assignment.knows(opened.pair.addresses().1) {
            readdress_all(&mut assignment, opened.pair.addresses().1);
        }
        let known = assignment.path_of(&opened.pair);
        let mut ends = ends_of(&assignment, &opened.pair);
        let path = known.unwrap_or_else(|| {
            let (local, remote) = opened.pair.addresses();
            let local = ends.local(local, device.clone()).unwrap_or(0);
            let remote = ends.remote(remote, |_| true).unwrap_or(0);
            add_path(&mut assignment, &ends, local, remote)
        });
        let mut connection = Self::begun(&assignment, opened, path, stack, now_ns);
        connection.appearing = Some(Appearing {
            ends,
            back: Vec::new(),
            grows: opens && known.is_none(),
            denies_initial: false,
            announced: BTreeSet::new(),
            retries: BTreeMap::new(),
            notify_at: None,
            carried: 0,
            allowance: Allowance::default(),
            one_family: false,
        });
        connection.report(Report::Joined(0), now_ns);
        connection
    }

    /// The host's addresses as they are now: what was closed for them is to be carried out before
    /// [`Connection::on_usable`].
    pub fn on_addresses(&mut self, host: &dyn Hosting, now_ns: u64) {
        let (own, peer) = self.initial.addresses();
        let of_peer = self.remotes_of_the_other_family();
        let leads = |address: IpAddr| match address.is_ipv4() == own.is_ipv4() {
            true => host.leads(address, peer),
            // One that was only announced may lead to addresses of the peer that are not known.
            false if of_peer.is_empty() => host.device_of(address).is_some(),
            false => of_peer.iter().any(|&remote| host.leads(address, remote)),
        };
        self.note_presence(leads);
        self.leave(now_ns);
    }

    /// Uses what the host's addresses have become good for.
    pub fn on_usable(&mut self, host: &dyn Hosting, now_ns: u64) {
        for address in
            self.appearing.as_mut().map(|one| std::mem::take(&mut one.back)).unwrap_or_default()
        {
            self.retry_from(address, now_ns);
        }
        if !self.may_grow() && !self.may_announce() {
            return;
        }
        let interfaces = self.assignment.terms.as_ref().and_then(|terms| terms.interfaces.clone());
        let wanted = |device: &String| interfaces.as_ref().is_none_or(|some| some.contains(device));
        let mut usable = host.usable_towards(self.initial.addresses().1);
        for remote in self.remotes_of_the_other_family() {
            usable.extend(host.usable_towards(remote));
        }
        if self.may_announce() && self.takes_both_families() {
            usable.extend(anywhere(host, !self.initial.addresses().0.is_ipv4()));
        }
        for (device, address) in usable {
            if wanted(&device) {
                self.use_address(device, address, now_ns);
            }
        }
    }

    /// Addresses of the peer in the other family than that of the first subflow.
    fn remotes_of_the_other_family(&self) -> Vec<IpAddr> {
        let own = self.initial.addresses().1.is_ipv4();
        let remotes = self.appearing.iter().flat_map(|appearing| &appearing.ends.remotes);
        let others = remotes.filter(|one| one.address.is_ipv4() != own);
        others.map(|one| one.address).collect()
    }

    /// Subflows of both families are possible: Linux allows them in sockets of IPv6 that are not of IPv6 alone.
    fn takes_both_families(&self) -> bool {
        let one = self.appearing.as_ref().is_some_and(|appearing| appearing.one_family);
        self.initial.local.is_ipv6() && !one
    }

    /// Subflows of the other family are not possible in this socket, which has to be known once.
    pub(super) fn take_one_family(&mut self, what: &str) {
        let own = if self.initial.local.is_ipv4() { "IPv4" } else { "IPv6 alone" };
        let Some(appearing) = &mut self.appearing else { return };
        if !std::mem::replace(&mut appearing.one_family, true) {
            let why = format!(
                "{what}: the program's socket is of {own}, in which Linux allows no other subflows"
            );
            self.note_happening(What::OneFamily, Some(self.initial), why);
        }
    }

    /// The local end of a path; none if it has none in this connection.
    fn local_of(&self, path: PathId) -> Option<&Local> {
        let (own, _) = self.assignment.addresses_for(path, &self.initial)?;
        let number = self.assignment.paths[path].local;
        let mut locals = self.appearing.as_ref()?.ends.locals.iter();
        locals.find(|one| one.number == number && one.address.is_ipv4() == own.is_ipv4())
    }

    /// The peer's end of a path; none if it has none in this connection.
    fn remote_of(&self, path: PathId) -> Option<&Remote> {
        let (_, other) = self.assignment.addresses_for(path, &self.initial)?;
        let number = self.assignment.paths[path].remote;
        let mut remotes = self.appearing.as_ref()?.ends.remotes.iter();
        remotes.find(|one| one.number == number && one.address.is_ipv4() == other.is_ipv4())
    }

    /// The address of this host where a path begins is usable.
    pub(super) fn begins_there(&self, path: PathId) -> bool {
        self.local_of(path).is_some_and(|one| one.presence == Presence::There)
    }

    /// It is fully established, and perhaps the peer wants no further subflows to its first address.
    /// Of that it may have been heard before, from a look at what there is.
    pub fn on_begun(&mut self, denies_initial: bool, host: &dyn Hosting, now_ns: u64) {
        if let Some(appearing) = &mut self.appearing {
            appearing.denies_initial |= denies_initial;
        }
        if self.begun {
            return;
        }
        self.note_happening(What::Opened, Some(self.initial), String::new());
        let of_ipv6 = |path: &KernelPath| {
            !path.pairs.is_empty() && path.pairs.iter().all(|(local, _)| local.is_ipv6())
        };
        if self.initial.local.is_ipv4() && self.assignment.paths.iter().any(of_ipv6) {
            self.take_one_family("paths over IPv6 are not used");
        }
        self.on_addresses(host, now_ns);
        self.on_usable(host, now_ns);
        self.on_established(now_ns);
    }

    /// It is fully established, and its policy has begun.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// It is taken over, and a subflow is found standby or not.
    pub fn on_found(&mut self, subflow: SubflowId, backup: bool) {
        self.subflows[subflow].kernel_backup = backup;
        self.driver.set_backup(subflow, backup);
    }

    /// The kernel has numbers for the addresses of a subflow.
    pub fn learn_numbers(&mut self, pair: &Pair, local_id: u8, remote_id: u8) {
        let (local, remote) = pair.addresses();
        self.numbers.learn(local, local_id);
        if let Some(appearing) = &mut self.appearing {
            let mut known = appearing.ends.remotes.iter_mut();
            if let Some(remote) = known.find(|one| one.address == remote) {
                remote.id.get_or_insert(remote_id);
            }
        }
    }

    /// The peer has an address (again); port 0 is that of the connection.
    pub fn on_announced(&mut self, id: u8, end: SocketAddr, host: &dyn Hosting, now_ns: u64) {
        let address = end.ip().to_canonical();
        let (family, grows) = (self.initial.addresses().0.is_ipv4(), self.may_grow());
        let Some(appearing) = &self.appearing else { return };
        let is_own = appearing.ends.locals.iter().any(|one| one.address == address);
        if is_own || !self.is_of_a_peer(address) {
            return;
        }
        if address.is_ipv4() != family && !self.takes_both_families() {
            if grows && self.initial.local.is_ipv4() {
                self.take_one_family("an IPv6 address that the peer announces is not used");
            }
            return;
        }
        let known = appearing.ends.remotes.iter().position(|one| one.address == address);
        if known.is_none() && !grows {
            return;
        }
        let opens = known.is_none_or(|place| self.lacks_subflows(place));
        let allowed = if opens { self.take_allowance(now_ns) } else { Ok(()) };
        let place = match (known, allowed) {
            (None, Err(_)) => return,
            (Some(place), _) => Some(place),
            (None, Ok(())) => self.place_of(address),
        };
        let (Some(place), Some(appearing)) = (place, &mut self.appearing) else { return };
        let remote = &mut appearing.ends.remotes[place];
        let is_back = !std::mem::replace(&mut remote.there, true);
        remote.id = Some(id);
        if end.port() != 0 {
            remote.port = Some(end.port());
        }
        let locals: Vec<usize> = (0..appearing.ends.locals.len())
            .filter(|&local| appearing.ends.locals[local].presence == Presence::There)
            .collect();
        if is_back {
            // The kernel closes the subflows of a withdrawn address some time after it reports it, those that are
            // opened meanwhile too.
            self.try_later(place, now_ns + Allowance::EACH_NS);
            if !opens {
                return;
            }
        }
        if let Err(later_ns) = allowed {
            return self.try_later(place, later_ns);
        }
        for local in locals {
            self.use_path(local, place, now_ns);
        }
        if address.is_ipv4() != family {
            // Of the other family this host's addresses are of use only now.
            self.on_usable(host, now_ns);
        }
    }

    /// An address that may be another host's. (What a peer announces is its choice: it must not make this host
    /// talk to itself, or to many.)
    fn is_of_a_peer(&self, address: IpAddr) -> bool {
        let is_broadcast = matches!(address, IpAddr::V4(one) if one.is_broadcast());
        let is_here = address.is_loopback() && !self.initial.addresses().1.is_loopback();
        !(address.is_unspecified() || address.is_multicast() || is_broadcast || is_here)
    }

    /// The place of an address of the peer; that of one without subflows if all are taken.
    fn place_of(&mut self, address: IpAddr) -> Option<usize> {
        let in_use = self.remotes_in_use();
        self.appearing.as_mut()?.ends.remote(address, |number| in_use.contains(&number))
    }

    /// From some usable address of this host there is no subflow to a place of the peer, nor one being opened.
    fn lacks_subflows(&self, place: usize) -> bool {
        let Some(appearing) = &self.appearing else { return false };
        let remote = appearing.ends.remotes[place].address;
        let open = |state| matches!(state, State::Joining | State::Established);
        let used: Vec<IpAddr> = (self.subflows().filter(|(_, state)| open(*state)))
            .map(|(one, _)| one.path)
            .filter(|&path| self.remote_of(path).is_some_and(|one| one.address == remote))
            .filter_map(|path| self.local_of(path).map(|one| one.address))
            .collect();
        let usable = appearing.ends.locals.iter().filter(|one| one.presence == Presence::There);
        let mut same = usable.filter(|one| one.address.is_ipv4() == remote.is_ipv4());
        let own = self.initial.addresses().1.is_ipv4() == remote.is_ipv4();
        // Of the other family none is known before the peer's first address of it.
        let none_yet = !own && used.is_empty();
        none_yet || same.any(|one| !used.contains(&one.address))
    }

    fn take_allowance(&mut self, now_ns: u64) -> Result<(), u64> {
        let Some(appearing) = &mut self.appearing else { return Ok(()) };
        let taken = appearing.allowance.take(now_ns);
        if taken.is_err() && !std::mem::replace(&mut appearing.allowance.told, true) {
            let (some, each_s) = (Allowance::AT_ONCE, Allowance::EACH_NS / 1_000_000_000);
            let why = format!(
                "the peer announces addresses too often: {some} at once are used, then one in {each_s} s"
            );
            self.note_happening(What::Refused, Some(self.initial), why);
        }
        taken
    }

    /// The paths to a place of the peer are tried at that time, unless they are before.
    fn try_later(&mut self, place: usize, at_ns: u64) {
        let Some(appearing) = &self.appearing else { return };
        let paths = self.paths_to_place(&appearing.ends.remotes[place]);
        let Some(appearing) = &mut self.appearing else { return };
        for path in paths {
            let entry = appearing.retries.entry(path).or_insert((u64::MAX, FIRST_WAIT_NS));
            entry.0 = entry.0.min(at_ns);
        }
    }

    /// The peer withdrew an address, by its number.
    pub fn on_withdrawn(&mut self, id: u8) {
        if let Some(appearing) = &mut self.appearing {
            let gone = appearing.ends.remotes.iter_mut().filter(|one| one.id == Some(id));
            gone.for_each(|one| one.there = false);
        }
    }

    /// A policy may open subflows at further addresses.
    fn may_grow(&self) -> bool {
        self.appearing.as_ref().is_some_and(|appearing| appearing.grows)
    }

    fn may_announce(&self) -> bool {
        self.server_side && self.assignment.terms.as_ref().is_some_and(|terms| terms.announce)
    }

    /// Notes which addresses lead to the peer.
    fn note_presence(&mut self, leads: impl Fn(IpAddr) -> bool) {
        let Some(appearing) = &mut self.appearing else { return };
        for local in &mut appearing.ends.locals {
            match (local.presence, leads(local.address)) {
                (Presence::There, false) => local.presence = Presence::Leaving,
                (Presence::Leaving, true) => local.presence = Presence::There,
                (Presence::Gone, true) => {
                    local.presence = Presence::There;
                    appearing.back.push(local.address);
                }
                _ => {}
            }
        }
    }

    /// Closes the subflows of addresses that are gone, if there are others.
    pub(super) fn leave(&mut self, now_ns: u64) {
        let Some(appearing) = &self.appearing else { return };
        let is_at = |one: &super::Subflow, presence: Presence| {
            let here = one.pair.map(|pair| pair.addresses().0);
            appearing
                .ends
                .locals
                .iter()
                .any(|local| Some(local.address) == here && local.presence == presence)
        };
        let others = self.subflows.iter().any(|one| is_at(one, Presence::There));
        let any = self.subflows.iter().any(|one| is_at(one, Presence::Leaving));
        if any && !others {
            return;
        }
        let leaving = |place: &usize| appearing.ends.locals[*place].presence == Presence::Leaving;
        let leaving: Vec<_> = (0..appearing.ends.locals.len()).filter(leaving).collect();
        for place in leaving {
            self.close_at(place, now_ns);
        }
    }

    fn close_at(&mut self, place: usize, now_ns: u64) {
        let Some(appearing) = &mut self.appearing else { return };
        let local = &mut appearing.ends.locals[place];
        local.presence = Presence::Gone;
        let local = local.clone();
        let address = local.address;
        let told = appearing.announced.remove(&address);
        let paths = self.paths_from(&local);
        let open = self.subflows.iter().filter_map(|one| one.pair);
        let used = open.map(|pair| pair.addresses().0).any(|here| here == address);
        if let Some(address_id) = self.numbers.known(address)
            && (told || used)
        {
            self.acts.push(Act::Retract { address_id });
        }
        for path in paths {
            self.report(Report::AddressRemoved(path), now_ns);
        }
    }

    /// An address of this host leads to the peer again.
    fn retry_from(&mut self, address: IpAddr, now_ns: u64) {
        let Some(appearing) = &self.appearing else { return };
        let place = appearing.ends.locals.iter().find(|one| one.address == address);
        let Some(place) = place else { return };
        for path in self.paths_from(place) {
            self.retry(path, now_ns);
        }
        if self.may_announce() {
            self.announce(address);
        }
    }

    pub(super) fn retry(&mut self, path: PathId, now_ns: u64) {
        if self.remote_of(path).is_some_and(|one| one.there) {
            let on_path = self.subflows.iter_mut().filter(|one| one.path == path);
            on_path.for_each(|one| one.unwanted = false);
            self.report(Report::Retried(path), now_ns);
        }
    }

    /// Something new may use an address of this host.
    fn use_address(&mut self, device: String, address: IpAddr, now_ns: u64) {
        let grows = self.may_grow();
        let Some(appearing) = &mut self.appearing else { return };
        if appearing.ends.locals.iter().all(|one| one.address != address) {
            let Some(place) = appearing.ends.local(address, Some(device)) else { return };
            let remotes = appearing.ends.remotes.iter().enumerate();
            let there: Vec<_> = remotes.filter(|(_, one)| one.there).map(|(at, _)| at).collect();
            if grows {
                for remote in there {
                    self.use_path(place, remote, now_ns);
                }
            }
        }
        if self.may_announce() {
            self.announce(address);
        }
    }

    fn announce(&mut self, address: IpAddr) {
        let (local, port) = (self.initial.addresses().0, self.initial.local.port());
        let Some(appearing) = &mut self.appearing else { return };
        if address == local || !appearing.announced.insert(address) {
            return;
        }
        let places = appearing.ends.locals.iter();
        let number = places.filter(|one| one.address == address).map(|one| one.number).next();
        if let Some(address_id) = number.and_then(|number| self.address_id(address, number)) {
            let end = SocketAddr::new(address, port);
            self.acts.push(Act::Announce { end, address_id });
        }
    }

    /// A pair of places gets its path, or its path is tried again.
    fn use_path(&mut self, local: usize, remote: usize, now_ns: u64) {
        let Some(appearing) = &self.appearing else { return };
        let (here, there) = (&appearing.ends.locals[local], &appearing.ends.remotes[remote]);
        if here.address.is_ipv4() != there.address.is_ipv4() {
            return;
        }
        let addresses = (here.address, there.address);
        if let Some(path) = self.path_between(here, there) {
            self.readdress(path, addresses);
            return self.retry(path, now_ns);
        }
        let denied = appearing.denies_initial && there.address == self.initial.addresses().1;
        if denied || !appearing.grows {
            return;
        }
        let path = self.new_path(local, remote);
        self.report(Report::PathAdded(path), now_ns);
    }

    fn new_path(&mut self, local: usize, remote: usize) -> PathId {
        let Some(appearing) = &self.appearing else { unreachable!("only for such connections") };
        let path = add_path(&mut self.assignment, &appearing.ends, local, remote);
        self.driver.add_path(self.assignment.paths[path].ends())
    }

    /// A path has other addresses from now on.
    fn readdress(&mut self, path: PathId, (local, remote): (IpAddr, IpAddr)) {
        if self.assignment.paths[path].pairs.contains(&(local, remote)) {
            return;
        }
        let mut paths = self.assignment.paths.to_vec();
        paths[path].pairs.retain(|pair| pair.0.is_ipv4() != local.is_ipv4());
        paths[path].pairs.push((local, remote));
        self.assignment.paths = paths.into();
    }

    /// The path of a subflow that the peer opened between addresses that were not known.
    pub(super) fn path_of_stranger(&mut self, pair: &Pair) -> Option<PathId> {
        let in_use = self.remotes_in_use();
        let appearing = self.appearing.as_mut()?;
        let (local, remote) = pair.addresses();
        let local = appearing.ends.local(local, None)?;
        let remote = appearing.ends.remote(remote, |number| in_use.contains(&number))?;
        appearing.ends.remotes[remote].there = true;
        let appearing = self.appearing.as_ref()?;
        let (here, there) = (&appearing.ends.locals[local], &appearing.ends.remotes[remote]);
        let addresses = (here.address, there.address);
        match self.path_between(here, there) {
            Some(path) => {
                self.readdress(path, addresses);
                Some(path)
            }
            None => Some(self.new_path(local, remote)),
        }
    }

    /// The closed subflow that one that the peer opens on its path follows.
    pub(super) fn followed(&self, path: PathId) -> Option<SubflowId> {
        self.appearing.as_ref().and_then(|_| self.driver.closed(path))
    }

    /// The port of an address of the peer.
    pub(super) fn port_of(&self, remote: IpAddr) -> u16 {
        let mut remotes = self.appearing.iter().flat_map(|appearing| &appearing.ends.remotes);
        let own = remotes.find(|one| one.address == remote).and_then(|one| one.port);
        own.unwrap_or_else(|| self.initial.remote.port())
    }

    /// The addresses of this host that it knows.
    pub(super) fn addresses_of_host(&self) -> Vec<IpAddr> {
        let locals = self.appearing.iter().flat_map(|appearing| &appearing.ends.locals);
        locals.map(|one| one.address).collect()
    }

    /// Reason of a subflow's end by this side.
    pub(super) fn why_closed(&self, pair: &Pair) -> Option<String> {
        let address = pair.addresses().0;
        let mut locals = self.appearing.iter().flat_map(|appearing| &appearing.ends.locals);
        let gone = locals.any(|one| one.address == address && one.presence == Presence::Gone);
        gone.then(|| format!("{address} is no longer usable here"))
    }
}

/// Measurements with one host are used with another that the policy is for: paths to the first of its
/// addresses lead to the only one that is known of this one, the others nowhere.
fn readdress_all(assignment: &mut Assignment, remote: IpAddr) {
    let mut paths = assignment.paths.to_vec();
    let first = paths.first().map(|path| path.remote);
    for path in &mut paths {
        path.pairs
            .retain(|pair| Some(path.remote) == first && pair.0.is_ipv4() == remote.is_ipv4());
        path.pairs.iter_mut().for_each(|pair| pair.1 = remote);
    }
    assignment.paths = paths.into();
}

/// Addresses of this host in a family, of devices that lead to hosts anywhere.
fn anywhere(host: &dyn Hosting, ipv4: bool) -> Vec<(String, IpAddr)> {
    let hosts = ANYWHERE.into_iter().chain([ANYWHERE_NEAR]);
    let of_family = hosts.filter(|one| one.is_ipv4() == ipv4);
    let found = of_family.map(|one| host.usable_towards(one)).find(|usable| !usable.is_empty());
    found.unwrap_or_default()
}

/// The ends of the paths that are known beforehand, of a connection whose first subflow has these.
fn ends_of(assignment: &Assignment, initial: &Pair) -> Ends {
    let mut ends = Ends::default();
    for path in 0..assignment.paths.len() {
        let Some((local, remote)) = assignment.addresses_for(path, initial) else { continue };
        let KernelPath { local: here, remote: there, .. } = assignment.paths[path];
        if let Some(place) = ends.local(local, None) {
            ends.locals[place].number = here;
        }
        if let Some(place) = ends.remote(remote, |_| true) {
            ends.remotes[place].number = there;
        }
    }
    ends
}

/// A path between two places, and its number.
fn add_path(assignment: &mut Assignment, ends: &Ends, local: usize, remote: usize) -> PathId {
    let (here, there) = (&ends.locals[local], &ends.remotes[remote]);
    let name = here.device.clone().unwrap_or_else(|| here.address.to_string());
    let terms = assignment.terms.as_ref();
    let path = KernelPath {
        label: format!("{name}-{}", there.address),
        local: here.number,
        remote: there.number,
        pairs: vec![(here.address, there.address)],
        metered: terms.is_some_and(|terms| {
            here.device.as_ref().is_some_and(|device| terms.metered.contains(device))
        }),
    };
    assignment.policy.add_path(path.ends());
    assignment.paths = assignment.paths.iter().cloned().chain([path]).collect();
    assignment.paths.len() - 1
}
