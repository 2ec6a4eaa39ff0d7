//! Windowed maximum over the last rounds (draft section 4.1.1.2).
//!
//! Exact; Linux `lib/win_minmax.c` keeps the three best candidates instead of one value per round.

/// Rounds for which a value counts: one gain cycle plus two (`bbr_bw_rtts`).
const SPAN: u32 = 10;

/// The filter. Time advances only with values: without new ones none expires.
#[derive(Debug, Clone, Default)]
pub struct WindowedMax {
    /// Per round, modulo the span: the round and its largest value.
    rounds: [(u32, f64); SPAN as usize],
    max: f64,
}

impl WindowedMax {
    /// Adds a value of a round no earlier than the last one's.
    #[inline]
    pub fn insert(&mut self, round: u32, value: f64) {
        let slot = &mut self.rounds[(round % SPAN) as usize];
        if slot.0 == round {
            slot.1 = slot.1.max(value);
            self.max = self.max.max(value);
        } else {
            *slot = (round, value);
            let current = self.rounds.iter().filter(|(of, _)| round - of < SPAN);
            self.max = current.map(|&(_, value)| value).fold(0.0, f64::max);
        }
    }

    /// The largest value, 0 before the first.
    #[inline]
    pub fn get(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_largest_value_of_the_span(
            values in prop::collection::vec((0..4u32, 0.0..1e6), 1..100)
        ) {
            let mut filter = WindowedMax::default();
            let (mut round, mut all) = (0, vec![]);
            for (rounds, value) in values {
                round += rounds;
                all.push((round, value));
                filter.insert(round, value);
                let current = all.iter().filter(|&&(of, _)| round - of < SPAN);
                let expected = current.map(|&(_, value)| value).fold(0.0, f64::max);
                prop_assert_eq!(filter.get(), expected);
            }
        }
    }
}
