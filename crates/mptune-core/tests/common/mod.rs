//! Networks and trials for the tests of whole connections.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod drawn;

use mptune_core::congestion::Controller;
use mptune_core::mptcp::accounting::{Accounting, BufferMode};
use mptune_core::mptcp::{ConnectionOptions, Members, Protocol, scheduler};
use mptune_core::network::{Family, LinkSpec, NetworkSpec, PathSpec};
use mptune_core::pathmanager::{OptionMap, Policy, TransferSize};
use mptune_core::transport::BIN;
use mptune_core::trial::{Outcome, ScriptAction, ScriptSpec, TrialSpec};
use mptune_core::units::{MILLISECOND, Nanos, SECOND};
use mptune_core::workload::{Bulk, Transfer, Workload};

/// Payload bytes of a full segment.
pub const MSS: u32 = 1448;
/// Share of a 1500-byte packet that is payload.
pub const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
/// One MiB.
pub const MIB: u64 = 1 << 20;

/// A unidirectional link.
pub fn link(mbps: f64, delay_ms: f64) -> LinkSpec {
    LinkSpec {
        name: format!("{mbps} Mbit/s"),
        rate_bps: Some((mbps * 1e6) as u64),
        delay_ns: (delay_ms * 1e6) as Nanos,
        ..LinkSpec::default()
    }
}

/// The same link with a drop-tail queue of this many bandwidth-delay products of a round trip.
pub fn queued(mut link: LinkSpec, rtt_ms: f64, products: f64) -> LinkSpec {
    let rate = link.rate_bps.unwrap_or(0) as f64;
    link.queue_bytes = Some((rate / 8.0 * rtt_ms / 1e3 * products).max(3000.0) as u64);
    link
}

/// The same link losing packets at random.
pub fn lossy(mut link: LinkSpec, probability: f64) -> LinkSpec {
    link.loss_ppb = (probability * 1e9) as u64;
    link
}

/// Disjoint paths from as many local interfaces to one remote interface: each has its own link there and an
/// uncongested one of the same delay back.
pub fn disjoint(links: &[LinkSpec]) -> NetworkSpec {
    let mut spec = NetworkSpec::default();
    for (number, forward) in links.iter().enumerate() {
        let back = link(1000.0, forward.delay_ns as f64 / 1e6);
        spec.links.extend([forward.clone(), back]);
        spec.paths.push(path(number, 0, &[2 * number], &[2 * number + 1]));
    }
    spec
}

/// Two paths of different delay that share one bottleneck, and a third path for a competitor.
pub fn shared_bottleneck(bottleneck: LinkSpec, access_ms: &[f64]) -> NetworkSpec {
    let mut links = vec![bottleneck, link(1000.0, 0.0)];
    let mut paths = vec![];
    for (number, &delay) in access_ms.iter().enumerate() {
        links.push(link(1000.0, delay));
        paths.push(path(number, 0, &[2 + number, 0], &[1, 2 + number]));
    }
    NetworkSpec { links, paths, ..NetworkSpec::default() }
}

/// N x M paths over shared access links, as between two sites.
pub fn sites(
    rates: &[f64],
    remotes: usize,
    delay_ms: f64,
    loss: f64,
    queue_packets: u64,
    jitter_ns: u64,
) -> NetworkSpec {
    let mut spec = NetworkSpec::default();
    let mut add = |mbps: f64, delay: f64| {
        let mut link = lossy(link(mbps, delay), loss / 4.0);
        link.queue_bytes = Some(queue_packets * 1500);
        link.jitter_ns = jitter_ns;
        spec.links.push(link);
        spec.links.len() - 1
    };
    let up: Vec<_> = rates.iter().map(|&rate| (add(rate, delay_ms), add(rate, 1.0))).collect();
    let down: Vec<_> =
        (0..remotes).map(|i| (add(rates[0] * (i + 1) as f64, 2.0), add(rates[0], 1.0))).collect();
    for (i, &(out, back_in)) in up.iter().enumerate() {
        for (j, &(into, back_out)) in down.iter().enumerate() {
            spec.paths.push(path(i, j, &[out, into], &[back_out, back_in]));
        }
    }
    spec
}

/// A path over the given links.
pub fn path(local: usize, remote: usize, forward: &[usize], reverse: &[usize]) -> PathSpec {
    let label = format!("{local}-{remote}");
    PathSpec {
        label,
        local,
        remote,
        forward: forward.into(),
        reverse: reverse.into(),
        family: None,
        metered: false,
    }
}

/// A sender that always has more, for this long.
pub fn saturated(duration_ns: Nanos) -> Workload {
    Workload::Bulk(Bulk { duration_ns, ends_early: false })
}

/// A saturated trial with fullmesh and minRTT.
pub fn trial(network: NetworkSpec, cc: &str, buffer_bytes: u64, seconds: u64) -> TrialSpec {
    TrialSpec {
        network,
        protocol: Protocol::Mptcp,
        family: Family::Ipv4,
        pm: "fullmesh".into(),
        cc: cc.into(),
        scheduler: "minrtt".into(),
        members: Members::default(),
        accounting: "payload".into(),
        buffer_mode: "fixed".into(),
        buffer_bytes,
        receive_buffer_bytes: None,
        mss: MSS,
        seed: 1,
        workload: saturated(seconds * SECOND),
        initial_path: None,
        path_parameters: vec![],
        pm_options: OptionMap::new(),
        starts_ns: vec![0],
        beside: vec![],
        size_known: true,
        phase_ns: 0,
        bin_ns: BIN,
        script: vec![],
    }
}

/// The same trial with options of its path manager, a JSON object.
pub fn with_options(mut trial: TrialSpec, options: serde_json::Value) -> TrialSpec {
    trial.pm_options = serde_json::from_value(options).expect("an object");
    trial
}

/// A scripted action.
pub fn at(seconds: u64, path: usize, action: ScriptAction) -> ScriptSpec {
    ScriptSpec { at_ns: seconds * SECOND, path, action }
}

/// The same trial as a transfer.
pub fn transfer(mut trial: TrialSpec, bytes: u64) -> TrialSpec {
    trial.workload = Workload::Transfer(Transfer { bytes, deadline_ns: 600 * SECOND });
    trial
}

/// Gives the transfer up after this long.
pub fn within(trial: &mut TrialSpec, seconds: u64) {
    let Workload::Transfer(transfer) = &mut trial.workload else { panic!("no transfer") };
    transfer.deadline_ns = seconds * SECOND;
}

/// Runs a trial that must succeed.
pub fn run(trial: &TrialSpec) -> Outcome {
    let outcome = trial.run().expect("a valid trial");
    assert_eq!(outcome.failed, None);
    outcome
}

/// In-order payload of an outcome, Mbit/s.
pub fn mbps(outcome: &Outcome) -> f64 {
    outcome.in_order_bytes as f64 * 8e3 / outcome.duration_ns as f64
}

/// In-order payload between two times, Mbit/s; both multiples of 100 ms.
pub fn mbps_between(outcome: &Outcome, from: Nanos, to: Nanos) -> f64 {
    let bin = |at: Nanos| (at / (100 * MILLISECOND)) as usize;
    let bytes: u64 = outcome.bins[bin(from)..bin(to)].iter().sum();
    bytes as f64 * 8e3 / (to - from) as f64
}

/// A saturated connection for a simulation of several, on the given paths only.
pub fn connection(cc: &str, pm: &str, initial_path: usize, start: Nanos) -> ConnectionOptions {
    ConnectionOptions {
        protocol: Protocol::Mptcp,
        controller: Controller::new(cc).expect("known congestion control"),
        scheduler: scheduler::Policy::new("minrtt").expect("known scheduler"),
        path_policy: None,
        path_parameters: vec![],
        members: Members::default(),
        accounting: Accounting::Payload,
        buffer_mode: BufferMode::Fixed,
        path_manager: Policy::new(pm, &OptionMap::new(), 1).expect("known path manager"),
        workload: Workload::ENDLESS,
        size: TransferSize::Unlimited,
        send_buffer: 32 * MIB,
        receive_buffer: 32 * MIB,
        mss: MSS,
        initial_path,
        phase: 0,
        bin: BIN,
        start,
        reversed: false,
        script: vec![],
    }
}
