//! Metered paths in reserve: every pair of interfaces gets a subflow; those whose data are paid for stay on standby until
//! the others are full.
//!
//! Full means that the connection has as much outstanding as the congestion windows of the other subflows hold: a program
//! that sends less than they can carry never fills them. Equations:
//!
//! 1. full: `sent - acked >= f sum of cwnd over the free subflows` ([`Reserve::is_full`])
//! 2. taken in: full, and at least `above` Mbit/s in order, all the time for `after` ([`Reserve::look`])
//! 3. released: not so, all the time for `calm`; a release that does not last longer than both doubles the next one's `calm`, up to
//!    `longest_calm`, so that a demand between the two rates does not change roles all the time
//!
//! Without a live free subflow the metered ones carry data at once, as standby subflows do anyway (RFC 8684 section
//! 3.3.8). Where nothing is metered, or all is, this is fullmesh. The papers have no such policy: it is our own.

use super::manager::assign;
use super::{Command, Event, OptionInfo, OptionKind, PathEnds, PathId, PathManager, SubflowId};
use super::{SubflowView, TransferSize, View};
use crate::error::SpecError;
use crate::units::{Bytes, MILLISECOND, Nanos, SECOND};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The options of reserve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Mbit/s below which metered paths carry nothing, however full the others are.
    pub above: usize,
    /// Seconds for which the others must have been full.
    pub after: usize,
}

impl Default for Options {
    /// The download of a piece of a video, which another path need not shorten, takes less than five seconds.
    fn default() -> Self {
        Self { above: 0, after: 5 }
    }
}

/// The constants of the equations.
struct Tuning {
    /// Interval of samples, and the span of a rate.
    interval: Nanos,
    span: Nanos,
    /// f of equation 1: a window that is being filled is not full all the time.
    full: f64,
    calm: Nanos,
    longest_calm: Nanos,
}

/// Chosen beforehand, and not fitted to any network.
const TUNING: Tuning = Tuning {
    interval: 100 * MILLISECOND,
    span: SECOND,
    full: 0.8,
    calm: 2 * SECOND,
    longest_calm: 300 * SECOND,
};

/// The largest `above` and `after`: no connection carries more, and few last longer.
const MOST_MBIT_S: usize = 1_000_000;
const MOST_SECONDS: usize = 3600;

/// The policy with its options and observations.
#[derive(Debug, Clone)]
pub struct Reserve {
    /// Bytes per second.
    above: f64,
    after: Nanos,
    /// Bytes in order, at the times of the last samples.
    acked: VecDeque<(Nanos, Bytes)>,
    /// The metered subflows carry data.
    in_use: bool,
    /// Since when equation 2 says the opposite of `in_use`.
    otherwise: Option<Nanos>,
    calm: Nanos,
    released: Option<Nanos>,
}

impl Reserve {
    /// Equation 1.
    fn is_full(view: View<'_>) -> bool {
        let carries = |subflow: &&SubflowView| {
            subflow.alive && !subflow.backup && !view.paths[subflow.path].metered
        };
        let windows = view.subflows.iter().filter(carries).map(|subflow| subflow.statistics.window);
        let windows: Bytes = windows.sum();
        let outstanding = view.statistics.sent.saturating_sub(view.statistics.acked);
        windows > 0 && outstanding as f64 >= TUNING.full * windows as f64
    }

    /// Bytes per second in order, over the last samples.
    fn rate(&mut self, now: Nanos, acked: Bytes) -> f64 {
        self.acked.push_back((now, acked));
        while self.acked.get(1).is_some_and(|&(at, _)| at + TUNING.span <= now) {
            self.acked.pop_front();
        }
        let (at, before) = self.acked[0];
        let seconds = (now - at).max(1) as f64 / SECOND as f64;
        acked.saturating_sub(before) as f64 / seconds
    }

    /// Equations 2 and 3.
    fn look(&mut self, now: Nanos, view: View<'_>) {
        let fast = self.rate(now, view.statistics.acked) >= self.above;
        let needed = fast && Self::is_full(view);
        if needed == self.in_use {
            self.otherwise = None;
            return;
        }
        let since = *self.otherwise.get_or_insert(now);
        let patience = if self.in_use { self.calm } else { self.after };
        if now - since < patience {
            return;
        }
        self.otherwise = None;
        self.in_use = needed;
        if !needed {
            self.released = Some(now);
        } else if let Some(released) = self.released {
            let lasted = now - released >= self.calm + self.after;
            let doubled = (2 * self.calm).min(TUNING.longest_calm);
            self.calm = if lasted { TUNING.calm } else { doubled };
        }
    }

    /// Every subflow gets the role that it should have.
    fn apply(&self, view: View<'_>, commands: &mut Vec<Command>) {
        let metered = |subflow: &SubflowView| view.paths[subflow.path].metered;
        let free = view.subflows.iter().any(|subflow| subflow.alive && !metered(subflow));
        let role = |id: SubflowId| {
            let subflow = &view.subflows[id];
            subflow.alive.then(|| metered(subflow) && free && !self.in_use)
        };
        assign(view.subflows, role, commands);
    }

    fn connect(&self, path: PathId, paths: &[PathEnds]) -> Command {
        let free = paths.iter().any(|ends| !ends.metered);
        Command::Connect { path, backup: paths[path].metered && free && !self.in_use }
    }
}

impl PathManager for Reserve {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[
        OptionInfo {
            name: "above",
            kind: OptionKind::Count,
            unit: "Mbit/s",
            help: "throughput below which metered paths carry no data, even if the others are full",
        },
        OptionInfo {
            name: "after",
            kind: OptionKind::Count,
            unit: "s",
            help: "time for which the other paths must have been full before metered ones carry data",
        },
    ];

    fn new(options: Options) -> Result<Self, SpecError> {
        for (name, value, most) in
            [("above", options.above, MOST_MBIT_S), ("after", options.after, MOST_SECONDS)]
        {
            if value > most {
                return Err(SpecError::new(
                    name,
                    format!("expected at most {most}, found {value}"),
                ));
            }
        }
        Ok(Self {
            above: options.above as f64 * 1e6 / 8.0,
            after: options.after as Nanos * SECOND,
            acked: VecDeque::new(),
            in_use: false,
            otherwise: None,
            calm: TUNING.calm,
            released: None,
        })
    }

    /// A free path where there is one, to the same interface of the peer if possible.
    fn initial_path(&self, paths: &[PathEnds], _size: TransferSize, default: PathId) -> PathId {
        let Some(usual) = paths.get(default).filter(|ends| ends.metered) else { return default };
        let free = |same: bool| {
            paths.iter().position(|ends| !ends.metered && (!same || ends.remote == usual.remote))
        };
        free(true).or_else(|| free(false)).unwrap_or(default)
    }

    fn sampling(&self) -> Option<Nanos> {
        Some(TUNING.interval)
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        match event {
            Event::Established => {
                let initial = view.subflows[0].path;
                let others = (0..view.paths.len()).filter(|&path| path != initial);
                commands.extend(others.map(|path| self.connect(path, view.paths)));
            }
            Event::PathAdded(path) => commands.push(self.connect(path, view.paths)),
            Event::Sample(now) => self.look(now, view),
            _ => {}
        }
        self.apply(view, commands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, activate, connect, connect_backup, silence};

    const WINDOW: Bytes = 100_000;

    /// Paths 0 and 1 of two interfaces, the second of which is metered, established.
    fn world(above: usize) -> World<Reserve> {
        let mut world = World::<Reserve>::new(2, 1, Options { above, after: 1 });
        world.paths[1].metered = true;
        assert_eq!(world.start(0), [connect_backup(1)]);
        assert_eq!(world.establish(1, 50), []);
        world.subflows[0].statistics.window = WINDOW;
        world
    }

    /// Tenths of a second from `from` on at this rate, with this much outstanding; the commands, with their time.
    fn pass(
        world: &mut World<Reserve>,
        tenths: std::ops::Range<u64>,
        bytes: Bytes,
        outstanding: Bytes,
    ) -> Vec<(u64, Vec<Command>)> {
        let mut given = Vec::new();
        for tenth in tenths {
            world.statistics.acked += bytes;
            world.statistics.sent = world.statistics.acked + outstanding;
            let commands = world.sample(tenth * TUNING.interval);
            if !commands.is_empty() {
                given.push((tenth, commands));
            }
        }
        given
    }

    #[test]
    fn a_metered_subflow_carries_nothing_while_the_others_have_room() {
        let mut world = world(0);
        assert_eq!(pass(&mut world, 0..600, 100_000, WINDOW / 2), []);
        assert_eq!(world.active(), [0]);
    }

    #[test]
    fn it_is_taken_in_after_a_second_of_full_windows_and_released_after_two_of_room() {
        let mut world = world(0);
        assert_eq!(pass(&mut world, 0..9, 100_000, WINDOW), []);
        // A window with room begins the second anew.
        assert_eq!(pass(&mut world, 9..10, 100_000, WINDOW / 2), []);
        assert_eq!(pass(&mut world, 10..30, 100_000, WINDOW), [(20, vec![activate(1)])]);
        assert_eq!(pass(&mut world, 30..100, 100_000, WINDOW / 2), [(50, vec![silence(1)])]);
    }

    #[test]
    fn below_the_stated_rate_it_stays_in_reserve() {
        // 8 Mbit/s are 100,000 bytes in a tenth of a second.
        let mut world = world(8);
        assert_eq!(pass(&mut world, 0..100, 90_000, WINDOW), []);
        let given = pass(&mut world, 100..130, 110_000, WINDOW);
        assert!(matches!(given[..], [(110..120, _)]), "{given:?}");
        let given = pass(&mut world, 130..200, 90_000, WINDOW);
        assert!(matches!(given[..], [(150..160, _)]), "{given:?}");
    }

    #[test]
    fn a_demand_between_the_two_rates_changes_roles_less_and_less_often() {
        let mut world = world(0);
        let mut changes = Vec::new();
        for tenth in 0..36_000 {
            // The free path is full without the other one, and has room with it.
            let outstanding = if world.active() == [0] { WINDOW } else { WINDOW / 2 };
            changes.extend(pass(&mut world, tenth..tenth + 1, 100_000, outstanding));
        }
        let within = |from: u64, to: u64| {
            changes.iter().filter(|&&(at, _)| (from * 10..to * 10).contains(&at)).count()
        };
        assert!((12..=18).contains(&within(0, 300)), "{}", within(0, 300));
        assert!(within(3300, 3600) <= 4, "{}", within(3300, 3600));
    }

    #[test]
    fn it_takes_over_at_once_where_no_other_subflow_lives_and_gives_back() {
        let mut world = world(0);
        assert_eq!(world.lose(0), [activate(1)]);
        assert_eq!(world.restore(0), [silence(1)]);
    }

    #[test]
    fn where_all_paths_are_metered_or_none_is_all_carry_data() {
        for metered in [false, true] {
            let mut world = World::<Reserve>::new(2, 1, Options::default());
            world.paths.iter_mut().for_each(|path| path.metered = metered);
            assert_eq!(world.start(0), [connect(1)]);
            assert_eq!(world.establish(1, 50), []);
            assert_eq!(world.active(), [0, 1]);
        }
    }

    #[test]
    fn a_connection_begins_on_a_path_that_costs_nothing() {
        let mut world = World::<Reserve>::new(2, 2, Options::default());
        world.paths[0].metered = true;
        world.paths[1].metered = true;
        assert_eq!([0, 1, 2, 3].map(|path| world.initial_path(path)), [2, 3, 2, 3]);
        world.paths[3].metered = true;
        assert_eq!([1, 3].map(|path| world.initial_path(path)), [2, 2]);
        // One that a program began elsewhere is silenced as soon as a free one is there.
        let mut world = World::<Reserve>::new(2, 1, Options::default());
        world.paths[0].metered = true;
        assert_eq!(world.start(0), [connect(1)]);
        assert_eq!(world.establish(1, 50), [silence(0)]);
    }

    #[test]
    fn a_rate_that_no_connection_has_is_refused() {
        let error = Reserve::new(Options { above: 1_000_001, after: 0 }).expect_err("refused");
        assert_eq!(
            (error.key.as_str(), &*error.expected),
            ("above", "expected at most 1000000, found 1000001")
        );
    }
}
