//! The data receiver's buffer: its room, and the window that an ACK offers.

use super::autotuning::{FIRST_RECEIVE_V0_9X, ReceiveTuning};
use super::memory::{ReceiveMemory, SubflowMemory};
use super::miscount::Miscount;
use super::modes::{Accounting, BufferMode};
use crate::mptcp::options::ConnectionOptions;
use crate::mptcp::packet::Mapping;
use crate::tcp;
use crate::units::{Bytes, Nanos, Seq};

/// A receive buffer.
#[derive(Debug)]
pub enum ReceiveBuffer {
    /// A number of segments.
    Payload(PayloadWindow),
    /// Socket memory as Linux counts it.
    Linux(Box<ReceiveMemory>),
}

/// A window in segments.
#[derive(Debug)]
pub struct PayloadWindow {
    segments: Seq,
    /// The limit, if it grows.
    most: Seq,
    full: Bytes,
    tuning: Option<Box<ReceiveTuning>>,
}

impl PayloadWindow {
    fn new(options: &ConnectionOptions) -> Self {
        let full = Bytes::from(options.full_segment());
        let most = (options.receive_buffer / full) as Seq;
        match options.buffer_mode {
            BufferMode::Fixed => Self { segments: most, most, full, tuning: None },
            BufferMode::Auto => Self {
                segments: most.min((FIRST_RECEIVE_V0_9X / full).max(1) as Seq),
                most,
                full,
                tuning: Some(Box::new(ReceiveTuning::v0_9x(full))),
            },
        }
    }

    /// The application read everything before `next`.
    fn on_read(&mut self, now: Nanos, next: Seq, rtt: Nanos) {
        let Some(tuning) = &mut self.tuning else { return };
        if let Some(window) = tuning.on_read(now, rtt, Bytes::from(next) * self.full) {
            let segments = (window / self.full).min(Bytes::from(self.most)) as Seq;
            self.segments = self.segments.max(segments);
        }
    }
}

impl ReceiveBuffer {
    /// The empty buffer of a connection.
    pub fn new(options: &ConnectionOptions) -> Self {
        let (bytes, full) = (options.receive_buffer, options.full_segment());
        match options.accounting {
            Accounting::Payload => Self::Payload(PayloadWindow::new(options)),
            Accounting::Linux(release) => {
                let rules = options.protocol.rules();
                let mut memory = rules.receive_memory(options.buffer_mode, bytes, full);
                if options.receiver_opens() {
                    memory.open_scaled();
                }
                Self::Linux(Box::new(memory.of_release(release)))
            }
        }
    }

    /// The largest window of a connection at rest, in full segments.
    pub fn segments(&self) -> Seq {
        match self {
            Self::Payload(window) => window.most,
            Self::Linux(memory) => memory.rest_segments(),
        }
    }

    /// The sender's initial window, in full segments.
    pub fn first_segments(&self) -> Seq {
        match self {
            Self::Payload(window) => window.segments,
            Self::Linux(memory) => memory.rest_segments(),
        }
    }

    /// It needs the senders' RTTs of the subflows.
    #[inline]
    pub fn needs_rtts(&self) -> bool {
        matches!(self, Self::Payload(window) if window.tuning.is_some())
    }

    /// The connection is established.
    pub fn begin(&mut self, now: Nanos) {
        if let Self::Linux(memory) = self {
            memory.begin(now);
        }
    }

    /// [`Self::on_read`] has a measurement due.
    #[inline]
    pub fn measures_on_read(&self, now: Nanos) -> bool {
        match self {
            Self::Payload(window) => window.tuning.is_some(),
            Self::Linux(memory) => memory.measures_on_read(now),
        }
    }

    /// The window that an ACK of everything before `next` offers on a subflow: its right edge in segments, or under
    /// Linux accounting its width in bytes.
    #[inline]
    pub fn offer(
        &mut self,
        now: Nanos,
        next: Seq,
        receiver: &mut tcp::Receiver<Mapping>,
        own: &mut SubflowMemory,
    ) -> u32 {
        match self {
            Self::Payload(window) => next.saturating_add(window.segments),
            Self::Linux(memory) => {
                own.on_acknowledged();
                memory.charge_subflow_queue(receiver.out_of_order_count());
                if memory.is_half_full() {
                    receiver.leave_quickack();
                }
                memory.offer(now, own)
            }
        }
    }

    /// The application reads everything before `next`. True if the memory grew, as those of the open `subflows` then do
    /// ([`Self::follow`]).
    pub fn on_read<'a>(
        &mut self,
        now: Nanos,
        next: Seq,
        subflows: impl Iterator<Item = &'a SubflowMemory>,
    ) -> bool {
        match self {
            Self::Payload(window) => {
                window.on_read(now, next, subflows.map(|subflow| subflow.rtt).max().unwrap_or(0));
                false
            }
            Self::Linux(memory) => memory.on_read(now, subflows),
        }
    }

    /// Delay after which the application has read everything that arrived in order, unless out-of-order data keeps
    /// memory in use; under Linux accounting.
    #[inline]
    pub fn read_after(&self) -> Option<Nanos> {
        if let Self::Linux(memory) = self { memory.read_after() } else { None }
    }

    /// The application's read opens a subflow's window so far that it is announced, under Linux accounting.
    #[inline]
    pub fn reopens(&self, own: &SubflowMemory) -> bool {
        if let Self::Linux(memory) = self { memory.reopens(own) } else { false }
    }

    /// The memory grew, and that of a subflow follows.
    pub fn follow(&self, subflow: &mut SubflowMemory) {
        if let Self::Linux(memory) = self {
            memory.follow(subflow);
        }
    }

    /// A subflow joined.
    pub fn join(&mut self, subflow: &mut SubflowMemory) {
        if let Self::Linux(memory) = self {
            memory.join(subflow);
        }
    }

    /// Time since which out-of-order data fills all memory, and the bytes of memory.
    pub fn overflow(&self) -> Option<(Nanos, Bytes)> {
        let Self::Linux(memory) = self else { return None };
        memory.overflowed_at.map(|at| (at, memory.limit()))
    }

    /// A contradiction with `waiting`, the payloads of out-of-order segments, and `delivered` bytes.
    pub fn miscount(
        &self,
        waiting: impl Iterator<Item = u32>,
        delivered: Bytes,
    ) -> Option<Miscount> {
        let Self::Linux(memory) = self else { return None };
        memory.miscount(waiting, delivered)
    }

    /// Times the offered window fell to zero, under Linux accounting.
    pub fn zero_windows(&self) -> u64 {
        if let Self::Linux(memory) = self { memory.zero_windows } else { 0 }
    }

    /// Segments dropped beyond the window, under Linux accounting.
    pub fn beyond_window(&self) -> u64 {
        if let Self::Linux(memory) = self { memory.beyond_window } else { 0 }
    }

    /// The first edge of the window in bytes, under Linux accounting.
    pub(super) fn edge(&self) -> Bytes {
        if let Self::Linux(memory) = self { memory.edge() } else { 0 }
    }
}
