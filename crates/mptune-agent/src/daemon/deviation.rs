//! Comparison of throughput with its prediction: a path that is no longer what was measured.
//!
//! Only informative time counts: saturated time, in which the network was the limit and not a program
//! (`figures` decides that). The last hour is cut into parts; a part counts if enough of it was
//! saturated. The answer is outdated once nearly all parts that count lie outside what it predicts, and good
//! again once most of them lie inside: in between nothing changes, so that nothing is reported twice.

use super::answer::Expectation;
use std::collections::VecDeque;

/// Length of the window, nanoseconds.
const WINDOW_NS: u64 = 3_600_000_000_000;
/// Milliseconds instead of it, for tests.
const VARIABLE: &str = "MPTUNE_NOTICE_WINDOW_MS";
/// Parts of the time that is looked back.
pub const PARTS: u64 = 30;
/// A part counts from so much saturated time on, as a share of it.
const SATURATED: f64 = 0.25;
/// At least this many parts have to count.
const ENOUGH: usize = 10;
/// Outdated from this share of parts outside on, and good again up to that one.
const OUTDATED: f64 = 0.9;
const AS_MEASURED: f64 = 0.5;

/// The time that is looked back.
pub fn window_ns() -> u64 {
    let given = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<u64>().ok());
    given.map_or(WINDOW_NS, |ms| (ms * 1_000_000).max(PARTS))
}

#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    saturated_ns: u64,
    bytes: u64,
}

impl Part {
    fn mbit_s(&self) -> f64 {
        self.bytes as f64 * 8000.0 / self.saturated_ns as f64
    }
}

/// Observations of one policy.
#[derive(Debug, Clone)]
pub struct Deviation {
    expectation: Expectation,
    part_ns: u64,
    /// The number of the part in which it began.
    began: Option<u64>,
    parts: VecDeque<Part>,
    outdated: bool,
}

/// The throughput of most saturated time, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// A quarter of it was below.
    pub low_mbit_s: f64,
    /// A quarter of it was above.
    pub high_mbit_s: f64,
}

impl Deviation {
    /// Nothing seen yet.
    pub fn new(expectation: Expectation, window_ns: u64) -> Self {
        let (part_ns, parts) = (window_ns / PARTS, VecDeque::new());
        Self { expectation, part_ns, began: None, parts, outdated: false }
    }

    /// The prediction.
    pub fn expectation(&self) -> &Expectation {
        &self.expectation
    }

    /// An interval that ended now was saturated, and this many bytes were acknowledged in it.
    pub fn note(&mut self, now_ns: u64, interval_ns: u64, bytes: u64) {
        let number = now_ns / self.part_ns;
        self.began = self.began.or(Some(number));
        match self.parts.back_mut().filter(|part| part.number == number) {
            Some(part) => {
                part.saturated_ns += interval_ns;
                part.bytes += bytes;
            }
            None => self.parts.push_back(Part { number, saturated_ns: interval_ns, bytes }),
        }
    }

    /// Judges the window that ends at `now_ns`; true if the answer has become outdated, false if it holds again.
    pub fn judge(&mut self, now_ns: u64) -> Option<bool> {
        let now = now_ns / self.part_ns;
        self.parts.retain(|part| part.number + PARTS > now);
        let long_enough = self.began.is_some_and(|began| began + PARTS <= now + 1);
        let all = self.rates();
        if !long_enough || all.len() < ENOUGH {
            return None;
        }
        let Expectation { low_mbit_s: low, high_mbit_s: high, .. } = self.expectation;
        let outside = all.iter().filter(|&&rate| rate < low || rate > high).count();
        let share = outside as f64 / all.len() as f64;
        let outdated = if self.outdated { share > AS_MEASURED } else { share >= OUTDATED };
        (std::mem::replace(&mut self.outdated, outdated) != outdated).then_some(outdated)
    }

    /// The answer is outdated.
    pub fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Recent throughput; none if too few parts count.
    pub fn seen(&self) -> Option<Seen> {
        let mut rates = self.rates();
        rates.sort_by(f64::total_cmp);
        let last = rates.len().checked_sub(1)?;
        Some(Seen { low_mbit_s: rates[last / 4], high_mbit_s: rates[last - last / 4] })
    }

    /// The reason for an outdated answer, in words; `now_s` counts from 1970.
    pub fn words(&self, now_s: u64) -> String {
        let Expectation { mbit_s, low_mbit_s, high_mbit_s, measured_s } = self.expectation;
        let age = measured_s.map(|then| format!(" of {}", age(now_s.saturating_sub(then))));
        let seen = self.seen().map_or_else(String::new, |seen| {
            let (low, high) = (seen.low_mbit_s, seen.high_mbit_s);
            format!("seen {} to {} for {}", short(low), short(high), self.window())
        });
        format!(
            "the answer{} predicts {} Mbit/s ({} to {}), {seen}: measure again",
            age.unwrap_or_default(),
            short(mbit_s),
            short(low_mbit_s),
            short(high_mbit_s),
        )
    }

    fn window(&self) -> String {
        let seconds = self.part_ns * PARTS / 1_000_000_000;
        if seconds == 3600 { "an hour".to_owned() } else { format!("{seconds} s") }
    }

    /// Of the parts that count; the one that goes on counts as soon as it has enough.
    fn rates(&self) -> Vec<f64> {
        let enough_ns = (self.part_ns as f64 * SATURATED).max(1.0) as u64;
        let counts = self.parts.iter().filter(|part| part.saturated_ns >= enough_ns);
        counts.map(Part::mbit_s).collect()
    }
}

/// Three digits are enough.
fn short(number: f64) -> String {
    if number >= 100.0 {
        format!("{number:.0}")
    } else if number >= 10.0 {
        format!("{:.1}", number).trim_end_matches(".0").to_owned()
    } else {
        format!("{number:.2}")
    }
}

/// "3 days ago", for people.
fn age(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let unit = units.into_iter().find(|&(length, _)| seconds >= length);
    match unit.map(|(length, name)| (seconds / length, name)) {
        Some((1, name)) => format!("1 {name} ago"),
        Some((count, name)) => format!("{count} {name}s ago"),
        None => "just now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expectation =
        Expectation { mbit_s: 210.0, low_mbit_s: 200.0, high_mbit_s: 220.0, measured_s: Some(0) };
    const SECOND: u64 = 1_000_000_000;

    fn bytes(mbit_s: f64) -> u64 {
        (mbit_s * 1e6 / 8.0) as u64
    }

    /// Seconds of saturated time at a rate; what changed on the way.
    fn after(deviation: &mut Deviation, from_s: u64, to_s: u64, mbit_s: f64) -> Vec<bool> {
        let mut changes = Vec::new();
        for second in from_s..to_s {
            deviation.note(second * SECOND, SECOND, bytes(mbit_s));
            changes.extend(deviation.judge(second * SECOND));
        }
        changes
    }

    #[test]
    fn a_network_that_gives_less_for_an_hour_is_reported_once() {
        let mut deviation = Deviation::new(EXPECTED, WINDOW_NS);
        assert!(after(&mut deviation, 1_000_000, 1_003_300, 145.0).is_empty());
        assert_eq!(after(&mut deviation, 1_003_300, 1_010_000, 145.0), [true]);
        let words = "the answer of 3 days ago predicts 210 Mbit/s (200 to 220), seen 145 to 145 for an hour: \
            measure again";
        assert_eq!(deviation.words(3 * 86_400 + 5), words);
        // Half of the hour has to be as measured before it is good again.
        assert!(after(&mut deviation, 1_010_000, 1_011_000, 210.0).is_empty());
        assert!(deviation.is_outdated());
        assert_eq!(after(&mut deviation, 1_011_000, 1_020_000, 210.0), [false]);
    }

    #[test]
    fn changes_that_come_and_go_are_not_reported() {
        let mut deviation = Deviation::new(EXPECTED, WINDOW_NS);
        let mut changes = Vec::new();
        for half in 0..20 {
            let rate = if half % 2 == 0 { 145.0 } else { 210.0 };
            changes.extend(after(&mut deviation, 1800 * half, 1800 * (half + 1), rate));
        }
        assert!(changes.is_empty());
        assert!(after(&mut deviation, 36_000, 50_000, 210.0).is_empty());
    }

    #[test]
    fn more_than_predicted_is_another_network_too() {
        let mut deviation = Deviation::new(EXPECTED, WINDOW_NS);
        assert_eq!(after(&mut deviation, 0, 4000, 400.0), [true]);
    }

    #[test]
    fn little_saturated_time_is_no_evidence() {
        let mut deviation = Deviation::new(EXPECTED, WINDOW_NS);
        for minute in 0..600 {
            // 20 s in 120: less than a quarter of a part.
            let at = minute * 60 * SECOND;
            if minute % 2 == 0 {
                deviation.note(at, 20 * SECOND, bytes(20.0 * 100.0));
            }
            assert_eq!(deviation.judge(at), None);
        }
        assert_eq!(deviation.seen(), None);
    }

    #[test]
    fn what_was_seen_is_forgotten_after_an_hour() {
        let mut deviation = Deviation::new(EXPECTED, WINDOW_NS);
        after(&mut deviation, 0, 4000, 145.0);
        assert!(deviation.is_outdated());
        assert_eq!(deviation.judge(8000 * SECOND), None);
        assert!(deviation.seen().is_none() && deviation.is_outdated());
        assert!(deviation.parts.is_empty());
    }

    #[test]
    fn ages_and_rates_are_short() {
        let ages =
            [(5, "just now"), (90, "1 minute ago"), (7300, "2 hours ago"), (259_300, "3 days ago")];
        for (seconds, expected) in ages {
            assert_eq!(age(seconds), expected);
        }
        assert_eq!(
            [short(3.456), short(20.0), short(20.26), short(209.6)],
            ["3.46", "20", "20.3", "210"]
        );
    }
}
