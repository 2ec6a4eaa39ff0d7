//! The guardian of a session: a process apart that puts back what the session has changed if the session is
//! killed. The role `guardian`, started by the role `host` only.
//!
//! ```text
//! in   {"journal": "/run/mptune/journal-....json"}
//! out  {"event": "watching"}
//! in   {"action": "farewell"}   everything is as before; the end of its input without it: put it back
//! ```
//!
//! Both directions are one socket, its standard input: either side sees at once when the other is gone.
//! Its standard output is the session's lock, which it holds open and never writes.

use super::journal::{self, Journal};
use super::lock::Lock;
use super::places;
use crate::log;
use crate::sys::{self, Watch};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program that is running, even if its file is gone.
pub const SELF: &str = "/proc/self/exe";
/// How long it may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(5);

const WATCHING: &str = "{\"event\": \"watching\"}\n";
const FAREWELL: &str = "{\"action\": \"farewell\"}\n";

/// Its first line of input: what to watch over.
#[derive(Serialize, Deserialize)]
struct Charge {
    journal: PathBuf,
}

/// A guardian, as its session sees it.
pub struct Guardian {
    socket: UnixStream,
}

impl Guardian {
    /// Starts one; it watches when this returns.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(journal: &Path, lock: &Lock) -> io::Result<Self> {
        let (socket, its) = UnixStream::pair()?;
        let mut started = Command::new(SELF)
            .arg0("mptune-agent")
            .arg("guardian")
            .current_dir("/")
            .stdin(OwnedFd::from(its))
            .stdout(lock.share()?)
            .stderr(Stdio::null())
            .spawn()?;
        let begun = begin(&socket, &Charge { journal: journal.to_owned() });
        // It goes on in a child, and this process ends at once, whatever became of it.
        if begun.is_err() {
            let _ = started.kill();
        }
        started.wait()?;
        begun.map(|()| Self { socket })
    }

    /// Ends it; nothing is left to put back.
    pub fn dismiss(mut self) {
        let _ = self.socket.write_all(FAREWELL.as_bytes());
        let _ = self.socket.set_read_timeout(Some(PATIENCE));
        let _ = self.socket.read(&mut [0; 64]); // its end, after which the lock is free
    }

    /// Readable when it is gone.
    pub fn watch(&self) -> Watch<'_> {
        Watch::readable(&self.socket)
    }
}

/// Tells a new guardian what to do and waits until it does.
fn begin(mut socket: &UnixStream, charge: &Charge) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let line = serde_json::to_string(charge)? + "\n";
    socket.write_all(line.as_bytes())?;
    let mut answer = vec![0; WATCHING.len()];
    socket.read_exact(&mut answer)?;
    if answer == WATCHING.as_bytes() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The role.
pub fn main() -> i32 {
    match guard() {
        Ok(()) => 0,
        Err(error) => {
            log::say(&format!("mptune-agent: guardian: {error}"));
            1
        }
    }
}

fn guard() -> io::Result<()> {
    sys::detach()?;
    // Blocked: only the session ends it.
    let _signals = sys::signals_as_file()?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = BufReader::new(&socket);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let charge: Charge = serde_json::from_str(&line)?;
    (&socket).write_all(WATCHING.as_bytes())?;
    line.clear();
    // An error is an end too: the session is gone with something unread.
    if lines.read_line(&mut line).is_ok() && line == FAREWELL {
        return Ok(());
    }
    places::reached("guardian", "alone");
    match Journal::open(&charge.journal, "guardian") {
        Ok(mut journal) => journal.restore(None).map(drop),
        // Nothing was changed; the session may have been killed while it wrote.
        Err(error) if error.kind() == io::ErrorKind::NotFound => journal::forget(&charge.journal),
        Err(error) => Err(error),
    }
}

impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
