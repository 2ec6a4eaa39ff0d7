//! What coupling the subflows' windows is for (RFC 6356 section 2): improve throughput, do no harm
//! at a shared bottleneck, balance congestion. Measured for OLIA and, for contrast, for Reno on
//! every subflow.

mod common;

use common::*;
use mptune_core::simulation::Simulation;
use mptune_core::units::{MILLISECOND, SECOND};

/// Share of a 20 Mbit/s bottleneck that a connection with two subflows takes from one Reno flow of
/// the same RTT, mean of several seeds over 5 minutes.
fn share_of_two_subflows(cc: &str) -> f64 {
    let seeds = 1..=5;
    let count = seeds.clone().count() as f64;
    let share = seeds.map(|seed| {
        // A few milliseconds of jitter keep the drop-tail queue from synchronising the flows.
        let mut bottleneck = queued(link(20.0, 20.0), 50.0, 1.0);
        bottleneck.jitter_ns = 2 * MILLISECOND;
        let network = shared_bottleneck(bottleneck, &[5.0, 5.0]);
        let mut simulation = Simulation::new(&network, seed);
        let two = simulation.connect(connection(cc, "ndiffports", 0, 0));
        let one = simulation.connect(connection("reno", "default", 1, 0));
        simulation.run(300 * SECOND, two);
        let [two, one] = [two, one].map(|c| simulation.connection(c).series.total() as f64);
        two / (two + one)
    });
    share.sum::<f64>() / count
}

#[test]
fn two_olia_subflows_take_about_one_fair_share_and_two_reno_ones_two_thirds() {
    let (olia, reno) = (share_of_two_subflows("olia"), share_of_two_subflows("reno"));
    assert!((0.40..0.60).contains(&olia), "OLIA took {olia}");
    assert!((0.60..0.73).contains(&reno), "uncoupled Reno took {reno}");
}

/// Throughput of each of two paths with equal RTT and the given loss, and of the better one alone.
fn on_two_lossy_paths(cc: &str, losses: [f64; 2]) -> ([f64; 2], f64) {
    let links = losses.map(|p| lossy(link(1000.0, 20.0), p));
    let together = run(&trial(disjoint(&links), cc, 64 * MIB, 600));
    let alone = run(&trial(disjoint(&links[..1]), cc, 64 * MIB, 600));
    let rate = |subflow: usize| {
        together.subflows[subflow].bytes as f64 * 8e3 / together.duration_ns as f64
    };
    ([rate(0), rate(1)], mbps(&alone))
}

#[test]
fn olia_moves_traffic_to_the_less_congested_path() {
    // Uncoupled, each path gets what its loss allows: 1/sqrt(p), so the ratio is sqrt(8). OLIA leaves
    // the worse path little more than its probing traffic.
    let losses = [0.0005, 0.004];
    let ([best, worse], _) = on_two_lossy_paths("reno", losses);
    let uncoupled = worse / (best + worse);
    assert!((uncoupled - 1.0 / (1.0 + f64::sqrt(8.0))).abs() < 0.03, "{uncoupled}");
    let ([best, worse], _) = on_two_lossy_paths("olia", losses);
    assert!(worse / (best + worse) < 0.6 * uncoupled, "{best} and {worse}");
}

#[test]
fn olia_gets_at_least_what_the_best_path_alone_would_give() {
    for losses in [[0.0005, 0.004], [0.001, 0.001]] {
        let ([best, worse], alone) = on_two_lossy_paths("olia", losses);
        assert!(best + worse > 0.9 * alone, "{losses:?}: {best} + {worse} against {alone}");
    }
}

#[test]
fn olia_on_one_path_is_reno() {
    let outcome = |cc| run(&trial(disjoint(&[lossy(link(100.0, 20.0), 0.001)]), cc, 8 * MIB, 60));
    assert_eq!(outcome("olia").bins, outcome("reno").bins);
}
