//! Guard: all subflows carry data unless the connection is seen to be faster without some of them. Nothing
//! is measured beforehand.
//!
//! A connection whose shared buffers are full of what a slow subflow has not yet delivered keeps its fast
//! subflow waiting. Guard looks at samples of what any data sender knows ([`View::statistics`]): when the
//! buffers have held the connection up for a good part of the time, it predicts what each part of the
//! active subflows would give, tries the best of them, and lets the data decide: it stays with what was
//! faster and goes back otherwise. Subflows on standby are tried again, at growing intervals.
//!
//! Equations, with the function that implements each; docs/explanation/guard.md has the reasons.
//!
//! 1. rate of a subflow alone: `p = max(fastest delivery seen, lately; window / smoothed RTT)`
//!    ([`Estimate::alone`])
//! 2. room: `B = most bytes outstanding while the buffers held the connection up` ([`History::note_room`])
//! 3. prediction: `T(S) = min(sum of p over S, B / largest RTT in S)` ([`Guard::predicted`]), from the rule
//!    that a buffer must hold all rates for the largest RTT (RFC 6182 section 5.3)
//! 4. required gain: `g (1 + n / 2)` after `n` changes within a minute ([`Guard::required`])
//! 5. verdict: throughput in order, before against after ([`Guard::judge`])
//!
//! It never leaves the connection without an active subflow, and begins no trial after [`MOST_CHANGES`]
//! changes within a minute.

use super::fullmesh::Fullmesh;
use super::{Command, Event, OptionInfo, OptionKind, PathManager, SubflowId, SubflowView, View};
use crate::error::SpecError;
use crate::units::{Bytes, MILLISECOND, Nanos, SECOND};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Time between two samples, and how many are kept: 10 s.
const INTERVAL: Nanos = 100 * MILLISECOND;
const KEPT: usize = 100;
/// Intervals over which a subflow's delivery rate is taken.
const RATE_INTERVALS: usize = 3;
/// What is left of the fastest delivery after a sample: while the buffers hold the connection up a subflow
/// cannot show what it is able to, otherwise it does.
const HELD_UP_DECAY: f64 = 0.995;
const FREE_DECAY: f64 = 0.93;
/// The same of the room.
const ROOM_DECAY: f64 = 0.999;
/// Shares of the time from which on the buffers hold up an interval, and below which they do not matter.
const HELD_UP: f64 = 0.05;

/// A throughput is taken over four round trips, within these limits, and up to three times as long where
/// that may help.
const SHORTEST_WINDOW: Nanos = SECOND;
const LONGEST_WINDOW: Nanos = 3 * SECOND;
const MOST_WINDOWS: Nanos = 3;
/// What comes before is not counted: one and a half round trips, within these limits.
const SHORTEST_SETTLING: Nanos = 300 * MILLISECOND;
const LONGEST_SETTLING: Nanos = 2 * SECOND;
/// What was sent before a change no longer delays what comes after this long.
const LONGEST_DRAIN: Nanos = 3 * SECOND;
/// The first trial begins no earlier; until the second time slow start makes everything look better, so that
/// a gain must be larger by this.
const FIRST_TRIAL: Nanos = 1500 * MILLISECOND;
const SLOW_START: Nanos = 3 * SECOND;
const SLOW_START_GAIN: f64 = 1.0;
/// What was measured before this is forgotten when the set is left.
const YOUNG: Nanos = 8 * SECOND;

/// A prediction of a gain is believed by this factor, a throughput measured before by that one.
const TRUST: f64 = 0.9;
const MEMORY_TRUST: f64 = 0.95;
/// Gain that a set without a subflow must show, and loss at which one with another is given up at once.
const LEAST_GAIN: f64 = 1.05;
const HOPELESS: f64 = 0.6;
/// Another subflow stays without a gain if it loses no more than this and the buffers do not matter.
const HARMLESS: f64 = 0.93;
/// Before and after differ clearly by these factors: one window is enough.
const CLEARLY_LESS: f64 = 0.8;
const CLEARLY_MORE: f64 = 1.25;
/// A throughput below this share of the usual one is a reason to try the others at once.
const COLLAPSED: f64 = 0.3;

/// Changes within a minute after which no trial begins.
pub const MOST_CHANGES: usize = 8;
const MINUTE: Nanos = 60 * SECOND;
/// Growth of the wait for a subflow that was tried again in vain, or left again within a minute.
const WAIT_GROWTH: Nanos = 3;
const LONGEST_WAIT: Nanos = 10 * MINUTE;
/// First wait after a trial without a subflow failed; it doubles.
const AFTER_FAILURE: Nanos = 5 * SECOND;
/// After a subflow was tried again no other is for this long.
const PAUSE: Nanos = 5 * SECOND;
/// A subflow of which no gain is predicted may have changed unseen: it is tried after this long, then twice
/// that.
const BLIND: Nanos = 2 * MINUTE;
/// How long a throughput measured before is believed at first, and at most.
const FRESH: Nanos = MINUTE;
const LONGEST_FRESH: Nanos = 5 * MINUTE;
/// Sets that are remembered.
const REMEMBERED: usize = 32;
/// Up to this many active subflows, every part of them is considered; of more only each alone, and all but one.
const FEW: u32 = 6;

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
    /// Developed on the dynamics of seed 1 of `benchmarks/guard.py`.
    fn default() -> Self {
        Self { held_up_share: 50, promised_gain: 15, first_retry: 10 }
    }
}

/// A set of subflows, a bit each.
type Set = u64;

fn members(set: Set) -> impl Iterator<Item = SubflowId> {
    (0..64).filter(move |id| set >> id & 1 == 1)
}

fn set_of(subflows: &[SubflowView], is_in: impl Fn(&SubflowView) -> bool) -> Set {
    let chosen = subflows.iter().enumerate().filter(|(_, one)| is_in(one));
    chosen.fold(0, |set, (id, _)| set | 1 << id)
}

/// Parts of a set that are neither empty nor the whole.
fn parts(whole: Set) -> Vec<Set> {
    if whole.count_ones() > FEW {
        let alone = members(whole).map(|id| 1 << id);
        return alone.chain(members(whole).map(|id| whole & !(1 << id))).collect();
    }
    let next = |&part: &Set| Some(part.wrapping_sub(1) & whole).filter(|&part| part > 0);
    std::iter::successors(Some(whole), next).skip(1).collect()
}

/// Seconds.
fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// The connection at one time; counters since its beginning.
#[derive(Debug, Clone)]
struct Sample {
    at: Nanos,
    sent: Bytes,
    acked: Bytes,
    limited: Nanos,
    delivered: Vec<Bytes>,
}

/// What a span of time was like: bytes per second in order, and the share that the buffers held up.
#[derive(Debug, Clone, Copy)]
struct Span {
    rate: f64,
    held_up: f64,
}

/// The latest samples, and the room.
#[derive(Debug, Clone, Default)]
struct History {
    samples: VecDeque<Sample>,
    /// Bytes that fit the shared buffers; 0 while they never mattered.
    room: f64,
}

impl History {
    fn add(&mut self, now: Nanos, view: View<'_>) {
        let statistics = view.statistics;
        let delivered = view.subflows.iter().map(|one| one.statistics.delivered).collect();
        self.samples.push_back(Sample {
            at: now,
            sent: statistics.sent,
            acked: statistics.acked,
            limited: statistics.limited,
            delivered,
        });
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
        self.note_room();
    }

    /// Equation 2.
    fn note_room(&mut self) {
        let mut latest = self.samples.iter().rev();
        let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return };
        let outstanding = last.sent.saturating_sub(last.acked) as f64;
        if between(before, last).held_up > HELD_UP {
            self.room = outstanding.max(self.room * ROOM_DECAY);
        } else if self.room > 0.0 {
            self.room = self.room.max(outstanding);
        }
    }

    fn sent(&self) -> Bytes {
        self.samples.back().map_or(0, |last| last.sent)
    }

    /// Everything sent up to some time has been acknowledged.
    fn has_drained(&self, sent: Bytes) -> bool {
        self.samples.back().is_some_and(|last| last.acked >= sent)
    }

    /// From a time on, or for as long as it remembers.
    fn since(&self, from: Nanos) -> Span {
        let first = self.samples.iter().rev().find(|one| one.at <= from).or(self.samples.front());
        match (first, self.samples.back()) {
            (Some(first), Some(last)) => between(first, last),
            _ => Span { rate: 0.0, held_up: 0.0 },
        }
    }

    /// A subflow's delivery rate, lately, and whether the buffers held the connection up.
    fn lately(&self, id: SubflowId) -> Option<(f64, bool)> {
        let mut latest = self.samples.iter().rev();
        let (last, before) = (latest.next()?, latest.nth(RATE_INTERVALS - 1)?);
        let delivered = last.delivered[id].saturating_sub(*before.delivered.get(id)?);
        let span = seconds(last.at.saturating_sub(before.at).max(1));
        Some((delivered as f64 / span, between(before, last).held_up > HELD_UP))
    }
}

fn between(first: &Sample, last: &Sample) -> Span {
    let span = last.at.saturating_sub(first.at).max(1);
    Span {
        rate: last.acked.saturating_sub(first.acked) as f64 / seconds(span),
        held_up: last.limited.saturating_sub(first.limited) as f64 / span as f64,
    }
}

/// What is known of a subflow, as of when it last carried data; times in seconds, rates in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
struct Estimate {
    fastest: f64,
    srtt: f64,
    min_rtt: f64,
    window: f64,
    /// On standby: when it may be tried again, and the wait that led there.
    due: Nanos,
    wait: Nanos,
    /// When it was last taken back for good.
    returned: Option<Nanos>,
}

impl Estimate {
    /// Equation 1.
    fn alone(&self) -> f64 {
        if self.srtt > 0.0 { self.fastest.max(self.window / self.srtt) } else { self.fastest }
    }

    fn note(&mut self, subflow: &SubflowView, lately: Option<(f64, bool)>) {
        self.srtt = seconds(subflow.statistics.srtt);
        self.min_rtt = seconds(subflow.min_rtt);
        self.window = subflow.statistics.window as f64;
        if let Some((rate, held_up)) = lately {
            let decay = if held_up { HELD_UP_DECAY } else { FREE_DECAY };
            self.fastest = rate.max(self.fastest * decay);
        }
    }

    /// It goes on standby: when it is tried again.
    fn leave(&mut self, now: Nanos, first_wait: Nanos) {
        let again = self.returned.is_some_and(|at| now < at + MINUTE);
        self.wait = if again { self.longer_wait() } else { first_wait };
        self.due = now + self.wait;
    }

    fn longer_wait(&self) -> Nanos {
        (self.wait * WAIT_GROWTH).min(LONGEST_WAIT)
    }
}

/// What a set gave, and until when that is believed.
#[derive(Debug, Clone, Copy)]
struct Known {
    set: Set,
    rate: f64,
    believed: Nanos,
    until: Nanos,
}

/// What sets gave.
#[derive(Debug, Clone, Default)]
struct Memory(Vec<Known>);

impl Memory {
    /// Whatever its age.
    fn usual(&self, set: Set) -> Option<f64> {
        self.0.iter().find(|one| one.set == set).map(|one| one.rate)
    }

    fn fresh(&self, set: Set, now: Nanos) -> Option<f64> {
        self.0.iter().find(|one| one.set == set && now < one.until).map(|one| one.rate)
    }

    /// A set gave this; after a failure it is believed longer each time.
    fn learn(&mut self, set: Set, rate: f64, now: Nanos, failed: bool) {
        let before = self.0.iter().position(|one| one.set == set).map(|at| self.0.remove(at));
        let longer = |one: Known| (2 * one.believed).min(LONGEST_FRESH);
        let believed = before.filter(|_| failed).map_or(FRESH, longer);
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push(Known { set, rate, believed, until: now + believed });
    }

    fn forget(&mut self, set: Set) {
        self.0.retain(|one| one.set != set);
    }
}

/// Another set is being tried.
#[derive(Debug, Clone, Copy)]
struct Trial {
    old: Set,
    new: Set,
    before: f64,
    /// When it began, and what had been sent by then.
    began: Nanos,
    sent: Bytes,
    /// Since when what is seen is due to the new set.
    settled: Option<Nanos>,
}

impl Trial {
    /// It tries a subflow again, rather than doing without one.
    fn adds(&self) -> bool {
        self.new & !self.old != 0
    }
}

/// The policy with its options and what it has seen.
#[derive(Debug, Clone)]
pub struct Guard {
    held_up_share: f64,
    promised_gain: f64,
    first_retry: Nanos,
    history: History,
    estimates: Vec<Estimate>,
    memory: Memory,
    trial: Option<Trial>,
    /// The active subflows that are alive, and since when what is seen is due to them.
    set: Set,
    settled: Nanos,
    /// The first sample.
    began: Option<Nanos>,
    /// When sets with fewer subflows, with one more, and with one of which nothing is expected may be tried.
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
            wait_blind: BLIND,
            changes: VecDeque::new(),
        })
    }

    fn sampling(&self) -> Option<Nanos> {
        Some(INTERVAL)
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
        let alive = set_of(subflows, |one| one.alive);
        if alive == 0 || set_of(subflows, |one| one.alive && !one.backup) != 0 {
            return;
        }
        self.trial = None;
        let best = |a: &Set, b: &Set| self.predicted(*a).total_cmp(&self.predicted(*b));
        let best = parts(alive).into_iter().chain([alive]).max_by(best).unwrap_or(alive);
        order(alive, best, subflows, commands);
    }

    fn on_sample(&mut self, now: Nanos, view: View<'_>, commands: &mut Vec<Command>) {
        let alive = set_of(view.subflows, |one| one.alive);
        let active = set_of(view.subflows, |one| one.alive && !one.backup);
        self.history.add(now, view);
        for id in members(active) {
            let lately = self.history.lately(id);
            self.estimates[id].note(&view.subflows[id], lately);
        }
        if active != self.set {
            self.on_other_set(now, active);
        }
        if active == 0 {
            return;
        }
        self.changes.retain(|&at| now < at + MINUTE);
        let wanted = match self.trial {
            Some(trial) => self.judge(now, trial),
            None => self.consider(now, alive & !active),
        };
        if let Some(wanted) = wanted {
            self.changes.push_back(now);
            self.set = wanted;
            order(active | wanted, wanted, view.subflows, commands);
        }
    }

    /// Subflows joined, were lost or restored: the trial, if there is one, tells nothing any more.
    fn on_other_set(&mut self, now: Nanos, active: Set) {
        self.trial = None;
        self.set = active;
        let began = *self.began.get_or_insert(now);
        if now >= began + SLOW_START {
            self.settled = now + self.settling(active);
        }
        if self.next_blind == 0 {
            self.next_blind = now + BLIND;
        }
    }

    fn largest_rtt(&self, set: Set) -> f64 {
        members(set).map(|id| self.estimates[id].srtt).fold(0.0, f64::max)
    }

    fn settling(&self, set: Set) -> Nanos {
        let rtt = (self.largest_rtt(set) * SECOND as f64) as Nanos;
        (rtt * 3 / 2).clamp(SHORTEST_SETTLING, LONGEST_SETTLING)
    }

    fn window(&self, set: Set) -> Nanos {
        let rtt = (self.largest_rtt(set) * SECOND as f64) as Nanos;
        (rtt * 4).clamp(SHORTEST_WINDOW, LONGEST_WINDOW)
    }

    /// Equation 3. A subflow alone queues no more than it has room for: its own RTT is the smallest.
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
        if now < began + FIRST_TRIAL || now < self.settled + window {
            return None;
        }
        let from = self.settled.max(now.saturating_sub(MOST_WINDOWS * window));
        let (span, lately) = (self.history.since(from), self.history.since(now - window));
        let rate = if lately.rate < CLEARLY_LESS * span.rate { lately.rate } else { span.rate };
        let usual = self.memory.usual(self.set).unwrap_or(rate);
        let collapsed = rate < COLLAPSED * usual;
        if !collapsed {
            self.memory.learn(self.set, 0.9 * usual + 0.1 * rate, now, false);
        }
        if self.changes.len() >= MOST_CHANGES {
            return None;
        }
        let suspicious = span.held_up >= self.held_up_share;
        let without = (suspicious && (now >= self.next_without || collapsed))
            .then(|| self.best_without(now, rate, now < began + SLOW_START))
            .flatten();
        let new = without
            .or_else(|| self.best_with(now, rate, standby, collapsed))
            .or_else(|| self.blind(now, standby))?;
        let (old, sent) = (self.set, self.history.sent());
        for id in members(old & !new) {
            self.estimates[id].leave(now, self.first_retry);
        }
        self.trial = Some(Trial { old, new, before: rate, began: now, sent, settled: None });
        Some(new)
    }

    /// The part of the active subflows that promises most, if that is enough.
    fn best_without(&self, now: Nanos, rate: f64, starting: bool) -> Option<Set> {
        let slow_start = if starting { SLOW_START_GAIN } else { 0.0 };
        let enough = rate * (1.0 + self.required() + slow_start);
        let value = |set: Set| match self.memory.fresh(set, now) {
            Some(rate) => MEMORY_TRUST * rate,
            None => TRUST * self.predicted(set),
        };
        let valued = parts(self.set).into_iter().map(|set| (value(set), set));
        let best = valued.filter(|&(value, _)| value > enough).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, set)| set)
    }

    /// The active subflows with the one on standby that promises most, if that is enough, or if there is
    /// nothing to lose.
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

    /// The active subflows with the one that has waited longest: nobody knows what became of it.
    fn blind(&mut self, now: Nanos, standby: Set) -> Option<Set> {
        if now < self.next_blind {
            return None;
        }
        let id = members(standby).min_by_key(|&id| self.estimates[id].due)?;
        self.wait_blind = (2 * self.wait_blind).min(LONGEST_WAIT);
        self.next_blind = now + self.wait_blind;
        Some(self.set | 1 << id)
    }

    /// Equation 5: the old set if the new one was not better, nothing if it was or that is not yet known.
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
            true => ratio > 1.0 || ratio > HARMLESS && span.held_up < HELD_UP,
            false => ratio > LEAST_GAIN,
        };
        self.memory.learn(trial.new, span.rate, now, !better);
        match trial.adds() {
            true => self.note_with(now, &trial, better),
            false => self.note_without(now, &trial, better),
        }
        if better {
            self.settled = settled;
            return None;
        }
        self.settled = now + self.settling(trial.old | trial.new);
        Some(trial.old)
    }

    /// What is seen from now on is due to the new set.
    fn has_settled(&self, now: Nanos, trial: &Trial) -> bool {
        if trial.adds() {
            return now >= trial.began + self.settling(trial.new);
        }
        self.history.has_drained(trial.sent) || now >= trial.began + LONGEST_DRAIN
    }

    fn is_over(&self, now: Nanos, settled: Nanos, trial: &Trial, ratio: f64) -> bool {
        let window = self.window(trial.new);
        let clear = !(CLEARLY_LESS..CLEARLY_MORE).contains(&ratio);
        let hopeless = trial.adds() && ratio < HOPELESS && now >= settled + SHORTEST_WINDOW / 2;
        hopeless || now >= settled + if clear { window } else { MOST_WINDOWS * window }
    }

    fn note_with(&mut self, now: Nanos, trial: &Trial, better: bool) {
        self.next_with = now + PAUSE;
        for id in members(trial.new & !trial.old) {
            let one = &mut self.estimates[id];
            if better {
                one.returned = Some(now);
            } else {
                one.wait = one.longer_wait();
                one.due = now + one.wait;
            }
        }
    }

    fn note_without(&mut self, now: Nanos, trial: &Trial, better: bool) {
        if !better {
            self.wait_without = (2 * self.wait_without).clamp(AFTER_FAILURE, LONGEST_WAIT);
            self.next_without = now + self.wait_without;
            return;
        }
        self.wait_without = 0;
        // What was measured in slow start says little about the set.
        if self.began.is_some_and(|began| now > began + YOUNG) {
            self.memory.learn(trial.old, trial.before, now, true);
        } else {
            self.memory.forget(trial.old);
        }
    }
}

/// Of the subflows concerned, those wanted carry data from now on and the others do not.
fn order(concerned: Set, wanted: Set, subflows: &[SubflowView], commands: &mut Vec<Command>) {
    for backup in [false, true] {
        let changed = members(concerned).filter(|&id| (wanted >> id & 1 == 0) == backup);
        let changed = changed.filter(|&id| subflows[id].backup != backup);
        commands.extend(changed.map(|subflow| Command::SetBackup { subflow, backup }));
    }
}

#[cfg(test)]
mod tests;
