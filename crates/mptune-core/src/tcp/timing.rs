//! Retransmission timing of a host: the clock of its timers, and the bounds of the timeout.

use super::Clock;
use crate::units::{MILLISECOND, Nanos, SECOND};

/// Timers of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Their clock.
    pub clock: Clock,
    /// Least timeout beyond the smoothed RTT (Linux `net.ipv4.tcp_rto_min_us`).
    pub rto_min: Nanos,
    /// Longest timeout, also after doublings (Linux `net.ipv4.tcp_rto_max_ms`).
    pub rto_max: Nanos,
    /// The program pauses, so that segments leave while ACKs are overdue. Those of a saturated sender leave with ACKs, each
    /// of which sets the timer anyway.
    pub pauses: bool,
}

impl Timing {
    /// Exact timers with Linux's bounds, `TCP_RTO_MIN` and `TCP_RTO_MAX`; RFC 6298 (2.5) requires at least 60 s of the
    /// longest.
    pub const EXACT: Self = Self {
        clock: Clock::EXACT,
        rto_min: 200 * MILLISECOND,
        rto_max: 120 * SECOND,
        pauses: false,
    };
}
