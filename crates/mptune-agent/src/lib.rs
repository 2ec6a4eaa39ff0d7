//! What runs on a measured or managed machine, one module per role.
//!
//! Every role exchanges lines of JSON on standard input and output, ends with its standard input
//! and writes no files. What the roles share is here: the command line (`arguments`), the lines and
//! signals (`control`), how a role begins and ends (`role`), addresses in the kernel's layout
//! (`address`), system calls (`sys`).

#![cfg(target_os = "linux")]

mod address;
mod arguments;
mod awake;
mod control;
pub mod meter;
pub mod paths;
pub mod probe;
mod role;
mod sys;

use self::arguments::{Arguments, Request};

/// The name of a role and its function, which returns the exit status of the process.
type Role = (&'static str, fn() -> i32);

/// The roles; add a line here for another one.
const ROLES: &[Role] = &[
    ("sender", meter::sender::main),
    ("receiver", meter::receiver::main),
    ("paths", paths::main),
    ("probe", probe::main),
    ("awake", awake::main),
];

/// Runs the program with `arguments` (without its name); returns the exit status.
///
/// 0: the role did its job, even if the measurement failed. 1: it refused and said why. 2: the
/// arguments are wrong.
pub fn main(arguments: impl Iterator<Item = String>) -> i32 {
    let names: Vec<_> = ROLES.iter().map(|(name, _)| *name).collect();
    match arguments::parse(arguments, &names) {
        Ok(Request::Version) => {
            println!("mptune-agent {}", env!("CARGO_PKG_VERSION"));
            0
        }
        Ok(Request::Play(arguments)) => play(&arguments),
        Err(reason) => {
            eprintln!("mptune-agent: {reason}");
            2
        }
    }
}

fn play(arguments: &Arguments) -> i32 {
    if let Err(reason) = arguments.enter_namespaces() {
        return role::refuse(&reason);
    }
    let (_, main) = ROLES.iter().find(|(name, _)| *name == arguments.role).expect("checked before");
    main()
}
