//! Notifications to systemd (sd_notify(3)). Without systemd nothing happens.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variable with the socket of systemd.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The variable with the time between two signs of life that it expects, microseconds.
const WATCHDOG: &str = "WATCHDOG_USEC";

/// The receiver of notifications, if there is any.
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    alive_every: Option<Duration>,
}

impl Notify {
    /// Configured by the environment.
    pub fn open() -> Self {
        let place = std::env::var_os(SOCKET);
        let address = place.as_ref().and_then(|place| match place.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [b'/', ..] => SocketAddr::from_pathname(place).ok(),
            _ => None,
        });
        let every = std::env::var(WATCHDOG).ok().and_then(|text| text.parse().ok());
        Self {
            to: address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))),
            // Twice as often as needed.
            alive_every: every.map(|us: u64| Duration::from_micros(us / 2)),
        }
    }

    /// Time between two calls of `alive`; none if none is expected.
    pub fn alive_every(&self) -> Option<Duration> {
        self.alive_every.filter(|_| self.to.is_some())
    }

    /// It works, with a line on what it does.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// It still works.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// It is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}
