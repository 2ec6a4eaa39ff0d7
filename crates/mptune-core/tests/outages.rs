//! Connection-level retransmission when a path goes down, under Linux accounting.

use crate::common::*;
use mptune_core::trial::{Outcome, ScriptAction, ScriptSpec, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Transfer, Workload};

/// Linux resends one fragment of at most 32 KiB when the connection's timer fires: full segments in it.
const FRAGMENT: u64 = (32 << 10) / 1424;

/// A saturated sender of Linux on paths of 50 and 10 Mbit/s, the first of which is down for a while.
fn outage(pm: &str, span: Nanos) -> TrialSpec {
    let links = [link(50.0, 10.0), link(10.0, 20.0)].map(|link| queued(link, 40.0, 1.0));
    let mut spec = trial(disjoint(&links), "cubic", 2 * MIB, 12);
    (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
    (spec.pm, spec.initial_path) = (pm.into(), Some(0));
    spec.script = vec![at(4, 0, ScriptAction::Down), at(4, 0, ScriptAction::Up)];
    spec.script[1].at_ns += span;
    spec
}

/// The first path is used, the second one is on standby.
fn with_standby(span: Nanos) -> TrialSpec {
    with_options(outage("pcdc", span), serde_json::json!({"active": [0]}))
}

/// In-order payload from `from` on, bytes.
fn delivered_from(outcome: &Outcome, from: Nanos) -> u64 {
    outcome.bins[(from / (100 * MILLISECOND)) as usize..].iter().sum()
}

#[test]
fn the_only_subflow_repeats_nothing_on_itself() {
    // TCP retransmits; a copy by the connection would only add to that.
    let outcome = run(&outage("default", 4 * SECOND));
    assert!(outcome.subflows[0].timeouts > 0);
    assert_eq!(outcome.reinjected, 0);
    // Until the timer, doubled five times and in whole ticks, lets it go on.
    assert!(delivered_from(&outcome, 8 * SECOND) > MIB / 8);
}

#[test]
fn a_short_outage_costs_a_fragment_for_each_period_of_the_timer() {
    // No subflow is stale after less than four periods of 200 ms.
    let outcome = run(&with_standby(800 * MILLISECOND));
    assert!(outcome.subflows[0].timeouts > 0);
    assert!((1..=4 * FRAGMENT).contains(&outcome.reinjected), "{}", outcome.reinjected);
    assert!(outcome.reinjected_bytes > 1424 * (outcome.reinjected - 1), "the timer repeats all");
}

#[test]
fn the_rest_of_a_fragment_is_repeated_whatever_the_pace_of_the_subflow() {
    // It waits in the send queue, and leaves at the pace of BBR.
    let spec = TrialSpec { cc: "bbr".into(), ..with_standby(300 * MILLISECOND) };
    let repeated = run(&spec).reinjected;
    assert!((10..=FRAGMENT).contains(&repeated), "{repeated}");
}

#[test]
fn a_standby_subflow_takes_over_from_the_first_missing_segment_on() {
    let outcome = run(&with_standby(4 * SECOND));
    // Linux does not count what goes to another subflow because its own is stale.
    assert!(2 * outcome.reinjected_bytes < 1424 * outcome.subflows[1].reinjected);
    // All of the second path's 10 Mbit/s once the first is stale and what had arrived out of order before is through.
    let last = mbps_between(&outcome, 7 * SECOND, 8 * SECOND);
    assert!((5.0..10.0).contains(&last), "{last}");
}

#[test]
fn a_transfer_ends_however_its_paths_end() {
    // Three lossy paths, two of which end for ever, the second when others have begun to carry the data of
    // the first.
    for how in [ScriptAction::Down, ScriptAction::Remove] {
        for seed in 0..50 {
            let links =
                [20.0, 15.0, 10.0].map(|rate| queued(lossy(link(rate, 20.0), 0.02), 40.0, 1.0));
            let mut spec = transfer(trial(disjoint(&links), "reno", MIB, 1), 5_000_000);
            (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
            spec.seed = seed;
            let second = ScriptSpec { at_ns: (1200 + 40 * seed) * MILLISECOND, ..at(0, 1, how) };
            spec.script = vec![at(1, 2, ScriptAction::Down), second];
            assert_eq!(run(&spec).in_order_bytes, 5_000_000);
        }
    }
}

#[test]
fn the_pace_of_bbr_is_no_reason_to_repeat() {
    // Nothing is lost. The next segment's time is milliseconds away, TCP's own timer 200 ms.
    let links = [link(50.0, 10.0), link(2.0, 40.0)].map(|link| queued(link, 80.0, 4.0));
    let mut spec = trial(disjoint(&links), "bbr", MIB / 8, 10);
    (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
    let outcome = run(&spec);
    assert_eq!(outcome.reinjected, 0);
    assert!(outcome.subflows.iter().all(|subflow| subflow.sent > 1000 && subflow.timeouts == 0));
}

#[test]
fn what_waits_in_the_queue_of_a_slow_first_subflow_is_repeated_on_the_others() {
    // The first subflow is given what the window takes before the others join: 5 s at its rate.
    let completion = |accounting: &str| {
        let slow = queued(link(1.5, 6.0), 80.0, 1.0);
        let fast = queued(link(20.0, 20.0), 40.0, 1.0);
        let mut spec = trial(disjoint(&[slow, fast.clone(), fast.clone(), fast]), "cubic", MIB, 20);
        (spec.accounting, spec.scheduler, spec.members.tso) =
            (accounting.into(), "kernel".into(), true);
        spec.initial_path = Some(0);
        spec.workload = Workload::Transfer(Transfer { bytes: 1_800_000, deadline_ns: 20 * SECOND });
        run(&spec).completion_ns.expect("completes")
    };
    // Linux 6.18 took 6.5 s, where the timer never ran out, 7.3 took 3.5 s: what it repeats on all others delays the
    // next DATA_ACK until it runs out again.
    let (one, several) = (completion("linux"), completion("linux-7.3"));
    assert!((6 * SECOND..7 * SECOND).contains(&one), "{one}");
    assert!((2 * SECOND..4 * SECOND).contains(&several), "{several}");
}
