//! Times of comparing a manager's beliefs with the kernel, and figures of the corrections.
//!
//! After lost events a survey is due at once, after a reload or the machine's sleep as well, and now and then
//! without any reason. The comparison itself is `manager/resync.rs`.

use crate::kernel::sys;
use serde::Serialize;

/// Time between two surveys for which there is no reason, nanoseconds.
const PERIOD_NS: u64 = 30_000_000_000;
/// The same for tests, milliseconds.
const PERIOD_VARIABLE: &str = "MPTUNE_RESYNC_MS";
/// Such surveys take no more than this fraction of a processor,
const SHARE: u64 = 1000;
/// and those after lost events no more than this one: a flood of events is not made worse.
const LOST_SHARE: u64 = 10;

/// Corrections since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Mended {
    /// Connections that were not known.
    pub connections_found: u64,
    /// Connections whose policy had not begun.
    pub connections_begun: u64,
    /// Connections that were over.
    pub connections_gone: u64,
    /// Subflows that were not known.
    pub subflows_found: u64,
    /// Subflows that were over.
    pub subflows_gone: u64,
    /// Subflows that were waited for in vain.
    pub joins_failed: u64,
    /// Subflows that were standby or active, and believed the other.
    pub roles: u64,
}

impl Mended {
    /// Their names, for people.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("connections found", self.connections_found),
            ("connections begun", self.connections_begun),
            ("connections gone", self.connections_gone),
            ("subflows found", self.subflows_found),
            ("subflows gone", self.subflows_gone),
            ("joins failed", self.joins_failed),
            ("roles", self.roles),
        ]
    }
}

/// Lost events, surveys and what they mended, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Resynced {
    /// Events that the kernel dropped.
    pub lost_events: u64,
    /// Number of times at which it began to drop some.
    pub overruns: u64,
    /// Surveys.
    pub times: u64,
    /// Processor time of the last survey and of its comparison.
    pub survey_ns: u64,
    /// Corrections.
    pub mended: Mended,
}

impl Resynced {
    /// Corrections since an earlier moment, in a sentence; none if everything was as believed.
    pub fn since(&self, before: &Self) -> Option<String> {
        let lost = self.lost_events - before.lost_events;
        let pairs = self.mended.named().into_iter().zip(before.mended.named());
        let mended = pairs.map(|((name, now), (_, then))| (name, now - then));
        let mended: Vec<_> = mended.filter(|(_, count)| *count > 0).collect();
        if self.overruns == before.overruns && mended.is_empty() {
            return None;
        }
        let words = if lost > 0 { format!("{lost} events were lost") } else { String::new() };
        let words = if words.is_empty() { "no event was lost".to_owned() } else { words };
        let mended: Vec<_> =
            mended.into_iter().map(|(name, count)| format!("{name}: {count}")).collect();
        let rest =
            if mended.is_empty() { "all is as believed".to_owned() } else { mended.join(", ") };
        Some(format!("{words}; {rest}"))
    }
}

/// Schedule of surveys.
#[derive(Debug, Default)]
pub struct Resync {
    /// Figures so far.
    pub figures: Resynced,
    /// The kernel's count of dropped events.
    dropped: u32,
    /// Events were lost since the last survey.
    pub lost: bool,
    /// One is wanted soon.
    pub asked: bool,
    /// Between two without a reason; none if there are none.
    period_ns: Option<u64>,
    /// End of the last one.
    pub ended_ns: u64,
}

impl Resync {
    /// Also without a reason.
    pub fn now_and_then() -> Self {
        let period_ms = std::env::var(PERIOD_VARIABLE).ok().and_then(|text| text.parse().ok());
        let period_ns = period_ms.map_or(PERIOD_NS, |ms: u64| ms.saturating_mul(1_000_000));
        Self { period_ns: Some(period_ns), ended_ns: sys::monotonic_ns(), ..Self::default() }
    }

    /// The kernel has dropped events; it has dropped so many by now.
    pub fn on_lost(&mut self, dropped: u32) {
        self.lost = true;
        self.figures.overruns += 1;
        self.figures.lost_events += u64::from(dropped.wrapping_sub(self.dropped));
        self.dropped = dropped;
    }

    /// A survey is wanted.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Time of the next one; none means never.
    pub fn at_ns(&self) -> Option<u64> {
        let after = |share: u64| self.ended_ns + self.figures.survey_ns * share;
        match (self.lost || self.asked, self.period_ns) {
            (true, _) => Some(after(LOST_SHARE)),
            (false, Some(period_ns)) => Some(after(SHARE).max(self.ended_ns + period_ns)),
            (false, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn after_a_survey_of(survey_ns: u64, period_ns: Option<u64>) -> Resync {
        let figures = Resynced { survey_ns, ..Resynced::default() };
        Resync { figures, period_ns, ended_ns: 100 * SECOND, ..Resync::default() }
    }

    #[test]
    fn a_survey_comes_now_and_then_and_costs_little_however_many_connections_there_are() {
        let at = |survey_ns| after_a_survey_of(survey_ns, Some(PERIOD_NS)).at_ns();
        assert_eq!(at(1_000_000), Some(130 * SECOND));
        assert_eq!(at(200_000_000), Some(300 * SECOND));
        assert_eq!(after_a_survey_of(1_000_000, None).at_ns(), None);
    }

    #[test]
    fn after_lost_events_it_comes_at_once_unless_the_last_one_has_just_been() {
        let mut resync = after_a_survey_of(20_000_000, None);
        resync.on_lost(7);
        assert_eq!(resync.at_ns(), Some(100 * SECOND + SECOND / 5));
        resync.on_lost(9);
        assert_eq!((resync.figures.overruns, resync.figures.lost_events), (2, 9));
        resync.on_lost(3); // the kernel's count began again
        assert_eq!(resync.figures.lost_events, (1 << 32) + 3);
    }

    #[test]
    fn repairs_are_reported_in_a_sentence() {
        let before = Resynced::default();
        assert_eq!(Resynced { times: 3, ..before }.since(&before), None);
        let mut now = Resynced { lost_events: 12, overruns: 1, ..before };
        assert_eq!(now.since(&before).unwrap(), "12 events were lost; all is as believed");
        now.mended.connections_begun = 3;
        now.mended.roles = 1;
        let words = "12 events were lost; connections begun: 3, roles: 1";
        assert_eq!(now.since(&before).unwrap(), words);
        assert_eq!(now.since(&now), None);
    }
}
