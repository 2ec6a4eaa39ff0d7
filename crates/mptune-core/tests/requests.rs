//! Requests and responses against closed forms: an idle path delays both by their serialisation and propagation.

mod common;

use common::*;
use mptune_core::network::NetworkSpec;
use mptune_core::trial::{FailureKind, ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Page, Requests, Workload};

/// Both ways in which buffers are counted, with the bytes before the payload of a packet,
/// and the packets of a response of 10,000 bytes.
const ACCOUNTINGS: [(&str, u64, u64); 2] = [("payload", 52, 7), ("linux", 76, 8)];

/// A pure acknowledgement.
const ACK: u64 = 64;

const REQUESTS: Requests = Requests {
    request_bytes: 400,
    response_bytes: 10_000,
    think_ns: 100 * MILLISECOND,
    at_once: 1,
    duration_ns: 5 * SECOND,
    patience_ns: 10 * SECOND,
};

fn requests(network: NetworkSpec, accounting: &str, requests: Requests) -> TrialSpec {
    TrialSpec {
        accounting: accounting.into(),
        scheduler: if accounting == "linux" { "kernel" } else { "minrtt" }.into(),
        tso: accounting == "linux",
        workload: Workload::Requests(requests),
        ..trial(network, "cubic", MIB, 1)
    }
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
        let expected = serialised(10_000 + packets * header, 400 + header) + 40 * MILLISECOND;
        // As long as acknowledgements are not delayed, that of the request goes first, as a packet of its own.
        let with_ack = expected + serialised(ACK, 0);
        let usual = |time: &Nanos| [expected, with_ack].contains(time);
        assert!(outcome.delays_ns[1..].iter().all(usual), "{accounting}: {:?}", outcome.delays_ns);
        assert_eq!(outcome.delays_ns.last(), Some(&expected), "{accounting}");
        // After 100 ms of thinking each.
        assert_eq!(outcome.delays_ns.len(), 34);
        assert_eq!(outcome.in_order_bytes, 340_000);
        assert_eq!(outcome.completion_ns, Some(outcome.duration_ns));
    }
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
        // Acknowledgements of requests may go between.
        assert!(
            (expected..expected + 4 * serialised(ACK, 0)).contains(&last),
            "{accounting}: {last}"
        );
        assert_eq!(outcome.in_order_bytes, 13_000 * outcome.delays_ns.len() as u64);
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
        let outcome = run(&requests(network, accounting, REQUESTS));
        let least = serialised(10_000 + packets * header, 400 + header) + 40 * MILLISECOND;
        assert!(outcome.delays_ns.iter().all(|&time| time >= least), "{accounting}");
        let longest = *outcome.delays_ns.iter().max().expect("responses");
        assert!(longest > least + 40 * MILLISECOND, "{accounting}: {longest}");
        assert_eq!(outcome.in_order_bytes, 10_000 * outcome.delays_ns.len() as u64);
    }
}

#[test]
fn two_paths_carry_long_responses_faster_than_one() {
    for (accounting, _, _) in ACCOUNTINGS {
        let long = Requests { response_bytes: 4_000_000, ..REQUESTS };
        let mean = |paths: &[_]| {
            let outcome = run(&requests(disjoint(paths), accounting, long));
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
