//! Sets of subflows, and the orders that make one the active one.

use super::tuning::TUNING;
use crate::pathmanager::{Command, SubflowId, SubflowView};

/// A set of subflows, a bit each.
pub(super) type Set = u64;

pub(super) fn members(set: Set) -> impl Iterator<Item = SubflowId> {
    (0..64).filter(move |id| set >> id & 1 == 1)
}

pub(super) fn set_of(subflows: &[SubflowView], is_in: impl Fn(&SubflowView) -> bool) -> Set {
    let chosen = subflows.iter().enumerate().filter(|(_, one)| is_in(one));
    chosen.fold(0, |set, (id, _)| set | 1 << id)
}

/// Parts of a set that are neither empty nor the whole.
pub(super) fn parts(whole: Set) -> Vec<Set> {
    if whole.count_ones() > TUNING.few {
        let alone = members(whole).map(|id| 1 << id);
        return alone.chain(members(whole).map(|id| whole & !(1 << id))).collect();
    }
    let next = |&part: &Set| Some(part.wrapping_sub(1) & whole).filter(|&part| part > 0);
    std::iter::successors(Some(whole), next).skip(1).collect()
}

/// Of the subflows concerned, those wanted carry data from now on and the others do not.
pub(super) fn order(
    concerned: Set,
    wanted: Set,
    subflows: &[SubflowView],
    commands: &mut Vec<Command>,
) {
    for backup in [false, true] {
        let changed = members(concerned).filter(|&id| (wanted >> id & 1 == 0) == backup);
        let changed = changed.filter(|&id| subflows[id].backup != backup);
        commands.extend(changed.map(|subflow| Command::SetBackup { subflow, backup }));
    }
}
