//! The life cycle of a connection's subflows: reports in, orders out.
//!
//! One state machine for the simulation (`mptcp`), a program that manages the kernel's connections, and a daemon with a
//! thousand of them. It numbers the subflows, tracks which are alive, runs the policy, and assigns each subflow a role.
//! It opens no socket, sends nothing and reads no clock: time comes with samples, and callers that log add their own.
//! The executor of the orders is called the *stack* here.
//!
//! **Rules**
//! - A subflow is *lost* after [`LOST_AFTER_TIMEOUTS`] consecutive timeouts, or when it is closed. It is
//!   *restored* by the first progress after that, or when it has rejoined. The loss of a subflow that
//!   sends nothing cannot be detected.
//! - Before the connection is established the policy receives no events and gives no orders.
//! - A path may be *withdrawn* from outside. Its subflows, including later ones, carry no data, not even
//!   as the last resort ([`Role::Silent`]), whatever the policy, which does not know about it.
//!   The others take over as in RFC 8684 section 3.3.8: standby subflows carry data while no active one
//!   is alive.
//! - A stack that knows only active and standby ([`Stack::silences`] is false) gets the closest
//!   equivalent: withdrawn subflows are standby, and while no active subflow is alive the others are made
//!   active, so that the stack does not use the withdrawn ones. If every path is withdrawn it sends on any.
//! - When a path's address is removed its subflows are closed; when it is announced again, those that
//!   were closed are reopened under their old numbers.
//! - Paths may be added during the connection. The policy gets an event for those added after it is established. Where
//!   only the peer opens subflows ([`Stack::opens`] is false) a policy only assigns roles.
//! - A live connection may be taken over: its subflows are reported before [`Report::Established`], and no subflow is
//!   opened on a path that has one.
//! - An order that the stack refuses is repeated after the next report.

mod assignment;
mod exchange;

pub use assignment::Assignment;
pub use exchange::{Order, Report, Role, Stack};

use super::{Command, ConnectionStatistics, Event, MAX_SUBFLOWS, PathEnds, PathId, SubflowId};
use super::{SubflowStatistics, SubflowView, View};
use crate::units::{Bytes, Nanos};

/// Consecutive timeouts after which a subflow is lost: with the timer's back-off about 7 RTOs. (Linux'
/// `net.mptcp.stale_loss_cnt`, default 4, counts intervals of one RTO.)
pub const LOST_AFTER_TIMEOUTS: u32 = 3;

/// The state of a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is being opened.
    Joining,
    /// Its handshake is done.
    Established,
    /// It could not be opened.
    Refused,
    /// It was established or being opened, and was closed.
    Closed,
}

/// A subflow as the driver knows it.
#[derive(Debug, Clone)]
pub struct Subflow {
    path: PathId,
    state: State,
    lost: bool,
    /// Standby by the policy.
    backup: bool,
    min_rtt: Nanos,
    statistics: SubflowStatistics,
    /// The role it has in the stack, none if unknown.
    role: Option<Role>,
}

impl Subflow {
    fn new(path: PathId, backup: bool) -> Self {
        Self {
            path,
            state: State::Joining,
            lost: false,
            backup,
            min_rtt: 0,
            statistics: SubflowStatistics::default(),
            role: Some(Role::Active),
        }
    }

    /// The path it runs on.
    pub fn path(&self) -> PathId {
        self.path
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// It was lost and is not restored.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Established and not lost.
    pub fn is_alive(&self) -> bool {
        self.state == State::Established && !self.lost
    }
}

/// The subflows of one connection under a policy.
#[derive(Debug, Clone)]
pub struct Driver {
    assignment: Assignment,
    stack: Stack,
    established: bool,
    subflows: Vec<Subflow>,
    /// For each path, whether it is withdrawn.
    withdrawn: Vec<bool>,
    notify_at: Option<Bytes>,
    statistics: ConnectionStatistics,
    /// The policy is about to open subflows on paths that may have some.
    adopting: bool,
    why: Option<String>,
}

impl Driver {
    /// A connection whose initial subflow, number 0, is being opened on a path.
    pub fn new(assignment: Assignment, stack: Stack, initial: PathId) -> Self {
        Self {
            withdrawn: vec![false; assignment.paths.len()],
            assignment,
            stack,
            established: false,
            subflows: vec![Subflow::new(initial, false)],
            notify_at: None,
            statistics: ConnectionStatistics::default(),
            adopting: false,
            why: None,
        }
    }

    /// Every subflow so far, in order of creation.
    pub fn subflows(&self) -> &[Subflow] {
        &self.subflows
    }

    /// The first subflow being opened on a path, for stacks that report joins by path.
    pub fn joining(&self, path: PathId) -> Option<SubflowId> {
        let joining = |subflow: &Subflow| subflow.state == State::Joining && subflow.path == path;
        self.subflows.iter().position(joining)
    }

    /// The first closed subflow on a path, which a subflow that the peer opens there succeeds.
    pub fn closed(&self, path: PathId) -> Option<SubflowId> {
        let closed = |subflow: &Subflow| subflow.state == State::Closed && subflow.path == path;
        self.subflows.iter().position(closed)
    }

    /// Adds a path and returns its number. [`Report::PathAdded`] informs the policy, unless the peer has opened a
    /// subflow there.
    pub fn add_path(&mut self, ends: PathEnds) -> PathId {
        self.withdrawn.push(false);
        self.assignment.add_path(ends)
    }

    /// The policy's reason for the latest orders, if it gives one.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// The initial priority of a subflow of a connection that is taken over; before it is reported as established.
    pub fn set_backup(&mut self, subflow: SubflowId, backup: bool) {
        let subflow = &mut self.subflows[subflow];
        subflow.backup = backup;
        subflow.role = Some(if backup { Role::Standby } else { Role::Active });
    }

    /// The path is withdrawn.
    pub fn is_withdrawn(&self, path: PathId) -> bool {
        self.withdrawn[path]
    }

    /// Smallest RTT seen on a subflow; takes effect at the next report.
    pub fn set_min_rtt(&mut self, subflow: SubflowId, min_rtt: Nanos) {
        self.subflows[subflow].min_rtt = min_rtt;
    }

    /// Statistics of a subflow; they take effect at the next report.
    pub fn set_statistics(&mut self, subflow: SubflowId, statistics: SubflowStatistics) {
        self.subflows[subflow].statistics = statistics;
    }

    /// The interval of [`Report::Sample`]; none if the policy takes no samples.
    pub fn sampling(&self) -> Option<Nanos> {
        self.assignment.sampling()
    }

    /// Handles a report, and appends orders to `orders`.
    pub fn handle(&mut self, report: Report, orders: &mut Vec<Order>) {
        self.why = None;
        match report {
            Report::Established => self.on_established(orders),
            Report::Joined(id) => self.on_joined(id, orders),
            Report::JoinedByPeer(path) => self.on_joined_by_peer(path, orders),
            Report::JoinFailed(id) => self.subflows[id].state = State::Refused,
            Report::Closed(id) => {
                self.subflows[id].state = State::Closed;
                self.lose(id, orders);
            }
            Report::Timeouts { subflow, consecutive } => {
                self.on_timeouts(subflow, consecutive, orders)
            }
            Report::BytesSent(sent) => self.on_bytes_sent(sent, orders),
            Report::Withdrawn(path) => self.withdrawn[path] = true,
            Report::Readmitted(path) => self.withdrawn[path] = false,
            Report::PathAdded(path) => self.dispatch(Event::PathAdded(path), orders),
            Report::AddressRemoved(path) => self.on_address_removed(path, orders),
            Report::AddressAnnounced(path) => self.reopen(path, &[State::Closed], orders),
            Report::Retried(path) => self.reopen(path, &[State::Closed, State::Refused], orders),
            Report::PrioritySeen { subflow, backup } => self.on_priority(subflow, backup),
            Report::RoleRefused(id) => {
                self.subflows[id].role = None;
                return;
            }
            Report::Sample { now, statistics } => {
                self.statistics = statistics;
                self.dispatch(Event::Sample(now), orders);
            }
        }
        self.order_roles(orders);
    }

    fn on_established(&mut self, orders: &mut Vec<Order>) {
        if std::mem::replace(&mut self.established, true) {
            return;
        }
        self.adopting = self.subflows.len() > 1;
        self.dispatch(Event::Established, orders);
        self.adopting = false;
        for id in 0..self.subflows.len() {
            if self.subflows[id].lost {
                self.dispatch(Event::SubflowLost(id), orders);
            }
        }
    }

    fn on_joined(&mut self, id: SubflowId, orders: &mut Vec<Order>) {
        self.subflows[id].state = State::Established;
        if self.subflows[id].lost {
            self.restore(id, orders);
        } else {
            self.dispatch(Event::SubflowEstablished(id), orders);
        }
    }

    fn on_joined_by_peer(&mut self, path: PathId, orders: &mut Vec<Order>) {
        if self.subflows.len() < MAX_SUBFLOWS {
            self.subflows.push(Subflow::new(path, false));
            self.on_joined(self.subflows.len() - 1, orders);
        }
    }

    fn on_timeouts(&mut self, id: SubflowId, consecutive: u32, orders: &mut Vec<Order>) {
        if self.subflows[id].state != State::Established {
            return;
        }
        if consecutive >= LOST_AFTER_TIMEOUTS {
            self.lose(id, orders);
        } else if consecutive == 0 && self.subflows[id].lost {
            self.restore(id, orders);
        }
    }

    fn on_bytes_sent(&mut self, sent: Bytes, orders: &mut Vec<Order>) {
        if self.notify_at.is_some_and(|at| sent >= at) {
            self.notify_at = None;
            self.dispatch(Event::BytesSent(sent), orders);
        }
    }

    fn on_address_removed(&mut self, path: PathId, orders: &mut Vec<Order>) {
        let open = |subflow: &Subflow| matches!(subflow.state, State::Joining | State::Established);
        let on_path = self.subflows.iter().enumerate().filter(|(_, subflow)| subflow.path == path);
        orders.extend(
            on_path
                .filter(|(_, subflow)| open(subflow))
                .map(|(subflow, _)| Order::Close { subflow }),
        );
    }

    fn reopen(&mut self, path: PathId, states: &[State], orders: &mut Vec<Order>) {
        if !self.stack.opens {
            return;
        }
        for id in 0..self.subflows.len() {
            let subflow = &self.subflows[id];
            if subflow.path == path && states.contains(&subflow.state) {
                self.order_connect(id, orders);
            }
        }
    }

    fn on_priority(&mut self, id: SubflowId, backup: bool) {
        let known = self.subflows[id].role;
        if known.is_none_or(|role| role.backup() != backup) {
            self.subflows[id].role = Some(if backup { Role::Standby } else { Role::Active });
        }
    }

    fn lose(&mut self, id: SubflowId, orders: &mut Vec<Order>) {
        if std::mem::replace(&mut self.subflows[id].lost, true) || !self.established {
            return;
        }
        let standby: Vec<_> =
            (0..self.subflows.len()).filter(|&i| self.subflows[i].backup).collect();
        self.dispatch(Event::SubflowLost(id), orders);
        let successors = standby.into_iter().filter(|&i| !self.subflows[i].backup).collect();
        orders.push(Order::NoteLost { subflow: id, successors });
    }

    fn restore(&mut self, id: SubflowId, orders: &mut Vec<Order>) {
        self.subflows[id].lost = false;
        if self.established {
            orders.push(Order::NoteRestored { subflow: id });
            self.dispatch(Event::SubflowRestored(id), orders);
        }
    }

    /// Passes the event to the policy and executes its commands.
    fn dispatch(&mut self, event: Event, orders: &mut Vec<Order>) {
        if !self.established {
            return;
        }
        let subflows = self.subflows.iter().map(|subflow| SubflowView {
            path: subflow.path,
            alive: subflow.is_alive(),
            backup: subflow.backup,
            min_rtt: subflow.min_rtt,
            statistics: subflow.statistics,
        });
        let subflows: Vec<_> = subflows.collect();
        let assignment = &mut self.assignment;
        let view = View {
            paths: &assignment.paths,
            lsrr_honoured: assignment.lsrr_honoured,
            subflows: &subflows,
            size: assignment.size,
            statistics: self.statistics,
        };
        let mut commands = Vec::new();
        assignment.policy.on_event(event, view, &mut commands);
        if !commands.is_empty() {
            self.why = assignment.policy.why();
        }
        for command in commands {
            self.execute(command, orders);
        }
    }

    fn execute(&mut self, command: Command, orders: &mut Vec<Order>) {
        match command {
            Command::Connect { path, .. } if self.adopting && self.has_open(path) => {}
            Command::Connect { path, backup }
                if self.stack.opens && self.subflows.len() < MAX_SUBFLOWS =>
            {
                self.subflows.push(Subflow::new(path, backup));
                self.order_connect(self.subflows.len() - 1, orders);
            }
            Command::Connect { .. } => {}
            Command::SetBackup { subflow, backup } => self.subflows[subflow].backup = backup,
            Command::NotifyAtBytes(bytes) => {
                self.notify_at = Some(bytes);
                orders.push(Order::NotifyAtBytes(bytes));
            }
        }
    }

    fn has_open(&self, path: PathId) -> bool {
        let open = |subflow: &Subflow| matches!(subflow.state, State::Joining | State::Established);
        self.subflows.iter().any(|subflow| subflow.path == path && open(subflow))
    }

    fn order_connect(&mut self, id: SubflowId, orders: &mut Vec<Order>) {
        let role = self.role(id, self.lacks_active());
        let subflow = &mut self.subflows[id];
        (subflow.state, subflow.role) = (State::Joining, Some(role));
        orders.push(Order::Connect { subflow: id, path: subflow.path, role });
    }

    /// Orders roles that differ in the stack, active ones first, so that data keeps flowing.
    fn order_roles(&mut self, orders: &mut Vec<Order>) {
        let lacks_active = self.lacks_active();
        let first = orders.len();
        for id in 0..self.subflows.len() {
            let role = self.role(id, lacks_active);
            if self.takes_roles(id) && self.subflows[id].role != Some(role) {
                self.subflows[id].role = Some(role);
                orders.push(Order::SetRole { subflow: id, role });
            }
        }
        orders[first..]
            .sort_by_key(|order| !matches!(order, Order::SetRole { role: Role::Active, .. }));
    }

    fn takes_roles(&self, id: SubflowId) -> bool {
        match self.subflows[id].state {
            State::Established => self.established || self.stack.early_roles,
            State::Joining => self.stack.early_roles,
            State::Refused | State::Closed => false,
        }
    }

    /// The role a subflow should have.
    fn role(&self, id: SubflowId, lacks_active: bool) -> Role {
        let subflow = &self.subflows[id];
        match (self.withdrawn[subflow.path], self.stack.silences) {
            (true, true) => Role::Silent,
            (true, false) => Role::Standby,
            (false, false) if lacks_active => Role::Active,
            (false, _) if subflow.backup => Role::Standby,
            (false, _) => Role::Active,
        }
    }

    /// The stack would use withdrawn subflows as the last resort, because no active one is alive.
    fn lacks_active(&self) -> bool {
        let withdrawn = |subflow: &Subflow| self.withdrawn[subflow.path];
        let active =
            |subflow: &Subflow| subflow.is_alive() && !subflow.backup && !withdrawn(subflow);
        !self.stack.silences
            && self.subflows.iter().any(withdrawn)
            && !self.subflows.iter().any(active)
    }
}

#[cfg(test)]
mod tests;
