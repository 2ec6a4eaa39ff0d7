//! `[buffers]` of the policy file: permission to adapt the limits of the buffers, and its bounds.

use super::amount;
use super::table::{self, Table};
use mptune_core::limits::Bounds;
use serde_json::{Map, Value};
use std::path::Path;

const SECOND_NS: u64 = 1_000_000_000;
/// Length of an interval by default, and the shortest: round trips, of which an interval needs some.
const EVERY_NS: u64 = 10 * SECOND_NS;
const SHORTEST_NS: u64 = SECOND_NS;
/// Share of a curve's maximum that is enough by default, as in the decision (`mptune optimise`).
const TARGET: f64 = 0.95;
/// Range of that share. It also decides how long a buffer may hold a connection up.
const TARGETS: (f64, f64) = (0.5, 0.99);
/// Bounds of the bounds: a page, and what the kernel's value of type int holds.
const SMALLEST: u64 = 4096;
const LARGEST: u64 = i32::MAX as u64;
const KEYS: [&str; 4] = ["least", "most", "target", "every"];

/// Permission to adapt the limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffers {
    /// Bounds of the limits, and the share of the maximum that is enough.
    pub bounds: Bounds,
    /// Length of an interval, nanoseconds.
    pub every_ns: u64,
}

impl Buffers {
    /// Reads the table.
    ///
    /// # Errors
    /// The first key whose value is wrong.
    pub fn read(file: &Path, values: &Map<String, Value>) -> Result<Self, table::Error> {
        let table = Table::new(file, "buffers", values, &KEYS)?;
        let (_, least) = bound(&table, "least", "size such as 256KiB")?;
        let (text, most) = bound(&table, "most", "size such as 16MiB")?;
        if most < least {
            let expected = format!("expected at least buffers.least, found {text:?}");
            return Err(table.wrong("most", expected));
        }
        let target = table.number("target")?.unwrap_or(TARGET);
        let (low, high) = TARGETS;
        if !(low..=high).contains(&target) {
            let expected = format!("expected a number from {low} to {high}, found {target}");
            return Err(table.wrong("target", expected));
        }
        let every = amount::time(&table, "every", "time such as 10s")?;
        let every_ns = match every {
            Some((text, ns)) if ns < SHORTEST_NS => {
                return Err(table.wrong("every", format!("expected 1s or more, found {text:?}")));
            }
            every => every.map_or(EVERY_NS, |(_, ns)| ns),
        };
        Ok(Self { bounds: Bounds { least, most, target }, every_ns })
    }
}

fn bound(table: &Table<'_>, key: &str, what: &str) -> Result<(String, u64), table::Error> {
    let Some((text, bytes)) = amount::size(table, key, what)? else {
        return Err(table.wrong(key, format!("expected a {what}, found nothing")));
    };
    if (SMALLEST..=LARGEST).contains(&bytes) {
        return Ok((text, bytes));
    }
    let expected = format!("expected 4 KiB to 2 GiB less a byte, found {text:?}");
    Err(table.wrong(key, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Buffers, table::Error> {
        let file = Path::new("/f");
        Buffers::read(file, &table::parsed(file, text)?)
    }

    #[test]
    fn bounds_have_units_and_the_rest_has_defaults() {
        let buffers = read("least = \"256KiB\"\nmost = \"16 MiB\"").unwrap();
        let bounds = Bounds { least: 256 << 10, most: 16 << 20, target: 0.95 };
        assert_eq!(buffers, Buffers { bounds, every_ns: 10_000_000_000 });
        let text = "least = \"1MB\"\nmost = \"1MB\"\ntarget = 0.9\nevery = \"1min\"";
        let buffers = read(text).unwrap();
        let bounds = Bounds { least: 1_000_000, most: 1_000_000, target: 0.9 };
        assert_eq!(buffers, Buffers { bounds, every_ns: 60_000_000_000 });
    }

    #[test]
    fn an_error_is_one_line_with_its_key() {
        let most = "least = \"1MiB\"\nmost = \"2MiB\"\n";
        for (text, expected) in [
            (String::new(), "least: expected a size such as 256KiB, found nothing"),
            ("least = 7".to_owned(), "least: expected text, found 7"),
            (
                "least = \"1 mib\"".to_owned(),
                "least: expected a size such as 256KiB (units: B, KiB, MiB, GiB, kB, MB, GB), found \"1 mib\"",
            ),
            ("least = \"1MiB\"".to_owned(), "most: expected a size such as 16MiB, found nothing"),
            (
                "least = \"2MiB\"\nmost = \"1MiB\"".to_owned(),
                "most: expected at least buffers.least, found \"1MiB\"",
            ),
            (
                "least = \"1KiB\"".to_owned(),
                "least: expected 4 KiB to 2 GiB less a byte, found \"1KiB\"",
            ),
            (
                "least = \"1MiB\"\nmost = \"2GiB\"".to_owned(),
                "most: expected 4 KiB to 2 GiB less a byte, found \"2GiB\"",
            ),
            (format!("{most}target = 95"), "target: expected a number from 0.5 to 0.99, found 95"),
            (format!("{most}every = \"10ms\""), "every: expected 1s or more, found \"10ms\""),
            (format!("{most}every = \"10\""), "every: expected a time such as 10s (units: ms,"),
            (format!("{most}curve = []"), "curve: expected one of least, most, target, every,"),
        ] {
            let reason = read(&text).unwrap_err().to_string();
            assert!(reason.starts_with(&format!("/f: buffers.{expected}")), "{reason}");
            assert!(!reason.contains('\n'), "{reason}");
        }
    }
}
