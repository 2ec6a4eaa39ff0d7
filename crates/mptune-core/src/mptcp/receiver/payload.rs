//! Arrival of a segment under payload accounting: it is inside the window, and there is room for it.

use super::{DataReceiver, open};
use crate::mptcp::io::Io;
use crate::mptcp::packet::{Mapping, Segment};
use crate::mptcp::reassembly::{Arrival, Reassembly};
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::tcp::{Receiver, Reply};
use crate::units::Bytes;

/// Payload bytes of an arrival.
#[derive(Default)]
struct Brought {
    /// For the first time, in order or not.
    new: Bytes,
    /// Delivered in order, those included that waited for it.
    in_order: Bytes,
}

impl DataReceiver {
    #[inline]
    pub(super) fn on_payload(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        segment: &Segment,
    ) {
        let Subflow { receiver, series, .. } = &mut subflows[id];
        let before = self.reassembly.next();
        let mut brought = Brought::default();
        let reply = match receiver.on_next(io.now, segment.seq) {
            Some(reply) => {
                take(&mut self.reassembly, &segment.mapping, &mut brought);
                reply
            }
            None => self.take_released(io, receiver, segment, &mut brought),
        };
        if brought.new > 0 {
            series.add(io.now, brought.new);
        }
        let next = self.reassembly.next();
        if next > before {
            self.delivered.add(io.now, brought.in_order);
            if self.buffer.measures_on_read(io.now) {
                self.buffer.on_read(io.now, next, open(subflows));
            }
        }
        self.reply(io, &mut subflows[id], reply, next - before);
    }

    /// Off the fast path: the bytes of the segment and of those it releases.
    #[inline(never)]
    fn take_released(
        &mut self,
        io: &Io,
        receiver: &mut Receiver<Mapping>,
        segment: &Segment,
        brought: &mut Brought,
    ) -> Reply {
        receiver.on_segment(io.now, segment.seq, segment.mapping, |mapping| {
            take(&mut self.reassembly, &mapping, brought);
        })
    }
}

/// A segment arrived in subflow order.
#[inline]
fn take(reassembly: &mut Reassembly, mapping: &Mapping, brought: &mut Brought) {
    let length = Bytes::from(mapping.length);
    match reassembly.on_segment(mapping.data, mapping.length) {
        Arrival::Duplicate => {}
        Arrival::OutOfOrder => brought.new += length,
        Arrival::InOrder => {
            brought.new += length;
            brought.in_order += length;
            while let Some(waited) = reassembly.release() {
                brought.in_order += Bytes::from(waited);
            }
        }
    }
}
