//! The first process of a program's PID namespace: it starts the program, reports how it ended, and ends.
//!
//! With it the kernel ends every other process there. It is not the program itself, because the kernel keeps signals
//! without a handler from a first process: a program that is one could not be ended by its own `kill`.

use crate::kernel::{signals, sys};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// The word that only the role `program` starts it by: it is no role, and signals to it are the kernel's business.
pub const FIRST: &str = "first";

/// The program to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    command: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl Job {
    /// A command, the file first and then its arguments from its own name on, and what differs in its environment.
    pub fn new(command: Vec<String>, environment: BTreeMap<String, String>) -> Self {
        Self { command, environment }
    }
}

/// Its only line.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Message {
    Exited { status: Option<i32>, signal: Option<i32>, elapsed_ns: u64 },
    Error { reason: String },
}

/// The job is a line of its standard input, at whose end the program is asked to end; returns the exit status.
pub fn main() -> i32 {
    let message = match started() {
        Ok((status, elapsed_ns)) => {
            Message::Exited { status: status.code(), signal: status.signal(), elapsed_ns }
        }
        Err(error) => Message::Error { reason: error.to_string() },
    };
    println!("{}", serde_json::to_string(&message).expect("structures always serialise"));
    0
}

/// Runs the program to its end.
fn started() -> io::Result<(ExitStatus, u64)> {
    sys::die_with_parent(libc::SIGKILL)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    let [file, name, arguments @ ..] = &job.command[..] else {
        return Err(io::Error::other("expected a file and a name"));
    };
    let began_ns = sys::monotonic_ns();
    let mut program = Command::new(file)
        .arg0(name)
        .args(arguments)
        .envs(&job.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
    let number = program.id();
    thread::spawn(move || {
        // Whatever ends it. This process ends with the program, so that the number stays the program's.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        signals::terminate(number)
    });
    let status = program.wait()?;
    Ok((status, sys::monotonic_ns() - began_ns))
}
