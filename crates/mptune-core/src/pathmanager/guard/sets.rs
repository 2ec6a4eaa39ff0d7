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

/// Proper subsets, without the empty one.
pub(super) fn subsets(whole: Set) -> Vec<Set> {
    if whole.count_ones() > TUNING.few {
        let alone = members(whole).map(|id| 1 << id);
        return alone.chain(members(whole).map(|id| whole & !(1 << id))).collect();
    }
    let next = |&part: &Set| Some(part.wrapping_sub(1) & whole).filter(|&part| part > 0);
    std::iter::successors(Some(whole), next).skip(1).collect()
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
