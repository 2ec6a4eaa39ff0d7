//! Guard: all subflows carry data unless the connection proves faster over a part of them. Nothing is measured
//! beforehand.
//!
//! Shared buffers full of data that a slow subflow has not delivered block the fast ones. Guard samples the statistics
//! that any data sender has ([`View::statistics`]), takes from them what the paths are like, and asks what the connection would
//! give over each set of its paths ([`Forecast`]: a simulation). A set that promises enough is tried, and kept if it is faster.
//! Standby subflows are tried again, at growing intervals.
//!
//! Equations, with the function that implements each; docs/explanation/guard.md has the reasons.
//!
//! 1. a path: `rate = the largest delivery rate of 5 to 10 s`, `RTT = the smallest`, `queue = rate (longest RTT - RTT)`,
//!    `loss = losses that no full queue explains / what was delivered` (`Estimate::line`)
//! 2. forecast: `T(S) = the throughput of such a connection over the paths of S` ([`Guard::foreseen`])
//! 3. value: `V(S) = T(S) if T(S) > (1 + g) T(now)`, or what it gave lately ([`Guard::best`])
//! 4. required gain: `V(S) > (1 + g (1 + n / 2)) x throughput`, after `n` changes within a minute ([`Guard::required`])
//! 5. verdict: throughput in order, after against before ([`Guard::judge`])
//!
//! The connection always has an active subflow. Guard begins no trial after `most_changes`
//! changes within a minute. All its numbers are in [`TUNING`].

mod estimate;
mod history;
mod memory;
mod sets;
mod tuning;

use super::fullmesh::Fullmesh;
use super::{
    Command, Event, Forecast, Line, OptionInfo, OptionKind, PathManager, SubflowId, SubflowView,
    View,
};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos, SECOND};
use estimate::Estimate;
use history::History;
use memory::Memory;
use serde::{Deserialize, Serialize};
use sets::{Set, candidates, members, order, set_of};
use std::collections::VecDeque;
use std::sync::Arc;
use tuning::{MINUTE, TUNING};

/// The options of guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Gain, in per cent, that a set must promise to be tried.
    pub promised_gain: usize,
    /// Seconds after which a subflow on standby is tried again for the first time.
    pub first_retry: usize,
}

impl Default for Options {
    /// Developed on the dynamics of seed 1 of `benchmarks/decision/guard.py`.
    fn default() -> Self {
        Self { promised_gain: 15, first_retry: 10 }
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
    /// Earliest trials: of any set, with another subflow, and with one of which no gain is foreseen.
    next_trial: Nanos,
    next_with: Nanos,
    next_blind: Nanos,
    wait_trial: Nanos,
    wait_blind: Nanos,
    /// Changes within the last minute.
    changes: VecDeque<Nanos>,
    /// Answers what another set would give; without it guard only retries and rescues.
    forecast: Option<Arc<dyn Forecast>>,
    /// Forecasts of sets, and until when they are believed.
    foreseen: Vec<(Set, f64)>,
    foreseen_until: Nanos,
    /// When questions without an answer are asked again.
    asks_again: Nanos,
}

impl PathManager for Guard {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[
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
            promised_gain: check("promised_gain", options.promised_gain, 1000)? / 100.0,
            first_retry: check("first_retry", options.first_retry, 600)? as Nanos * SECOND,
            history: History::default(),
            estimates: Vec::new(),
            memory: Memory::default(),
            trial: None,
            set: 0,
            settled: 0,
            began: None,
            next_trial: 0,
            next_with: 0,
            next_blind: 0,
            wait_trial: 0,
            wait_blind: TUNING.blind,
            changes: VecDeque::new(),
            forecast: None,
            foreseen: Vec::new(),
            foreseen_until: 0,
            asks_again: 0,
        })
    }

    fn sampling(&self) -> Option<Nanos> {
        Some(TUNING.interval)
    }

    fn foresee(&mut self, forecast: impl FnOnce() -> Arc<dyn Forecast>) {
        self.forecast = Some(forecast());
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
    /// No active subflow is alive: the best of those on standby become active, or all if nothing is known of them.
    fn rescue(&mut self, subflows: &[SubflowView], commands: &mut Vec<Command>) {
        let alive = set_of(subflows, |subflow| subflow.alive);
        if alive == 0 || set_of(subflows, |subflow| subflow.alive && !subflow.backup) != 0 {
            return;
        }
        self.trial = None;
        let known =
            candidates(alive, alive).into_iter().filter_map(|set| Some((self.foreseen(set)?, set)));
        let best = known.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(alive, |(_, set)| set);
        order(alive, best, subflows, commands);
    }

    fn on_sample(&mut self, now: Nanos, view: View<'_>, commands: &mut Vec<Command>) {
        let alive = set_of(view.subflows, |subflow| subflow.alive);
        let active = set_of(view.subflows, |subflow| subflow.alive && !subflow.backup);
        self.history.add(now, view.statistics);
        for id in members(active) {
            self.estimates[id].update(now, &view.subflows[id]);
        }
        if active != self.set {
            self.on_set_changed(now, active);
        }
        if active == 0 {
            return;
        }
        if now >= self.foreseen_until {
            self.foreseen.clear();
            self.foreseen_until = now + TUNING.foreseen;
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

    /// Equation 2; none if there is no answer just now. A subflow that has delivered nothing adds nothing.
    fn foreseen(&mut self, set: Set) -> Option<f64> {
        if let Some(&(_, value)) = self.foreseen.iter().find(|(of, _)| *of == set) {
            return Some(value);
        }
        let lines: Vec<Line> = members(set).filter_map(|id| self.estimates[id].line()).collect();
        let forecast = self.forecast.as_ref()?;
        let value = if lines.is_empty() {
            0.0
        } else {
            forecast.throughput(&lines, self.history.buffer())?
        };
        self.foreseen.push((set, value));
        Some(value)
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
        let rate = if lately < TUNING.clearly_less * span { lately } else { span };
        let usual = self.memory.usual(self.set).unwrap_or(rate);
        let collapsed = rate < TUNING.collapsed * usual;
        if !collapsed {
            self.memory.learn(self.set, 0.9 * usual + 0.1 * rate, now, false);
        }
        if self.changes.len() >= TUNING.most_changes {
            return None;
        }
        let new = self
            .best(now, rate, standby, collapsed)
            .or_else(|| self.longest_waiting(now, standby))?;
        Some(self.begin(now, new, rate))
    }

    fn begin(&mut self, now: Nanos, new: Set, rate: f64) -> Set {
        let (old, sent) = (self.set, self.history.sent());
        for id in members(old & !new) {
            self.estimates[id].go_on_standby(now, self.first_retry);
        }
        self.trial = Some(Trial { old, new, before: rate, began: now, sent, settled: None });
        new
    }

    /// Equation 3: the most promising set of the active subflows and those whose wait is over, if its gain is large
    /// enough.
    fn best(&mut self, now: Nanos, rate: f64, standby: Set, collapsed: bool) -> Option<Set> {
        if now < self.next_trial.max(self.asks_again) && !collapsed {
            return None;
        }
        let may =
            |&id: &SubflowId| collapsed || now >= self.next_with && now >= self.estimates[id].due;
        let usable = members(standby).filter(may).fold(self.set, |set, id| set | 1 << id);
        if usable.count_ones() == 1 {
            return None;
        }
        // Ask about every set before deciding: some answers come only with a later sample.
        let sets = candidates(usable, self.set);
        let now_gives = self.foreseen(self.set);
        let foreseen: Vec<_> = sets.iter().map(|&set| (set, self.foreseen(set))).collect();
        if now_gives.is_none() || foreseen.iter().any(|(_, value)| value.is_none()) {
            self.asks_again = now + TUNING.asked_again;
            return None;
        }
        let enough = (1.0 + self.promised_gain) * now_gives?;
        let required = rate * (1.0 + self.required());
        let mut best = None;
        for (set, foreseen) in foreseen {
            let foreseen = foreseen?;
            let value = match self.memory.fresh(set, now) {
                Some(rate) => TUNING.memory_trust * rate,
                None if foreseen > enough => foreseen,
                None => 0.0,
            };
            if value > best.map_or(required, |(value, _)| value) {
                best = Some((value, set));
            }
        }
        best.map(|(_, set)| set)
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
        let found = self.history.since(settled);
        let ratio = found / trial.before.max(1.0);
        if !self.is_over(now, settled, &trial, ratio) {
            return None;
        }
        self.trial = None;
        let better = ratio > 1.0;
        self.memory.learn(trial.new, found, now, !better);
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
            self.wait_trial =
                (2 * self.wait_trial).clamp(TUNING.after_failure, TUNING.longest_wait);
            self.next_trial = now + self.wait_trial;
            return;
        }
        self.wait_trial = 0;
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
