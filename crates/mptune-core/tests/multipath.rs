//! Multipath parts of a connection: joins, shared buffers, head-of-line blocking, reinjection,
//! withdrawal, standby subflows and take-over.

use crate::common::*;
use mptune_core::mptcp::Members;
use mptune_core::network::{Family, NetworkSpec};
use mptune_core::trial::{Outcome, ScriptAction, ScriptSpec, TrialSpec};
use mptune_core::units::{Nanos, SECOND};
use serde_json::json;

/// 20 Mbit/s at 20 ms and 10 Mbit/s at 100 ms round trip, queues of one bandwidth-delay product.
fn unlike_paths() -> NetworkSpec {
    disjoint(&[queued(link(20.0, 10.0), 20.0, 1.0), queued(link(10.0, 50.0), 100.0, 1.0)])
}

fn first_bin(outcome: &Outcome, subflow: usize) -> usize {
    outcome.subflows[subflow].bins.iter().position(|&bytes| bytes > 0).expect("it carried data")
}

#[test]
fn a_join_carries_data_after_the_first_data_ack_and_two_round_trips_of_its_own() {
    // Initial path 300 ms: SYN to DATA_ACK 600 ms. Join over 200 ms: two round trips and the way of
    // the data, 500 ms. RFC 8684 sections 3.1 and 3.2.
    let network = disjoint(&[link(10.0, 150.0), link(10.0, 100.0)]);
    let outcome = run(&trial(network, "reno", 8 * MIB, 5));
    assert_eq!(first_bin(&outcome, 0), 4, "SYN, SYN/ACK and the data's way: 450 ms");
    assert_eq!(first_bin(&outcome, 1), 11, "600 + 400 + 100 ms and two serialisations");
}

#[test]
fn the_initial_path_matters_for_a_short_transfer_but_hardly_for_a_long_one() {
    let time = |initial: usize, bytes: u64| {
        let mut spec = transfer(trial(unlike_paths(), "reno", 4 * MIB, 1), bytes);
        spec.initial_path = Some(initial);
        run(&spec).duration_ns as f64
    };
    assert!(time(1, 15_000) / time(0, 15_000) > 4.0, "five times the RTT");
    assert!((time(1, 50_000_000) / time(0, 50_000_000) - 1.0).abs() < 0.1);
}

#[test]
fn the_path_managers_differ_in_the_subflows_they_open() {
    let network = unlike_paths();
    let paths = |pm: &str, lsrr: bool| {
        let mut spec = trial(network.clone(), "reno", MIB, 3);
        spec.pm = pm.into();
        spec.network.lsrr_honoured = lsrr;
        run(&spec).subflows.iter().map(|subflow| subflow.path).collect::<Vec<_>>()
    };
    assert_eq!(paths("default", false), [0]);
    assert_eq!(paths("fullmesh", false), [0, 1]);
    assert_eq!(paths("ndiffports", false), [0, 0]);
    assert_eq!(paths("binder", true), [0, 1]);
    // Path-management study section V-A: if LSRR is ignored, every packet stays on the initial path.
    assert_eq!(paths("binder", false), [0, 0]);
    assert_eq!(paths("pcdc", false), [0, 1]);
}

#[test]
fn a_small_shared_buffer_blocks_on_the_slow_path_and_a_large_one_does_not() {
    // Head-of-line blocking (buffer-size studies): with unlike paths and too small a buffer, two
    // paths carry less than the better one alone; with a large one they add up.
    let throughput = |pm: &str, buffer: u64| {
        let network =
            disjoint(&[queued(link(50.0, 5.0), 20.0, 1.0), queued(link(1.0, 200.0), 400.0, 1.0)]);
        let mut spec = trial(network, "reno", buffer, 60);
        spec.pm = pm.into();
        mbps(&run(&spec))
    };
    assert!(throughput("fullmesh", MIB / 4) < throughput("default", MIB / 4));
    assert!(throughput("fullmesh", 16 * MIB) > throughput("default", 16 * MIB));
}

#[test]
fn throughput_does_not_fall_when_the_buffer_grows_on_clean_paths() {
    let throughput = |segments: u64| {
        let network = disjoint(&[link(20.0, 10.0), link(20.0, 15.0)]);
        mbps(&run(&trial(network, "reno", segments * u64::from(MSS), 30)))
    };
    let rates: Vec<_> = [4, 16, 64, 256, 1024].map(throughput).into();
    assert!(rates.windows(2).all(|pair| pair[0] <= pair[1] * 1.01), "{rates:?}");
}

#[test]
fn a_withdrawn_subflow_falls_silent_and_returns() {
    let mut spec = trial(unlike_paths(), "reno", 4 * MIB, 30);
    spec.script = vec![at(10, 1, ScriptAction::Standby), at(20, 1, ScriptAction::Active)];
    let outcome = run(&spec);
    let share = |from: usize, to: usize| -> u64 { outcome.subflows[1].bins[from..to].iter().sum() };
    assert!(share(50, 100) > 0);
    assert_eq!(share(110, 200), 0, "what was in flight arrives within a second");
    assert!(share(210, 300) > 0);
    // Its share is exactly what is missing: the other path is already full.
    let (all, without) = (
        mbps_between(&outcome, 5 * SECOND, 10 * SECOND),
        mbps_between(&outcome, 12 * SECOND, 20 * SECOND),
    );
    assert!((all - 30.0 * PAYLOAD_SHARE).abs() < 1.0, "{all}");
    assert!((without - 20.0 * PAYLOAD_SHARE).abs() < 0.7, "{without}");
}

#[test]
fn withdrawing_the_only_subflow_stops_the_connection() {
    let mut spec = trial(disjoint(&[link(10.0, 10.0)]), "reno", MIB, 10);
    spec.script = vec![at(5, 0, ScriptAction::Standby)];
    assert_eq!(mbps_between(&run(&spec), 6 * SECOND, 10 * SECOND), 0.0);
}

#[test]
fn a_cut_path_costs_no_byte_and_the_other_goes_on() {
    let mut spec = transfer(trial(unlike_paths(), "reno", 4 * MIB, 1), 40_000_000);
    spec.script = vec![at(5, 0, ScriptAction::Down)];
    let outcome = run(&spec);
    assert_eq!(outcome.in_order_bytes, 40_000_000);
    assert!(outcome.reinjected > 0, "what the dead path carried went again over the other");
    let alone = mbps_between(&outcome, 10 * SECOND, 20 * SECOND);
    assert!((alone - 10.0 * PAYLOAD_SHARE).abs() < 0.5, "{alone}");
}

#[test]
fn a_restored_path_is_used_again() {
    let mut spec = trial(unlike_paths(), "reno", 4 * MIB, 60);
    spec.script = vec![at(10, 0, ScriptAction::Down), at(15, 0, ScriptAction::Up)];
    let outcome = run(&spec);
    let restored = mbps_between(&outcome, 40 * SECOND, 60 * SECOND);
    assert!((restored - 30.0 * PAYLOAD_SHARE).abs() < 1.5, "{restored}");
}

/// Three equal paths; path 0 carries data, 1 and 2 stand by, 2 being the better one.
fn standby_trial() -> TrialSpec {
    let network = disjoint(&[
        queued(link(20.0, 10.0), 20.0, 1.0),
        queued(link(20.0, 20.0), 40.0, 1.0),
        queued(link(20.0, 30.0), 60.0, 1.0),
    ]);
    let mut spec = trial(network, "reno", 4 * MIB, 60);
    spec.pm = "pcdc".into();
    with_options(spec, json!({"active": [0], "standby_order": [2, 1]}))
}

#[test]
fn pcdc_keeps_standby_subflows_established_but_silent() {
    let outcome = run(&standby_trial());
    let mut subflows =
        outcome.subflows.iter().map(|s| (s.path, s.active, s.bytes > 0, s.srtt_ns > 0));
    assert_eq!(subflows.next(), Some((0, true, true, true)));
    for standby in subflows {
        assert!(matches!(standby, (1 | 2, false, false, true)), "{standby:?}");
    }
}

#[test]
fn the_best_standby_takes_over_from_a_dead_subflow_and_steps_back() {
    let mut spec = standby_trial();
    spec.script = vec![at(10, 0, ScriptAction::Down), at(30, 0, ScriptAction::Up)];
    let outcome = run(&spec);
    let by_path = |path: usize, from: Nanos, to: Nanos| -> u64 {
        let subflow = outcome.subflows.iter().find(|s| s.path == path).expect("established");
        subflow.bins[(from / 100_000_000) as usize..(to / 100_000_000) as usize].iter().sum()
    };
    let (second, end) = (SECOND, 60 * SECOND);
    assert!(by_path(2, 15 * second, 30 * second) > 0, "the best standby carries");
    assert_eq!(by_path(1, 15 * second, 30 * second), 0, "the other stays silent");
    let during = mbps_between(&outcome, 15 * second, 30 * second);
    assert!(during > 0.9 * 20.0 * PAYLOAD_SHARE, "{during}");
    assert!(by_path(0, 50 * second, end) > 0, "the restored subflow carries again");
    assert_eq!(by_path(2, 50 * second, end), 0, "and the standby is silent again");
}

#[test]
fn pcdc_uses_the_number_of_subflows_of_the_data_size_class() {
    // PCDC section IV: up to 512 KiB the subflow with the smallest RTT, up to 1024 KiB two, above that all.
    let carrying = |bytes: u64| {
        let network = disjoint(&[link(5.0, 10.0), link(5.0, 11.0), link(5.0, 12.0)]);
        let mut spec = transfer(trial(network, "reno", 4 * MIB, 1), bytes);
        spec.pm = "pcdc".into();
        run(&spec).subflows.iter().filter(|subflow| subflow.active).count()
    };
    assert_eq!([400, 900, 3000].map(|kib| carrying(kib * 1024)), [1, 2, 3]);
}

#[test]
fn a_small_transfer_begins_on_the_fastest_path_if_its_rtt_was_measured() {
    // Else it begins on the default path and moves when the others have joined, a window or two later.
    let network = disjoint(&[queued(link(2.0, 100.0), 200.0, 2.0), link(10.0, 20.0)]);
    let spec = transfer(trial(network, "cubic", 4 * MIB, 1), 512 * 1024);
    let completion = |spec: &TrialSpec| run(spec).completion_ns.expect("completed");
    let best =
        completion(&TrialSpec { pm: "default".into(), initial_path: Some(1), ..spec.clone() });
    let pcdc = TrialSpec { pm: "pcdc".into(), ..spec };
    let moved = completion(&pcdc);
    let measured = with_options(pcdc, json!({"rtt_ns": {"0": 200_000_000, "1": 40_000_000}}));
    assert!(moved > best * 5 / 4, "{moved} {best}");
    assert!(completion(&measured) <= best * 101 / 100, "{best}");
}

#[test]
fn a_stream_of_unknown_size_takes_more_subflows_as_it_grows() {
    // PCDC section IV by the bytes sent: up to 512 KiB one subflow, up to 1024 KiB two, above all.
    let carrying = |bytes: u64| {
        let network = disjoint(&[link(5.0, 10.0), link(5.0, 11.0), link(5.0, 12.0)]);
        let mut spec = transfer(trial(network, "reno", MIB / 4, 1), bytes);
        (spec.pm, spec.size_known) = ("pcdc".into(), false);
        let outcome = run(&spec);
        let active = outcome.subflows.iter().filter(|subflow| subflow.active).count();
        (active, if active == 3 { first_bin(&outcome, 2) } else { 0 })
    };
    assert_eq!([500, 900, 3000].map(|kib| carrying(kib * 1024).0), [1, 2, 3]);
    // Of a known size the third one carries data at once. Here 1 MiB was sent first: at 5 to 10 Mbit/s, of
    // which as much as the buffer takes may be under way, that is after 0.6 to 1.7 s.
    let third = carrying(3000 * 1024).1;
    assert!((6..=17).contains(&third), "{third}");
}

#[test]
fn an_unlimited_stream_uses_every_optional_subflow_from_the_start() {
    // PCDC section VI: the large stream is unlimited, so it is of class L3.
    let spec = trial(unlike_paths(), "reno", 4 * MIB, 10);
    let pcdc = TrialSpec { pm: "pcdc".into(), ..spec.clone() };
    assert_eq!(run(&pcdc).bins, run(&spec).bins);
}

/// A fast path and one of a tenth of its rate and ten times its RTT, with a small shared buffer.
fn blocking_trial(scheduler: &str) -> TrialSpec {
    let network =
        disjoint(&[queued(link(50.0, 5.0), 20.0, 1.0), queued(link(5.0, 100.0), 200.0, 1.0)]);
    let spec = trial(network, "reno", MIB / 4, 60);
    TrialSpec { scheduler: scheduler.into(), ..spec }
}

#[test]
fn blest_and_ecf_avoid_the_blocking_that_minrtt_runs_into() {
    let rate = |scheduler: &str| mbps(&run(&blocking_trial(scheduler)));
    let minrtt = rate("minrtt");
    for scheduler in ["blest", "ecf"] {
        assert!(rate(scheduler) > 1.2 * minrtt, "{scheduler}: {} to {minrtt}", rate(scheduler));
    }
}

#[test]
fn opportunistic_retransmission_and_penalisation_relieve_blocking() {
    // Raiciu et al., NSDI 2012, section 4.2.
    let plain = blocking_trial("minrtt");
    let members = Members { opportunistic: true, ..plain.members };
    let relieved = TrialSpec { members, ..plain.clone() };
    let (plain, relieved) = (run(&plain), run(&relieved));
    assert!(mbps(&relieved) > 1.2 * mbps(&plain), "{} to {}", mbps(&relieved), mbps(&plain));
    assert!(relieved.reinjected > 0);
}

#[test]
fn redundant_subflows_survive_a_loss_rate_that_one_does_not() {
    // Every segment goes over both paths: what one loses, the other delivers at once.
    let lossy_paths = || disjoint(&[lossy(link(5.0, 20.0), 0.02), lossy(link(5.0, 20.0), 0.02)]);
    let time = |scheduler: &str, pm: &str| -> f64 {
        let times = (1..=20).map(|seed| {
            let mut spec = transfer(trial(lossy_paths(), "reno", MIB, 1), 200_000);
            (spec.scheduler, spec.pm, spec.seed) = (scheduler.into(), pm.into(), seed);
            run(&spec).duration_ns as f64 / 1e9
        });
        times.sum::<f64>() / 20.0
    };
    assert!(time("redundant", "fullmesh") < time("minrtt", "default"));
    let outcome = run(&TrialSpec {
        scheduler: "redundant".into(),
        ..trial(disjoint(&[link(5.0, 20.0), link(20.0, 20.0)]), "reno", 8 * MIB, 20)
    });
    assert!(mbps(&outcome) < 20.0, "the capacities do not add up");
}

#[test]
fn round_robin_shares_equally_between_like_paths() {
    let spec = TrialSpec {
        scheduler: "roundrobin".into(),
        ..trial(disjoint(&[link(10.0, 10.0), link(10.0, 10.0)]), "reno", MIB / 8, 20)
    };
    let outcome = run(&spec);
    let [first, second] = [0, 1].map(|i| outcome.subflows[i].bytes as f64);
    assert!((first / second - 1.0).abs() < 0.05, "{first} and {second}");
}

#[test]
fn the_kernels_scheduler_fills_both_paths_given_a_large_buffer() {
    let network =
        disjoint(&[queued(link(100.0, 10.0), 20.0, 1.0), queued(link(50.0, 20.0), 40.0, 1.0)]);
    let spec = trial(network, "reno", 4 * MIB, 30);
    let outcome = run(&TrialSpec { scheduler: "kernel".into(), ..spec });
    assert!(mbps(&outcome) > 0.95 * 150.0 * PAYLOAD_SHARE, "{}", mbps(&outcome));
}

#[test]
fn the_send_queue_of_a_failing_subflow_is_sent_elsewhere() {
    // The upstream scheduler hands data to subflows ahead of their windows. Two paths share an up
    // link; one is cut for a quarter of a second.
    let jittery = |mbps: f64, delay_ms: f64| {
        let mut link = link(mbps, delay_ms);
        (link.queue_bytes, link.jitter_ns) = (Some(27_000), 13_000_000);
        link
    };
    let links = vec![jittery(0.75, 0.1), jittery(0.75, 1.0), jittery(0.75, 2.0), jittery(1.5, 2.0)];
    let paths = vec![path(0, 0, &[0, 2], &[1]), path(0, 1, &[0, 3], &[1])];
    let network = NetworkSpec { links, paths, ..NetworkSpec::default() };
    for seed in 0..100 {
        let mut spec = transfer(trial(network.clone(), "reno", 200_000, 1), 1_000_000);
        spec.scheduler = "kernel".into();
        spec.seed = seed;
        let at =
            |quarters: u64, action| ScriptSpec { at_ns: quarters * SECOND / 4, path: 0, action };
        spec.script = vec![at(6, ScriptAction::Down), at(7, ScriptAction::Up)];
        assert_eq!(run(&spec).in_order_bytes, 1_000_000);
    }
}

#[test]
fn a_subflow_has_the_headers_of_its_path_and_data_fits_both_families() {
    let rate = |families: [Option<Family>; 2], number: usize, accounting: &str| {
        let line = queued(link(10.0, 10.0), 20.0, 4.0);
        let mut network = disjoint(&[line.clone(), line]);
        for (path, family) in network.paths.iter_mut().zip(families) {
            path.family = family;
        }
        let spec =
            TrialSpec { accounting: accounting.into(), ..trial(network, "reno", 8 * MIB, 20) };
        let outcome = run(&spec);
        outcome.subflows[number].bins[50..].iter().sum::<u64>() as f64 * 8.0 / 15.0 / 10e6
    };
    let both = [Some(Family::Ipv4), Some(Family::Ipv6)];
    for accounting in ["payload", "linux"] {
        let alone = |family| rate([family; 2], 1, accounting);
        // 1428 bytes of payload, options included, in packets of 1480 and of 1500 bytes.
        let (four, six) = (rate(both, 0, accounting), rate(both, 1, accounting));
        assert!((four / six - 1500.0 / 1480.0).abs() < 0.004, "{accounting}: {four} and {six}");
        assert!((six / alone(Some(Family::Ipv6)) - 1.0).abs() < 0.004, "{accounting}: {six}");
        // The fuller packets of a connection over IPv4 alone save 0.05 % of header.
        assert!((four / alone(None) - 1.0).abs() < 0.004, "{accounting}: {four}");
    }
}
