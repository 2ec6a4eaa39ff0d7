//! Modes, states, and the constants that the parts of BBR share.

/// Payload of a segment for converting rates in bits.
pub const SEGMENT_BYTES: f64 = 1448.0;
/// Smallest window, segments, and that of PROBE_RTT (`bbr_cwnd_min_target`).
pub const MIN_WINDOW: f64 = 4.0;

/// The mode of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The sender's recovery state, as the hooks report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Open,
    Recovery,
    Loss,
}
