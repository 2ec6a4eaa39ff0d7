//! Many connections between the same two sites, of one workload or of several at once.

use crate::common::*;
use mptune_core::mptcp::Members;
use mptune_core::network::NetworkSpec;
use mptune_core::trial::{FailureKind, FlowOutcome, FlowSpec, Outcome, ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Bulk, Messages, Requests, Workload};

/// Starts that are not in step: multiples of an irrational share of a second.
fn starts(count: usize) -> Vec<Nanos> {
    (0..count as u64).map(|number| number * 618_033_989 % SECOND).collect()
}

fn bulk(seconds: u64) -> Workload {
    Workload::Bulk(Bulk { duration_ns: seconds * SECOND, ends_early: false })
}

fn messages(seconds: u64) -> Workload {
    Workload::Messages(Messages {
        bytes: 200,
        interval_ns: 100 * MILLISECOND,
        duration_ns: seconds * SECOND,
        patience_ns: 10 * SECOND,
        both_ways: false,
    })
}

fn requests(seconds: u64) -> Workload {
    Workload::Requests(Requests {
        request_bytes: 400,
        response_bytes: 10_000,
        response_sizes: Vec::new(),
        think_ns: 100 * MILLISECOND,
        at_once: 1,
        duration_ns: seconds * SECOND,
        patience_ns: 10 * SECOND,
        seed: 0,
    })
}

/// One path of 20 Mbit/s and 40 ms there and back, with a queue of one bandwidth-delay product.
fn one_path() -> NetworkSpec {
    disjoint(&[queued(link(20.0, 20.0), 40.0, 1.0)])
}

/// A trial as the kernel accounts, with workloads beside the first.
fn linux(network: NetworkSpec, first: Workload, count: usize, beside: Vec<FlowSpec>) -> TrialSpec {
    TrialSpec {
        accounting: "linux".into(),
        scheduler: "kernel".into(),
        members: Members { tso: true, ..Members::default() },
        workload: first,
        starts_ns: starts(count),
        beside,
        ..trial(network, "cubic", 4 * MIB, 60)
    }
}

fn beside(workload: Workload, starts_ns: Vec<Nanos>) -> Vec<FlowSpec> {
    vec![FlowSpec { workload, starts_ns }]
}

/// Jain's index of the payload of connections (RFC 5166, section 2.3).
fn fairness(flow: &FlowOutcome) -> f64 {
    let shares: Vec<_> = flow.connections.iter().map(|one| one.bytes as f64).collect();
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|x| x * x).sum::<f64>());
    sum * sum / (shares.len() as f64 * squares)
}

fn mean_ms(outcome: &Outcome) -> f64 {
    let times = &outcome.delays_ns;
    times.iter().sum::<Nanos>() as f64 / times.len() as f64 / 1e6
}

#[test]
fn like_connections_share_a_path_equally_and_fill_it() {
    for (cc, count) in [("reno", 2), ("reno", 8), ("cubic", 8)] {
        let spec = TrialSpec { starts_ns: starts(count), ..trial(one_path(), cc, 4 * MIB, 300) };
        let outcome = run(&spec);
        let [flow] = &outcome.flows[..] else { panic!("one workload") };
        assert_eq!(flow.connections.len(), count);
        assert!(fairness(flow) > 0.95, "{cc}: {}", fairness(flow));
        let all: u64 = flow.connections.iter().map(|one| one.bytes).sum();
        assert_eq!(all, outcome.in_order_bytes);
        assert_eq!(all, outcome.bins.iter().sum::<u64>());
        assert!(
            (0.97..=1.0).contains(&(mbps(&outcome) / PAYLOAD_SHARE / 20.0)),
            "{}",
            mbps(&outcome)
        );
        let [path] = &outcome.subflows[..] else { panic!("one path") };
        assert_eq!(path.bytes, all);
    }
}

#[test]
fn messages_beside_a_silent_connection_are_messages_alone() {
    let alone = run(&linux(one_path(), messages(5), 1, vec![]));
    // It sends nothing but its one request before the others are over.
    let silent = Workload::Requests(Requests {
        request_bytes: 1,
        response_bytes: 1,
        response_sizes: Vec::new(),
        think_ns: 4 * SECOND,
        at_once: 1,
        duration_ns: 5 * SECOND,
        patience_ns: 10 * SECOND,
        seed: 0,
    });
    let mixed = run(&linux(one_path(), messages(5), 1, beside(silent, vec![4 * SECOND])));
    assert_eq!(alone.delays_ns.len(), 50);
    assert_eq!(mixed.delays_ns[..39], alone.delays_ns[..39]);
    assert_eq!(mixed.flows[0].connections[0].delays_ns, mixed.delays_ns);
    assert_eq!(mixed.flows.len(), 2);
}

#[test]
fn requests_beside_a_saturated_sender_wait_in_its_queue() {
    let alone = run(&linux(one_path(), requests(20), 1, vec![]));
    let mixed = run(&linux(one_path(), requests(20), 1, beside(bulk(20), vec![0])));
    // Both ways of 20 ms; a full queue adds a bandwidth-delay product of 40 ms, a lost packet more.
    let (quick, slow) = (mean_ms(&alone), mean_ms(&mixed));
    assert!(slow > quick + 10.0, "{quick} and {slow}");
    let least = *mixed.delays_ns.iter().min().expect("responses") as f64 / 1e6;
    assert!(least >= quick - 1.0, "{least}");
    let sent = &mixed.flows[1].connections[0];
    assert_eq!(sent.duration_ns, 20 * SECOND);
    assert!(sent.bytes as f64 * 8.0 / 20e6 > 0.8 * 20.0 * PAYLOAD_SHARE, "{}", sent.bytes);
}

#[test]
fn a_saturated_sender_is_measured_for_its_time_and_the_last_message_afterwards() {
    let spec = linux(one_path(), bulk(5), 1, beside(messages(7), vec![300 * MILLISECOND]));
    let outcome = run(&spec);
    assert_eq!(outcome.duration_ns, 5 * SECOND);
    assert_eq!(outcome.bins.len(), 50);
    let one = &outcome.flows[1].connections[0];
    assert_eq!(one.delays_ns.len(), 70);
    assert!(one.duration_ns >= 6_900 * MILLISECOND);
    assert_eq!(one.completion_ns, Some(one.duration_ns));
}

#[test]
fn transfers_are_complete_with_the_last_of_them() {
    let spec = TrialSpec {
        starts_ns: vec![0, 200 * MILLISECOND, SECOND],
        ..transfer(trial(one_path(), "cubic", 4 * MIB, 1), 500_000)
    };
    let outcome = run(&spec);
    let of_each: Vec<_> =
        outcome.flows[0].connections.iter().map(|one| one.completion_ns).collect();
    let last = spec.starts_ns.iter().zip(&of_each).map(|(start, own)| start + own.expect("done"));
    assert_eq!(outcome.completion_ns, last.max());
    assert_eq!(outcome.in_order_bytes, 1_500_000);
}

#[test]
fn a_connection_that_is_not_done_fails_the_trial_by_its_name() {
    let mut spec = linux(one_path(), messages(5), 1, beside(messages(5), vec![0, SECOND]));
    spec.script = vec![at(3, 0, ScriptAction::Down)];
    let outcome = spec.run().expect("a valid trial");
    assert_eq!(outcome.failed_kind, Some(FailureKind::Stalled));
    let reason = outcome.failed.expect("a reason");
    assert!(reason.starts_with("workload 1, connection 1 of 1: stalled"), "{reason}");
}

#[test]
fn a_cut_path_is_cut_for_all_and_each_goes_on() {
    let network = disjoint(&[link(20.0, 20.0), link(20.0, 20.0)]);
    let mut spec = linux(network, messages(6), 3, beside(requests(6), starts(2)));
    spec.pm = "fullmesh".into();
    spec.script = vec![at(2, 0, ScriptAction::Down), at(4, 0, ScriptAction::Up)];
    let outcome = run(&spec);
    assert_eq!(outcome.delays_ns.len(), 180);
    assert!(outcome.flows[0].connections.iter().all(|one| one.delays_ns.len() == 60));
}

#[test]
fn a_thousand_connections_run_and_repeat() {
    let network =
        disjoint(&[queued(link(200.0, 20.0), 40.0, 1.0), queued(link(100.0, 30.0), 60.0, 1.0)]);
    let spec = TrialSpec {
        pm: "fullmesh".into(),
        starts_ns: starts(1_000),
        ..linux(network, messages(2), 1, vec![])
    };
    let outcome = run(&spec);
    assert_eq!(outcome.flows[0].connections.len(), 1_000);
    assert_eq!(outcome.delays_ns.len(), 20_000);
    assert_eq!(spec.run().expect("a valid trial"), outcome);
}

#[test]
fn what_no_trial_can_hold_is_refused() {
    let key = |spec: &TrialSpec| spec.run().expect_err("refused").key;
    let spec = linux(one_path(), bulk(5), 1, vec![]);
    assert_eq!(key(&TrialSpec { starts_ns: starts(1_001), ..spec.clone() }), "starts_ns");
    assert_eq!(key(&TrialSpec { starts_ns: vec![], ..spec.clone() }), "starts_ns");
    assert_eq!(key(&TrialSpec { starts_ns: vec![5 * SECOND], ..spec.clone() }), "starts_ns");
    assert_eq!(
        key(&TrialSpec { beside: beside(bulk(0), vec![0]), ..spec.clone() }),
        "workload.duration_ns"
    );
    let early = Workload::Bulk(Bulk { duration_ns: SECOND, ends_early: true });
    assert_eq!(key(&TrialSpec { beside: beside(early, vec![0]), ..spec }), "workload.ends_early");
}
