//! Beginning and end of every role, and its rights.

use crate::control::Control;
use crate::kernel::sys;
use crate::log;
use serde::Serialize;
use std::fmt::Display;
use std::fs;
use std::io;
use thiserror::Error;

/// Obstacle to the beginning of any role.
#[derive(Debug, Error)]
enum Error {
    #[error("the process that started the agent has ended")]
    Orphan,
    #[error("PR_SET_PDEATHSIG: {0}")]
    Signal(#[from] io::Error),
}

/// The line of a role that cannot do what was asked.
#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct Refusal<'a> {
    reason: &'a str,
}

/// Runs a role between standard input and output; returns the exit status: 0 if it wrote all its
/// output, 1 if it refused. An error of `run` becomes a refusal line.
pub fn play<E: Display>(run: impl FnOnce(&mut Control) -> Result<(), E>) -> i32 {
    play_until(libc::SIGKILL, run)
}

/// The same, with the signal that it gets when its parent ends.
pub fn play_until<E: Display>(signal: i32, run: impl FnOnce(&mut Control) -> Result<(), E>) -> i32 {
    let mut control = match Control::new() {
        Ok(control) => control,
        Err(error) => {
            log::write(&format!("mptune-agent: {error}"));
            return 1;
        }
    };
    let began = not_orphaned(signal).map_err(|error| error.to_string());
    let done = began.and_then(|()| run(&mut control).map_err(|error| error.to_string()));
    let status = match done {
        Ok(()) => 0,
        Err(reason) => {
            control.tell(&Refusal { reason: &reason });
            1
        }
    };
    // If the other end was closed there is no one to report to.
    control.flush().map_or(1, |()| status)
}

/// Refuses before a role has begun; returns the exit status.
pub fn refuse(reason: impl Display) -> i32 {
    play(|_| Err(reason))
}

/// This process ends when its parent ends, as well as at the end of its standard input.
fn not_orphaned(signal: i32) -> Result<(), Error> {
    if sys::die_with_parent(signal)? { Ok(()) } else { Err(Error::Orphan) }
}

/// The effective capabilities of this process, one bit each (proc_pid_status(5)).
pub fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
