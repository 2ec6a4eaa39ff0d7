//! The verdict of a queue that judges packets on arrival.

/// What a queue does with an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    Mark,
    Drop,
}

impl Verdict {
    /// Signal congestion to a packet: by a mark if possible.
    pub fn signal(markable: bool) -> Self {
        if markable { Self::Mark } else { Self::Drop }
    }
}
