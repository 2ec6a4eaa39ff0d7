//! The same as the status, as metrics: one table of families, written in either of two formats.
//!
//! They differ in a family's name, which OpenMetrics has without the suffix of its samples, in its unit and in the
//! end of the text.

use super::status::{PolicyStatus, Status};
use std::fmt::{Display, Write};

/// Bit/s of a Mbit/s.
const MBIT: f64 = 1e6;

/// Format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text exposition format 0.0.4, which node_exporter takes from files.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Info,
}

impl Kind {
    /// Ending of its samples' names (OpenMetrics 1.0, "Metric types").
    fn suffix(self) -> &'static str {
        match self {
            Self::Gauge => "",
            Self::Counter => "_total",
            Self::Info => "_info",
        }
    }

    /// Its word; the older format has none for information.
    fn word(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Info, Format::OpenMetrics) => "info",
            _ => "gauge",
        }
    }
}

/// Units that names of families end in.
const UNITS: [&str; 3] = ["bits_per_second", "bytes", "seconds"];

/// A family of each policy: its name without prefix and suffix, its kind, its help, and its value.
type OfPolicies = (&'static str, Kind, &'static str, fn(&PolicyStatus) -> Option<f64>);

const OF_POLICIES: &[OfPolicies] = &[
    ("connections", Kind::Gauge, "Connections under the policy now.", |policy| {
        Some(policy.connections as f64)
    }),
    ("connections_opened", Kind::Counter, "Connections that came under the policy.", |policy| {
        Some(policy.opened as f64)
    }),
    ("subflows_joined", Kind::Counter, "Subflows that joined a connection.", |policy| {
        Some(policy.joined as f64)
    }),
    ("role_changes", Kind::Counter, "Subflows that were made standby or active.", |policy| {
        Some(policy.role_changes as f64)
    }),
    ("demotions", Kind::Counter, "Subflows that were made standby.", |policy| {
        Some(policy.demotions as f64)
    }),
    ("outages", Kind::Counter, "Subflows that were lost.", |policy| Some(policy.outages as f64)),
    ("errors", Kind::Counter, "Joins that failed and orders that the kernel refused.", |policy| {
        Some(policy.errors as f64)
    }),
    (
        "sent_bytes",
        Kind::Counter,
        "Payload sent, each byte once, sampled about once a second.",
        |policy| Some(policy.sent_bytes as f64),
    ),
    (
        "reinjected_bytes",
        Kind::Counter,
        "Payload that was sent once more on another subflow, sampled at the same times.",
        |policy| Some(policy.reinjected_bytes as f64),
    ),
    (
        "received_bytes",
        Kind::Counter,
        "Payload received in order, sampled at the same times.",
        |policy| Some(policy.received_bytes as f64),
    ),
    ("expected_bits_per_second", Kind::Gauge, "Throughput that the answer predicts.", |policy| {
        policy.expected_mbit_s.map(|rate| rate * MBIT)
    }),
    (
        "expected_low_bits_per_second",
        Kind::Gauge,
        "Lower end of what the answer predicts.",
        |policy| policy.expected_low_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "expected_high_bits_per_second",
        Kind::Gauge,
        "Upper end of what the answer predicts.",
        |policy| policy.expected_high_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "seen_low_bits_per_second",
        Kind::Gauge,
        "A quarter of the saturated time of the last hour was below.",
        |policy| policy.seen_low_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "seen_high_bits_per_second",
        Kind::Gauge,
        "A quarter of the saturated time of the last hour was above.",
        |policy| policy.seen_high_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "answer_outdated",
        Kind::Gauge,
        "1 if the prediction no longer holds: measure again.",
        |policy| Some(f64::from(u8::from(policy.outdated))),
    ),
];

/// All metrics.
pub fn text(status: &Status, format: Format) -> String {
    let mut text = Text { format, content: String::new() };
    let info = [("version", status.version), ("mode", status.mode)];
    text.family("daemon", Kind::Info, "The daemon; always 1.", [(&info[..], 1.0)]);
    let flag = |is: bool| f64::from(u8::from(is));
    for (name, kind, help, value) in [
        ("daemon_uptime_seconds", Kind::Gauge, "Time since the daemon began.", status.uptime_s),
        ("daemon_cpu_seconds", Kind::Counter, "Processor time of the daemon.", status.cpu_s),
        (
            "daemon_memory_bytes",
            Kind::Gauge,
            "Resident memory of the daemon.",
            status.memory_bytes as f64,
        ),
        ("daemon_readers", Kind::Gauge, "Connections to its socket.", status.readers as f64),
        (
            "daemon_lines_dropped",
            Kind::Counter,
            "Lines that slow readers of the socket have lost.",
            status.lines_dropped as f64,
        ),
        (
            "daemon_events_lost",
            Kind::Counter,
            "Events of the kernel that the daemon could not read in time.",
            status.resync.lost_events as f64,
        ),
        (
            "daemon_resyncs",
            Kind::Counter,
            "Comparisons of all connections with what the kernel has.",
            status.resync.times as f64,
        ),
        (
            "daemon_in_force",
            Kind::Gauge,
            "1 unless somebody else has changed the kernel's path manager.",
            flag(status.in_force),
        ),
        (
            "daemon_reload_successful",
            Kind::Gauge,
            "1 unless the last reload of the policy file was refused.",
            flag(status.reload_refused.is_none()),
        ),
    ] {
        text.family(name, kind, help, [(&[][..], value)]);
    }
    let mended = status.resync.mended.named().map(|(what, count)| ([("what", what)], count as f64));
    let mended = mended.iter().map(|(labels, value)| (&labels[..], *value));
    let help = "What these comparisons found other than believed, and mended.";
    text.family("daemon_mended", Kind::Counter, help, mended);
    let limits = status.buffers.iter().flat_map(|buffers| &buffers.limits);
    let limits: Vec<_> =
        limits.map(|limit| ([("setting", limit.name)], limit.limit_bytes as f64)).collect();
    let limits = limits.iter().map(|(labels, value)| (&labels[..], *value));
    let help = "Largest size of a buffer, where it is adapted.";
    text.family("daemon_buffer_limit_bytes", Kind::Gauge, help, limits);
    let mut roles = Vec::new();
    for policy in &status.policies {
        let labels = |role| [("policy", &*policy.name), ("role", role)];
        roles.push((labels("active"), policy.active as f64));
        roles.push((labels("standby"), policy.standby as f64));
    }
    let roles = roles.iter().map(|(labels, value)| (&labels[..], *value));
    text.family("subflows", Kind::Gauge, "Established subflows now.", roles);
    for (name, kind, help, value) in OF_POLICIES {
        let values = status
            .policies
            .iter()
            .filter_map(|policy| Some(([("policy", &*policy.name)], value(policy)?)));
        let values: Vec<_> = values.collect();
        let samples = values.iter().map(|(labels, value)| (&labels[..], *value));
        text.family(name, *kind, help, samples);
    }
    text.ended()
}

/// The output so far.
struct Text {
    format: Format,
    content: String,
}

impl Text {
    /// One family; nothing if it has no sample.
    fn family<'a>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = (&'a [(&'a str, &'a str)], f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let sample = format!("mptune_{name}{}", kind.suffix());
        let (family, unit) = match self.format {
            Format::Prometheus => (sample.clone(), None),
            Format::OpenMetrics => {
                (format!("mptune_{name}"), UNITS.iter().find(|unit| name.ends_with(*unit)))
            }
        };
        self.line(format_args!("# HELP {family} {help}"));
        self.line(format_args!("# TYPE {family} {}", kind.word(self.format)));
        if let Some(unit) = unit {
            self.line(format_args!("# UNIT {family} {unit}"));
        }
        for (labels, value) in samples {
            let labels: Vec<_> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            self.line(format_args!("{sample}{labels} {value}"));
        }
    }

    fn line(&mut self, content: impl Display) {
        writeln!(self.content, "{content}").expect("text takes everything");
    }

    fn ended(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line("# EOF");
        }
        self.content
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
