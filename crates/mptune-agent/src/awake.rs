//! Processors that do not sleep: the role `awake`.
//!
//! A virtual machine's sleeping processor may wake up milliseconds late, when others use its host;
//! whatever runs in real time is late then, however little it needs. One thread per processor uses
//! the time that nobody else wants (`SCHED_IDLE`, sched(7)), until standard input ends:
//!
//! ```text
//! out  {"event": "ready", "processors": 2}
//! out  {"event": "error", "reason": "..."} instead, and status 1
//! ```
//!
//! Not here: whether it helps on this machine (the controller measures that). The threads wait with
//! the processor's instruction for waiting, which leaves a core's other thread most of its speed.

use crate::control::{Control, Input};
use crate::kernel::sys;
use crate::role;
use serde::Serialize;
use std::io::ErrorKind;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{fs, io, thread};
use thiserror::Error;

/// Longest wait for input; every wait ends by itself only to begin again.
const TICK: Duration = Duration::from_secs(3600);
/// The least weight of a group of processes.
const LEAST: &str = "19";

/// A system call failed.
#[derive(Debug, Error)]
#[error("cannot keep the processors awake: {0}")]
struct Error(#[from] io::Error);

#[derive(Serialize)]
#[serde(tag = "event", rename = "ready")]
struct Ready {
    processors: usize,
}

/// The role.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let processors = sys::processors()?;
    let (begun, results) = channel();
    for &processor in &processors {
        let begun = begun.clone();
        thread::Builder::new().spawn(move || spin(processor, &begun))?;
    }
    for _ in &processors {
        results.recv().expect("every thread reports before it spins")?;
    }
    // Last: what this did afterwards would wait behind everybody else, for seconds where they are many.
    step_back()?;
    control.tell(&Ready { processors: processors.len() });
    loop {
        match control.wait(&mut [], TICK)? {
            Some(Input::Closed | Input::Signal(_)) => return Ok(()),
            Some(Input::Line(_)) | None => {}
        }
    }
}

/// Gives the group of this session the least share: where every session is a group (sched(7), autogroup),
/// the priority of a thread counts only inside its group.
fn step_back() -> io::Result<()> {
    if !sys::leads_session() {
        return Ok(()); // the group is others' too
    }
    match fs::write("/proc/self/autogroup", LEAST) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn spin(processor: usize, begun: &Sender<io::Result<()>>) {
    let settled = sys::stay_on(processor).and_then(|()| sys::run_when_idle());
    let spins = settled.is_ok();
    let reported = begun.send(settled);
    while spins && reported.is_ok() {
        std::hint::spin_loop();
    }
}
