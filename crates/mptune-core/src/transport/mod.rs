//! The seam between the simulation and a protocol: what the ends of a connection are told, and what they are
//! asked. MPTCP and plain TCP stand behind it (`mptcp`); another protocol is a folder with its own type.
//!
//! Dispatch is static: a simulation is made for one type of connection.

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
use crate::units::Nanos;
use std::fmt::Debug;

/// Both ends of a connection, and what they think of the network between them.
pub trait Transport: Debug + Sized {
    /// What they exchange.
    type Packet: Carried + Debug;
    /// What a timer of theirs is for.
    type Timer: Copy + Debug;
    /// How they behave.
    type Options;

    /// The connection with this number, which begins by a timer.
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

    /// When everything there is to send was delivered.
    fn completed_at(&self) -> Option<Nanos>;

    /// Payload bytes delivered in order.
    fn series(&self) -> &Series;

    /// When and why it stopped for good, if it did; `alive`: something could still happen in the network.
    fn stalled(&self, alive: bool) -> Option<(Nanos, String)>;

    /// What contradicts itself in its books, if anything: a fault of the simulator.
    fn contradiction(&self) -> Option<String>;

    /// Adds what the sender of each subflow thinks now.
    fn add_samples(&self, now: Nanos, samples: &mut Vec<Sample>);

    /// What it did until `end`.
    fn totals(&self, end: Nanos) -> Totals;
}
