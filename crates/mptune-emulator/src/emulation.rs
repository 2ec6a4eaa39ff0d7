//! The emulation without devices, clock and files: frames, commands and the time come in, due frames and texts go out.
//!
//! [`crate::run`] gives it TUN devices and the system's clock; a guest's kernel (`mptune-guest-network`) gives it
//! devices and timers of its own.

use crate::clock::Clock;
use crate::config::Config;
use crate::control::Command;
use crate::error::Error;
use crate::recorder::Encoded;
use crate::relay::{Ports, Relay};
use crate::report::{Effort, Event, Report};
use mptune_core::units::Nanos;
use std::io;

/// Most packets in flight, 2 KiB each: half a gigabyte, 2 s at 1.5 Gbit/s.
const SLOTS: usize = 1 << 18;

/// The effect of a command on whoever drives the emulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The network's clock starts: its time is 0 now.
    Start,
    /// None.
    Nothing,
    /// The end.
    End,
}

/// A network with its packets, from its configuration to its report.
#[derive(Debug)]
pub struct Emulation {
    config: Config,
    pub(crate) relay: Relay,
    started: bool,
    encoded: Encoded,
}

impl Emulation {
    /// A network at time 0, from a line of JSON.
    ///
    /// # Errors
    /// The first problem of the configuration, with its key.
    pub fn new(line: &[u8]) -> Result<Self, Error> {
        Ok(Self::of(Config::parse(line)?))
    }

    pub(crate) fn of(config: Config) -> Self {
        let relay = Relay::new(&config, SLOTS);
        Self { config, relay, started: false, encoded: Encoded::default() }
    }

    /// Number of its devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.config.interfaces.len()
    }

    /// Executes a command, a line of JSON.
    ///
    /// # Errors
    /// The line is no command, or a second start.
    pub fn execute(&mut self, line: &[u8]) -> Result<Effect, Error> {
        match Command::parse(line, self.config.network.paths.len())? {
            Command::Start if self.started => return Err(Error::Started),
            Command::Start => {
                self.started = true;
                return Ok(Effect::Start);
            }
            Command::Down { path } => self.relay.set_path_up(path, false),
            Command::Up { path } => self.relay.set_path_up(path, true),
            Command::Stop => return Ok(Effect::End),
        }
        Ok(Effect::Nothing)
    }

    /// A device, by its position in the configuration, sends a frame: a `struct virtio_net_hdr` and a packet.
    pub fn enter(&mut self, device: usize, frame: &[u8], now: Nanos) {
        self.relay.enter(device, frame, now);
    }

    /// Gives every frame that is due to `send`, with its device; false from there counts it as lost.
    pub fn deliver(&mut self, now: Nanos, send: impl FnMut(usize, &[u8]) -> bool) {
        let (mut ports, clock) = (Outlet(send), At(now));
        loop {
            self.relay.deliver(&mut ports, &clock);
            if self.relay.next_at(now).is_none_or(|at| at > now) {
                return;
            }
        }
    }

    /// The latest time for the next call of [`Self::deliver`]; none for never, unless something enters.
    #[must_use]
    pub fn next_at(&self, now: Nanos) -> Option<Nanos> {
        self.relay.next_at(now)
    }

    /// The report, a line of JSON, of an emulation that cost no processor time of its own.
    #[must_use]
    pub fn report(&self, elapsed: Nanos, scheduling: &'static str) -> String {
        self.report_of(Effort { elapsed, scheduling, ..Effort::default() })
    }

    pub(crate) fn report_of(&self, effort: Effort) -> String {
        Event::Report(Report::new(&self.config, &self.relay, effort)).line()
    }

    /// The next records of the recording, at most `most` of them; none at its end, or without a recording.
    pub fn records(&mut self, most: usize) -> Vec<u8> {
        self.relay.records(&mut self.encoded, most)
    }
}

/// A time that stands still.
struct At(Nanos);

impl Clock for At {
    #[inline]
    fn now(&self) -> Nanos {
        self.0
    }
}

/// Devices that are only written to.
struct Outlet<F>(F);

impl<F: FnMut(usize, &[u8]) -> bool> Ports for Outlet<F> {
    fn receive(&mut self, _device: usize, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    #[inline]
    fn send(&mut self, device: usize, frame: &[u8]) -> io::Result<()> {
        if (self.0)(device, frame) { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }
}
