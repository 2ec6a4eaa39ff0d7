//! A reduction of cwnd that may prove spurious.

use crate::congestion::Window;

/// The state that an undo restores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    pub(super) window: Window,
    /// Retransmissions since the reduction, less those reported as duplicates.
    pub(super) unexplained: u32,
    pub(super) retransmitted: bool,
}

impl Undo {
    pub(super) fn new(window: Window) -> Self {
        Self { window, unexplained: 0, retransmitted: false }
    }

    pub(super) fn note_retransmission(&mut self) {
        self.unexplained += 1;
        self.retransmitted = true;
    }
}
