//! Paths on this host: the settings of the kernel, and the directory for what must outlive a session.
//!
//! The environment variables are for tests, which need neither root nor this machine's settings.

use super::directory::Directory;
use super::error::Error;
use crate::kernel::sys;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Instead of /proc/sys.
const SYSCTL_ROOT: &str = "MPTUNE_SYSCTL_ROOT";
/// Place for directories of this start of the machine: the first that is there. OpenWrt has the second alone.
const RUN: [&str; 2] = ["/run", "/var/run"];
/// Root's directory in it for what must outlive a session. The service has another, mptune, which belongs to
/// the user that systemd makes for it.
const ROOTS: &str = "mptune-root";
/// That of earlier versions.
const EARLIER: &str = "/run/mptune";
/// Instead of it.
pub const RUN_DIRECTORY: &str = "MPTUNE_RUN_DIRECTORY";
/// Milliseconds, instead of `SILENCE`.
const SILENCE_MS: &str = "MPTUNE_SILENCE_MS";

/// A controller that is silent for this long is gone: it sends a line at least every 2 s, and ssh gives up
/// a connection after 6 s without an answer.
const SILENCE: Duration = Duration::from_secs(8);
/// `SO_NETNS_COOKIE` (Linux 5.14).
const SO_NETNS_COOKIE: i32 = 71;

/// A network namespace of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its inode, which a later namespace may get.
    pub inode: u64,
    /// Its cookie, unique until the machine restarts; none on old kernels.
    pub cookie: Option<u64>,
}

/// The directory of the settings' files.
pub fn sysctl_root() -> PathBuf {
    std::env::var_os(SYSCTL_ROOT).map_or_else(|| "/proc/sys".into(), PathBuf::from)
}

/// Longest silence of a controller.
pub fn silence() -> Duration {
    let given = std::env::var(SILENCE_MS).ok().and_then(|text| text.parse().ok());
    given.map_or(SILENCE, Duration::from_millis)
}

/// The directory for journals and locks: the same for every session of this user, and nobody else's. It is there
/// only while there is something in it. There is one only: a journal that is somewhere else is found by nobody,
/// and where this one cannot be had nothing is changed.
pub fn run_directory() -> PathBuf {
    if let Some(directory) = given(RUN_DIRECTORY) {
        return directory;
    }
    if sys::user() == 0 {
        return run().join(ROOTS);
    }
    let shared = || PathBuf::from(format!("/tmp/mptune-{}", sys::user()));
    given("XDG_RUNTIME_DIR").map_or_else(shared, |own| own.join("mptune"))
}

/// The directory of this start of the machine.
pub fn run() -> PathBuf {
    let there = RUN.into_iter().find(|directory| Path::new(directory).is_dir());
    there.unwrap_or(RUN[0]).into()
}

/// Place of a path below /run on this machine: on OpenWrt below /var/run.
pub fn located(path: &Path) -> PathBuf {
    path.strip_prefix(RUN[0]).map_or_else(|_| path.to_owned(), |below| run().join(below))
}

/// A path from the environment.
pub fn given(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes that directory.
///
/// # Errors
/// It cannot be made, or is not this user's alone.
pub fn make_run_directory() -> Result<Directory, Error> {
    let path = run_directory();
    Directory::make(&path).map_err(|error| Error::Directory(path, error))
}

/// The directory of earlier versions (0.2), if it is root's alone: what their sessions have left is put back too.
/// Their files in /tmp are not looked at.
pub fn earlier_directory() -> Option<Directory> {
    let is_usual = sys::user() == 0 && given(RUN_DIRECTORY).is_none();
    is_usual.then(|| Directory::open(Path::new(EARLIER)).ok()).flatten()
}

/// The network namespace of this process.
pub fn namespace() -> io::Result<Namespace> {
    let inode = fs::metadata("/proc/self/ns/net")?.ino();
    let cookie = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)
        .and_then(|socket| sys::option(socket.as_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, 8));
    let cookie = cookie.ok().and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
    Ok(Namespace { inode, cookie })
}

/// A number that identifies this boot of the machine.
pub fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When a process began, in ticks since the machine started (proc_pid_stat(5), field 22); none if there is
/// no such process, or only a zombie.
pub fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_when_it_began() {
        let here = std::process::id();
        assert!(began(here).is_some_and(|ticks| ticks > 0));
        assert_eq!(began(here), began(here));
        assert_eq!(began(u32::MAX), None);
    }

    #[test]
    fn a_namespace_is_the_same_when_asked_again() {
        assert_eq!(namespace().unwrap(), namespace().unwrap());
    }
}
