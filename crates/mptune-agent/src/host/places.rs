//! Where things are on this host: the kernel's settings, and the directory for what must outlive a session.
//!
//! The environment variables are for tests, which need neither root nor this machine's settings.

use crate::sys;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Instead of /proc/sys.
const SYSCTL_ROOT: &str = "MPTUNE_SYSCTL_ROOT";
/// Instead of /run/mptune.
const RUN_DIRECTORY: &str = "MPTUNE_RUN_DIRECTORY";
/// Milliseconds, instead of `SILENCE`.
const SILENCE_MS: &str = "MPTUNE_SILENCE_MS";
/// A step (see [`reached`]) at which the process stops.
const STOP_AT: &str = "MPTUNE_STOP_AT";

/// A controller that is silent for this long is gone: it sends a line at least every 2 s, and ssh gives up
/// a connection after 6 s without an answer.
const SILENCE: Duration = Duration::from_secs(8);
/// How often the directory for journals is made again.
const CREATIONS: u32 = 10;
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

/// How long a controller may be silent.
pub fn silence() -> Duration {
    let given = std::env::var(SILENCE_MS).ok().and_then(|text| text.parse().ok());
    given.map_or(SILENCE, Duration::from_millis)
}

/// A step at which being killed matters; a test can stop the process there.
pub fn reached(who: &str, step: &str) {
    if std::env::var(STOP_AT).is_ok_and(|wanted| wanted == format!("{who} {step}")) {
        sys::stop_here();
    }
}

/// The directory for journals: the same for every session of this user. It is there only while there is
/// something in it.
///
/// # Errors
/// One line with every directory tried, and what is wrong with it.
pub fn run_directory() -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for directory in candidates() {
        let usable = private(&directory).and_then(|()| writable(&directory));
        let _ = fs::remove_dir(&directory);
        match usable {
            Ok(()) => return Ok(directory),
            Err(error) => tried.push(format!("{}: {error}", directory.display())),
        }
    }
    Err(format!("no directory for what must not be forgotten: {}", tried.join("; ")))
}

fn candidates() -> Vec<PathBuf> {
    if let Some(directory) = std::env::var_os(RUN_DIRECTORY) {
        return vec![directory.into()];
    }
    let root = (sys::user() == 0).then(|| "/run/mptune".into());
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|own| Path::new(&own).join("mptune"));
    let shared = PathBuf::from(format!("/tmp/mptune-{}", sys::user()));
    root.into_iter().chain(own).chain([shared]).collect()
}

/// Makes a file in the directory for journals, and the directory if it is missing.
///
/// # Errors
/// It cannot be made.
pub fn create(file: &Path) -> io::Result<File> {
    let directory = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut tries = 0;
    loop {
        // A session of another network namespace may remove the directory between the two.
        let made = private(directory).and_then(|()| File::create(file));
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < CREATIONS => {
                tries += 1
            }
            made => return made,
        }
    }
}

/// Makes a directory that only this user can use, or checks that it is one.
fn private(directory: &Path) -> io::Result<()> {
    own(directory, 0o700).map(drop)
}

/// Makes a directory with these rights that only this user can write, or checks that it is one; whether it
/// was made.
///
/// # Errors
/// It cannot be made, or is somebody else's.
pub fn own(directory: &Path, rights: u32) -> io::Result<bool> {
    let made = match DirBuilder::new().mode(rights).create(directory) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != sys::user() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("expected a directory that nobody else can write"));
    }
    Ok(made)
}

/// Whether files can be made in a directory; leaves none where the file system allows files without a name.
fn writable(directory: &Path) -> io::Result<()> {
    let nameless = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory);
    match nameless {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let file = directory.join(format!("writable-{}", std::process::id()));
            fs::write(&file, b"").and_then(|()| fs::remove_file(&file))
        }
        nameless => nameless.map(drop),
    }
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
