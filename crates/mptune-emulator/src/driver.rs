//! The emulation in the kernel of a guest: devices, packets and timers are its driver's (`mptune_network.c` of
//! `python/mptune/guest`), and this process only passes on what it is told.
//!
//! Each line that is written to the driver's file is a command, the first one the configuration. What can be read
//! afterwards is its answer, or the reason why it was refused.

use crate::config::Interface;
use crate::error::ProcessError;
use crate::sys;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// The driver's file, which only such a kernel has.
const FILE: &str = "/dev/mptune-network";
/// The command for the end: it is answered with the report.
pub(crate) const STOP: &[u8] = br#"{"action": "stop"}"#;
/// The command for the next piece of the recording, after the end.
pub(crate) const RECORDS: &[u8] = b"records";

/// The open file. With it all devices disappear.
#[derive(Debug)]
pub(crate) struct Driver(File);

impl Driver {
    /// Opens it; none if the kernel has no driver.
    ///
    /// # Errors
    /// It is there and cannot be opened.
    pub fn open() -> Result<Option<Self>, ProcessError> {
        match OpenOptions::new().read(true).write(true).open(FILE) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ProcessError::System(FILE, error)),
        }
    }

    /// Writes a line; the answer.
    ///
    /// # Errors
    /// The reason why it was refused.
    pub fn tell(&mut self, line: &[u8]) -> Result<Vec<u8>, ProcessError> {
        let failed = |error| ProcessError::System(FILE, error);
        let written = self.0.write(line);
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).map_err(failed)?;
        match written {
            Ok(_) => Ok(answer),
            Err(error) if answer.is_empty() => Err(failed(error)),
            Err(_) => Err(ProcessError::Driver(String::from_utf8_lossy(&answer).into_owned())),
        }
    }

    /// Creates the device of the next interface of the configuration.
    ///
    /// # Errors
    /// The failed step.
    pub fn add(&self, interface: &Interface) -> Result<(), ProcessError> {
        let Interface { device, netns, .. } = interface;
        let failed = |error| ProcessError::Interface {
            device: device.clone(),
            namespace: netns.clone(),
            error,
        };
        let namespace = File::open(netns).map_err(failed)?;
        sys::add_device(&self.0, &namespace, device).map_err(failed)
    }
}
