//! Path policies under the stack of Linux: what they gain, and that nothing depends on what they hold.

mod common;

use common::*;
use mptune_core::error::SpecError;
use mptune_core::mptcp::Protocol;
use mptune_core::network::LinkSpec;
use mptune_core::trial::{ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

/// A saturated sender of Linux over disjoint paths of Mbit/s and ms of RTT, with queues of 50 ms. Its buffers are this
/// part of the product of all rates and the largest RTT.
fn linux(paths: &[(f64, f64)], cc: &str, products: f64) -> TrialSpec {
    let links: Vec<LinkSpec> =
        paths.iter().map(|&(rate, rtt)| queued(link(rate, rtt / 2.0), 50.0, 1.0)).collect();
    let rates: f64 = paths.iter().map(|path| path.0).sum();
    let largest = paths.iter().map(|path| path.1).fold(0.0, f64::max);
    let mut spec = trial(disjoint(&links), cc, (rates * largest * 125.0 * products) as u64, 6);
    (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
    spec
}

fn throughput(paths: &[(f64, f64)], cc: &str, products: f64) -> f64 {
    mbps(&run(&linux(paths, cc, products)))
}

const UNLIKE: [(f64, f64); 2] = [(20.0, 20.0), (5.0, 200.0)];

#[test]
fn hold_keeps_a_slow_path_from_holding_up_a_quick_one() {
    for cc in ["cubic", "reno", "olia"] {
        let alone = throughput(&UNLIKE[..1], cc, 2.5);
        let (both, held) =
            (throughput(&UNLIKE, cc, 0.25), throughput(&UNLIKE, &format!("{cc}+hold"), 0.25));
        assert!(both < 0.7 * alone, "{cc}: {both:.1} of {alone:.1}: hold has nothing to mend");
        assert!(held > 0.94 * alone, "{cc}: {held:.1} of {alone:.1}");
    }
}

#[test]
fn hold_leaves_equal_paths_and_large_buffers_alone() {
    let alike = [(20.0, 30.0), (20.0, 30.0)];
    let (both, held) = (throughput(&alike, "cubic", 2.0), throughput(&alike, "cubic+hold", 2.0));
    assert!(held > 0.98 * both, "{held:.1} of {both:.1}");
    let (both, held) = (throughput(&UNLIKE, "cubic", 4.0), throughput(&UNLIKE, "cubic+hold", 4.0));
    assert!(held > 0.98 * both, "{held:.1} of {both:.1}");
}

#[test]
fn a_held_path_takes_over_when_the_quick_one_is_cut() {
    let later = |cc: &str| {
        let mut spec = linux(&UNLIKE, cc, 0.25);
        spec.script = vec![at(3, 0, ScriptAction::Down)];
        let outcome = run(&spec);
        let resumes = outcome.bins[32..].iter().position(|&bytes| bytes > 0);
        (resumes.expect("data after the cut"), mbps_between(&outcome, 5 * SECOND, 6 * SECOND))
    };
    // The subflow is stale after four periods of the connection's timer, 200 ms and more, whatever is held.
    let (both, held) = (later("cubic"), later("cubic+hold"));
    assert!(held.0 <= both.0.max(15) && held.1 > 0.9 * both.1, "{held:?} and {both:?}");
}

#[test]
fn a_held_path_is_released_about_a_second_after_the_reason_ends() {
    // The quick path is withdrawn as a standby one: nothing is lost, but the slow one has no ACKs.
    let mut spec = linux(&UNLIKE, "cubic+hold", 0.25);
    spec.script = vec![at(3, 0, ScriptAction::Standby)];
    let outcome = run(&spec);
    let between = |from: u64, to: u64| {
        mbps_between(&outcome, 3 * SECOND + from * MILLISECOND, 3 * SECOND + to * MILLISECOND)
    };
    assert!(between(0, 100) < 20.0);
    let later = between(2000, 3000);
    assert!((3.5..5.0).contains(&later), "{later:.1} of 5");
}

#[test]
fn plain_tcp_has_the_window_algorithm_alone() {
    let tcp = |cc: &str| {
        let mut spec = linux(&UNLIKE[..1], cc, 1.0);
        (spec.protocol, spec.pm) = (Protocol::Tcp, "default".into());
        run(&spec).in_order_bytes
    };
    assert_eq!(tcp("cubic+hold"), tcp("cubic"));
}

#[test]
fn only_the_scheduler_that_weighs_by_pacing_rates_has_path_policies() {
    let refusal = |cc: &str, scheduler: &str| {
        let mut spec = linux(&UNLIKE, cc, 1.0);
        spec.scheduler = scheduler.into();
        spec.run().expect_err("a refusal")
    };
    let expected = "expected scheduler kernel with a path policy, found minrtt";
    assert_eq!(refusal("cubic+hold", "minrtt"), SpecError::new("cc", expected));
    let unknown = "expected one of hold, found \"held\"";
    assert_eq!(refusal("cubic+held", "kernel"), SpecError::new("cc", unknown));
}
