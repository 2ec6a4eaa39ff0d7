//! The MPTCP connection: data sequence space, shared buffers, scheduling, path management.
//!
//! A [`Connection`] is both ends, which exchange [`Packet`]s over the network. `tcp` is the transport of a subflow,
//! `accounting` the shared buffers, `sender` the assignment of data to subflows, `receiver` the reassembly;
//! `connection` opens and closes subflows.

pub mod accounting;
mod connection;
mod echoes;
mod io;
mod members;
mod options;
mod packet;
pub mod pathpolicy;
mod protocol;
mod reassembly;
mod receiver;
pub mod scheduler;
mod send_queue;
mod sender;
mod subflow;

pub use connection::Connection;
pub use io::{Io, Timer};
pub use members::Members;
pub use options::{ConnectionOptions, ScriptedAction, ScriptedEvent};
pub use packet::{Ack, Answered, Content, Mapping, Packet, Segment};
pub use protocol::{Protocol, Rules};
pub use subflow::{Subflow, Totals};
