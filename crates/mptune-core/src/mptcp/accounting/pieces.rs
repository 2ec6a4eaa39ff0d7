//! Segments of a program that offers data in pieces, under payload accounting: none holds data of two pieces.

use crate::units::{Bytes, Seq};

/// The lengths of the segments.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    /// Payload bytes of a full segment.
    full: Bytes,
    /// Segments and payload at the end of each piece, after those of none.
    ends: Vec<(Seq, Bytes)>,
}

impl Pieces {
    /// Nothing is offered; a full segment has `full` payload bytes.
    pub fn new(full: u32) -> Self {
        Self { full: full.into(), ends: vec![(0, 0)] }
    }

    fn end(&self) -> (Seq, Bytes) {
        *self.ends.last().expect("the first end is never taken out")
    }

    /// Another piece. Returns the segments so far.
    pub fn push(&mut self, bytes: Bytes) -> Seq {
        let (segments, payload) = self.end();
        let end = segments + bytes.div_ceil(self.full) as Seq;
        self.ends.push((end, payload + bytes));
        end
    }

    /// Payload before a segment; one beyond the end counts as the end.
    pub fn payload_before(&self, segment: Seq) -> Bytes {
        let after = self.ends.partition_point(|&(end, _)| end <= segment);
        let (first, payload) = self.ends[after - 1];
        match self.ends.get(after) {
            Some(_) => payload + Bytes::from(segment - first) * self.full,
            None => payload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_of_each_piece_is_short() {
        let mut offers = Pieces::new(1_000);
        assert_eq!((offers.push(2_500), offers.push(1_000), offers.push(1)), (3, 4, 5));
        let starts = [0, 1_000, 2_000, 2_500, 3_500, 3_501, 3_501];
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|segment| offers.payload_before(segment)), starts);
    }
}
