//! The subflows of the kernel's MPTCP connections, opened and managed by a path manager of the core.
//!
//! Two sides, which may be on different machines. The sender's side manages every connection opened
//! from its network namespace after it is ready; the receiver's side listens to its kernel's events,
//! without which the kernel would accept only what its own path manager allows. `protocol` has the
//! lines of JSON. `net.mptcp.path_manager` must be "userspace" on both sides before a connection
//! begins.
//!
//! Not here: settings and addresses (they exist before this starts), decisions
//! (`mptune_core::pathmanager` makes them, for the simulator as well).

pub mod assignment;
pub mod connection;
pub mod happening;
pub mod hosting;
pub mod manager;
pub mod policies;
pub mod protocol;
mod receiver;
pub mod sampling;
pub mod subflow;
pub mod survey;

use self::assignment::Told;
use self::manager::Manager;
use self::policies::One;
use self::protocol::{AtReceiver, AtSender, Config, Message};
use self::receiver::Receiver;
use crate::control::{Control, Input};
use crate::kernel::sys::{self, Watch};
use crate::role;
use serde::de::DeserializeOwned;
use std::fs;
use std::time::Duration;

/// Longest wait if nothing else limits it.
const TICK: Duration = Duration::from_secs(10);

/// Manages paths between standard input and output; returns the exit status.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), String> {
    match control.configuration()? {
        Config::Sender { assignment, port } => manage(control, assignment, port),
        Config::Receiver { port } => accept(control, port),
    }
}

/// The sender's side.
fn manage(control: &mut Control, told: Told, port: Option<u16>) -> Result<(), String> {
    let assignment = told.checked()?;
    check_settings("sender")?;
    let policies = One { assignment: assignment.clone(), port };
    let mut manager = Manager::open(Box::new(policies), None).map_err(|error| error.to_string())?;
    control.tell(&Message::Ready);
    while let Some(command) = next(control, &mut manager)? {
        match command {
            AtSender::Sent { bytes } => manager.on_bytes_sent(bytes),
            AtSender::Report => manager.report().map(|report| control.tell(&report)),
            AtSender::Stop => break,
            _ => {
                let (change, label) = command.path_change().expect("all others are about a path");
                let path = assignment.path_named(label)?;
                manager.on_path(change, path)
            }
        }
        .map_err(|error| error.to_string())?;
    }
    control.tell(&manager.report().map_err(|error| error.to_string())?);
    Ok(())
}

/// The next command, managing connections meanwhile; none when it should end.
fn next(control: &mut Control, manager: &mut Manager) -> Result<Option<AtSender>, String> {
    loop {
        let pause = manager.pause(sys::monotonic_ns()).unwrap_or(TICK);
        let mut watches = [Watch { fd: manager.events(), events: libc::POLLIN, ready: false }];
        let input = control.wait(&mut watches, pause).map_err(|error| error.to_string())?;
        // Before the command, so that it sees the current state.
        manager.step().map_err(|error| error.to_string())?;
        match input {
            Some(Input::Line(line)) => return command(&line).map(Some),
            Some(Input::Closed | Input::Signal(_)) => return Ok(None),
            None => {}
        }
    }
}

/// The receiver's side.
fn accept(control: &mut Control, port: Option<u16>) -> Result<(), String> {
    check_settings("receiver")?;
    let mut receiver = Receiver::open(port).map_err(|error| error.to_string())?;
    control.tell(&Message::Ready);
    loop {
        let mut watches = [Watch { fd: receiver.events(), events: libc::POLLIN, ready: false }];
        let input = control.wait(&mut watches, TICK).map_err(|error| error.to_string())?;
        // Before the command, so that it sees the current state.
        receiver.step().map_err(|error| error.to_string())?;
        let done = match input {
            Some(Input::Line(line)) => match command(&line)? {
                AtReceiver::Remove { address } => receiver.remove(address),
                AtReceiver::Add { address } => receiver.add(address),
                AtReceiver::Report => {
                    control.tell(&receiver.report());
                    Ok(())
                }
                AtReceiver::Stop => break,
            },
            Some(Input::Closed | Input::Signal(_)) => break,
            None => Ok(()),
        };
        done.map_err(|error| error.to_string())?;
    }
    control.tell(&receiver.report());
    Ok(())
}

fn command<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("expected a command: {error}"))
}

/// The userspace path manager must be chosen before a connection begins.
fn check_settings(side: &str) -> Result<(), String> {
    // Under its name on this kernel: `path_manager` since Linux 6.15.
    let names = ["path_manager", "pm_type"];
    let read = |name| Some((name, fs::read_to_string(format!("/proc/sys/net/mptcp/{name}")).ok()?));
    let Some((name, value)) = names.into_iter().find_map(read) else {
        return Err(format!("net.mptcp on the {side}'s side: this kernel has no MPTCP"));
    };
    match value.trim() {
        "userspace" | "1" => Ok(()),
        found => Err(format!(
            "net.mptcp.{name} on the {side}'s side: expected userspace (1), found {found}"
        )),
    }
}
