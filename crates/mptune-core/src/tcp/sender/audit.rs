//! Consistency of a sender's counts with its scoreboard.

use super::{LOST, RETRANSMITTED, SACKED, Sender};

impl Sender {
    /// Decrements a count if `counted`; a count at zero is then wrong.
    #[inline]
    pub(super) fn decrement(count: &mut u32, counted: bool, miscounted: &mut bool) {
        *miscounted |= counted && *count == 0;
        *count = count.saturating_sub(u32::from(counted));
    }

    /// The counts are, and always were, those of the scoreboard.
    pub fn is_consistent(&self) -> bool {
        let having =
            |flag: u8| self.board.iter().filter(|segment| segment.flags & flag != 0).count();
        let counts = [self.sacked_out, self.lost_out, self.retransmitted_out];
        !self.miscounted
            && self.board.len() == self.outstanding() as usize
            && counts.map(|count| count as usize) == [SACKED, LOST, RETRANSMITTED].map(having)
    }
}
