//! The data receiver of a connection: in-order data from the segments of all subflows, and acknowledgements (RFC 8684
//! sections 3.3.2 and 3.3.4).
//!
//! Not here: order on a subflow (`tcp::Receiver`), room in the buffer ([`ReceiveBuffer`]). Segments are counted; their
//! position and length come with their packets ([`Mapping`]) and are stored until delivery. Under payload
//! accounting the senders' RTTs stand in for the receiver's estimates.

mod delivered;
mod linux;
mod payload;

use super::accounting::memory::SubflowMemory;
use super::accounting::{Miscount, ReceiveBuffer};
use super::echoes::stamp;
use super::io::Io;
use super::options::ConnectionOptions;
use super::packet::{Ack, Answered, Content, Packet, Segment, sack_size};
use super::reassembly::Reassembly;
use super::subflow::{Phase, Subflow};
use crate::pathmanager::SubflowId;
use crate::tcp::{Clock, Reply};
use crate::units::{Bytes, Nanos, Seq};
use delivered::Delivered;

/// The data receiver.
#[derive(Debug)]
pub struct DataReceiver {
    reassembly: Reassembly,
    buffer: ReceiveBuffer,
    delivered: Delivered,
    /// Bytes of a pure ACK without SACK blocks, over IPv4.
    ack_size: u32,
    clock: Clock,
    /// The program that sends pauses, and its ACKs begin anew after a silence.
    pauses: bool,
}

impl DataReceiver {
    /// A receiver that has received nothing yet.
    pub fn new(options: &ConnectionOptions) -> Self {
        let buffer = ReceiveBuffer::new(options);
        Self {
            reassembly: Reassembly::new(),
            buffer,
            delivered: Delivered::new(options.start, options.bin, &options.workload),
            ack_size: options.ack_size(),
            clock: options.clock(),
            pauses: options.workload.offers_pieces(),
        }
    }

    /// Its buffer.
    pub fn buffer(&self) -> &ReceiveBuffer {
        &self.buffer
    }

    /// Payload delivered in order.
    #[inline]
    pub fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    /// The program sends its first message now.
    pub fn begin_messages(&mut self, now: Nanos) {
        self.delivered.begin(now);
    }

    /// Segments that arrived again after they had been received.
    pub fn duplicates(&self) -> u64 {
        self.reassembly.duplicates
    }

    /// Most segments out of order.
    pub fn largest_waiting(&self) -> u32 {
        self.reassembly.largest_waiting
    }

    /// A contradiction with the bytes that subflows brought.
    pub fn miscount(&self, brought: Bytes) -> Option<Miscount> {
        let delivered = self.delivered.series.total();
        let waiting = || self.reassembly.out_of_order();
        if brought != delivered + waiting().map(Bytes::from).sum::<Bytes>() {
            return Some(Miscount::Delivered);
        }
        self.buffer.miscount(waiting(), delivered)
    }

    /// The next segment expected.
    pub fn next(&self) -> Seq {
        self.reassembly.next()
    }

    /// The connection is established.
    pub fn on_established(&mut self, now: Nanos) {
        self.buffer.begin(now);
    }

    /// A subflow joined the connection.
    pub fn on_joined(&mut self, subflow: &mut Subflow) {
        self.buffer.join(&mut subflow.memory);
    }

    /// A data segment arrived on a subflow.
    #[inline]
    pub fn on_data(
        &mut self,
        io: &mut Io,
        subflows: &mut [Subflow],
        id: SubflowId,
        segment: &Segment,
    ) {
        let subflow = &mut subflows[id];
        self.note_ecn(io, subflow, segment);
        subflow.receiver.note_stamp(segment.seq, segment.repeated);
        match self.buffer {
            ReceiveBuffer::Payload(_) => {
                if self.buffer.needs_rtts() {
                    subflow.memory.rtt = subflow.sender.rtt.srtt;
                }
                self.on_payload(io, subflows, id, segment);
            }
            ReceiveBuffer::Linux(_) => self.on_linux(io, subflows, id, segment),
        }
    }

    #[inline]
    fn note_ecn(&mut self, io: &mut Io, subflow: &mut Subflow, segment: &Segment) {
        if subflow.receiver.on_ecn(segment.congestion_experienced, segment.reduced) {
            self.acknowledge(io, subflow, false);
        }
        subflow.receiver.set_ecn_state(segment.congestion_experienced);
    }

    /// Acknowledges a segment now or later; it brought `progress` segments in order.
    #[inline(always)]
    fn reply(&mut self, io: &mut Io, subflow: &mut Subflow, reply: Reply, progress: Seq) {
        // A gap in the data sequence space closed: the window opens by more than a segment or two,
        // and the sender may be waiting for it (RFC 9293 section 3.8.6.2.2).
        let window_opened = progress > 2;
        match reply {
            Reply::Now { duplicate } => self.acknowledge(io, subflow, duplicate),
            Reply::Later if window_opened => self.acknowledge(io, subflow, false),
            Reply::Later => {
                io.queue.set_no_later(subflow.ack_timer, subflow.receiver.deadline());
            }
        }
    }

    /// The timestamp of an acknowledgement; none is needed without the kernel's accounting.
    #[inline]
    fn stamp(&self, now: Nanos) -> u16 {
        if self.clock.is_exact() { 0 } else { stamp(self.clock.time(now)) }
    }

    /// Sends an acknowledgement on a subflow.
    #[inline]
    pub fn acknowledge(&mut self, io: &mut Io, subflow: &mut Subflow, duplicate: bool) {
        let ack = subflow.receiver.acknowledge(duplicate);
        let data = self.reassembly.next();
        let Subflow { receiver, memory, .. } = subflow;
        let content = Content::Ack(Ack {
            next: ack.next,
            data,
            window: self.buffer.offer(io.now, data, receiver, memory),
            sack: ack.sack,
            answers: match (duplicate, ack.original) {
                (true, _) => Answered::Duplicate,
                (false, true) => Answered::Original,
                (false, false) => Answered::Repeated,
            },
            ecn_echo: ack.ecn_echo,
            stamp: self.stamp(io.now),
        });
        let packet = Packet { flow: subflow.flow, content };
        let size = self.ack_size + subflow.longer_header + sack_size(&ack.sack);
        io.send(subflow.back, size, packet);
    }
}

/// The receiver's state of the open subflows.
fn open(subflows: &[Subflow]) -> impl Iterator<Item = &SubflowMemory> {
    subflows.iter().filter(|subflow| subflow.phase != Phase::Closed).map(|subflow| &subflow.memory)
}
