//! What a trial's keys may be.

use super::TrialSpec;
use crate::congestion::{self, Controller};
use crate::mptcp::MAX_SUBFLOWS;
use crate::network::SpecError;
use crate::pathmanager::PathId;
use crate::units::NEVER;

/// Scripted events: each may open subflows anew, and 16 bits number them.
const MAX_SCRIPT: usize = 256;

/// A name that is not in its list.
pub(super) fn unknown(key: &str, name: &str, known: &[&str]) -> SpecError {
    SpecError::new(key, format!("one of {} expected, found {name:?}", known.join(", ")))
}

/// The congestion control called `name`.
pub(super) fn controller(key: &str, name: &str) -> Result<Controller, SpecError> {
    Controller::new(name).ok_or_else(|| unknown(key, name, congestion::NAMES))
}

fn wrong(key: &str, expected: impl Into<String>) -> Result<(), SpecError> {
    Err(SpecError::new(key, expected))
}

impl TrialSpec {
    pub(super) fn check_numbers(&self) -> Result<(), SpecError> {
        if !(64..=8960).contains(&self.mss) {
            return wrong("mss", format!("64 to 8960 bytes expected, found {}", self.mss));
        }
        if self.buffer_bytes < u64::from(self.mss) {
            let found = self.buffer_bytes;
            return wrong(
                "buffer_bytes",
                format!("at least one segment of {} bytes expected, found {found}", self.mss),
            );
        }
        // A window of 2^30 segments is 1.5 TB: more than any host has, and safely within 32 bits.
        if self.buffer_bytes / u64::from(self.mss) > 1 << 30 {
            return wrong("buffer_bytes", "less than 2^30 segments expected");
        }
        self.check_span()?;
        if !(1..=MAX_SUBFLOWS).contains(&self.ndiffports) {
            let found = self.ndiffports;
            return wrong("ndiffports", format!("1 to {MAX_SUBFLOWS} expected, found {found}"));
        }
        self.check_paths()
    }

    fn check_span(&self) -> Result<(), SpecError> {
        let span = match (self.duration_ns, self.transfer_bytes) {
            (Some(duration), None) => duration,
            (None, Some(1..)) => self.deadline_ns,
            (None, Some(0)) => return wrong("transfer_bytes", "at least 1 byte expected"),
            _ => return wrong("duration_ns", "either a duration or a transfer size expected"),
        };
        if span == 0 || span >= NEVER / 2 {
            return wrong(
                "duration_ns",
                format!("more than 0 and less than 26 days expected, found {span} ns"),
            );
        }
        if self.transfer_bytes.is_some_and(|bytes| bytes / u64::from(self.mss) >= 1 << 31) {
            return wrong("transfer_bytes", "less than 2^31 segments expected");
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), SpecError> {
        let count = self.network.paths.len();
        let check = |key: &str, paths: &[PathId]| match paths.iter().find(|&&path| path >= count) {
            Some(path) => wrong(key, format!("a path below {count} expected, found {path}")),
            None => Ok(()),
        };
        check("initial_path", self.initial_path.as_slice())?;
        check("active", self.active.as_deref().unwrap_or_default())?;
        check("standby_order", &self.standby_order)?;
        if self.script.len() > MAX_SCRIPT {
            let found = self.script.len();
            return wrong(
                "script",
                format!("at most {MAX_SCRIPT} actions expected, found {found}"),
            );
        }
        let scripted: Vec<_> = self.script.iter().map(|action| action.path).collect();
        check("script", &scripted)
    }
}
