//! Contradictions in the accounts of a connection. Each is a fault of the simulator: the trial fails with it as its
//! reason, and gives no number.

/// A contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miscount {
    /// A segment leaves the receiver's out-of-order queue, which is charged less than the segment.
    Released,
    /// An in-order segment does not begin at the end of its predecessor.
    Displaced,
    /// The charge of the out-of-order queue is not that of its segments.
    OutOfOrder,
    /// The bytes from subflows are not those delivered plus those out of order.
    Delivered,
    /// Data is acknowledged that was not sent, or not delivered.
    Acknowledged,
    /// More bytes were sent than written or offered, or others than those of the segments.
    Sent,
    /// A subflow's counts in flight are not those of its segments.
    InFlight,
}

impl std::fmt::Display for Miscount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Released => "more receive memory was released than held",
            Self::Displaced => "a segment does not begin where the one before it ended",
            Self::OutOfOrder => "the receive memory held is not that of the segments that wait",
            Self::Delivered => "the subflows did not bring what was delivered and what waits",
            Self::Acknowledged => "more was acknowledged than sent or delivered",
            Self::Sent => "more was sent than written or offered, or not what the segments carry",
            Self::InFlight => "a subflow's counts are not those of what it has in flight",
        })
    }
}
