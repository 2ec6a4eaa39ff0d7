//! Socket memory as Linux counts it, of both ends of a connection.
//!
//! The value of `SO_SNDBUF` and `SO_RCVBUF` is doubled, each packet is charged its memory, the window follows from
//! the free memory, and it cuts segments at any length. `docs/explanation/buffers.md` describes the consequences. The
//! numbers and rules are those of Linux 6.18, named file by file.
//!
//! Segments are counted here as everywhere; this module stores their lengths, and the byte positions of both ends of
//! the data sequence space.

mod charge;
mod receive;
mod send;
mod subflow;

pub use charge::{DSS_SIZE, truesize};
pub use receive::ReceiveMemory;
pub use send::{Extent, SendMemory, WRITING, fixed_limit};
pub use subflow::{Compression, SubflowMemory, postponed};
