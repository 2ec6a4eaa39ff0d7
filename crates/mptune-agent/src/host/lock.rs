//! One session at a time in a network namespace of a host.
//!
//! The session and its guardian hold the lock together: the next session begins when both are gone and
//! everything is as before.

use super::places;
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a guardian may need to put back what its session has changed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The lock of a session.
pub struct Lock {
    path: PathBuf,
    file: File,
    /// The file is the guardian's to remove.
    left: bool,
}

impl Lock {
    /// Takes the lock of a network namespace.
    ///
    /// # Errors
    /// One line: who has it, or why there is none.
    pub fn take(directory: &Path, namespace: u64) -> Result<Self, String> {
        let path = directory.join(format!("lock-{namespace}"));
        let named = |error: io::Error| format!("{}: {error}", path.display());
        let end = Instant::now() + PATIENCE;
        loop {
            places::run_directory()?;
            match Self::try_take(&path).map_err(named)? {
                Ok(lock) => return Ok(lock),
                Err(Some(pid)) => {
                    return Err(format!(
                        "another session is at work in this network namespace: process {pid}"
                    ));
                }
                Err(None) if Instant::now() > end => {
                    return Err(format!("{}: the last session has not ended yet", path.display()));
                }
                Err(None) => thread::sleep(PAUSE),
            }
        }
    }

    /// One try: the lock, or the session that has it if it is alive.
    fn try_take(path: &Path) -> io::Result<Result<Self, Option<u32>>> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(None)),
            opened => opened?,
        };
        if !sys::lock(&file)? {
            let mut holder = String::new();
            file.read_to_string(&mut holder)?;
            return Ok(Err(alive(&holder)));
        }
        // The last holder may have removed the file between the two calls.
        let found = fs::symlink_metadata(path).map(|found| found.ino());
        if found.ok() != Some(file.metadata()?.ino()) {
            return Ok(Err(None));
        }
        let pid = std::process::id();
        file.set_len(0)?;
        file.write_all(format!("{pid} {}\n", places::began(pid).unwrap_or(0)).as_bytes())?;
        Ok(Ok(Self { path: path.to_owned(), file, left: false }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for the guardian.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Leaves the file to the guardian, which holds the lock a little longer.
    pub fn leave(&mut self) {
        self.left = true;
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.left {
            remove(&self.path);
        }
    }
}

/// Removes the file of a lock that the caller holds, and its directory if nothing else is in it.
pub fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = path.parent().map(fs::remove_dir);
}

/// The process that a lock's file names, if there is one.
fn alive(holder: &str) -> Option<u32> {
    let (pid, began) = holder.split_once(' ')?;
    let pid = pid.parse().ok()?;
    let began: u64 = began.trim().parse().ok()?;
    (places::began(pid)? == began).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_while_it_lives() {
        let pid = std::process::id();
        let began = places::began(pid).unwrap();
        assert_eq!(alive(&format!("{pid} {began}\n")), Some(pid));
        assert_eq!(alive(&format!("{pid} {}\n", began + 1)), None);
        assert_eq!(alive(""), None);
    }
}
