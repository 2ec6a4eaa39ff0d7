//! Limits of the buffers, set by what is seen: the rule of the daemon, which the simulator can be put under too.
//!
//! The kernel lets the buffers of a connection grow up to a limit, `tcp_wmem[2]` and `tcp_rmem[2]`. The GLM study
//! closes with the wish that it be set dynamically, from the measured throughput by the fitted curve (sections VI
//! and VII there). This is that step. A [`Curve`] is the throughput over the limit as a run measured it; a [`Rule`]
//! turns what connections have done in an interval into the next limit. Both are pure: no clock, no socket, and the
//! same observations give the same limits.

mod curve;
mod rule;

pub use self::curve::Curve;
pub use self::rule::{Bounds, Destination, Rule, Seen, Side, Verdict};

use crate::units::Bytes;

/// A size in a message: `12 MiB`, `1.5 MiB`, `64 KiB`, `100 B`.
pub fn size(bytes: Bytes) -> String {
    let (unit, name) = match bytes {
        0..=1023 => (1, "B"),
        1024..=1_048_575 => (1 << 10, "KiB"),
        1_048_576..=1_073_741_823 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let number = format!("{:.1}", bytes as f64 / f64::from(unit));
    format!("{} {name}", number.strip_suffix(".0").unwrap_or(&number))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_short() {
        let sizes = [100, 65_536, 1_572_864, 12 << 20, 3 << 30].map(super::size);
        assert_eq!(sizes, ["100 B", "64 KiB", "1.5 MiB", "12 MiB", "3 GiB"]);
    }
}
