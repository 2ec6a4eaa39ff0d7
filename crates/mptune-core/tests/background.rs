//! TCP connections that share the network with the measured one.

use crate::common::*;
use mptune_core::network::{BackgroundSpec, NetworkSpec};
use mptune_core::trial::TrialSpec;
use mptune_core::units::SECOND;

fn flow(path: usize, cc: &str, start: u64, stop: Option<u64>) -> BackgroundSpec {
    let stop_ns = stop.map(|stop| stop * SECOND);
    BackgroundSpec { path, cc: cc.into(), start_ns: start * SECOND, stop_ns }
}

/// One path of 20 Mbit/s and 40 ms, with these flows beside the connection.
fn shared(background: Vec<BackgroundSpec>) -> TrialSpec {
    let network = disjoint(&[queued(link(20.0, 20.0), 40.0, 1.0)]);
    trial(NetworkSpec { background, ..network }, "reno", 4 * MIB, 60)
}

#[test]
fn a_like_flow_takes_half_of_a_link() {
    let outcome = run(&shared(vec![flow(0, "reno", 0, None)]));
    let [other] = &outcome.background[..] else { panic!("one flow") };
    let (mine, theirs) = (outcome.in_order_bytes as f64, other.bytes as f64);
    assert!((mine / theirs - 1.0).abs() < 0.3, "{mine} and {theirs}");
    let all = (mine + theirs) * 8.0 / 60e6;
    assert!((0.9 * 20.0..=20.0).contains(&(all / PAYLOAD_SHARE)), "{all}");
    assert!(other.retransmitted > 0, "both lose packets in the queue they share");
}

#[test]
fn a_flow_starts_and_stops_at_its_times() {
    let outcome = run(&shared(vec![flow(0, "reno", 20, Some(40))]));
    let rate = |from: u64, to: u64| mbps_between(&outcome, from * SECOND, to * SECOND);
    assert!(rate(10, 20) > 0.95 * 20.0 * PAYLOAD_SHARE, "{}", rate(10, 20));
    assert!(rate(25, 40) < 0.75 * 20.0, "{}", rate(25, 40));
    assert!(rate(50, 60) > 0.95 * 20.0 * PAYLOAD_SHARE, "{}", rate(50, 60));
    assert_eq!(outcome.background[0].duration_ns, 20 * SECOND);
}

#[test]
fn a_flow_is_on_its_path_only() {
    let network =
        disjoint(&[queued(link(10.0, 10.0), 20.0, 1.0), queued(link(10.0, 10.0), 20.0, 1.0)]);
    let network = NetworkSpec { background: vec![flow(1, "cubic", 0, None)], ..network };
    let outcome = run(&trial(network, "cubic", 4 * MIB, 60));
    let [free, shared] = [0, 1].map(|i| outcome.subflows[i].bytes as f64 * 8.0 / 60e6);
    assert!(free > 0.9 * 10.0 * PAYLOAD_SHARE, "{free}");
    assert!(shared < 0.75 * 10.0, "{shared}");
    assert_eq!(outcome.background[0].path, 1);
}

#[test]
fn a_transfer_ends_although_others_go_on() {
    let spec = transfer(shared(vec![flow(0, "reno", 0, None); 3]), 1_000_000);
    let outcome = run(&spec);
    assert_eq!(outcome.in_order_bytes, 1_000_000);
    let reached = outcome.duration_ns;
    assert!(outcome.background.iter().all(|flow| flow.duration_ns == reached));
}

#[test]
fn a_connection_that_is_cut_off_stalls_although_others_go_on() {
    let mut spec = shared(vec![flow(1, "reno", 0, None)]);
    let path = queued(link(20.0, 20.0), 40.0, 1.0);
    let away = disjoint(&[path.clone(), path]);
    spec.network = NetworkSpec { background: spec.network.background, ..away };
    spec.pm = "default".into();
    spec.script = vec![at(10, 0, mptune_core::trial::ScriptAction::Down)];
    let outcome = spec.run().expect("valid");
    assert!(outcome.failed.is_some_and(|reason| reason.starts_with("stalled at 10.0")));
    assert!(outcome.background[0].bytes > 100_000_000);
}

#[test]
fn impossible_flows_are_refused_by_key() {
    let refused = |background| shared(background).run().expect_err("impossible").key;
    assert_eq!(
        refused(vec![flow(0, "reno", 0, None), flow(0, "tahoe", 0, None)]),
        "network.background[1].cc"
    );
    assert_eq!(refused(vec![flow(1, "reno", 0, None)]), "background[0].path");
    assert_eq!(refused(vec![flow(0, "reno", 5, Some(5))]), "background[0].stop_ns");
    assert_eq!(refused(vec![flow(0, "reno", 0, None); 257]), "network.background");
}

#[test]
fn as_many_flows_as_allowed_run() {
    let mut spec = shared(vec![flow(0, "reno", 0, None); 256]);
    spec.workload = saturated(5 * SECOND);
    let outcome = spec.run().expect("valid");
    let all: u64 = outcome.background.iter().map(|flow| flow.bytes).sum();
    assert!(all as f64 * 8.0 / 5e6 < 20.0);
}
