//! One session at a time in a network namespace of a host.
//!
//! The lock is a listening UNIX socket with an abstract name: such names belong to the network namespace, end
//! with the last process that holds the socket, and leave no file. The session and its guardian hold it
//! together: the next session begins when both are gone and everything is as before.

use super::places;
use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a guardian may need to put back what its session has changed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock of a session, or of another that is alone in its network namespace.
pub struct Lock(UnixListener);

impl Lock {
    /// Takes the lock of this network namespace for sessions that keep their journals in `directory`.
    ///
    /// # Errors
    /// One line: who has it, or why there is none.
    pub fn take(directory: &Path) -> Result<Self, String> {
        Self::take_named(directory.as_os_str().as_bytes(), "session")
    }

    /// Takes the lock of this name, of which each network namespace has one; `who` has it, in a word.
    ///
    /// # Errors
    /// As for [`Lock::take`].
    pub fn take_named(name: &[u8], who: &str) -> Result<Self, String> {
        let named = |error: io::Error| format!("the {who}'s lock: {error}");
        let address = SocketAddr::from_abstract_name([b"mptune-agent ", name].concat());
        let address = address.map_err(named)?;
        let end = Instant::now() + PATIENCE;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(socket) => return Ok(Self(socket)),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(named(error)),
                Err(_) => {}
            }
            if let Some(pid) = holder(&address) {
                return Err(format!(
                    "another {who} is at work in this network namespace: process {pid}"
                ));
            }
            if Instant::now() > end {
                return Err(format!("the last {who} in this network namespace has not ended yet"));
            }
            thread::sleep(PAUSE);
        }
    }

    /// The lock again, for the guardian.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}

/// The session that listens at an address, if it is alive; a guardian alone is none.
fn holder(address: &SocketAddr) -> Option<u32> {
    let connection = UnixStream::connect_addr(address).ok()?;
    let credentials = sys::option(
        connection.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_PEERCRED,
        size_of::<libc::ucred>(),
    );
    let pid = u32::from_ne_bytes(*credentials.ok()?.first_chunk()?);
    places::began(pid).map(|_| pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_the_last_copy_is_gone() {
        let directory = format!("/nowhere/{}", std::process::id());
        let directory = Path::new(&directory);
        let lock = Lock::take(directory).unwrap();
        let copy = lock.share().unwrap();
        drop(lock);
        let refused = Lock::take(directory).err().unwrap();
        assert!(refused.ends_with(&format!("process {}", std::process::id())), "{refused}");
        drop(copy);
        assert!(Lock::take(directory).is_ok());
        assert!(Lock::take(&directory.join("other")).is_ok());
    }
}
