//! Notifications to systemd (sd_notify(3)). Without systemd nothing happens.

use std::ffi::OsStr;
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
        let every = std::env::var(WATCHDOG).ok().and_then(|text| text.parse().ok());
        Self {
            to: std::env::var_os(SOCKET).and_then(|place| to(&place)),
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

    /// A notification that there is no room for is lost: systemd may be busy, and connections do not wait for it.
    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// The way to a socket; none if it is none.
fn to(place: &OsStr) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        [b'/', ..] => SocketAddr::from_pathname(place).ok()?,
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_systemd_that_does_not_read() {
        let place = std::env::temp_dir().join(format!("mptune-notify-{}", std::process::id()));
        let systemd = UnixDatagram::bind(&place).unwrap();
        let notify = Notify { to: to(place.as_os_str()), alive_every: None };
        notify.ready("it works");
        // More than any socket holds.
        for _ in 0..10_000 {
            notify.alive();
        }
        std::fs::remove_file(&place).unwrap();
        let mut text = [0; 64];
        let length = systemd.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1\nSTATUS=it works");
        assert!(to(OsStr::new("relative")).is_none());
    }
}
