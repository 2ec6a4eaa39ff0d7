//! What Linux' accounting keeps for one subflow of the data receiver.

use crate::units::Bytes;

/// What of one subflow is charged and offered.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubflowMemory {
    /// Memory of segments that were received in order and cannot be moved to the connection.
    pub stuck: Bytes,
    /// Segments dropped because there was no memory.
    pub refused: u64,
    /// Payload bytes received in subflow order.
    received: Bytes,
    /// The window last offered, and what had been received then (Linux `rcv_wnd`, `rcv_wup`).
    window: Bytes,
    window_at: Bytes,
}

impl SubflowMemory {
    /// A segment with so much payload was received in subflow order.
    #[inline]
    pub fn on_received(&mut self, payload: u32) {
        self.received += Bytes::from(payload);
    }

    /// What is left of the window last offered (Linux `tcp_receive_window`).
    #[inline]
    pub fn left(&self) -> Bytes {
        (self.window_at + self.window).saturating_sub(self.received)
    }

    /// The window last offered.
    #[inline]
    pub fn window(&self) -> Bytes {
        self.window
    }

    /// An acknowledgement offers that window.
    #[inline]
    pub fn offer(&mut self, window: Bytes) {
        (self.window, self.window_at) = (window, self.received);
    }
}
