//! A program of the user's, with everything that it starts, as one end of a trial: the role `program`.
//!
//! ```text
//! in   {"command": ["/usr/bin/curl", "curl", "-s", ...], "environment": {"MPTUNE_PORT": "5201", ...}, "listens": false}
//! out  {"event": "listening", "port": 5201}      if it listens, as soon as a socket of this namespace does
//! out  {"event": "exited", "status": 0, "signal": null, "elapsed_ns": 81000000, "stderr": "..."}
//! in   {"action": "stop"}                        or the end of the input: SIGTERM, and a second later it is killed
//! out  {"event": "stopped", "stderr": "..."}
//! out  {"event": "error", "reason": "..."}       instead of any of them: it cannot be started
//! ```
//!
//! The command is the file and then its arguments, from the name that the program is called by. Its standard input
//! and output are empty; the end of its standard error is kept.
//!
//! It runs in a PID namespace of its own (`first` is the first process there). When that process ends, however it
//! does, the kernel kills every other: daemons that left their session, too. Nothing here knows MPTCP: what makes the
//! program's sockets, and counts, is the preloaded library, which the environment names.

pub mod first;

use self::first::{FIRST, Job};
use crate::control::{self, Control, Input};
use crate::kernel::diag::Diag;
use crate::kernel::error as kernel;
use crate::kernel::sys::{self, Watch};
use crate::role;
use crate::undo::detached::SELF;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Time between two looks whether the program listens: the kernel has no event for that.
const LOOK: Duration = Duration::from_millis(5);
/// Time that a program has after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// Longest wait if nothing else limits it.
const TICK: Duration = Duration::from_secs(3600);
/// Bytes of standard error that are kept.
const KEPT_BYTES: usize = 4096;
/// Bytes read at a time.
const CHUNK: usize = 1 << 14;

#[derive(Debug, Error)]
enum Error {
    #[error("a PID namespace: {0}")]
    Namespace(io::Error),
    #[error("expected a command: {0}")]
    Command(#[from] serde_json::Error),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The first line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    listens: bool,
}

/// A later line.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
enum Order {
    Stop,
}

/// A line of output that is this process's own; how the program ended is the line of `first`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Message<'a> {
    Listening { port: u16 },
    Stopped { stderr: &'a str },
}

/// Runs a program between standard input and output; returns the exit status.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let config: Config = control.configuration()?;
    let mut looking = if config.listens { Some(Diag::open()?) } else { None };
    let mut running = Running::start(Job::new(config.command, config.environment))?;
    let mut stopped = false;
    while !stopped && !running.has_ended() {
        if let Some(diag) = &mut looking
            && let Some(port) = diag.listening()?
        {
            control.tell(&Message::Listening { port });
            looking = None;
        }
        let pause = if looking.is_some() { LOOK } else { TICK };
        match running.wait(control, pause)? {
            Some(Input::Line(line)) => match serde_json::from_str(&line)? {
                Order::Stop => stopped = true,
            },
            Some(Input::Closed | Input::Signal(_)) => stopped = true,
            None => {}
        }
    }
    running.ask();
    let end = Instant::now() + GRACE;
    while stopped && !running.has_ended() && Instant::now() < end {
        running.watch(end - Instant::now())?;
    }
    control.pass_on(&running.concluded(stopped)?);
    Ok(())
}

/// The program, and the processes that it started.
struct Running {
    first: Child,
    /// Its end asks the program to end.
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    report: Vec<u8>,
    errors: Option<ChildStderr>,
    stderr: Vec<u8>,
}

impl Running {
    fn start(job: Job) -> Result<Self, Error> {
        sys::unshare(libc::CLONE_NEWPID).map_err(Error::Namespace)?;
        let mut first = Command::new(SELF)
            .arg0("mptune-agent")
            .arg(FIRST)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (output, errors) = (first.stdout.take(), first.stderr.take());
        let input = first.stdin.take();
        let mut running =
            Self { first, input, output, report: Vec::new(), errors, stderr: Vec::new() };
        if let Some(input) = &mut running.input {
            input.write_all(format!("{}\n", serde_json::to_string(&job)?).as_bytes())?;
        }
        Ok(running)
    }

    /// Asks the program to end.
    fn ask(&mut self) {
        self.input = None;
    }

    /// Waits for the next command, reading meanwhile.
    fn wait(&mut self, control: &mut Control, pause: Duration) -> io::Result<Option<Input>> {
        let mut watches = self.watches();
        let input = control.wait(&mut watches, pause)?;
        let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
        drop(watches);
        self.serve(&ready)?;
        Ok(input)
    }

    /// The same without commands.
    fn watch(&mut self, pause: Duration) -> io::Result<()> {
        let mut watches = self.watches();
        sys::wait(&mut watches, pause)?;
        let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
        drop(watches);
        self.serve(&ready)
    }

    /// The first process has reported how the program ended, or has ended itself.
    fn has_ended(&self) -> bool {
        self.output.is_none()
    }

    fn watches(&self) -> Vec<Watch<'_>> {
        let output = self.output.as_ref().map(Watch::readable);
        output.into_iter().chain(self.errors.as_ref().map(Watch::readable)).collect()
    }

    /// Reads what has arrived; `ready` is in the order of the watches.
    fn serve(&mut self, ready: &[bool]) -> io::Result<()> {
        let mut ready = ready.iter().copied();
        if self.output.is_some() && ready.next() == Some(true) {
            take(&mut self.output, &mut self.report)?;
        }
        if self.errors.is_some() && ready.next() == Some(true) {
            take(&mut self.errors, &mut self.stderr)?;
            keep_end(&mut self.stderr);
        }
        Ok(())
    }

    /// Kills what is left, and gives the line about its end.
    fn concluded(mut self, stopped: bool) -> Result<String, Error> {
        self.kill();
        // Nobody has the other ends any more.
        while self.errors.is_some() {
            take(&mut self.errors, &mut self.stderr)?;
            keep_end(&mut self.stderr);
        }
        while self.output.is_some() {
            take(&mut self.output, &mut self.report)?;
        }
        let stderr = String::from_utf8_lossy(&self.stderr).into_owned();
        if stopped || self.report.is_empty() {
            return Ok(serde_json::to_string(&Message::Stopped { stderr: &stderr })?);
        }
        let mut line: Value = serde_json::from_slice(&self.report)?;
        line["stderr"] = stderr.into();
        Ok(line.to_string())
    }

    /// Ends every process of the namespace; the kernel has done so when this returns.
    fn kill(&mut self) {
        // One that has ended cannot be killed, and has been waited for.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads once from a pipe that is ready; at its end it is closed.
fn take<P: Read>(pipe: &mut Option<P>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let Some(open) = pipe else { return Ok(()) };
    let mut chunk = [0; CHUNK];
    match open.read(&mut chunk) {
        Ok(0) => *pipe = None,
        Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Only the end of a program's output is of interest.
fn keep_end(bytes: &mut Vec<u8>) {
    let surplus = bytes.len().saturating_sub(KEPT_BYTES);
    bytes.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_read() {
        let line =
            r#"{"command": ["/bin/true", "true"], "environment": {"A": "b"}, "listens": true}"#;
        let config: Config = serde_json::from_str(line).unwrap();
        assert!(config.listens && config.environment["A"] == "b" && config.command.len() == 2);
        assert!(matches!(serde_json::from_str(r#"{"action": "stop"}"#), Ok(Order::Stop)));
    }

    #[test]
    fn only_the_end_of_what_it_says_is_kept() {
        let mut bytes: Vec<u8> = (0..3 * KEPT_BYTES).map(|number| number as u8).collect();
        let last = *bytes.last().unwrap();
        keep_end(&mut bytes);
        assert_eq!((bytes.len(), bytes.last()), (KEPT_BYTES, Some(&last)));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (mut pipe, mut bytes) = (Some(&b"abc"[..]), Vec::new());
        while pipe.is_some() {
            take(&mut pipe, &mut bytes).unwrap();
        }
        assert_eq!(bytes, b"abc");
    }
}
