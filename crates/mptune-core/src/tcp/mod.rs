//! One TCP subflow: RTT estimation, the receiver's acknowledgements, the sender's loss recovery.
//!
//! Sequence numbers count segments, not bytes. Sender and receiver are state machines without clock or network: the
//! time is an argument, and they return the segments to send. Not here: the data and buffers that subflows share
//! (`mptcp`).

mod clock;
pub mod pacing;
mod prr;
mod rate;
mod receiver;
mod rtt;
mod sender;
mod timing;

pub use clock::Clock;
pub use prr::Prr;
pub use receiver::{Receiver, Reply};
pub use rtt::RttEstimator;
pub use sender::{Progress, Sender, SenderCounters, TimerAction};
pub use timing::Timing;

use crate::units::Seq;

/// SACK blocks an ACK can carry: TCP options have 40 bytes, timestamps take 12 (RFC 7323) and the
/// DSS option with a 64-bit DATA_ACK 12 (RFC 8684 section 3.3), so one block fits; two do with a
/// 32-bit DATA_ACK, which is what Linux sends while the upper half does not change.
pub const SACK_BLOCKS: usize = 2;

/// Selective acknowledgement: half-open ranges, the most recently changed first (RFC 2018 section
/// 4); empty ones are absent.
pub type SackBlocks = [(Seq, Seq); SACK_BLOCKS];

/// A subflow-level acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acknowledgement {
    /// Next segment expected.
    pub next: Seq,
    /// Segments received above it.
    pub sack: SackBlocks,
    /// The segment that triggered this ACK had been received before (D-SACK, RFC 2883).
    pub duplicate: bool,
    /// A congestion mark is echoed (ECE, RFC 3168 section 6.1).
    pub ecn_echo: bool,
    /// The timestamp that it echoes is that of a first copy, not of a retransmission (RFC 7323 section 4.3).
    pub original: bool,
}
