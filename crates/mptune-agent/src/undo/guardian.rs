//! The guardian of a session: a detached process that puts back what the session has changed if the session is
//! killed. The role `guardian`, started by the role `host` only.
//!
//! ```text
//! in   {"directory": "/run/mptune-root", "journal": "journal-....json", "lock": "lock-..."}
//! out  {"event": "watching"}
//! in   {"action": "farewell"}   everything is as before; the end of its input without it: put it back
//! ```
//!
//! Both directions are one socket, its standard input: either side sees at once when the other is gone.
//! Its standard output is the session's lock, which it holds open and never writes. It is started in the
//! directory of the journal, and finds it there.

use super::detached;
use super::directory::Directory;
use super::lock::Lock;
use super::session::{self, Journal};
use super::steps;
use crate::kernel::signals;
use crate::kernel::sys::{self, Watch};
use crate::log;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time to end.
const PATIENCE: Duration = Duration::from_secs(5);

const WATCHING: &str = "{\"event\": \"watching\"}\n";
const FAREWELL: &str = "{\"action\": \"farewell\"}\n";

/// Its first line of input: what to watch over.
#[derive(Serialize, Deserialize)]
struct Charge {
    /// For messages, and to remove it.
    directory: PathBuf,
    journal: String,
    lock: String,
}

/// Longest line that names what to watch over.
const CHARGE_BYTES: u64 = 1 << 13;

/// A guardian, as its session sees it.
pub struct Guardian {
    socket: UnixStream,
}

impl Guardian {
    /// Starts one; it watches when this returns.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(journal: &Journal, lock: &Lock) -> io::Result<Self> {
        let mut command = Command::new(detached::SELF);
        command.current_dir(journal.directory().as_link()).stdout(lock.share()?);
        let charge = Charge {
            directory: journal.directory().path().to_owned(),
            journal: journal.name().to_owned(),
            lock: lock.name().to_owned(),
        };
        let line = serde_json::to_string(&charge)? + "\n";
        Ok(Self { socket: detached::start(&mut command, "guardian", &line, WATCHING)? })
    }

    /// Ends it; nothing is left to put back.
    pub fn dismiss(mut self) {
        let _ = self.socket.write_all(FAREWELL.as_bytes());
        let _ = self.socket.set_read_timeout(Some(PATIENCE));
        // Its end, after which nobody else holds the lock; a signal does not cut the wait short.
        while self.socket.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::Interrupted)
        {
        }
    }

    /// Readable when it is gone.
    pub fn watch(&self) -> Watch<'_> {
        Watch::readable(&self.socket)
    }
}

/// The role.
pub fn main() -> i32 {
    steps::begin("guardian");
    match guard() {
        Ok(()) => 0,
        Err(error) => {
            log::write(&format!("mptune-agent: guardian: {error}"));
            1
        }
    }
}

fn guard() -> io::Result<()> {
    sys::detach()?;
    // Only the session ends it.
    signals::block()?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = BufReader::new(&socket);
    let mut line = String::new();
    lines.by_ref().take(CHARGE_BYTES).read_line(&mut line)?;
    let charge: Charge = serde_json::from_str(&line)?;
    let directory = Directory::open(Path::new("."))?.called(charge.directory);
    let lock = Lock::shared(io::stdout().as_fd().try_clone_to_owned()?, charge.lock);
    (&socket).write_all(WATCHING.as_bytes())?;
    line.clear();
    // An error is an end too: the session is gone with something unread.
    if lines.take(CHARGE_BYTES).read_line(&mut line).is_ok() && line == FAREWELL {
        return Ok(());
    }
    steps::reached("alone");
    let done = match Journal::open(&directory, &charge.journal) {
        Ok(mut journal) => journal.restore(None).map(drop),
        // Nothing was changed; the session may have been killed while it wrote.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            session::forget(&directory, &charge.journal)
        }
        Err(error) => Err(error),
    };
    lock.remove(&directory);
    done
}

impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
