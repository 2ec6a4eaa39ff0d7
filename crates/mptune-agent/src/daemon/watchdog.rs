//! Ownership of the path manager: one daemon per network namespace, and a way back whatever ends it.
//!
//! The value before is on the disk before anything is changed (`undo::session`). A detached process, the guardian,
//! puts it back as soon as the daemon is gone; if that was killed as well, whoever comes next does: the next
//! daemon, or `--restore`. These alone take back endpoints too, which are noted elsewhere (`endpoint_journal`).
//! Connections keep the path manager that they began with.

use super::endpoint_journal::Place;
use super::endpoints::kept;
use super::endpoints::needed::STAYS;
use super::error::Error;
use crate::kernel::sys::Watch;
use crate::kernel::sysctl::{self as settings, Values};
use crate::undo::directory::Directory;
use crate::undo::error as undo;
use crate::undo::guardian::Guardian;
use crate::undo::lock::Lock;
use crate::undo::places;
use crate::undo::session::{self, Journal, Restored};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The daemon's directory, below the one for what must outlive it.
const FOLDER: &str = "daemon";
/// What a daemon notes of its endpoints, in the same directory as its journal.
const ENDPOINTS: &str = "endpoints.json";
/// The variable that systemd sets for a unit with `StateDirectory=`.
const SYSTEMD: &str = "STATE_DIRECTORY";

/// The variable that systemd sets for what a unit runs after its end, and its value after an end in order.
const RESULT: &str = "SERVICE_RESULT";
const IN_ORDER: &str = "success";

/// A setting of the path manager, with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    name: &'static str,
    userspace: &'static str,
    kernel: &'static str,
}

/// From the newest kernels (Linux 6.15) to the oldest (5.19).
const KNOBS: [Knob; 2] = [
    Knob { name: "net.mptcp.path_manager", userspace: "userspace", kernel: "kernel" },
    Knob { name: "net.mptcp.pm_type", userspace: "1", kernel: "0" },
];

/// Abilities of the kernel of this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// No MPTCP at all.
    Nothing,
    /// Its own path manager only.
    Endpoints,
    /// One in a program too.
    Userspace(Knob),
}

impl Ability {
    /// Of the running kernel.
    pub fn here() -> Self {
        let root = places::sysctl_root();
        let there = |name: &str| settings::file(&root, name).is_ok_and(|file| file.exists());
        match KNOBS.into_iter().find(|knob| there(knob.name)) {
            Some(knob) => Self::Userspace(knob),
            None if there("net.mptcp.enabled") => Self::Endpoints,
            None => Self::Nothing,
        }
    }
}

/// The lock, the journal and the guardian of a daemon.
pub struct Watchdog {
    lock: Lock,
    journal: Journal,
    guardian: Guardian,
    /// The directory around that of the journal.
    directory: Directory,
    chosen: Option<(&'static str, &'static str)>,
}

/// The directory of the journal. There is only one: nobody would find a journal elsewhere.
fn place() -> PathBuf {
    let first = |value| std::env::split_paths(&value).next().unwrap_or_default(); // several, with colons
    let of_unit = places::given(SYSTEMD).filter(|_| places::given(places::RUN_DIRECTORY).is_none());
    // For a user who exists only while the unit runs it is a symbolic link into a directory of root's.
    let of_unit = of_unit.map(first).map(|it| fs::canonicalize(&it).unwrap_or(it));
    of_unit.unwrap_or_else(places::run_directory)
}

impl Watchdog {
    /// Becomes the only daemon of this network namespace, and puts back what the last one has left. A signal
    /// ends the wait for that.
    ///
    /// # Errors
    /// There is another one, or no place for a journal. Nothing is changed.
    pub fn begin(signals: &File) -> Result<(Self, Restored), Error> {
        let place = place();
        let make = || {
            let folder = Directory::make(&place).and_then(|directory| directory.make_below(FOLDER));
            folder.map_err(|error| undo::Error::Directory(place.clone(), error))
        };
        let (folder, lock) = Lock::take(make, "daemon", signals)?;
        let begun = (|| {
            let directory = Directory::open(&place)
                .map_err(|error| undo::Error::Directory(place.clone(), error))?;
            let restored = session::recover(&folder)?;
            let journal = Journal::new(&folder)
                .map_err(|error| undo::Error::io(Path::new("/proc"), error))?;
            let guardian = Guardian::start(&journal, &lock).map_err(Error::Watchdog)?;
            Ok((directory, restored, journal, guardian))
        })();
        match begun {
            Ok((directory, restored, journal, guardian)) => {
                Ok((Self { lock, journal, guardian, directory, chosen: None }, restored))
            }
            Err(reason) => {
                lock.remove(&folder);
                Err(reason)
            }
        }
    }

    /// Has new connections steered by this process, or by the kernel; the value before is noted first.
    ///
    /// # Errors
    /// The journal cannot be written, or the kernel refuses. Nothing is changed.
    pub fn choose(&mut self, knob: Knob, userspace: bool) -> Result<(), Error> {
        let value = if userspace { knob.userspace } else { knob.kernel };
        let chosen = Values::from([(knob.name.to_owned(), value.to_owned())]);
        self.set(&chosen).map_err(|error| match error {
            denied if denied.is_denied() => Error::Denied(denied),
            other => other.into(),
        })?;
        self.chosen = Some((knob.name, value));
        Ok(())
    }

    /// Gives settings these values; those before are noted first.
    ///
    /// # Errors
    /// The journal cannot be written, or the kernel refuses. Nothing is changed.
    pub fn set(&mut self, values: &Values) -> Result<(), undo::Error> {
        self.journal.set(values).map(drop)
    }

    /// Puts these settings back while the daemon goes on.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn put_back(&mut self, names: &[String]) -> Result<Restored, Error> {
        let restored = self.journal.restore(Some(names));
        Ok(restored.map_err(|error| undo::Error::File(self.journal.file(), error))?)
    }

    /// The place of what is noted of endpoints, which outlives the daemon.
    ///
    /// # Errors
    /// No further file can be open.
    pub fn place_of_endpoints(&self) -> io::Result<Place> {
        Ok((self.journal.directory().share()?, ENDPOINTS))
    }

    /// Takes back the endpoints that a dead daemon has left: this one makes none, and would never do it.
    pub fn take_back_endpoints(&self, restored: &mut Restored) {
        take_back_endpoints(self.journal.directory(), restored);
    }

    /// The setting that another program or person has changed, if any: its name and its value.
    pub fn overruled(&self) -> Option<(&'static str, String)> {
        let (name, value) = self.chosen?;
        let file = settings::file(&places::sysctl_root(), name).ok()?;
        let present = settings::read(&file).ok()?;
        (!settings::same(&present, value)).then(|| (name, settings::single_spaced(&present)))
    }

    /// Readable when the guardian is gone.
    pub fn watch(&self) -> Watch<'_> {
        self.guardian.watch()
    }

    /// Starts another guardian.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn renew(&mut self) -> std::io::Result<()> {
        self.guardian = Guardian::start(&self.journal, &self.lock)?;
        Ok(())
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// The journal cannot be written; the guardian has tried it too then.
    pub fn end(mut self) -> Result<Restored, Error> {
        let restored = self.journal.restore(None);
        if self.journal.is_empty() {
            self.guardian.dismiss();
            self.lock.remove(self.journal.directory());
            self.directory.leave();
        }
        Ok(restored.map_err(|error| undo::Error::File(self.journal.file(), error))?)
    }
}

fn take_back_endpoints(directory: &Directory, restored: &mut Restored) {
    let place = directory.share().map(|directory| (directory, ENDPOINTS));
    let done = place.map_err(Error::from).and_then(|place| Ok(kept::take_back_left(place)?));
    match done {
        Ok(left) => {
            restored.names.extend(left.taken_back);
            restored.kept.extend(left.needed.into_iter().map(|name| (name, STAYS.to_owned())));
        }
        Err(error) => drop(restored.kept.insert("endpoints".to_owned(), error.to_string())),
    }
}

/// Puts back what dead daemons have left in this network namespace. Endpoints are left to the next daemon where
/// systemd is about to start it: subflows end with their endpoints, all that a connection has.
///
/// # Errors
/// The journal cannot be read.
pub fn restore() -> Result<Restored, undo::Error> {
    let place = place();
    let named = |error: io::Error| undo::Error::Directory(place.clone(), error);
    let directory = match Directory::open(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        opened => opened.map_err(named)?,
    };
    let folder = directory.make_below(FOLDER).map_err(named)?;
    let lock = Lock::of_the_dead(&folder).map_err(named)?;
    let mut restored = session::recover(&folder);
    if let Some(lock) = lock {
        if let Ok(restored) = &mut restored
            && places::given(RESULT).is_none_or(|result| result == Path::new(IN_ORDER))
        {
            take_back_endpoints(&folder, restored);
        }
        lock.remove(&folder);
    }
    directory.leave();
    restored
}
