//! Whole connections over all effects of links: throughput and delay follow the trace, the schedule, the queue; every
//! byte arrives once on any network; and a trial that cannot continue stops.

use crate::common::*;
use mptune_core::congestion;
use mptune_core::network::{
    AqmSpec, BucketSpec, CodelSpec, FqCodelSpec, GilbertElliottSpec, LinkSpec, OnOffSpec, RedSpec,
    ReorderSpec, ScheduleSpec, StepMarkingSpec, StepSpec, UdpSpec,
};
use mptune_core::network::{Lengths, NetworkSpec};
use mptune_core::trial::Outcome;
use mptune_core::units::{MILLISECOND, SECOND};
use proptest::prelude::*;

const MS: u64 = MILLISECOND;

/// One connection over one path for this long.
fn over(link: LinkSpec, cc: &str, seconds: u64) -> Outcome {
    run(&trial(disjoint(&[link]), cc, 16 * MIB, seconds))
}

/// Smoothed RTT at the end, ms.
fn rtt_ms(outcome: &Outcome) -> f64 {
    outcome.subflows[0].srtt_ns as f64 / MS as f64
}

fn rate_step(at_ns: u64, mbps: u64) -> StepSpec {
    StepSpec { at_ns, rate_bps: Some(mbps * 1_000_000), ..StepSpec::default() }
}

#[test]
fn a_trace_carries_one_packet_per_line() {
    // 10 lines in 12 ms: 10 Mbit/s on average, 5 of them in the last 2 ms.
    let trace_ms = Some(vec![1, 3, 5, 7, 9, 11, 11, 12, 12, 12]);
    let queue_bytes = Some(150_000);
    let traced = LinkSpec { rate_bps: None, trace_ms, queue_bytes, ..link(1.0, 20.0) };
    let outcome = over(traced, "cubic", 30);
    let share = mbps(&outcome) / (10.0 * PAYLOAD_SHARE);
    assert!((0.95..=1.0001).contains(&share), "{share}");
}

#[test]
fn throughput_follows_a_scheduled_rate() {
    let steps = vec![rate_step(0, 10), rate_step(10 * SECOND, 40)];
    let schedule = Some(ScheduleSpec { steps, period_ns: Some(20 * SECOND) });
    let scheduled = LinkSpec { schedule, ..queued(link(10.0, 10.0), 20.0, 2.0) };
    let outcome = over(scheduled, "cubic", 60);
    for (from, rate) in [(22, 10.0), (35, 40.0), (42, 10.0), (55, 40.0)] {
        let share =
            mbps_between(&outcome, from * SECOND, (from + 4) * SECOND) / rate / PAYLOAD_SHARE;
        assert!((0.9..1.01).contains(&share), "{share} of {rate} Mbit/s from {from} s");
    }
}

#[test]
fn a_rate_that_stays_zero_ends_the_trial_with_the_bytes_delivered_before() {
    let schedule = Some(ScheduleSpec { steps: vec![rate_step(2 * SECOND, 0)], period_ns: None });
    let dead = LinkSpec { schedule, ..queued(link(10.0, 10.0), 20.0, 1.0) };
    let saturated =
        trial(disjoint(std::slice::from_ref(&dead)), "cubic", MIB, 30).run().expect("valid");
    assert!(mbps_between(&saturated, SECOND, 2 * SECOND) > 5.0);
    assert_eq!(mbps_between(&saturated, 3 * SECOND, 30 * SECOND), 0.0);
    let mut spec = transfer(trial(disjoint(&[dead]), "cubic", MIB, 1), 1 << 24);
    within(&mut spec, 3600);
    assert!(spec.run().expect("valid").failed.is_some());
    // Nothing moves at all, not even the SYN.
    let schedule = Some(ScheduleSpec { steps: vec![rate_step(0, 0)], period_ns: None });
    let dead = LinkSpec { schedule, ..link(10.0, 10.0) };
    let outcome = trial(disjoint(&[dead]), "cubic", MIB, 30).run().expect("valid");
    assert!(outcome.failed.is_some());
}

#[test]
fn codel_holds_the_queue_at_its_target_where_drop_tail_fills_it() {
    let bloated = || queued(link(20.0, 20.0), 40.0, 10.0);
    let codel = AqmSpec::Codel(CodelSpec { target_ns: 5 * MS, interval_ns: 100 * MS, ecn: false });
    let managed = over(LinkSpec { aqm: Some(codel), ..bloated() }, "reno", 60);
    let plain = over(bloated(), "reno", 60);
    assert!(rtt_ms(&plain) > 200.0, "{}", rtt_ms(&plain));
    assert!(rtt_ms(&managed) < 40.0 + 15.0, "{}", rtt_ms(&managed));
    assert!(mbps(&managed) > 0.75 * mbps(&plain), "{} of {}", mbps(&managed), mbps(&plain));
}

#[test]
fn ecn_takes_the_place_of_losses() {
    let codel = CodelSpec { target_ns: 5 * MS, interval_ns: 100 * MS, ecn: true };
    let red = RedSpec {
        min_bytes: 30_000,
        max_bytes: 150_000,
        max_ppb: 100_000_000,
        weight_ppb: 2_000_000,
        gentle: true,
        ecn: true,
    };
    for aqm in [AqmSpec::Codel(codel), AqmSpec::Red(red)] {
        let managed = LinkSpec { aqm: Some(aqm.clone()), ..queued(link(20.0, 20.0), 40.0, 10.0) };
        let run_with = |ecn| {
            let mut spec = trial(disjoint(std::slice::from_ref(&managed)), "reno", 16 * MIB, 60);
            spec.members.ecn = ecn;
            run(&spec)
        };
        let (marked, dropped) = (run_with(true), run_with(false));
        let repairs = |outcome: &Outcome| outcome.subflows[0].retransmitted;
        assert!(repairs(&marked) * 4 < repairs(&dropped), "{aqm:?}: {}", repairs(&marked));
        assert!(mbps(&marked) > 0.9 * mbps(&dropped), "{aqm:?}");
        assert!(rtt_ms(&marked) < 90.0, "{aqm:?}: {}", rtt_ms(&marked));
    }
}

/// RFC 8257 section 3 and the DCTCP paper (2010): with a threshold K above a seventh of the
/// bandwidth-delay product the queue stays near K and the line full.
#[test]
fn dctcp_keeps_the_queue_at_the_threshold() {
    let product = 100.0e6 / 8.0 * 0.01;
    let mark_bytes = (product / 3.0) as u64;
    let aqm = Some(AqmSpec::Step(StepMarkingSpec { mark_bytes }));
    let marking = LinkSpec { aqm, ..queued(link(100.0, 5.0), 10.0, 10.0) };
    let outcome = over(marking, "dctcp", 20);
    let share = mbps_between(&outcome, 5 * SECOND, 20 * SECOND) / 100.0 / PAYLOAD_SHARE;
    assert!(share > 0.97, "{share}");
    // K is 3.3 ms of queue.
    assert!((11.0..15.0).contains(&rtt_ms(&outcome)), "{}", rtt_ms(&outcome));
}

#[test]
fn losses_in_bursts_cost_less_than_the_same_losses_apart() {
    let bursts = GilbertElliottSpec {
        enter_ppb: 250_000,
        leave_ppb: 100_000_000,
        good_loss_ppb: 0,
        bad_loss_ppb: 1_000_000_000,
    };
    // Bad for 0.00025 of 0.10025 of the packets, and then all are lost.
    let loss = 0.00025 / 0.10025;
    let burst = LinkSpec { gilbert_elliott: Some(bursts), ..link(1000.0, 10.0) };
    let apart = over(lossy(link(1000.0, 10.0), loss), "reno", 60);
    let together = over(burst, "reno", 60);
    // A burst of ten losses is one congestion event: the square-root law gives sqrt(10) = 3.2 times
    // the rate, less what timeouts take.
    let gain = mbps(&together) / mbps(&apart);
    assert!((1.5..4.0).contains(&gain), "{gain}");
}

#[test]
fn a_little_reordering_is_no_loss() {
    // 1 % of the packets a quarter of the RTT late: RACK waits that long (RFC 8985 section 6.2).
    let reorder = Some(ReorderSpec { probability_ppb: 10_000_000, delay_ns: 5 * MS });
    let mixed = over(LinkSpec { reorder, ..queued(link(20.0, 10.0), 20.0, 2.0) }, "reno", 30);
    let ordered = over(queued(link(20.0, 10.0), 20.0, 2.0), "reno", 30);
    assert!(mbps(&mixed) > 0.8 * mbps(&ordered), "{} of {}", mbps(&mixed), mbps(&ordered));
}

#[test]
fn a_token_bucket_sets_the_rate_in_the_long_run_only() {
    let bucket = Some(BucketSpec { rate_bps: 10_000_000, burst_bytes: 4_000_000 });
    let shaped = LinkSpec { bucket, ..queued(link(100.0, 10.0), 20.0, 2.0) };
    let outcome = over(shaped, "cubic", 30);
    let early = mbps_between(&outcome, 0, SECOND / 5 * 2);
    let late = mbps_between(&outcome, 10 * SECOND, 30 * SECOND) / PAYLOAD_SHARE;
    assert!(early > 40.0, "{early}");
    assert!((8.5..10.01).contains(&late), "{late}");
}

#[test]
fn background_datagrams_leave_a_connection_the_rest() {
    let on_off = OnOffSpec { on_ns: 200 * MS, off_ns: 200 * MS, lengths: Lengths::Exponential };
    let udp = UdpSpec {
        rate_bps: 20_000_000,
        packet_bytes: 1500,
        on_off: Some(on_off),
        start_ns: 0,
        stop_ns: None,
    };
    let shared = LinkSpec { udp: vec![udp], ..queued(link(20.0, 10.0), 20.0, 5.0) };
    let outcome = over(shared, "cubic", 60);
    let share = mbps(&outcome) / 20.0 / PAYLOAD_SHARE;
    // Half of the rate on average, minus what is idle before the connection notices.
    assert!((0.25..0.6).contains(&share), "{share}");
}

fn small_chance() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 1u64..20_000_000]
}

prop_compose! {
    /// Any effects of a link that still let packets through.
    fn any_link()(
        mbps in 0.5f64..20.0,
        delay_ms in 0.1f64..50.0,
        packets in 10u64..200,
        queue in 0usize..6,
        outage in prop::option::of((1u64..500, 1u64..500)),
        traced in any::<bool>(),
        shaped in any::<bool>(),
        bursts in prop::option::of(1_000_000u64..5_000_000),
        late in prop::option::of(1u64..20_000_000),
        duplicate_ppb in small_chance(),
        loss_ppb in small_chance(),
        datagrams in any::<bool>(),
    ) -> LinkSpec {
        // The trace below is 5.3 Mbit/s. Background traffic leaves two thirds: a path that it starves
        // for ever is not one that lets packets through.
        let rate = if traced { 5_300_000 } else { (mbps * 1e6) as u64 };
        let (target_ns, interval_ns, ecn) = (5 * MS, 100 * MS, true);
        let aqm = match queue {
            0 => Some(AqmSpec::Codel(CodelSpec { target_ns, interval_ns, ecn })),
            1 => Some(AqmSpec::FqCodel(FqCodelSpec {
                target_ns, interval_ns, ecn, queues: 64, quantum_bytes: 1514,
            })),
            2 => Some(AqmSpec::Step(StepMarkingSpec { mark_bytes: packets * 500 })),
            3 => Some(AqmSpec::Red(RedSpec {
                min_bytes: packets * 300, max_bytes: packets * 900, max_ppb: 100_000_000,
                weight_ppb: 2_000_000, gentle: true, ecn,
            })),
            _ => None,
        };
        let steps = outage.map(|(from, length)| {
            let steps = [(0, rate), (from * MS, 0), ((from + length) * MS, rate)];
            let step = |(at_ns, rate)| StepSpec { at_ns, rate_bps: Some(rate), ..StepSpec::default() };
            ScheduleSpec { steps: steps.map(step).to_vec(), period_ns: Some(1500 * MS) }
        });
        let udp = UdpSpec {
            rate_bps: rate / 3, packet_bytes: 700, on_off: None, start_ns: SECOND / 2, stop_ns: None,
        };
        LinkSpec {
            rate_bps: (!traced).then_some(rate),
            trace_ms: traced.then(|| vec![1, 2, 2, 9]),
            schedule: steps.filter(|_| !traced),
            bucket: shaped.then_some(BucketSpec { rate_bps: rate, burst_bytes: 15_000 }),
            aqm,
            queue_bytes: Some(packets * 1500),
            gilbert_elliott: bursts.map(|enter_ppb| GilbertElliottSpec {
                enter_ppb, leave_ppb: 600_000_000, good_loss_ppb: 0, bad_loss_ppb: 500_000_000,
            }),
            reorder: late.map(|probability_ppb| ReorderSpec { probability_ppb, delay_ns: 7 * MS }),
            duplicate_ppb,
            loss_ppb,
            udp: if datagrams { vec![udp] } else { vec![] },
            ..link(mbps, delay_ms)
        }
    }
}

prop_compose! {
    /// Two access links each way between three core links, as for two interfaces and one.
    fn any_network()(links in prop::collection::vec(any_link(), 8)) -> NetworkSpec {
        let paths = vec![path(0, 0, &[0, 4, 6], &[7, 5, 1]), path(1, 0, &[2, 6], &[7, 3])];
        NetworkSpec { links, paths, ..NetworkSpec::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_whatever_the_links_do(
        network in any_network(),
        cc in prop::sample::select(congestion::NAMES),
        bytes in 1u64..150_000,
        ecn: bool,
        seed: u64,
    ) {
        let mut spec = transfer(trial(network, cc, MIB, 1), bytes);
        spec.seed = seed;
        spec.members.ecn = ecn;
        within(&mut spec, 3600);
        let outcome = spec.run().expect("a valid trial");
        prop_assert_eq!(outcome.failed.as_deref(), None);
        prop_assert_eq!(outcome.in_order_bytes, bytes);
        prop_assert_eq!(outcome.subflows.iter().map(|s| s.bytes).sum::<u64>(), bytes);
        prop_assert_eq!(outcome, spec.run().expect("a valid trial"));
    }
}
