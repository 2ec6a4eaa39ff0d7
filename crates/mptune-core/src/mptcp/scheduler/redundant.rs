//! Redundant: every subflow sends everything, whichever copy comes first counts (v0.9x kernels,
//! `net/mptcp/mptcp_redundant.c`). It buys latency and resilience with the sum of the capacities.
//!
//! Each subflow goes through the data sequence space at its own pace and skips what has been
//! acknowledged in the meantime; the connection keeps the positions.

use super::{Choice, Scheduler, Style};

/// The policy is in its style.
#[derive(Debug, Clone, Default)]
pub struct Redundant;

impl Scheduler for Redundant {
    const STYLE: Style = Style::Copy;

    fn select(&mut self, choice: Choice<'_>) -> Option<usize> {
        choice.fastest_ready()
    }
}
