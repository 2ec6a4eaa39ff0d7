//! Throughput over the limit of a buffer, as a run measured it.

use crate::error::SpecError;
use crate::units::Bytes;

/// The response of the throughput to the limit: points, straight lines between them, and flat beyond their ends,
/// of which nothing was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<(Bytes, f64)>,
}

impl Curve {
    /// Of points: buffers in bytes, ascending, and Mbit/s.
    ///
    /// # Errors
    /// The first point that is wrong, counted from 0; the key is `curve`.
    pub fn new(points: Vec<(Bytes, f64)>) -> Result<Self, SpecError> {
        let wrong = |place: String, expected: String| Err(SpecError::new(place, expected));
        if points.len() < 2 {
            let expected =
                format!("expected two points [bytes, Mbit/s] or more, found {}", points.len());
            return wrong("curve".to_owned(), expected);
        }
        let mut before = 0;
        for (number, &(buffer, mbit_s)) in points.iter().enumerate() {
            let place = format!("curve[{number}]");
            if buffer <= before {
                let expected = format!("expected a buffer above {before} bytes, found {buffer}");
                return wrong(place, expected);
            }
            if !mbit_s.is_finite() || mbit_s < 0.0 {
                let expected =
                    format!("expected a throughput that is not negative, found {mbit_s}");
                return wrong(place, expected);
            }
            before = buffer;
        }
        Ok(Self { points })
    }

    /// Its points.
    pub fn points(&self) -> &[(Bytes, f64)] {
        &self.points
    }

    /// T(B), Mbit/s.
    pub fn throughput(&self, buffer: Bytes) -> f64 {
        let above = self.points.partition_point(|&(point, _)| point < buffer);
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        match above {
            0 => first.1,
            above if above == self.points.len() => last.1,
            above => {
                let ((left, low), (right, high)) = (self.points[above - 1], self.points[above]);
                low + (high - low) * (buffer - left) as f64 / (right - left) as f64
            }
        }
    }

    /// The highest throughput within the bounds, Mbit/s.
    pub fn best(&self, least: Bytes, most: Bytes) -> f64 {
        self.corners(least, most).map(|(_, mbit_s)| mbit_s).fold(0.0, f64::max)
    }

    /// The inverse: the smallest buffer within the bounds that reaches a throughput; none if none does.
    pub fn smallest(&self, mbit_s: f64, least: Bytes, most: Bytes) -> Option<Bytes> {
        let mut before: Option<(Bytes, f64)> = None;
        for (buffer, height) in self.corners(least, most) {
            if height >= mbit_s {
                let Some((left, low)) = before else { return Some(buffer) };
                let share = (mbit_s - low) / (height - low);
                return Some(left + ((buffer - left) as f64 * share).ceil() as Bytes);
            }
            before = Some((buffer, height));
        }
        None
    }

    /// The bounds and the points between them, ascending.
    fn corners(&self, least: Bytes, most: Bytes) -> impl Iterator<Item = (Bytes, f64)> + '_ {
        let inside = move |&(buffer, _): &(Bytes, f64)| least < buffer && buffer < most;
        let between = self.points.iter().copied().filter(inside);
        let end = |buffer| (buffer, self.throughput(buffer));
        [end(least)].into_iter().chain(between).chain([end(most)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T = min(B / 10 kB, 100): a window per round trip, up to the rate of the network.
    fn curve() -> Curve {
        Curve::new(vec![(100_000, 10.0), (1_000_000, 100.0), (8_000_000, 100.0)]).unwrap()
    }

    #[test]
    fn between_points_the_inverse_gives_what_the_curve_gives_back() {
        for mbit_s in [10.0, 17.3, 55.5, 95.0, 100.0] {
            let buffer = curve().smallest(mbit_s, 100_000, 8_000_000).unwrap();
            assert!(curve().throughput(buffer) >= mbit_s - 1e-9);
            // A byte for the rounding.
            assert!(buffer == 100_000 || curve().throughput(buffer - 2) < mbit_s);
        }
        assert_eq!(curve().smallest(100.1, 100_000, 8_000_000), None);
    }

    #[test]
    fn beyond_its_ends_it_is_flat() {
        assert_eq!((curve().throughput(1), curve().throughput(1 << 40)), (10.0, 100.0));
    }

    #[test]
    fn bounds_cut_it() {
        assert_eq!(curve().best(1, 550_000), 55.0);
        assert_eq!(curve().smallest(20.0, 500_000, 8_000_000), Some(500_000));
        assert_eq!(curve().smallest(60.0, 1, 550_000), None);
    }

    #[test]
    fn the_smallest_buffer_of_a_curve_with_a_peak_is_before_it() {
        let peak = Curve::new(vec![(1000, 0.0), (2000, 80.0), (3000, 40.0)]).unwrap();
        assert_eq!(peak.smallest(40.0, 1000, 3000), Some(1500));
        assert_eq!(peak.best(1000, 3000), 80.0);
    }

    #[test]
    fn points_that_are_no_curve_are_refused() {
        for (points, expected) in [
            (vec![], "curve: expected two points [bytes, Mbit/s] or more, found 0"),
            (vec![(1, 1.0)], "curve: expected two points [bytes, Mbit/s] or more, found 1"),
            (vec![(0, 1.0), (2, 1.0)], "curve[0]: expected a buffer above 0 bytes, found 0"),
            (vec![(5, 1.0), (5, 1.0)], "curve[1]: expected a buffer above 5 bytes, found 5"),
            (
                vec![(1, 1.0), (5, f64::NAN)],
                "curve[1]: expected a throughput that is not negative, found NaN",
            ),
            (
                vec![(1, -1.0), (5, 1.0)],
                "curve[0]: expected a throughput that is not negative, found -1",
            ),
        ] {
            assert_eq!(Curve::new(points).unwrap_err().to_string(), expected);
        }
    }
}
