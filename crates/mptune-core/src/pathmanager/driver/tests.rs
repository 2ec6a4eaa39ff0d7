//! The life cycle of subflows on an obedient stack, and on one that refuses orders.

use super::*;
use crate::pathmanager::{Forecast, Line, TransferSize};
use serde_json::{Value, json};
use std::sync::Arc;

const KIB: Bytes = 1024;

/// A stack that executes orders at once and reports the result.
struct World {
    driver: Driver,
    /// For each subflow, its role in the stack.
    roles: Vec<Role>,
    orders: Vec<Order>,
    refuses: bool,
}

/// Paths 0 to 3 are the pairs of two local and two remote interfaces.
fn assignment(pm: &str, options: Value, size: TransferSize) -> Assignment {
    let Value::Object(options) = options else { panic!("a map") };
    let ends = |n: usize| PathEnds { local: n / 2, remote: n % 2, ..PathEnds::default() };
    let paths: Vec<_> = (0..4).map(ends).collect();
    Assignment::new(pm, &options, paths, size, false).expect("valid")
}

fn pcdc(options: Value) -> Assignment {
    assignment("pcdc", options, TransferSize::Unlimited)
}

fn fullmesh() -> Assignment {
    assignment("fullmesh", json!({}), TransferSize::Unlimited)
}

impl World {
    fn new(assignment: Assignment, stack: Stack) -> Self {
        let driver = Driver::new(assignment, stack, 0);
        Self { driver, roles: vec![Role::Active], orders: Vec::new(), refuses: false }
    }

    fn established(assignment: Assignment, stack: Stack) -> Self {
        let mut world = Self::new(assignment, stack);
        world.dispatch(Report::Joined(0));
        world.dispatch(Report::Established);
        world
    }

    fn dispatch(&mut self, report: Report) {
        let mut orders = Vec::new();
        self.driver.handle(report, &mut orders);
        self.orders.extend(orders.iter().cloned());
        for order in orders {
            match order {
                Order::Connect { subflow, role, .. } => {
                    self.roles.resize(self.roles.len().max(subflow + 1), role);
                    self.roles[subflow] = role;
                    self.dispatch(Report::Joined(subflow));
                }
                Order::SetRole { subflow, .. } if self.refuses => {
                    self.dispatch(Report::RoleRefused(subflow));
                }
                Order::SetRole { subflow, role } => {
                    assert_ne!(self.roles[subflow], role, "it changes nothing");
                    self.roles[subflow] = role;
                }
                Order::Close { subflow } => self.dispatch(Report::Closed(subflow)),
                _ => {}
            }
        }
    }

    fn time_out(&mut self, subflow: SubflowId, consecutive: u32) {
        self.dispatch(Report::Timeouts { subflow, consecutive });
    }

    fn with(&self, role: Role) -> Vec<SubflowId> {
        (0..self.roles.len()).filter(|&id| self.roles[id] == role).collect()
    }

    fn losses(&self) -> Vec<(SubflowId, Vec<SubflowId>)> {
        let lost = self.orders.iter().filter_map(|order| match order {
            Order::NoteLost { subflow, successors } => Some((*subflow, successors.clone())),
            _ => None,
        });
        lost.collect()
    }
}

#[test]
fn nothing_is_ordered_before_the_connection_is_established() {
    let mut world = World::new(fullmesh(), Stack::LINUX);
    world.dispatch(Report::Joined(0));
    world.dispatch(Report::Withdrawn(0));
    world.time_out(0, 7);
    world.time_out(0, 0);
    assert_eq!(world.orders, []);
    world.dispatch(Report::Established);
    assert_eq!(world.driver.subflows().len(), 4);
    assert_eq!(world.with(Role::Standby), [0]);
}

#[test]
fn three_timeouts_in_a_row_are_a_loss_and_progress_ends_it() {
    let options = json!({"active": [0], "standby_order": [2, 1, 3]});
    let mut world = World::established(pcdc(options), Stack::LINUX);
    let on_path_2 = world.driver.subflows().iter().position(|subflow| subflow.path() == 2).unwrap();
    for consecutive in [1, 2] {
        world.time_out(0, consecutive);
        assert_eq!(world.with(Role::Active), [0]);
    }
    world.time_out(0, 3);
    world.time_out(0, 4);
    assert_eq!(world.losses(), [(0, vec![on_path_2])]);
    assert!(world.with(Role::Active).contains(&on_path_2));
    world.time_out(0, 0);
    assert_eq!(world.with(Role::Active), [0]);
    assert_eq!(world.orders.last(), Some(&Order::SetRole { subflow: 2, role: Role::Standby }));
}

#[test]
fn a_closed_subflow_is_replaced_for_good() {
    let options = json!({"active": [0, 1], "standby_order": [3, 2]});
    let mut world = World::established(pcdc(options), Stack::LINUX);
    world.dispatch(Report::Closed(1));
    world.time_out(1, 0);
    assert_eq!(world.losses(), [(1, vec![3])]);
    assert!(world.with(Role::Active).contains(&3));
}

#[test]
fn active_roles_are_ordered_before_silent_ones() {
    let mut world = World::established(pcdc(json!({"active": [0, 1]})), Stack::LINUX);
    world.driver.set_min_rtt(1, 1);
    let before = world.orders.len();
    world.dispatch(Report::Withdrawn(0));
    world.dispatch(Report::Withdrawn(1));
    let roles = world.orders[before..].iter().filter_map(|order| match order {
        Order::SetRole { role, .. } => Some(*role),
        _ => None,
    });
    // Path 0; then the last resort takes over before path 1 goes.
    let standby = Role::Standby;
    assert_eq!(roles.collect::<Vec<_>>(), [standby, Role::Active, Role::Active, standby]);
}

#[test]
fn a_withdrawn_path_is_silent_whatever_the_policy() {
    let mut world = World::established(pcdc(json!({"active": [0, 1]})), Stack::SIMULATED);
    world.dispatch(Report::Withdrawn(1));
    assert_eq!((world.with(Role::Active), world.with(Role::Standby)), (vec![0], vec![2, 3]));
    world.dispatch(Report::Withdrawn(0));
    assert_eq!((world.with(Role::Silent), world.with(Role::Standby)), (vec![0, 1], vec![2, 3]));
    world.dispatch(Report::Readmitted(1));
    world.dispatch(Report::Readmitted(0));
    assert_eq!((world.with(Role::Active), world.with(Role::Standby)), (vec![0, 1], vec![2, 3]));
}

#[test]
fn a_stack_without_silence_is_given_other_active_subflows_instead() {
    let mut world = World::established(pcdc(json!({"active": [0, 1]})), Stack::LINUX);
    world.dispatch(Report::Withdrawn(1));
    assert_eq!((world.with(Role::Active), world.with(Role::Standby)), (vec![0], vec![1, 2, 3]));
    // No active subflow is left: the others are the last resort, the withdrawn ones are not.
    world.dispatch(Report::Withdrawn(0));
    assert_eq!((world.with(Role::Active), world.with(Role::Standby)), (vec![2, 3], vec![0, 1]));
    world.dispatch(Report::Readmitted(0));
    assert_eq!((world.with(Role::Active), world.with(Role::Standby)), (vec![0], vec![1, 2, 3]));
}

#[test]
fn subflows_opened_on_a_withdrawn_path_are_withdrawn_too() {
    for (stack, role) in [(Stack::SIMULATED, Role::Silent), (Stack::LINUX, Role::Standby)] {
        let mut world = World::new(fullmesh(), stack);
        world.dispatch(Report::Joined(0));
        world.dispatch(Report::Withdrawn(2));
        world.dispatch(Report::Established);
        assert_eq!(world.roles, [Role::Active, Role::Active, role, Role::Active]);
    }
}

#[test]
fn a_refused_role_is_ordered_again_after_another_report() {
    let mut world = World::established(fullmesh(), Stack::LINUX);
    world.refuses = true;
    world.dispatch(Report::Withdrawn(2));
    assert!(world.with(Role::Standby).is_empty());
    let refused = world.orders.len();
    world.time_out(3, 0);
    assert_eq!(world.orders.len(), refused + 1);
    world.refuses = false;
    world.time_out(3, 0);
    assert_eq!(world.with(Role::Standby), [2]);
    world.time_out(3, 0);
    assert_eq!(world.orders.len(), refused + 2);
}

#[test]
fn a_priority_that_differs_in_the_stack_is_set_again() {
    let mut world = World::established(pcdc(json!({"active": [0]})), Stack::LINUX);
    world.roles[3] = Role::Active;
    world.dispatch(Report::PrioritySeen { subflow: 3, backup: false });
    assert_eq!(world.with(Role::Standby), [1, 2, 3]);
    let orders = world.orders.len();
    world.dispatch(Report::PrioritySeen { subflow: 3, backup: true });
    assert_eq!(world.orders.len(), orders);
}

#[test]
fn a_subflow_opened_by_the_peer_is_managed_too() {
    let mut world = World::established(pcdc(json!({"active": [0]})), Stack::LINUX);
    world.roles.push(Role::Active);
    world.dispatch(Report::JoinedByPeer(3));
    assert_eq!(world.driver.subflows()[4].path(), 3);
    assert_eq!(world.roles[4], Role::Standby);
}

#[test]
fn there_are_never_more_subflows_than_a_connection_can_have() {
    let options = json!({"ndiffports": MAX_SUBFLOWS});
    let mut world =
        World::established(assignment("ndiffports", options, TransferSize::Unknown), Stack::LINUX);
    assert_eq!(world.driver.subflows().len(), MAX_SUBFLOWS);
    world.dispatch(Report::JoinedByPeer(0));
    assert_eq!(world.driver.subflows().len(), MAX_SUBFLOWS);
}

#[test]
fn joins_are_distinguished_by_their_path() {
    let mut world = World::new(fullmesh(), Stack::LINUX);
    let mut orders = Vec::new();
    world.driver.handle(Report::Joined(0), &mut orders);
    world.driver.handle(Report::Established, &mut orders);
    assert_eq!(world.driver.joining(0), None);
    assert_eq!(world.driver.joining(2), Some(2));
    world.driver.handle(Report::JoinFailed(2), &mut orders);
    assert_eq!(world.driver.joining(2), None);
    assert_eq!(world.driver.subflows()[2].state(), State::Refused);
    assert!(orders.iter().all(|order| matches!(order, Order::Connect { .. })));
}

#[test]
fn a_removed_address_closes_its_subflows_and_an_announced_one_reopens_them() {
    let options = json!({"active": [0, 1], "standby_order": [2, 3]});
    let mut world = World::established(pcdc(options), Stack::LINUX);
    world.dispatch(Report::AddressRemoved(1));
    assert_eq!(world.driver.subflows()[1].state(), State::Closed);
    assert_eq!(world.losses(), [(1, vec![2])]);
    world.dispatch(Report::AddressAnnounced(3));
    assert_eq!(world.driver.subflows()[1].state(), State::Closed);
    world.dispatch(Report::AddressAnnounced(1));
    assert_eq!(world.driver.subflows().len(), 4);
    assert!(world.driver.subflows()[1].is_alive());
    assert_eq!(world.with(Role::Active), [0, 1]);
    assert!(world.orders.contains(&Order::NoteRestored { subflow: 1 }));
}

#[test]
fn the_classes_of_a_stream_follow_the_bytes_sent() {
    let unknown = assignment("pcdc", json!({}), TransferSize::Unknown);
    let mut world = World::established(unknown, Stack::LINUX);
    for (sent, active) in [(1, 1), (512 * KIB - 1, 1), (512 * KIB, 2), (1024 * KIB, 4)] {
        world.dispatch(Report::BytesSent(sent));
        assert_eq!(world.with(Role::Active).len(), active, "{sent}");
    }
    assert_eq!(world.driver.assignment.thresholds(), [512 * KIB, 1024 * KIB]);
}

#[test]
fn the_policy_of_one_connection_knows_nothing_of_anothers() {
    let unknown = assignment("pcdc", json!({}), TransferSize::Unknown);
    let mut first = World::established(unknown.clone(), Stack::LINUX);
    let second = World::established(unknown, Stack::LINUX);
    first.dispatch(Report::BytesSent(2048 * KIB));
    assert_eq!((first.with(Role::Active).len(), second.with(Role::Active).len()), (4, 1));
}

#[test]
fn only_policies_with_an_interval_get_samples() {
    let sample = Report::Sample {
        now: 7,
        statistics: ConnectionStatistics { sent: 9, acked: 5, buffer: 1 },
    };
    let mut world = World::established(fullmesh(), Stack::SIMULATED);
    assert_eq!(world.driver.sampling(), None);
    world.dispatch(sample);
    assert_eq!(world.with(Role::Active), [0, 1, 2, 3]);
    let guarded = assignment("guard", json!({}), TransferSize::Unlimited);
    assert!(guarded.sampling().is_some());
    // Before the connection is established the policy gets none.
    let mut world = World::new(guarded, Stack::SIMULATED);
    world.dispatch(sample);
    assert_eq!(world.orders, []);
}

/// What holds up the quickest path is foreseen to cost nearly all.
#[derive(Debug)]
struct Quickest;

impl Forecast for Quickest {
    fn throughput(&self, lines: &[Line], _buffer: Bytes) -> Option<f64> {
        Some(2e13 / lines.iter().map(|line| line.rtt).max()? as f64)
    }
}

fn guarded() -> Assignment {
    let mut assignment = assignment("guard", json!({}), TransferSize::Unlimited);
    assignment.foresee(|| Arc::new(Quickest));
    assignment
}

/// Two subflows of which the second holds up the first: a policy with samples reacts.
#[test]
fn commands_after_samples_become_orders() {
    for stack in [Stack::SIMULATED, Stack::LINUX] {
        let mut world = World::established(guarded(), stack);
        let mut statistics = ConnectionStatistics::default();
        for number in 1..60 {
            let harmed = world.with(Role::Active).len() > 1;
            statistics.acked += if harmed { 100_000 } else { 1_000_000 };
            statistics.sent = statistics.acked + 500_000;
            for id in 0..4 {
                let srtt = if id == 0 { 10_000_000 } else { 300_000_000 };
                let subflow = SubflowStatistics {
                    srtt,
                    rate: if id == 0 { 20_000_000 } else { 300_000 },
                    delivered: number * 20_000,
                    ..SubflowStatistics::default()
                };
                world.driver.set_min_rtt(id, srtt);
                world.driver.set_statistics(id, subflow);
            }
            world.dispatch(Report::Sample { now: number * 100_000_000, statistics });
        }
        assert_eq!(world.with(Role::Active), [0]);
        assert_eq!(world.with(Role::Standby), [1, 2, 3]);
    }
}

#[test]
fn a_path_that_is_added_gets_a_subflow_once_the_connection_is_established() {
    let mut world = World::new(fullmesh(), Stack::LINUX);
    let early = world.driver.add_path(PathEnds { local: 2, remote: 0, ..PathEnds::default() });
    world.dispatch(Report::PathAdded(early));
    world.dispatch(Report::Joined(0));
    world.dispatch(Report::Established);
    assert_eq!(world.driver.subflows().len(), 5);
    let late = world.driver.add_path(PathEnds { local: 2, remote: 1, ..PathEnds::default() });
    world.dispatch(Report::PathAdded(late));
    assert_eq!((early, late, world.driver.subflows()[5].path()), (4, 5, 5));
    world.dispatch(Report::Withdrawn(late));
    assert_eq!(world.with(Role::Standby), [5]);
}

#[test]
fn where_only_the_peer_opens_subflows_the_policy_gives_them_roles() {
    let options = json!({"active": [0]});
    let mut world = World::established(pcdc(options), Stack::LINUX_ACCEPTED);
    assert_eq!(world.driver.subflows().len(), 1);
    world.roles.push(Role::Active);
    world.dispatch(Report::JoinedByPeer(1));
    assert_eq!(world.with(Role::Standby), [1]);
    let unknown = world.driver.add_path(PathEnds { local: 0, remote: 9, ..PathEnds::default() });
    world.roles.push(Role::Active);
    world.dispatch(Report::JoinedByPeer(unknown));
    assert_eq!(world.with(Role::Standby), [1, 2]);
    world.dispatch(Report::Closed(1));
    assert_eq!(world.driver.closed(1), Some(1));
    world.dispatch(Report::AddressAnnounced(1));
    assert_eq!(world.driver.joining(1), None);
}

#[test]
fn a_connection_that_is_taken_over_keeps_its_subflows() {
    let mut world = World::new(fullmesh(), Stack::LINUX);
    world.driver.set_backup(0, true);
    for path in [1, 2] {
        world.roles.push(Role::Active);
        world.dispatch(Report::JoinedByPeer(path));
    }
    world.driver.set_backup(1, true);
    world.roles[..2].fill(Role::Standby);
    world.dispatch(Report::Joined(0));
    world.dispatch(Report::Established);
    assert_eq!(world.with(Role::Standby), [0, 1]);
    let paths: Vec<_> = world.driver.subflows().iter().map(Subflow::path).collect();
    assert_eq!(paths, [0, 1, 2, 3]);
}

#[test]
fn a_refused_subflow_is_retried_on_request() {
    let mut world = World::established(fullmesh(), Stack::LINUX);
    world.dispatch(Report::JoinFailed(1));
    world.dispatch(Report::AddressAnnounced(1));
    assert_eq!(world.driver.subflows()[1].state(), State::Refused);
    world.dispatch(Report::Retried(1));
    assert_eq!(world.driver.subflows()[1].state(), State::Established);
    assert_eq!(world.driver.subflows().len(), 4);
}
