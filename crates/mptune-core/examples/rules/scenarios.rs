//! The three rules of multipath congestion control, measured (RFC 6356 section 1): a multipath flow
//! gets at least what a single-path flow would on the best of its paths (improve throughput), takes no
//! more of a shared bottleneck than a single-path flow (do no harm), and moves its traffic off its most
//! congested paths (balance congestion).
//!
//! Not a test: the example beside this file prints the table of all controls, and `tests/coupling.rs`
//! asserts the goals of each specification. Both use the limits below.

use crate::common::{PAYLOAD_SHARE, connection, disjoint, link, lossy, queued, shared_bottleneck};
use mptune_core::mptcp::Connection;
use mptune_core::network::{LinkSpec, NetworkSpec};
use mptune_core::simulation::Simulation;
use mptune_core::transport::Transport;
use mptune_core::units::{MILLISECOND, SECOND};
use serde::Serialize;

/// At least this share of a single-path flow's throughput on the best path, or of the sum of two idle paths.
pub const LEAST_THROUGHPUT: f64 = 0.9;
/// At most this fraction of the share that the same subflows of uncoupled Reno have on the congested path.
pub const MOST_ON_CONGESTED: f64 = 0.8;
/// Time before the measurement, for slow start and settling shares, s.
pub const WARM_UP: u64 = 20;
/// Measured time, s.
pub const SPAN: u64 = 80;
/// RTT of a path without a queue, ms.
const RTT_MS: f64 = 50.0;
/// Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1.
const T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A mean over seeds with the half width of its 95 % interval.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: f64,
}

impl Estimate {
    /// Of 2 to 10 samples.
    fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let half_width = T[samples.len() - 2] * (squares / (count - 1.0) / count).sqrt();
        Self { mean, half_width }
    }
}

/// Results of one congestion control.
#[derive(Debug, Clone, Serialize)]
pub struct Rules {
    pub cc: String,
    /// Share of a bottleneck that two subflows take from one Reno flow, and that one flow takes.
    pub two_against_reno: Estimate,
    pub one_against_reno: Estimate,
    /// Share that two subflows take from one flow of the same control.
    pub two_against_one: Estimate,
    /// Throughput over two paths, relative to one flow of the control on the better path: the paths lose 0.05
    /// and 0.4 % of their packets; they carry one and four Reno flows.
    pub lossy: Estimate,
    pub busy: Estimate,
    /// Throughput over two idle paths, relative to what they carry together.
    pub idle: Estimate,
    /// Share of the traffic on the path with four Reno flows, the other having one.
    pub on_congested: Estimate,
}

impl Rules {
    /// Measures a control with 2 to 10 seeds.
    pub fn measure(cc: &str, seeds: u64) -> Self {
        let estimate = |sample: &dyn Fn(u64) -> f64| {
            Estimate::of(&(1..=seeds).map(sample).collect::<Vec<_>>())
        };
        let busy: Vec<_> = (1..=seeds).map(|seed| between_reno_flows(cc, seed)).collect();
        let of_busy =
            |part: fn(&(f64, f64)) -> f64| Estimate::of(&busy.iter().map(part).collect::<Vec<_>>());
        Self {
            cc: cc.into(),
            two_against_reno: estimate(&|seed| share(cc, "ndiffports", "reno", seed)),
            one_against_reno: estimate(&|seed| share(cc, "default", "reno", seed)),
            two_against_one: estimate(&|seed| share(cc, "ndiffports", cc, seed)),
            lossy: estimate(&|seed| under_losses(cc, seed)),
            busy: of_busy(|&(gain, _)| gain),
            idle: estimate(&|seed| on_idle_paths(cc, seed)),
            on_congested: of_busy(|&(_, share)| share),
        }
    }

    /// With any other traffic on the paths.
    pub fn improves_throughput(&self) -> bool {
        [self.lossy, self.busy, self.idle].iter().all(|gain| gain.mean >= LEAST_THROUGHPUT)
    }

    /// The shares are closer to those of one flow than to those of two, against either kind of flow.
    pub fn does_no_harm(&self) -> bool {
        let nearer_to_one =
            |two: Estimate, single: f64| two.mean < (single + of_two_flows(single)) / 2.0;
        nearer_to_one(self.two_against_reno, self.one_against_reno.mean)
            && nearer_to_one(self.two_against_one, 0.5)
    }

    /// Compared with uncoupled Reno.
    pub fn balances_congestion(&self, reno: &Rules) -> bool {
        self.on_congested.mean <= MOST_ON_CONGESTED * reno.on_congested.mean
    }
}

/// The share of two flows of which one alone has this share.
pub fn of_two_flows(single: f64) -> f64 {
    2.0 * single / (1.0 + single)
}

/// A link with a queue of one bandwidth-delay product. A few milliseconds of jitter keep drop-tail
/// from synchronising the flows.
fn bottleneck(mbps: f64) -> LinkSpec {
    LinkSpec { jitter_ns: 2 * MILLISECOND, ..queued(link(mbps, RTT_MS / 2.0), RTT_MS, 1.0) }
}

/// A connection: congestion control, path manager, first path.
type Flow<'a> = (&'a str, &'a str, usize);

/// Payload bytes after the warm-up: of each connection, and of the first one's subflows.
fn bytes(network: &NetworkSpec, flows: &[Flow<'_>], seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut simulation = Simulation::<Connection>::new(network, seed);
    for &(cc, pm, path) in flows {
        simulation.connect(connection(cc, pm, path, 0));
    }
    let totals = |simulation: &Simulation<Connection>| {
        let of = |number| simulation.connection(number).series().total();
        let subflows = simulation.connection(0).subflows.iter();
        let subflows: Vec<_> = subflows.map(|subflow| subflow.series.total()).collect();
        ((0..flows.len()).map(of).collect::<Vec<_>>(), subflows)
    };
    simulation.run(WARM_UP * SECOND, 0);
    let before = totals(&simulation);
    simulation.run((WARM_UP + SPAN) * SECOND, 0);
    let after = totals(&simulation);
    let less = |after: Vec<u64>, before: Vec<u64>| -> Vec<f64> {
        after.iter().zip(before).map(|(after, before)| (after - before) as f64).collect()
    };
    (less(after.0, before.0), less(after.1, before.1))
}

/// Share of a bottleneck of 20 Mbit/s that a connection takes from a flow with the same RTT.
fn share(cc: &str, pm: &str, competitor: &str, seed: u64) -> f64 {
    let network = shared_bottleneck(bottleneck(20.0), &[RTT_MS / 4.0; 2]);
    let (bytes, _) = bytes(&network, &[(cc, pm, 0), (competitor, "default", 1)], seed);
    bytes[0] / (bytes[0] + bytes[1])
}

/// Gain over the better path alone where only random losses limit most controls.
fn under_losses(cc: &str, seed: u64) -> f64 {
    let links = [0.0005, 0.004].map(|loss| lossy(queued(link(100.0, 25.0), RTT_MS, 1.0), loss));
    let throughput = |pm| bytes(&disjoint(&links), &[(cc, pm, 0)], seed).0[0];
    throughput("fullmesh") / throughput("default")
}

/// Gain over the better path alone, and the share of the traffic on the worse one, where the paths
/// carry one and four Reno flows.
fn between_reno_flows(cc: &str, seed: u64) -> (f64, f64) {
    let network = disjoint(&[bottleneck(20.0), bottleneck(20.0)]);
    let run = |pm| {
        let others = [0, 1, 1, 1, 1].map(|path| ("reno", "default", path));
        bytes(&network, &[&[(cc, pm, 0)][..], &others[..]].concat(), seed)
    };
    let (together, subflows) = run("fullmesh");
    let (alone, _) = run("default");
    (together[0] / alone[0], subflows[1] / (subflows[0] + subflows[1]))
}

/// Throughput of a connection on two idle paths: the sum of both (RFC 6356 section 1).
fn on_idle_paths(cc: &str, seed: u64) -> f64 {
    let rates = [20.0, 10.0];
    let network = disjoint(&rates.map(bottleneck));
    let (bytes, _) = bytes(&network, &[(cc, "fullmesh", 0)], seed);
    bytes[0] * 8e-6 / SPAN as f64 / (rates[0] + rates[1]) / PAYLOAD_SHARE
}
