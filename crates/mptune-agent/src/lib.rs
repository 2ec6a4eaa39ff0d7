//! The roles on a measured or managed machine, a module each.
//!
//! Every role exchanges lines of JSON on standard input and output, ends with its standard input
//! and writes no files, except for the journals of the roles `host` and `settings`, and files that are settings.
//! The role `daemon` is no such role: it is a service, which reads its policy file and has a socket; and `exec`
//! becomes another program, and the first process of a PID namespace (`program::first`). At the ground is `kernel`: what Linux offers, each thing once, and all unsafe code. What the
//! roles share besides is here: the command line (`arguments`), the lines and signals (`control`), how a role begins and
//! ends and what it may do (`role`).

#![cfg(target_os = "linux")]
// What only those roles use is left out by the linker.
#![cfg_attr(not(feature = "local"), allow(dead_code, unused_mut))]

mod arguments;
mod awake;
mod congestion;
mod control;
pub mod daemon;
#[cfg(feature = "local")]
mod exec;
mod files;
mod host;
mod kernel;
mod log;
pub mod meter;
#[cfg(feature = "local")]
mod namespaces;
pub mod paths;
pub mod probe;
#[cfg(feature = "local")]
mod program;
mod role;
mod settings;
mod transfer;
mod undo;
mod watch;

use self::arguments::{Arguments, DAEMON, HOST, Request};
#[cfg(feature = "local")]
use self::{exec::EXEC, program::first::FIRST};
use std::ffi::OsString;

/// The name of a role and its function, which returns the exit status of the process.
type Role = (&'static str, fn(&Arguments) -> i32);

/// The roles; add a line here for another one.
const ROLES: &[Role] = &[
    ("sender", |_| meter::sender::main()),
    ("receiver", |_| meter::receiver::main()),
    ("paths", |_| paths::main()),
    ("probe", |_| probe::main()),
    ("congestion", |_| congestion::main()),
    ("settings", |_| settings::main()),
    ("awake", |_| awake::main()),
    ("transfer", |_| transfer::main()),
    ("watch", |_| watch::main()),
    #[cfg(feature = "local")]
    (PROGRAM, |_| program::main()),
    #[cfg(feature = "local")]
    (EMULATOR, |_| mptune_emulator::main()),
    #[cfg(feature = "local")]
    (NAMESPACES, |_| namespaces::main()),
    (DAEMON, daemon::main),
    (HOST, |arguments| host::main(&startable(), arguments.unlinks)),
    (GUARDIAN, |_| undo::guardian::main()),
    (REVERTER, |_| settings::revert()),
];
/// The network between two sites of this machine (crate mptune-emulator), and these sites.
const EMULATOR: &str = "emulator";
const NAMESPACES: &str = "namespaces";
/// Starts any program: only for whoever controls this machine.
const PROGRAM: &str = "program";
/// The one that only the role `host` starts.
const GUARDIAN: &str = "guardian";
/// The one that only the role `settings` starts.
const REVERTER: &str = "reverter";

/// The roles that the role `host` starts for its controller.
fn startable() -> Vec<&'static str> {
    let names = ROLES.iter().map(|(name, _)| *name);
    const OTHERS: [&str; 7] = [HOST, GUARDIAN, REVERTER, DAEMON, EMULATOR, NAMESPACES, PROGRAM];
    names.filter(|name| !OTHERS.contains(name)).collect()
}

/// Runs the program with `arguments` (without its name); returns the exit status.
///
/// 0: the role did its job, even if the measurement failed. 1: it refused and gave the reason. 2: the
/// arguments are wrong.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let mut arguments = arguments.peekable();
    #[cfg(feature = "local")]
    if arguments.next_if(|first| first == EXEC).is_some() {
        return exec::main(arguments);
    }
    #[cfg(feature = "local")]
    if arguments.next_if(|first| first == FIRST).is_some() {
        return program::first::main();
    }
    let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
    let names: Vec<_> = ROLES.iter().map(|(name, _)| *name).collect();
    match arguments::parse(arguments, &names) {
        Ok(Request::Version) => {
            println!("mptune-agent {}", env!("CARGO_PKG_VERSION"));
            0
        }
        Ok(Request::Play(arguments)) => play(&arguments),
        Err(reason) => {
            log::write(&format!("mptune-agent: {reason}"));
            2
        }
    }
}

fn play(arguments: &Arguments) -> i32 {
    if let Err(reason) = arguments.enter_namespaces() {
        return role::refuse(reason);
    }
    let (_, main) = ROLES.iter().find(|(name, _)| *name == arguments.role).expect("checked before");
    main(arguments)
}
