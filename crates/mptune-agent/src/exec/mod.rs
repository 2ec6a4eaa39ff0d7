//! Starts a program into which no library can be preloaded, and makes its TCP sockets for it: the role `exec`.
//!
//! ```text
//! mptune-agent exec [--tcp] [--cc NAME] [--buffer BYTES] FILE NAME ARGUMENTS...
//! ```
//!
//! A filter before the system calls of the program and its children (`filter`) stops `socket()` where it makes
//! one of TCP; a process apart (`supervisor`) makes one of MPTCP instead, with the congestion control and the
//! buffers, and hands it over. This process becomes the program, so that its number, its exit status, its terminal
//! and its signals are the program's own. It takes no right that the user does not have. Not the preloaded library
//! (crate mptune-preload), which can do more where it can be had, and no role with lines of JSON.

mod filter;
mod supervisor;

use crate::kernel::seccomp;
use crate::log;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use supervisor::SocketOptions;
use thiserror::Error;

/// The name of the role, which takes all that follows it.
pub const EXEC: &str = "exec";

/// Failure to become the program.
#[derive(Debug, Error)]
enum Error {
    /// The command line lacks this.
    #[error("expected {0}, found nothing")]
    Missing(&'static str),
    /// An option has no value, or a wrong one.
    #[error("{0}: expected {1}")]
    Value(&'static str, &'static str),
    #[error("its system calls cannot be watched: {0}")]
    Unwatched(io::Error),
    #[error("cannot start {0}: {1}")]
    Program(String, io::Error),
}

/// Becomes the program; returns the exit status only if that fails.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let error = match parse(arguments) {
        Err(error) => error,
        Ok((options, mut program)) => match supervised(options) {
            Err(error) => Error::Unwatched(error),
            Ok(()) => {
                let file = program.get_program().to_string_lossy().into_owned();
                Error::Program(file, program.exec())
            }
        },
    };
    log::write(&format!("mptune: error: COMMAND: {error}"));
    2
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<(SocketOptions, Command), Error> {
    let mut options = SocketOptions { mptcp: true, cc: None, buffer_bytes: None };
    let file = loop {
        let word = arguments.next().ok_or(Error::Missing("a program"))?;
        let mut value = || arguments.next().and_then(|value| value.into_string().ok());
        match word.to_str() {
            Some("--tcp") => options.mptcp = false,
            Some("--cc") => options.cc = Some(value().ok_or(Error::Value("--cc", "a name"))?),
            Some("--buffer") => {
                let bytes = value().and_then(|text| text.parse().ok()).filter(|&bytes| bytes > 0);
                options.buffer_bytes =
                    Some(bytes.ok_or(Error::Value("--buffer", "a number of bytes"))?);
            }
            _ => break word,
        }
    };
    let mut program = Command::new(file);
    program.arg0(arguments.next().ok_or(Error::Missing("the program's name"))?);
    program.args(arguments);
    Ok((options, program))
}

/// From here on the sockets of this process are made by another one.
fn supervised(options: SocketOptions) -> io::Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    if seccomp::fork_apart()? {
        drop(ours);
        supervisor::main(&options, theirs);
    }
    drop(theirs);
    let listener = seccomp::install(&mut filter::program(options.mptcp))?;
    seccomp::send_descriptor(ours.as_fd(), listener.as_fd())?;
    ours.read_exact(&mut [0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(SocketOptions, Command), Error> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let (options, program) = parsed("--cc reno --buffer 4096 /bin/x x --tcp").unwrap();
        assert_eq!((options.mptcp, options.cc.as_deref()), (true, Some("reno")));
        assert_eq!(options.buffer_bytes, Some(4096));
        assert_eq!(program.get_program(), "/bin/x");
        assert_eq!(program.get_args().collect::<Vec<_>>(), ["--tcp"]);
        assert!(!parsed("--tcp /bin/x x").unwrap().0.mptcp);
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let cases = [
            ("", "a program"),
            ("/bin/x", "the program's name"),
            ("--cc", "--cc: "),
            ("--buffer 0 x x", "--buffer: "),
        ];
        for (line, expected) in cases {
            assert!(parsed(line).err().unwrap().to_string().contains(expected));
        }
    }
}
