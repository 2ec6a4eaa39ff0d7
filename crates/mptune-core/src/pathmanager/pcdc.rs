//! PCDC, "path characteristic and data characteristic" (PCDC paper, section IV): the transfer size determines how many
//! paths of the optional set P, those that contribute, carry data.
//!
//! The optional set and the order of the others come from the impact factors, measured elsewhere
//! ([`Options`]). Every path always has an established subflow, and a broken one that carries
//! data is replaced by the best unused one (MPCOA, end of section 3).
//!
//! Choices that the papers leave open:
//!
//! - P is sorted by the smallest RTT of a subflow, again on every event. The paper's RTT is a
//!   characteristic of the path, measured before the transfer; a smoothed RTT includes the transfer's own queue, and
//!   would drive it from subflow to subflow. Ties keep the order of creation.
//! - A subflow without a sample uses the RTT measured with the impact factors, if given; without either it
//!   comes last. A transfer that does not use all of P begins on the path with the smallest measured RTT,
//!   and the paths it will use carry data as soon as they have joined.
//! - An unlimited stream is in class L3 (section VI: "does not limit the size"). If the size is unknown the
//!   class follows from the bytes sent so far: a stream starts in L1 and ends in L3.
//! - With fewer optional subflows than the class requires, all of them carry data; an empty optional
//!   set means all paths.
//! - Until an optional subflow is established, the initial one carries data.
//! - "The best unused one" is an optional one that the class leaves out, then a standby one in the
//!   given order, then any. It is released when the lost one is restored.
//! - Paths that are added later are used if they are in P or in the given order. Subflows that the peer opens
//!   on others are standby.

use super::manager::assign;
use super::{Command, Event, OptionInfo, OptionKind, PathEnds, PathId, PathManager, SubflowId};
use super::{SubflowView, TransferSize, View};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The options of PCDC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The optional set, the paths whose subflows carry data; none or empty means all of them.
    pub active: Option<Vec<PathId>>,
    /// The standby paths, best impact factor first.
    pub standby_order: Vec<PathId>,
    /// Limits of the data-size classes L1 and L2, bytes.
    pub class_bytes: (Bytes, Bytes),
    /// RTTs measured beforehand, by path.
    pub rtt_ns: BTreeMap<PathId, Nanos>,
}

impl Default for Options {
    /// Section IV: 512 KiB, 1024 KiB.
    fn default() -> Self {
        Self {
            active: None,
            standby_order: Vec::new(),
            class_bytes: (512 * 1024, 1024 * 1024),
            rtt_ns: BTreeMap::new(),
        }
    }
}

/// Data-size classes; equation 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    L1,
    L2,
    L3,
}

impl Class {
    fn of(bytes: Bytes, (l1, l2): (Bytes, Bytes)) -> Self {
        match bytes {
            _ if bytes <= l1 => Self::L1,
            _ if bytes <= l2 => Self::L2,
            _ => Self::L3,
        }
    }

    /// The class in which a transfer begins.
    fn first(size: TransferSize, limits: (Bytes, Bytes)) -> Self {
        match size {
            TransferSize::Known(bytes) => Self::of(bytes, limits),
            TransferSize::Unlimited => Self::L3,
            TransferSize::Unknown => Self::of(1, limits),
        }
    }

    /// Number of the `optional` subflows that carry data.
    fn active_count(self, optional: usize) -> usize {
        match self {
            Self::L1 => optional.min(1),
            Self::L2 => optional.min(2),
            Self::L3 => optional,
        }
    }
}

/// PCDC with its options.
#[derive(Debug, Clone)]
pub struct Pcdc {
    /// The optional set; empty means all paths.
    optional: Vec<PathId>,
    standby_order: Vec<PathId>,
    class_bytes: (Bytes, Bytes),
    /// RTTs measured beforehand, by path.
    measured: BTreeMap<PathId, Nanos>,
    class: Class,
    lost: Vec<SubflowId>,
}

impl Pcdc {
    fn is_optional(&self, path: PathId) -> bool {
        self.optional.is_empty() || self.optional.contains(&path)
    }

    fn standby_rank(&self, path: PathId) -> usize {
        let rank = self.standby_order.iter().position(|&standby| standby == path);
        rank.unwrap_or(self.standby_order.len())
    }

    /// RTT of a path for sorting; unknown comes last.
    fn measured_rtt(&self, path: PathId) -> Nanos {
        self.measured.get(&path).copied().unwrap_or(Nanos::MAX)
    }

    /// RTT of a subflow for sorting.
    fn rtt(&self, subflow: &SubflowView) -> Nanos {
        if subflow.min_rtt > 0 { subflow.min_rtt } else { self.measured_rtt(subflow.path) }
    }

    /// The paths of P, among the first `paths`, that the class uses by the RTTs measured beforehand.
    fn initially_active(&self, class: Class, paths: usize) -> Vec<PathId> {
        let mut active: Vec<_> = (0..paths).filter(|&path| self.is_optional(path)).collect();
        if class != Class::L3 {
            let count = class.active_count(active.len());
            active.retain(|path| self.measured.contains_key(path));
            active.sort_by_key(|&path| self.measured_rtt(path));
            active.truncate(count);
        }
        active
    }

    /// Opens a subflow on every other path; those that will be used carry data at once.
    fn connect_all(&self, view: View<'_>, commands: &mut Vec<Command>) {
        let active = self.initially_active(self.class, view.paths.len());
        for path in (0..view.paths.len()).filter(|&path| path != view.subflows[0].path) {
            commands.push(Command::Connect { path, backup: !active.contains(&path) });
        }
    }

    /// Opens a subflow on an added path, if it is in P or a standby path.
    fn connect_added(&self, path: PathId, view: View<'_>, commands: &mut Vec<Command>) {
        if self.is_optional(path) || self.standby_order.contains(&path) {
            let active = self.initially_active(self.class, view.paths.len());
            commands.push(Command::Connect { path, backup: !active.contains(&path) });
        }
    }

    /// Updates the class of a transfer of unknown size, and requests the next notification.
    fn classify_sent(&mut self, sent: Bytes, commands: &mut Vec<Command>) {
        self.class = Class::of(sent + 1, self.class_bytes);
        match self.class {
            Class::L1 => commands.push(Command::NotifyAtBytes(self.class_bytes.0)),
            Class::L2 => commands.push(Command::NotifyAtBytes(self.class_bytes.1)),
            Class::L3 => {}
        }
    }

    /// The subflows that should carry data.
    fn active_set(&self, subflows: &[SubflowView]) -> Vec<SubflowId> {
        let optional = |&id: &SubflowId| self.is_optional(subflows[id].path);
        let (mut candidates, mut rest): (Vec<_>, Vec<_>) =
            (0..subflows.len()).filter(|&id| subflows[id].alive).partition(optional);
        let known = candidates.len() + self.lost.iter().copied().filter(optional).count();
        if known == 0 && subflows[0].alive {
            return vec![0];
        }
        candidates.sort_by_key(|&id| self.rtt(&subflows[id]));
        rest.sort_by_key(|&id| self.standby_rank(subflows[id].path));
        candidates.extend(rest);
        candidates.truncate(self.class.active_count(known).max(1));
        candidates
    }

    /// Activates the subflows that should carry data, then silences the others.
    fn apply(&self, subflows: &[SubflowView], commands: &mut Vec<Command>) {
        let active = self.active_set(subflows);
        let role = |id: SubflowId| subflows[id].alive.then(|| !active.contains(&id));
        assign(subflows, role, commands);
    }
}

impl PathManager for Pcdc {
    type Options = Options;

    const OPTIONS: &'static [OptionInfo] = &[
        OptionInfo {
            name: "active",
            kind: OptionKind::Paths,
            unit: "",
            help: "the optional set: paths whose subflows carry data; all paths unless given",
        },
        OptionInfo {
            name: "standby_order",
            kind: OptionKind::Paths,
            unit: "",
            help: "standby paths in the order in which they take over",
        },
        OptionInfo {
            name: "class_bytes",
            kind: OptionKind::Sizes,
            unit: "bytes",
            help: "largest transfers of the classes L1 (one subflow) and L2 (two subflows)",
        },
        OptionInfo {
            name: "rtt_ns",
            kind: OptionKind::PathTimes,
            unit: "ns",
            help: "RTTs of paths, measured beforehand: the optional set is sorted by them until the transfer measures its own",
        },
    ];

    fn new(options: Options) -> Result<Self, SpecError> {
        let (l1, l2) = options.class_bytes;
        if l1 > l2 {
            let expected = format!("expected the smaller limit first, found {l1}, {l2}");
            return Err(SpecError::new("class_bytes", expected));
        }
        Ok(Self {
            optional: options.active.unwrap_or_default(),
            standby_order: options.standby_order,
            class_bytes: options.class_bytes,
            measured: options.rtt_ns,
            class: Class::L3,
            lost: Vec::new(),
        })
    }

    fn thresholds(&self) -> Vec<Bytes> {
        vec![self.class_bytes.0, self.class_bytes.1]
    }

    fn initial_path(&self, paths: &[PathEnds], size: TransferSize, default: PathId) -> PathId {
        let class = Class::first(size, self.class_bytes);
        let optional = |path: PathId| self.is_optional(path);
        let rtt = |path: PathId| self.measured_rtt(path);
        match self.initially_active(class, paths.len()).first() {
            Some(&first) if class != Class::L3 => {
                if optional(default) && rtt(default) == rtt(first) { default } else { first }
            }
            _ if optional(default) => default,
            _ => self.optional.iter().copied().find(|&path| path < paths.len()).unwrap_or(default),
        }
    }

    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
        match event {
            Event::Established => {
                self.class = Class::first(view.size, self.class_bytes);
                if view.size == TransferSize::Unknown {
                    self.classify_sent(0, commands);
                }
                self.connect_all(view, commands);
            }
            Event::SubflowEstablished(id) | Event::SubflowRestored(id) => {
                self.lost.retain(|&lost| lost != id);
            }
            Event::SubflowLost(id) if !self.lost.contains(&id) => self.lost.push(id),
            Event::SubflowLost(_) => {}
            Event::BytesSent(sent) => self.classify_sent(sent, commands),
            Event::PathAdded(path) => self.connect_added(path, view, commands),
            Event::Sample(_) => {}
        }
        self.apply(view.subflows, commands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::testing::{World, activate, connect, connect_backup, silence};
    use crate::units::MILLISECOND;
    use TransferSize::{Known, Unknown};
    use proptest::prelude::*;

    const KIB: Bytes = 1024;

    fn options(active: &[PathId], standby_order: &[PathId]) -> Options {
        Options {
            active: Some(active.to_vec()),
            standby_order: standby_order.to_vec(),
            ..Options::default()
        }
    }

    /// 2 x 2 paths for a transfer of `bytes`, started on path 0, the others established on paths 1
    /// to 3 as subflows 1 to 3 with these RTTs (that of path 0 is 50 ms).
    fn established(options: &Options, size: TransferSize, rtts_ms: [u64; 3]) -> World<Pcdc> {
        let mut world = World::new(2, 2, options.clone());
        world.size = size;
        world.start(0);
        for (subflow, rtt_ms) in (1..).zip(rtts_ms) {
            world.establish(subflow, rtt_ms);
        }
        world
    }

    #[test]
    fn the_size_decides_how_many_of_the_fastest_carry_data() {
        for (kib, active) in [
            (1, vec![2]),
            (512, vec![2]),
            (513, vec![2, 3]),
            (1024, vec![2, 3]),
            (1025, vec![0, 1, 2, 3]),
        ] {
            let world = established(&Options::default(), Known(kib * KIB), [60, 20, 40]);
            assert_eq!(world.active(), active, "{kib} KiB");
        }
    }

    #[test]
    fn a_path_that_is_added_later_is_used_if_it_is_optional_or_has_a_place_among_the_standby_ones()
    {
        for (options, opened) in [
            (options(&[0], &[1, 2, 3]), vec![]),
            (options(&[0, 4], &[1]), vec![connect(4)]),
            (options(&[0], &[1, 4]), vec![connect_backup(4)]),
            (Options::default(), vec![connect(4)]),
        ] {
            let mut world = established(&options, TransferSize::Unlimited, [60, 20, 40]);
            assert_eq!(world.add_path(2, 0), opened);
        }
    }

    #[test]
    fn the_limits_of_the_classes_are_options() {
        let options = Options { class_bytes: (10, 20), ..Options::default() };
        for (bytes, count) in [(10, 1), (11, 2), (21, 4)] {
            assert_eq!(established(&options, Known(bytes), [60, 20, 40]).active().len(), count);
        }
    }

    #[test]
    fn only_the_optional_set_carries_data_and_all_paths_are_connected() {
        let mut world = World::<Pcdc>::new(2, 2, options(&[0, 2], &[3, 1]));
        world.size = Known(100_000 * KIB);
        assert_eq!(world.start(0), [connect_backup(1), connect(2), connect_backup(3)]);
        for subflow in 1..4 {
            assert_eq!(world.establish(subflow, 10), []);
        }
        assert_eq!(world.active(), [0, 2]);
    }

    #[test]
    fn a_small_transfer_moves_to_a_faster_optional_subflow_only() {
        let mut world = World::<Pcdc>::new(2, 2, options(&[0, 1, 2], &[3]));
        world.size = Known(100 * KIB);
        assert_eq!(world.start(0), [1, 2, 3].map(connect_backup));
        assert_eq!(world.establish(3, 5), []);
        assert_eq!(world.establish(1, 60), []);
        assert_eq!(world.establish(2, 20), [activate(2), silence(0)]);
    }

    #[test]
    fn equal_and_unknown_rtts_keep_the_order_of_creation() {
        let small = Known(100 * KIB);
        assert_eq!(established(&Options::default(), small, [50, 50, 50]).active(), [0]);
        assert_eq!(established(&Options::default(), small, [0, 0, 0]).active(), [0]);
        assert_eq!(established(&Options::default(), small, [0, 40, 0]).active(), [2]);
    }

    #[test]
    fn a_standby_initial_subflow_carries_data_until_an_optional_one_is_established() {
        let mut world = World::<Pcdc>::new(2, 2, options(&[2, 3], &[1, 0]));
        world.size = Known(100_000 * KIB);
        assert_eq!(world.start(0), [connect_backup(1), connect(2), connect(3)]);
        assert_eq!(world.establish(1, 10), []);
        assert_eq!(world.active(), [0]);
        assert_eq!(world.establish(2, 90), [silence(0)]);
        assert_eq!(world.establish(3, 80), []);
        assert_eq!(world.active(), [2, 3]);
    }

    #[test]
    fn a_stream_of_unknown_size_climbs_through_the_classes() {
        let mut world = World::<Pcdc>::new(2, 2, options(&[0, 1, 2], &[3]));
        let notify = Command::NotifyAtBytes;
        let started = world.start(0);
        assert_eq!(started[0], notify(512 * KIB));
        assert_eq!(started[1..], [1, 2, 3].map(connect_backup));
        assert_eq!(world.establish(1, 40), [activate(1), silence(0)]);
        assert_eq!(world.establish(2, 60), []);
        assert_eq!(world.send(512 * KIB), [notify(1024 * KIB), activate(0)]);
        assert_eq!(world.send(1024 * KIB), [activate(2)]);
        assert_eq!(world.establish(3, 10), []);
        assert_eq!(world.active(), [0, 1, 2]);
    }

    #[test]
    fn a_stream_may_pass_several_limits_at_once() {
        let mut world = established(&Options::default(), Unknown, [60, 20, 40]);
        assert_eq!(world.send(3_000 * KIB), [0, 1, 3].map(activate));
    }

    #[test]
    fn a_lost_subflow_is_replaced_by_the_best_unused_one_and_comes_back() {
        // All optional ones are in use: the standby ones step in, in the order given.
        let mut world = established(&options(&[0, 1], &[3, 2]), Known(9_999 * KIB), [60, 20, 40]);
        assert_eq!(world.lose(1), [activate(3)]);
        assert_eq!(world.lose(0), [activate(2)]);
        assert_eq!(world.restore(1), [silence(2)]);
        assert_eq!(world.restore(0), [silence(3)]);
        assert_eq!(world.active(), [0, 1]);
    }

    #[test]
    fn an_unused_optional_subflow_goes_before_a_standby_one() {
        let mut world = established(&options(&[0, 1, 2], &[3]), Known(100 * KIB), [60, 20, 10]);
        assert_eq!(world.active(), [2]);
        assert_eq!(world.lose(2), [activate(0)]);
        assert_eq!(world.lose(0), [activate(1)]);
        assert_eq!(world.lose(1), [activate(3)]);
        assert_eq!(world.restore(1), [silence(3)]);
        assert_eq!(world.restore(2), [silence(1)]);
    }

    #[test]
    fn without_an_order_any_live_subflow_takes_over() {
        let mut world = established(&options(&[0], &[]), Known(9_999 * KIB), [60, 20, 40]);
        assert_eq!(world.lose(0), [activate(1)]);
        assert_eq!(world.lose(1), [activate(2)]);
        assert_eq!(world.lose(2), [activate(3)]);
        assert_eq!(world.lose(3), []);
        assert_eq!(world.restore(2), []);
        assert_eq!(world.active(), [2]);
    }

    #[test]
    fn the_initial_path_is_optional() {
        let initial = |active: &[PathId], default| {
            World::<Pcdc>::new(2, 2, options(active, &[])).initial_path(default)
        };
        assert_eq!(initial(&[3, 1], 1), 1);
        assert_eq!(initial(&[3, 1], 0), 3);
        assert_eq!(initial(&[], 2), 2);
        assert_eq!(World::<Pcdc>::new(2, 2, Options::default()).initial_path(2), 2);
    }

    fn measured(active: &[PathId], rtts_ms: &[(PathId, u64)]) -> Options {
        let rtt_ns = rtts_ms.iter().map(|&(path, rtt)| (path, rtt * MILLISECOND)).collect();
        Options { rtt_ns, ..options(active, &[]) }
    }

    #[test]
    fn a_small_transfer_begins_on_the_optional_path_of_the_smallest_measured_rtt() {
        let rtts = [(0, 90), (1, 10), (2, 30), (3, 30)];
        for (size, active, initial) in [
            (Known(KIB), &[][..], 1),
            (Known(1024 * KIB), &[], 1),
            (Unknown, &[], 1),
            (Known(KIB), &[0, 2, 3], 2),
            (Known(KIB), &[2], 2),
            // All of P carry data: the order does not matter.
            (Known(1025 * KIB), &[], 0),
            (TransferSize::Unlimited, &[2, 3], 2),
        ] {
            let mut world = World::<Pcdc>::new(2, 2, measured(active, &rtts));
            world.size = size;
            assert_eq!(world.initial_path(0), initial, "{size:?} {active:?}");
        }
        let mut world = World::<Pcdc>::new(2, 2, measured(&[], &rtts));
        world.size = Known(KIB);
        assert_eq!(world.initial_path(1), 1);
    }

    #[test]
    fn paths_the_class_will_use_carry_data_as_soon_as_they_have_joined() {
        let rtts = [(0, 50), (1, 90), (2, 60), (3, 70)];
        let mut world = World::<Pcdc>::new(2, 2, measured(&[], &rtts));
        world.size = Known(1024 * KIB);
        assert_eq!(world.start(0), [connect_backup(1), connect(2), connect_backup(3)]);
        for (subflow, rtt_ms) in [(2, 60), (3, 70), (1, 90)] {
            assert_eq!(world.establish(subflow, rtt_ms), []);
        }
        assert_eq!(world.active(), [0, 2]);
    }

    #[test]
    fn a_sample_overrides_what_was_measured_before() {
        let rtts = [(0, 50), (1, 90), (2, 60), (3, 70)];
        let mut world = established(&measured(&[], &rtts), Known(KIB), [90, 60, 0]);
        assert_eq!(world.active(), [0]);
        assert_eq!(world.establish(1, 40), [activate(1), silence(0)]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Establish(usize, u64),
        Lose(usize),
        Restore(usize),
        Send(Bytes),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..6usize, 0..400u64).prop_map(|(subflow, rtt)| Step::Establish(subflow, rtt)),
            (0..6usize).prop_map(Step::Lose),
            (0..6usize).prop_map(Step::Restore),
            (0..2_000 * KIB).prop_map(Step::Send),
        ]
    }

    proptest! {
        /// The world refuses commands that change nothing; this checks that data can always flow.
        #[test]
        fn a_live_subflow_always_carries_data(
            active in prop::collection::vec(0..6usize, 0..4),
            bytes in prop::option::of(0..2_000 * KIB),
            initial in 0..6usize,
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut world = World::<Pcdc>::new(2, 3, options(&active, &[5, 4]));
            world.size = bytes.map_or(Unknown, Known);
            world.start(initial);
            let mut established = [true, false, false, false, false, false];
            for step in steps {
                match step {
                    Step::Establish(id, rtt) if !established[id] => {
                        established[id] = true;
                        world.establish(id, rtt);
                    }
                    Step::Lose(id) if world.subflows[id].alive => drop(world.lose(id)),
                    Step::Restore(id) if established[id] && !world.subflows[id].alive => {
                        world.restore(id);
                    }
                    Step::Send(bytes) => drop(world.send(bytes)),
                    _ => {}
                }
                let alive = world.subflows.iter().any(|subflow| subflow.alive);
                prop_assert_eq!(alive, !world.active().is_empty());
            }
        }
    }
}
