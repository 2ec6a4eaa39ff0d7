//! Segments that leave in bursts, as with segmentation offload.

mod common;

use common::*;
use mptune_core::trial::{Outcome, TrialSpec};

/// One path with a queue of this many packets.
fn outcome(mbps: f64, rtt_ms: f64, packets: u64, tso: bool) -> Outcome {
    let mut bottleneck = link(mbps, rtt_ms / 2.0);
    bottleneck.queue_bytes = Some(packets * 1500);
    let spec = trial(disjoint(&[bottleneck]), "reno", 16 * MIB, 60);
    run(&TrialSpec { tso, pm: "default".into(), ..spec })
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
