//! Guard: all subflows carry data unless the connection proves faster without some of them. Nothing is measured
//! beforehand.
//!
//! Shared buffers full of data that a slow subflow has not delivered block the fast ones. Guard samples the statistics
//! that any data sender has ([`View::statistics`]). When the buffers limit the connection for a good part of the time, it
//! predicts the throughput of each subset of the active subflows and tries the best: it keeps the faster set. Standby
//! subflows are tried again, at growing intervals.
//!
//! Equations, with the function that implements each; docs/explanation/guard.md has the reasons.
//!
//! 1. rate of a subflow alone: `p = max(fastest delivery seen, lately; window / smoothed RTT)`
//!    (`Estimate::alone`)
//! 2. room: `B = most bytes outstanding while the buffers held the connection up` (`History::note_room`)
//! 3. prediction: `T(S) = min(sum of p over S, B / largest RTT in S)` ([`Guard::predicted`]), from the rule
//!    that a buffer must hold all rates for the largest RTT (RFC 6182 section 5.3)
//! 4. required gain: `g (1 + n / 2)` after `n` changes within a minute ([`Guard::required`])
//! 5. verdict: throughput in order, before against after ([`Guard::judge`])
//!
//! The connection always has an active subflow. Guard begins no trial after `most_changes`
//! changes within a minute. All its numbers are in [`TUNING`].

mod estimate;
mod history;
mod memory;
mod sets;
mod tuning;

use super::fullmesh::Fullmesh;
use super::{Command, Event, OptionInfo, OptionKind, PathManager, SubflowId, SubflowView, View};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos, SECOND};
use estimate::Estimate;
use history::History;
use memory::Memory;
use serde::{Deserialize, Serialize};
use sets::{Set, members, order, set_of, subsets};
use std::collections::VecDeque;
use tuning::{MINUTE, TUNING};

/// The options of guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Share of the time, in per cent, that the buffers hold the connection up before a subflow is suspected.
    pub held_up_share: usize,
    /// Gain, in per cent, that a set must promise to be tried.
    pub promised_gain: usize,
    /// Seconds after which a subflow on standby is tried again for the first time.
    pub first_retry: usize,
}

impl Default for Options {
    /// Developed on the dynamics of seed 1 of `benchmarks/decision/guard.py`.
    fn default() -> Self {
        Self { held_up_share: 50, promised_gain: 15, first_retry: 10 }
    }
}

/// A trial of another set.
#[derive(Debug, Clone, Copy)]
struct Trial {
    old: Set,
    new: Set,
    before: f64,
    /// Its start, and the bytes sent before it.
    began: Nanos,
    sent: Bytes,
    /// Start of the observations of the new set.
    settled: Option<Nanos>,
}

impl Trial {
    /// It adds a subflow rather than removing some.
    fn adds(&self) -> bool {
        self.new & !self.old != 0
    }
}

/// The policy with its options and observations.
#[derive(Debug, Clone)]
pub struct Guard {
    held_up_share: f64,
    promised_gain: f64,
    first_retry: Nanos,
    history: History,
    estimates: Vec<Estimate>,
    memory: Memory,
    trial: Option<Trial>,
    /// The active subflows that are alive, and the start of their observations.
    set: Set,
    settled: Nanos,
    /// The first sample.
    began: Option<Nanos>,
    /// Earliest trials: with fewer subflows, with one more, and with one of which no gain is predicted.
    next_without: Nanos,
    next_with: Nanos,
    next_blind: Nanos,
    wait_without: Nanos,
    wait_blind: Nanos,
    /// Changes within the last minute.
    changes: VecDeque<Nanos>,
}

impl PathManager for Guard {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[
        OptionInfo {
            name: "held_up_share",
            kind: OptionKind::Count,
            unit: "%",
            help: "share of the time that the shared buffers hold the connection up before a subflow is suspected",
        },
        OptionInfo {
            name: "promised_gain",
            kind: OptionKind::Count,
            unit: "%",
            help: "throughput that another set of subflows must promise to gain before it is tried",
        },
        OptionInfo {
            name: "first_retry",
            kind: OptionKind::Count,
            unit: "s",
            help: "time after which a subflow that was made standby is first tried again",
        },
    ];

    fn new(options: Options) -> Result<Self, SpecError> {
        let check = |name: &str, value: usize, most: usize| match value {
            1.. if value <= most => Ok(value as f64),
            _ => Err(SpecError::new(name, format!("expected 1 to {most}, found {value}"))),
        };
        Ok(Self {
            held_up_share: check("held_up_share", options.held_up_share, 100)? / 100.0,
            promised_gain: check("promised_gain", options.promised_gain, 1000)? / 100.0,
            first_retry: check("first_retry", options.first_retry, 600)? as Nanos * SECOND,
            history: History::default(),
            estimates: Vec::new(),
            memory: Memory::default(),
            trial: None,
            set: 0,
            settled: 0,
            began: None,
            next_without: 0,
            next_with: 0,
            next_blind: 0,
            wait_without: 0,
            wait_blind: TUNING.blind,
            changes: VecDeque::new(),
        })
    }

    fn sampling(&self) -> Option<Nanos> {
        Some(TUNING.interval)
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        self.estimates.resize(view.subflows.len(), Estimate::default());
        match event {
            Event::Established | Event::PathAdded(_) => Fullmesh.on_event(event, view, commands),
            Event::Sample(now) => self.on_sample(now, view, commands),
            Event::SubflowEstablished(_) | Event::SubflowLost(_) | Event::SubflowRestored(_) => {
                self.rescue(view.subflows, commands);
            }
            Event::BytesSent(_) => {}
        }
    }
}

impl Guard {
    /// No active subflow is alive: the best of those on standby become active.
    fn rescue(&mut self, subflows: &[SubflowView], commands: &mut Vec<Command>) {
        let alive = set_of(subflows, |subflow| subflow.alive);
        if alive == 0 || set_of(subflows, |subflow| subflow.alive && !subflow.backup) != 0 {
            return;
        }
        self.trial = None;
        let best = |a: &Set, b: &Set| self.predicted(*a).total_cmp(&self.predicted(*b));
        let best = subsets(alive).into_iter().chain([alive]).max_by(best).unwrap_or(alive);
        order(alive, best, subflows, commands);
    }

    fn on_sample(&mut self, now: Nanos, view: View<'_>, commands: &mut Vec<Command>) {
        let alive = set_of(view.subflows, |subflow| subflow.alive);
        let active = set_of(view.subflows, |subflow| subflow.alive && !subflow.backup);
        self.history.add(now, view);
        for id in members(active) {
            let lately = self.history.lately(id);
            self.estimates[id].update(&view.subflows[id], lately);
        }
        if active != self.set {
            self.on_set_changed(now, active);
        }
        if active == 0 {
            return;
        }
        self.changes.retain(|&at| now < at + MINUTE);
        let target = match self.trial {
            Some(trial) => self.judge(now, trial),
            None => self.consider(now, alive & !active),
        };
        if let Some(target) = target {
            self.changes.push_back(now);
            self.set = target;
            order(active | target, target, view.subflows, commands);
        }
    }

    /// Subflows joined, were lost or restored: a trial is void.
    fn on_set_changed(&mut self, now: Nanos, active: Set) {
        self.trial = None;
        self.set = active;
        let began = *self.began.get_or_insert(now);
        if now >= began + TUNING.slow_start {
            self.settled = now + self.settling(active);
        }
        if self.next_blind == 0 {
            self.next_blind = now + TUNING.blind;
        }
    }

    fn largest_rtt(&self, set: Set) -> f64 {
        members(set).map(|id| self.estimates[id].srtt).fold(0.0, f64::max)
    }

    fn settling(&self, set: Set) -> Nanos {
        let rtt = (self.largest_rtt(set) * SECOND as f64) as Nanos;
        (rtt * 3 / 2).clamp(TUNING.shortest_settling, TUNING.longest_settling)
    }

    fn window(&self, set: Set) -> Nanos {
        let rtt = (self.largest_rtt(set) * SECOND as f64) as Nanos;
        (rtt * 4).clamp(TUNING.shortest_window, TUNING.longest_window)
    }

    /// Equation 3. A subflow alone queues no more than its room: its RTT is then the smallest.
    fn predicted(&self, set: Set) -> f64 {
        let sum: f64 = members(set).map(|id| self.estimates[id].alone()).sum();
        let rtt = match set.count_ones() {
            1 => self.estimates[set.trailing_zeros() as usize].min_rtt,
            _ => self.largest_rtt(set),
        };
        match (rtt > 0.0, self.history.room > 0.0) {
            (false, _) => 0.0,
            (true, false) => sum,
            (true, true) => sum.min(self.history.room / rtt),
        }
    }

    /// Equation 4.
    fn required(&self) -> f64 {
        self.promised_gain * (1.0 + self.changes.len() as f64 / 2.0)
    }

    /// The set to try now, if any; `standby` could be active.
    fn consider(&mut self, now: Nanos, standby: Set) -> Option<Set> {
        let (began, window) = (self.began?, self.window(self.set));
        if now < began + TUNING.first_trial || now < self.settled + window {
            return None;
        }
        let from = self.settled.max(now.saturating_sub(TUNING.most_windows * window));
        let (span, lately) = (self.history.since(from), self.history.since(now - window));
        let rate =
            if lately.rate < TUNING.clearly_less * span.rate { lately.rate } else { span.rate };
        let usual = self.memory.usual(self.set).unwrap_or(rate);
        let collapsed = rate < TUNING.collapsed * usual;
        if !collapsed {
            self.memory.learn(self.set, 0.9 * usual + 0.1 * rate, now, false);
        }
        if self.changes.len() >= TUNING.most_changes {
            return None;
        }
        let suspicious = span.held_up >= self.held_up_share;
        let without = (suspicious && (now >= self.next_without || collapsed))
            .then(|| self.best_without(now, rate, now < began + TUNING.slow_start))
            .flatten();
        let new = without
            .or_else(|| self.best_with(now, rate, standby, collapsed))
            .or_else(|| self.longest_waiting(now, standby))?;
        let (old, sent) = (self.set, self.history.sent());
        for id in members(old & !new) {
            self.estimates[id].go_on_standby(now, self.first_retry);
        }
        self.trial = Some(Trial { old, new, before: rate, began: now, sent, settled: None });
        Some(new)
    }

    /// The most promising subset of the active subflows, if its gain is large enough.
    fn best_without(&self, now: Nanos, rate: f64, starting: bool) -> Option<Set> {
        let slow_start = if starting { TUNING.slow_start_gain } else { 0.0 };
        let enough = rate * (1.0 + self.required() + slow_start);
        let value = |set: Set| match self.memory.fresh(set, now) {
            Some(rate) => TUNING.memory_trust * rate,
            None => TUNING.trust * self.predicted(set),
        };
        let valued = subsets(self.set).into_iter().map(|set| (value(set), set));
        let best = valued.filter(|&(value, _)| value > enough).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, set)| set)
    }

    /// The active subflows with the most promising standby one, if its gain is large enough or the throughput has
    /// collapsed.
    fn best_with(&self, now: Nanos, rate: f64, standby: Set, collapsed: bool) -> Option<Set> {
        if now < self.next_with {
            return None;
        }
        let enough = rate * (1.0 + self.required());
        let valued = members(standby).map(|id| {
            let set = self.set | 1 << id;
            let known = self.memory.fresh(set, now).unwrap_or(f64::INFINITY);
            (self.predicted(set).min(known), id, set)
        });
        let due = |id: SubflowId| now >= self.estimates[id].due;
        let open = valued.filter(|&(value, id, _)| collapsed || due(id) && value > enough);
        open.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, _, set)| set)
    }

    /// The active subflows with the one longest on standby, which may have changed unseen.
    fn longest_waiting(&mut self, now: Nanos, standby: Set) -> Option<Set> {
        if now < self.next_blind {
            return None;
        }
        let id = members(standby).min_by_key(|&id| self.estimates[id].due)?;
        self.wait_blind = (2 * self.wait_blind).min(TUNING.longest_wait);
        self.next_blind = now + self.wait_blind;
        Some(self.set | 1 << id)
    }

    /// Equation 5: the old set if the new one is not better; none if it is, or before the verdict.
    fn judge(&mut self, now: Nanos, mut trial: Trial) -> Option<Set> {
        let Some(settled) = trial.settled else {
            trial.settled = self.has_settled(now, &trial).then_some(now);
            self.trial = Some(trial);
            return None;
        };
        let span = self.history.since(settled);
        let ratio = span.rate / trial.before.max(1.0);
        if !self.is_over(now, settled, &trial, ratio) {
            return None;
        }
        self.trial = None;
        let better = match trial.adds() {
            true => ratio > 1.0 || ratio > TUNING.harmless && span.held_up < TUNING.held_up,
            false => ratio > TUNING.least_gain,
        };
        self.memory.learn(trial.new, span.rate, now, !better);
        match trial.adds() {
            true => self.end_trial_with(now, &trial, better),
            false => self.end_trial_without(now, &trial, better),
        }
        if better {
            self.settled = settled;
            return None;
        }
        self.settled = now + self.settling(trial.old | trial.new);
        Some(trial.old)
    }

    /// Observations from now on are those of the new set.
    fn has_settled(&self, now: Nanos, trial: &Trial) -> bool {
        if trial.adds() {
            return now >= trial.began + self.settling(trial.new);
        }
        self.history.has_drained(trial.sent) || now >= trial.began + TUNING.longest_drain
    }

    fn is_over(&self, now: Nanos, settled: Nanos, trial: &Trial, ratio: f64) -> bool {
        let window = self.window(trial.new);
        let clear = !(TUNING.clearly_less..TUNING.clearly_more).contains(&ratio);
        let hopeless =
            trial.adds() && ratio < TUNING.hopeless && now >= settled + TUNING.shortest_window / 2;
        hopeless || now >= settled + if clear { window } else { TUNING.most_windows * window }
    }

    fn end_trial_with(&mut self, now: Nanos, trial: &Trial, better: bool) {
        self.next_with = now + TUNING.pause;
        for id in members(trial.new & !trial.old) {
            let estimate = &mut self.estimates[id];
            if better {
                estimate.returned = Some(now);
            } else {
                estimate.wait = estimate.longer_wait();
                estimate.due = now + estimate.wait;
            }
        }
    }

    fn end_trial_without(&mut self, now: Nanos, trial: &Trial, better: bool) {
        if !better {
            self.wait_without =
                (2 * self.wait_without).clamp(TUNING.after_failure, TUNING.longest_wait);
            self.next_without = now + self.wait_without;
            return;
        }
        self.wait_without = 0;
        // A throughput measured in slow start is not that of the set.
        if self.began.is_some_and(|began| now > began + TUNING.young) {
            self.memory.learn(trial.old, trial.before, now, true);
        } else {
            self.memory.forget(trial.old);
        }
    }
}

#[cfg(test)]
mod tests;
