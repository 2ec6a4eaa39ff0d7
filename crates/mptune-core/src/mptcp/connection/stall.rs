//! The causes of a stall that the connection detects.

use super::Connection;
use crate::mptcp::subflow::Phase;
use crate::units::{Bytes, Nanos};

/// A connection that cannot continue by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stall {
    /// Out-of-order data fills the receive memory, so that the missing segment finds no room.
    MemoryFull {
        /// Start of the stall.
        at: Nanos,
        /// Total bytes of memory.
        memory: Bytes,
    },
    /// Data waits, but no subflow has been answered for long.
    Unanswered,
    /// Every subflow was closed, because its address was removed.
    Closed,
}

impl Stall {
    /// Its start, if not the last progress.
    pub(super) fn since(&self) -> Option<Nanos> {
        match self {
            Self::MemoryFull { at, .. } => Some(*at),
            Self::Unanswered | Self::Closed => None,
        }
    }
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MemoryFull { memory, .. } => write!(
                f,
                "all {memory} bytes of receive memory hold data after a missing segment, which \
                 therefore finds no memory itself"
            ),
            Self::Unanswered => write!(f, "no subflow has been answered since"),
            Self::Closed => write!(f, "every subflow was closed, its address removed"),
        }
    }
}

impl Connection {
    /// The cause of a stall, if the connection cannot continue.
    pub(super) fn stall(&self) -> Option<Stall> {
        if let Some((at, memory)) = self.receiver.buffer().overflow() {
            return Some(Stall::MemoryFull { at, memory });
        }
        if self.subflows.is_empty() || self.is_withdrawn() {
            return None;
        }
        if self.subflows.iter().all(|subflow| subflow.phase == Phase::Closed) {
            return Some(Stall::Closed);
        }
        let lost = self.driver.subflows().iter().map(|subflow| subflow.is_lost());
        let mut both = self.subflows.iter().zip(lost);
        both.all(|(subflow, lost)| lost || subflow.is_unanswered()).then_some(Stall::Unanswered)
    }

    /// The script withdrew every subflow: silence is no stall.
    pub(super) fn is_withdrawn(&self) -> bool {
        let mut subflows = self.subflows.iter();
        !self.subflows.is_empty() && subflows.all(|subflow| self.driver.is_withdrawn(subflow.path))
    }
}
