//! The two traits of queue disciplines.

use crate::engine::Random;
use crate::network::counters::LinkCounters;
use crate::network::place::InFlight;
use crate::units::{Bytes, Nanos};

/// The queue at a packet's arrival.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Bytes that wait or are being sent.
    pub queued: Bytes,
    /// Idle time of the line if nothing is queued.
    pub idle: Nanos,
    /// Serialisation time of a full packet; none at rate 0.
    pub packet_time: Option<Nanos>,
    /// The packet is ECN-capable.
    pub ect: bool,
}

/// The treatment of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Take,
    Mark,
    Drop,
}

impl Verdict {
    /// Signal congestion to a packet: by a mark if possible.
    pub fn signal(markable: bool) -> Self {
        if markable { Self::Mark } else { Self::Drop }
    }
}

/// A discipline that judges packets on arrival.
pub trait OnArrival {
    /// Its parameters.
    type Spec;

    fn new(spec: &Self::Spec, random: Random) -> Self;

    /// The treatment of a packet that fits.
    fn judge(&mut self, arrival: &Arrival) -> Verdict;
}

/// A discipline that decides when packets leave; it keeps them.
pub trait OnDeparture<P> {
    /// Its parameters.
    type Spec;

    fn new(spec: &Self::Spec, random: Random) -> Self;

    /// Packets in it.
    fn len(&self) -> usize;

    /// Takes a packet of a flow unless there would be more than `limit` bytes; one packet always fits.
    fn push(&mut self, packet: InFlight<P>, flow: u32, limit: Bytes, counters: &mut LinkCounters);

    /// The next packet to send at `now`, after dropping or marking what is due.
    fn next(&mut self, now: Nanos, counters: &mut LinkCounters) -> Option<InFlight<P>>;

    /// Visits all packets in it.
    fn for_each(&self, visit: impl FnMut(&InFlight<P>));
}
