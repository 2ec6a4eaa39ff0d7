//! Requests of the socket's readers to the service, and its answers.

use super::{Service, TICK_NS};
use crate::daemon::error::Error;
use crate::daemon::metrics;
use crate::daemon::policy::Rule;
use crate::daemon::record::Record;
use crate::daemon::socket::{Refused, Request};
use crate::daemon::status::{self, RemeasureStatus, Status};
use crate::daemon::web::Web;
use crate::kernel::sys;
use serde_json::json;

impl Service {
    pub(super) fn serve(&mut self, reader: u64, request: Request) {
        match request {
            Request::Status => {
                let status = self.status();
                self.server.answer(reader, &status);
            }
            Request::Metrics => {
                let text = metrics::text(&self.status(), metrics::Format::Prometheus);
                self.server.answer(reader, &json!({"event": "metrics", "text": text}));
            }
            Request::Events { since } => {
                let events = self.records.since(since);
                self.server.answer(reader, &json!({"event": "events", "events": events}));
            }
            Request::Reload => match self.reload() {
                Ok(()) => self.server.answer(reader, &json!({"event": "reloaded"})),
                Err(error) => self.server.answer(reader, &Refused { reason: &error.to_string() }),
            },
            Request::Suspend { policy } => {
                let suspended = self.rule(&policy).map(drop);
                match suspended {
                    Ok(()) => {
                        self.server.suspend(reader, policy.clone());
                        // In force before anybody relies on it.
                        self.suspend();
                        let done = json!({"event": "suspended", "policy": policy});
                        self.server.answer(reader, &done);
                    }
                    Err(error) => {
                        self.server.answer(reader, &Refused { reason: &error.to_string() })
                    }
                }
            }
            Request::Say { policy, what, why } => {
                let record =
                    self.rule(&policy).map(|rule| Record::own(Some(&rule.name), &what, &why));
                match record {
                    Ok(record) => {
                        self.records.add(record);
                        self.server.answer(reader, &json!({"event": "said"}));
                    }
                    Err(error) => {
                        self.server.answer(reader, &Refused { reason: &error.to_string() })
                    }
                }
            }
        }
    }

    /// Serves who asks for the metrics over HTTP.
    pub(super) fn show(&mut self, ready: &[bool]) {
        let now_ns = sys::monotonic_ns();
        if self.web.as_mut().is_some_and(|web| web.step(ready, now_ns)) {
            let text = metrics::text(&self.status(), metrics::Format::OpenMetrics);
            self.web.iter_mut().for_each(|web| web.answer(&text));
        }
    }

    fn rule(&self, name: &str) -> Result<&Rule, Error> {
        self.plan.rules.iter().find(|rule| &*rule.name == name).ok_or_else(|| {
            let known: Vec<_> = self.plan.rules.iter().map(|rule| &*rule.name).collect();
            Error::Policy { known: known.join(", "), found: name.to_owned() }
        })
    }

    /// Leaves new connections of suspended policies alone, and records it.
    pub(super) fn suspend(&mut self) {
        let ordered = self.server.suspended();
        let before = self.suspended.replace(ordered.clone());
        for (names, others, what) in
            [(&ordered, &before, "suspended"), (&before, &ordered, "in force again")]
        {
            for name in names.difference(others) {
                let why = "a measurement is running: new connections are left alone";
                let why = if what == "suspended" { why } else { "" };
                self.records.add(Record::own(Some(name), what, why));
            }
        }
    }

    pub(super) fn status(&mut self) -> Status {
        // The counts of connections are as they are now.
        self.figures.steer(&self.steering.steered());
        let now_s = sys::realtime_ns() / TICK_NS;
        let suspended = self.suspended.borrow();
        let of = |rule: &Rule| self.figures.status(rule, now_s, suspended.contains(&*rule.name));
        let at_ns = sys::monotonic_ns();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            mode: self.mode(),
            policy_file: self.plan.file.clone(),
            at_ns,
            uptime_s: (at_ns - self.began_ns) as f64 / 1e9,
            in_force: self.watchdog.overruled().is_none(),
            reload_refused: self.reload_refused.clone(),
            metrics: self.web.as_ref().map(Web::address),
            readers: self.server.readers() as u64,
            lines_dropped: self.server.dropped(),
            last_event: self.records.last(),
            resync: self.steering.resynced(),
            cpu_s: sys::cpu_ns() as f64 / 1e9,
            memory_bytes: status::memory_bytes(),
            remeasure: self.plan.remeasure.clone().map(|remeasure| RemeasureStatus {
                hours: remeasure.hours,
                max_data: remeasure.max_data,
                budget: remeasure.budget,
            }),
            buffers: self.adaptation.status(),
            interfaces: self.addresses.overview(&self.remotes()),
            policies: self.plan.rules.iter().map(of).collect(),
        }
    }
}
