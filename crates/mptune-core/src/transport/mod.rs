//! The interface between the simulation and a transport protocol. MPTCP and plain TCP implement it (`mptcp`);
//! another protocol is a folder with its own type. Dispatch is static: a simulation has one type of connection.

mod io;
mod sample;
mod series;
mod totals;

pub use io::Io;
pub use sample::Sample;
pub use series::{BIN, Series};
pub use totals::{RoleChange, SubflowOutcome, Totals};

use crate::engine::Source;
use crate::network::Carried;
use crate::pathmanager::SubflowId;
use crate::units::{Bytes, Nanos};
use std::fmt::Debug;

/// Both ends of a connection.
pub trait Transport: Debug + Sized {
    /// A packet.
    type Packet: Carried + Debug;
    /// The purpose of a timer.
    type Timer: Copy + Debug;
    /// The options of a connection.
    type Options;

    /// The connection with this number; a timer starts it.
    fn open(number: usize, options: Self::Options, io: &mut Io<Self::Packet, Self::Timer>) -> Self;

    /// A packet of a subflow arrived at the data receiver.
    fn on_receiver_packet(
        &mut self,
        io: &mut Io<Self::Packet, Self::Timer>,
        id: SubflowId,
        packet: &Self::Packet,
    );

    /// A packet of a subflow arrived at the data sender.
    fn on_sender_packet(
        &mut self,
        io: &mut Io<Self::Packet, Self::Timer>,
        id: SubflowId,
        packet: &Self::Packet,
    );

    /// A timer's event is due.
    fn on_timer(
        &mut self,
        io: &mut Io<Self::Packet, Self::Timer>,
        source: Source,
        timer: Self::Timer,
    );

    /// Time at which the whole workload was delivered.
    fn completed_at(&self) -> Option<Nanos>;

    /// Payload bytes delivered in order.
    fn series(&self) -> &Series;

    /// Its data receiver is at the network's sending site.
    fn is_reversed(&self) -> bool;

    /// Its data receiver opens it, before anything has happened.
    fn accept(&mut self);

    /// Data of it were acknowledged.
    fn is_fully_established(&self) -> bool;

    /// The data receiver, which opened it, knows that the peer answers: it may open further subflows.
    fn on_peer_established(&mut self, io: &mut Io<Self::Packet, Self::Timer>);

    /// It is established, and its program can send.
    fn is_open(&self) -> bool;

    /// Its program offers this much more.
    fn offer(&mut self, io: &mut Io<Self::Packet, Self::Timer>, bytes: Bytes);

    /// Its program's timer is due then, if that is before [`crate::units::NEVER`].
    fn wake_at(&mut self, io: &mut Io<Self::Packet, Self::Timer>, at: Nanos);

    /// Segments that its sender has sent on the subflow with this number, each time that it did; none without that
    /// subflow.
    fn sent(&self, number: usize) -> Option<u64>;

    /// Data of the connection in the other direction leave, at this one's receiver, on their subflow with this number: ACKs
    /// travel with them.
    fn on_data_sent_back(&mut self, io: &mut Io<Self::Packet, Self::Timer>, number: usize);

    /// Delays of the messages that arrived in order, if the workload is a series of them.
    fn delays(&self) -> Option<&[Nanos]>;

    /// Time and reason of a permanent stall, if there is one; `alive`: the network still has events.
    fn stalled(&self, alive: bool) -> Option<(Nanos, String)>;

    /// A contradiction in its accounts: a fault of the simulator.
    fn contradiction(&self) -> Option<String>;

    /// Adds a sample of each subflow's sender.
    fn add_samples(&self, now: Nanos, samples: &mut Vec<Sample>);

    /// Its totals up to `end`.
    fn totals(&self, end: Nanos) -> Totals;
}
