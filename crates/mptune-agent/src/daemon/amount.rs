//! Amounts with units in a configuration file: sizes and times, exact or refused.

use super::table::{self, Table};
use thiserror::Error;

/// Units in bytes, and in nanoseconds.
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];
const TIMES: [(&str, u64); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Text that is no amount.
#[derive(Debug, PartialEq, Eq, Error)]
enum Amount<'a> {
    #[error("expected a {0} (units: {1})")]
    Form(&'a str, String),
    #[error("expected a {0} in steps of {1}")]
    Finer(&'a str, &'a str),
    #[error("expected a smaller {0}")]
    Larger(&'a str),
}

/// A size in bytes, with its text; none if the key is missing. `what` is a noun with an example.
///
/// # Errors
/// It is something else.
pub fn size(
    table: &Table<'_>,
    key: &str,
    what: &str,
) -> Result<Option<(String, u64)>, table::Error> {
    of_key(table, key, &SIZES, what, "1 B")
}

/// The same of a time in nanoseconds.
///
/// # Errors
/// It is something else.
pub fn time(
    table: &Table<'_>,
    key: &str,
    what: &str,
) -> Result<Option<(String, u64)>, table::Error> {
    of_key(table, key, &TIMES, what, "1 ns")
}

fn of_key(
    table: &Table<'_>,
    key: &str,
    units: &[(&str, u64)],
    what: &str,
    finest: &str,
) -> Result<Option<(String, u64)>, table::Error> {
    let Some(text) = table.text(key)? else { return Ok(None) };
    let value = amount(text, units, what, finest);
    let value = value.map_err(|why| table.wrong(key, format!("{why}, found {text:?}")))?;
    Ok(Some((text.to_owned(), value)))
}

/// A number above 0 with one of these units, exactly; otherwise what was expected.
fn amount<'a>(
    text: &str,
    units: &[(&str, u64)],
    what: &'a str,
    finest: &'a str,
) -> Result<u64, Amount<'a>> {
    let text = text.trim();
    let end =
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, named) = (&text[..end], text[end..].trim());
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = part.trim_end_matches('0');
    let digits: Option<u128> = format!("0{whole}{part}").parse().ok();
    let unit = units.iter().find(|(unit, _)| *unit == named);
    let (Some(digits @ 1..), Some((_, unit))) = (digits, unit) else {
        let names: Vec<_> = units.iter().map(|(unit, _)| *unit).collect();
        return Err(Amount::Form(what, names.join(", ")));
    };
    let (kind, _) = what.split_once(' ').unwrap_or((what, ""));
    let scale = u32::try_from(part.len()).ok().and_then(|decimals| 10_u128.checked_pow(decimals));
    let value = digits.checked_mul(u128::from(*unit)).zip(scale);
    let Some((value, scale)) = value.filter(|(value, scale)| value % scale == 0) else {
        return Err(Amount::Finer(kind, finest));
    };
    i64::try_from(value / scale).map(i64::unsigned_abs).map_err(|_| Amount::Larger(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_exact_or_refused() {
        let size = |text| amount(text, &SIZES, "size such as 2GB", "1 B");
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("0.2500 kB"), Ok(250));
        assert_eq!(size(" 007B "), Ok(7));
        assert_eq!(size("9223372036854775807 B"), Ok(i64::MAX as u64));
        assert_eq!(size("9223372036854775808 B"), Err(Amount::Larger("size")));
        let finest = format!("0.{}1 GB", "0".repeat(60));
        for finer in ["0.5 B", "0.0000000001GB", &finest] {
            assert_eq!(size(finer), Err(Amount::Finer("size", "1 B")), "{finer}");
        }
        for wrong in ["", "2", "GB", ".GB", "0 GB", "0.0GB", "1.2.3 GB", "-1 GB", "2 gb", "1e9 B"] {
            let reason = size(wrong).unwrap_err().to_string();
            assert!(reason.starts_with("expected a size such as 2GB (units: B, "), "{reason}");
        }
    }
}
