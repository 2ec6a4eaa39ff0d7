//! Path policies under the stack of Linux: what they gain, and that nothing depends on what they hold.

use crate::common::*;
use mptune_core::error::SpecError;
use mptune_core::mptcp::Protocol;
use mptune_core::mptcp::pathpolicy::NAMES;
use mptune_core::network::LinkSpec;
use mptune_core::trial::{Outcome, PathParameters, ScriptAction, TrialSpec};
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
        assert!(both < 0.75 * alone, "{cc}: {both:.1} of {alone:.1}: hold has nothing to mend");
        assert!(held > 0.94 * alone, "{cc}: {held:.1} of {alone:.1}");
    }
}

#[test]
fn hold_leaves_equal_paths_and_large_buffers_alone() {
    let alike = [(20.0, 30.0), (20.0, 30.0)];
    let (both, held) = (throughput(&alike, "cubic", 4.0), throughput(&alike, "cubic+hold", 4.0));
    assert!(held > 0.98 * both, "{held:.1} of {both:.1}");
    let (both, held) = (throughput(&UNLIKE, "cubic", 4.0), throughput(&UNLIKE, "cubic+hold", 4.0));
    assert!(held > 0.95 * both, "{held:.1} of {both:.1}");
}

#[test]
fn hold_has_a_slow_path_beside_a_quick_one_where_both_just_fit_the_buffers_or_these_grow() {
    let alone = throughput(&UNLIKE[..1], "cubic", 2.5);
    // Equations 7 and 8: bursts would overflow the slow path's queue; a small buffer would hold it for good.
    let fixed = throughput(&UNLIKE, "cubic+hold", 1.0);
    let mut grows = linux(&UNLIKE, "cubic+hold", 1.0);
    (grows.buffer_mode, grows.buffer_bytes) = ("auto".into(), 4 << 20);
    let auto = mbps(&run(&grows));
    assert!(fixed > 1.05 * alone, "{fixed:.1} of {alone:.1}");
    assert!(auto > 1.02 * alone, "{auto:.1} of {alone:.1}");
}

#[test]
fn hold_keeps_a_buffer_from_going_whole_into_the_first_subflow() {
    // 1 MB, written before there is a second subflow, takes 4 s of the first one's 2 Mbit/s.
    let took = |cc: &str| {
        let spec = transfer(linux(&[(2.0, 20.0), (20.0, 20.0)], cc, 60.0), 1_000_000);
        run(&spec).completion_ns.expect("completed")
    };
    assert!(took("cubic") > 3 * SECOND && took("cubic+hold") < SECOND);
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

/// The same with its paths in this order, the preferred first.
fn ordered(mut spec: TrialSpec, order: &[usize]) -> TrialSpec {
    let told = |(rank, &path): (usize, &usize)| PathParameters {
        path,
        rank: Some(rank as u32),
        weight: None,
        cap_bps: None,
    };
    spec.path_parameters = order.iter().enumerate().map(told).collect();
    spec
}

#[test]
fn prefer_leaves_nothing_unused_where_there_is_always_data() {
    let alike = [(20.0, 20.0), (20.0, 40.0)];
    for cc in ["cubic", "reno"] {
        let alone = throughput(&alike, cc, 4.0);
        for order in [[0, 1], [1, 0]] {
            let spec = ordered(linux(&alike, &format!("{cc}+prefer"), 4.0), &order);
            let outcome = run(&spec);
            let steady = mbps_between(&outcome, 3 * SECOND, 6 * SECOND);
            assert!(steady > 0.95 * alone, "{cc}, {order:?}: {steady:.1} of {alone:.1}");
        }
    }
}

#[test]
fn prefer_leaves_the_second_path_idle_while_the_first_is_not_full() {
    // The buffers hold less than the window of either path: nothing waits unsent.
    let alike = [(20.0, 40.0), (20.0, 40.0)];
    for (order, [preferred, other]) in [([0, 1], [0, 1]), ([1, 0], [1, 0])] {
        let outcome = run(&ordered(linux(&alike, "cubic+prefer", 0.2), &order));
        let carried = |path: usize| outcome.subflows[path].bytes as f64;
        assert!(carried(other) < 0.1 * carried(preferred), "{order:?}: {:?}", outcome.subflows);
    }
}

#[test]
fn the_next_path_takes_over_when_the_preferred_one_is_cut() {
    let mut spec = ordered(linux(&[(20.0, 40.0), (20.0, 40.0)], "cubic+prefer", 0.2), &[0, 1]);
    spec.script = vec![at(3, 0, ScriptAction::Down)];
    let outcome = run(&spec);
    let resumes = outcome.bins[32..].iter().position(|&bytes| bytes > 0);
    assert!(resumes.expect("data after the cut") <= 15);
}

#[test]
fn plain_tcp_has_the_window_algorithm_alone() {
    let tcp = |cc: &str| {
        let mut spec = linux(&UNLIKE[..1], cc, 1.0);
        (spec.protocol, spec.pm) = (Protocol::Tcp, "default".into());
        run(&spec).in_order_bytes
    };
    for policy in NAMES {
        assert_eq!(tcp(&format!("cubic+{policy}")), tcp("cubic"));
    }
}

/// Of a path: nothing is told.
fn untold(path: usize) -> PathParameters {
    PathParameters { path, rank: None, weight: None, cap_bps: None }
}

fn capped(path: usize, mbps: f64) -> PathParameters {
    PathParameters { cap_bps: Some((mbps * 1e6) as u64), ..untold(path) }
}

/// Throughput of each path from 3 s on, after slow start and its losses, Mbit/s.
fn by_path(outcome: &Outcome) -> Vec<f64> {
    let bins = &outcome.subflows[0].bins;
    let seconds = (bins.len() - 30) as f64 / 10.0;
    let later = |path| -> u64 {
        let of = outcome.subflows.iter().filter(|subflow| subflow.path == path);
        of.flat_map(|subflow| &subflow.bins[30..]).sum()
    };
    (0..outcome.subflows.len()).map(|path| later(path) as f64 * 8e-6 / seconds).collect()
}

#[test]
fn a_capped_path_carries_its_cap_and_the_others_what_they_can() {
    for cc in ["reno", "cubic", "vegas", "scalable"] {
        let paths = [(20.0, 20.0), (10.0, 60.0), (30.0, 40.0)];
        let both = by_path(&run(&linux(&paths, cc, 12.0)));
        let mut spec = linux(&paths, &format!("{cc}+cap"), 4.0);
        spec.path_parameters = vec![capped(2, 7.0), capped(1, 100.0)];
        let rates = by_path(&run(&spec));
        assert!((0.96..1.01).contains(&(rates[2] / 7.0)), "{cc}: {rates:?}");
        assert!(rates[0] + rates[1] > 0.95 * (both[0] + both[1]), "{cc}: {rates:?}, {both:?}");
    }
}

#[test]
fn a_cap_holds_from_a_kilobit_to_above_the_path_and_on_a_single_path() {
    for (mbps, least, most) in
        [(0.1, 0.05, 0.14), (1.0, 0.9, 1.1), (19.0, 17.5, 19.1), (500.0, 18.5, 19.4)]
    {
        let mut spec = linux(&UNLIKE[..1], "cubic+cap", 4.0);
        spec.path_parameters = vec![capped(0, mbps)];
        let rate = by_path(&run(&spec))[0];
        assert!((least..most).contains(&rate), "{rate:.2} of {mbps}");
    }
}

#[test]
fn without_caps_every_path_has_the_window_algorithm_alone() {
    let spec = |cc: &str| run(&linux(&UNLIKE, cc, 1.0));
    let (alone, paired) = (spec("cubic"), spec("cubic+cap"));
    assert_eq!(alone.in_order_bytes, paired.in_order_bytes);
    assert_eq!(alone.subflows, paired.subflows);
}

fn weighed(path: usize, weight: u32) -> PathParameters {
    PathParameters { weight: Some(weight), ..untold(path) }
}

#[test]
fn weights_are_the_shares_and_the_tightest_path_has_all_of_its_own() {
    let mut draw = 1u64;
    let mut drawn = |least: u64, most: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (draw >> 33) % (most - least + 1)
    };
    let mut near = 0;
    for case in 0..40 {
        let count = 2 + case % 2;
        let paths: Vec<(f64, f64)> =
            (0..count).map(|_| (drawn(5, 50) as f64, drawn(10, 80) as f64)).collect();
        let weights: Vec<u32> = (0..count).map(|_| drawn(1, 5) as u32).collect();
        let cc = ["cubic+weight", "reno+weight"][case / 2 % 2];
        let mut spec = linux(&paths, cc, 12.0);
        spec.buffer_mode = "auto".into();
        spec.workload = saturated(15 * SECOND);
        spec.path_parameters = (0..count).map(|path| weighed(path, weights[path])).collect();
        let rates = by_path(&run(&spec));
        let (total, sum) = (rates.iter().sum::<f64>(), f64::from(weights.iter().sum::<u32>()));
        let off = |path: usize| rates[path] / total * sum / f64::from(weights[path]) - 1.0;
        let tight = |path: usize| paths[path].0 / f64::from(weights[path]);
        let tightest = (0..count).map(tight).fold(f64::INFINITY, f64::min);
        let furthest = (0..count).map(|path| off(path).abs()).fold(0.0, f64::max);
        let gained = total / (tightest * sum);
        near += usize::from(furthest < 0.1);
        assert!(gained > 0.7, "{case}: {rates:?} of {paths:?}");
    }
    assert!(near >= 38, "{near} of 40 networks have the shares within 10 %");
}

#[test]
fn parameters_are_of_known_paths_once_above_zero_and_of_the_policy_that_goes_by_them() {
    let refusal = |cc: &str, told: &[PathParameters]| {
        let mut spec = linux(&UNLIKE, cc, 1.0);
        spec.path_parameters = told.to_vec();
        spec.run().expect_err("a refusal").to_string()
    };
    let weight = |weight| PathParameters { weight: Some(weight), ..untold(0) };
    for (cc, told, expected) in [
        ("cubic+cap", vec![capped(2, 1.0)], "expected a path below 2, found 2"),
        ("cubic+cap", vec![capped(0, 0.0)], "expected more than 0, found 0 of path 0"),
        ("cubic+cap", vec![capped(0, 1.0), untold(0)], "expected each path once, found 0 twice"),
        ("cubic+cap", vec![weight(1)], "expected path policy weight with weight, found cubic+cap"),
        ("cubic", vec![capped(0, 1.0)], "expected path policy cap with cap_bps, found cubic"),
    ] {
        let found = refusal(cc, &told);
        assert!(found.contains(expected), "{found}");
    }
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
    let unknown = "expected one of hold, quick, prefer, cap, weight, found \"held\"";
    assert_eq!(refusal("cubic+held", "kernel"), SpecError::new("cc", unknown));
}
