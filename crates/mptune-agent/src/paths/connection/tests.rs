//! A managed connection on an obedient kernel, and on one that refuses orders.

use super::*;
use crate::kernel::info::{MptcpInfo, TcpInfo};
use crate::kernel::mptcp_pm::events::Change;
use crate::paths::assignment::Specification;
use crate::paths::protocol::ConnectionReport;
use crate::paths::sampling::SubflowLook;
use mptune_core::trial::{Outcome, TrialSpec};
use serde_json::{Value, json};
use std::collections::HashMap;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const KIB: u64 = 1024;

fn assignment(pm: &str, (locals, remotes): (usize, usize), further: Value) -> Assignment {
    let path = |local: usize, remote: usize| {
        json!({
            "label": format!("{local}-{remote}"),
            "local": local,
            "remote": remote,
            "pairs": [
                [format!("10.64.{local}.1"), format!("10.65.{remote}.1")],
                [format!("fd64:0:{local}::1"), format!("fd65:0:{remote}::1")],
            ],
        })
    };
    let paths = (0..locals).flat_map(|local| (0..remotes).map(move |remote| (local, remote)));
    let paths: Vec<_> = paths.map(|(local, remote)| path(local, remote)).collect();
    let mut specification = json!({"pm": pm, "paths": paths, "transfer_bytes": u64::MAX});
    specification.as_object_mut().unwrap().extend(further.as_object().cloned().unwrap());
    serde_json::from_value::<Specification>(specification).unwrap().checked().unwrap()
}

fn fullmesh(interfaces: (usize, usize)) -> Assignment {
    assignment("fullmesh", interfaces, json!({}))
}

fn pcdc(options: Value) -> Assignment {
    assignment("pcdc", (2, 2), json!({"pm_options": options}))
}

/// Requests that the kernel refuses.
#[derive(Default)]
struct Refusals {
    creates: Option<&'static str>,
    priorities: Option<&'static str>,
}

/// Carries out orders at once, and counts 1 ms per report.
struct Kernel {
    now_ns: u64,
    acts: Vec<Act>,
    subflows: HashMap<Pair, Statistics>,
    next_port: u16,
    refused: Refusals,
    assignment: Assignment,
    connection: Connection,
}

fn seen(backup: bool) -> Statistics {
    Statistics { min_rtt_ns: 10 * MS, acked_bytes: 1, backup, ..Statistics::default() }
}

impl Kernel {
    fn of(assignment: &Assignment, connection: Connection) -> Self {
        let pair = connection.initial;
        Self {
            now_ns: 0,
            acts: Vec::new(),
            subflows: HashMap::from([(pair, seen(false))]),
            next_port: 40_001,
            refused: Refusals::default(),
            assignment: assignment.clone(),
            connection,
        }
    }

    fn new(assignment: &Assignment, initial: &str, ipv6: bool) -> Self {
        let path = assignment.path_named(initial).unwrap();
        let (local, remote) = assignment.paths[path].pairs[usize::from(ipv6)];
        let pair = Pair { local: (local, 40_000).into(), remote: (remote, 5001).into() };
        let connection = Connection::new(assignment, pair, path, &BTreeSet::new(), 0);
        Self::of(assignment, connection)
    }

    fn established(assignment: &Assignment) -> Self {
        let mut kernel = Self::new(assignment, "0-0", false);
        kernel.establish();
        kernel
    }

    /// The connection, and then every requested subflow.
    fn establish(&mut self) {
        self.tick();
        self.note();
        self.connection.on_established(self.now_ns);
        self.obey();
    }

    fn look(&mut self) {
        self.tick();
        self.note();
        self.connection.on_looked(self.now_ns);
        self.obey();
    }

    fn change(&mut self, change: PathChange, label: &str) {
        let path = self.assignment.path_named(label).unwrap();
        self.connection.on_path(change, path, self.now_ns);
        self.obey();
    }

    fn send(&mut self, bytes: u64) {
        self.connection.on_bytes_sent(bytes, self.now_ns);
        self.obey();
    }

    fn event(&mut self, change: Change, pair: Pair, error: i32) {
        self.tick();
        self.note();
        if change == Change::Established {
            let seen = self.subflows.get(&pair).copied();
            self.connection.on_joined(pair, seen, self.now_ns);
        } else {
            let event = SubflowEvent {
                change,
                token: 1,
                pair,
                local_id: 0,
                remote_id: 0,
                backup: false,
                error: error as u8,
                reset_reason: None,
            };
            self.connection.on_ended(&event, self.now_ns);
        }
        self.obey();
    }

    fn close(&mut self, label: &str, error: i32) {
        let pair = self.pair(label);
        self.subflows.remove(&pair);
        self.event(Change::Closed, pair, error);
    }

    fn join(&mut self, pair: Pair, backup: bool) {
        self.subflows.insert(pair, seen(backup));
        self.event(Change::Established, pair, 0);
    }

    fn tick(&mut self) {
        self.now_ns += MS;
    }

    fn note(&mut self) {
        for (id, pair) in self.connection.established() {
            if let Some(seen) = self.subflows.get(&pair) {
                self.connection.note(id, *seen, self.now_ns);
            }
        }
    }

    fn obey(&mut self) {
        let acts = self.connection.take_acts();
        self.acts.extend(&acts);
        for act in &acts {
            match self.refusal(act) {
                Some(reason) => self.connection.on_refused(act, reason, self.now_ns),
                None => self.carry_out(act),
            }
        }
        for act in acts {
            match act {
                Act::Create { mut pair, backup, .. } if self.refused.creates.is_none() => {
                    pair.local.set_port(self.next_port);
                    self.next_port += 1;
                    self.join(pair, backup);
                }
                Act::Destroy { pair, .. } => self.event(Change::Closed, pair, 0),
                _ => {}
            }
        }
    }

    fn refusal(&self, act: &Act) -> Option<&'static str> {
        match act {
            Act::Create { .. } => self.refused.creates,
            Act::SetPriority { .. } => self.refused.priorities,
            Act::Destroy { .. } | Act::Announce { .. } | Act::Retract { .. } => None,
        }
    }

    fn carry_out(&mut self, act: &Act) {
        match act {
            Act::Create { .. } | Act::Announce { .. } | Act::Retract { .. } => {}
            Act::SetPriority { pair, backup, .. } => {
                let one = self.subflows.get_mut(pair).unwrap();
                assert_ne!(one.backup, *backup, "it changes nothing");
                one.backup = *backup;
            }
            Act::Destroy { pair, .. } => drop(self.subflows.remove(pair).unwrap()),
        }
        self.connection.on_done(act, self.now_ns);
    }

    fn pair(&self, label: &str) -> Pair {
        let ids = self.connection.established();
        ids.into_iter().find(|&(id, _)| self.connection.label(id) == label).unwrap().1
    }

    fn at(&mut self, label: &str) -> &mut Statistics {
        let pair = self.pair(label);
        self.subflows.get_mut(&pair).unwrap()
    }

    /// Paths that are standby in the kernel, in order.
    fn standby(&self) -> Vec<String> {
        let standby = |(_, pair): &(SubflowId, Pair)| self.subflows[pair].backup;
        let ids = self.connection.established().into_iter().filter(standby);
        let mut labels: Vec<_> = ids.map(|(id, _)| self.connection.label(id)).collect();
        labels.sort();
        labels
    }

    fn creates(&self) -> Vec<(Pair, u8)> {
        let created = |act: &Act| match *act {
            Act::Create { pair, address_id, .. } => Some((pair, address_id)),
            _ => None,
        };
        self.acts.iter().filter_map(created).collect()
    }

    fn states(&self) -> Vec<State> {
        self.connection.subflows().map(|(_, state)| state).collect()
    }
}

#[test]
fn nothing_is_ordered_before_the_connection_is_established() {
    let mut kernel = Kernel::new(&fullmesh((2, 2)), "0-0", false);
    kernel.change(PathChange::Withdraw, "0-0");
    kernel.look();
    assert_eq!(kernel.acts, []);
    kernel.establish();
    assert_eq!(kernel.creates().len(), 3);
    assert_eq!(kernel.standby(), ["0-0"]);
}

#[test]
fn subflows_are_opened_between_the_addresses_of_their_paths() {
    let assignment = fullmesh((2, 2));
    for ipv6 in [false, true] {
        let mut kernel = Kernel::new(&assignment, "1-0", ipv6);
        kernel.establish();
        let created = kernel.creates();
        assert!(created.iter().all(|(pair, _)| pair.remote.port() == 5001));
        let ends: Vec<_> = created.iter().map(|(pair, _)| pair.addresses()).collect();
        let others = assignment.paths.iter().filter(|path| path.label != "1-0");
        let expected: Vec<_> = others.map(|path| path.pairs[usize::from(ipv6)]).collect();
        assert_eq!(ends, expected);
    }
}

#[test]
fn a_connection_of_ipv4_inside_an_ipv6_socket_is_one_of_ipv4() {
    let assignment = fullmesh((2, 1));
    let pair = Pair {
        local: "[::ffff:10.64.0.1]:40000".parse().unwrap(),
        remote: "[::ffff:10.65.0.1]:5001".parse().unwrap(),
    };
    let path = assignment.path_of(&pair).unwrap();
    let mut connection = Connection::new(&assignment, pair, path, &BTreeSet::new(), 0);
    assert_eq!(connection.families, Families { v4: true, v6: true });
    connection.on_established(1);
    let [Act::Create { pair, .. }] = connection.take_acts()[..] else { panic!("one subflow") };
    assert_eq!(pair.local, "10.64.1.1:0".parse().unwrap());
}

#[test]
fn an_address_has_one_number_and_the_first_subflows_is_0() {
    let mut kernel = Kernel::new(&fullmesh((3, 2)), "1-0", false);
    kernel.establish();
    let mut numbers: HashMap<IpAddr, BTreeSet<u8>> = HashMap::new();
    for (pair, id) in kernel.creates() {
        numbers.entry(pair.local.ip()).or_default().insert(id);
    }
    assert_eq!(numbers[&"10.64.1.1".parse::<IpAddr>().unwrap()], BTreeSet::from([0]));
    let all: BTreeSet<u8> = numbers.values().flatten().copied().collect();
    assert_eq!((numbers.len(), all.len()), (3, 3));
}

#[test]
fn standby_subflows_join_as_such() {
    let kernel = Kernel::established(&pcdc(json!({"active": [0, 3]})));
    assert_eq!(kernel.standby(), ["0-1", "1-0"]);
    assert!(kernel.acts.iter().all(|act| matches!(act, Act::Create { .. })));
}

#[test]
fn the_classes_follow_the_bytes_sent() {
    let unknown = assignment("pcdc", (2, 2), json!({"transfer_bytes": null}));
    let mut kernel = Kernel::established(&unknown);
    for (sent, active) in [(1, 1), (512 * KIB - 1, 1), (512 * KIB, 2), (1024 * KIB, 4)] {
        kernel.send(sent);
        assert_eq!(kernel.standby().len(), 4 - active, "{sent}");
    }
}

#[test]
fn a_small_transfer_takes_the_path_with_the_smallest_rtt() {
    let small = assignment("pcdc", (2, 2), json!({"transfer_bytes": 100 * KIB}));
    let mut kernel = Kernel::new(&small, "0-0", false);
    kernel.at("0-0").min_rtt_ns = 50 * MS;
    kernel.establish();
    // Joined with 10 ms each, the first of them carries the data.
    assert_eq!(kernel.standby(), ["0-0", "1-0", "1-1"]);
}

#[test]
fn three_timeouts_in_a_row_are_a_loss_and_progress_ends_it() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0], "standby_order": [2, 1, 3]})));
    for timeouts in [1, 2] {
        kernel.at("0-0").timeouts = timeouts;
        kernel.look();
        assert_eq!(kernel.standby(), ["0-1", "1-0", "1-1"]);
    }
    kernel.at("0-0").timeouts = 3;
    kernel.look();
    assert_eq!(kernel.standby(), ["0-1", "1-1"]);
    let outage = &kernel.connection.outages[0];
    assert_eq!((outage.path.as_str(), outage.restored_ns), ("0-0", None));
    assert_eq!(outage.successors, ["1-0"]);
    kernel.at("0-0").timeouts = 0;
    kernel.look();
    assert_eq!(kernel.standby(), ["0-1", "1-0", "1-1"]);
    assert_eq!(kernel.connection.outages[0].restored_ns, Some(kernel.now_ns));
}

#[test]
fn a_takeover_lasts_from_the_last_sign_of_life_to_data_on_a_successor() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0], "standby_order": [2]})));
    kernel.now_ns = 10 * SECOND;
    (kernel.at("0-0").timeouts, kernel.at("0-0").silent_ms) = (3, 1500);
    kernel.look();
    let heard_ns = kernel.now_ns - 1500 * MS;
    let outage = &kernel.connection.outages[0];
    assert_eq!((outage.last_heard_ns, outage.take_over_ns), (heard_ns, None));
    assert!(kernel.connection.is_troubled(kernel.now_ns));
    kernel.at("0-0").silent_ms += 1;
    kernel.at("1-0").unacked = 10;
    kernel.look();
    assert_eq!(kernel.connection.outages[0].take_over_ns, None);
    kernel.at("1-0").acked_bytes += 1448;
    kernel.look();
    let outage = &kernel.connection.outages[0];
    assert_eq!(outage.carrying_ns, Some(kernel.now_ns));
    assert_eq!(outage.take_over_ns, Some(kernel.now_ns - heard_ns));
    assert!(!kernel.connection.is_troubled(kernel.now_ns));
}

#[test]
fn a_standby_that_the_kernel_used_by_itself_counts_from_then() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0], "standby_order": [2]})));
    kernel.now_ns = 10 * SECOND;
    let mut carrying_ns = None;
    for (timeouts, silent_ms, acked) in [(1, 300, 1), (2, 700, 5000), (3, 1500, 9000)] {
        (kernel.at("0-0").timeouts, kernel.at("0-0").silent_ms) = (timeouts, silent_ms);
        kernel.at("1-0").acked_bytes = acked;
        kernel.look();
        carrying_ns = if timeouts == 2 { Some(kernel.now_ns) } else { carrying_ns };
    }
    assert_eq!(kernel.connection.outages[0].carrying_ns, carrying_ns);
}

#[test]
fn a_closed_subflow_is_replaced_for_good() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0, 1], "standby_order": [3, 2]})));
    kernel.now_ns = 10 * SECOND;
    kernel.close("0-1", libc::ECONNRESET);
    kernel.look();
    assert_eq!(kernel.standby(), ["1-0"]);
    let successors: Vec<_> =
        kernel.connection.outages.iter().map(|outage| &outage.successors[..]).collect();
    assert_eq!(successors, [["1-1"]]);
    assert_eq!(kernel.connection.problems, [""; 0]);
}

#[test]
fn a_refused_join_is_a_problem_with_its_reason() {
    let mut kernel = Kernel::new(&fullmesh((2, 2)), "0-0", false);
    kernel.refused.creates = Some("no route");
    kernel.establish();
    assert_eq!(kernel.connection.problems, ["0-1", "1-0", "1-1"].map(|p| format!("{p}: no route")));
    assert_eq!(kernel.states()[1..], [State::Refused; 3]);
}

#[test]
fn a_join_that_fails_is_a_problem_with_its_reason() {
    let mut kernel = Kernel::new(&fullmesh((2, 2)), "0-0", false);
    kernel.connection.on_established(1);
    let acts = kernel.connection.take_acts();
    for (act, error) in acts.into_iter().zip([libc::ECONNREFUSED, libc::ETIMEDOUT, 0]) {
        let Act::Create { mut pair, .. } = act else { panic!("a subflow") };
        pair.local.set_port(9);
        kernel.event(Change::Closed, pair, error);
    }
    let reasons = &kernel.connection.problems;
    assert!(reasons[0].contains("10.65.1.1: the receiver must listen on all its addresses"));
    assert!(reasons[1].contains("timed out"), "{}", reasons[1]);
    assert!(reasons[2].contains("receiver refused"));
    assert_eq!(kernel.states()[1..], [State::Refused; 3]);
}

#[test]
fn a_join_that_failed_among_lost_events_is_recognised_by_its_absence() {
    let mut kernel = Kernel::new(&fullmesh((2, 2)), "0-0", false);
    kernel.connection.on_established(1);
    let pairs = kernel.connection.take_acts().into_iter().map(|act| match act {
        Act::Create { pair, .. } => pair,
        other => panic!("{other:?} is no subflow"),
    });
    let pairs: Vec<_> = pairs.collect();
    kernel.connection.on_opening(&pairs, true, 2);
    assert_eq!(kernel.states()[1..], [State::Joining; 3]);
    kernel.connection.on_opening(&pairs[1..2], true, 3);
    assert_eq!(kernel.states()[1..], [State::Refused, State::Joining, State::Refused]);
    let reason = "the join failed among events that were lost";
    assert_eq!(kernel.connection.problems, ["0-1", "1-1"].map(|path| format!("{path}: {reason}")));
    // An established one is not being opened.
    kernel.join(pairs[1], false);
    kernel.connection.on_opening(&[], true, 4);
    assert_eq!(kernel.states()[2], State::Established);
}

#[test]
fn of_several_joins_on_a_path_as_many_have_failed_as_are_missing() {
    let three = assignment("ndiffports", (1, 1), json!({"pm_options": {"ndiffports": 4}}));
    let mut kernel = Kernel::new(&three, "0-0", false);
    let initial = kernel.pair("0-0");
    kernel.connection.on_established(1);
    kernel.connection.on_opening(&[initial, initial], true, 2);
    let state = |wanted| kernel.states().iter().filter(|&&state| state == wanted).count();
    assert_eq!((state(State::Joining), state(State::Refused)), (2, 1));
}

#[test]
fn a_subflow_that_ends_with_its_handshake_is_a_problem() {
    let mut kernel = Kernel::established(&fullmesh((2, 1)));
    kernel.close("1-0", 0);
    assert!(kernel.connection.problems[0].contains("accepts no more"));
}

#[test]
fn a_young_subflow_whose_address_the_peer_withdraws_is_no_problem() {
    let mut kernel = Kernel::established(&fullmesh((2, 1)));
    kernel.connection.on_peers_address(0, false);
    kernel.close("1-0", 0);
    assert_eq!(kernel.connection.problems, [""; 0]);
    assert_eq!(kernel.states()[1], State::Closed);
}

#[test]
fn a_refused_priority_is_tried_again_and_a_problem_only_if_it_lasts() {
    let mut kernel = Kernel::established(&fullmesh((2, 1)));
    kernel.refused.priorities = Some("subflow not found");
    kernel.change(PathChange::Withdraw, "1-0");
    kernel.look();
    assert_eq!(kernel.connection.problems, [""; 0]);
    assert!(kernel.connection.is_troubled(kernel.now_ns));
    kernel.now_ns += SECOND;
    kernel.look();
    kernel.look();
    assert_eq!(kernel.connection.problems, ["1-0: subflow not found"]);
    kernel.refused.priorities = None;
    kernel.look();
    assert_eq!(kernel.standby(), ["1-0"]);
    assert!(!kernel.connection.is_troubled(kernel.now_ns));
}

#[test]
fn a_priority_that_differs_in_the_kernel_is_set_again() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0]})));
    kernel.at("1-1").backup = false;
    kernel.look();
    assert_eq!(kernel.standby(), ["0-1", "1-0", "1-1"]);
}

#[test]
fn withdrawal_overrules_the_policy_and_leaves_its_view_alone() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0, 1]})));
    kernel.change(PathChange::Withdraw, "0-1");
    assert_eq!(kernel.standby(), ["0-1", "1-0", "1-1"]);
    kernel.change(PathChange::Withdraw, "0-0");
    // No active one is left: the others are the last resort, the withdrawn ones are not.
    assert_eq!(kernel.standby(), ["0-0", "0-1"]);
    kernel.change(PathChange::Readmit, "0-0");
    kernel.change(PathChange::Readmit, "0-1");
    assert_eq!(kernel.standby(), ["1-0", "1-1"]);
}

#[test]
fn a_subflow_opened_by_the_peer_is_managed_too() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0]})));
    let pair =
        Pair { local: "10.64.1.1:7".parse().unwrap(), remote: "10.65.1.1:5001".parse().unwrap() };
    kernel.join(pair, false);
    assert!(kernel.subflows[&pair].backup);
    let count = kernel.states().len();
    kernel.join(Pair { local: "192.0.2.1:7".parse().unwrap(), ..pair }, false);
    assert_eq!(kernel.states().len(), count);
}

#[test]
fn an_address_takes_its_subflows_along_and_brings_them_back() {
    let mut kernel = Kernel::established(&fullmesh((2, 2)));
    kernel.change(PathChange::Remove, "0-0");
    assert_eq!(kernel.states()[0], State::Closed);
    assert_eq!(kernel.subflows.len(), 3);
    // It was closed by order, so it is no problem, however young it was.
    assert_eq!(kernel.connection.problems, [""; 0]);
    kernel.change(PathChange::Add, "0-0");
    assert_eq!(kernel.states(), [State::Established; 4]);
    assert_eq!(kernel.connection.outages[0].restored_ns, Some(kernel.now_ns));
}

#[test]
fn a_subflow_whose_address_goes_away_while_joining_is_closed_once_joined() {
    let mut kernel = Kernel::new(&fullmesh((2, 1)), "0-0", false);
    kernel.connection.on_established(1);
    let [Act::Create { mut pair, backup, .. }] = kernel.connection.take_acts()[..] else {
        panic!("one subflow");
    };
    pair.local.set_port(9);
    kernel.change(PathChange::Remove, "1-0");
    kernel.join(pair, backup);
    assert_eq!(kernel.states()[1], State::Closed);
    kernel.change(PathChange::Add, "1-0");
    assert_eq!(kernel.states()[1], State::Established);
}

#[test]
fn a_report_has_the_fields_that_the_other_side_reads() {
    let mut kernel = Kernel::established(&pcdc(json!({"active": [0], "standby_order": [2]})));
    kernel.at("0-0").timeouts = 3;
    kernel.look();
    let report =
        ConnectionReport::new(&kernel.connection, |pair| kernel.subflows.get(pair).copied());
    let report = serde_json::to_value(report).unwrap();
    assert_eq!(report["closed_ns"], Value::Null);
    let first = &report["subflows"][0];
    assert_eq!(first["pair"]["local"], json!({"address": "10.64.0.1", "port": 40_000}));
    assert_eq!((&first["path"], &first["state"]), (&json!("0-0"), &json!("established")));
    assert_eq!(first["kernel"]["timeouts"], json!(3));
    assert_eq!(report["outages"][0]["successors"], json!(["1-0"]));
    assert_eq!(report["changes"][0]["path"], json!("1-0"));
}

mod appearing;
mod samples;
mod simulator;
