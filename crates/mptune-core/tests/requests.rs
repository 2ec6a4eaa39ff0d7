//! Requests and responses against closed forms: an idle path delays both by their serialisation and propagation.

use crate::common::*;
use mptune_core::mptcp::{Members, Protocol};
use mptune_core::network::NetworkSpec;
use mptune_core::trial::{FailureKind, ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Page, Requests, Video, WRITE_BYTES, Workload};

/// Both ways in which buffers are counted, with the bytes before the payload of a packet,
/// and the packets of a response of 10,000 bytes.
const ACCOUNTINGS: [(&str, u64, u64); 2] = [("payload", 52, 7), ("linux", 76, 8)];

/// A pure acknowledgement.
const ACK: u64 = 64;

const REQUESTS: Requests = Requests {
    request_bytes: 400,
    response_bytes: 10_000,
    response_sizes: Vec::new(),
    think_ns: 100 * MILLISECOND,
    at_once: 1,
    duration_ns: 5 * SECOND,
    patience_ns: 10 * SECOND,
    seed: 0,
};

fn requests(network: NetworkSpec, accounting: &str, requests: Requests) -> TrialSpec {
    TrialSpec {
        accounting: accounting.into(),
        scheduler: if accounting == "linux" { "kernel" } else { "minrtt" }.into(),
        members: Members { tso: accounting == "linux", ..Members::default() },
        workload: Workload::Requests(requests),
        ..trial(network, "cubic", MIB, 1)
    }
}

/// Its requests.
fn asked_in(spec: &mut TrialSpec) -> &mut Requests {
    let Workload::Requests(asked) = &mut spec.workload else { unreachable!() };
    asked
}

/// Time of a packet on links of 10 Mbit/s there and of 1 Gbit/s back, ns.
fn serialised(down: u64, up: u64) -> Nanos {
    down * 800 + up * 8
}

#[test]
fn a_response_takes_a_round_trip_and_both_serialisations() {
    for (accounting, header, packets) in ACCOUNTINGS {
        let outcome = run(&requests(disjoint(&[link(10.0, 20.0)]), accounting, REQUESTS));
        // They leave at once, as the initial window allows.
        let sizes = serialised(10_000 + packets * header, 400 + header);
        // The acknowledgement of the request goes first, as a packet of its own.
        let expected = sizes + serialised(ACK, 0) + 40 * MILLISECOND;
        assert!(
            outcome.delays_ns[1..].iter().all(|&time| time == expected),
            "{accounting}: {:?}",
            outcome.delays_ns
        );
        // After 100 ms of thinking each.
        assert_eq!(outcome.delays_ns.len(), 34);
        assert_eq!(outcome.in_order_bytes, 340_000);
        assert_eq!(outcome.completion_ns, Some(outcome.duration_ns));
    }
}

#[test]
fn only_the_first_write_of_a_response_pays_for_the_idle_time_before() {
    let mut spec = requests(disjoint(&[link(125.0, 60.0)]), "linux", REQUESTS);
    let asked = asked_in(&mut spec);
    (asked.response_bytes, asked.think_ns) = (1_290_000, 300 * MILLISECOND);
    // Linux shrinks an idle window for what one write sends: the writes after it have what the last response reached.
    let delays = run(&spec).delays_ns;
    let round_trip = 120 * MILLISECOND;
    assert!(delays[1..].iter().all(|delay| delay + round_trip < delays[0]), "{delays:?}");
    // A response of one write starts slowly each time.
    asked_in(&mut spec).response_bytes = WRITE_BYTES;
    let delays = run(&spec).delays_ns;
    assert!(delays[1..].iter().all(|delay| delay.abs_diff(delays[0]) < MILLISECOND), "{delays:?}");
}

#[test]
fn a_page_takes_two_round_trips_and_the_serialisation_of_all_its_parts() {
    for (accounting, header, packets) in ACCOUNTINGS {
        let page = Page {
            request_bytes: 400,
            page_bytes: 10_000,
            objects: 3,
            object_bytes: 1_000,
            think_ns: 100 * MILLISECOND,
            duration_ns: 5 * SECOND,
            patience_ns: 10 * SECOND,
        };
        let network = disjoint(&[link(10.0, 20.0)]);
        let mut spec = requests(network, accounting, REQUESTS);
        spec.workload = Workload::Page(page);
        let outcome = run(&spec);
        // The requests of the second and third object arrive while the first object leaves.
        let parts = serialised(10_000 + packets * header, 400 + header)
            + serialised(3 * (1_000 + header), 400 + header);
        let expected = parts + 80 * MILLISECOND;
        let last = *outcome.delays_ns.last().expect("pages");
        // Acknowledgements of the four requests may go between, and before two of them those of the responses.
        let most = expected + serialised(4 * ACK, 2 * ACK);
        assert!((expected..=most).contains(&last), "{accounting}: {last}");
        assert_eq!(outcome.in_order_bytes, 13_000 * outcome.delays_ns.len() as u64);
    }
}

/// A video of four bitrates in segments of 2 s, over an idle path of a rate.
fn video(mbps: f64, accounting: &str) -> TrialSpec {
    let mut spec = requests(disjoint(&[link(mbps, 20.0)]), accounting, REQUESTS);
    spec.workload = Workload::Video(Video {
        request_bytes: 400,
        ladder_bps: vec![1_000_000, 2_500_000, 5_000_000, 8_000_000],
        segment_ns: 2 * SECOND,
        buffer_ns: 12 * SECOND,
        duration_ns: 120 * SECOND,
        patience_ns: 60 * SECOND,
    });
    spec
}

#[test]
fn a_video_starts_with_its_first_segment_and_never_stalls_above_the_lowest_bitrate() {
    for (accounting, _, _) in ACCOUNTINGS {
        for (mbps, bitrates) in [(1.5, 0..2), (3.5, 1..3), (20.0, 3..4)] {
            let outcome = run(&video(mbps, accounting));
            let ladder = [250_000, 625_000, 1_250_000, 2_000_000];
            assert_eq!(outcome.pieces.len(), outcome.delays_ns.len());
            assert!(
                outcome.pieces.iter().all(|piece| piece.stalled_ns == 0),
                "{accounting}, {mbps}"
            );
            // The first has the lowest bitrate: its serialisation, headers, and the rounds of slow start.
            let least = 250_000.0 * 8e3 / mbps;
            let start = outcome.delays_ns[0] as f64;
            assert!((least..least * 1.1 + 2e8).contains(&start), "{accounting}, {mbps}: {start}");
            let steady = &outcome.pieces[outcome.pieces.len() / 2..];
            let as_expected = |bytes| ladder[bitrates.clone()].contains(&bytes);
            assert!(steady.iter().all(|piece| as_expected(piece.bytes)), "{accounting}, {mbps}");
            assert_eq!(
                outcome.in_order_bytes,
                outcome.pieces.iter().map(|piece| piece.bytes).sum::<u64>()
            );
        }
    }
}

#[test]
fn a_video_on_a_slow_path_stalls_for_what_the_path_lacks() {
    for (accounting, _, _) in ACCOUNTINGS {
        let outcome = run(&video(0.6, accounting));
        assert!(outcome.pieces.iter().all(|piece| piece.bytes == 250_000));
        let ends =
            outcome.pieces.iter().zip(&outcome.delays_ns).map(|(piece, time)| piece.at_ns + time);
        let ends: Vec<_> = ends.collect();
        let viewed = ends[ends.len() - 1] - ends[0];
        let stalled: Nanos = outcome.pieces.iter().map(|piece| piece.stalled_ns).sum();
        // A segment takes its bytes at the rate of payload, and a round trip for the request.
        let steady = outcome.delays_ns[5];
        let share = stalled as f64 / viewed as f64;
        let expected = 1.0 - 2e9 / steady as f64;
        assert!((share - expected).abs() < 0.01, "{accounting}: {share}, expected {expected}");
        assert!((share - 0.4).abs() < 0.05, "{accounting}: {share}");
    }
}

#[test]
fn a_long_response_takes_the_rounds_of_slow_start() {
    for (accounting, _, _) in ACCOUNTINGS {
        let long = Requests { response_bytes: 95_000, think_ns: SECOND, ..REQUESTS };
        let outcome = run(&requests(disjoint(&[link(1_000.0, 50.0)]), accounting, long));
        // 67 segments at most, from an initial window of ten: 10, 20, 40; then half of the round trip, and the request.
        let first = outcome.delays_ns[0];
        assert!((300 * MILLISECOND..315 * MILLISECOND).contains(&first), "{accounting}: {first}");
    }
}

#[test]
fn after_a_pause_the_window_is_halved_once_for_each_timeout() {
    // Linux `tcp_slow_start_after_idle_check`, asked for each packet that is made until one has left: TCP sends the first when
    // it is full, so that it is asked once. 1 s and a round trip of silence are four timeouts of 224 ms, and so four halvings of a
    // window of 300 to 500 segments, not five or more: one round of slow start less than from the initial window, which
    // the first response needs.
    let long = Requests { response_bytes: 660 * 1024, think_ns: SECOND, ..REQUESTS };
    let mut spec = requests(disjoint(&[link(285.0, 10.0)]), "linux", long);
    (spec.protocol, spec.pm) = (Protocol::Tcp, "default".into());
    let times = run(&spec).delays_ns;
    let round = 20 * MILLISECOND;
    for later in &times[1..] {
        let saved = times[0] - later;
        assert!((round..2 * round).contains(&saved), "{times:?}");
    }
}

#[test]
fn several_requests_at_once_share_the_path() {
    for (accounting, _, _) in ACCOUNTINGS {
        let four = Requests { at_once: 4, think_ns: 0, response_bytes: 50_000, ..REQUESTS };
        let outcome = run(&requests(disjoint(&[link(10.0, 20.0)]), accounting, four));
        // The path is never idle: each response takes four times its serialisation, 42 ms.
        let (responses, sum) = (outcome.delays_ns.len(), outcome.delays_ns.iter().sum::<u64>());
        assert!((112..=122).contains(&responses), "{accounting}: {responses}");
        let mean = sum / responses as u64;
        assert!((150 * MILLISECOND..185 * MILLISECOND).contains(&mean), "{accounting}: {mean}");
    }
}

#[test]
fn a_lost_request_or_response_costs_a_timeout_and_none_is_forgotten() {
    for (accounting, header, packets) in ACCOUNTINGS {
        let mut network = disjoint(&[lossy(link(10.0, 20.0), 0.02)]);
        network.links[1].loss_ppb = 50_000_000;
        let mut spec = requests(network, accounting, REQUESTS);
        let least = serialised(10_000 + packets * header, 400 + header) + 40 * MILLISECOND;
        let mut longest = 0;
        for seed in 1..=3 {
            spec.seed = seed;
            let outcome = run(&spec);
            assert!(outcome.delays_ns.iter().all(|&time| time >= least), "{accounting}");
            longest = longest.max(*outcome.delays_ns.iter().max().expect("responses"));
            assert_eq!(outcome.in_order_bytes, 10_000 * outcome.delays_ns.len() as u64);
        }
        assert!(longest > least + 40 * MILLISECOND, "{accounting}: {longest}");
    }
}

#[test]
fn two_paths_carry_long_responses_faster_than_one() {
    for (accounting, _, _) in ACCOUNTINGS {
        let long = Requests { response_bytes: 4_000_000, ..REQUESTS };
        let mean = |paths: &[_]| {
            let outcome = run(&requests(disjoint(paths), accounting, long.clone()));
            outcome.delays_ns.iter().sum::<u64>() / outcome.delays_ns.len() as u64
        };
        let path = || queued(link(10.0, 10.0), 20.0, 2.0);
        let (one, two) = (mean(&[path()]), mean(&[path(), path()]));
        assert!(two * 10 < one * 7, "{accounting}: {two} of {one}");
    }
}

#[test]
fn a_standby_subflow_takes_over_requests_and_responses() {
    for (accounting, _, _) in ACCOUNTINGS {
        let network = disjoint(&[link(10.0, 10.0), link(10.0, 15.0)]);
        let mut spec =
            requests(network, accounting, Requests { think_ns: 50 * MILLISECOND, ..REQUESTS });
        spec.pm = "pcdc".into();
        spec = with_options(spec, serde_json::json!({"active": [0], "standby_order": [1]}));
        spec.script = vec![at(2, 0, ScriptAction::Down)];
        let outcome = run(&spec);
        let longest = *outcome.delays_ns.iter().max().expect("responses");
        assert!(longest < 5 * SECOND, "{accounting}: {longest}");
        assert_eq!(outcome.subflows[1].path, 1);
        assert!(outcome.subflows[1].bytes > 100_000, "{accounting}: {:?}", outcome.subflows);
    }
}

#[test]
fn responses_that_never_arrive_fail_the_trial_with_the_times_of_the_others() {
    for (accounting, _, _) in ACCOUNTINGS {
        let mut spec = requests(disjoint(&[link(10.0, 20.0)]), accounting, REQUESTS);
        spec.script = vec![at(2, 0, ScriptAction::Down)];
        let outcome = spec.run().expect("a valid trial");
        let kind = outcome.failed_kind;
        assert!(matches!(kind, Some(FailureKind::Incomplete | FailureKind::Stalled)), "{kind:?}");
        assert_eq!((outcome.delays_ns.len(), outcome.completion_ns), (14, None), "{accounting}");
    }
}

#[test]
fn sizes_of_responses_follow_from_the_seed_of_the_trial() {
    let sizes: Vec<u64> = (1..=40).map(|size| 1_000 * size).collect();
    let asked = Requests { response_sizes: sizes, ..REQUESTS };
    let total = |seed| {
        let mut spec = requests(disjoint(&[link(10.0, 20.0)]), "linux", asked.clone());
        spec.seed = seed;
        let outcome = run(&spec);
        let drawn = Workload::Requests(asked.clone()).drawn(seed).purpose().expect("a client");
        let served = (0..outcome.delays_ns.len() as u64).map(|one| drawn.response_bytes(one, 0));
        assert_eq!(outcome.in_order_bytes, served.sum::<u64>());
        outcome.in_order_bytes
    };
    assert_ne!(total(1), total(2));
}
