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
#[cfg(feature = "simulation")]
mod forecasts;
#[cfg(not(feature = "simulation"))]
mod forecasts {
    //! Forecasts without a simulator.
    use mptune_core::pathmanager::{Forecast, SharedBuffer};
    use std::sync::Arc;

    /// By the rule for shared buffers, whatever the congestion control.
    pub fn of(_cc: Option<&str>) -> Arc<dyn Forecast> {
        Arc::new(SharedBuffer)
    }
}
pub mod happening;
pub mod hosting;
pub mod manager;
pub mod policies;
mod ports;
pub mod protocol;
mod receiver;
pub mod sampling;
pub mod subflow;
pub mod survey;

use self::assignment::Specification;
use self::manager::Manager;
use self::policies::One;
use self::ports::Ports;
use self::protocol::{AtReceiver, AtSender, Config, Message};
use self::receiver::Receiver;
use crate::control::{self, Control, Input};
use crate::kernel::error as kernel;
use crate::kernel::sys::{self, Watch};
use crate::role;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Longest wait if nothing else limits it.
const TICK: Duration = Duration::from_secs(10);

/// Failure of the role.
#[derive(Debug, Error)]
enum Error {
    /// The kernel of this side has no MPTCP.
    #[error("net.mptcp on the {0}'s side: this kernel has no MPTCP")]
    NoMptcp(&'static str),
    /// The path manager is the kernel's.
    #[error("net.mptcp.{name} on the {side}'s side: expected userspace (1), found {value}")]
    InKernel {
        /// Name of the setting below `net.mptcp`.
        name: &'static str,
        /// The sender's or the receiver's.
        side: &'static str,
        /// Its value.
        value: String,
    },
    #[error("expected a command: {0}")]
    Command(#[from] serde_json::Error),
    #[error(transparent)]
    Assignment(#[from] assignment::Error),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Manages paths between standard input and output; returns the exit status.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    match control.configuration()? {
        Config::Sender { assignment, ports } => manage(control, assignment, ports),
        Config::Receiver { ports } => accept(control, ports),
    }
}

/// The sender's side.
fn manage(control: &mut Control, specification: Specification, ports: Ports) -> Result<(), Error> {
    let assignment = specification.checked()?;
    check_settings("sender")?;
    let policies = One { assignment: assignment.clone(), ports };
    let mut manager = Manager::open(Box::new(policies))?;
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
        }?;
    }
    control.tell(&manager.report()?);
    Ok(())
}

/// The next command, managing connections meanwhile; none when it should end.
fn next(control: &mut Control, manager: &mut Manager) -> Result<Option<AtSender>, Error> {
    loop {
        let pause = manager.pause(sys::monotonic_ns()).unwrap_or(TICK);
        let mut watches = [Watch { fd: manager.events(), events: libc::POLLIN, ready: false }];
        let input = control.wait(&mut watches, pause)?;
        // Before the command, so that it sees the current state.
        manager.step()?;
        match input {
            Some(Input::Line(line)) => return command(&line).map(Some),
            Some(Input::Closed | Input::Signal(_)) => return Ok(None),
            None => {}
        }
    }
}

/// The receiver's side.
fn accept(control: &mut Control, ports: Ports) -> Result<(), Error> {
    check_settings("receiver")?;
    let mut receiver = Receiver::open(ports)?;
    control.tell(&Message::Ready);
    loop {
        let mut watches = [Watch { fd: receiver.events(), events: libc::POLLIN, ready: false }];
        let input = control.wait(&mut watches, TICK)?;
        // Before the command, so that it sees the current state.
        receiver.step()?;
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
        done?;
    }
    control.tell(&receiver.report());
    Ok(())
}

fn command<T: DeserializeOwned>(line: &str) -> Result<T, Error> {
    Ok(serde_json::from_str(line)?)
}

/// The userspace path manager must be chosen before a connection begins.
fn check_settings(side: &'static str) -> Result<(), Error> {
    // Under its name on this kernel: `path_manager` since Linux 6.15.
    let names = ["path_manager", "pm_type"];
    let read = |name| Some((name, fs::read_to_string(format!("/proc/sys/net/mptcp/{name}")).ok()?));
    let Some((name, value)) = names.into_iter().find_map(read) else {
        return Err(Error::NoMptcp(side));
    };
    match value.trim() {
        "userspace" | "1" => Ok(()),
        value => Err(Error::InKernel { name, side, value: value.to_owned() }),
    }
}
