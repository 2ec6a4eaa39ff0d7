//! Messages at fixed times against closed forms: an idle path delays each by its serialisation and propagation.

use crate::common::*;
use mptune_core::mptcp::Members;
use mptune_core::network::NetworkSpec;
use mptune_core::trial::{FailureKind, Outcome, ScriptAction, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Messages, OnOff, Workload};

/// The third packet of a handshake, directly before the first message.
const HANDSHAKE_ACK: u64 = 72;
/// Both ways in which buffers are counted, with the bytes before the payload of a packet.
const ACCOUNTINGS: [(&str, u64, u64); 2] = [("payload", 52, 1448), ("linux", 76, 1424)];

fn messages(network: NetworkSpec, accounting: &str, bytes: u64, interval_ns: Nanos) -> TrialSpec {
    let (duration_ns, patience_ns) = (5 * SECOND, 10 * SECOND);
    let messages = Messages { bytes, interval_ns, duration_ns, patience_ns, both_ways: false };
    TrialSpec {
        accounting: accounting.into(),
        scheduler: if accounting == "linux" { "kernel" } else { "minrtt" }.into(),
        members: Members { tso: accounting == "linux", ..Members::default() },
        workload: Workload::Messages(messages),
        ..trial(network, "cubic", MIB, 1)
    }
}

/// Delays in microseconds, sorted.
fn sorted_us(outcome: &Outcome) -> Vec<u64> {
    let mut delays: Vec<_> = outcome.delays_ns.iter().map(|delay| delay / 1000).collect();
    delays.sort_unstable();
    delays
}

/// Time of a packet on a 10 Mbit/s link, ns.
fn serialised(bytes: u64) -> Nanos {
    bytes * 800
}

#[test]
fn a_small_message_takes_its_serialisation_and_the_way() {
    for (accounting, header, _) in ACCOUNTINGS {
        let network = disjoint(&[link(10.0, 20.0)]);
        let outcome = run(&messages(network, accounting, 200, 100 * MILLISECOND));
        let mut expected = vec![serialised(200 + header) + 20 * MILLISECOND; 50];
        expected[0] += serialised(HANDSHAKE_ACK);
        assert_eq!(outcome.delays_ns, expected, "{accounting}");
        assert_eq!(outcome.in_order_bytes, 10_000);
    }
}

/// The same both ways.
fn both_ways(spec: TrialSpec) -> TrialSpec {
    let Workload::Messages(messages) = spec.workload else { panic!("messages") };
    TrialSpec { workload: Workload::Messages(Messages { both_ways: true, ..messages }), ..spec }
}

#[test]
fn messages_both_ways_take_as_long_there_and_back() {
    for (accounting, header, _) in ACCOUNTINGS {
        let network = disjoint(&[link(10.0, 20.0)]);
        let spec = both_ways(messages(network, accounting, 200, 100 * MILLISECOND));
        let outcome = run(&spec);
        let mut there = vec![serialised(200 + header) + 20 * MILLISECOND; 50];
        there[0] += serialised(HANDSHAKE_ACK);
        // The way back has 1 Gbit/s.
        let mut back = vec![(200 + header) * 8 + 20 * MILLISECOND; 50];
        back[0] += HANDSHAKE_ACK * 8;
        assert_eq!(outcome.delays_ns, [there, back].concat(), "{accounting}");
        assert_eq!(outcome.in_order_bytes, 10_000, "of those there");
    }
}

#[test]
fn on_linux_acks_wait_for_the_data_that_reply() {
    // As in a guest with Linux 7.3: while data are outstanding on the fast path, the scheduler takes the slow one. One way,
    // where messages are acknowledged when they are read, it never does.
    let network = disjoint(&[link(10.0, 8.0), link(10.0, 28.0)]);
    let spec = messages(network, "linux", 200, 20 * MILLISECOND);
    let slow = |outcome: &Outcome| {
        outcome.delays_ns.iter().filter(|&&delay| delay > 20 * MILLISECOND).count()
    };
    assert_eq!(slow(&run(&spec)), 0);
    let both = run(&both_ways(spec));
    assert_eq!(both.delays_ns.len(), 500);
    assert!((20..250).contains(&slow(&both)), "{}", slow(&both));
}

#[test]
fn a_trial_of_messages_both_ways_ends_with_the_last_in_either_direction() {
    for (accounting, _, _) in ACCOUNTINGS {
        // What goes there is lost from time to time, what comes back is not.
        let network = disjoint(&[lossy(link(10.0, 20.0), 0.05)]);
        let there = run(&messages(network.clone(), accounting, 200, 20 * MILLISECOND));
        let outcome = run(&both_ways(messages(network, accounting, 200, 20 * MILLISECOND)));
        assert_eq!(outcome.delays_ns.len(), 500, "{accounting}");
        let (_, back) = outcome.delays_ns.split_at(250);
        let last = back.last().expect("messages");
        assert!(outcome.completion_ns >= Some(40 * MILLISECOND + 249 * 20 * MILLISECOND + last));
        assert!(there.completion_ns.is_some() && outcome.failed.is_none());
    }
}

#[test]
fn a_message_of_several_packets_arrives_with_the_last() {
    for (accounting, header, full) in ACCOUNTINGS {
        let network = disjoint(&[link(10.0, 20.0)]);
        let outcome = run(&messages(network, accounting, 4_000, 100 * MILLISECOND));
        // Three packets at once, as cwnd allows.
        assert_eq!(4_000_u64.div_ceil(full), 3);
        let mut expected = vec![serialised(4_000 + 3 * header) + 20 * MILLISECOND; 50];
        expected[0] += serialised(HANDSHAKE_ACK);
        assert_eq!(outcome.delays_ns, expected, "{accounting}");
    }
}

#[test]
fn on_linux_messages_are_acknowledged_as_soon_as_they_are_read() {
    // With delayed ACKs the kernel's scheduler would find data outstanding on the fast path, and take the slow one.
    let network = disjoint(&[link(10.0, 8.0), link(10.0, 28.0)]);
    let outcome = run(&messages(network, "linux", 200, 20 * MILLISECOND));
    let latest = outcome.delays_ns.iter().max().expect("delays");
    assert!(*latest < 9 * MILLISECOND, "{latest}");
}

#[test]
fn messages_beyond_the_rate_queue_and_count_from_when_they_were_due() {
    for (accounting, _, _) in ACCOUNTINGS {
        // 12,500 bytes every 10 ms are 10 Mbit/s of payload, on 8 Mbit/s.
        let network = disjoint(&[queued(link(8.0, 20.0), 40.0, 4.0)]);
        let outcome = run(&messages(network, accounting, 12_500, 10 * MILLISECOND));
        let (first, last) = (outcome.delays_ns[0], *outcome.delays_ns.last().expect("delays"));
        // All of it takes at least 5 s * 10 / 8; the last was due after 5 s.
        assert!(first < 100 * MILLISECOND && last > 1_250 * MILLISECOND, "{accounting}: {last}");
        assert_eq!(outcome.delays_ns.len(), 500);
        assert_eq!(outcome.completion_ns, Some(outcome.duration_ns));
    }
}

#[test]
fn a_lost_packet_delays_those_behind_it_and_nothing_is_left_out() {
    for (accounting, header, _) in ACCOUNTINGS {
        let network = disjoint(&[lossy(link(10.0, 20.0), 0.05)]);
        let outcome = run(&messages(network, accounting, 200, 20 * MILLISECOND));
        let delays = sorted_us(&outcome);
        assert_eq!(delays.len(), 250);
        let least = (serialised(200 + header) + 20 * MILLISECOND) / 1000;
        assert_eq!(delays[0], least, "{accounting}");
        // Every loss costs at least an RTT more.
        assert!(delays[249] > least + 40_000, "{accounting}: {}", delays[249]);
        assert_eq!(outcome.in_order_bytes, 50_000);
    }
}

#[test]
fn messages_that_never_arrive_fail_the_trial_with_the_delays_of_the_others() {
    for (accounting, _, _) in ACCOUNTINGS {
        let mut spec = messages(disjoint(&[link(10.0, 20.0)]), accounting, 200, 100 * MILLISECOND);
        spec.script = vec![at(2, 0, ScriptAction::Down)];
        let outcome = spec.run().expect("a valid trial");
        let kind = outcome.failed_kind;
        assert!(matches!(kind, Some(FailureKind::Incomplete | FailureKind::Stalled)), "{kind:?}");
        assert!((19..=20).contains(&outcome.delays_ns.len()), "{}", outcome.delays_ns.len());
        assert_eq!(outcome.completion_ns, None);
    }
}

#[test]
fn a_dead_path_delays_messages_until_another_takes_over() {
    for (accounting, _, _) in ACCOUNTINGS {
        let network = disjoint(&[link(10.0, 5.0), link(10.0, 30.0)]);
        let mut spec = messages(network, accounting, 200, 20 * MILLISECOND);
        spec.script = vec![at(2, 0, ScriptAction::Down)];
        let outcome = run(&spec);
        let worst = outcome.delays_ns.iter().max().expect("delays");
        assert!((200 * MILLISECOND..2 * SECOND).contains(worst), "{accounting}: {worst}");
        let last = *outcome.delays_ns.last().expect("delays");
        assert!((30 * MILLISECOND..32 * MILLISECOND).contains(&last), "{accounting}: {last}");
    }
}

#[test]
fn other_workloads_have_no_delays() {
    let outcome = run(&trial(disjoint(&[link(10.0, 20.0)]), "cubic", MIB, 1));
    assert!(outcome.delays_ns.is_empty());
    assert!(!serde_json::to_string(&outcome).expect("JSON").contains("delays"));
}

#[test]
fn a_burst_on_an_idle_path_takes_its_serialisation_and_the_way() {
    for (accounting, header, _) in ACCOUNTINGS {
        let mut spec = messages(disjoint(&[link(10.0, 20.0)]), accounting, 1, SECOND);
        let (gap_ns, duration_ns) = (200 * MILLISECOND, 100 * SECOND);
        spec.workload = Workload::OnOff(OnOff::new(300, gap_ns, duration_ns, 10 * SECOND));
        let outcome = run(&spec);
        let pieces = &outcome.pieces;
        assert_eq!(pieces.len(), outcome.delays_ns.len());
        assert_eq!(outcome.in_order_bytes, pieces.iter().map(|piece| piece.bytes).sum::<u64>());
        // Those of a packet, behind a burst that has been acknowledged.
        let alone = (1..pieces.len()).filter(|&place| {
            let since_ns = pieces[place].at_ns - pieces[place - 1].at_ns;
            pieces[place].bytes <= 1_400 && since_ns > 100 * MILLISECOND
        });
        let alone: Vec<_> = alone.collect();
        assert!(alone.len() > 200, "{}", alone.len());
        for place in alone {
            let expected = serialised(pieces[place].bytes + header) + 20 * MILLISECOND;
            assert_eq!(outcome.delays_ns[place], expected, "{accounting}, {place}");
        }
        assert_eq!(run(&TrialSpec { seed: 1, ..spec.clone() }).pieces, *pieces);
        assert_ne!(run(&TrialSpec { seed: 2, ..spec }).pieces, *pieces);
    }
}
