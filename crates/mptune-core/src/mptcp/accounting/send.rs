//! The data sender's buffer: segments to send, their lengths, and the limit set by the buffers of both ends.

use super::autotuning::SendTuning;
use super::memory::{Extent, SendMemory, fixed_limit};
use super::miscount::Miscount;
use super::modes::{Accounting, BufferMode};
use super::pieces::Pieces;
use super::receive::ReceiveBuffer;
use super::send_window::SendWindow;
use crate::mptcp::options::ConnectionOptions;
use crate::mptcp::packet::{Ack, Mapping};
use crate::mptcp::send_queue::packet_segments;
use crate::pathmanager::{SubflowId, TransferSize};
use crate::units::{Bytes, Seq};

/// The growth of the buffer, if it grows.
fn tuning(options: &ConnectionOptions) -> Option<Box<SendTuning>> {
    let limit = options.send_buffer.min(i32::MAX as Bytes);
    let windows = options.controller.buffered_windows();
    (options.buffer_mode == BufferMode::Auto).then(|| {
        Box::new(match options.accounting {
            Accounting::Payload => SendTuning::limited(limit, windows),
            Accounting::Linux(_) => options.protocol.rules().send_tuning(limit, windows),
        })
    })
}

/// The data sequence space as the sender sees it, in segments.
#[derive(Debug)]
pub struct SendBuffer {
    /// Payload bytes of a full segment, and the bytes that the last falls short.
    full: u32,
    last_lacks: u32,
    /// SND.UNA and SND.NXT (RFC 9293 section 3.3.1) of the data sequence space: the first segment that is not
    /// DATA_ACKed, and the next to be handed to a subflow.
    una: Seq,
    next: Seq,
    /// The first segment beyond the receiver's window.
    window_edge: Seq,
    /// Segments that fit; under Linux accounting see `memory`.
    window: Seq,
    /// Segments that the program has offered, as far as known: of a transfer all. Those before `regular_until` are full.
    end: Seq,
    regular_until: Seq,
    /// The pieces in which the program offers its data, if it does so.
    pieces: Option<Pieces>,
    /// The edge of the window may cut a segment (see [`SendMemory::segments`]).
    cut: bool,
    memory: Option<Box<SendMemory>>,
    /// The window of the SYN/ACK, bytes.
    first_window: u32,
    /// Its growth, if it grows.
    tuning: Option<Box<SendTuning>>,
    /// The first contradiction.
    miscount: Option<Miscount>,
}

impl SendBuffer {
    /// The empty buffer of a connection; `cut` as in [`SendMemory::segments`].
    pub fn new(options: &ConnectionOptions, receiver: &ReceiveBuffer, cut: bool) -> Self {
        let full = options.full_segment();
        let mut buffer = Self {
            full,
            last_lacks: 0,
            una: 0,
            next: 0,
            window_edge: receiver.first_segments(),
            window: Seq::MAX,
            // Under Linux accounting segments are counted as they are made.
            end: Seq::MAX,
            regular_until: 0,
            pieces: options.workload.offers_pieces().then(|| Pieces::new(full)),
            cut,
            memory: None,
            first_window: u32::try_from(receiver.edge()).unwrap_or(u32::MAX),
            tuning: tuning(options),
            miscount: None,
        };
        match options.accounting {
            Accounting::Payload => buffer.count_payload(options),
            Accounting::Linux(_) => {
                let grown = buffer.tuning.as_ref().map(|grows| grows.whole());
                let limit = grown.unwrap_or_else(|| fixed_limit(options.send_buffer));
                let (total, edge) = (options.workload.bytes(), receiver.edge());
                let mut memory = options.protocol.rules().send_memory(limit, full, total, edge);
                if buffer.pieces.is_some() {
                    memory.wait_for_offers();
                }
                buffer.memory = Some(Box::new(memory));
                buffer.update_window_edge();
            }
        }
        buffer
    }

    fn count_payload(&mut self, options: &ConnectionOptions) {
        let full = Bytes::from(self.full);
        let bytes = self.tuning.as_ref().map_or(options.send_buffer, |grows| grows.whole());
        self.window = (bytes / full).max(1) as Seq;
        if self.pieces.is_some() {
            self.end = 0;
            return;
        }
        if let TransferSize::Known(total) = options.workload.size() {
            self.end = total.div_ceil(full) as Seq;
            self.last_lacks = (Bytes::from(self.end) * full - total) as u32;
        }
        self.regular_until = self.end - 1;
        self.first_window = u32::MAX;
    }

    /// Payload bytes of a full segment.
    #[inline]
    pub fn full(&self) -> u32 {
        self.full
    }

    /// The first segment that is not DATA_ACKed.
    #[inline]
    pub fn una(&self) -> Seq {
        self.una
    }

    /// The next segment to be handed to a subflow.
    #[inline]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Payload bytes handed to subflows.
    pub fn sent_bytes(&self) -> Bytes {
        self.memory.as_ref().map_or_else(|| self.payload(0, self.next), |memory| memory.sent())
    }

    /// Payload bytes that are DATA_ACKed.
    pub fn acked_bytes(&self) -> Bytes {
        self.memory.as_ref().map_or_else(|| self.payload(0, self.una), |memory| memory.acked())
    }

    /// Segments that the program has offered and no subflow has, [`Seq::MAX`] less the next one while unknown.
    #[inline]
    pub fn left(&self) -> Seq {
        match &self.memory {
            Some(memory) if self.pieces.is_some() => memory.left(),
            _ => self.end.saturating_sub(self.next),
        }
    }

    /// Segments that a burst may have before this limit: of pieces as many as the receiver's window, whatever is there to be
    /// sent (Linux `mptcp_subflow_get_send`).
    #[inline]
    pub fn burst_window(&self, limit: Seq) -> Seq {
        match &self.memory {
            Some(memory) if self.pieces.is_some() => memory.open_window(),
            _ => limit - self.next,
        }
    }

    /// The program has offered more than this limit lets go.
    #[inline]
    pub fn has_more(&self, limit: Seq) -> bool {
        limit < self.end && (self.pieces.is_none() || self.left() > 0)
    }

    /// The program has written more than subflows were given, and the receiver's window takes it.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_unsent())
    }

    /// The first segment of the next fragment of the send buffer after that of `data`; the next one to be handed over, if
    /// there is none.
    pub fn next_fragment(&self, data: Seq) -> Seq {
        self.memory.as_ref().map_or(self.next, |memory| memory.next_fragment(data, self.next))
    }

    /// The program offers another piece.
    pub fn offer(&mut self, bytes: Bytes) {
        let Some(pieces) = &mut self.pieces else { return };
        match &mut self.memory {
            Some(memory) => {
                memory.offer(bytes);
                self.update_window_edge();
            }
            None => self.end = pieces.push(bytes),
        }
    }

    /// The program offers pieces.
    #[inline]
    pub fn offers_pieces(&self) -> bool {
        self.pieces.is_some()
    }

    /// The first segment that may not be sent: the receiver's window, the send buffer or the end of
    /// the transfer.
    #[inline]
    pub fn limit(&self) -> Seq {
        self.window_edge.min(self.una.saturating_add(self.window)).min(self.end)
    }

    /// Segments that may be under way: the smaller of the receiver's window and the send buffer (Linux `wnd_end` -
    /// `snd_una`, `sk_sndbuf`).
    pub fn window(&self) -> f64 {
        match &self.memory {
            Some(memory) => memory.window() as f64 / f64::from(self.full),
            None => f64::from(self.window.min(self.window_edge.saturating_sub(self.una))),
        }
    }

    /// A subflow has room in its cwnd, in segments: its part of the buffer grows if the application waits for room
    /// (Linux `tcp_should_expand_sndbuf`) or the subflow is `new` (`tcp_init_buffer_space`). True if it grew.
    pub fn expand(&mut self, subflow: SubflowId, cwnd: f64, new: bool) -> bool {
        let Some(tuning) = &mut self.tuning else { return false };
        // Saturates; the window is never NaN.
        let segments = cwnd as Bytes;
        if let Some(memory) = &mut self.memory {
            let waits = memory.is_application_waiting();
            let grew = (waits || new) && tuning.expand_memory(subflow, segments);
            memory.set_limit(tuning.whole());
            return grew;
        }
        let full = Bytes::from(self.full);
        let waits = self.una.saturating_add(self.window) < self.end;
        let grew = (waits || new) && tuning.expand(subflow, segments, full);
        self.window = self.window.max((tuning.whole() / full) as Seq);
        grew
    }

    /// Memory of the send queue of a subflow whose buffer grows, in full segments.
    #[inline]
    pub fn queue_memory(&self, subflow: SubflowId) -> Option<f64> {
        let bytes = self.tuning.as_ref()?.of(subflow);
        Some(match &self.memory {
            Some(memory) => memory.queue_memory(bytes) as f64 / f64::from(self.full),
            None => f64::from((bytes / Bytes::from(self.full)).max(1) as Seq),
        })
    }

    /// Memory of the send queue of one subflow, in full segments.
    pub fn subflow_memory(&self) -> f64 {
        match &self.memory {
            Some(memory) => memory.subflow_memory() as f64 / f64::from(self.full),
            None => f64::from(self.window),
        }
    }

    /// Memory of a packet in a send queue besides its payload, in full segments.
    pub fn packet_overhead(&self) -> f64 {
        let overhead = self.memory.as_ref().map_or(0, |memory| memory.packet_overhead());
        overhead as f64 / f64::from(self.full)
    }

    /// Segments of the largest packet in a subflow's send queue.
    #[inline]
    pub fn packet_segments(&self, subflow: &SendWindow) -> u32 {
        packet_segments(subflow.largest.max(self.first_window), self.full)
    }

    /// It grows.
    #[inline]
    pub fn grows(&self) -> bool {
        self.tuning.is_some()
    }

    /// Segments that fit the send queue of one subflow.
    pub fn subflow_segments(&self) -> Seq {
        self.memory.as_ref().map_or(self.window, |memory| memory.subflow_segments())
    }

    /// Hands the next segment to the subflow with this window.
    #[inline]
    pub fn take(&mut self, subflow: &mut SendWindow) -> Seq {
        let data = self.next;
        self.next += 1;
        if data >= self.regular_until {
            self.take_irregular(subflow);
        }
        data
    }

    #[inline]
    fn take_irregular(&mut self, subflow: &mut SendWindow) {
        let Some(memory) = &mut self.memory else { return };
        let segment = memory.take();
        subflow.widen(memory.window_from(segment.start));
        // After a full segment the edge is still as far from the start of the transfer.
        let edge_stays = self.cut && segment.length() == self.full && !memory.is_finished();
        if !edge_stays {
            self.on_taken();
        }
    }

    /// Fills up the newest segment in a subflow's send queue. True if it was short.
    pub fn fill_up(&mut self, newest: Seq) -> bool {
        let filled = self.memory.as_mut().is_some_and(|memory| memory.fill_up(newest));
        if filled {
            self.on_taken();
        }
        filled
    }

    /// Data was handed to a subflow. The number of segments is known once the last one is made.
    fn on_taken(&mut self) {
        if self.memory.as_ref().is_some_and(|memory| memory.is_finished()) {
            self.end = self.next;
        }
        self.update_window_edge();
    }

    /// The edge is in bytes: converts it to segments.
    fn update_window_edge(&mut self) {
        if let Some(memory) = &self.memory {
            self.window_edge = self.next.saturating_add(memory.segments(self.cut));
        }
    }

    /// Another subflow carries a segment too, so that its length is final. The connection's window from it on becomes
    /// that of the subflow, if wider (Linux `mptcp_check_allowed_size`).
    pub fn share(&mut self, data: Seq, subflow: &mut SendWindow) {
        if let Some(memory) = &mut self.memory {
            memory.settle(data, self.next - 1);
            subflow.widen(memory.window_from(memory.start(data)));
        }
    }

    /// DATA_ACK and window of an ACK on a subflow with this many segments outstanding. Returns the number of segments
    /// that it DATA_ACKs.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, outstanding: u32, subflow: &mut SendWindow) -> Seq {
        if ack.data > self.next {
            self.miscount.get_or_insert(Miscount::Acknowledged);
            return 0;
        }
        if self.memory.is_none() {
            self.window_edge = self.window_edge.max(ack.window);
        } else {
            self.on_linux_ack(ack, outstanding, subflow);
        }
        let acked = ack.data.saturating_sub(self.una);
        self.una += acked;
        acked
    }

    /// The same in bytes. The window is that of the subflow's TCP, which a duplicate ACK cannot narrow: while a
    /// subflow has a hole and others deliver, the sender adds new DATA_ACKs to an old window and sends more than was
    /// offered (Linux `ack_update_msk`, `tcp_may_update_window`; traced on Linux 6.18).
    #[inline(never)]
    fn on_linux_ack(&mut self, ack: &Ack, outstanding: u32, subflow: &mut SendWindow) {
        let Some(memory) = &mut self.memory else { return };
        subflow.on_offer(outstanding, ack.next, ack.window);
        if ack.data >= self.una {
            memory.on_data_ack(ack.data - self.una);
            memory.on_window(subflow.offered);
        }
        self.update_window_edge();
    }

    /// A contradiction with the receiver, which expects segment `next` and has delivered `delivered` bytes.
    pub fn miscount(&self, next: Seq, delivered: Bytes) -> Option<Miscount> {
        let ordered = |low: Bytes, middle, high| low <= middle && middle <= high;
        let acknowledged = ordered(self.una.into(), next.into(), self.next.into())
            && ordered(self.acked_bytes(), delivered, self.sent_bytes());
        let outstanding = self.next - self.una;
        let sent = self.memory.as_ref().is_none_or(|memory| memory.is_consistent(outstanding));
        self.miscount
            .or_else(|| (!acknowledged).then_some(Miscount::Acknowledged))
            .or_else(|| (!sent).then_some(Miscount::Sent))
    }

    /// The workload ends with the data handed to subflows.
    pub fn finish(&mut self) {
        self.end = self.end.min(self.next);
        if let Some(memory) = &mut self.memory {
            memory.finish();
            self.update_window_edge();
        }
    }

    /// The application waits for room, and there is enough to wake it up.
    pub fn wakes_application(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.wakes_application())
    }

    /// The application writes until the buffer is full.
    pub fn write(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.write();
            self.update_window_edge();
        }
    }

    /// A scheduler's burst may end before the next segment.
    #[inline]
    pub fn burst_may_end(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.begins_fragment())
    }

    /// The DSS mapping of a segment.
    #[inline]
    pub fn mapping(&self, data: Seq) -> Mapping {
        if data < self.regular_until {
            self.full_mapping(data)
        } else {
            self.irregular_mapping(data)
        }
    }

    /// That of a segment if all before it and itself are full.
    #[inline]
    fn full_mapping(&self, data: Seq) -> Mapping {
        // The lower 32 bits.
        Mapping { data, start: data.wrapping_mul(self.full), length: self.full as u16 }
    }

    #[inline]
    fn irregular_mapping(&self, data: Seq) -> Mapping {
        if self.memory.is_none() {
            let (start, length) = (self.payload(0, data), self.payload(data, data + 1));
            return Mapping { data, start: start as u32, length: length as u16 };
        }
        match self.segment(data) {
            Some(extent) => Mapping { data, start: extent.start as u32, length: extent.length },
            // Already DATA_ACKed, its length discarded: only its subflow still needs it.
            None => self.full_mapping(data),
        }
    }

    /// Payload bytes of segments `from..to`, all of one size except the last of a transfer or of each piece.
    #[inline]
    pub fn payload(&self, from: Seq, to: Seq) -> Bytes {
        if let Some(pieces) = &self.pieces {
            return pieces.payload_before(to) - pieces.payload_before(from);
        }
        let full = Bytes::from(to - from) * Bytes::from(self.full);
        if to == self.end { full - Bytes::from(self.last_lacks) } else { full }
    }

    /// A segment, under Linux accounting and until it is DATA_ACKed.
    #[inline]
    fn segment(&self, data: Seq) -> Option<&Extent> {
        self.memory.as_ref()?.segment(data)
    }

    /// A segment that is not DATA_ACKed is not full.
    #[inline]
    pub fn is_short(&self, data: Seq) -> bool {
        self.segment(data).is_some_and(|segment| segment.length() < self.full)
    }

    /// The newest segment is not full but may become full while it waits.
    #[inline]
    pub fn newest_is_short(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.newest_is_short())
    }

    /// Segments that the receiver's window leaves to a subflow; under Linux accounting it also applies
    /// per subflow.
    pub fn subflow_window(&self, subflow: &SendWindow) -> Option<u32> {
        self.memory.is_some().then(|| subflow.offered / self.full)
    }
}
