//! The emulator's output: lines of JSON.

use crate::config::Config;
use crate::relay::Relay;
use mptune_core::network::LinkCounters;
use mptune_core::units::Nanos;
use serde::Serialize;
use std::io::Write;

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The devices exist.
    Ready,
    /// The reason for not starting, or for ending.
    Error { reason: &'a str },
    /// The report; the last line.
    Report(Report<'a>),
}

/// The time for which the emulator carried packets, and its cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    pub elapsed: Nanos,
    pub cpu: Nanos,
    /// Scheduling class of the process.
    pub scheduling: &'static str,
    /// Packets that devices dropped because they were not read, or not received, in time.
    pub lost: u64,
}

/// The result of an emulation.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    elapsed_ns: Nanos,
    /// Processor time of the emulator, including the receiving stack's work on each packet unless another
    /// processor does it.
    cpu_ns: Nanos,
    scheduling: &'static str,
    packets: u64,
    bytes: u64,
    late_p50_ns: Nanos,
    late_p99_ns: Nanos,
    late_max_ns: Nanos,
    unroutable: u64,
    overflow: u64,
    /// Packets after the recording's limit.
    unrecorded: u64,
    links: Vec<Link<'a>>,
}

#[derive(Debug, Serialize)]
struct Link<'a> {
    name: &'a str,
    forwarded: u64,
    dropped: u64,
    lost: u64,
    marked: u64,
    duplicated: u64,
    stuck: u64,
    background: u64,
}

impl<'a> Report<'a> {
    pub fn new(config: &'a Config, relay: &Relay, effort: Effort) -> Self {
        let tally = relay.tally();
        let late = relay.lateness();
        let links = config.network.links.iter().zip(relay.counters());
        Self {
            elapsed_ns: effort.elapsed,
            cpu_ns: effort.cpu,
            scheduling: effort.scheduling,
            packets: tally.packets,
            bytes: tally.bytes,
            late_p50_ns: late.quantile(0.5),
            late_p99_ns: late.quantile(0.99),
            late_max_ns: late.max(),
            unroutable: tally.unroutable,
            overflow: tally.overflow + effort.lost,
            unrecorded: relay.unrecorded(),
            links: links.map(|(link, counters)| Link::new(&link.name, counters)).collect(),
        }
    }
}

impl<'a> Link<'a> {
    fn new(name: &'a str, counters: LinkCounters) -> Self {
        let LinkCounters { forwarded, dropped, lost, marked, duplicated, stuck, background } =
            counters;
        Self { name, forwarded, dropped, lost, marked, duplicated, stuck, background }
    }
}

impl Event<'_> {
    /// The line, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Prints a line. Without a reader, the emulator must still end cleanly.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
