//! Failures of the emulation and of the process around it, each a line for the report's reader.

use mptune_core::error::SpecError;
use std::io;
use std::path::PathBuf;
use thiserror::Error as Derived;

/// A line that the emulation refuses. It changes nothing.
#[derive(Debug, Derived)]
pub enum Error {
    /// The configuration is not JSON of its form.
    #[error("configuration: expected an object: {0}")]
    Configuration(serde_json::Error),
    /// A value of the configuration is wrong.
    #[error("{0}")]
    Specification(SpecError),
    /// The line is no command.
    #[error("command: expected start, down, up or stop: {0}")]
    Command(serde_json::Error),
    /// A command names a path that does not exist.
    #[error("command: expected a path below {paths}, found {found}")]
    Path {
        /// Number of paths.
        paths: usize,
        /// The path in the command.
        found: usize,
    },
    /// A second start.
    #[error("command: expected one start, found another")]
    Started,
}

/// A failure that ends the process.
#[derive(Debug, Derived)]
pub(crate) enum ProcessError {
    /// The emulation refused a line.
    #[error(transparent)]
    Emulation(#[from] Error),
    /// The driver in the kernel refused a line; its own text.
    #[error("{0}")]
    Driver(String),
    /// A system call failed, or the file of this name.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
    /// The namespace of an interface cannot be opened, or the kernel's driver cannot make its device there.
    #[error("interface {device}: {}: {error}", .namespace.display())]
    Interface { device: String, namespace: PathBuf, error: io::Error },
    /// The TUN device of an interface cannot be made.
    #[error("interface {device} in {}: {error}", .namespace.display())]
    Tun { device: String, namespace: PathBuf, error: TunError },
    /// A device failed while packets were carried.
    #[error(transparent)]
    Carrying(io::Error),
    /// The recording cannot be written.
    #[error("recording: {}: {error}", .file.display())]
    Recording { file: PathBuf, error: io::Error },
}

/// The step at which a TUN device could not be made, and its requirement.
#[derive(Debug, Derived)]
pub(crate) enum TunError {
    /// The namespace cannot be entered.
    #[error("setns: {0}; root (CAP_SYS_ADMIN) is needed, also in a user namespace")]
    Entering(io::Error),
    /// The thread ended before its result.
    #[error("the thread that entered it panicked")]
    Panicked,
    /// The file of the kernel's driver cannot be opened.
    #[error("{0}: {1}; the kernel's tun driver and access to this file are needed")]
    File(&'static str, io::Error),
    /// The device cannot be created.
    #[error("TUNSETIFF: {0}; a name that is free and root (CAP_NET_ADMIN) are needed")]
    Creating(io::Error),
}
