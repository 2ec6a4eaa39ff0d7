//! Detached processes, which go on when their starter is killed: the beginning of the guardian and the reverter.
//!
//! Both directions are one socket, its standard input. Its first line is its order; it goes on in a child that leads
//! a new session, and answers with a line when it is ready.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program that is running, even if its file is gone.
pub const SELF: &str = "/proc/self/exe";
/// Time to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a command in this role with `line` as its order; it has answered `ready` when this returns. The other end of its
/// standard input.
///
/// # Errors
/// It cannot be started, or does not answer.
pub fn start(command: &mut Command, role: &str, line: &str, ready: &str) -> io::Result<UnixStream> {
    let (mut socket, its) = UnixStream::pair()?;
    let command = command.arg0("mptune-agent").arg(role).stdin(OwnedFd::from(its));
    let mut started = command.stderr(Stdio::null()).spawn()?;
    // Only the child has the other end now.
    command.stdin(Stdio::null());
    super::steps::changed();
    socket.set_read_timeout(Some(PATIENCE))?;
    let begun = socket.write_all(line.as_bytes()).and_then(|()| {
        let mut answer = vec![0; ready.len()];
        socket.read_exact(&mut answer)?;
        if answer == ready.as_bytes() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    });
    // It goes on in a child, and this process ends at once, whatever became of it.
    if begun.is_err() {
        let _ = started.kill();
    }
    started.wait()?;
    begun.map(|()| socket)
}
