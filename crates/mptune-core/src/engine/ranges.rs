//! A set of sequence numbers as sorted, disjoint, non-touching ranges: a receiver's out-of-order segments, a
//! sender's selectively acknowledged ones.

use crate::units::Seq;
use std::collections::VecDeque;
use std::ops::Range;

/// Sorted ranges; typically a handful, at worst one per loss in a window.
#[derive(Debug, Clone, Default)]
pub struct RangeSet {
    ranges: VecDeque<(Seq, Seq)>,
}

impl RangeSet {
    /// No numbers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of ranges.
    #[inline]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Count of all numbers.
    pub fn size(&self) -> u32 {
        self.ranges.iter().map(|&(start, end)| end - start).sum()
    }

    /// The range with the smallest numbers.
    pub fn first(&self) -> Option<Range<Seq>> {
        self.ranges.front().map(|&(start, end)| start..end)
    }

    /// One past the largest number, or none.
    pub fn end(&self) -> Option<Seq> {
        self.ranges.back().map(|&(_, end)| end)
    }

    /// Index of the first range that ends at or after `seq`.
    fn index(&self, seq: Seq) -> usize {
        match self.ranges.back() {
            // Almost always the newest range grows.
            Some(&(start, _)) if start <= seq => {
                let last = self.ranges.len() - 1;
                if self.ranges[last].1 >= seq { last } else { last + 1 }
            }
            _ => self.ranges.partition_point(|&(_, end)| end < seq),
        }
    }

    /// The range containing `seq`.
    pub fn containing(&self, seq: Seq) -> Option<Range<Seq>> {
        let index = self.ranges.partition_point(|&(_, end)| end <= seq);
        let &(start, end) = self.ranges.get(index)?;
        (start <= seq).then_some(start..end)
    }

    /// Adds a range; `added` is called with each part that was not there before.
    pub fn insert(&mut self, new: Range<Seq>, mut added: impl FnMut(Range<Seq>)) {
        if new.is_empty() {
            return;
        }
        let index = self.index(new.start);
        let (mut start, mut end) = (new.start, new.end);
        let mut uncovered = new.start;
        let mut merged = index;
        while let Some(&(s, e)) = self.ranges.get(merged) {
            if s > new.end {
                break;
            }
            if uncovered < s {
                added(uncovered..s.min(new.end));
            }
            uncovered = uncovered.max(e);
            start = start.min(s);
            end = end.max(e);
            merged += 1;
        }
        if uncovered < new.end {
            added(uncovered..new.end);
        }
        if merged == index {
            self.ranges.insert(index, (start, end));
        } else {
            self.ranges[index] = (start, end);
            self.ranges.drain(index + 1..merged);
        }
    }

    /// Forgets every number below `bound`.
    pub fn remove_below(&mut self, bound: Seq) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 <= bound {
                self.ranges.pop_front();
            } else {
                front.0 = front.0.max(bound);
                return;
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set_of_numbers(steps in prop::collection::vec((0u32..60, 0u32..12, any::<bool>()), 1..80)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            let mut floor = 0;
            for (start, len, remove) in steps {
                if remove {
                    floor = floor.max(start / 2);
                    set.remove_below(floor);
                    model = model.split_off(&floor);
                    continue;
                }
                let range = start.max(floor)..(start + len).max(floor);
                let mut reported = BTreeSet::new();
                set.insert(range.clone(), |part| reported.extend(part));
                let fresh: BTreeSet<_> = range.filter(|seq| !model.contains(seq)).collect();
                prop_assert_eq!(&reported, &fresh);
                model.extend(fresh);
                for seq in 0..80 {
                    prop_assert_eq!(set.containing(seq).is_some(), model.contains(&seq));
                }
                prop_assert_eq!(set.end(), model.last().map(|last| last + 1));
                prop_assert_eq!(set.first().map(|r| r.start), model.first().copied());
                for pair in set.ranges.iter().zip(set.ranges.iter().skip(1)) {
                    prop_assert!(pair.0.1 < pair.1.0, "ranges touch: {:?}", set);
                }
            }
        }
    }
}
