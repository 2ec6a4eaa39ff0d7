//! The part of a packet that the network reads: no more than a router reads from an IP header.

/// The payload of a packet. Its default is carried by background traffic and must not be ECN-capable.
pub trait Carried: Copy + Default {
    /// The flow it belongs to, for queues that keep flows apart.
    fn flow(&self) -> u32;
    /// It may be marked instead of dropped (ECT, RFC 3168 section 5).
    fn is_ect(&self) -> bool;
    /// Marks it (CE).
    fn mark_ce(&mut self);
    /// It is the packet that entered the network as `entered`; marks do not matter.
    fn is(&self, entered: &Self) -> bool;
    /// It was marked (CE).
    fn is_marked(&self) -> bool;
    /// A link is about to copy it.
    fn duplicate(&mut self) {}
}
