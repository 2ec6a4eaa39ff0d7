//! How every role begins and ends, and what it may do.

use crate::control::Control;
use crate::kernel::sys;
use crate::log;
use serde::Serialize;
use std::fs;

/// The line of a role that cannot do what was asked.
#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct Refusal<'a> {
    reason: &'a str,
}

/// Runs a role between standard input and output; returns the exit status: 0 if it wrote all its
/// output, 1 if it refused. An error of `run` becomes a refusal line.
pub fn play(run: impl FnOnce(&mut Control) -> Result<(), String>) -> i32 {
    play_until(libc::SIGKILL, run)
}

/// The same, with the signal that it gets when its parent ends.
pub fn play_until(signal: i32, run: impl FnOnce(&mut Control) -> Result<(), String>) -> i32 {
    let mut control = match Control::new() {
        Ok(control) => control,
        Err(error) => {
            log::say(&format!("mptune-agent: {error}"));
            return 1;
        }
    };
    let status = match not_orphaned(signal).and_then(|()| run(&mut control)) {
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
pub fn refuse(reason: &str) -> i32 {
    play(|_| Err(reason.to_owned()))
}

/// This process ends when its parent ends, as well as at the end of its standard input.
fn not_orphaned(signal: i32) -> Result<(), String> {
    match sys::die_with_parent(signal) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the process that started the agent has ended".to_owned()),
        Err(error) => Err(format!("PR_SET_PDEATHSIG: {error}")),
    }
}

/// The effective capabilities of this process, one bit each (proc_pid_status(5)).
pub fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
