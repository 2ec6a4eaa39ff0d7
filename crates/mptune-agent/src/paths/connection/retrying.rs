//! Retries of a connection of a host: their times, and the reports about them.

use super::*;
use crate::kernel::error::strerror;
use std::collections::BTreeMap;

/// First and longest wait before a subflow is tried again; it doubles.
pub(super) const FIRST_WAIT_NS: u64 = 5_000_000_000;
const LONGEST_WAIT_NS: u64 = 600_000_000_000;
/// A subflow that lived this long has shown that its path works.
const PROVED_NS: u64 = 60_000_000_000;
/// Outages that are kept while some of them are going on.
const MOST_OUTAGES: usize = 64;

impl Connection {
    /// A subflow was closed.
    pub(super) fn on_lost(&mut self, id: SubflowId, event: &SubflowEvent, now_ns: u64) {
        self.settle(id, now_ns);
        if self.appearing.is_none() {
            return;
        }
        let error = i32::from(event.error);
        self.cause = Some(match error {
            0 => "the peer closed it".to_owned(),
            error => strerror(error),
        });
        if error != 0 {
            self.postpone(id, libc::ETIMEDOUT, now_ns);
        }
    }

    /// A subflow has ended, for an unknown reason.
    pub(super) fn on_unseen_end(&mut self, id: SubflowId, now_ns: u64) {
        self.settle(id, now_ns);
        self.postpone(id, libc::ETIMEDOUT, now_ns);
    }

    /// Notes what a subflow has done that is about to be closed.
    pub(super) fn settle(&mut self, id: SubflowId, now_ns: u64) {
        let carried = self.subflows[id].last.map_or(0, |last| last.acked_bytes);
        let lived_ns = now_ns - self.subflows[id].established_ns;
        let path = self.subflows[id].path;
        let Some(appearing) = &mut self.appearing else { return };
        appearing.carried += carried;
        if lived_ns > PROVED_NS {
            appearing.retries.remove(&path);
        }
    }

    /// A subflow failed with an error: if another attempt may succeed it is made later.
    pub(super) fn postpone(&mut self, id: SubflowId, error: i32, now_ns: u64) {
        let path = self.subflows[id].path;
        let Some(appearing) = &mut self.appearing else { return };
        if matches!(error, libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) {
            let waited = appearing.retries.get(&path).map(|(_, wait_ns)| wait_ns * 2);
            let wait_ns = waited.unwrap_or(FIRST_WAIT_NS).min(LONGEST_WAIT_NS);
            appearing.retries.insert(path, (now_ns + wait_ns, wait_ns));
        }
    }

    /// Its turn has come: what is due is tried again, and the policy hears how much was sent.
    pub(super) fn on_turn(&mut self, now_ns: u64) {
        let Some(appearing) = &mut self.appearing else { return };
        let due = appearing.retries.iter_mut().filter(|(_, (at_ns, _))| *at_ns <= now_ns);
        let mut now_due = Vec::new();
        for (&path, (at_ns, _)) in due {
            now_due.push(path);
            *at_ns = u64::MAX;
        }
        if appearing.notify_at.is_some() {
            let open = self.subflows.iter().filter(|flow| flow.pair.is_some());
            let open: u64 = open.filter_map(|flow| flow.last).map(|last| last.acked_bytes).sum();
            let sent = appearing.carried + open;
            if appearing.notify_at.is_some_and(|at| sent >= at) {
                appearing.notify_at = None;
                self.report(Report::BytesSent(sent), now_ns);
            }
        }
        now_due.retain(|&path| self.begins_there(path));
        for path in now_due {
            self.retry(path, now_ns);
        }
    }

    /// The policy wants to know when so much was sent.
    pub(super) fn notify_at(&mut self, bytes: u64) {
        if let Some(appearing) = &mut self.appearing {
            appearing.notify_at = Some(bytes);
        }
    }

    /// The latest role of each subflow, unless the kernel has it already.
    pub(super) fn only_the_last(&self, acts: Vec<Act>) -> Vec<Act> {
        let mut ordered = BTreeMap::new();
        for act in &acts {
            if let Act::SetPriority { subflow, backup, .. } = *act {
                ordered.insert(subflow, backup);
            }
        }
        let mut acts = acts;
        acts.retain(|act| match *act {
            Act::SetPriority { subflow, backup, .. } => {
                let is_last = ordered.get(&subflow) == Some(&backup);
                if is_last {
                    ordered.remove(&subflow);
                }
                is_last && self.subflows[subflow].kernel_backup != backup
            }
            _ => true,
        });
        acts
    }

    // What is reported

    /// Events since the last report.
    pub fn take_happened(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.happened)
    }

    pub(super) fn note_happening(&mut self, what: What, subflow: Option<Pair>, why: String) {
        if self.appearing.is_some() && (self.begun || what != What::Joined) {
            self.happened.push(Noted { what, subflow, why });
        }
    }

    /// Consequences of a report for others than its subflow.
    pub(super) fn cause_of(&self, report: &Report) -> String {
        match *report {
            Report::Joined(id) => format!("{} joined", self.label(id)),
            Report::JoinedByPeer(path) => {
                format!("{} joined", self.assignment.paths[path].label)
            }
            Report::Closed(id) => format!("{} was closed", self.label(id)),
            Report::Timeouts { subflow, consecutive: 0 } => {
                format!("{} makes progress again", self.label(subflow))
            }
            Report::Timeouts { subflow, consecutive } => {
                format!("{} timed out {consecutive} times in a row", self.label(subflow))
            }
            Report::BytesSent(bytes) => format!("{bytes} bytes were sent"),
            Report::PrioritySeen { .. } => "something else had changed it".to_owned(),
            _ => String::new(),
        }
    }

    /// Notes why roles are ordered and what becomes of subflows.
    pub(super) fn give_reasons(&mut self, orders: &[Order], cause: &str) {
        let why = self.driver.why().unwrap_or(cause).to_owned();
        for order in orders {
            let reason = match order {
                Order::SetRole { subflow, .. } => Some((*subflow, &why[..])),
                Order::NoteLost { subflow, .. } | Order::NoteRestored { subflow } => {
                    Some((*subflow, cause))
                }
                _ => None,
            };
            if let Some((subflow, reason)) = reason {
                self.reasons.insert(subflow, reason.to_owned());
            }
        }
    }

    /// Reason of an order about a subflow.
    pub(super) fn reason(&self, subflow: SubflowId) -> String {
        self.reasons.get(&subflow).cloned().unwrap_or_default()
    }

    /// Outages that are over are not kept for the life of such a connection.
    pub(super) fn forget_outages(&mut self) {
        let idle = self.open_outages.is_empty() && self.awaited.is_empty();
        if self.appearing.is_some() && (idle || self.outages.len() > MOST_OUTAGES) {
            self.outages.clear();
            self.open_outages.clear();
            self.awaited.clear();
        }
    }
}
