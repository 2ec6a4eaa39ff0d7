//! The rule against a network of one formula: `r = min(B / (2 RTT), rate)`.

use super::*;
use proptest::prelude::*;

const KIB: Bytes = 1 << 10;
const MIB: Bytes = 1 << 20;
const BOUNDS: Bounds = Bounds { least: 64 * KIB, most: 16 * MIB, target: 0.95 };

/// A path of a rate (Mbit/s) and an RTT (s), and a program that always has more to send.
#[derive(Debug, Clone, Copy)]
struct Network {
    mbit_s: f64,
    rtt_s: f64,
}

impl Network {
    /// Throughput with a buffer there, Mbit/s.
    fn throughput(&self, buffer: Bytes) -> f64 {
        (buffer as f64 * 8e-6 / MEMORY / self.rtt_s).min(self.mbit_s)
    }

    fn seen(&self, buffer: Bytes) -> Seen {
        let mbit_s = self.throughput(buffer);
        let limited = if mbit_s < self.mbit_s { 1.0 - mbit_s / self.mbit_s } else { 0.0 };
        let pipe_bytes = mbit_s / 8e-6 * self.rtt_s;
        Seen { mbit_s, pipe_bytes, saturated: 1.0, limited }
    }

    fn curve(&self) -> Curve {
        let knee = (MEMORY * self.mbit_s / 8e-6 * self.rtt_s) as Bytes;
        let sizes = [1, knee.max(2), 1 << 40];
        Curve::new(sizes.map(|buffer| (buffer, self.throughput(buffer))).to_vec()).unwrap()
    }
}

const FAR: Network = Network { mbit_s: 80.0, rtt_s: 0.1 };
const NEAR: Network = Network { mbit_s: 80.0, rtt_s: 0.01 };

fn steps(rule: &mut Rule, network: Network, curve: Option<&Curve>, intervals: u32) -> Vec<Bytes> {
    let step = |_| {
        let seen = [network.seen(rule.limit())];
        rule.step(&[Destination { curve, seen: &seen }]).limit
    };
    (0..intervals).map(step).collect()
}

fn rule(limit: Bytes) -> Rule {
    Rule::new(Side::Send, BOUNDS, limit)
}

#[test]
fn a_low_limit_rises_to_what_the_curve_needs_and_no_further() {
    let (curve, mut rule) = (FAR.curve(), rule(64 * KIB));
    let limits = steps(&mut rule, FAR, Some(&curve), 20);
    assert_eq!(limits[..4], [128 * KIB, 256 * KIB, 512 * KIB, MIB]);
    let wanted = curve.smallest(0.95 * 80.0, BOUNDS.least, BOUNDS.most).unwrap();
    assert_eq!(limits[19], wanted.next_multiple_of(PAGE));
    assert!(FAR.throughput(rule.limit()) >= 0.95 * 80.0);
}

#[test]
fn without_a_curve_it_rises_until_the_network_limits() {
    let mut rule = rule(64 * KIB);
    let limits = steps(&mut rule, FAR, None, 20);
    assert_eq!(limits[19], 2 * MIB);
    assert_eq!(FAR.throughput(limits[19]), 80.0);
}

#[test]
fn it_never_grows_more_than_twofold_and_falls_by_an_eighth_at_most() {
    let curve = FAR.curve();
    for start in [64 * KIB, 16 * MIB] {
        let mut rule = rule(start);
        let mut before = start;
        for network in [FAR, NEAR, FAR] {
            for limit in steps(&mut rule, network, Some(&curve), 100) {
                assert!(limit <= 2 * before && limit >= before / 8 * 7, "{before} {limit}");
                before = limit;
            }
        }
    }
}

#[test]
fn a_high_limit_falls_slowly_to_what_is_needed() {
    let curve = NEAR.curve();
    let mut rule = rule(6 * MIB);
    let limits = steps(&mut rule, NEAR, Some(&curve), 100);
    assert_eq!(limits[..5], [6 * MIB; 5]);
    assert_eq!(limits[5], 6 * MIB / 8 * 7);
    // The curve's answer is 190 kB, the pipe of 80 Mbit/s and 10 ms twice is 200 kB.
    assert_eq!(limits[99], 200_000_u64.next_multiple_of(PAGE));
    assert!(NEAR.throughput(limits[99]) >= 0.95 * 80.0);
}

#[test]
fn after_a_rise_it_rests_before_it_falls() {
    let mut rule = rule(64 * KIB);
    steps(&mut rule, FAR, None, 6);
    let risen = rule.limit();
    let limits = steps(&mut rule, NEAR, None, 40);
    let fell = limits.iter().position(|&limit| limit < risen).unwrap();
    assert!((28..31).contains(&fell), "{fell}");
}

#[test]
fn between_the_two_shares_nothing_changes() {
    let mut rule = rule(MIB);
    for share in [0.021, 0.03, 0.049] {
        let seen = [Seen { limited: share, saturated: 1.0, mbit_s: 5.0, pipe_bytes: 1e3 }];
        for _ in 0..20 {
            let verdict = rule.step(&[Destination { curve: None, seen: &seen }]);
            assert_eq!(verdict.limit, MIB);
        }
    }
    assert_eq!(
        rule.step(&[Destination {
            curve: None,
            seen: &[Seen { limited: 0.06, ..Seen::default() }]
        }])
        .limit,
        2 * MIB
    );
}

#[test]
fn time_that_the_program_limits_changes_nothing() {
    let mut rule = rule(MIB);
    let seen = [Seen { mbit_s: 0.1, pipe_bytes: 10.0, saturated: 0.2, limited: 0.0 }];
    for _ in 0..100 {
        assert_eq!(rule.step(&[Destination { curve: None, seen: &seen }]).limit, MIB);
    }
    assert_eq!(rule.step(&[]).why, "no connection shows what it needs");
}

#[test]
fn a_rise_that_brings_nothing_is_taken_back_and_not_repeated_at_once() {
    let mut rule = rule(MIB);
    let stuck = [Seen { mbit_s: 20.0, pipe_bytes: 1e5, saturated: 1.0, limited: 0.6 }];
    let mut step = || rule.step(&[Destination { curve: None, seen: &stuck }]);
    assert_eq!(step().limit, 2 * MIB);
    assert_eq!(step().limit, 2 * MIB);
    let back = step();
    assert_eq!(back.limit, MIB);
    assert_eq!(
        back.why,
        "2 MiB instead of 1 MiB brought nothing: 20 Mbit/s before, 20 Mbit/s then"
    );
    for _ in 0..29 {
        assert_eq!(step().limit, MIB);
    }
    assert_eq!(step().limit, 2 * MIB);
}

#[test]
fn what_the_curve_promises_needs_no_proof_and_one_poor_interval_no_fall() {
    let curve = FAR.curve();
    let mut rule = rule(256 * KIB);
    let seen = |mbit_s, limited| [Seen { mbit_s, pipe_bytes: 1e4, saturated: 1.0, limited }];
    let mut step = |mbit_s, limited| {
        let seen = seen(mbit_s, limited);
        rule.step(&[Destination { curve: Some(&curve), seen: &seen }]).limit
    };
    // Throughputs that scatter, and do not grow, below what the curve wants: 1.9 MB.
    assert_eq!(step(10.0, 0.9), 512 * KIB);
    assert_eq!(step(6.0, 0.9), MIB);
    let wanted = step(9.0, 0.9);
    assert!(wanted > MIB && wanted < 2 * MIB);
    // The network gives half of it once in six intervals: that much stays.
    let need = curve.smallest(40.0, BOUNDS.least, BOUNDS.most).unwrap().next_multiple_of(PAGE);
    for number in 0..200 {
        step(if number % 6 == 0 { 40.0 } else { 1.0 }, 0.0);
    }
    assert_eq!(step(1.0, 0.0), need);
}

#[test]
fn enough_is_enough_even_where_the_buffer_limits() {
    let curve = FAR.curve();
    let mut rule = rule(4 * MIB);
    let seen = [Seen { mbit_s: 77.0, pipe_bytes: 9e5, saturated: 1.0, limited: 0.9 }];
    let verdict = rule.step(&[Destination { curve: Some(&curve), seen: &seen }]);
    assert_eq!(verdict.limit, 4 * MIB);
    assert!(verdict.why.starts_with("77 Mbit/s needs 1.8 MiB"), "{}", verdict.why);
}

#[test]
fn a_destination_of_which_nothing_is_seen_keeps_what_its_curve_wants() {
    let (far, near) = (FAR.curve(), NEAR.curve());
    let mut rule = rule(16 * MIB);
    for _ in 0..200 {
        let seen = [NEAR.seen(rule.limit())];
        rule.step(&[
            Destination { curve: Some(&far), seen: &[] },
            Destination { curve: Some(&near), seen: &seen },
        ]);
    }
    assert_eq!(Some(rule.limit()), rule.wanted(Some(&far)));
}

#[test]
fn the_reason_names_the_buffer_its_share_and_the_throughput() {
    let curve = FAR.curve();
    let mut rule = Rule::new(Side::Receive, BOUNDS, MIB);
    let seen = [Seen { mbit_s: 21.0, pipe_bytes: 1e5, saturated: 1.0, limited: 0.4 }];
    let none = Destination { curve: None, seen: &[] };
    let verdict = rule.step(&[none, Destination { curve: Some(&curve), seen: &seen }]);
    assert_eq!(verdict.why, "receive window limited 40 % of the time, 21 Mbit/s of 76 Mbit/s");
    assert_eq!((verdict.destination, size(verdict.limit).as_str()), (Some(1), "1.8 MiB"));
}

#[test]
fn a_limit_outside_the_bounds_is_brought_within_them() {
    assert_eq!(rule(1).limit(), BOUNDS.least);
    assert_eq!(rule(1 << 40).limit(), BOUNDS.most);
}

fn anything() -> impl Strategy<Value = Seen> {
    (0.0..1e5_f64, 0.0..1e10_f64, 0.0..1.0_f64, 0.0..1.0_f64).prop_map(
        |(mbit_s, pipe_bytes, saturated, limited)| Seen { mbit_s, pipe_bytes, saturated, limited },
    )
}

proptest! {
    #[test]
    fn whatever_is_seen_the_limit_keeps_to_its_bounds_and_its_pace(
        start in 1_u64..1 << 34,
        seen in prop::collection::vec(prop::collection::vec(anything(), 0..3), 1..80),
    ) {
        let curve = FAR.curve();
        let mut rule = rule(start);
        for connections in seen {
            let before = rule.limit();
            let verdict = rule.step(&[
                Destination { curve: Some(&curve), seen: &connections },
                Destination { curve: None, seen: &connections },
            ]);
            prop_assert_eq!(verdict.limit, rule.limit());
            prop_assert!((BOUNDS.least..=BOUNDS.most).contains(&verdict.limit));
            // A rise that is taken back may halve it.
            prop_assert!(verdict.limit <= 2 * before && verdict.limit >= before / 2);
        }
    }

    /// Whatever the network, an unlimited program ends within the goal of its curve, or at the most.
    #[test]
    fn it_reaches_the_goal_of_the_curve_on_every_network(
        mbit_s in 1.0..1000.0_f64,
        rtt_s in 0.001..0.5_f64,
        start in 64 * KIB..16 * MIB,
    ) {
        let network = Network { mbit_s, rtt_s };
        let curve = network.curve();
        let mut rule = rule(start);
        steps(&mut rule, network, Some(&curve), 400);
        let reached = network.throughput(rule.limit());
        let best = network.throughput(BOUNDS.most);
        prop_assert!(reached >= 0.949 * best, "{reached} of {best} with {}", rule.limit());
    }
}
