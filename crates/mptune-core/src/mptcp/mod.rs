//! The MPTCP connection: data sequence space, shared buffers, scheduling, path management.
//!
//! Both ends live in one [`Connection`]; what passes between them is [`Packet`]s on the network. One
//! subflow's transport is `tcp`'s business.

mod connection;
pub mod memory;
mod packet;
mod reassembly;
pub mod scheduler;
mod series;
mod subflow;

pub use connection::{
    Connection, ConnectionOptions, Io, MAX_SUBFLOWS, ScriptedAction, ScriptedEvent, Stall, Timer,
    Workload,
};
pub use packet::{Kind, Packet};
pub use series::Series;
pub use subflow::{Subflow, Totals};
