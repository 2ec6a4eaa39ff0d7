//! Why nothing arrives any more, as far as the connection can tell.

use super::Connection;
use crate::mptcp::subflow::Phase;
use crate::units::{Bytes, Nanos};

/// A connection that cannot continue by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stall {
    /// The receive memory is full of data that waits for an earlier segment, so that segment never
    /// finds memory either.
    MemoryFull {
        /// Since when.
        at: Nanos,
        /// Total bytes of memory.
        memory: Bytes,
    },
    /// There is data to send, but no subflow has been answered for long.
    Unanswered,
    /// Every subflow was closed, because its address was removed.
    Closed,
}

impl Stall {
    /// Since when, if that is not since the last progress.
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
    /// What keeps it from continuing, if anything.
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

    /// The script took every subflow out of service: nothing happens, but nothing is wrong.
    pub(super) fn is_withdrawn(&self) -> bool {
        let mut subflows = self.subflows.iter();
        !self.subflows.is_empty() && subflows.all(|one| self.driver.is_withdrawn(one.path))
    }
}
