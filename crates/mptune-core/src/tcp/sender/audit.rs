//! Whether the counts of a sender are those of its scoreboard.

use super::{LOST, RETRANSMITTED, SACKED, Sender};

impl Sender {
    /// Takes one off a count if it was counted; none may be left to take off only if the counts are wrong.
    #[inline]
    pub(super) fn take_off(count: &mut u32, counted: bool, miscounted: &mut bool) {
        *miscounted |= counted && *count == 0;
        *count = count.saturating_sub(u32::from(counted));
    }

    /// The counts are those of the scoreboard, and always were.
    pub fn is_consistent(&self) -> bool {
        let having =
            |flag: u8| self.board.iter().filter(|segment| segment.flags & flag != 0).count();
        let counts = [self.sacked_out, self.lost_out, self.retransmitted_out];
        !self.miscounted
            && self.board.len() == self.outstanding() as usize
            && counts.map(|count| count as usize) == [SACKED, LOST, RETRANSMITTED].map(having)
    }
}
