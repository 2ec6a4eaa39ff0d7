//! A packet's way: read from a device, carried by the network, written to the device at the other end.
//!
//! Functions of time: the clock and the devices are arguments. The model runs on due times, not on the times of calls:
//! a late call delivers late, and delays nothing else.

use crate::clock::Clock;
use crate::config::Config;
use crate::frame::{Frame, LARGEST, PREFIX};
use crate::header::{self, Header};
use crate::lateness::Lateness;
use crate::recorder::{Encoded, Recorder};
use crate::rejoin::{GATHERING, REJOINING, Train};
use crate::routes::Routes;
use crate::slab::{SLOT, Slab, Slot};
use mptune_core::engine::EventQueue;
use mptune_core::network::{Carried, LinkCounters, Network, RouteId};
use mptune_core::units::{MILLISECOND, NEVER, Nanos};
use std::collections::VecDeque;
use std::io;
use std::mem;

/// Packets read from a device before the others get a turn, plus the rest of the last frame.
const READ_BATCH: usize = 16;
/// Packets written before devices are read again. More than are usually read in between, so that excess traffic waits
/// to be read rather than to be delivered; few enough for read times that are right within a fifth of a millisecond.
const WRITE_BATCH: usize = 32;
/// The same with rejoined segments, which take a few writes.
const REJOINED_BATCH: usize = 256;
/// Interval of simulating background traffic without other events.
const CATCH_UP: Nanos = MILLISECOND;
/// Packets to refuse before collecting slots again: a collection takes about as long as a thousand packets.
const REFUSALS: u64 = 1024;

/// The devices of all interfaces, by their position in the configuration. The format of reads and writes is
/// that of [`Frame`].
pub(crate) trait Ports {
    /// Reads a frame and returns its length; none if there is none.
    fn receive(&mut self, device: usize, buffer: &mut [u8]) -> io::Result<Option<usize>>;
    /// Writes one packet.
    fn send(&mut self, device: usize, packet: &[u8]) -> io::Result<()>;
}

/// A packet's handle, which the network carries.
#[derive(Debug, Clone, Copy)]
struct Handle {
    slot: Slot,
    /// The packet's number modulo 2^32, by which it is recognised.
    number: u32,
    flow: u32,
    length: u16,
    is_ect: bool,
    marked: bool,
    /// Another handle may name the same slot.
    shared: bool,
}

/// The slot of background traffic, which has none.
const NO_SLOT: Slot = Slot::MAX;

impl Default for Handle {
    fn default() -> Self {
        let (slot, number) = (NO_SLOT, 0);
        Self { slot, number, flow: 0, length: 0, is_ect: false, marked: false, shared: false }
    }
}

impl Carried for Handle {
    #[inline]
    fn flow(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn is_ect(&self) -> bool {
        self.is_ect
    }

    #[inline]
    fn mark_ce(&mut self) {
        self.marked = true;
    }

    fn is(&self, entered: &Self) -> bool {
        self.number == entered.number
    }

    fn is_marked(&self) -> bool {
        self.marked
    }

    #[inline]
    fn duplicate(&mut self) {
        self.shared = true;
    }
}

/// A packet at the end of its route.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: Nanos,
    route: RouteId,
    packet: Handle,
}

/// Packets carried, and those lost for reasons outside the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Packets delivered.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that are on no path or are not IP.
    pub unroutable: u64,
    /// Packets lost for lack of slots, or refused by a device.
    pub overflow: u64,
}

impl Tally {
    /// Counts packets written or refused.
    fn count(&mut self, sent: &io::Result<()>, packets: u64, bytes: u64) {
        if sent.is_ok() {
            self.packets += packets;
            self.bytes += bytes;
        } else {
            self.overflow += packets;
        }
    }
}

/// The network with the packets on it.
#[derive(Debug)]
pub(crate) struct Relay {
    queue: EventQueue,
    network: Network<Handle>,
    has_background: bool,
    routes: Routes,
    slab: Slab,
    /// Packets that have arrived and wait to be written, in order of time.
    due: VecDeque<Due>,
    /// The read buffer.
    buffer: Box<[u8]>,
    /// A marked copy.
    scratch: Box<[u8; SLOT]>,
    /// A train per route, if segments are rejoined.
    trains: Option<Vec<Train>>,
    /// Nothing is written before.
    quiet_until: Nanos,
    /// Packets to refuse before collecting slots again.
    refusals: u64,
    tally: Tally,
    lateness: Lateness,
    /// Packets that entered.
    entered: u32,
    recorder: Option<Recorder>,
}

impl Relay {
    /// An empty network at time 0, from a valid configuration, that holds up to `slots` packets.
    pub fn new(config: &Config, slots: usize) -> Self {
        let mut queue = EventQueue::new();
        let mut network = Network::new(&config.network, config.seed, &mut queue);
        let limit = config.recording.as_ref().map(|recording| recording.packets);
        if let Some(limit) = limit {
            network.watch(limit);
        }
        Self {
            queue,
            network,
            has_background: config.network.links.iter().any(|link| !link.udp.is_empty()),
            routes: Routes::new(config),
            slab: Slab::new(slots),
            due: VecDeque::new(),
            buffer: vec![0; LARGEST].into_boxed_slice(),
            scratch: Box::new([0; SLOT]),
            trains: config.capacity().filter(|&capacity| capacity > REJOINING).map(|_| Vec::new()),
            quiet_until: 0,
            refusals: 0,
            tally: Tally::default(),
            lateness: Lateness::new(),
            entered: 0,
            recorder: limit.map(Recorder::new),
        }
    }

    /// The next records of the recording as bytes, at most `most` of them; none at its end.
    pub fn records(&self, done: &mut Encoded, most: usize) -> Vec<u8> {
        let recorder = self.recorder.as_ref();
        recorder
            .map_or_else(Vec::new, |recorder| recorder.encode(self.network.passages(), done, most))
    }

    /// Packets after the recording's limit.
    pub fn unrecorded(&self) -> u64 {
        self.network.unrecorded()
    }

    /// Cuts or restores a path.
    pub fn set_path_up(&mut self, path: usize, up: bool) {
        self.network.set_path_up(path, up);
    }

    /// Packets carried so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Lateness of packets.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Counters of each link so far.
    pub fn counters(&self) -> impl Iterator<Item = LinkCounters> {
        self.network.counters()
    }

    /// The latest time for the next call of [`Self::deliver`]; none for never, unless something is received.
    pub fn next_at(&self, now: Nanos) -> Option<Nanos> {
        if !self.due.is_empty() {
            return Some(now.max(self.quiet_until));
        }
        let next = self.network.next_at(&self.queue);
        let latest = if self.has_background { now + CATCH_UP } else { NEVER };
        let at = next.min(latest);
        (at < NEVER).then_some(at.max(self.quiet_until))
    }

    /// Reads some of a device's packets.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn receive(
        &mut self,
        device: usize,
        ports: &mut impl Ports,
        clock: &impl Clock,
    ) -> io::Result<()> {
        let mut taken = 0;
        while taken < READ_BATCH {
            let Some(length) = ports.receive(device, &mut self.buffer)? else { break };
            // Moved out while its packets enter; an empty one takes its place.
            let buffer = mem::take(&mut self.buffer);
            taken += self.enter(device, &buffer[..length], clock.now());
            self.buffer = buffer;
        }
        Ok(())
    }

    /// Puts a frame that a device has sent on the network, if it is on a route. Returns its number of packets.
    pub fn enter(&mut self, device: usize, bytes: &[u8], now: Nanos) -> usize {
        let Some((frame, header, route)) = self.identify(device, bytes) else {
            self.tally.unroutable += 1;
            return 1;
        };
        // A link must see its packets in order of time, so earlier ones go first.
        self.advance(now);
        let Header { flow, is_ect, .. } = header;
        for number in 0..frame.count() {
            let Some(slot) = self.free_slot() else {
                self.tally.overflow += 1;
                continue;
            };
            let length = frame.write(number, self.slab.bytes_mut(slot)) as u16;
            if let Some(recorder) = &mut self.recorder {
                let end = PREFIX + usize::from(length);
                recorder.enter(&self.slab.bytes(slot)[PREFIX..end]);
            }
            self.entered = self.entered.wrapping_add(1);
            let number = self.entered;
            let packet =
                Handle { slot, number, flow, length, is_ect, marked: false, shared: false };
            self.network.send(&mut self.queue, now, route, u32::from(length), packet);
        }
        frame.count()
    }

    /// A frame's header and route; none if it is on no route, or larger than a slot.
    fn identify<'a>(&self, device: usize, bytes: &'a [u8]) -> Option<(Frame<'a>, Header, RouteId)> {
        let frame = Frame::parse(bytes)?;
        let header = header::parse(frame.packet())?;
        let route = self.routes.find(device, &header.addresses)?;
        (PREFIX + frame.largest() <= SLOT).then_some((frame, header, route))
    }

    /// Runs the network's due events.
    fn advance(&mut self, now: Nanos) {
        while let Some((at, source)) = self.queue.earliest().filter(|&(at, _)| at <= now) {
            if let Some((route, packet)) = self.network.advance(&mut self.queue, source, now) {
                self.due.push_back(Due { at, route, packet });
            }
        }
    }

    /// Writes some of the packets that have arrived.
    pub fn deliver(&mut self, ports: &mut impl Ports, clock: &impl Clock) {
        let now = clock.now();
        self.advance(now);
        match self.trains.take() {
            Some(mut trains) => {
                if now >= self.quiet_until {
                    self.deliver_rejoined(&mut trains, ports, clock);
                }
                self.trains = Some(trains);
            }
            None => self.deliver_each(ports, clock),
        }
    }

    /// Every packet by itself.
    fn deliver_each(&mut self, ports: &mut impl Ports, clock: &impl Clock) {
        for _ in 0..WRITE_BATCH {
            let Some(due) = self.due.pop_front() else { return };
            self.lateness.record(clock.now().saturating_sub(due.at));
            let length = u64::from(due.packet.length);
            let bytes = written(&self.slab, &mut self.scratch, due.packet);
            let sent = ports.send(self.routes.end(due.route), bytes);
            self.tally.count(&sent, 1, length);
            self.release(due.packet);
        }
    }

    /// Consecutive segments in one piece. The order on a route stays.
    fn deliver_rejoined(
        &mut self,
        trains: &mut Vec<Train>,
        ports: &mut impl Ports,
        clock: &impl Clock,
    ) {
        let mut used = 0;
        for _ in 0..REJOINED_BATCH {
            let Some(Due { at, route, packet }) = self.due.pop_front() else { break };
            let bytes = written(&self.slab, &mut self.scratch, packet);
            let last = trains[..used].iter_mut().rfind(|train| train.route() == route);
            if !last.is_some_and(|train| train.append(at, bytes)) {
                if used == trains.len() {
                    trains.push(Train::new());
                }
                trains[used].begin(route, at, bytes);
                used += 1;
            }
            self.release(packet);
        }
        for train in &mut trains[..used] {
            let now = clock.now();
            train.due().iter().for_each(|&at| self.lateness.record(now.saturating_sub(at)));
            let (count, length) = (train.due().len() as u64, train.packet_bytes());
            let sent = ports.send(self.routes.end(train.route()), train.finish());
            self.tally.count(&sent, count, length);
        }
        if used > 0 && self.due.is_empty() {
            self.quiet_until = clock.now() + GATHERING;
        }
    }

    /// Returns the slot of a packet that was written.
    fn release(&mut self, packet: Handle) {
        if !packet.shared {
            self.slab.release(packet.slot);
        }
    }

    /// A slot for the next packet; none if the limit of packets in flight is reached.
    fn free_slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.slab.take() {
            return Some(slot);
        }
        if self.refusals > 0 {
            self.refusals -= 1;
            return None;
        }
        let Self { slab, network, due, .. } = self;
        slab.collect(|marks| {
            network.for_each_payload(|packet| {
                if packet.slot != NO_SLOT {
                    marks.mark_used(packet.slot);
                }
            });
            due.iter().for_each(|due| marks.mark_used(due.packet.slot));
        });
        let slot = slab.take();
        self.refusals = if slot.is_some() { 0 } else { REFUSALS };
        slot
    }
}

/// A packet as a device's frame.
fn written<'a>(slab: &'a Slab, scratch: &'a mut [u8; SLOT], packet: Handle) -> &'a [u8] {
    let bytes = &slab.bytes(packet.slot)[..PREFIX + usize::from(packet.length)];
    if !packet.marked {
        return bytes;
    }
    // On a copy: of a duplicated packet, only one may be marked.
    let copy = &mut scratch[..bytes.len()];
    copy.copy_from_slice(bytes);
    header::mark_ce(&mut copy[PREFIX..]);
    copy
}

#[cfg(test)]
mod tests;
