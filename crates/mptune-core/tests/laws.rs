//! Whole connections against the laws of their congestion controls: throughput under random loss,
//! equilibrium of coupled subflows, queues of delay-based controls.
//!
//! Reno's square-root law is in `transport.rs`. Losses here are independent, while the closed forms mostly
//! assume one loss in every 1/p packets: constants are a little larger here.

use crate::common::*;
use mptune_core::units::{MILLISECOND, SECOND};

/// Mean window, segments, of one subflow that only random losses limit, without its first fifth.
fn mean_window(cc: &str, loss: f64, rtt_ms: f64, seconds: u64) -> f64 {
    let network = disjoint(&[lossy(link(100_000.0, rtt_ms / 2.0), loss)]);
    let outcome = run(&trial(network, cc, 1024 * MIB, seconds));
    let losses = outcome.subflows[0].retransmitted;
    assert!(losses > 120, "only {losses} losses to average over");
    let rate = mbps_between(&outcome, seconds / 5 * SECOND, seconds * SECOND);
    rate * 1e6 / 8.0 / f64::from(MSS) * rtt_ms / 1e3
}

#[track_caller]
fn assert_within(value: f64, range: std::ops::Range<f64>, label: &str) {
    assert!(range.contains(&value), "{label}: {value} is not in {range:?}");
}

/// RFC 9438 section 5: (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4), with 0.4 and 0.7. The target lies
/// an RTT ahead of the function, which matters where an RTT is a tenth of the cycle.
#[test]
fn cubic_follows_its_response_function() {
    let factor = (0.4 * 3.7 / 1.2_f64).powf(0.25);
    let law = |loss: f64, rtt: f64| factor * (rtt / loss).powf(0.75);
    for (loss, rtt_ms, seconds) in [(1e-3, 400.0, 700), (1e-3, 200.0, 600), (2e-4, 200.0, 800)] {
        let ratio = mean_window("cubic", loss, rtt_ms, seconds) / law(loss, rtt_ms / 1e3);
        assert_within(ratio, 0.95..1.25, &format!("p {loss}, RTT {rtt_ms} ms"));
    }
}

/// RFC 9438 section 4.3: where Reno would be faster, CUBIC has Reno's mean window.
#[test]
fn cubic_is_reno_friendly_at_small_windows() {
    for (loss, rtt_ms, seconds) in [(1e-2, 10.0, 60), (1e-3, 10.0, 90), (1e-3, 30.0, 250)] {
        let [cubic, reno] = ["cubic", "reno"].map(|cc| mean_window(cc, loss, rtt_ms, seconds));
        assert_within(cubic / reno, 0.9..1.15, &format!("p {loss}, RTT {rtt_ms} ms"));
    }
}

/// Controls that add a segment per RTT and halve at a loss have Reno's window where there is no queue
/// to see and no mark: RFC 8257 sections 3.4 and 3.5; Brakmo, Peterson 1995.
#[test]
fn dctcp_and_vegas_have_renos_window_under_random_loss() {
    for (loss, rtt_ms, seconds) in [(1e-3, 40.0, 250), (1e-2, 20.0, 60)] {
        let reno = mean_window("reno", loss, rtt_ms, seconds);
        for cc in ["dctcp", "vegas"] {
            let ratio = mean_window(cc, loss, rtt_ms, seconds) / reno;
            assert_within(ratio, 0.85..1.1, &format!("{cc}, p {loss}, RTT {rtt_ms} ms"));
        }
    }
}

/// Kelly 2003: every ACK adds a = 0.01, every loss takes b = 1/8 of the window, so the window is a / (b p)
/// whatever the RTT; a little less, since a recovery adds nothing and happens every dozen RTTs.
#[test]
fn scalable_carries_eight_hundredths_over_p() {
    for (loss, rtt_ms, seconds) in [(1e-4, 20.0, 40), (2e-4, 20.0, 60), (2e-4, 80.0, 200)] {
        let ratio = mean_window("scalable", loss, rtt_ms, seconds) * loss / 0.08;
        assert_within(ratio, 0.75..1.0, &format!("p {loss}, RTT {rtt_ms} ms"));
    }
}

/// Caini, Firrincieli 2004: the rate is that of a Reno flow with an RTT of 25 ms. Growth counts ACKs
/// (`hybla`), so with delayed ACKs the constant is Reno's 1.31 over the square root of 2. Where losses
/// come every few RTTs, several are one event, and longer RTTs gain.
#[test]
fn hyblas_rate_does_not_depend_on_the_rtt() {
    let loss: f64 = 4e-4;
    for (rtt_ms, seconds) in [(25.0, 250), (50.0, 250), (100.0, 250), (200.0, 250)] {
        let rate = mean_window("hybla", loss, rtt_ms, seconds) / rtt_ms * 25.0;
        let expected = 1.31 / 2.0_f64.sqrt() / loss.sqrt();
        assert_within(rate / expected, 0.85..1.1, &format!("RTT {rtt_ms} ms"));
    }
}

/// Mean rates, segments/s, of two subflows on paths with these losses and RTTs, and of one alone on the first.
fn coupled_rates(cc: &str, losses: [f64; 2], rtts_ms: [f64; 2]) -> ([f64; 2], f64) {
    const SECONDS: u64 = 500;
    let path = |n: usize| lossy(link(1000.0, rtts_ms[n] / 2.0), losses[n]);
    let links = [path(0), path(1)];
    let rate = |bytes: u64| bytes as f64 / f64::from(MSS) / SECONDS as f64;
    let together = run(&trial(disjoint(&links), cc, 64 * MIB, SECONDS));
    let alone = run(&trial(disjoint(&links[..1]), cc, 64 * MIB, SECONDS));
    let both = [0, 1].map(|number: usize| rate(together.subflows[number].bytes));
    (both, rate(alone.in_order_bytes))
}

/// Losses and RTTs, ms, of two paths; a single flow is faster on the first.
const TWO_PATHS: [([f64; 2], [f64; 2]); 4] = [
    ([1e-3, 2e-3], [40.0, 40.0]),
    ([5e-4, 4e-3], [40.0, 40.0]),
    ([1e-3, 1e-3], [20.0, 40.0]),
    ([5e-4, 2.5e-4], [20.0, 60.0]),
];

/// RFC 6356 section 5: windows are in inverse proportion to loss, whatever the RTTs; section 3: together
/// the subflows are as fast as one flow on the better path.
#[test]
fn lia_balances_windows_by_loss_and_is_as_fast_as_the_best_path() {
    for (losses, rtts_ms) in
        [TWO_PATHS[0], TWO_PATHS[1], TWO_PATHS[2], TWO_PATHS[3], ([1e-3; 2], [40.0; 2])]
    {
        let ([better, worse], alone) = coupled_rates("lia", losses, rtts_ms);
        let ratio = better * rtts_ms[0] / (worse * rtts_ms[1]) * losses[0] / losses[1];
        assert_within(ratio, 0.8..1.25, &format!("{losses:?}, {rtts_ms:?}: ratio of the windows"));
        assert_within((better + worse) / alone, 0.9..1.15, &format!("{losses:?}: sum"));
    }
}

/// draft-walid-mptcp-congestion-control-04, fixed point: the better path has alpha 1; on the other, growth
/// and reduction balance where (1 + alpha) (4 + alpha) / 15 = q s^2 / (p r^2) with losses p, q and RTTs
/// r, s, and alpha is the ratio of the rates. A worse window of a few segments is not reduced below one.
#[test]
fn balia_settles_at_its_fixed_point() {
    for (losses, rtts_ms) in [TWO_PATHS[0], TWO_PATHS[2], TWO_PATHS[3], ([3e-4, 1.2e-3], [40.0; 2])]
    {
        let ([better, worse], alone) = coupled_rates("balia", losses, rtts_ms);
        let quotient = losses[1] / losses[0] * (rtts_ms[1] / rtts_ms[0]).powi(2);
        let alpha = (-5.0 + (9.0 + 60.0 * quotient).sqrt()) / 2.0;
        assert_within(
            better / worse / alpha,
            0.8..1.25,
            &format!("{losses:?}, {rtts_ms:?}: alpha"),
        );
        assert_within((better + worse) / alone, 0.9..1.1, &format!("{losses:?}: sum"));
    }
    let ([first, second], alone) = coupled_rates("balia", [1e-3; 2], [40.0; 2]);
    assert_within((first + second) / alone, 0.9..1.15, "equal paths: sum");
}

/// Khalili et al. 2012: only the best paths are used, those with the largest sqrt(2 / p) / rtt, except for
/// windows that probe others. A path's losses are estimated from its last two, so a path four times worse is at
/// times mistaken for the better one; it carries far less than LIA would send.
#[test]
fn olia_uses_the_best_paths_only() {
    for (losses, rtts_ms) in [TWO_PATHS[1], TWO_PATHS[2], TWO_PATHS[3]] {
        let ([better, worse], alone) = coupled_rates("olia", losses, rtts_ms);
        let lia = losses[0] * rtts_ms[0] / (losses[1] * rtts_ms[1]);
        assert!(worse / better < 0.25 * lia, "{losses:?}, {rtts_ms:?}: {better} and {worse}");
        assert_within((better + worse) / alone, 0.9..1.1, &format!("{losses:?}: sum"));
    }
    let ([_, worse], _) = coupled_rates("olia", TWO_PATHS[1].0, TWO_PATHS[1].1);
    assert!(worse * 0.04 < 2.5, "{worse} segments/s on a path that loses eight times as much");
    let ([first, second], alone) = coupled_rates("olia", [1e-3; 2], [40.0; 2]);
    assert_within((first + second) / alone, 0.9..1.1, "equal paths: sum");
}

/// Segments in a link's queue at the end of a minute, and the link's utilisation.
fn queue_of(cc: &str, rate: f64, rtt_ms: f64) -> (f64, f64) {
    let network = disjoint(&[queued(link(rate, rtt_ms / 2.0), rtt_ms, 4.0)]);
    let outcome = run(&trial(network, cc, 64 * MIB, 60));
    let subflow = &outcome.subflows[0];
    let queueing = (subflow.srtt_ns - subflow.min_rtt_ns) as f64 / 1e9;
    (queueing * rate * 1e6 / 8.0 / 1500.0, mbps(&outcome) / rate / PAYLOAD_SHARE)
}

/// Vegas keeps 2 to 4 segments queued, Reno fills any queue. The ACK of two segments samples the later one,
/// which waits for the other.
#[test]
fn vegas_keeps_a_few_segments_queued() {
    for (rate, rtt_ms) in [(20.0, 40.0), (100.0, 20.0)] {
        let (queue, utilisation) = queue_of("vegas", rate, rtt_ms);
        assert!(queue < 10.0 && utilisation > 0.98, "{queue} segments, {utilisation}");
        let (queue, _) = queue_of("reno", rate, rtt_ms);
        assert!(queue > 100.0, "{queue} segments of Reno");
    }
}

/// wVegas keeps at most 10 segments queued, and drains the queue whenever its delay has doubled, at
/// the cost of half the path (`congestion::wvegas`).
#[test]
fn wvegas_keeps_queues_short_at_the_cost_of_throughput() {
    let (queue, utilisation) = queue_of("wvegas", 20.0, 40.0);
    assert!(queue < 16.0, "{queue} segments");
    assert_within(utilisation, 0.4..0.95, "utilisation");
}

/// Cardwell et al. 2016, figure 8: random loss well below the probing gain costs BBR only the lost
/// packets, where it leaves loss-based controls a fraction of the path.
#[test]
fn bbr_uses_a_path_with_random_loss() {
    for (rate, rtt_ms, loss) in [(100.0, 20.0, 0.01), (100.0, 40.0, 0.01), (10.0, 20.0, 0.05)] {
        let network = disjoint(&[queued(lossy(link(rate, rtt_ms / 2.0), loss), rtt_ms, 1.0)]);
        let bbr = mbps(&run(&trial(network.clone(), "bbr", 16 * MIB, 15)));
        let share = bbr / rate / PAYLOAD_SHARE;
        assert!(share > 0.9, "{rate} Mbit/s, {rtt_ms} ms, loss {loss}: {share}");
        let cubic = mbps(&run(&trial(network, "cubic", 16 * MIB, 15)));
        assert!(bbr > 1.5 * cubic, "CUBIC {cubic}, BBR {bbr}");
    }
}

/// BBR keeps the queue almost empty: the RTT stays close to the smallest although the queue could hold four
/// products.
#[test]
fn bbr_keeps_queues_short() {
    let (queue, utilisation) = queue_of("bbr", 50.0, 40.0);
    let product = 50e6 * 0.04 / 8.0 / 1500.0;
    assert!(queue < 0.6 * product && utilisation > 0.95, "{queue} of {product}, {utilisation}");
}

/// HyStart ends slow start before the queue of one product overflows; Reno's slow start loses about one
/// product.
#[test]
fn hystart_spares_the_losses_of_slow_start() {
    for (rate, rtt_ms) in [(100.0, 40.0), (50.0, 100.0)] {
        let network = disjoint(&[queued(link(rate, rtt_ms / 2.0), rtt_ms, 1.0)]);
        let span = 20 * rtt_ms as u64 * MILLISECOND;
        let lost = |cc| {
            let mut short = trial(network.clone(), cc, 16 * MIB, 1);
            short.workload = saturated(span.min(2 * SECOND));
            run(&short).subflows[0].retransmitted
        };
        assert_eq!(lost("cubic"), 0, "{rate} Mbit/s, {rtt_ms} ms");
        assert!(lost("reno") > 100, "{rate} Mbit/s, {rtt_ms} ms");
    }
}
