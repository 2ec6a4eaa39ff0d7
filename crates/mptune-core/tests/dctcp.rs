//! Marks instead of losses over whole connections: DCTCP at a queue that marks above a threshold
//! (RFC 8257; M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010), Reno and CUBIC at queues
//! that mark where they would drop (RFC 3168).
//!
//! Not the estimator and not the echo, which are tested in their own files (`congestion::dctcp`,
//! `tcp::receiver`).

use crate::common::*;
use mptune_core::mptcp::Connection;
use mptune_core::network::{AqmSpec, CodelSpec, LinkSpec, RedSpec, StepMarkingSpec};
use mptune_core::simulation::Simulation;
use mptune_core::transport::Transport;
use mptune_core::units::{MILLISECOND, SECOND};

/// Slow start is over, s.
const WARM_UP: u64 = 10;
const SPAN: u64 = 30;

/// A bottleneck: Mbit/s, ms.
#[derive(Debug, Clone, Copy)]
struct Path {
    mbps: f64,
    rtt_ms: f64,
}

impl Path {
    /// Segments of the bandwidth-delay product.
    fn product(self) -> f64 {
        self.mbps * self.rtt_ms / 8.0 / 1.5
    }

    /// The link to it with a queue of this many segments.
    fn link(self, queue: f64) -> LinkSpec {
        let queue_bytes = Some((queue * 1500.0) as u64);
        LinkSpec { queue_bytes, ..link(self.mbps, self.rtt_ms / 2.0) }
    }

    /// The same with a deep queue that marks above `threshold` segments.
    fn marking(self, threshold: f64) -> LinkSpec {
        let mark_bytes = (threshold * 1500.0) as u64;
        LinkSpec { aqm: Some(AqmSpec::Step(StepMarkingSpec { mark_bytes })), ..self.link(10_000.0) }
    }
}

/// Results of a control's flows over a link after the warm-up.
#[derive(Debug)]
struct Steady {
    utilisation: f64,
    /// Shares of the packets that were marked and that were dropped.
    marked: f64,
    dropped: f64,
    /// Segments retransmitted since the beginning of the span.
    retransmitted: u64,
    /// Sum of the flows' windows: smallest, mean, largest.
    window: [f64; 3],
    /// Segments in the queue, from the smoothed RTTs.
    queue: f64,
}

/// Runs `flows` of a control from time 0 and samples them eight times a round trip.
fn steady(link: LinkSpec, cc: &str, flows: usize, ecn: bool) -> Steady {
    let (rate, rtt) = (link.rate_bps.expect("a rate") as f64, 2 * link.delay_ns);
    let network = disjoint(&[link]);
    let mut simulation = Simulation::<Connection>::new(&network, 1);
    for _ in 0..flows {
        let mut options = connection(cc, "default", 0, 0);
        options.members.ecn = ecn;
        simulation.connect(options);
    }
    let totals = |simulation: &Simulation<Connection>| {
        let all = (0..flows).map(|number| simulation.connection(number));
        let sums = all.map(|c| (c.series().total(), c.subflows[0].sender.retransmitted()));
        let sums = sums.fold((0, 0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1));
        (sums, simulation.network().counters().next().expect("the link"))
    };
    simulation.run(WARM_UP * SECOND, 0);
    let ((bytes, repeated), link) = totals(&simulation);
    let (mut windows, mut queues) = (vec![], vec![]);
    while simulation.now() < (WARM_UP + SPAN) * SECOND {
        simulation.run(simulation.now() + rtt / 8, 0);
        let senders = (0..flows).map(|n| &simulation.connection(n).subflows[0].sender);
        windows.push(senders.clone().map(|sender| sender.summary(true).cwnd).sum::<f64>());
        let waits = senders.map(|sender| sender.rtt.srtt as f64 - rtt as f64);
        queues.push(waits.sum::<f64>() / flows as f64 / 1e9 * rate / 8.0 / 1500.0);
    }
    let ((more_bytes, more_repeated), more) = totals(&simulation);
    let packets = (more.forwarded - link.forwarded) as f64;
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
    Steady {
        utilisation: (more_bytes - bytes) as f64 * 8.0 / SPAN as f64 / rate / PAYLOAD_SHARE,
        marked: (more.marked - link.marked) as f64 / packets,
        dropped: (more.dropped - link.dropped) as f64 / packets,
        retransmitted: more_repeated - repeated,
        window: [
            windows.iter().copied().fold(f64::MAX, f64::min),
            mean(&windows),
            windows.iter().copied().fold(0.0, f64::max),
        ],
        queue: mean(&queues),
    }
}

/// The paper's section 3.3: the window at which one of `flows` meets the threshold, and the alpha for
/// which alpha^2 (1 - alpha / 4) = (2 W + 1) / (W + 1)^2.
fn fluid(path: Path, threshold: f64, flows: usize) -> (f64, f64) {
    let window = (path.product() + threshold) / flows as f64;
    let right = (2.0 * window + 1.0) / (window + 1.0).powi(2);
    let alpha = (0..50).fold(0.5_f64, |alpha, _| (right / (1.0 - alpha / 4.0)).sqrt());
    (window, alpha)
}

const PATHS: [(Path, f64); 3] = [
    (Path { mbps: 100.0, rtt_ms: 10.0 }, 30.0),
    (Path { mbps: 100.0, rtt_ms: 20.0 }, 60.0),
    (Path { mbps: 500.0, rtt_ms: 10.0 }, 100.0),
];

/// DCTCP 2010, section 3.3: the sum of the windows has its peak at C RTT + K + N and swings by
/// N (W + 1) alpha / 2. The reduction is spread over a round trip (PRR), so marks go on for longer than
/// the one round trip of the paper, and the swing is up to twice as large.
#[test]
fn windows_swing_as_in_the_fluid_model() {
    for (path, threshold) in PATHS {
        for flows in [1, 2, 5] {
            let result = steady(path.marking(threshold), "dctcp", flows, true);
            let (window, alpha) = fluid(path, threshold, flows);
            let count = flows as f64;
            let ([low, _, high], peak) = (result.window, count * (window + 1.0));
            assert!(high > peak - 2.0 && high < peak + 2.0 * count, "{path:?}: {high}, {peak}");
            let swing = (high - low) / (count * (window + 1.0) * alpha / 2.0);
            assert!((1.0..1.9).contains(&swing), "{path:?}, {flows} flows: {swing}");
        }
    }
}

/// DCTCP 2010, section 3.3: alpha is the share of marked segments, about sqrt(2 / W); less where an ACK of two
/// segments sends a pair of which only the second finds the queue too long.
#[test]
fn about_alpha_of_the_segments_are_marked() {
    for (path, threshold) in PATHS {
        for flows in [1, 2, 5] {
            let result = steady(path.marking(threshold), "dctcp", flows, true);
            let (_, alpha) = fluid(path, threshold, flows);
            let share = result.marked / alpha;
            assert!((0.55..1.05).contains(&share), "{path:?}, {flows} flows: {share}");
        }
    }
}

/// DCTCP 2010, section 3.3: the swing grows as the square root of the product, where Reno's is half of it.
#[test]
fn the_swing_grows_as_the_square_root_of_the_product() {
    let swing = |rtt_ms: f64, cc| {
        let path = Path { mbps: 200.0, rtt_ms };
        let queue = 0.3 * path.product();
        let link = if cc == "dctcp" { path.marking(queue) } else { path.link(queue) };
        let [low, _, high] = steady(link, cc, 1, true).window;
        high - low
    };
    let [dctcp, reno] = ["dctcp", "reno"].map(|cc| swing(20.0, cc) / swing(5.0, cc));
    assert!((1.6..2.6).contains(&dctcp), "{dctcp}");
    assert!((3.6..4.4).contains(&reno), "{reno}");
}

/// RFC 8257 section 3.1, of section 3.4 of the paper: a threshold above a seventh of the product keeps the
/// line busy. Reno with a drop-tail queue of that length does not: its window falls to half of 8/7.
#[test]
fn a_seventh_of_the_product_suffices_for_dctcp_and_not_for_reno() {
    for (path, _) in PATHS {
        let queue = (path.product() / 7.0).ceil() + 1.0;
        let dctcp = steady(path.marking(queue), "dctcp", 1, true);
        assert!(dctcp.utilisation > 0.998, "{path:?}: {dctcp:?}");
        assert!((dctcp.queue - queue).abs() < 0.15 * queue + 2.0, "{path:?}: {dctcp:?}");
        let reno = steady(path.link(queue), "reno", 1, true);
        let expected = sawtooth_utilisation(queue / path.product());
        assert!((reno.utilisation - expected).abs() < 0.03, "{path:?}: {reno:?}, {expected}");
    }
}

/// Utilisation of one Reno flow over a drop-tail queue of `queue` products, less than one: the window
/// grows by a segment per RTT from half of 1 + queue products, and above one product the RTT with it.
fn sawtooth_utilisation(queue: f64) -> f64 {
    let (low, high) = ((1.0 + queue) / 2.0, 1.0 + queue);
    let full = (high * high - 1.0) / 2.0;
    ((1.0 - low * low) / 2.0 + full) / (1.0 - low + full)
}

/// To keep the line busy Reno needs a drop-tail queue of one product, and fills more than half of it.
#[test]
fn for_the_same_throughput_dctcp_queues_a_fraction_of_what_reno_does() {
    for (path, _) in PATHS {
        let product = path.product();
        let dctcp = steady(path.marking(product / 7.0 + 1.0), "dctcp", 1, true);
        let reno = steady(path.link(product), "reno", 1, true);
        assert!(dctcp.utilisation > 0.998 && reno.utilisation > 0.995, "{dctcp:?}, {reno:?}");
        assert!(reno.queue > 0.5 * product && dctcp.queue < 0.2 * product, "{dctcp:?}, {reno:?}");
        assert!(dctcp.dropped == 0.0 && dctcp.retransmitted == 0, "{dctcp:?}");
    }
}

/// RFC 8257 section 3.5: a loss halves DCTCP's window, so without marks it is Reno.
#[test]
fn without_marks_dctcp_is_reno() {
    let link = || Path { mbps: 50.0, rtt_ms: 20.0 }.link(40.0);
    let [dctcp, reno] = ["dctcp", "reno"].map(|cc| steady(link(), cc, 2, true));
    assert_eq!((dctcp.window, dctcp.retransmitted), (reno.window, reno.retransmitted));
}

/// Queues that signal congestion early, marking what can be marked.
fn signalling() -> [AqmSpec; 2] {
    let codel = CodelSpec { target_ns: 5 * MILLISECOND, interval_ns: 100 * MILLISECOND, ecn: true };
    let red = RedSpec {
        min_bytes: 30_000,
        max_bytes: 150_000,
        max_ppb: 100_000_000,
        weight_ppb: 2_000_000,
        gentle: true,
        ecn: true,
    };
    [AqmSpec::Codel(codel), AqmSpec::Red(red)]
}

/// RFC 3168 section 5: congestion control reacts to a mark as it does to a loss. So there are about as many
/// marks, and the throughput is about the same; only nothing has to be retransmitted.
#[test]
fn a_mark_has_the_effect_of_a_loss_without_the_loss() {
    let path = Path { mbps: 20.0, rtt_ms: 40.0 };
    for aqm in signalling() {
        for cc in ["reno", "cubic"] {
            let link = || LinkSpec { aqm: Some(aqm.clone()), ..path.link(600.0) };
            let [marks, drops] = [true, false].map(|ecn| steady(link(), cc, 2, ecn));
            assert_eq!((marks.dropped, marks.retransmitted), (0.0, 0), "{cc}, {aqm:?}");
            assert!(drops.marked == 0.0 && drops.retransmitted > 0, "{cc}, {aqm:?}: {drops:?}");
            let (signals, gain) =
                (marks.marked / drops.dropped, marks.utilisation / drops.utilisation);
            assert!((0.6..1.6).contains(&signals), "{cc}, {aqm:?}: {signals}");
            assert!((0.95..1.15).contains(&gain), "{cc}, {aqm:?}: {gain}");
            assert!((marks.queue - drops.queue).abs() < 15.0, "{cc}: {marks:?}, {drops:?}");
        }
    }
}

/// RFC 3168 section 6.1.2: a mark halves Reno's window, so it obeys the square-root law of losses, whose
/// constant is 1.22 for evenly spaced losses and 1.31 for random ones. (RED's marks come in bursts, of which a
/// window reacts to one.)
#[test]
fn renos_window_follows_the_square_root_of_the_marks() {
    let [codel, _] = signalling();
    for flows in [5, 20] {
        let path = Path { mbps: 15.0 * flows as f64, rtt_ms: 40.0 };
        let link = LinkSpec { aqm: Some(codel.clone()), ..path.link(1_000.0) };
        let result = steady(link, "reno", flows, true);
        let constant = result.window[1] / flows as f64 * result.marked.sqrt();
        assert!((1.18..1.36).contains(&constant), "{flows} flows: {constant}, {result:?}");
    }
}
