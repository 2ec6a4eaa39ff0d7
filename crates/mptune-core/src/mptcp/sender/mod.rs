//! The data sender of a connection: assignment of data to subflows, reinjection and connection-level retransmission
//! (RFC 8684 section 3.3). One file per subject.
//!
//! It uses subflows that others opened, and knows neither roles nor path managers: [`DataSender::use_only`] sets the
//! subflows that may carry data. Not here: loss recovery on a subflow (`tcp::Sender`), sizes of windows and segments
//! ([`SendBuffer`]).

mod blocking;
mod bursts;
mod pacing;
mod pumping;
mod reinjection;
mod retransmission;
mod scheduling;
mod stale;
mod timers;
mod transmitting;

use super::accounting::{Accounting, Miscount, ReceiveBuffer, SendBuffer};
use super::io::Io;
use super::members::Members;
use super::options::ConnectionOptions;
use super::packet::Ack;
use super::scheduler::Style;
use super::subflow::Subflow;
use crate::congestion::Peer;
use crate::engine::Ring;
use crate::pathmanager::SubflowId;
use crate::tcp::pacing::Lengths;
use crate::units::{Bytes, Nanos, Seq};
use blocking::Blocking;
use scheduling::Scheduling;
use std::collections::VecDeque;
use timers::Timers;

/// The data sender.
#[derive(Debug)]
pub struct DataSender {
    buffer: SendBuffer,
    /// For each segment that is not DATA_ACKed, the subflows that carry it.
    carried_by: Ring<u64>,
    /// Segments to reinject; and the number resent, on another subflow or by the connection.
    reinjections: VecDeque<Seq>,
    reinjected: u64,
    reinjected_bytes: Bytes,
    scheduling: Scheduling,
    /// Memory of the send queue of a subflow, unless its buffer grows, and of a packet in it besides its payload, both in
    /// full segments.
    queue_limit: f64,
    overhead: f64,
    /// A cwnd is validated after an idle time when a packet is queued, not when it is sent.
    restarts_at_packets: bool,
    /// Bytes handed to subflows at which the path manager is notified, and as many full segments.
    notify_bytes: Bytes,
    notify_at: Seq,
    blocking: Blocking,
    /// Timers of the connection-level retransmission and of the application, under Linux accounting.
    timers: Option<Timers>,
    fails_at_timeout: bool,
    is_multipath: bool,
    members: Members,
    /// The congestion control or the path policy asks for delivery-rate samples.
    rate_samples: bool,
    /// The scheduler may want TCP to pace subflows.
    paced_by_scheduler: bool,
    /// Bytes before the payload of a packet, over IPv4.
    header: u32,
    /// Lengths of a full segment.
    lengths: Lengths,
}

impl DataSender {
    /// A sender without subflows, for the connection with this number.
    pub fn new(
        number: usize,
        options: &ConnectionOptions,
        receiver: &ReceiveBuffer,
        io: &mut Io,
    ) -> Self {
        let is_multipath = options.protocol.rules().is_multipath();
        let cut = options.scheduler.style() == Style::Push && is_multipath;
        let fails_at_timeout = is_multipath && options.accounting == Accounting::Payload;
        let buffer = SendBuffer::new(options, receiver, cut);
        let (queue_limit, overhead) = (buffer.subflow_memory(), buffer.packet_overhead());
        let restarts_at_packets =
            options.accounting != Accounting::Payload && options.scheduler.style() == Style::Push;
        let grows = buffer.grows();
        let fits = if grows { Seq::MAX } else { buffer.subflow_segments() };
        let whole_window = fits.min(receiver.segments());
        Self {
            buffer,
            carried_by: Ring::new(),
            reinjections: VecDeque::new(),
            reinjected: 0,
            reinjected_bytes: 0,
            scheduling: Scheduling::new(options.scheduler.clone(), options.paces(), whole_window),
            queue_limit,
            overhead,
            restarts_at_packets,
            is_multipath,
            notify_bytes: 0,
            notify_at: Seq::MAX,
            blocking: Blocking::new(),
            timers: Timers::new(number, options, io),
            fails_at_timeout,
            members: options.members,
            rate_samples: options.controller.rate_samples()
                || options.path_policy.is_some()
                || options.scheduler.rate_samples()
                || options.path_manager.sampling().is_some(),
            paced_by_scheduler: options.scheduler.rate_samples(),
            header: options.header(),
            lengths: options.lengths(),
        }
    }

    /// Its side of the data sequence space.
    #[inline]
    pub fn buffer(&self) -> &SendBuffer {
        &self.buffer
    }

    /// A contradiction with the receiver, which expects segment `next` and has delivered `delivered` bytes.
    pub fn miscount(&self, next: Seq, delivered: Bytes) -> Option<Miscount> {
        let outstanding = (self.buffer.next() - self.buffer.una()) as usize;
        let carried = self.carried_by.len() == outstanding;
        self.buffer
            .miscount(next, delivered)
            .or_else(|| (!carried).then_some(Miscount::Acknowledged))
    }

    /// Its subflows take samples of the delivery rate.
    pub fn samples_rates(&self) -> bool {
        self.rate_samples
    }

    /// The subflows as coupled controllers see them.
    #[inline]
    pub fn peers(&self) -> &[Peer] {
        &self.scheduling.peers
    }

    /// Segments resent on another subflow, or by the connection.
    pub fn reinjected(&self) -> u64 {
        self.reinjected
    }

    /// Their payload bytes; with Linux accounting only those that the connection's timer repeated
    /// (`mptcpi_bytes_retrans`).
    pub fn reinjected_bytes(&self) -> Bytes {
        self.reinjected_bytes
    }

    /// Time until `now` in which the shared buffers kept a subflow with room in cwnd from sending.
    pub fn window_limited(&self, now: Nanos) -> Nanos {
        self.blocking.total(now)
    }

    /// One more subflow is being opened.
    pub fn add_subflow(&mut self) {
        self.scheduling.peers.push(Peer::default());
    }

    /// Only these subflows may carry data from now on.
    pub fn use_only(&mut self, now: Nanos, subflows: &mut [Subflow], usable: u64) {
        self.scheduling.usable = usable;
        self.reinject_queues(subflows);
        for id in 0..subflows.len() {
            self.refresh_one(now, subflows, id);
        }
    }

    /// [`Self::pump`] pauses when this many bytes were handed to subflows.
    pub fn notify_at(&mut self, bytes: Bytes) {
        self.notify_bytes = bytes;
        self.notify_at = bytes.div_ceil(Bytes::from(self.buffer.full())) as Seq;
    }

    /// A subflow is `new`, or it got an ACK and has sent: its part of a growing send buffer may grow. True if there is
    /// now more to send.
    #[inline]
    pub fn expand(&mut self, io: &mut Io, subflows: &[Subflow], id: SubflowId, new: bool) -> bool {
        self.buffer.grows() && self.expand_part(io, &subflows[id], id, new)
    }

    #[inline(never)]
    fn expand_part(&mut self, io: &mut Io, subflow: &Subflow, id: SubflowId, new: bool) -> bool {
        let paces = self.scheduling.paces.as_ref();
        let beside = paces.map_or(0.0, |paces| paces.buffered(id));
        let room = self.scheduling.peers[id].cwnd + beside;
        let grew = subflow.sender.has_room() && self.buffer.expand(id, room, new);
        match &self.timers {
            Some(timers) if grew && self.buffer.wakes_application() => {
                timers.wake_application(io);
                false
            }
            Some(_) => false,
            None => grew,
        }
    }

    /// The workload ends with the data handed to subflows.
    pub fn finish(&mut self) {
        self.buffer.finish();
    }

    /// DATA_ACK and window of an acknowledgement that arrived on a subflow.
    #[inline]
    pub fn on_data_ack(&mut self, io: &mut Io, subflows: &mut [Subflow], id: SubflowId, ack: &Ack) {
        let subflow = &mut subflows[id];
        let outstanding = subflow.sender.outstanding();
        let acked = self.buffer.on_ack(ack, outstanding, &mut subflow.send_window);
        self.carried_by.skip(acked);
        if acked > 0 && self.timers.is_some() {
            self.on_data_acked(io, subflows);
        }
    }

    /// New data is DATA_ACKed: the retransmission timer restarts, and there is room to write.
    #[inline(never)]
    fn on_data_acked(&mut self, io: &mut Io, subflows: &[Subflow]) {
        self.restart_data_timer(io, subflows);
        if let Some(timers) = self.timers.as_ref().filter(|_| self.buffer.wakes_application()) {
            timers.wake_application(io);
        }
    }

    /// The program offers this much more.
    pub fn offer(&mut self, bytes: Bytes) {
        self.buffer.offer(bytes);
        self.scheduling.on_write();
    }

    /// The application writes until the buffer is full.
    pub fn on_application(&mut self) {
        self.buffer.write();
    }
}
