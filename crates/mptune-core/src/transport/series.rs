//! Payload bytes over time, in bins of equal width.

use crate::units::{Bytes, MILLISECOND, Nanos};

/// Usual width of a bin: 100 ms, the resolution of the papers' time series.
pub const BIN: Nanos = 100 * MILLISECOND;

/// Bytes per bin since the start of the connection.
#[derive(Debug, Clone, Default)]
pub struct Series {
    width: Nanos,
    bins: Vec<Bytes>,
    current: Bytes,
    bin_end: Nanos,
    total: Bytes,
}

impl Series {
    /// A series of bins of this width that starts at `start`.
    pub fn new(start: Nanos, width: Nanos) -> Self {
        Self { width, bins: Vec::new(), current: 0, bin_end: start + width, total: 0 }
    }

    /// Bytes arrived at `now`, no earlier than any before them.
    #[inline]
    pub fn add(&mut self, now: Nanos, bytes: Bytes) {
        if now >= self.bin_end {
            self.close_until(now);
        }
        self.current += bytes;
        self.total += bytes;
    }

    fn close_until(&mut self, now: Nanos) {
        while now >= self.bin_end {
            self.bins.push(std::mem::take(&mut self.current));
            self.bin_end += self.width;
        }
    }

    /// All bytes so far.
    #[inline]
    pub fn total(&self) -> Bytes {
        self.total
    }

    /// The bins up to and with `end`, the last one possibly shorter than the others.
    pub fn finish(mut self, end: Nanos) -> Vec<Bytes> {
        self.close_until(end);
        if end + self.width > self.bin_end {
            self.bins.push(self.current);
        } else if let Some(last) = self.bins.last_mut() {
            // Bytes that arrive at `end` itself belong to the last bin.
            *last += self.current;
        }
        self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_their_bin_and_gaps_are_zero() {
        let mut series = Series::new(0, BIN);
        series.add(99 * MILLISECOND, 1);
        series.add(100 * MILLISECOND, 2);
        series.add(350 * MILLISECOND, 4);
        assert_eq!(series.total(), 7);
        assert_eq!(series.clone().finish(400 * MILLISECOND), [1, 2, 0, 4]);
        assert_eq!(series.finish(420 * MILLISECOND), [1, 2, 0, 4, 0]);
    }

    #[test]
    fn finer_bins_add_up_to_wider_ones() {
        let [mut wide, mut fine] = [BIN, BIN / 10].map(|width| Series::new(0, width));
        for (number, at) in [3, 99, 101, 250].into_iter().enumerate() {
            for series in [&mut wide, &mut fine] {
                series.add(at * MILLISECOND, number as Bytes + 1);
            }
        }
        let [wide, fine] = [wide, fine].map(|series| series.finish(300 * MILLISECOND));
        let sums: Vec<Bytes> = fine.chunks(10).map(|bins| bins.iter().sum()).collect();
        assert_eq!((fine.len(), sums), (30, wide));
    }

    #[test]
    fn what_arrives_at_the_very_end_is_in_the_last_bin() {
        let mut series = Series::new(0, BIN);
        series.add(150 * MILLISECOND, 1);
        series.add(200 * MILLISECOND, 2);
        assert_eq!(series.clone().finish(200 * MILLISECOND), [0, 3]);
        assert_eq!(series.finish(210 * MILLISECOND), [0, 1, 2]);
    }
}
