//! Statistics of the connections that are steered: bytes, and the time in which the network limits them.
//!
//! Read from the kernel's socket statistics alone. It costs about 5 microseconds a connection.

use crate::kernel::diag::{Counting, Diag};
use crate::kernel::error::Error;
use crate::kernel::info::{MptcpInfo, TcpInfo};
use crate::kernel::pair::Pair;
use std::collections::HashMap;

/// A `struct mptcp_info` is shorter; kernels that cannot report connections report TCP sockets instead.
pub const LONGEST_MPTCP_INFO: usize = 200;

/// A connection at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Payload sent, each byte once.
    pub sent_bytes: u64,
    /// Payload sent once more on another subflow.
    pub reinjected_bytes: u64,
    /// Payload received in order.
    pub received_bytes: u64,
    /// Payload acknowledged.
    pub acked_bytes: u64,
    /// The send buffer is so full that the kernel does not wake the program.
    pub is_full: bool,
}

/// Busy time of each subflow, without the time in which the peer's window stopped it, nanoseconds.
pub type Busy = HashMap<Pair, u64>;

/// Reads the statistics of one network namespace.
pub struct Statistics {
    diag: Diag,
}

impl Statistics {
    /// In the current namespace.
    ///
    /// # Errors
    /// The kernel has no socket statistics.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { diag: Diag::open()? })
    }

    /// All connections, by token.
    ///
    /// # Errors
    /// The kernel reports no connections (CONFIG_INET_MPTCP_DIAG).
    pub fn connections(&mut self) -> Result<HashMap<u32, Seen>, Error> {
        let mut connections = HashMap::new();
        self.diag.census(Counting::Mptcp, |socket| {
            let info = MptcpInfo::parse(socket.info);
            if socket.info.len() > LONGEST_MPTCP_INFO {
                return;
            }
            let Some(token) = info.token.filter(|&token| token != 0) else { return };
            let seen = Seen {
                sent_bytes: info.bytes_sent.unwrap_or(0),
                reinjected_bytes: info.bytes_reinjected.unwrap_or(0),
                received_bytes: info.bytes_received.unwrap_or(0),
                acked_bytes: info.bytes_acked.unwrap_or(0),
                // Programs wait until a third of it is free (sk_stream_is_writeable).
                is_full: socket.send_buffer.is_some_and(|(queued, room)| {
                    room > 0 && u64::from(queued) * 3 >= u64::from(room) * 2
                }),
            };
            connections.insert(token, seen);
        })?;
        Ok(connections)
    }

    /// The subflows of all connections.
    ///
    /// # Errors
    /// The kernel has no socket statistics.
    pub fn busy(&mut self) -> Result<Busy, Error> {
        let mut busy = Busy::new();
        self.diag.census(Counting::Tcp, |socket| {
            if socket.mptcp.is_some() {
                let info = TcpInfo::parse(socket.info);
                busy.insert(socket.pair, info.busy_ns.saturating_sub(info.rwnd_limited_ns));
            }
        })?;
        Ok(busy)
    }
}
