//! A segment arrives under payload accounting: it is inside the window, and there is room for it.

use super::{DataReceiver, open};
use crate::mptcp::accounting::SendBuffer;
use crate::mptcp::io::Io;
use crate::mptcp::packet::Packet;
use crate::mptcp::reassembly::Reassembly;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::tcp::{Receiver, Reply};
use crate::units::{Bytes, Seq};

impl DataReceiver {
    #[inline]
    pub(super) fn on_payload(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        packet: &Packet,
        sent: &SendBuffer,
    ) {
        let Subflow { receiver, series, .. } = &mut subflows[id];
        let before = self.reassembly.next();
        let (reply, bytes) = match receiver.on_next(io.now, packet.seq) {
            Some(reply) => (reply, take(&mut self.reassembly, packet.data, sent)),
            None => self.take_released(io, receiver, packet, sent),
        };
        if bytes > 0 {
            series.add(io.now, bytes);
        }
        let next = self.reassembly.next();
        if next > before {
            self.delivered.add(io.now, sent.payload(before, next), next == sent.end());
            if self.buffer.heeds_read(io.now) {
                self.buffer.on_read(io.now, next, open(subflows));
            }
        }
        self.reply(io, &mut subflows[id], reply, next - before);
    }

    /// The subflow holds segments, or the segment comes out of order: the payload bytes that it and those it
    /// releases are the first to bring.
    #[inline(never)]
    fn take_released(
        &mut self,
        io: &Io,
        receiver: &mut Receiver,
        packet: &Packet,
        sent: &SendBuffer,
    ) -> (Reply, Bytes) {
        let mut bytes = 0;
        let reply = receiver.on_segment(io.now, packet.seq, packet.data, |data| {
            bytes += take(&mut self.reassembly, data, sent);
        });
        (reply, bytes)
    }
}

/// A segment arrived in subflow order: its payload bytes, 0 if it had arrived before.
#[inline]
fn take(reassembly: &mut Reassembly, data: Seq, sent: &SendBuffer) -> Bytes {
    if reassembly.on_segment(data).is_none() {
        return 0;
    }
    let lacks = if data == sent.end() - 1 { sent.last_lacks() } else { 0 };
    Bytes::from(sent.full() - lacks)
}
