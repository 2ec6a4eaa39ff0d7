//! `[remeasure]` of the policy file: when and how measurements may be repeated. Python repeats them.

use super::amount;
use super::table::{self, Table};
use serde_json::{Map, Value};
use std::path::Path;

/// Time on the network by default.
const BUDGET_NS: u64 = 600_000_000_000;

/// Permission to repeat measurements, which Python does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remeasure {
    /// Hours of the day, as in the file.
    pub hours: String,
    /// Most data, as in the file.
    pub max_data: Option<String>,
    /// Most time on the network, as in the file.
    pub budget: Option<String>,
    /// The hours' ends in minutes of the day.
    pub ends: [u32; 2],
    /// Most data of a night, bytes; none for no limit.
    pub max_data_bytes: Option<u64>,
    /// Most time on the network for one policy, nanoseconds.
    pub budget_ns: u64,
}

impl Remeasure {
    /// Reads the table.
    ///
    /// # Errors
    /// The first key whose value is wrong.
    pub fn read(file: &Path, values: &Map<String, Value>) -> Result<Self, table::Error> {
        let table = Table::new(file, "remeasure", values, &["hours", "max_data", "budget"])?;
        let hours = table.needed("hours")?;
        let ends = hours.split_once('-').map(|(from, to)| (minute(from), minute(to)));
        let Some((Some(from), Some(to))) = ends.filter(|(from, to)| from != to) else {
            let expected =
                format!("expected hours of the day such as 02:00-05:00, found {hours:?}");
            return Err(table.wrong("hours", expected));
        };
        let max_data = amount::size(&table, "max_data", "size such as 2GB")?;
        let budget = amount::time(&table, "budget", "time such as 10min")?;
        let (max_data, max_data_bytes) = max_data.unzip();
        let (budget, ns) = budget.unzip();
        let (hours, budget_ns) = (hours.to_owned(), ns.unwrap_or(BUDGET_NS));
        Ok(Self { hours, max_data, budget, ends: [from, to], max_data_bytes, budget_ns })
    }
}

/// The minute of the day of `02:30`.
fn minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str, below| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|&number: &u32| digits && number < below)
    };
    Some(number(hour, 24)? * 60 + number(minute, 60)?)
}
