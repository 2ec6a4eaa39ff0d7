//! One kernel connection under a driver of the core: what happened goes in, what the kernel should do
//! comes out.
//!
//! If not all paths are known beforehand, `appearing` has what is special about that. It opens no socket
//! and reads no clock. The driver (`mptune_core::pathmanager`), which the simulator
//! also runs, decides which subflows there should be and in which role; this module translates its
//! numbers to addresses and ports and back, and records what happened.

mod appearing;
mod between;
mod ends;
mod ordering;
mod retrying;

use self::ends::{Appearing, Numbers};
use super::assignment::Assignment;
use super::happening::{Noted, What};
use super::policies::Opened;
use super::sampling::{Look, Meter, Sampled};
use super::subflow::{Outage, PriorityChange, Subflow};
use crate::kernel::diag::{Families, Statistics};
use crate::kernel::error::strerror;
use crate::kernel::mptcp_pm::events::SubflowEvent;
use crate::kernel::pair::Pair;
use mptune_core::pathmanager::{Driver, Order, PathId, Report, Role, Stack, State, SubflowId};
use mptune_core::units::Nanos;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A subflow that ends this soon after its handshake without an error was not wanted.
const AT_ONCE_NS: u64 = 1_000_000_000;
/// A successor is polled closely for its first data for this long.
const AWAITED_NS: u64 = 5_000_000_000;
/// A change of priority may be refused for this long before it counts as a problem. The kernel reports
/// a subflow before adding it to the connection's list, and refuses to change it until then.
const REFUSED_NS: u64 = 1_000_000_000;

/// Ends of closed subflows whose last event is awaited; the oldest are dropped, since events may be lost.
const MOST_CLOSING: usize = 64;
/// Reason of the end of a subflow.
const UNSEEN: &str = "it ended among events that were lost";

/// The kernel's words for a subflow whose family the socket does not take (net/mptcp/pm_userspace.c).
const FAMILIES: &str = "families mismatch";

/// Looks that the kernel leaves unanswered one after another before that counts as a problem: a connection may
/// be about to end.
const UNANSWERED: u32 = 20;

/// A request to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Open a subflow; the kernel chooses the port of its local end.
    Create {
        /// Its number.
        subflow: SubflowId,
        /// Its ends.
        pair: Pair,
        /// Number of the local address.
        address_id: u8,
        /// Join as standby.
        backup: bool,
    },
    /// Make a subflow standby or active.
    SetPriority {
        /// Its number.
        subflow: SubflowId,
        /// Its ends.
        pair: Pair,
        /// Standby from now on.
        backup: bool,
    },
    /// Close a subflow.
    Destroy {
        /// Its number.
        subflow: SubflowId,
        /// Its ends.
        pair: Pair,
    },
    /// Announce an address of this host to the peer, if a program accepts connections there.
    Announce {
        /// The address, with the port of the connection.
        end: SocketAddr,
        /// Its number.
        address_id: u8,
    },
    /// Withdraw an address from the peer.
    Retract {
        /// Its number.
        address_id: u8,
    },
}

/// Use of a path from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChange {
    /// Its subflows are standby, whatever the policy wants.
    Withdraw,
    /// They follow the policy again.
    Readmit,
    /// Its address goes away: its subflows are closed.
    Remove,
    /// It comes back, and its subflows with it.
    Add,
}

/// A connection.
pub struct Connection {
    /// The peer opened it.
    pub server_side: bool,
    assignment: Assignment,
    driver: Driver,
    subflows: Vec<Subflow>,
    /// Address families of its subflows.
    pub families: Families,
    /// The ends of the first subflow.
    pub initial: Pair,
    /// State of paths that are not all known beforehand.
    appearing: Option<Appearing>,
    numbers: Numbers,
    /// Time of the kernel's report of its creation.
    pub created_ns: u64,
    /// Time of the kernel's report of its end.
    pub closed_ns: Option<u64>,
    /// Priorities that were changed after the subflows were opened.
    pub changes: Vec<PriorityChange>,
    /// Subflows that were lost in use.
    pub outages: Vec<Outage>,
    /// One line each: joins that failed, orders that the kernel refused.
    pub problems: Vec<String>,
    acts: Vec<Act>,
    /// The ongoing outage of each lost subflow.
    open_outages: HashMap<SubflowId, usize>,
    /// Successors whose first data is awaited, with the outage.
    awaited: Vec<(SubflowId, usize)>,
    /// Ends of subflows that are known to be closed, by order or by a look; the kernel will report it.
    closing: VecDeque<Pair>,
    /// It is fully established, and its policy has begun.
    begun: bool,
    /// Numbers of addresses that the peer withdrew, whose subflows the kernel closes.
    taken_back: BTreeSet<u8>,
    /// Events for a journal; only where paths are not all known beforehand.
    happened: Vec<Noted>,
    /// Reason of the next report, if that is not plain.
    cause: Option<String>,
    /// Reason of the latest roles.
    reasons: HashMap<SubflowId, String>,
    meter: Meter,
    /// Looks without an answer, one after another.
    unanswered: u32,
}

impl Connection {
    /// A connection whose first subflow has these ends on this path.
    pub fn new(
        assignment: &Assignment,
        pair: Pair,
        path: PathId,
        withdrawn: &BTreeSet<PathId>,
        now_ns: u64,
    ) -> Self {
        let opened = Opened { pair, server_side: false };
        let mut connection = Self::begun(assignment, &opened, path, Stack::LINUX, now_ns);
        for &path in withdrawn {
            connection.report(Report::Withdrawn(path), now_ns);
        }
        connection.report(Report::Joined(0), now_ns);
        connection
    }

    fn begun(
        assignment: &Assignment,
        opened: &Opened,
        path: PathId,
        stack: Stack,
        now_ns: u64,
    ) -> Self {
        let &Opened { pair, server_side } = opened;
        let mut first = Subflow::new(path, false);
        first.establish(pair, now_ns);
        let mut numbers = Numbers::default();
        numbers.learn(pair.addresses().0, 0);
        Self {
            server_side,
            driver: Driver::new(assignment.policy.clone(), stack, path),
            assignment: assignment.clone(),
            subflows: vec![first],
            families: Families::of(&pair),
            initial: pair,
            appearing: None,
            numbers,
            created_ns: now_ns,
            closed_ns: None,
            changes: Vec::new(),
            outages: Vec::new(),
            problems: Vec::new(),
            acts: Vec::new(),
            open_outages: HashMap::new(),
            awaited: Vec::new(),
            closing: VecDeque::new(),
            begun: false,
            taken_back: BTreeSet::new(),
            happened: Vec::new(),
            cause: None,
            reasons: HashMap::new(),
            meter: Meter::default(),
            unanswered: 0,
        }
    }

    // What happened

    /// The connection is fully established; nothing is ordered before that.
    pub fn on_established(&mut self, now_ns: u64) {
        self.begun = true;
        self.report(Report::Established, now_ns);
    }

    /// A subflow was established: one that was ordered, or one that the peer opened on a known path.
    /// Returns its number.
    pub fn on_joined(
        &mut self,
        pair: Pair,
        seen: Option<Statistics>,
        now_ns: u64,
    ) -> Option<SubflowId> {
        if self.subflow_at(&pair).is_some() {
            return None;
        }
        let path = self.assignment.path_of(&pair).or_else(|| self.path_of_stranger(&pair))?;
        let ordered = self.driver.joining(path).or_else(|| self.followed(path));
        let id = ordered.unwrap_or(self.subflows.len());
        let report = match ordered {
            Some(id) => Report::Joined(id),
            None if self.subflows.len() == mptune_core::pathmanager::MAX_SUBFLOWS => return None,
            None => {
                self.subflows.push(Subflow::new(path, false));
                Report::JoinedByPeer(path)
            }
        };
        self.subflows[id].establish(pair, now_ns);
        self.families = self.families.and(Families::of(&pair));
        if let Some(seen) = seen {
            self.subflows[id].note(seen, now_ns);
            // One that the peer opened is known to the driver only after the report.
            if ordered.is_some() {
                self.driver.set_min_rtt(id, seen.min_rtt_ns);
            }
        }
        self.note_happening(What::Joined, Some(pair), String::new());
        self.report(report, now_ns);
        self.leave(now_ns);
        if std::mem::take(&mut self.subflows[id].unwanted) {
            self.acts.push(Act::Destroy { subflow: id, pair });
        }
        Some(id)
    }

    /// A subflow was closed, or its join failed.
    pub fn on_ended(&mut self, event: &SubflowEvent, now_ns: u64) {
        if let Some(known) = self.closing.iter().position(|pair| *pair == event.pair) {
            self.closing.remove(known);
        } else if let Some(id) = self.subflow_at(&event.pair) {
            let at_once = now_ns - self.subflows[id].established_ns < AT_ONCE_NS;
            if event.error == 0 && at_once && !self.taken_back.contains(&event.remote_id) {
                self.problem(id, "closed by the receiver, whose path manager accepts no more");
            }
            self.on_lost(id, event, now_ns);
            self.close(id, now_ns);
        } else {
            let path = self.assignment.path_of(&event.pair);
            if let Some(id) = path.and_then(|path| self.driver.joining(path)) {
                self.postpone(id, i32::from(event.error), now_ns);
                self.on_join_failed(id, &why(event), now_ns);
            }
        }
    }

    /// Of the subflows that are being opened these are all that the kernel still has, answered or not: the
    /// others have failed unnoticed, and may be tried again. Returns how many. That is `worth` saying unless the
    /// connection is about to end.
    pub fn on_opening(&mut self, opening: &[Pair], worth: bool, now_ns: u64) -> u64 {
        let known = opening.iter().filter_map(|pair| self.assignment.path_of(pair));
        let mut opening: Vec<PathId> = known.collect();
        let mut failed = 0;
        for id in 0..self.subflows.len() {
            if self.driver.subflows()[id].state() != State::Joining {
                continue;
            }
            let path = self.subflows[id].path;
            match opening.iter().position(|&opened| opened == path) {
                Some(index) => drop(opening.swap_remove(index)),
                None if worth => {
                    failed += 1;
                    self.postpone(id, libc::ETIMEDOUT, now_ns);
                    self.on_join_failed(id, "the join failed among events that were lost", now_ns);
                }
                None => self.report(Report::JoinFailed(id), now_ns),
            }
        }
        failed
    }

    /// An established subflow has ended unnoticed; why is not known, so it may be tried again.
    pub fn on_gone(&mut self, id: SubflowId, now_ns: u64) {
        if let Some(pair) = self.subflows[id].pair {
            self.await_end(pair);
        }
        self.on_unseen_end(id, now_ns);
        self.cause = Some(UNSEEN.to_owned());
        self.close(id, now_ns);
    }

    /// The kernel will report that a subflow is closed, which is known.
    fn await_end(&mut self, pair: Pair) {
        self.closing.push_back(pair);
        if self.closing.len() > MOST_CLOSING {
            self.closing.pop_front();
        }
    }

    /// The kernel has a subflow as standby or active; true if that was not known.
    pub fn on_role(&mut self, subflow: SubflowId, backup: bool, now_ns: u64) -> bool {
        let is_new = backup != self.subflows[subflow].kernel_backup;
        if is_new {
            self.subflows[subflow].kernel_backup = backup;
            self.report(Report::PrioritySeen { subflow, backup }, now_ns);
        }
        is_new
    }

    fn on_join_failed(&mut self, id: SubflowId, reason: &str, now_ns: u64) {
        if std::mem::take(&mut self.subflows[id].unwanted) {
            self.close(id, now_ns);
        } else {
            self.problem(id, reason);
            self.report(Report::JoinFailed(id), now_ns);
        }
    }

    /// The peer withdrew an address, or announced it (again), by its number.
    pub fn on_peers_address(&mut self, id: u8, there: bool) {
        if there {
            self.taken_back.remove(&id);
        } else {
            self.taken_back.insert(id);
            self.on_withdrawn(id);
        }
    }

    /// An established subflow no longer exists.
    pub fn close(&mut self, id: SubflowId, now_ns: u64) {
        self.subflows[id].pair = None;
        self.report(Report::Closed(id), now_ns);
    }

    /// The connection is gone.
    pub fn on_closed(&mut self, now_ns: u64) {
        self.closed_ns = Some(now_ns);
        if self.begun {
            self.note_happening(What::Closed, Some(self.initial), String::new());
        }
    }

    /// A subflow was polled closely; [`Connection::on_looked`] draws the conclusions.
    pub fn note(&mut self, id: SubflowId, seen: Statistics, now_ns: u64) {
        self.driver.set_min_rtt(id, seen.min_rtt_ns);
        self.subflows[id].note(seen, now_ns);
        self.see_successors();
    }

    /// Every subflow was polled closely: finds what is lost and what is back.
    pub fn on_looked(&mut self, now_ns: u64) {
        for subflow in 0..self.subflows.len() {
            let Some(last) = self.subflows[subflow].last else { continue };
            if self.subflows[subflow].pair.is_none() {
                continue;
            }
            self.on_role(subflow, last.backup, now_ns);
            let consecutive = last.timeouts;
            self.report(Report::Timeouts { subflow, consecutive }, now_ns);
        }
        self.see_successors();
        self.on_turn(now_ns);
    }

    /// It was looked at for a sample; none if the kernel did not report it.
    pub fn on_sampled(&mut self, look: Option<&Look>, now_ns: u64) {
        let Some(interval) = self.sampling() else { return };
        let noted = look.and_then(|look| Some((look, self.meter.note(look, now_ns)?)));
        let Some((look, statistics)) = noted else { return self.on_unanswered() };
        self.unanswered = 0;
        for flow in &look.subflows {
            let statistics = self.meter.note_subflow(flow);
            self.driver.set_statistics(flow.id, statistics);
            self.driver.set_min_rtt(flow.id, flow.tcp.min_rtt_ns);
        }
        if self.meter.is_due(now_ns, interval) {
            self.report(Report::Sample { now: now_ns, statistics }, now_ns);
        }
    }

    fn on_unanswered(&mut self) {
        self.unanswered += 1;
        if self.unanswered == UNANSWERED {
            let what = "its path manager gets no samples and leaves all subflows active";
            let why = "it is plain TCP, or this kernel does not report bytes of connections (Linux 6.5, mptcp_diag)";
            self.problem(0, &format!("{what}: {why}"));
        }
    }

    /// Interval of its policy's samples, if it takes any.
    pub fn sampling(&self) -> Option<Nanos> {
        self.driver.sampling()
    }

    /// Result of the looks for samples, if there were any.
    pub fn sampled(&self) -> Option<Sampled> {
        self.meter.sampled()
    }

    /// Bytes on their way at the last close look.
    pub fn queued(&self) -> u32 {
        let open = self.subflows.iter().filter(|flow| flow.pair.is_some());
        open.filter_map(|flow| flow.last).fold(0, |sum, last| sum.saturating_add(last.queued))
    }

    /// This many payload bytes were sent.
    pub fn on_bytes_sent(&mut self, sent: u64, now_ns: u64) {
        self.report(Report::BytesSent(sent), now_ns);
    }

    /// A path should be used differently.
    pub fn on_path(&mut self, change: PathChange, path: PathId, now_ns: u64) {
        if change == PathChange::Add {
            let on_path = self.subflows.iter_mut().filter(|flow| flow.path == path);
            on_path.for_each(|flow| flow.unwanted = false);
        }
        let report = match change {
            PathChange::Withdraw => Report::Withdrawn(path),
            PathChange::Readmit => Report::Readmitted(path),
            PathChange::Remove => Report::AddressRemoved(path),
            PathChange::Add => Report::AddressAnnounced(path),
        };
        self.report(report, now_ns);
    }

    /// The kernel did something.
    pub fn on_done(&mut self, act: &Act, now_ns: u64) {
        match *act {
            Act::Create { .. } | Act::Announce { .. } | Act::Retract { .. } => {}
            Act::SetPriority { subflow, backup, .. } => {
                let path = self.label(subflow);
                let flow = &mut self.subflows[subflow];
                (flow.kernel_backup, flow.refused_ns) = (backup, None);
                let pair = flow.pair;
                if self.appearing.is_none() {
                    self.changes.push(PriorityChange { at_ns: now_ns, path, backup });
                }
                let reason = self.reasons.remove(&subflow).unwrap_or_default();
                let what = if backup { What::Standby } else { What::Active };
                self.note_happening(what, pair, reason);
            }
            Act::Destroy { subflow, pair } => {
                self.await_end(pair);
                self.cause = self.why_closed(&pair);
                self.close(subflow, now_ns);
            }
        }
    }

    /// The kernel refused something; a change of priority is ordered again at the next poll.
    pub fn on_refused(&mut self, act: &Act, reason: &str, now_ns: u64) {
        match *act {
            Act::Create { subflow, pair, .. } => {
                let (own, _) = self.initial.addresses();
                let is_other = own.is_ipv4() != pair.local.is_ipv4();
                match self.appearing.is_some() && is_other && reason.contains(FAMILIES) {
                    true => {
                        self.take_one_family("subflows of the other address family are not opened")
                    }
                    false => self.problem(subflow, reason),
                }
                self.report(Report::JoinFailed(subflow), now_ns);
            }
            Act::SetPriority { subflow, .. } => {
                self.report(Report::RoleRefused(subflow), now_ns);
                let since_ns = *self.subflows[subflow].refused_ns.get_or_insert(now_ns);
                if now_ns - since_ns > REFUSED_NS && !self.subflows[subflow].refusal_told {
                    self.subflows[subflow].refusal_told = true;
                    self.problem(subflow, reason);
                }
            }
            // Here the event of its end is on its way.
            Act::Destroy { .. } if self.appearing.is_some() => {}
            Act::Destroy { subflow, .. } => self.problem(subflow, reason),
            Act::Announce { .. } | Act::Retract { .. } => {
                self.note_happening(What::Refused, None, reason.to_owned());
            }
        }
    }

    /// The kernel has refused something because the connection is ending, which needs no report.
    pub fn on_refused_at_end(&mut self, act: &Act, now_ns: u64) {
        if let Act::Create { subflow, .. } = *act {
            self.report(Report::JoinFailed(subflow), now_ns);
        }
    }

    // What it means

    /// Requests to the kernel, in this order.
    pub fn take_acts(&mut self) -> Vec<Act> {
        let acts = std::mem::take(&mut self.acts);
        if self.appearing.is_none() { acts } else { self.only_the_last(acts) }
    }

    /// Something is going wrong or about to be fixed: poll it more often.
    pub fn is_troubled(&self, now_ns: u64) -> bool {
        let subflows = || self.subflows.iter().zip(self.driver.subflows());
        let timed_out = subflows().any(|(flow, driven)| driven.is_alive() && flow.timeouts() > 0);
        let refused = |flow: &Subflow| flow.refused_ns.is_some() && !flow.refusal_told;
        let awaited = |outage: usize| now_ns - self.outages[outage].detected_ns < AWAITED_NS;
        timed_out
            || self.subflows.iter().any(|flow| flow.pair.is_some() && refused(flow))
            || self.awaited.iter().any(|&(_, outage)| awaited(outage))
    }

    /// A glance at a subflow shows something new: it is worth a close look.
    pub fn is_news(&self, pair: &Pair, timeouts: u32) -> bool {
        let known = self.subflow_at(pair).map(|id| &self.subflows[id]);
        known.is_some_and(|flow| flow.timeouts() != timeouts)
    }

    /// Numbers and ends of the established subflows.
    pub fn established(&self) -> Vec<(SubflowId, Pair)> {
        let ends = self.subflows.iter().enumerate();
        ends.filter_map(|(id, flow)| flow.pair.map(|pair| (id, pair))).collect()
    }

    /// The subflows with their states, in order of creation.
    pub fn subflows(&self) -> impl Iterator<Item = (&Subflow, State)> {
        self.subflows
            .iter()
            .zip(self.driver.subflows())
            .map(|(flow, driven)| (flow, driven.state()))
    }

    /// The number of the established subflow with these ends.
    pub fn subflow_at(&self, pair: &Pair) -> Option<SubflowId> {
        self.subflows.iter().position(|flow| flow.pair.as_ref() == Some(pair))
    }

    /// The name of its policy.
    pub fn policy(&self) -> Arc<str> {
        self.assignment.name.clone()
    }

    /// The established subflows, and whether they are standby.
    pub fn roles(&self) -> Vec<(Pair, bool)> {
        self.subflows.iter().filter_map(|flow| Some((flow.pair?, flow.kernel_backup))).collect()
    }

    /// The paths to an address of the peer.
    pub fn paths_to(&self, address: IpAddr) -> Vec<PathId> {
        self.assignment.paths_to(address)
    }

    /// The label of a subflow's path.
    pub fn label(&self, id: SubflowId) -> String {
        self.assignment.paths[self.subflows[id].path].label.clone()
    }
}

/// Reason of a failed join.
fn why(event: &SubflowEvent) -> String {
    let remote = event.pair.addresses().1;
    match i32::from(event.error) {
        libc::ECONNREFUSED => {
            format!("no listener at {remote}: the receiver must listen on all its addresses")
        }
        0 => "the receiver refused to join it".to_owned(),
        error => strerror(error),
    }
}

#[cfg(test)]
mod tests;
