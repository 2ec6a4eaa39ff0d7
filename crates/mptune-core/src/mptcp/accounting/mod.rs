//! The shared buffers of a connection, under any accounting.
//!
//! Under [`Accounting::Payload`] a buffer of B bytes holds B bytes of payload, and windows are counted in
//! segments. Under [`Accounting::Linux`] B is the value given to `SO_SNDBUF` and `SO_RCVBUF`, and `memory` determines
//! the room. [`SendBuffer`] and [`ReceiveBuffer`] have the same interface under both.
//!
//! In [`BufferMode::Auto`] B is a limit up to which the buffers grow (`autotuning`): of payload, or the
//! memory that `tcp_wmem[2]` and `tcp_rmem[2]` allow, which is not doubled.

mod autotuning;
pub mod memory;
mod miscount;
mod modes;
mod pieces;
mod receive;
mod send;
mod send_window;

pub use autotuning::SendTuning;
pub use miscount::Miscount;
pub use modes::{Accounting, BufferMode, MODES, NAMES, Release};
pub use receive::ReceiveBuffer;
pub use send::SendBuffer;
pub use send_window::SendWindow;
