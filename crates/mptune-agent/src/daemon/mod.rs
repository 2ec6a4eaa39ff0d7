//! Every MPTCP connection of a network namespace under the policy of its destination: a service.
//!
//! `mptune-agent daemon [--policy FILE] [--metrics ADDRESS]` works until SIGTERM or SIGINT; SIGHUP makes it read the
//! file again. It needs neither a standard input nor a standard output: systemd starts it, or `mptune daemon` with
//! `--attended`, which makes it end with that program. `policy` reads the file, `service` is the loop,
//! `watchdog` sees to it that nothing is left behind, `socket` has the readers, `web` the metrics over HTTP,
//! `steering` is what connections are steered by. Its messages go to standard error, a line each.
//!
//! `--check` reads the file and no more; with `--policy -` it is text for another machine, on the standard input.
//! `--restore` puts back what a daemon has left that was killed together with its watchdog. Both answer with a
//! line of JSON.
//!
//! Exit status: 0 after an end in order, 1 if it cannot be done here, 2 if the policy file is wrong, or the address
//! of the metrics cannot be had.

mod adaptation;
mod amount;
mod answer;
mod buffers;
mod deviation;
pub mod endpoint_journal;
pub mod endpoints;
mod error;
mod figures;
pub mod hosting;
mod looks;
mod metrics;
mod policy;
mod record;
mod remeasure;
mod service;
mod socket;
mod statistics;
mod status;
pub mod steering;
mod systemd;
mod table;
mod watchdog;
mod web;

use self::error::Error;
use self::policy::Plan;
use self::service::Service;
use crate::arguments::Arguments;
use crate::control::GRACE;
use crate::kernel::{signals, sys};
use crate::log;
use crate::undo::steps;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// The role; returns the exit status.
pub fn main(arguments: &Arguments) -> i32 {
    steps::begin("daemon");
    if arguments.daemon.restore {
        return restore();
    }
    let file = policy::place(arguments.daemon.policy.as_deref());
    if !arguments.daemon.check && file == Path::new(policy::TEXT) {
        log::write("--policy: expected a file without --check, found -");
        return 2;
    }
    let plan = match Plan::read(&file) {
        Ok(plan) => plan,
        Err(error) => {
            log::write(&error.to_string());
            return 2;
        }
    };
    let metrics = match arguments.daemon.metrics.as_deref().map(web::address).transpose() {
        Ok(metrics) => metrics,
        Err(error) => {
            log::write(&format!("--metrics: {error}"));
            return 2;
        }
    };
    if arguments.daemon.check {
        println!("{}", checked(&plan, metrics));
        return 0;
    }
    match serve(plan, metrics, arguments.daemon.attended) {
        Ok(()) => 0,
        Err(error) => {
            log::write(&error.to_string());
            if matches!(error, Error::Metrics(..)) { 2 } else { 1 }
        }
    }
}

fn serve(plan: Plan, metrics: Option<SocketAddr>, attended: bool) -> Result<(), Error> {
    let signals = signals::as_file(GRACE)?;
    if attended && !sys::die_with_parent(libc::SIGTERM)? {
        return Err(Error::Orphan);
    }
    Service::begin(plan, metrics, signals)?.run()
}

/// The content of a file, as `--check` prints it.
fn checked(plan: &Plan, metrics: Option<SocketAddr>) -> Value {
    let policies = plan.rules.iter().map(|rule| {
        json!({
            "name": &*rule.name,
            "to": rule.to.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "pm": rule.pm,
            "run": rule.run,
            "expected_mbit_s": rule.expectation.map(|expectation| expectation.mbit_s),
            "curve_points": rule.curve.as_ref().map(|curve| curve.points().len()),
        })
    });
    json!({
        "event": "checked",
        "policy_file": plan.file,
        "socket": plan.socket,
        "metrics": metrics.or(plan.metrics),
        "policies": policies.collect::<Vec<_>>(),
        "buffers": plan.buffers.as_ref().map(|buffers| json!({
            "least_bytes": buffers.bounds.least,
            "most_bytes": buffers.bounds.most,
            "target": buffers.bounds.target,
            "every_ns": buffers.every_ns,
        })),
        "remeasure": plan.remeasure.as_ref().map(|remeasure| json!({
            "begin_min": remeasure.ends[0],
            "end_min": remeasure.ends[1],
            "max_data_bytes": remeasure.max_data_bytes,
            "budget_ns": remeasure.budget_ns,
        })),
    })
}

fn restore() -> i32 {
    match watchdog::restore() {
        Ok(restored) => {
            let is_done = restored.kept.is_empty();
            let (names, kept) = (restored.names, restored.kept);
            println!("{}", json!({"event": "restored", "names": names, "kept": kept}));
            i32::from(!is_done)
        }
        Err(error) => {
            log::write(&error.to_string());
            1
        }
    }
}
