//! Round-robin: the ready subflows in turn, one segment each (v0.9x kernels,
//! `net/mptcp/mptcp_rr.c` with `num_segments` 1 and `cwnd_limited`).

use super::{Candidates, Scheduler};

/// The subflow that had the last turn.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    last: usize,
}

impl Scheduler for RoundRobin {
    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        // The bits above the last one first, then from the start; a shift by 64 would overflow.
        let later = candidates.ready & (u64::MAX << self.last << 1);
        let set = if later != 0 { later } else { candidates.ready };
        self.last = set.trailing_zeros() as usize;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{candidates, subflow};
    use super::*;

    #[test]
    fn ready_subflows_take_turns_and_others_are_skipped() {
        let subflows = [subflow(1, 10, 0); 4];
        let mut scheduler = RoundRobin { last: 3 };
        let all = candidates(&subflows, 1, 1);
        let turns: Vec<_> = (0..6).filter_map(|_| scheduler.select(all)).collect();
        assert_eq!(turns, [0, 1, 2, 3, 0, 1]);
        let some = Candidates { ready: 0b1001, ..all };
        let turns: Vec<_> = (0..3).filter_map(|_| scheduler.select(some)).collect();
        assert_eq!(turns, [3, 0, 3]);
    }

    #[test]
    fn the_last_of_64_subflows_is_followed_by_the_first() {
        let mut scheduler = RoundRobin { last: 63 };
        let candidates = Candidates { ready: 1 | 1 << 63, ..candidates(&[], 1, 1) };
        assert_eq!(
            [scheduler.select(candidates), scheduler.select(candidates)],
            [Some(0), Some(63)]
        );
    }
}
