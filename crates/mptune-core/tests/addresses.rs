//! Addresses that are removed and announced again while a connection runs.

use crate::common::*;
use mptune_core::network::NetworkSpec;
use mptune_core::trial::{Outcome, ScriptAction, TrialSpec};
use mptune_core::units::SECOND;
use serde_json::json;

fn two_paths() -> NetworkSpec {
    disjoint(&[queued(link(20.0, 10.0), 20.0, 1.0), queued(link(10.0, 25.0), 50.0, 1.0)])
}

fn carried(outcome: &Outcome, subflow: usize, from: u64, to: u64) -> u64 {
    outcome.subflows[subflow].bins[10 * from as usize..10 * to as usize].iter().sum()
}

#[test]
fn a_removed_address_closes_its_subflow_and_costs_no_byte() {
    // RFC 8684 section 3.4.2: subflows that use the address are closed; section 3.3.6: what they
    // carried is sent on others.
    for path in [0, 1] {
        let mut spec = transfer(trial(two_paths(), "reno", 4 * MIB, 1), 40_000_000);
        spec.script = vec![at(5, path, ScriptAction::Remove)];
        let outcome = run(&spec);
        assert_eq!(outcome.in_order_bytes, 40_000_000);
        assert_eq!(carried(&outcome, path, 6, 12), 0);
        assert!(outcome.subflows[1 - path].reinjected > 0);
        let rest = [10.0, 20.0][path] * PAYLOAD_SHARE;
        let alone = mbps_between(&outcome, 8 * SECOND, 12 * SECOND);
        assert!((alone / rest - 1.0).abs() < 0.05, "{alone} of {rest}");
    }
}

#[test]
fn an_address_that_is_announced_again_is_used_again() {
    for path in [0, 1] {
        let mut spec = trial(two_paths(), "reno", 4 * MIB, 30);
        spec.script = vec![at(5, path, ScriptAction::Remove), at(15, path, ScriptAction::Add)];
        let outcome = run(&spec);
        assert_eq!(outcome.subflows.len(), 2, "one row for each path");
        assert!(carried(&outcome, path, 2, 5) > 0);
        assert_eq!(carried(&outcome, path, 6, 15), 0);
        assert!(carried(&outcome, path, 20, 30) > 0);
        let restored = mbps_between(&outcome, 20 * SECOND, 30 * SECOND);
        assert!((restored - 30.0 * PAYLOAD_SHARE).abs() < 1.5, "{restored}");
    }
}

#[test]
fn totals_of_a_subflow_include_all_times_that_it_was_open() {
    let lossy_paths = disjoint(&[lossy(link(10.0, 10.0), 0.005), lossy(link(10.0, 10.0), 0.005)]);
    let mut spec = trial(lossy_paths, "reno", 4 * MIB, 30);
    let once = run(&spec).subflows[1].clone();
    for second in 3..28 {
        let action = if second % 2 == 1 { ScriptAction::Remove } else { ScriptAction::Add };
        spec.script.push(at(second, 1, action));
    }
    let often = run(&spec).subflows[1].clone();
    assert!(often.sent * u64::from(MSS) >= often.bytes, "no less sent than delivered");
    assert!(
        often.sent > once.sent / 5 && often.sent < once.sent,
        "{} of {}",
        often.sent,
        once.sent
    );
    assert!(often.retransmitted > once.retransmitted / 5);
    assert!(often.recoveries > 0 && once.recoveries > often.recoveries / 2);
}

#[test]
fn a_standby_subflow_takes_over_when_an_address_is_removed() {
    let mut spec = trial(two_paths(), "reno", 4 * MIB, 20);
    spec.pm = "pcdc".into();
    spec = with_options(spec, json!({"active": [0], "standby_order": [1]}));
    spec.script = vec![at(5, 0, ScriptAction::Remove), at(12, 0, ScriptAction::Add)];
    let outcome = run(&spec);
    assert_eq!(carried(&outcome, 1, 0, 5), 0);
    assert!(carried(&outcome, 1, 6, 12) > 0);
    assert!(carried(&outcome, 0, 14, 20) > 0 && carried(&outcome, 1, 14, 20) == 0);
}

#[test]
fn without_any_address_the_connection_stalls_until_one_is_back() {
    // RFC 8684 section 3.4.2 leaves the connection to its own timeout; nothing is lost meanwhile.
    let mut spec = transfer(trial(two_paths(), "reno", MIB, 1), 20_000_000);
    within(&mut spec, 60);
    spec.script = vec![at(2, 0, ScriptAction::Remove), at(2, 1, ScriptAction::Remove)];
    let stalled = spec.run().expect("valid");
    let reason = stalled.failed.expect("a reason");
    assert!(
        reason.starts_with("stalled at 2.") || reason.starts_with("stalled at 1.9"),
        "{reason}"
    );
    assert!(reason.contains("every subflow was closed, its address removed"), "{reason}");
    spec.script.push(at(10, 1, ScriptAction::Add));
    let outcome = run(&spec);
    assert_eq!(outcome.in_order_bytes, 20_000_000);
    assert_eq!(outcome.bins[30..100].iter().sum::<u64>(), 0);
}

#[test]
fn an_address_may_go_before_its_subflow_is_established() {
    let mut spec = transfer(trial(two_paths(), "reno", MIB, 1), 1_000_000);
    let soon = |at_ns, action| mptune_core::trial::ScriptSpec { at_ns, path: 1, action };
    spec.script = vec![soon(60_000_000, ScriptAction::Remove), soon(90_000_000, ScriptAction::Add)];
    let outcome = run(&spec);
    assert_eq!(outcome.in_order_bytes, 1_000_000);
    assert!(outcome.subflows[1].bytes > 0, "opened again");
    // The very first subflow: the connection cannot begin until its address is back.
    spec.script = vec![
        mptune_core::trial::ScriptSpec { path: 0, ..soon(1_000_000, ScriptAction::Remove) },
        mptune_core::trial::ScriptSpec { path: 0, ..soon(500_000_000, ScriptAction::Add) },
    ];
    let outcome = run(&TrialSpec { ..spec });
    assert_eq!(outcome.bins[..5].iter().sum::<u64>(), 0);
}

#[test]
fn removal_works_with_every_scheduler_and_accounting() {
    for scheduler in mptune_core::mptcp::scheduler::NAMES {
        for accounting in ["payload", "linux"] {
            let mut spec = transfer(trial(two_paths(), "cubic", MIB, 1), 10_000_000);
            spec.scheduler = (*scheduler).into();
            spec.accounting = accounting.into();
            spec.script = vec![
                at(1, 0, ScriptAction::Remove),
                at(2, 0, ScriptAction::Add),
                at(3, 1, ScriptAction::Remove),
            ];
            assert_eq!(run(&spec).in_order_bytes, 10_000_000, "{scheduler} {accounting}");
        }
    }
}
