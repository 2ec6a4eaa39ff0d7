//! Why nothing arrives any more, as far as the connection can tell.

use super::Connection;
use crate::mptcp::subflow::Phase;
use crate::units::{Bytes, Nanos};

/// A connection that does not go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// The receive memory is full of data that waits for an earlier segment, so that this segment finds
    /// no memory either: for ever.
    MemoryFull {
        /// Since when.
        at: Nanos,
        /// Bytes of memory there are.
        memory: Bytes,
    },
    /// There is data to send, and no subflow has been answered for long.
    Unanswered,
    /// Every subflow was closed, because its address was removed.
    Closed,
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
    /// What keeps it from going on, if anything does.
    pub fn stall(&self) -> Option<Stall> {
        if let Some(memory) = &self.memory {
            let memory = &memory.receiver;
            if let Some(at) = memory.overflowed_at {
                return Some(Stall::MemoryFull { at, memory: memory.limit() });
            }
        }
        if self.subflows.is_empty() || self.is_withdrawn() {
            return None;
        }
        if self.subflows.iter().all(|subflow| subflow.phase == Phase::Closed) {
            return Some(Stall::Closed);
        }
        self.subflows.iter().all(|subflow| subflow.is_silent()).then_some(Stall::Unanswered)
    }

    /// The script took every subflow out of service: nothing happens, and nothing is wrong.
    pub fn is_withdrawn(&self) -> bool {
        !self.subflows.is_empty() && self.subflows.iter().all(|subflow| subflow.withdrawn)
    }
}
