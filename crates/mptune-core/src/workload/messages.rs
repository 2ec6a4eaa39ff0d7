//! A message of a fixed size at fixed times, as calls and games send them: measured by the delay of each.

use super::{Kind, Schedule, span};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;

/// Most messages of a trial: their delays are all kept.
const MOST: u64 = 1_000_000;

/// A series of messages, or one in each direction. The first is due when the connection is established at the sender, the next one interval
/// later and so on, whether those before it were delivered or not: one that finds no room in the send buffer waits for it,
/// and its delay counts from when it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Payload of a message.
    pub bytes: Bytes,
    /// Time from one to the next.
    pub interval_ns: Nanos,
    /// Messages are due for this long.
    pub duration_ns: Nanos,
    /// Time after `duration_ns` within which the last is to arrive.
    pub patience_ns: Nanos,
    /// The receiver of the data sends the same to the sender, from when the connection is established there.
    #[serde(default)]
    pub both_ways: bool,
}

impl Messages {
    /// Number of messages.
    pub fn count(&self) -> u64 {
        self.duration_ns.div_ceil(self.interval_ns)
    }
}

impl Kind for Messages {
    fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    fn length(&self) -> Option<Bytes> {
        Some(self.count() * self.bytes)
    }

    fn both_ways(&self) -> bool {
        self.both_ways
    }

    fn schedule(&self) -> Option<Schedule> {
        Some(Schedule::Regular {
            bytes: self.bytes,
            interval: self.interval_ns,
            count: self.count(),
        })
    }

    /// There are to be less than 2^31 segments.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        if self.bytes == 0 {
            return Err(SpecError::new("bytes", "expected at least 1 byte"));
        }
        span::check("duration_ns", self.duration_ns)?;
        span::check("interval_ns", self.interval_ns)?;
        span::check("patience_ns", self.patience_ns)?;
        let count = self.count();
        if count > MOST {
            let expected = format!("expected at most {MOST} messages, found {count}");
            return Err(SpecError::new("interval_ns", expected));
        }
        let segments = self.bytes.div_ceil(u64::from(segment)).saturating_mul(count);
        if segments >= 1 << 31 {
            return Err(SpecError::new("bytes", "expected less than 2^31 segments in all"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{MILLISECOND, SECOND};

    const MESSAGES: Messages = Messages {
        bytes: 200,
        interval_ns: 100 * MILLISECOND,
        duration_ns: SECOND,
        patience_ns: SECOND,
        both_ways: false,
    };

    #[test]
    fn messages_are_due_for_the_duration() {
        assert_eq!((MESSAGES.length(), MESSAGES.limit()), (Some(2_000), 2 * SECOND));
        let longer = Messages { duration_ns: SECOND + 1, ..MESSAGES };
        let schedule = longer.schedule().expect("messages");
        assert_eq!((schedule.count(), schedule.due(10)), (11, SECOND));
    }

    #[test]
    fn what_no_trial_can_hold_is_refused() {
        let key = |messages: Messages| messages.validate(1448).map_err(|error| error.key);
        assert_eq!(key(MESSAGES), Ok(()));
        assert_eq!(key(Messages { bytes: 0, ..MESSAGES }), Err("bytes".into()));
        assert_eq!(key(Messages { bytes: 1 << 60, ..MESSAGES }), Err("bytes".into()));
        for (wrong, name) in [
            (Messages { interval_ns: 0, ..MESSAGES }, "interval_ns"),
            (Messages { interval_ns: 999, ..MESSAGES }, "interval_ns"),
            (Messages { duration_ns: 0, ..MESSAGES }, "duration_ns"),
            (Messages { patience_ns: 0, ..MESSAGES }, "patience_ns"),
        ] {
            assert_eq!(key(wrong), Err(name.into()));
        }
    }
}
