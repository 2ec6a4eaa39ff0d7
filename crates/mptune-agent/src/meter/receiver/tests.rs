use super::*;

const SECOND: u64 = 1_000_000_000;

fn job(goal: &str) -> Job {
    let line = format!(
        r#"{{"cc": "cubic", "buffer_bytes": 65536, "seed": 7, {goal},
            "stall_ns": 5000000000}}"#
    );
    serde_json::from_str(&line).unwrap()
}

/// Result of `check` for a receiver that got `stream` at `at_ns`, read in pieces of `piece` bytes,
/// on a connection that was requested when its clock began.
fn taken<T>(
    (goal, at_ns): (&str, u64),
    stream: &[u8],
    piece: usize,
    check: impl FnOnce(&mut Receiver<'_>) -> T,
) -> T {
    let (job, mut control) = (job(goal), Control::new().unwrap());
    let mut receiver = Receiver::new(&job, Half::new(&mut control));
    receiver.align(Handshake { handshake_ns: 0, rtt_ns: 0 });
    for data in stream.chunks(piece) {
        if receiver.half.ending().is_none() {
            receiver.take(at_ns, data);
        }
    }
    check(&mut receiver)
}

fn payload(bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    Pattern::new(7).fill(0, &mut payload);
    payload
}

#[test]
fn a_transfer_ends_with_its_last_byte() {
    let transfer =
        (r#""workload": {"kind": "transfer", "bytes": 10000, "deadline_ns": 60000000000}"#, 1);
    taken(transfer, &payload(9_999), 1_460, |receiver| {
        assert_eq!((receiver.completion_ns(), receiver.half.ending()), (None, None));
    });
    taken(transfer, &payload(10_000), 1_460, |receiver| {
        assert_eq!((receiver.in_order_bytes, receiver.corrupt_at), (10_000, None));
        assert_eq!(receiver.half.ending(), Some(&Ending::Complete));
        assert_eq!(receiver.bins.until(receiver.completion_ns().unwrap()), [10_000]);
    });
}

#[test]
fn a_wrong_byte_ends_it() {
    let mut stream = payload(10_000);
    stream[7_000] ^= 1;
    for goal in [
        r#""workload": {"kind": "transfer", "bytes": 10000, "deadline_ns": 60000000000}"#,
        r#""workload": {"kind": "bulk", "duration_ns": 60000000000}"#,
    ] {
        taken((goal, 1), &stream, 77, |receiver| {
            assert_eq!(receiver.corrupt_at, Some(7_000));
            let ending = receiver.half.ending();
            assert!(matches!(ending, Some(Ending::Corrupt(reason)) if reason.contains("7000")));
        });
    }
}

#[test]
fn bytes_after_the_duration_do_not_count() {
    taken(
        (r#""workload": {"kind": "bulk", "duration_ns": 1}"#, 2),
        &payload(10_000),
        10_000,
        |receiver| {
            assert_eq!((receiver.in_order_bytes, receiver.half.ending()), (0, None));
        },
    );
}

/// End of a saturated measurement of 20 s that gets `bytes` of each bin, and the bytes that it expects.
fn ended(goal: &str, bytes: impl Fn(u64) -> u64) -> Option<Ended> {
    taken((goal, 0), &[], 1, |receiver| {
        for bin in 0..200 {
            let end_ns = (bin + 1) * receiver.job.bin_ns;
            receiver.count(end_ns, bytes(bin));
            if receiver.half.ending().is_none() {
                receiver.check_early_end(end_ns);
            }
        }
        receiver.ended_early
    })
}

#[test]
fn a_steady_measurement_ends_early_if_asked_to() {
    let goal = r#""workload": {"kind": "bulk", "duration_ns": 20000000000}"#;
    let asked = goal.replace('}', r#", "ends_early": true}"#);
    let end = ended(&asked, |_| 1_000).unwrap();
    assert!(end.at < 10 * SECOND && end.expected == 200_000, "{end:?}");
    assert_eq!(ended(goal, |_| 1_000), None);
    assert_eq!(ended(&asked, |bin| if bin < 38 { 1_000 } else { 0 }), None);
}

#[test]
fn an_early_end_is_reported_where_it_looked() {
    let goal = r#""workload": {"kind": "bulk", "duration_ns": 20000000000, "ends_early": true}"#;
    taken((goal, 0), &[], 1, |receiver| {
        let bin_ns = receiver.job.bin_ns;
        (0..60).for_each(|bin| receiver.count((bin + 1) * bin_ns, 1_000));
        receiver.check_early_end(60 * bin_ns);
        let ended = receiver.ended_early.unwrap();
        assert_eq!(receiver.end_ns(), ended.at);
        assert_eq!(receiver.half.ending(), Some(&Ending::Complete));
        let bins = receiver.bins.until(ended.at);
        assert_eq!(bins.iter().sum::<u64>() * bin_ns, 1_000 * ended.at);
    });
}

#[test]
fn an_extra_byte_is_wrong() {
    taken(
        (r#""workload": {"kind": "transfer", "bytes": 9000, "deadline_ns": 60000000000}"#, 1),
        &payload(9_001),
        9_001,
        |receiver| {
            assert_eq!((receiver.corrupt_at, receiver.in_order_bytes), (Some(9_000), 9_000));
            assert!(matches!(receiver.half.ending(), Some(Ending::Corrupt(_))));
        },
    );
}

#[test]
fn bytes_that_arrive_before_the_senders_report_are_binned_later() {
    let (job, mut control) = (
        job(r#""workload": {"kind": "transfer", "bytes": 10000, "deadline_ns": 60000000000}"#),
        Control::new().unwrap(),
    );
    let mut receiver = Receiver::new(&job, Half::new(&mut control));
    receiver.clock = Clock::new(2 * SECOND, 200_000_000);
    let payload = payload(10_000);
    receiver.take(2_040_000_000, &payload[..4_000]);
    receiver.take(2_060_000_000, &payload[4_000..]);
    assert_eq!((receiver.in_order_bytes, receiver.half.ending()), (0, None));
    // The first request was lost: the connection was requested at 0.85 s of this clock.
    receiver.align(Handshake { handshake_ns: 1_050_000_000, rtt_ns: 0 });
    receiver.check_time(2_070_000_000);
    assert_eq!(receiver.half.ending(), Some(&Ending::Complete));
    assert_eq!(receiver.completion_ns(), Some(1_210_000_000));
    assert_eq!(receiver.bins.until(1_210_000_000)[11..], [4_000, 6_000]);
}

/// Two messages of 100 bytes, 50 ms apart.
const MESSAGES: &str = r#""workload": {"kind": "messages", "bytes": 100, "interval_ns": 50000000,
    "duration_ns": 100000000, "patience_ns": 1000000000}"#;

#[test]
fn messages_have_delays_since_each_was_due() {
    taken((MESSAGES, 20_000_000), &payload(100), 1, |receiver| {
        receiver.take(95_000_000, &payload(199)[100..]);
        assert_eq!(receiver.delays.as_ref().unwrap().all(), [20_000_000]);
        assert_eq!((receiver.completion_ns(), receiver.half.ending()), (None, None));
        receiver.take(97_000_000, &payload(200)[199..]);
        assert_eq!(receiver.delays.as_ref().unwrap().all(), [20_000_000, 47_000_000]);
        assert_eq!(receiver.half.ending(), Some(&Ending::Complete));
        assert_eq!(receiver.completion_ns(), Some(97_000_000));
    });
}

#[test]
fn messages_that_arrive_before_the_senders_report_have_the_same_delays() {
    let (job, mut control) = (job(MESSAGES), Control::new().unwrap());
    let mut receiver = Receiver::new(&job, Half::new(&mut control));
    // Accepted half a round trip after it was established.
    receiver.clock = Clock::new(2 * SECOND, 200_000_000);
    receiver.take(2 * SECOND, &payload(100));
    receiver.take(2_090_000_000, &payload(200)[100..]);
    assert!(receiver.delays.as_ref().unwrap().all().is_empty());
    receiver.align(Handshake { handshake_ns: 1_200_000_000, rtt_ns: 200_000_000 });
    assert_eq!(receiver.delays.as_ref().unwrap().all(), [100_000_000, 140_000_000]);
}

#[test]
fn messages_that_do_not_arrive_end_it_after_the_patience() {
    let goal = MESSAGES.replace("1000000000", "2000000000");
    assert_eq!(checked(&goal, 2_099_999_999), None);
    let ending = checked(&goal, 2_100_000_000);
    assert!(matches!(ending, Some(Ending::Incomplete(reason)) if reason.contains("of 200 bytes")));
}

#[test]
fn without_the_senders_report_there_is_no_result() {
    let (job, mut control) = (
        job(r#""workload": {"kind": "transfer", "bytes": 100, "deadline_ns": 60000000000}"#),
        Control::new().unwrap(),
    );
    let mut receiver = Receiver::new(&job, Half::new(&mut control));
    receiver.take(SECOND, &payload(100));
    receiver.check_time(2 * SECOND);
    assert_eq!(receiver.half.ending(), None);
    receiver.check_time(SECOND + ALIGN_PATIENCE_NS);
    assert!(matches!(receiver.half.ending(), Some(Ending::Failed(_))));
}

/// The ending at `now_ns` of a connection on which bytes last arrived at 1 s.
fn checked(goal: &str, now_ns: u64) -> Option<Ending> {
    taken((goal, 0), &[], 1, |receiver| {
        receiver.progress_ns = SECOND;
        receiver.check_time(now_ns);
        receiver.half.ending().cloned()
    })
}

#[test]
fn a_stall_is_reported_with_its_beginning() {
    let goal = r#""workload": {"kind": "bulk", "duration_ns": 30000000000}"#;
    assert_eq!(checked(goal, 6 * SECOND - 1), None);
    let ending = checked(goal, 6 * SECOND);
    assert!(
        matches!(ending, Some(Ending::Stalled(reason)) if reason.starts_with("stalled at 1.000 s"))
    );
}

#[test]
fn the_end_of_the_duration_comes_before_a_stall() {
    assert_eq!(
        checked(r#""workload": {"kind": "bulk", "duration_ns": 6000000000}"#, 6 * SECOND),
        Some(Ending::Complete)
    );
}

#[test]
fn a_transfer_has_a_deadline() {
    let ending = checked(
        r#""workload": {"kind": "transfer", "bytes": 5, "deadline_ns": 60000000000}"#,
        60 * SECOND,
    );
    assert!(matches!(ending, Some(Ending::Incomplete(reason)) if reason.contains("deadline")));
}
