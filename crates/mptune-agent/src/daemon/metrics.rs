//! The same as the status, for Prometheus (text exposition format 0.0.4).

use super::status::{PolicyStatus, Status};
use std::fmt::{Display, Write};

/// Bit/s of a Mbit/s.
const MBIT: f64 = 1e6;

/// A family of each policy: its name without the prefix, its kind, its help, and its value.
type OfPolicies = (&'static str, &'static str, &'static str, fn(&PolicyStatus) -> Option<f64>);

const OF_POLICIES: &[OfPolicies] = &[
    ("connections", "gauge", "Connections under the policy now.", |policy| {
        Some(policy.connections as f64)
    }),
    ("connections_total", "counter", "Connections that came under the policy.", |policy| {
        Some(policy.opened as f64)
    }),
    ("subflows_joined_total", "counter", "Subflows that joined a connection.", |policy| {
        Some(policy.joined as f64)
    }),
    ("role_changes_total", "counter", "Subflows that were made standby or active.", |policy| {
        Some(policy.role_changes as f64)
    }),
    ("demotions_total", "counter", "Subflows that were made standby.", |policy| {
        Some(policy.demotions as f64)
    }),
    ("outages_total", "counter", "Subflows that were lost.", |policy| Some(policy.outages as f64)),
    (
        "errors_total",
        "counter",
        "Joins that failed and orders that the kernel refused.",
        |policy| Some(policy.errors as f64),
    ),
    (
        "sent_bytes_total",
        "counter",
        "Payload sent, each byte once, sampled about once a second.",
        |policy| Some(policy.sent_bytes as f64),
    ),
    (
        "received_bytes_total",
        "counter",
        "Payload received in order, sampled at the same times.",
        |policy| Some(policy.received_bytes as f64),
    ),
    ("expected_bits_per_second", "gauge", "Throughput that the answer predicts.", |policy| {
        policy.expected_mbit_s.map(|rate| rate * MBIT)
    }),
    ("expected_low_bits_per_second", "gauge", "Lower end of what the answer predicts.", |policy| {
        policy.expected_low_mbit_s.map(|rate| rate * MBIT)
    }),
    (
        "expected_high_bits_per_second",
        "gauge",
        "Upper end of what the answer predicts.",
        |policy| policy.expected_high_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "seen_low_bits_per_second",
        "gauge",
        "A quarter of the saturated time of the last hour was below.",
        |policy| policy.seen_low_mbit_s.map(|rate| rate * MBIT),
    ),
    (
        "seen_high_bits_per_second",
        "gauge",
        "A quarter of the saturated time of the last hour was above.",
        |policy| policy.seen_high_mbit_s.map(|rate| rate * MBIT),
    ),
    ("answer_outdated", "gauge", "1 if the prediction no longer holds: measure again.", |policy| {
        Some(f64::from(u8::from(policy.outdated)))
    }),
];

/// All metrics.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    let info = [("version", status.version), ("mode", status.mode)];
    family(&mut text, "daemon_info", "gauge", "The daemon; always 1.", [(&info[..], 1.0)]);
    let flag = |is: bool| f64::from(u8::from(is));
    for (name, kind, help, value) in [
        ("daemon_uptime_seconds", "gauge", "Time since the daemon began.", status.uptime_s),
        ("daemon_cpu_seconds_total", "counter", "Processor time of the daemon.", status.cpu_s),
        (
            "daemon_memory_bytes",
            "gauge",
            "Resident memory of the daemon.",
            status.memory_bytes as f64,
        ),
        ("daemon_readers", "gauge", "Connections to its socket.", status.readers as f64),
        (
            "daemon_lines_dropped_total",
            "counter",
            "Lines that slow readers of the socket have lost.",
            status.lines_dropped as f64,
        ),
        (
            "daemon_events_lost_total",
            "counter",
            "Events of the kernel that the daemon could not read in time.",
            status.resync.lost_events as f64,
        ),
        (
            "daemon_resyncs_total",
            "counter",
            "Comparisons of all connections with what the kernel has.",
            status.resync.times as f64,
        ),
        (
            "daemon_in_force",
            "gauge",
            "1 unless somebody else has changed the kernel's path manager.",
            flag(status.in_force),
        ),
        (
            "daemon_reload_successful",
            "gauge",
            "1 unless the last reload of the policy file was refused.",
            flag(status.reload_refused.is_none()),
        ),
    ] {
        family(&mut text, name, kind, help, [(&[][..], value)]);
    }
    let mended = status.resync.mended.named().map(|(what, count)| ([("what", what)], count as f64));
    let mended = mended.iter().map(|(labels, value)| (&labels[..], *value));
    let help = "What these comparisons found other than believed, and mended.";
    family(&mut text, "daemon_mended_total", "counter", help, mended);
    let limits = status.buffers.iter().flat_map(|buffers| &buffers.limits);
    let limits: Vec<_> =
        limits.map(|limit| ([("setting", limit.name)], limit.limit_bytes as f64)).collect();
    let limits = limits.iter().map(|(labels, value)| (&labels[..], *value));
    let help = "Largest size of a buffer, where it is adapted.";
    family(&mut text, "daemon_buffer_limit_bytes", "gauge", help, limits);
    let mut roles = Vec::new();
    for policy in &status.policies {
        let labels = |role| [("policy", &*policy.name), ("role", role)];
        roles.push((labels("active"), policy.active as f64));
        roles.push((labels("standby"), policy.standby as f64));
    }
    let roles = roles.iter().map(|(labels, value)| (&labels[..], *value));
    family(&mut text, "subflows", "gauge", "Established subflows now.", roles);
    for (name, kind, help, value) in OF_POLICIES {
        let values = status
            .policies
            .iter()
            .filter_map(|policy| Some(([("policy", &*policy.name)], value(policy)?)));
        let values: Vec<_> = values.collect();
        let samples = values.iter().map(|(labels, value)| (&labels[..], *value));
        family(&mut text, name, kind, help, samples);
    }
    text
}

/// One family; nothing if it has no sample.
fn family<'a>(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (&'a [(&'a str, &'a str)], f64)>,
) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return;
    }
    line(text, format_args!("# HELP mptune_{name} {help}"));
    line(text, format_args!("# TYPE mptune_{name} {kind}"));
    for (labels, value) in samples {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        line(text, format_args!("mptune_{name}{labels} {value}"));
    }
}

fn line(text: &mut String, content: impl Display) {
    writeln!(text, "{content}").expect("text takes everything");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
