//! What the books of a connection can say that cannot be true. Each is a fault of the simulator, never of what it
//! simulates: a trial with one gives this as its reason, and no number.

/// A contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miscount {
    /// A segment leaves the receiver's out-of-order queue, which is charged less than that.
    Released,
    /// A segment next in order does not begin where the one before it ended.
    Displaced,
    /// The out-of-order queue is not charged what its segments take.
    Held,
    /// The bytes that subflows brought are not those delivered and those that wait.
    Delivered,
    /// Something is acknowledged that was not sent, or was not delivered.
    Acknowledged,
    /// More was sent than written or offered, or other bytes than those of the segments.
    Sent,
    /// A subflow's counts of what is in flight are not those of its segments.
    InFlight,
}

impl std::fmt::Display for Miscount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Released => "more receive memory was released than held",
            Self::Displaced => "a segment does not begin where the one before it ended",
            Self::Held => "the receive memory held is not that of the segments that wait",
            Self::Delivered => "the subflows did not bring what was delivered and what waits",
            Self::Acknowledged => "more was acknowledged than sent or delivered",
            Self::Sent => "more was sent than written or offered, or not what the segments carry",
            Self::InFlight => "a subflow's counts are not those of what it has in flight",
        })
    }
}
