//! The counters of a link.

/// The counters of a link. Every packet that entered is in exactly one of `forwarded`, `dropped`,
/// `lost`, `stuck` or an active queue; copies made on the way also count in `forwarded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets that left towards the next hop, or left the network if they were background traffic.
    pub forwarded: u64,
    /// Packets dropped by a full queue or by its management.
    pub dropped: u64,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets marked instead of dropped (ECN).
    pub marked: u64,
    /// Copies made on the wire.
    pub duplicated: u64,
    /// Packets that wait forever, because the rate fell to zero and stays there.
    pub stuck: u64,
    /// Packets of background traffic that entered.
    pub background: u64,
}
