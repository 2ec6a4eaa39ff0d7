//! Segments that leave in bursts, as with segmentation offload and from the send queues of Linux.

use crate::common::*;
use mptune_core::mptcp::Members;
use mptune_core::recording::RECORD_BYTES;
use mptune_core::trial::{Outcome, Recording, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

/// One path with a queue of this many packets.
fn outcome(mbps: f64, rtt_ms: f64, packets: u64, tso: bool) -> Outcome {
    let mut bottleneck = link(mbps, rtt_ms / 2.0);
    bottleneck.queue_bytes = Some(packets * 1500);
    let spec = trial(disjoint(&[bottleneck]), "reno", 16 * MIB, 60);
    let members = Members { tso, ..spec.members };
    run(&TrialSpec { members, pm: "default".into(), ..spec })
}

#[test]
fn bursts_overflow_a_short_queue_and_a_long_one_does_not_notice() {
    // Linux `tcp_tso_autosize`: at 100 Mbit/s a burst is a millisecond, about 9 packets.
    let short = [false, true].map(|tso| mbps(&outcome(100.0, 20.0, 6, tso)));
    assert!(short[1] < 0.9 * short[0], "{short:?}");
    let long = [false, true].map(|tso| mbps(&outcome(100.0, 20.0, 200, tso)));
    assert!((long[1] / long[0] - 1.0).abs() < 0.05, "{long:?}");
}

#[test]
fn a_slow_path_has_no_bursts_to_speak_of() {
    // At 5 Mbit/s a packet takes 2.4 ms: no burst is longer than two.
    let rates = [false, true].map(|tso| mbps(&outcome(5.0, 40.0, 10, tso)));
    assert!((rates[1] / rates[0] - 1.0).abs() < 0.05, "{rates:?}");
}

#[test]
fn every_packet_of_a_burst_is_accounted_for() {
    let burst = outcome(100.0, 20.0, 30, true);
    let [subflow] = &burst.subflows[..] else { panic!("one subflow") };
    assert!(subflow.sent >= subflow.bytes / u64::from(MSS));
    assert!(subflow.sent - subflow.retransmitted <= subflow.bytes / u64::from(MSS) + 400);
    assert!(mbps(&burst) <= 100.0 * PAYLOAD_SHARE);
}

/// Mean number of segments that leave at the same time under Linux' scheduler, after 2 s.
fn mean_burst(mbps: f64, buffer_bytes: u64) -> f64 {
    let bottleneck = queued(link(mbps, 10.0), 20.0, 2.0);
    let mut spec = trial(disjoint(&[bottleneck]), "vegas", buffer_bytes, 4);
    (spec.accounting, spec.scheduler, spec.pm) =
        ("linux".into(), "kernel".into(), "default".into());
    let recording = Recording { packets: 1 << 20, spacing: SECOND };
    let (_, recorded) = spec.run_recorded(recording).expect("a valid trial");
    let mut departures: Vec<u64> = recorded
        .records
        .chunks(RECORD_BYTES)
        .filter(|record| record[82] == 0 && u16::from_le_bytes([record[76], record[77]]) > 0)
        .map(|record| u64::from_le_bytes(record[..8].try_into().expect("8 bytes")))
        .filter(|&at| at > 2000 * MILLISECOND)
        .collect();
    let segments = departures.len() as f64;
    departures.dedup();
    segments / departures.len() as f64
}

#[test]
fn a_send_queue_of_linux_is_emptied_in_bursts_of_a_millisecond() {
    // `tcp_tso_autosize` at 1.2 windows in an RTT: 100 Mbit/s are 8.3 segments in 1/1024 s, so 9. Sending each segment
    // as soon as there is room would give pairs, one per ACK. Recorded on Linux 6.18 at
    // 98 Mbit/s and 19 ms with a window of 83 segments: 5 at once.
    let whole = mean_burst(100.0, 16 * MIB);
    assert!((7.0..9.5).contains(&whole), "{whole}");
    // At 10 Mbit/s it is the smallest burst.
    let slow = mean_burst(10.0, 16 * MIB);
    assert!((1.8..2.3).contains(&slow), "{slow}");
}

#[test]
fn segments_released_by_the_receivers_window_also_wait_for_a_burst() {
    // 100 KiB hold 88 full segments (158 of 256 bytes of twice that are payload): 5.2 in 1/1024 s.
    let limited = mean_burst(100.0, 100 << 10);
    assert!((4.0..5.5).contains(&limited), "{limited}");
}
