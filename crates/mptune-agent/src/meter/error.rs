//! Failures of the halves of a measurement.

use crate::control;
use crate::kernel::error as kernel;
use mptune_core::error::SpecError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Failure of a half before or beside its measurement, whose own failures are part of its report.
#[derive(Debug, Error)]
pub enum Error {
    /// A key of the configuration has a wrong value.
    #[error("configuration: {key}: {expected}")]
    Configuration {
        /// The key.
        key: String,
        /// Expected and actual value.
        expected: String,
    },
    /// The host of a half has no socket for it.
    #[error("{half}: a socket on its host: {error}")]
    Socket {
        /// The sender or the receiver.
        half: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The opener's host has no MPTCP.
    #[error("{half}: a socket on its host: {error}; sysctl net.mptcp.enabled=1 there")]
    NoMptcp {
        /// The sender or the receiver.
        half: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The opener's address cannot be bound.
    #[error("local: {0}: {1}")]
    Local(IpAddr, io::Error),
    /// A half cannot listen there.
    #[error("{half}: listening on {at}: {error}")]
    Listening {
        /// The sender or the receiver.
        half: &'static str,
        /// The address with its port.
        at: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The system refuses a buffer.
    #[error("{half}: setting {option} to {bytes}: {error}")]
    Buffer {
        /// The sender or the receiver.
        half: &'static str,
        /// Name of the socket option.
        option: &'static str,
        /// Its value.
        bytes: u32,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel refuses the congestion control.
    #[error(
        "cc: congestion control {name:?} is {}; available: {available}; module tcp_{name} or a BPF program would \
         supply it",
        refusal(.error)
    )]
    Congestion {
        /// Its name.
        name: String,
        /// Names of those that the kernel has.
        available: String,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel has no socket diagnostics.
    #[error("sender: socket diagnostics: {0}")]
    Diagnostics(kernel::Error),
    /// Another system call failed, in this activity of a half.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The conversation with the controller failed.
    #[error(transparent)]
    Control(#[from] control::Error),
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::Configuration { key: error.key, expected: error.expected }
    }
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "not in this kernel".to_owned(),
        Some(libc::EPERM) => "only for privileged processes here".to_owned(),
        _ => error.to_string(),
    }
}
