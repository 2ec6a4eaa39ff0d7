//! The command line: a role, and where it runs.
//!
//! `mptune-agent [--userns PATH] [--netns PATH] ROLE [--greet] [--unlink]`, and for the role `daemon`
//! `[--policy FILE] [--metrics ADDRESS] [--check] [--restore] [--attended]`. Without a path the process stays
//! where it is, as on a real host; namespaces of this machine are entered before the role begins, because
//! only a single-threaded process can enter a user namespace. A program that was sent to a host for one
//! session removes its own file first (`--unlink`). `--greet` changes nothing: the role `host` greets in any
//! case; a controller shows with it that it waits for the greeting.

use crate::kernel::sys;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The role that starts others, for a controller on another machine.
pub const HOST: &str = "host";
/// The role that is a service: it takes its orders from a file, a socket and signals, so that it neither
/// needs a standard input nor ends with one.
pub const DAEMON: &str = "daemon";

/// A command line that is wrong, or a namespace that cannot be entered.
#[derive(Debug, Error)]
pub enum Error {
    /// Something else than a role.
    #[error("expected one of {roles}, --netns, --userns, --version, found {found}")]
    Role {
        /// Names of the roles.
        roles: String,
        /// The argument.
        found: String,
    },
    /// Something after the role.
    #[error("expected nothing after the role {role}, found {found}")]
    Rest {
        /// Name of the role.
        role: String,
        /// The argument.
        found: String,
    },
    /// This option has no value.
    #[error("{0}: expected a path, found nothing")]
    Path(String),
    /// The same of one whose value is an address.
    #[error("{0}: expected an address, found nothing")]
    Address(String),
    /// A namespace cannot be entered.
    #[error("{option}: {}: {error}", .path.display())]
    Namespace {
        /// The option that names it.
        option: &'static str,
        /// Its file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The request of a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Its version.
    Version,
    /// A role.
    Play(Arguments),
}

/// A role, and where it runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Its name.
    pub role: String,
    /// The user namespace that owns the network namespace, if not the current one.
    userns: Option<PathBuf>,
    /// The network namespace, if not the current one.
    netns: Option<PathBuf>,
    /// The program's file and its directory were made for this process.
    pub unlinks: bool,
    /// For the role `daemon`.
    pub daemon: DaemonArguments,
}

/// Options of the role `daemon`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DaemonArguments {
    /// Its policy file, if not the usual one.
    pub policy: Option<PathBuf>,
    /// Address of the metrics, over HTTP.
    pub metrics: Option<String>,
    /// Only check that file.
    pub check: bool,
    /// Only put back what a daemon that died has left.
    pub restore: bool,
    /// It ends with the program that started it.
    pub attended: bool,
}

/// Parses the command line; `roles` are the available names.
///
/// # Errors
/// The first argument that is wrong.
pub fn parse(
    mut arguments: impl Iterator<Item = String>,
    roles: &[&str],
) -> Result<Request, Error> {
    let mut parsed = Arguments::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--version" => return Ok(Request::Version),
            "--userns" => parsed.userns = Some(path(&argument, arguments.next())?),
            "--netns" => parsed.netns = Some(path(&argument, arguments.next())?),
            "--greet" if parsed.role == HOST => {}
            "--unlink" if parsed.role == HOST => parsed.unlinks = true,
            "--policy" if parsed.role == DAEMON => {
                parsed.daemon.policy = Some(path(&argument, arguments.next())?);
            }
            "--metrics" if parsed.role == DAEMON => {
                let address = arguments.next().ok_or(Error::Address(argument))?;
                parsed.daemon.metrics = Some(address);
            }
            "--check" if parsed.role == DAEMON => parsed.daemon.check = true,
            "--restore" if parsed.role == DAEMON => parsed.daemon.restore = true,
            "--attended" if parsed.role == DAEMON => parsed.daemon.attended = true,
            role if parsed.role.is_empty() && roles.contains(&role) => parsed.role = argument,
            _ => return Err(expected(&parsed, roles, &argument)),
        }
    }
    if parsed.role.is_empty() {
        return Err(expected(&parsed, roles, "nothing"));
    }
    Ok(Request::Play(parsed))
}

fn path(option: &str, value: Option<String>) -> Result<PathBuf, Error> {
    value.map(PathBuf::from).ok_or_else(|| Error::Path(option.to_owned()))
}

fn expected(parsed: &Arguments, roles: &[&str], found: &str) -> Error {
    let found = found.to_owned();
    if parsed.role.is_empty() {
        Error::Role { roles: roles.join(", "), found }
    } else {
        Error::Rest { role: parsed.role.clone(), found }
    }
}

impl Arguments {
    /// Enters the namespaces.
    ///
    /// # Errors
    /// [`Error::Namespace`].
    pub fn enter_namespaces(&self) -> Result<(), Error> {
        if let Some(path) = self.userns.clone() {
            sys::enter_user_namespace(&path).map_err(|error| Error::Namespace {
                option: "--userns",
                path,
                error,
            })?;
        }
        if let Some(path) = self.netns.clone() {
            sys::enter_network_namespace(&path).map_err(|error| Error::Namespace {
                option: "--netns",
                path,
                error,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, Error> {
        parse(line.split_whitespace().map(str::to_owned), &["sender", "receiver", DAEMON])
    }

    #[test]
    fn a_role_and_where_it_runs() {
        let here = Arguments { role: "sender".into(), ..Arguments::default() };
        assert_eq!(parsed("sender").unwrap(), Request::Play(here));
        let there = Arguments {
            role: "receiver".into(),
            userns: Some("/a".into()),
            netns: Some("/b".into()),
            ..Arguments::default()
        };
        assert_eq!(parsed("--userns /a --netns /b receiver").unwrap(), Request::Play(there));
        assert_eq!(parsed("--version").unwrap(), Request::Version);
    }

    #[test]
    fn a_daemon_has_options_of_its_own() {
        let asked = DaemonArguments {
            policy: Some("/a".into()),
            check: true,
            ..DaemonArguments::default()
        };
        let expected = Arguments { role: DAEMON.into(), daemon: asked, ..Arguments::default() };
        assert_eq!(parsed("daemon --policy /a --check").unwrap(), Request::Play(expected));
        let reason = |line| parsed(line).unwrap_err().to_string();
        assert!(reason("sender --check").ends_with("found --check"));
        assert!(reason("daemon --policy").starts_with("--policy: expected a path"));
        assert!(reason("daemon --metrics").starts_with("--metrics: expected an address"));
        assert!(reason("sender --metrics 1").ends_with("found --metrics"));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let cases = [
            ("", "found nothing"),
            ("juggler", "found juggler"),
            ("--netns", "--netns: expected a path"),
            ("sender receiver", "found receiver"),
        ];
        for (line, expected) in cases {
            let reason = parsed(line).unwrap_err().to_string();
            assert!(reason.contains(expected) && !reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let arguments = Arguments { netns: Some("/nowhere".into()), ..Arguments::default() };
        let reason = arguments.enter_namespaces().unwrap_err().to_string();
        assert!(reason.starts_with("--netns: /nowhere: "), "{reason}");
    }
}
