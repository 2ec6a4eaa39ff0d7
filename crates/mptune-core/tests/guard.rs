//! Guard in whole connections: it suspends the paths that cost throughput, and only those.

use crate::common::*;
use mptune_core::network::{NetworkSpec, ScheduleSpec, StepSpec};
use mptune_core::trial::{Outcome, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

/// A saturated trial of upstream Linux on disjoint paths, each of (Mbit/s, ms).
fn on_linux(lines: &[(f64, f64)], buffer_bytes: u64, seconds: u64, pm: &str) -> TrialSpec {
    let links: Vec<_> =
        lines.iter().map(|&(mbps, rtt)| queued(link(mbps, rtt / 2.0), rtt, 1.0)).collect();
    with_pm(disjoint(&links), buffer_bytes, seconds, pm)
}

fn with_pm(network: NetworkSpec, buffer_bytes: u64, seconds: u64, pm: &str) -> TrialSpec {
    TrialSpec {
        pm: pm.into(),
        scheduler: "kernel".into(),
        accounting: "linux".into(),
        ..trial(network, "cubic", buffer_bytes, seconds)
    }
}

fn rates(lines: &[(f64, f64)], buffer_bytes: u64, seconds: u64) -> [f64; 3] {
    ["default", "fullmesh", "guard"]
        .map(|pm| mbps(&run(&on_linux(lines, buffer_bytes, seconds, pm))))
}

fn bytes_of(outcome: &Outcome, path: usize, from: usize, to: usize) -> u64 {
    let on_path = outcome.subflows.iter().filter(|subflow| subflow.path == path);
    on_path.map(|subflow| subflow.bins[from..to].iter().sum::<u64>()).sum()
}

#[test]
fn a_slow_path_that_fills_a_small_buffer_goes_on_standby() {
    let lines = [(100.0, 8.0), (10.0, 80.0)];
    let [single, fullmesh, guard] = rates(&lines, 256 << 10, 60);
    assert!(fullmesh < 0.5 * single, "the case is harmful: {fullmesh} of {single}");
    assert!(guard > 0.95 * single, "{guard} of {single}");
    let outcome = run(&on_linux(&lines, 256 << 10, 60, "guard"));
    let first = outcome.changes[0];
    assert!(first.path == 1 && first.backup && first.at < 4 * SECOND, "{first:?}");
    assert_eq!(bytes_of(&outcome, 1, 100, 600), 0);
}

#[test]
fn equal_paths_are_left_alone_and_nothing_differs_from_fullmesh() {
    let lines = [(20.0, 30.0), (20.0, 30.0)];
    let [fullmesh, guard] = ["fullmesh", "guard"].map(|pm| run(&on_linux(&lines, 1 << 20, 30, pm)));
    assert_eq!(guard.changes, []);
    assert_eq!((fullmesh.bins, fullmesh.subflows), (guard.bins, guard.subflows));
}

#[test]
fn a_slow_path_is_harmless_where_there_is_room() {
    let lines = [(50.0, 20.0), (5.0, 100.0)];
    let outcome = run(&on_linux(&lines, 16 << 20, 60, "guard"));
    assert_eq!(outcome.changes, []);
    assert!(bytes_of(&outcome, 1, 100, 600) > 0);
}

#[test]
fn a_path_that_has_recovered_is_used_again() {
    let mut slow = queued(link(40.0, 4.0), 8.0, 2.0);
    slow.delay_ns = 150 * MILLISECOND;
    let recovery =
        StepSpec { at_ns: 30 * SECOND, delay_ns: Some(4 * MILLISECOND), ..StepSpec::default() };
    slow.schedule = Some(ScheduleSpec { steps: vec![recovery], period_ns: None });
    let mut network = disjoint(&[queued(link(40.0, 4.0), 8.0, 2.0), slow]);
    network.links[3].delay_ns = 4 * MILLISECOND;
    let outcome = run(&with_pm(network, 256 << 10, 300, "guard"));
    assert_eq!(bytes_of(&outcome, 1, 100, 300), 0, "harmful: {:?}", outcome.changes);
    let late = mbps_between(&outcome, 280 * SECOND, 300 * SECOND);
    assert!(late > 60.0, "both: {late}, {:?}", outcome.changes);
}

#[test]
fn standby_carries_data_while_the_active_path_is_cut() {
    use mptune_core::trial::ScriptAction::{Down, Up};
    let mut spec = on_linux(&[(100.0, 8.0), (10.0, 80.0)], 256 << 10, 60, "guard");
    spec.script = vec![at(20, 0, Down), at(35, 0, Up)];
    let outcome = run(&spec);
    assert_eq!(bytes_of(&outcome, 1, 100, 200), 0);
    assert!(mbps_between(&outcome, 25 * SECOND, 35 * SECOND) > 5.0);
    assert!(mbps_between(&outcome, 50 * SECOND, 60 * SECOND) > 50.0);
}
