//! The MPTCP connection: data sequence space, shared buffers, scheduling, path management.
//!
//! Both ends live in one [`Connection`]; they exchange [`Packet`]s over the network. `tcp` handles one
//! subflow's transport. `accounting` determines what fits the shared buffers, `sender` what goes on which
//! subflow, `receiver` what arrived; `connection` decides which subflows there are.

pub mod accounting;
mod connection;
mod io;
mod options;
mod packet;
mod protocol;
mod reassembly;
mod receiver;
pub mod scheduler;
mod sender;
mod subflow;

pub use connection::Connection;
pub use io::{Io, Timer};
pub use options::{ConnectionOptions, Family, ScriptedAction, ScriptedEvent};
pub use packet::{Ack, Content, Mapping, Packet, Segment};
pub use protocol::{Protocol, Rules};
pub use subflow::{Subflow, Totals};
