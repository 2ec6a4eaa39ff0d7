//! Forecasts by simulation: what a connection of the same stack would deliver over paths of which only a few numbers are
//! known.

use super::{TrialSpec, names};
use crate::mptcp::{Members, Protocol};
use crate::network::{Family, LinkSpec, NetworkSpec, PathSpec};
use crate::pathmanager::{Forecast, Line, OptionMap};
use crate::transport::BIN;
use crate::units::{Bytes, Nanos, SECOND};
use crate::workload::{Bulk, Workload};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A forecast simulates this long, and counts from the second time on: slow start is over.
const DURATION: Nanos = 6 * SECOND;
const COUNTED_FROM: Nanos = 2 * SECOND;
/// Numbers are rounded to powers of these factors, so that similar networks share one answer.
const RATE_STEP: f64 = 1.1;
const RTT_STEP: f64 = 1.1;
const QUEUE_STEP: f64 = 1.3;
const LOSS_STEP: f64 = 1.4;
/// Below this a path loses nothing.
const LEAST_LOSS: f64 = 1e-5;
/// Slowest path, and shortest RTT and queue that are simulated.
const LEAST_RATE: f64 = 100_000.0;
const LEAST_RTT: f64 = 200_000.0;
const LEAST_QUEUE: f64 = 10_000.0;
/// Answers that are kept.
const KEPT: usize = 4096;

/// Limit of buffers that grow (Linux `tcp_wmem`), and a segment with its DSS option, of hosts as they are.
const HOST_BUFFER: Bytes = 4 << 20;
const HOST_SEGMENT: u32 = 1448;

/// Steps of the numbers of a line.
type Key = [i32; 4];
/// Of the buffer, and of all lines.
type Network = (i32, Vec<Key>);

/// Forecasts for connections like that of one trial.
#[derive(Debug)]
pub struct Forecaster {
    like: TrialSpec,
    known: Mutex<HashMap<Network, f64>>,
}

impl Forecaster {
    /// For connections like this one.
    pub fn new(like: &TrialSpec) -> Self {
        let like = TrialSpec {
            network: NetworkSpec::default(),
            pm: "fullmesh".into(),
            pm_options: OptionMap::new(),
            workload: Workload::Bulk(Bulk { duration_ns: DURATION, ends_early: false }),
            starts_ns: vec![0],
            beside: vec![],
            initial_path: None,
            path_parameters: vec![],
            phase_ns: 0,
            script: vec![],
            ..like.clone()
        };
        Self { like, known: Mutex::default() }
    }

    /// For connections of upstream Linux with this congestion control; with Cubic where the simulator does not have it.
    pub fn of_host(cc: &str) -> Self {
        let scheduler = "kernel".to_owned();
        let is_known = names::paired("cc", cc, &scheduler).is_ok();
        Self::new(&TrialSpec {
            network: NetworkSpec::default(),
            protocol: Protocol::Mptcp,
            family: Family::default(),
            pm: "fullmesh".into(),
            cc: if is_known { cc } else { "cubic" }.into(),
            scheduler,
            members: Members::default(),
            accounting: "linux".into(),
            buffer_mode: "auto".into(),
            buffer_bytes: HOST_BUFFER,
            receive_buffer_bytes: None,
            mss: HOST_SEGMENT,
            seed: 1,
            phase_ns: 0,
            workload: Workload::ENDLESS,
            starts_ns: vec![0],
            beside: vec![],
            initial_path: None,
            pm_options: OptionMap::new(),
            path_parameters: vec![],
            size_known: true,
            bin_ns: BIN,
            script: vec![],
        })
    }

    /// What was simulated before.
    pub fn known(&self, lines: &[Line], buffer: Bytes) -> Option<f64> {
        self.answers().get(&rounded(lines, buffer)).copied()
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<Network, f64>> {
        // A simulation that panicked has written nothing.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn simulated(&self, (buffer, keys): &Network) -> Option<f64> {
        let mut spec = TrialSpec { network: network(keys), ..self.like.clone() };
        if *buffer > 0 {
            spec.buffer_bytes = value(*buffer, LEAST_QUEUE, RATE_STEP) as Bytes;
            spec.buffer_mode = "fixed".into();
        }
        let outcome = spec.run().ok()?;
        let first = (COUNTED_FROM / spec.bin_ns) as usize;
        let bytes: Bytes = outcome.bins.iter().skip(first).sum();
        Some(bytes as f64 * SECOND as f64 / (DURATION - COUNTED_FROM) as f64)
    }
}

impl Forecast for Forecaster {
    fn throughput(&self, lines: &[Line], buffer: Bytes) -> Option<f64> {
        let asked = rounded(lines, buffer);
        if let Some(&answer) = self.answers().get(&asked) {
            return Some(answer);
        }
        let answer = self.simulated(&asked)?;
        let mut answers = self.answers();
        if answers.len() >= KEPT {
            answers.clear();
        }
        answers.insert(asked, answer);
        Some(answer)
    }
}

/// The lines in any order, as the paths are disjoint; the buffer 0 where none is given.
fn rounded(lines: &[Line], buffer: Bytes) -> Network {
    let mut keys: Vec<Key> = lines.iter().map(key).collect();
    keys.sort_unstable();
    let buffer = if buffer == 0 { 0 } else { step(buffer as f64, LEAST_QUEUE, RATE_STEP).max(1) };
    (buffer, keys)
}

/// The step of a number.
fn step(value: f64, least: f64, factor: f64) -> i32 {
    (libm::log(value.max(least) / least) / libm::log(factor)).round() as i32
}

fn value(step: i32, least: f64, factor: f64) -> f64 {
    least * libm::pow(factor, f64::from(step))
}

fn key(line: &Line) -> Key {
    [
        step(line.rtt as f64, LEAST_RTT, RTT_STEP),
        step(line.rate_bps as f64, LEAST_RATE, RATE_STEP),
        step(line.queue as f64, LEAST_QUEUE, QUEUE_STEP),
        step(line.loss, LEAST_LOSS, LOSS_STEP),
    ]
}

/// Disjoint paths, the quickest first.
fn network(keys: &[Key]) -> NetworkSpec {
    let mut spec = NetworkSpec::default();
    for (number, &[rtt, rate, queue, loss]) in keys.iter().enumerate() {
        let rtt = value(rtt, LEAST_RTT, RTT_STEP) as Nanos;
        let forward = LinkSpec {
            name: format!("{number}"),
            rate_bps: Some(value(rate, LEAST_RATE, RATE_STEP) as u64),
            delay_ns: rtt / 2,
            queue_bytes: Some(value(queue, LEAST_QUEUE, QUEUE_STEP) as Bytes),
            loss_ppb: if loss > 0 { (value(loss, LEAST_LOSS, LOSS_STEP) * 1e9) as u64 } else { 0 },
            ..LinkSpec::default()
        };
        let reverse =
            LinkSpec { name: format!("{number} back"), delay_ns: rtt / 2, ..LinkSpec::default() };
        spec.links.extend([forward, reverse]);
        spec.paths.push(PathSpec {
            label: format!("{number}"),
            local: number,
            remote: 0,
            forward: vec![2 * number],
            reverse: vec![2 * number + 1],
            family: None,
            metered: false,
        });
    }
    spec
}
