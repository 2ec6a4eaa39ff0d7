//! Properties of any trial: all stacks, MPTCP and plain TCP, transfers and saturated senders, any buffer, on links that
//! lose, delay, reorder, duplicate and mark, with changing and shared paths. `make fuzz` explores it. Failing cases are
//! stored beside this file, and by value in a test of the repaired part, as a change of the draws here changes them.

use crate::common::drawn::*;
use crate::common::*;
use mptune_core::congestion;
use mptune_core::mptcp::{Protocol, pathpolicy, scheduler};
use mptune_core::network::{
    AqmSpec, BackgroundSpec, CodelSpec, Family, LinkSpec, NetworkSpec, ReorderSpec, StepMarkingSpec,
};
use mptune_core::pathmanager;
use mptune_core::trial::{FailureKind, Outcome, ScriptAction, ScriptSpec, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};
use mptune_core::workload::{Bulk, Messages, OnOff, Page, Requests, Transfer, Video, Workload};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Times of scripts and others, in quarters of a second.
const QUARTER: u64 = SECOND / 4;

fn any_aqm() -> impl Strategy<Value = Option<AqmSpec>> {
    prop_oneof![
        3 => Just(None),
        1 => (0u64..3000).prop_map(|mark_bytes| Some(AqmSpec::Step(StepMarkingSpec { mark_bytes }))),
        1 => any::<bool>().prop_map(|ecn| {
            let (target_ns, interval_ns) = (5 * MILLISECOND, 100 * MILLISECOND);
            Some(AqmSpec::Codel(CodelSpec { target_ns, interval_ns, ecn }))
        }),
    ]
}

prop_compose! {
    /// Effects of any link.
    fn any_effects()(
        aqm in any_aqm(),
        duplicate_ppb in prop_oneof![3 => Just(0), 1 => 0u64..50_000_000],
        reorder in prop::option::weighted(0.3, (0u64..100_000_000, 1..50 * MILLISECOND)),
    ) -> LinkSpec {
        let reorder = reorder.map(|(probability_ppb, delay_ns)| ReorderSpec { probability_ppb, delay_ns });
        LinkSpec { aqm, duplicate_ppb, reorder, ..LinkSpec::default() }
    }
}

prop_compose! {
    fn any_busy_network()(
        network in any_network(),
        effects in prop::option::weighted(0.5, any_effects()),
        others in prop::collection::vec((0usize..6, any_of(congestion::NAMES), 0u64..20, 1u64..20), 0..3),
    ) -> NetworkSpec {
        let mut network = network;
        for link in &mut network.links {
            if let Some(LinkSpec { aqm, duplicate_ppb, reorder, .. }) = effects.clone() {
                (link.aqm, link.duplicate_ppb, link.reorder) = (aqm, duplicate_ppb, reorder);
            }
        }
        for (path, cc, start, length) in others {
            network.background.push(BackgroundSpec {
                path: path % network.paths.len(),
                cc: cc.into(),
                start_ns: start * QUARTER,
                stop_ns: Some((start + length) * QUARTER),
            });
        }
        network
    }
}

/// A path is cut, its addresses are removed, or its subflows withdrawn, and then put back or not.
fn any_script() -> impl Strategy<Value = Vec<(usize, usize, u64, Option<u64>)>> {
    let change = (0usize..3, 0usize..6, 0u64..20, prop::option::weighted(0.9, 1u64..20));
    prop_oneof![Just(vec![]), prop::collection::vec(change, 1..5)]
}

/// Its actions, of which plain TCP knows only those of the network.
fn script(
    drawn: Vec<(usize, usize, u64, Option<u64>)>,
    paths: usize,
    is_tcp: bool,
) -> Vec<ScriptSpec> {
    use ScriptAction::{Active, Add, Down, Remove, Standby, Up};
    let mut script = Vec::new();
    for (kind, path, from, length) in drawn {
        let (change, undo) =
            [(Down, Up), (Remove, Add), (Standby, Active)][if is_tcp { 0 } else { kind }];
        let mut at = |quarters, action| {
            script.push(ScriptSpec { at_ns: quarters * QUARTER, path: path % paths, action });
        };
        at(from, change);
        if let Some(length) = length {
            at(from + length, undo);
        }
    }
    script
}

prop_compose! {
    fn any_trial()(
        network in any_busy_network(),
        (cc, pm, scheduler) in
            (any_of(congestion::NAMES), any_of(pathmanager::NAMES), any_of(scheduler::NAMES)),
        (accounting, buffer_mode) in (any_of(&["payload", "linux"]), any_of(&["fixed", "auto"])),
        is_tcp in prop::bool::weighted(0.1),
        family in prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)],
        (opportunistic, tso, ecn, size_known) in any::<(bool, bool, bool, bool)>(),
        buffer in prop_oneof![1u64..8, 4u64..32, 1u64..2000],
        mss in prop_oneof![3 => Just(MSS), 1 => 64u32..=8960],
        load in prop_oneof![4 => (1u64..1_000_000).prop_map(Ok), 1 => (1u64..16, any::<bool>()).prop_map(Err)],
        changes in any_script(),
        seed in any::<u64>(),
        policy in prop::option::of(any_of(pathpolicy::NAMES)),
    ) -> TrialSpec {
        let paths = network.paths.len();
        let mut spec = trial(network, cc, buffer * u64::from(mss), 1);
        spec.script = script(changes, paths, is_tcp);
        match load {
            Ok(bytes) => spec = transfer(spec, bytes),
            Err((quarters, early)) => {
                let ends_early = early && spec.script.is_empty();
                spec.workload = Workload::Bulk(Bulk { duration_ns: quarters * QUARTER, ends_early });
            }
        }
        spec.protocol = if is_tcp { Protocol::Tcp } else { Protocol::Mptcp };
        spec.pm = if is_tcp { "default" } else { pm }.into();
        (spec.scheduler, spec.accounting, spec.buffer_mode) =
            (scheduler.into(), accounting.into(), buffer_mode.into());
        (spec.members.opportunistic, spec.members.tso, spec.members.ecn, spec.size_known) =
            (opportunistic, tso, ecn, size_known);
        (spec.family, spec.mss, spec.seed) = (family, mss, seed);
        if let Some(policy) = policy.filter(|_| scheduler == "kernel") {
            spec.cc = format!("{cc}+{policy}");
        }
        spec
    }
}

/// Messages, or a client that asks for responses, pages or segments of a video.
fn any_program() -> impl Strategy<Value = Workload> {
    let (duration_ns, patience_ns) = (3 * SECOND, 60 * SECOND);
    prop_oneof![
        (1u64..20_000, 5u64..1_000).prop_map(move |(bytes, milliseconds)| {
            let interval_ns = milliseconds * MILLISECOND;
            let both_ways = bytes % 4 == 0;
            Workload::Messages(Messages { bytes, interval_ns, duration_ns, patience_ns, both_ways })
        }),
        (1u64..200_000, 20u64..2_000).prop_map(move |(bytes, milliseconds)| {
            let gap_ns = milliseconds * MILLISECOND;
            Workload::OnOff(OnOff::new(bytes, gap_ns, duration_ns, patience_ns))
        }),
        (1u64..5_000, 1u64..200_000, 0u64..2_000, 1u32..6).prop_map(
            move |(request_bytes, response_bytes, milliseconds, at_once)| {
                let think_ns = milliseconds * MILLISECOND;
                Workload::Requests(Requests {
                    request_bytes,
                    response_bytes,
                    response_sizes: vec![response_bytes],
                    think_ns,
                    at_once,
                    duration_ns,
                    patience_ns,
                    seed: 0,
                })
            }
        ),
        (1u64..5_000, 1u64..100_000, 1u32..20, 1u64..50_000).prop_map(
            move |(request_bytes, page_bytes, objects, object_bytes)| {
                Workload::Page(Page {
                    request_bytes,
                    page_bytes,
                    objects,
                    object_bytes,
                    think_ns: 200 * MILLISECOND,
                    duration_ns,
                    patience_ns,
                })
            }
        ),
        (1u64..5_000, 100u64..2_000_000, 1u64..6, 100u64..900, 2u64..8).prop_map(
            move |(request_bytes, lowest, rungs, milliseconds, segments)| {
                let segment_ns = milliseconds * MILLISECOND;
                Workload::Video(Video {
                    request_bytes,
                    ladder_bps: (0..rungs).map(|rung| lowest << rung).collect(),
                    segment_ns,
                    buffer_ns: segments * segment_ns,
                    duration_ns,
                    patience_ns,
                })
            }
        ),
    ]
}

/// Messages that arrived there, of those that go both ways: as many come back, or the trial has a reason.
fn check_both_ways(workload: &Workload, outcome: &Outcome) -> Result<u64, TestCaseError> {
    let (arrived, due) =
        (outcome.delays_ns.len() as u64, workload.schedule().map_or(0, |all| all.count()));
    prop_assert!(arrived <= 2 * due);
    prop_assert_eq!(arrived == 2 * due, outcome.failed.is_none());
    let Workload::Messages(messages) = workload else { unreachable!("only these go both ways") };
    Ok(outcome.in_order_bytes / messages.bytes)
}

/// Capacity of the sender's access links until the outcome's end, bytes.
fn most_bytes(spec: &TrialSpec, outcome: &Outcome) -> f64 {
    let uplinks: BTreeSet<usize> = spec.network.paths.iter().map(|path| path.forward[0]).collect();
    let rates = uplinks.iter().filter_map(|&link| spec.network.links[link].rate_bps);
    rates.sum::<u64>() as f64 / 8.0 * outcome.duration_ns as f64 / 1e9
}

proptest! {
    #![proptest_config(config())]

    /// It ends with every byte, with those that arrived in time, or with a reason. Its numbers add up, and none of
    /// its accounts contradicts itself.
    #[test]
    fn any_trial_ends_with_its_bytes_or_a_reason(spec in any_trial()) {
        let outcome = spec.run().expect("a valid trial");
        let delivered = outcome.in_order_bytes;
        prop_assert_ne!(outcome.failed_kind, Some(FailureKind::Miscounted), "{:?}", outcome.failed);
        prop_assert_eq!(outcome.failed.is_some(), outcome.failed_kind.is_some());
        prop_assert_eq!(outcome.bins.iter().sum::<u64>(), delivered);
        let brought = outcome.subflows.iter().map(|subflow| subflow.bytes).sum::<u64>();
        prop_assert!(brought >= delivered);
        prop_assert!(delivered as f64 <= most_bytes(&spec, &outcome));
        if let Workload::Transfer(Transfer { bytes, .. }) = spec.workload {
            prop_assert!(brought <= bytes);
            prop_assert_eq!(outcome.failed.is_none(), delivered == bytes, "{:?}", outcome.failed);
            prop_assert_eq!(outcome.completion_ns.is_some(), delivered == bytes);
        }
        let stops = [Some(FailureKind::Stalled), Some(FailureKind::Unreachable)];
        prop_assert!(outcome.stalled_ns.is_none() || stops.contains(&outcome.failed_kind));
    }

    /// The same of programs that offer their data in pieces: every message and every response arrives, or the trial
    /// has a reason; none is later than the trial's end.
    #[test]
    fn any_program_is_served_or_has_a_reason(spec in any_trial(), workload in any_program()) {
        let spec = TrialSpec { workload: workload.clone(), ..spec };
        let outcome = spec.run().expect("a valid trial");
        prop_assert_ne!(outcome.failed_kind, Some(FailureKind::Miscounted), "{:?}", outcome.failed);
        let mut arrived = outcome.delays_ns.len() as u64;
        if workload.both_ways() {
            arrived = check_both_ways(&workload, &outcome)?;
        }
        let size = match &workload {
            Workload::Messages(messages) => messages.bytes,
            Workload::Requests(requests) => requests.response_bytes,
            Workload::Page(page) => page.page_bytes + u64::from(page.objects) * page.object_bytes,
            Workload::Video(_) | Workload::OnOff(_) => 0,
            _ => unreachable!("only these are drawn"),
        };
        let of_pieces = outcome.pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        let whole = if size == 0 { of_pieces } else { arrived * size };
        prop_assert!(outcome.in_order_bytes >= whole);
        prop_assert!(size == 0 || outcome.in_order_bytes - whole < size);
        prop_assert!(size > 0 || outcome.pieces.len() as u64 == arrived);
        prop_assert!(outcome.delays_ns.iter().all(|&delay| delay <= outcome.duration_ns));
        if outcome.failed.is_none() {
            prop_assert_eq!(outcome.in_order_bytes, whole);
            prop_assert!(outcome.completion_ns.is_some());
            if let Some(schedule) = workload.drawn(spec.seed).schedule() {
                prop_assert_eq!(arrived, schedule.count());
            }
        }
        let again = spec.run().expect("a valid trial");
        prop_assert_eq!(again, outcome);
    }
}
