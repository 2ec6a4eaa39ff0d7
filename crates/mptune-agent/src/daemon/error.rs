//! Failures that end the daemon, or a reload.

use super::table;
use crate::kernel::error as kernel;
use crate::undo::error as undo;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Failure of the daemon, or of an order to it.
#[derive(Debug, Error)]
pub enum Error {
    /// The policy file, or an answer that it names, is wrong.
    #[error(transparent)]
    File(#[from] table::Error),
    /// The kernel has no MPTCP.
    #[error("this kernel has no MPTCP (CONFIG_MPTCP, Linux 5.6 and later)")]
    NoMptcp,
    /// The metrics cannot be at this address; with who wants that.
    #[error("{0}: expected an address of this machine with a free port, found {1}: {2}")]
    Metrics(String, SocketAddr, io::Error),
    /// The program that started it, and with which it has to end, has ended.
    #[error("the program that started the daemon has ended")]
    Orphan,
    /// A reader names a policy that does not exist.
    #[error("policy: expected one of {known}, found {found:?}")]
    Policy {
        /// Names of the policies.
        known: String,
        /// The name in the request.
        found: String,
    },
    /// A system call on the socket failed.
    #[error("{}: {}", .0.display(), .1)]
    Socket(PathBuf, io::Error),
    /// The directory of the socket cannot be made.
    #[error("{}: {}: the socket's directory", .0.display(), .1)]
    SocketDirectory(PathBuf, io::Error),
    /// The path of the socket is taken, or is none.
    #[error("{}: expected {}", .0.display(), .1)]
    SocketPlace(PathBuf, &'static str),
    /// The user may not write the setting of the path manager.
    #[error("{0} (it takes CAP_NET_ADMIN and a /proc/sys/net/mptcp that can be written)")]
    Denied(undo::Error),
    /// The guardian cannot be started.
    #[error("the watchdog's process: {0}")]
    Watchdog(io::Error),
    /// The journal or the lock failed.
    #[error(transparent)]
    Undo(#[from] undo::Error),
    /// A conversation with the kernel failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// Another system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}
