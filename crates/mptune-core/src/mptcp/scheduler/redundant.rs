//! Redundant: every subflow sends everything, and the first copy to arrive counts (v0.9x kernels,
//! `net/mptcp/mptcp_redundant.c`). It gives up the sum of the capacities for latency and resilience.
//!
//! Each subflow goes through the data sequence space at its own pace and skips what has been
//! acknowledged in the meantime; the connection keeps the positions.

use super::{Candidates, Scheduler, Style};

/// The whole policy is its style.
#[derive(Debug, Clone, Default)]
pub struct Redundant;

impl Scheduler for Redundant {
    const STYLE: Style = Style::Copy;

    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        candidates.fastest_ready()
    }
}
