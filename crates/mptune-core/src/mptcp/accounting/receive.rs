//! The data receiver's buffer: what fits, and the window that an acknowledgement offers.

use super::choice::Accounting;
use super::memory::{ReceiveMemory, SubflowMemory};
use crate::mptcp::options::ConnectionOptions;
use crate::tcp;
use crate::units::{Bytes, Nanos, Seq};

/// A receive buffer.
#[derive(Debug)]
pub enum ReceiveBuffer {
    /// A number of segments.
    Payload(Seq),
    /// Socket memory as Linux counts it.
    Linux(Box<ReceiveMemory>),
}

impl ReceiveBuffer {
    /// The empty buffer of a connection.
    pub fn new(options: &ConnectionOptions) -> Self {
        let (bytes, full) = (options.receive_buffer, options.full_segment());
        match options.accounting {
            Accounting::Payload => Self::Payload((bytes / Bytes::from(full)) as Seq),
            Accounting::Linux if options.is_tcp() => {
                Self::Linux(Box::new(ReceiveMemory::of_tcp(bytes, full)))
            }
            Accounting::Linux => Self::Linux(Box::new(ReceiveMemory::new(bytes, full))),
        }
    }

    /// The window of a connection at rest, in full segments.
    pub fn segments(&self) -> Seq {
        match self {
            Self::Payload(window) => *window,
            Self::Linux(memory) => memory.rest_segments(),
        }
    }

    /// The window that an acknowledgement of everything before `next` offers on a subflow: its right
    /// edge in segments, or under Linux accounting its width in bytes.
    #[inline]
    pub fn offer(
        &mut self,
        now: Nanos,
        next: Seq,
        receiver: &mut tcp::Receiver,
        own: &mut SubflowMemory,
    ) -> u32 {
        match self {
            Self::Payload(window) => next.saturating_add(*window),
            Self::Linux(memory) => {
                own.compression.on_acknowledged();
                memory.charge_queue(receiver.holding());
                if memory.is_half_full() {
                    receiver.be_slow();
                }
                memory.offer(now, own)
            }
        }
    }

    /// The application reads what is in order; `subflows` are those that are open.
    pub fn on_read<'a>(&mut self, subflows: impl Iterator<Item = &'a SubflowMemory>) {
        if let Self::Linux(memory) = self {
            memory.on_read(subflows);
        }
    }

    /// Since when all memory has held data that waits for an earlier segment, if so, and how much.
    pub fn overflow(&self) -> Option<(Nanos, Bytes)> {
        let Self::Linux(memory) = self else { return None };
        memory.overflowed_at.map(|at| (at, memory.limit()))
    }

    /// Times the offered window fell to zero, under Linux accounting.
    pub fn zero_windows(&self) -> u64 {
        if let Self::Linux(memory) = self { memory.zero_windows } else { 0 }
    }

    /// Segments dropped because they were beyond the window, under Linux accounting.
    pub fn beyond_window(&self) -> u64 {
        if let Self::Linux(memory) = self { memory.beyond_window } else { 0 }
    }

    /// The first edge of the window in bytes, under Linux accounting.
    pub(super) fn edge(&self) -> Bytes {
        if let Self::Linux(memory) = self { memory.edge() } else { 0 }
    }
}
