//! A segment arrives under payload accounting: it is inside the window, and there is room for it.

use super::{DataReceiver, open};
use crate::mptcp::accounting::SendBuffer;
use crate::mptcp::io::Io;
use crate::mptcp::packet::Packet;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::Bytes;

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
        let subflow = &mut subflows[id];
        let before = self.reassembly.next();
        let last = sent.end() - 1;
        let (mut first_delivered, mut with_last) = (0_u32, false);
        let reassembly = &mut self.reassembly;
        let reply = subflow.receiver.on_segment(io.now, packet.seq, packet.data, |data| {
            if reassembly.on_segment(data).is_some() {
                first_delivered += 1;
                with_last |= data == last;
            }
        });
        if first_delivered > 0 {
            let lacks = if with_last { sent.last_lacks() } else { 0 };
            let bytes = Bytes::from(first_delivered) * Bytes::from(sent.full());
            subflow.series.add(io.now, bytes - Bytes::from(lacks));
        }
        let next = self.reassembly.next();
        if next > before {
            self.delivered.add(io.now, sent.payload(before, next), next == sent.end());
            if self.buffer.heeds_reads() {
                self.buffer.on_read(io.now, next, open(subflows));
            }
        }
        self.reply(io, &mut subflows[id], reply, next - before);
    }
}
