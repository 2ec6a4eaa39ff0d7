//! A trial that cannot continue ends with a time and a reason, and never runs for ever.

use crate::common::*;
use mptune_core::network::{LinkSpec, ScheduleSpec, StepSpec};
use mptune_core::trial::{Outcome, ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

/// Two paths of 20 and 10 Mbit/s; the rates of the chosen links fall to zero after 5 s.
fn paths(falls: [bool; 2]) -> TrialSpec {
    let mut links = [link(20.0, 10.0), link(10.0, 50.0)];
    for (link, falls) in links.iter_mut().zip(falls) {
        link.schedule = falls.then(|| ScheduleSpec {
            steps: vec![StepSpec { at_ns: 5 * SECOND, rate_bps: Some(0), ..StepSpec::default() }],
            period_ns: None,
        });
    }
    trial(
        disjoint(&links.map(|link| LinkSpec { queue_bytes: Some(60_000), ..link })),
        "reno",
        MIB,
        30,
    )
}

fn stalled_at(outcome: &Outcome) -> f64 {
    let at = outcome.stalled_ns.expect("stalled") as f64 / 1e9;
    let reason = outcome.failed.as_ref().expect("a reason");
    assert!(reason.starts_with(&format!("stalled at {at:.3} s: ")), "{reason}");
    at
}

#[test]
fn cutting_every_path_is_a_stall_at_its_time() {
    let mut spec = paths([false; 2]);
    spec.script = vec![at(3, 0, ScriptAction::Down), at(3, 1, ScriptAction::Down)];
    for spec in [spec.clone(), transfer(spec, 40_000_000)] {
        let outcome = spec.run().expect("a valid trial");
        assert!((2.9..3.3).contains(&stalled_at(&outcome)));
        assert!(
            outcome.failed.is_some_and(|reason| reason.contains("no subflow has been answered"))
        );
        assert!(outcome.events < 200_000, "timeouts back off: {}", outcome.events);
    }
}

#[test]
fn a_path_that_comes_back_in_time_is_no_stall() {
    let mut spec = paths([false; 2]);
    spec.script = vec![
        at(3, 0, ScriptAction::Down),
        at(3, 1, ScriptAction::Down),
        at(4, 1, ScriptAction::Up),
    ];
    assert_eq!(spec.run().expect("a valid trial").stalled_ns, None);
}

#[test]
fn a_subflow_whose_first_syn_was_lost_takes_no_more_than_its_share() {
    // The copy that was answered gives an RTT by its timestamp. Without any, the scheduler took its rate for boundless.
    let network =
        disjoint(&[queued(link(50.0, 10.0), 20.0, 2.0), queued(link(2.0, 50.0), 100.0, 2.0)]);
    let mut spec = trial(network, "cubic", MIB, 8);
    (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
    let from_2_to_7 = |spec: &TrialSpec| mbps_between(&run(spec), 2 * SECOND, 7 * SECOND);
    let usual = from_2_to_7(&spec);
    spec.script = vec![at(0, 1, ScriptAction::Down), at(1, 1, ScriptAction::Up)];
    let repeated = from_2_to_7(&spec);
    assert!(repeated > 0.95 * usual, "{repeated} instead of {usual}");
}

#[test]
fn a_rate_that_falls_to_zero_for_ever_stalls_unless_another_path_is_left() {
    let outcome = paths([true; 2]).run().expect("a valid trial");
    assert!((5.0..5.5).contains(&stalled_at(&outcome)));
    let outcome = run(&paths([true, false]));
    let rest = mbps_between(&outcome, 10 * SECOND, 30 * SECOND);
    assert!((rest - 10.0 * PAYLOAD_SHARE).abs() < 0.5, "{rest}");
}

#[test]
fn the_last_subflow_failing_is_a_stall() {
    let mut spec = paths([false; 2]);
    spec.script = vec![at(3, 0, ScriptAction::Down), at(8, 1, ScriptAction::Down)];
    assert!((7.9..8.3).contains(&stalled_at(&spec.run().expect("a valid trial"))));
    spec.script[1] = at(8, 1, ScriptAction::Remove);
    assert!((7.9..8.3).contains(&stalled_at(&spec.run().expect("a valid trial"))));
}

#[test]
fn a_slow_transfer_is_incomplete_rather_than_stalled() {
    let mut spec = transfer(paths([false; 2]), 1 << 30);
    within(&mut spec, 5);
    let reason = spec.run().expect("a valid trial").failed.expect("a reason");
    assert!(reason.starts_with("not completed within 5.000 s: "), "{reason}");
}

#[test]
fn a_handshake_without_an_answer_delivers_no_byte() {
    let mut spec = paths([false; 2]);
    spec.script = vec![at(0, 0, ScriptAction::Down)];
    let outcome = spec.run().expect("a valid trial");
    assert_eq!(outcome.failed.as_deref(), Some("no byte was delivered"));
}

#[test]
fn faults_end_under_linux_accounting_too() {
    for script in [
        vec![at(3, 0, ScriptAction::Down), at(3, 1, ScriptAction::Down)],
        vec![at(3, 0, ScriptAction::Remove), at(3, 1, ScriptAction::Down)],
    ] {
        let mut spec = paths([false; 2]);
        (spec.accounting, spec.scheduler, spec.script) = ("linux".into(), "kernel".into(), script);
        let outcome = spec.run().expect("a valid trial");
        assert!((2.9..3.3).contains(&stalled_at(&outcome)));
    }
}

#[test]
fn too_long_a_script_is_refused() {
    let mut spec = paths([false; 2]);
    spec.script = vec![at(1, 0, ScriptAction::Add); 257];
    assert_eq!(spec.run().expect_err("too long").key, "script");
    spec.script.clear();
    spec.accounting = "bytes".into();
    let error = spec.run().expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "accounting: expected one of payload, linux, linux-7.3, found \"bytes\""
    );
}

/// Three lossy paths, two of which end for ever: one after a second, the other when others have begun to carry
/// the first one's data, a little later with every seed.
fn dying_paths(seed: u64, how: ScriptAction) -> TrialSpec {
    let links = [20.0, 15.0, 10.0].map(|rate| queued(lossy(link(rate, 20.0), 0.02), 40.0, 1.0));
    let mut spec = transfer(trial(disjoint(&links), "reno", 300_000, 1), 5_000_000);
    spec.seed = seed;
    spec.script = vec![at(1, 2, ScriptAction::Down), at(1, 1, how)];
    spec.script[1].at_ns += (200 + 2 * seed) * MILLISECOND;
    spec
}

#[test]
fn out_of_order_data_of_a_dead_subflow_is_sent_again() {
    // RFC 8684 section 3.3.6: data is kept until the DATA_ACK. With a hole before them, selectively
    // acknowledged segments of a dead subflow never reach the data level.
    for seed in 0..200 {
        run(&dying_paths(seed, ScriptAction::Down));
    }
}

#[test]
fn data_of_a_failing_and_a_closed_subflow_is_sent_again() {
    // The second path is closed when it has taken over the first one's data.
    for seed in 0..200 {
        run(&dying_paths(seed, ScriptAction::Remove));
    }
}
