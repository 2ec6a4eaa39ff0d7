//! One session at a time in a network namespace of a host, and one daemon.
//!
//! The lock is a file in a directory that is its user's alone, so that nobody else can hold it: locked by
//! flock(2), with the network namespace in its name and the holder in it. The session and its guardian hold it
//! together: the next session begins when both are gone and everything is as before. The file goes with its
//! last holder; one that was killed leaves it to the next.

use super::directory::Directory;
use super::error::Error;
use super::places;
use super::steps;
use crate::kernel::signals;
use crate::kernel::sys::{self, Watch};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

/// Time for a guardian to put back the changes of its session.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// Attempts to create the directory while the last holder in another network namespace removes it.
const CREATIONS: u32 = 10;
/// Prefix of the names of locks.
const PREFIX: &str = "lock-";
/// Longest text in one: two numbers.
const ROOM: usize = 64;

/// The lock of a session, or of another that is alone in its network namespace.
pub struct Lock {
    file: File,
    name: String,
}

impl Lock {
    /// Takes the lock of this network namespace in the directory that `make` makes; `who` has it, in a word.
    /// A signal ends the wait.
    ///
    /// # Errors
    /// Another process has it, or there is none.
    pub fn take(
        make: impl Fn() -> Result<Directory, Error>,
        who: &'static str,
        signals: &File,
    ) -> Result<(Directory, Self), Error> {
        let named = |error: io::Error| Error::Lock(who, error);
        let name = name_here().map_err(named)?;
        let end = Instant::now() + PATIENCE;
        let mut creations = 0;
        loop {
            let directory = make()?;
            let file = match directory.open_or_create(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && creations < CREATIONS => {
                    creations += 1;
                    continue;
                }
                opened => {
                    opened.map_err(|error| Error::File(directory.path().join(&name), error))?
                }
            };
            if sys::lock_file(&file).map_err(named)? {
                if let Some(lock) = Self::held(&directory, &name, file) {
                    lock.sign().map_err(named)?;
                    return Ok((directory, lock));
                }
                continue;
            }
            if let Some(pid) = holder(&file) {
                return Err(Error::Taken { holder: who, pid });
            }
            if Instant::now() > end {
                return Err(Error::Ending(who));
            }
            let mut signal = [Watch::readable(signals)];
            sys::wait(&mut signal, PAUSE).map_err(named)?;
            if signal[0].ready
                && let Some(signal) = signals::next(signals).map_err(named)?
            {
                return Err(Error::Signal(signal));
            }
        }
    }

    /// Takes the lock of this network namespace, to put back what its last holder has left: waits for a guardian, and
    /// takes none of somebody who is alive.
    ///
    /// # Errors
    /// Its file cannot be made, or is not this user's alone.
    pub fn of_the_dead(directory: &Directory) -> io::Result<Option<Self>> {
        let (name, end) = (name_here()?, Instant::now() + PATIENCE);
        loop {
            let file = directory.open_or_create(&name)?;
            if sys::lock_file(&file)? {
                if let Some(lock) = Self::held(directory, &name, file) {
                    return Ok(Some(lock));
                }
            } else if holder(&file).is_some() || Instant::now() > end {
                return Ok(None);
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Takes a lock of this name, if nobody has it.
    ///
    /// # Errors
    /// Its file cannot be made, or is not this user's alone.
    pub fn attempt(directory: &Directory, name: &str) -> io::Result<Option<Self>> {
        let file = match directory.open_or_create(name) {
            // The directory was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !sys::lock_file(&file)? {
            return Ok(None);
        }
        Ok(Self::held(directory, name, file))
    }

    /// A locked file, unless its last holder removed it before it was locked here.
    fn held(directory: &Directory, name: &str, file: File) -> Option<Self> {
        directory.has(name, &file).then(|| Self { file, name: name.to_owned() })
    }

    /// Notes who has it.
    fn sign(&self) -> io::Result<()> {
        let pid = std::process::id();
        let began = places::began(pid).ok_or(io::ErrorKind::NotFound)?;
        self.file.set_len(0)?;
        (&self.file).write_all(format!("{pid} {began}\n").as_bytes())?;
        steps::changed();
        Ok(())
    }

    /// The lock again, for the guardian.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// Its name in the directory, for the guardian.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lock that its holder has shared.
    pub fn shared(file: OwnedFd, name: String) -> Self {
        Self { file: file.into(), name }
    }

    /// Lets the next one in: nobody else holds it, and there is nothing to put back.
    pub fn remove(self, directory: &Directory) {
        if directory.has(&self.name, &self.file) {
            let _ = directory.remove(&self.name);
        }
        directory.leave();
    }
}

/// The name of the lock of this network namespace.
fn name_here() -> io::Result<String> {
    let namespace = places::namespace()?;
    Ok(format!("{PREFIX}{}-{}", namespace.inode, namespace.cookie.unwrap_or(0)))
}

/// Whoever has taken a lock, if he is alive; a guardian alone is none.
fn holder(file: &File) -> Option<u32> {
    let mut room = [0; ROOM];
    let length = file.read_at(&mut room, 0).ok()?;
    let (pid, began) = std::str::from_utf8(room.get(..length)?).ok()?.trim().split_once(' ')?;
    let pid = pid.parse().ok()?;
    (places::began(pid) == Some(began.parse().ok()?)).then_some(pid)
}

/// Removes locks of any network namespace that nobody holds any more.
pub fn sweep(directory: &Directory, names: &[String]) {
    for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
        let Ok(file) = directory.open_or_create(name) else { continue };
        if sys::lock_file(&file).is_ok_and(|locked| locked) {
            Lock { file, name: name.clone() }.remove(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    fn taken(path: &Path, signals: &File) -> Result<(Directory, Lock), Error> {
        let make = || Directory::make(path).map_err(|error| Error::Directory(path.into(), error));
        Lock::take(make, "session", signals)
    }

    #[test]
    fn a_lock_is_held_until_the_last_copy_is_gone() {
        let path = std::env::temp_dir().join(format!("mptune-lock-{}", std::process::id()));
        let (_other, signals) = UnixStream::pair().unwrap();
        let signals = File::from(OwnedFd::from(signals));
        let (directory, lock) = taken(&path, &signals).unwrap();
        let copy = lock.share().unwrap();
        let name = lock.name().to_owned();
        drop(lock);
        let refused = taken(&path, &signals).err().unwrap().to_string();
        assert!(refused.ends_with(&format!("process {}", std::process::id())), "{refused}");
        sweep(&directory, &directory.names().unwrap());
        assert!(path.join(&name).exists());
        assert!(Lock::of_the_dead(&directory).unwrap().is_none());
        drop(copy);
        drop(Lock::of_the_dead(&directory).unwrap().unwrap());
        let (directory, lock) = taken(&path, &signals).unwrap();
        let other = path.with_extension("other");
        taken(&other, &signals).map(|(directory, lock)| lock.remove(&directory)).unwrap();
        drop(lock);
        sweep(&directory, &directory.names().unwrap());
        assert!(!path.exists() && !other.exists());
    }
}
