//! Segments of a program that offers a message at a time, under payload accounting: none holds data of two messages.

use crate::units::{Bytes, Seq};

/// The lengths of the segments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offers {
    /// Payload bytes of a message, and of a full segment.
    message: Bytes,
    full: Bytes,
    /// Segments of a message; the last may be short.
    segments: Seq,
}

impl Offers {
    /// Messages of this many bytes; a full segment has `full`. Their total is below 2^31 segments.
    pub fn new(message: Bytes, full: u32) -> Self {
        let full = Bytes::from(full);
        Self { message, full, segments: message.div_ceil(full) as Seq }
    }

    /// Payload bytes of a message.
    pub fn message(&self) -> Bytes {
        self.message
    }

    /// Segments of a message.
    pub fn segments(&self) -> Seq {
        self.segments
    }

    /// Payload before a segment.
    pub fn payload_before(&self, segment: Seq) -> Bytes {
        let (whole, part) = (segment / self.segments, segment % self.segments);
        Bytes::from(whole) * self.message + Bytes::from(part) * self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_of_each_message_is_short() {
        let offers = Offers::new(2_500, 1_000);
        assert_eq!(offers.segments(), 3);
        let starts = [0, 1_000, 2_000, 2_500, 3_500, 4_500, 5_000];
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|segment| offers.payload_before(segment)), starts);
        assert_eq!(Offers::new(1_000, 1_000).payload_before(7), 7_000);
        assert_eq!(Offers::new(1, 1_000).payload_before(7), 7);
    }
}
