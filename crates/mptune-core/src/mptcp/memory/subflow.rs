//! What Linux' accounting keeps for one subflow of the data receiver.

use crate::units::Bytes;

/// What of one subflow is charged and offered.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubflowMemory {
    /// Memory of segments that were received in order and cannot be moved to the connection.
    pub stuck: Bytes,
    /// Segments dropped because there was no memory.
    pub refused: u64,
    /// The window last offered (Linux `rcv_wnd`).
    pub window: Bytes,
}
