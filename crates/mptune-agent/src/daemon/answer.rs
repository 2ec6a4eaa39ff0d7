//! The answer of a run as the daemon reads it: `policy.json` in the run's directory, with what was measured.
//!
//! It was written for this; an error made by hand is reported with its key.

use super::table::{self, Table};
use crate::files;
use crate::paths::assignment::{Assignment, Specification, Terms};
use mptune_core::limits::Curve;
use mptune_core::pathmanager::OptionMap;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The file in a run's directory.
const FILE: &str = "policy.json";
/// Its version that is read here.
const VERSION: u64 = 1;
/// `transfer_bytes` of a sender that always has more: what a run without a size was measured with.
const SATURATED: u64 = u64::MAX;
/// No answer is longer, bytes.
const LONGEST: u64 = 1 << 20;
/// Deviation of the throughput from the expected one if the run gives no range, as a share.
const UNSAID: f64 = 0.1;
const KEYS: [&str; 17] = [
    "version",
    "run",
    "site",
    "measured_at",
    "testbed",
    "stack",
    "pm",
    "pm_options",
    "paths",
    "congestion",
    "buffer_bytes",
    "curve",
    "expected_mbit_s",
    "expected_low_mbit_s",
    "expected_high_mbit_s",
    "transfer_bytes",
    "lsrr_honoured",
];

/// The answer of a run for this host.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Directory of the run.
    pub directory: PathBuf,
    /// The name of the path manager.
    pub pm: String,
    /// The assignment of a connection.
    pub assignment: Assignment,
    /// Time of the measurement, as in the file.
    pub measured_at: Option<String>,
    /// The prediction; none if it predicts no throughput.
    pub expectation: Option<Expectation>,
    /// Throughput over the limit of the send buffer; none if the run has none.
    pub curve: Option<Curve>,
}

/// The throughput that an answer predicts, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// In the middle.
    pub mbit_s: f64,
    /// At least.
    pub low_mbit_s: f64,
    /// At most.
    pub high_mbit_s: f64,
    /// Time of the measurement, seconds since 1970; for messages only.
    pub measured_s: Option<u64>,
}

impl Answer {
    /// An answer on another machine, of which nothing is known; for checks of what is around it.
    pub fn elsewhere(directory: PathBuf) -> Self {
        let assignment = Assignment::of_host("", "default", &OptionMap::new(), Terms::default());
        let assignment = assignment.expect("the path manager default has no options");
        let (pm, measured_at, expectation, curve) = (String::new(), None, None, None);
        Self { directory, pm, assignment, measured_at, expectation, curve }
    }

    /// The answer in a run's directory; none if there is no such file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn read(directory: &Path) -> Result<Option<Self>, table::Error> {
        let file = directory.join(FILE);
        let text = match files::text(&file, LONGEST) {
            Err(unread) if unread.is_missing() => return Ok(None),
            Err(found) => return Err(table::Error::Unread { file, expected: "an answer", found }),
            Ok(text) => text,
        };
        let values: Map<String, Value> = match serde_json::from_str(&text) {
            Ok(values) => values,
            Err(error) => return Err(table::Error::Json { file, error }),
        };
        Self::checked(directory, &file, &values).map(Some)
    }

    fn checked(
        directory: &Path,
        file: &Path,
        values: &Map<String, Value>,
    ) -> Result<Self, table::Error> {
        let table = Table::new(file, "", values, &KEYS)?;
        let version = table.value("version").unwrap_or(&Value::Null);
        if version.as_u64() != Some(VERSION) {
            return Err(table.unexpected("version", &VERSION.to_string(), version));
        }
        for key in ["run", "site", "testbed", "stack", "congestion"] {
            table.text(key)?;
        }
        let pm = table.needed("pm")?.to_owned();
        table.number("buffer_bytes")?;
        let measured_at = table.text("measured_at")?;
        let measured_s = match measured_at {
            Some(text) => Some(seconds(text).ok_or_else(|| {
                let expected = format!("expected 2026-11-20T12:00:00Z, found {text:?}");
                table.wrong("measured_at", expected)
            })?),
            None => None,
        };
        let expectation = Expectation::read(&table, measured_s)?;
        Ok(Self {
            directory: directory.to_owned(),
            assignment: assignment(&table, &pm)?,
            pm,
            measured_at: measured_at.map(str::to_owned),
            expectation,
            curve: curve(&table)?,
        })
    }
}

impl Expectation {
    fn read(table: &Table<'_>, measured_s: Option<u64>) -> Result<Option<Self>, table::Error> {
        let Some(mbit_s) = table.number("expected_mbit_s")? else { return Ok(None) };
        let low = table.number("expected_low_mbit_s")?.unwrap_or(mbit_s * (1.0 - UNSAID));
        let high = table.number("expected_high_mbit_s")?.unwrap_or(mbit_s * (1.0 + UNSAID));
        if low <= mbit_s && mbit_s <= high {
            return Ok(Some(Self { mbit_s, low_mbit_s: low, high_mbit_s: high, measured_s }));
        }
        let expected = format!("expected a number from {low} to {high}, found {mbit_s}");
        Err(table.wrong("expected_mbit_s", expected))
    }
}

/// Pairs of bytes and Mbit/s.
fn curve(table: &Table<'_>) -> Result<Option<Curve>, table::Error> {
    let Some(value) = table.value("curve") else { return Ok(None) };
    let points: Vec<(u64, f64)> = serde_json::from_value(value.clone())
        .map_err(|_| table.unexpected("curve", "a list of points [bytes, Mbit/s]", value))?;
    Curve::new(points).map(Some).map_err(|error| table.wrong(&error.key, error.expected))
}

/// The part that the role `paths` takes too.
fn assignment(table: &Table<'_>, pm: &str) -> Result<Assignment, table::Error> {
    let paths = table.value("paths").unwrap_or(&Value::Null);
    if paths.as_array().is_none_or(Vec::is_empty) {
        return Err(table.unexpected("paths", "a list of paths", paths));
    }
    let assignment = json!({
        "pm": pm,
        "pm_options": table.table("pm_options")?.cloned().unwrap_or_default(),
        "paths": paths,
        "transfer_bytes": table.value("transfer_bytes").unwrap_or(&Value::from(SATURATED)),
        "lsrr_honoured": table.flag("lsrr_honoured")?,
    });
    let assignment: Specification = serde_json::from_value(assignment)
        .map_err(|error| table.wrong("paths", format!("expected paths, found {error}")))?;
    assignment.checked().map_err(|error| table.wrong("pm", error.to_string()))
}

/// Seconds since 1970 of a time such as `2026-11-20T12:00:00Z`, with parts of a second or without.
fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z').or(text.strip_suffix("+00:00"))?.split_once('T')?;
    let numbers = |text: &str, mark| text.split(mark).map(|number| number.parse().ok()).collect();
    let date: Option<Vec<u64>> = numbers(date, '-');
    let time: Option<Vec<u64>> = numbers(time.split('.').next()?, ':');
    let (&[year, month, day], &[hour, minute, second]) = (&date?[..], &time?[..]) else {
        return None;
    };
    let valid = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    if !valid || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years that begin in March end with their leap day.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    let epoch = 719_468; // 1970-01-01, counted from 1 March of the year 0
    Some((((days - epoch) * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Map<String, Value> {
        let value = json!({
            "version": 1, "run": "my-sites", "site": "alice", "measured_at": "2026-11-20T12:00:00Z",
            "testbed": "hosts", "stack": "linux", "pm": "pcdc", "pm_options": {"active": [0]},
            "paths": [{"label": "A-X", "local": 0, "remote": 0, "pairs": [["10.0.1.2", "10.9.0.1"]]},
                      {"label": "B-X", "local": 1, "remote": 0, "pairs": [["10.0.2.2", "10.9.0.1"]]}],
            "congestion": "cubic", "buffer_bytes": 262144, "expected_mbit_s": 210.0,
            "expected_low_mbit_s": 200.0, "expected_high_mbit_s": 220.0, "transfer_bytes": null,
        });
        value.as_object().unwrap().clone()
    }

    fn checked(values: &Map<String, Value>) -> Result<Answer, table::Error> {
        Answer::checked(Path::new("/r"), Path::new("/r/policy.json"), values)
    }

    #[test]
    fn an_answer_is_read() {
        let answer = checked(&values()).unwrap();
        let expected = answer.expectation.unwrap();
        assert_eq!((expected.mbit_s, expected.low_mbit_s), (210.0, 200.0));
        assert_eq!((answer.pm.as_str(), answer.assignment.paths.len()), ("pcdc", 2));
        assert_eq!(expected.measured_s, Some(1_795_176_000));
        assert!(answer.curve.is_none());
        let mut values = values();
        values.insert("curve".to_owned(), json!([[65536, 20], [1_048_576, 210.5]]));
        let curve = checked(&values).unwrap().curve.unwrap();
        assert_eq!(curve.points(), [(65536, 20.0), (1_048_576, 210.5)]);
    }

    #[test]
    fn an_error_is_one_line_with_its_key() {
        for (key, value, expected) in [
            ("version", json!(2), "version: expected 1, found 2"),
            ("colour", json!(2), "colour: expected one of version, run,"),
            ("pm", Value::Null, "pm: expected text, found nothing"),
            ("pm", json!("fullmash"), "pm: path manager: pm: expected one of default"),
            (
                "pm_options",
                json!({"active": [7]}),
                "pm: path manager: active: expected a path below 2",
            ),
            ("paths", json!([]), "paths: expected a list of paths, found an empty list"),
            ("paths", json!([{"label": "A"}]), "paths: expected paths, found missing field"),
            (
                "measured_at",
                json!("yesterday"),
                "measured_at: expected 2026-11-20T12:00:00Z, found",
            ),
            (
                "expected_mbit_s",
                json!("much"),
                "expected_mbit_s: expected a number that is not negative",
            ),
            ("curve", json!("steep"), "curve: expected a list of points [bytes, Mbit/s], found"),
            ("curve", json!([[1.5, 2]]), "curve: expected a list of points [bytes, Mbit/s], found"),
            ("curve", json!([]), "curve: expected two points [bytes, Mbit/s] or more, found 0"),
            (
                "curve",
                json!([[4096, 1], [4096, 2]]),
                "curve[1]: expected a buffer above 4096 bytes, found 4096",
            ),
            ("expected_mbit_s", json!(300), "expected_mbit_s: expected a number from 200 to 220"),
        ] {
            let mut values = values();
            values.insert(key.to_owned(), value);
            let reason = checked(&values).unwrap_err().to_string();
            assert!(reason.starts_with(&format!("/r/policy.json: {expected}")), "{reason}");
            assert!(!reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn times_are_counted_from_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:01.5Z", Some(951_782_401)),
            ("2026-11-20T12:00:00+00:00", Some(1_795_176_000)),
            ("2026-13-20T12:00:00Z", None),
            ("2026-11-20 12:00", None),
            ("1969-12-31T23:59:59Z", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
