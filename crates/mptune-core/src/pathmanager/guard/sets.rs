//! Sets of subflows, and the orders that activate a set.

use super::tuning::TUNING;
use crate::pathmanager::manager::assign;
use crate::pathmanager::{Command, SubflowId, SubflowView};

/// A set of subflows, a bit each.
pub(super) type Set = u64;

pub(super) fn members(set: Set) -> impl Iterator<Item = SubflowId> {
    (0..64).filter(move |id| set >> id & 1 == 1)
}

pub(super) fn set_of(subflows: &[SubflowView], is_in: impl Fn(&SubflowView) -> bool) -> Set {
    let chosen = subflows.iter().enumerate().filter(|(_, subflow)| is_in(subflow));
    chosen.fold(0, |set, (id, _)| set | 1 << id)
}

/// The sets of usable subflows that are considered beside the current one: all, or of many each alone, and those that differ in
/// one.
pub(super) fn candidates(usable: Set, current: Set) -> Vec<Set> {
    let mut sets: Vec<Set> = if usable.count_ones() > TUNING.few {
        let alone = members(usable).map(|id| 1 << id);
        let others = members(usable).flat_map(|id| [current ^ 1 << id, usable & !(1 << id)]);
        alone.chain(others).chain([usable]).filter(|&set| set != 0).collect()
    } else {
        let next = |&part: &Set| Some(part.wrapping_sub(1) & usable).filter(|&part| part > 0);
        std::iter::successors(Some(usable), next).collect()
    };
    sets.sort_unstable();
    sets.dedup();
    sets.retain(|&set| set != current);
    sets
}

/// Orders the target set active and the other subflows concerned standby.
pub(super) fn order(
    concerned: Set,
    target: Set,
    subflows: &[SubflowView],
    commands: &mut Vec<Command>,
) {
    let has = |set: Set, id: SubflowId| set >> id & 1 == 1;
    assign(subflows, |id| has(concerned, id).then(|| !has(target, id)), commands);
}
