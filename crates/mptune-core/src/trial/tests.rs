//! A trial with wrong accounts fails with that as its reason, and gives no number.

use super::*;
use crate::mptcp::accounting::Miscount;
use crate::mptcp::{Ack, Answered, Content, Mapping, Members, Packet, Segment};
use crate::network::{LinkSpec, NetworkSpec, PathSpec};
use crate::units::SECOND;

/// A transfer that takes a few seconds, over one path.
fn spec(accounting: &str) -> TrialSpec {
    let link = |rate_bps| LinkSpec {
        rate_bps: Some(rate_bps),
        delay_ns: SECOND / 100,
        queue_bytes: Some(100_000),
        ..LinkSpec::default()
    };
    let path = PathSpec {
        label: "0-0".into(),
        local: 0,
        remote: 0,
        forward: vec![0],
        reverse: vec![1],
        family: None,
        metered: false,
    };
    let links = vec![link(5_000_000), link(50_000_000)];
    let network = serde_json::json!({
        "network": {"links": [], "paths": []},
        "pm": "default", "cc": "reno", "scheduler": "kernel", "accounting": accounting,
        "buffer_bytes": 200_000, "mss": 1448, "seed": 1,
        "workload": {"kind": "transfer", "bytes": 2_000_000, "deadline_ns": 60 * SECOND},
    });
    let mut spec: TrialSpec = serde_json::from_value(network).expect("a trial");
    spec.network = NetworkSpec { links, paths: vec![path], ..NetworkSpec::default() };
    spec
}

/// The outcome with a change after a second.
fn outcome(spec: &TrialSpec, change: impl FnOnce(&mut Simulation<Connection>)) -> Outcome {
    let (mut simulation, number) = spec.prepare().expect("a valid trial");
    assert!(simulation.run(SECOND, number));
    change(&mut simulation);
    let span = spec.drive(&mut simulation, number, spec.workload.limit());
    spec.outcome(&simulation, number, &span)
}

/// The trial failed for this reason and gives no number.
fn assert_failed(outcome: &Outcome, miscount: Miscount) {
    assert_eq!(outcome.failed_kind, Some(FailureKind::Miscounted), "{miscount:?}");
    assert_eq!(outcome.failed.as_deref(), Some(&*format!("accounting: {miscount}")));
    assert_eq!((outcome.completion_ns, outcome.expected_bytes), (None, None));
}

#[test]
fn books_that_agree_are_no_failure() {
    for accounting in ["payload", "linux"] {
        let spec = spec(accounting);
        let undisturbed = outcome(&spec, |_| ());
        assert_eq!(undisturbed, spec.run().expect("a valid trial"));
        assert_eq!((undisturbed.failed, undisturbed.in_order_bytes), (None, 2_000_000));
    }
}

#[test]
fn a_segment_that_begins_elsewhere_fails_the_trial() {
    let displaced = |simulation: &mut Simulation<Connection>| {
        let next = simulation.connection(0).subflows[0].receiver.next();
        let mapping = Mapping { data: next, start: 7, length: 100 };
        let content = Content::Data(Segment {
            seq: next,
            mapping,
            ecn_capable: false,
            congestion_experienced: false,
            reduced: false,
            pushed: false,
            repeated: false,
            echo: 0,
        });
        simulation.inject(0, &Packet { flow: 0, content });
    };
    assert_failed(&outcome(&spec("linux"), displaced), Miscount::Displaced);
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_fails_the_trial() {
    for accounting in ["payload", "linux"] {
        let early = |simulation: &mut Simulation<Connection>| {
            let next = simulation.connection(0).subflows[0].receiver.next();
            let ack = Ack {
                next,
                data: next + 100_000,
                window: 0,
                sack: Default::default(),
                answers: Answered::Original,
                ecn_echo: false,
                stamp: 0,
            };
            simulation.inject(1, &Packet { flow: 0, content: Content::Ack(ack) });
        };
        assert_failed(&outcome(&spec(accounting), early), Miscount::Acknowledged);
    }
}

#[test]
fn bytes_from_nowhere_fail_the_trial() {
    for accounting in ["payload", "linux"] {
        let more = |simulation: &mut Simulation<Connection>| {
            simulation.connection_mut(0).subflows[0].series.add(SECOND, 1);
        };
        assert_failed(&outcome(&spec(accounting), more), Miscount::Delivered);
    }
}

#[test]
fn the_receive_buffer_can_be_another_one() {
    let spec = spec("payload");
    let took = |receive| {
        let trial = TrialSpec { receive_buffer_bytes: receive, ..spec.clone() };
        trial.run().expect("a trial").completion_ns.expect("it ends")
    };
    assert_eq!(took(Some(spec.buffer_bytes)), took(None));
    // A window of 5 kB for each round trip of more than 20 ms: less than half the rate.
    assert!(took(Some(5_000)) > 2 * took(None));
    let small = TrialSpec { receive_buffer_bytes: Some(100), ..spec };
    assert_eq!(small.run().expect_err("less than a segment").key, "receive_buffer_bytes");
}

#[test]
fn members_of_the_stack_are_keys_beside_the_others_and_no_other_key_is_known() {
    let read = |more: serde_json::Value| {
        let mut trial = serde_json::json!({
            "network": {"links": [], "paths": []}, "pm": "default", "cc": "reno", "scheduler": "minrtt",
            "buffer_bytes": 200_000, "mss": 1448, "seed": 1, "workload": {"kind": "bulk", "duration_ns": SECOND},
        });
        let keys = trial.as_object_mut().expect("an object");
        keys.extend(more.as_object().expect("an object").clone());
        serde_json::from_value::<TrialSpec>(trial)
    };
    assert_eq!(read(serde_json::json!({})).expect("a trial").members, Members::default());
    let given = read(serde_json::json!({"tso": true, "ecn": false, "rto_min_us": 5_000}));
    let expected = Members { tso: true, ecn: false, rto_min_us: 5_000, ..Members::default() };
    assert_eq!(given.expect("a trial").members, expected);
    assert_eq!(expected.rto(), [SECOND / 200, 120 * SECOND]);
    let refused = |more| read(more).expect_err("no trial").to_string();
    assert!(refused(serde_json::json!({"tsoo": true})).contains("unknown field `tsoo`"));
    assert!(refused(serde_json::json!({"members": {}})).contains("unknown field `members`"));
    assert!(refused(serde_json::json!({"tso": 1})).contains("expected a boolean"));
}

#[test]
fn a_member_out_of_its_bounds_is_refused_by_its_key() {
    let refused = |members| {
        let error = TrialSpec { members, ..spec("linux") }.run().expect_err("refused");
        (error.key, error.expected)
    };
    let usual = Members::default();
    let (key, expected) = refused(Members { stale_loss_cnt: 256, ..usual });
    assert_eq!((&*key, &*expected), ("stale_loss_cnt", "expected 0 to 255, found 256"));
    let (key, expected) = refused(Members { rto_min_us: 999, ..usual });
    assert_eq!((&*key, &*expected), ("rto_min_us", "expected 1000 to 1000000, found 999"));
    let (key, expected) = refused(Members { rto_max_ms: 120_001, ..usual });
    assert_eq!((&*key, &*expected), ("rto_max_ms", "expected 1000 to 120000, found 120001"));
}
