//! A TUN device in a network namespace.
//!
//! Not its addresses, routes and queue length, which the namespace's creator sets.

use crate::config::Interface;
use crate::error::{ProcessError, TunError};
use crate::processors;
use crate::relay::Ports;
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

const TUN: &str = "/dev/net/tun";

/// The device of an interface.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    tun: File,
    namespace: File,
    /// Packets that it refused.
    refused: u64,
}

impl Device {
    /// Creates the device, which receives on the given processor, if any; it exists until it is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// The failed step, and its requirement.
    pub fn create(interface: &Interface, receiving: Option<usize>) -> Result<Self, ProcessError> {
        let name = interface.device.clone();
        let path = &interface.netns;
        let namespace = File::open(path).map_err(|error| ProcessError::Interface {
            device: name.clone(),
            namespace: path.clone(),
            error,
        })?;
        let make = || {
            receiving.iter().for_each(|&processor| processors::receive_on(processor));
            create(&name)
        };
        let tun = within(&namespace, make).map_err(|error| ProcessError::Tun {
            device: name.clone(),
            namespace: path.clone(),
            error,
        })?;
        Ok(Self { name, tun, namespace, refused: 0 })
    }

    /// Packets that it dropped because they were not read, or not received, in time, without those that it refused; 0
    /// if unknown.
    pub fn lost(&self) -> u64 {
        let count = || {
            let table = fs::read_to_string("/proc/thread-self/net/dev").ok();
            Ok(table.and_then(|table| dropped(&table, &self.name)))
        };
        let count = within(&self.namespace, count).ok().flatten();
        count.unwrap_or(0).saturating_sub(self.refused)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// Runs a function in a namespace: in a separate thread, because a thread that enters cannot leave.
fn within<T: Send>(
    namespace: &File,
    action: impl FnOnce() -> Result<T, TunError> + Send,
) -> Result<T, TunError> {
    let enter_and_act = || {
        sys::enter_network_namespace(namespace).map_err(TunError::Entering)?;
        action()
    };
    thread::scope(|scope| scope.spawn(enter_and_act).join()).unwrap_or(Err(TunError::Panicked))
}

/// Creates a TUN device in this thread's namespace.
fn create(name: &str) -> Result<File, TunError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(TUN).map_err(|error| TunError::File(TUN, error))?;
    sys::create_tun(&file, name).map_err(TunError::Creating)?;
    sys::enable_offloads(&file);
    Ok(file)
}

/// A device's drops in both directions, from the table in proc_pid_net(5).
fn dropped(table: &str, name: &str) -> Option<u64> {
    let of = |line: &str| -> Option<u64> {
        let counters = line.trim_start().strip_prefix(name)?.strip_prefix(':')?;
        let counters: Vec<u64> = counters.split_whitespace().flat_map(str::parse).collect();
        // Eight columns each for receiving and sending: bytes, packets, errors, drops and others.
        Some(counters.get(3)? + counters.get(11)?)
    };
    table.lines().find_map(of)
}

impl Ports for Vec<Device> {
    #[inline]
    fn receive(&mut self, device: usize, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let device = &mut self[device];
        match device.tun.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("device {}: {error}; has its namespace ended?", device.name()),
            )),
        }
    }

    #[inline]
    fn send(&mut self, device: usize, packet: &[u8]) -> io::Result<()> {
        let device = &mut self[device];
        let written = device.tun.write(packet).map(drop);
        device.refused += u64::from(written.is_err());
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_the_named_device_are_read() {
        let table = "Inter-|   Receive                         |  Transmit\n \
            face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
            if10: 100 1 2 3 4 5 6 7 800 9 10 99 12 13 14 15\n  \
            if1: 100 1 2 3 4 5 6 7 800 9 10 11 12 13 14 15\n";
        assert_eq!(dropped(table, "if1"), Some(3 + 11));
        assert_eq!(dropped(table, "if"), None);
    }
}
