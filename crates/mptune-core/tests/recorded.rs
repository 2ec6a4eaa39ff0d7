//! A recorded trial: the outcome of the trial itself, and every packet once.

use crate::common::{MIB, disjoint, link, lossy, queued, trial};
use mptune_core::mptcp::Protocol;
use mptune_core::network::{GilbertElliottSpec, NetworkSpec};
use mptune_core::recording::{NONE, RECORD_BYTES};
use mptune_core::trial::{Outcome, Recorded, Recording, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

const RECORDING: Recording = Recording { packets: 1 << 20, spacing: 10 * MILLISECOND };

fn network() -> NetworkSpec {
    let fast = queued(link(20.0, 10.0), 20.0, 1.0);
    let slow = lossy(queued(link(8.0, 30.0), 60.0, 0.5), 0.002);
    let mut network = disjoint(&[fast, slow]);
    // A composite link beside the plain ones.
    network.links[3].gilbert_elliott = Some(GilbertElliottSpec {
        enter_ppb: 1_000_000,
        leave_ppb: 500_000_000,
        good_loss_ppb: 0,
        bad_loss_ppb: 500_000_000,
    });
    network
}

fn linux(mut trial: TrialSpec) -> TrialSpec {
    (trial.accounting, trial.scheduler) = ("linux".into(), "kernel".into());
    trial
}

fn recorded(trial: &TrialSpec) -> (Outcome, Recorded) {
    trial.run_recorded(RECORDING).expect("a valid trial")
}

/// One number of each record.
fn column<const N: usize>(recorded: &Recorded, at: usize) -> Vec<u64> {
    let number = |record: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&record[at..at + N]);
        u64::from_le_bytes(bytes)
    };
    recorded.records.chunks(RECORD_BYTES).map(number).collect()
}

#[test]
fn the_outcome_is_that_of_the_trial_without_a_recording() {
    for cc in ["reno", "olia", "bbr"] {
        let plain = trial(network(), cc, MIB, 5);
        for trial in [linux(plain.clone()), plain] {
            let alone = trial.run().expect("a valid trial");
            let (mut outcome, _) = recorded(&trial);
            outcome.events = alone.events;
            assert_eq!(outcome, alone, "{cc}");
        }
    }
}

#[test]
fn every_packet_is_there_once_with_its_fate() {
    let trial = linux(trial(network(), "cubic", MIB, 5));
    let (outcome, recorded) = recorded(&trial);
    let (fates, routes, links) =
        (column::<1>(&recorded, 85), column::<1>(&recorded, 82), column::<1>(&recorded, 86));
    let lengths = column::<2>(&recorded, 76);
    let [entered, left] = [0, 8].map(|at| column::<8>(&recorded, at));
    assert!(entered.is_sorted() && entered.iter().zip(&left).all(|(a, b)| a <= b));
    for path in 0..2 {
        let of_path = |i: &usize| routes[*i] == 2 * path as u64 && lengths[*i] > 0;
        let sent = (0..fates.len()).filter(of_path);
        assert_eq!(sent.count() as u64, outcome.subflows[path].sent);
    }
    // Queues and wires lose on the slow path in both directions, on the fast one only its queue does.
    for (fate, link, some) in
        [(2, 0, true), (3, 0, false), (2, 2, true), (3, 2, true), (3, 3, true)]
    {
        let count = (0..fates.len()).filter(|&i| fates[i] == fate && links[i] == link).count();
        assert_eq!(count > 0, some, "fate {fate} on link {link}");
    }
    assert!((0..fates.len()).all(|i| (left[i] == NONE) == (fates[i] == 0)));
    let late = |i: &usize| fates[*i] == 0 && entered[*i] + SECOND / 2 < 5 * SECOND;
    assert_eq!((0..fates.len()).filter(late).count(), 0, "nothing stays on the way");
}

#[test]
fn positions_are_bytes_and_the_bytes_in_order_are_those_delivered() {
    let trial = linux(trial(network(), "reno", MIB / 4, 5));
    let (outcome, recorded) = recorded(&trial);
    let (fates, left) = (column::<1>(&recorded, 85), column::<8>(&recorded, 8));
    let (data, lengths) = (column::<8>(&recorded, 32), column::<2>(&recorded, 76));
    let mut arrived: Vec<(u64, u64)> = (0..fates.len())
        .filter(|&i| fates[i] == 1 && lengths[i] > 0 && left[i] <= 5 * SECOND)
        .map(|i| (data[i], lengths[i]))
        .collect();
    arrived.sort_unstable();
    let mut next = 0;
    for (start, length) in arrived {
        if start > next {
            break;
        }
        next = next.max(start + length);
    }
    let difference = outcome.in_order_bytes.abs_diff(next);
    assert_eq!(difference, 0, "{next} of {}", outcome.in_order_bytes);
}

#[test]
fn delivered_segments_are_not_sent_again_after_a_slow_start_that_overran_the_queue() {
    // Half the window is lost, in many small gaps. Linux holds back acknowledgements of a gap, but none of a range
    // that later ones may not report (`tcp_sack_new_ofo_skb`): on 6.18, 336 segments lost and 336 sent again.
    let queue = queued(link(100.0, 10.0), 20.0, 1.0);
    let trial = linux(trial(disjoint(&[queue]), "reno", 4 * MIB, 1));
    let (outcome, recorded) = recorded(&trial);
    let (fates, lengths) = (column::<1>(&recorded, 85), column::<2>(&recorded, 76));
    let dropped = (0..fates.len()).filter(|&i| fates[i] == 2 && lengths[i] > 0).count() as u64;
    assert!(dropped > 100, "{dropped}");
    assert_eq!(outcome.subflows[0].retransmitted, dropped);
}

#[test]
fn a_limit_keeps_the_first_packets_and_counts_the_others() {
    let trial = linux(trial(network(), "reno", MIB, 1));
    let (_, all) = recorded(&trial);
    let (_, some) = trial.run_recorded(Recording { packets: 100, ..RECORDING }).expect("valid");
    let total = all.records.len() / RECORD_BYTES;
    assert_eq!(some.records.len(), 100 * RECORD_BYTES);
    assert_eq!((all.omitted, some.omitted), (0, total as u64 - 100));
}

#[test]
fn samples_have_the_requested_interval() {
    let trial = linux(trial(network(), "reno", MIB, 1));
    let (_, recorded) = recorded(&trial);
    let times: Vec<_> = recorded.samples.iter().map(|sample| sample.t_ns).collect();
    assert!(times.iter().all(|t| t % (10 * MILLISECOND) == 0) && times.last() == Some(&SECOND));
    assert!(recorded.samples.iter().any(|sample| sample.path == 1 && sample.ssthresh.is_some()));
}

/// Sizes of the first four packets of a flow, and their times.
fn first_packets(recorded: &Recorded, flow: u64) -> (Vec<u64>, Vec<u64>) {
    let [flows, sizes] = [80, 78].map(|at| column::<2>(recorded, at));
    let times = column::<8>(recorded, 0);
    let of_flow = (0..flows.len()).filter(|&i| flows[i] == flow);
    of_flow.map(|i| (sizes[i], times[i])).take(4).unzip()
}

#[test]
fn handshakes_have_the_packets_and_the_sizes_of_linux() {
    // RFC 8684 figures 4 to 8 with the TCP options of Linux; a guest's kernel sends the same (tests/virtual).
    let mut trial = linux(trial(network(), "reno", MIB, 2));
    let (_, both) = recorded(&trial);
    let (sizes, times) = first_packets(&both, 0);
    assert_eq!(sizes, [64, 72, 72, 1500]);
    assert_eq!(times[2], times[3], "data follows the third packet at once");
    assert_eq!(first_packets(&both, 1).0, [72, 76, 76, 64]);
    (trial.protocol, trial.pm) = (Protocol::Tcp, "default".into());
    assert_eq!(first_packets(&recorded(&trial).1, 0).0, [60, 60, 52, 1500]);
}
