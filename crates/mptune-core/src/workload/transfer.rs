//! A transfer of a given size, measured to its last byte in order.

use super::{Kind, span};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::Deserialize;

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Its payload.
    pub bytes: Bytes,
    /// Time limit.
    pub deadline_ns: Nanos,
}

impl Kind for Transfer {
    /// There are to be less than 2^31 segments.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        if self.bytes == 0 {
            return Err(SpecError::new("bytes", "expected at least 1 byte"));
        }
        span::check("deadline_ns", self.deadline_ns)?;
        if self.bytes / u64::from(segment) >= 1 << 31 {
            return Err(SpecError::new("bytes", "expected less than 2^31 segments"));
        }
        Ok(())
    }

    fn limit(&self) -> Nanos {
        self.deadline_ns
    }

    fn length(&self) -> Option<Bytes> {
        Some(self.bytes)
    }
}
