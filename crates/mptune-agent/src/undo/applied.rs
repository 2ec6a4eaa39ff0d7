//! The journal of settings that stay: written before anything changes, and gone when everything is as before.
//!
//! Unlike that of a session it outlives the process, and stays until somebody rolls back. It belongs to
//! one network namespace and one start of the machine: after a restart the settings are the system's again.

use super::change::{Change, Fate, Setting};
use super::directory::{self, Directory, PRIVATE};
use super::error::Error;
use super::kind::words;
use super::lock::Lock;
use super::places::{self, Namespace};
use crate::files;
use crate::kernel::sys;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The directory of the journal.
const DIRECTORY: &str = "/var/lib/mptune";
/// Instead of it, for tests.
pub const VARIABLE: &str = "MPTUNE_STATE_DIRECTORY";
/// Number of the format.
const VERSION: u32 = 1;
/// The name of the lock.
const LOCK: &str = "lock";
/// Longest wait for another order before this one is refused.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);
/// Everybody may read what was made; nobody else may write it. Where files are among it only their owner's
/// superior may: what is in them, before and now, may be nobody else's business.
const RIGHTS: u32 = 0o755;
const READABLE: u32 = 0o644;
/// Longest file that is read, bytes: a journal has several states of each file, in hexadecimal digits.
const LONGEST: u64 = 1 << 28;

/// Progress of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Settings are being made; without a running order, it was killed.
    Applying,
    /// All are made.
    Applied,
}

/// Somebody has to confirm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// No other order has it.
    pub token: String,
    /// Seconds there were.
    pub within_s: u64,
    /// Until when, CLOCK_BOOTTIME.
    pub deadline_ns: u64,
    /// The process that puts back otherwise: `process` or `systemd`.
    pub by: String,
}

/// A setting that is not as it was, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content<S> {
    version: u32,
    boot: String,
    namespace: Namespace,
    /// Name of the run that the settings came from.
    pub run: String,
    /// Time of the order, seconds since 1970.
    pub applied_s: u64,
    /// Progress of the order.
    pub phase: Phase,
    /// The confirmation that is awaited, if any.
    pub confirm: Option<Confirm>,
    /// In the order in which they are made.
    pub entries: Vec<Change<S>>,
    /// The machine, or the network namespace, began anew: only what outlives that is left.
    #[serde(skip)]
    pub restarted: bool,
}

impl<S: Setting> Content<S> {
    fn is_private(&self) -> bool {
        self.entries.iter().any(|entry| entry.setting.is_private())
    }

    /// The part that outlives a restart, as a content of now; none if nothing does.
    fn after_restart(mut self, store: &Store) -> Option<Self> {
        self.entries.retain(|entry| entry.setting.outlives_the_machine());
        let (boot, namespace) = (store.boot.clone(), store.namespace);
        self.is_private().then_some(Self {
            boot,
            namespace,
            confirm: None,
            restarted: true,
            ..self
        })
    }
}

/// Report of a rollback because nobody confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    boot: String,
    /// Name of the run that the settings came from.
    pub run: String,
    /// Time of the rollback, seconds since 1970.
    pub at_s: u64,
    /// Seconds there were.
    pub within_s: u64,
    /// Names of the settings that are as before again.
    pub restored: Vec<String>,
    /// The others.
    pub kept: Vec<Kept>,
}

impl Reverted {
    /// Now, in this start of the machine.
    pub fn new<S>(content: &Content<S>, restored: Vec<String>, kept: Vec<Kept>) -> Self {
        let within_s = content.confirm.as_ref().map_or(0, |confirm| confirm.within_s);
        let (boot, run) = (content.boot.clone(), content.run.clone());
        Self { boot, run, at_s: now_s(), within_s, restored, kept }
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    sys::realtime_ns() / 1_000_000_000
}

/// Content of the journal's file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<S> {
    /// No settings were made.
    Nothing,
    /// These, and they are still what counts.
    Content(Box<Content<S>>),
    /// Some, before this machine or this network namespace began anew.
    Outdated,
}

/// The directory with the journal of this network namespace.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    boot: String,
    namespace: Namespace,
    /// Suffix of the names of its files.
    ending: String,
}

/// The right to change anything here; its file is there as long as it.
pub struct Held {
    directory: Directory,
    lock: Lock,
}

impl Store {
    /// Of this process.
    ///
    /// # Errors
    /// /proc lacks what is needed.
    pub fn here() -> Result<Self, Error> {
        let failed = |error: io::Error| Error::io(Path::new("/proc"), error);
        let directory = std::env::var_os(VARIABLE).map_or_else(|| DIRECTORY.into(), PathBuf::from);
        let namespace = places::namespace().map_err(failed)?;
        let machines = fs::metadata("/proc/1/ns/net").map(|about| about.ino());
        // A process that may not ask counts as one in the machine's own namespace.
        let is_machines = machines.map_or(true, |inode| inode == namespace.inode);
        let ending = if is_machines { String::new() } else { format!("-{}", namespace.inode) };
        Ok(Self { directory, boot: places::boot().map_err(failed)?, namespace, ending })
    }

    fn journal(&self) -> String {
        format!("applied{}.json", self.ending)
    }

    fn report(&self) -> String {
        format!("reverted{}.json", self.ending)
    }

    fn copy(&self) -> String {
        format!("mptune-agent{}", self.ending)
    }

    /// The copy of the program that puts back if nobody confirms.
    pub fn program(&self) -> PathBuf {
        self.directory.join(self.copy())
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(&self.directory, error)
    }

    /// A content for new entries.
    pub fn content<S>(&self, run: &str) -> Content<S> {
        Content {
            version: VERSION,
            boot: self.boot.clone(),
            namespace: self.namespace,
            run: run.to_owned(),
            applied_s: now_s(),
            phase: Phase::Applying,
            confirm: None,
            entries: Vec::new(),
            restarted: false,
        }
    }

    /// Waits a little for other orders to end.
    ///
    /// # Errors
    /// They do not end, or the directory cannot be written.
    pub fn lock(&self) -> Result<Held, Error> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(held) = self.try_lock().map_err(|error| self.failed(error))? {
                // Files that were unfinished when their writer was killed.
                for name in [self.journal(), self.report(), self.copy()] {
                    let _ = held.directory.remove(&unfinished(&name));
                }
                return Ok(held);
            }
            if Instant::now() > end {
                return Err(Error::Busy);
            }
            thread::sleep(PAUSE);
        }
    }

    fn try_lock(&self) -> io::Result<Option<Held>> {
        // A router may have no /var/lib since it began; the directory itself is made with its own rights.
        self.directory.parent().map_or(Ok(()), |above| directory::make_all(above, RIGHTS))?;
        let directory = match Directory::make_for(&self.directory, RIGHTS) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            made => made?,
        };
        let lock = Lock::attempt(&directory, LOCK)?;
        Ok(lock.map(|lock| Held { directory, lock }))
    }

    /// Gives the lock back; nothing is left of a directory in which there is nothing.
    pub fn unlock(&self, held: Held) {
        held.lock.remove(&held.directory);
    }

    /// The settings that were made here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load<S: Setting + DeserializeOwned>(&self) -> Result<Found<S>, Error> {
        let file = self.directory.join(self.journal());
        let bytes = match read(&file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::Hidden);
            }
            read => read.map_err(|error| Error::io(&file, error))?,
        };
        let Some(bytes) = bytes else { return Ok(Found::Nothing) };
        let content: Content<S> =
            serde_json::from_slice(&bytes).map_err(|error| Error::Content(file.clone(), error))?;
        if content.version != VERSION {
            return Err(Error::Version { file, expected: VERSION, found: content.version });
        }
        if content.boot != self.boot || content.namespace != self.namespace {
            let left = content.after_restart(self);
            return Ok(left.map_or(Found::Outdated, |content| Found::Content(Box::new(content))));
        }
        Ok(Found::Content(Box::new(content)))
    }

    /// The last rollback without a confirmation since the machine began.
    pub fn reverted(&self) -> Option<Reverted> {
        let bytes = read(&self.directory.join(self.report())).ok()??;
        let reverted: Reverted = serde_json::from_slice(&bytes).ok()?;
        (reverted.boot == self.boot).then_some(reverted)
    }

    /// Writes the journal, whatever happens to the machine afterwards.
    ///
    /// # Errors
    /// It cannot be written; the last one is still there.
    pub fn save<S: Setting + Serialize>(&self, content: &Content<S>) -> Result<(), Error> {
        let bytes = serde_json::to_vec(content).expect("structures serialise");
        self.write(&self.journal(), &bytes, if content.is_private() { PRIVATE } else { READABLE })
    }

    /// Writes what was put back by itself.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_reverted(&self, reverted: &Reverted) -> Result<(), Error> {
        let bytes = serde_json::to_vec(reverted).expect("structures serialise");
        self.write(&self.report(), &bytes, READABLE)
    }

    /// Copies this program next to the journal.
    ///
    /// # Errors
    /// There is no room.
    pub fn save_program(&self, from: &Path) -> Result<(), Error> {
        let bytes = files::read(from, LONGEST).map_err(io::Error::from);
        let bytes = bytes.map_err(|error| self.failed(error))?;
        self.write(&self.copy(), &bytes, RIGHTS)
    }

    fn write(&self, name: &str, bytes: &[u8], rights: u32) -> Result<(), Error> {
        let directory = Directory::open(&self.directory);
        let written = directory
            .and_then(|directory| directory.replace(&unfinished(name), name, bytes, rights));
        written.map_err(|error| self.failed(error))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match Directory::open(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            directory => directory?.remove(name),
        }
    }

    /// Forgets the program; who runs it goes on.
    pub fn forget_program(&self) {
        let _ = self.remove(&self.copy());
    }

    /// Forgets what was put back by itself.
    pub fn forget_reverted(&self) {
        let _ = self.remove(&self.report());
    }

    /// Forgets the journal, and the program.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn forget(&self) -> Result<(), Error> {
        self.forget_program();
        self.remove(&self.journal()).map_err(|error| self.failed(error))
    }
}

fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match files::read(file, LONGEST) {
        Err(unread) if unread.is_missing() => Ok(None),
        read => Ok(Some(read?)),
    }
}

/// Puts back what a journal has, the last first; forgets what needs no further try. `tell` is given the settings that
/// are as before, and whether they had to be changed, before anything is forgotten. The names of those, and the others.
pub fn restore<S: Setting + Serialize>(
    store: &Store,
    mut content: Content<S>,
    force: bool,
    tell: impl FnOnce(&[(S, bool)]),
) -> (Vec<String>, Vec<Kept>) {
    let (mut restored, mut kept, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let (mut as_before, mut changed) = (Vec::new(), Vec::new());
    for entry in content.entries.iter().rev() {
        let name = entry.setting.name();
        let (reason, retry) = match entry.put_back(force) {
            Fate::Restored(now) => {
                as_before.push(entry.clone());
                changed.push((entry.setting.clone(), now));
                continue;
            }
            Fate::Unchanged => continue,
            Fate::Gone => ("what it belongs to is gone".to_owned(), false),
            Fate::Given(error) => (error.to_string(), false),
            Fate::Foreign(present) => {
                let (present, before) = (words(&present), words(&entry.before));
                let reason = format!(
                    "somebody else has set it to {present}; --force puts it back to {before}"
                );
                (reason, true)
            }
            Fate::Stuck(error) => (error.to_string(), true),
        };
        kept.push(Kept { name, reason });
        left.extend(retry.then(|| entry.clone()));
    }
    for entry in as_before {
        let name = entry.setting.name();
        // Setting one may have changed another that was put back before.
        match differs(&entry) {
            None => restored.push(name),
            Some(reason) => {
                kept.push(Kept { name, reason });
                left.push(entry);
            }
        }
    }
    tell(&changed);
    left.sort_by_key(|entry| entry.setting.place());
    content.entries = left;
    content.confirm = None;
    // If this fails, the journal keeps entries without a change, and the next try finds nothing left to do.
    let _ = if content.entries.is_empty() {
        store.forget()
    } else {
        store.forget_program();
        store.save(&content)
    };
    (restored, kept)
}

/// The difference of a setting from its state before, in words; none if there is none.
fn differs(entry: &Change<impl Setting>) -> Option<String> {
    let kind = entry.setting.kind();
    kind.settle(&entry.before);
    match kind.read() {
        Ok(present) if kind.same(&present, &entry.before) => None,
        Ok(present) => {
            let (before, present) = (words(&entry.before), words(&present));
            Some(format!("it was put back to {before}, and is {present}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::kind::State;
    use super::super::sysctl::Sysctl;
    use super::*;

    /// In a directory of the test's own.
    pub fn store(name: &str) -> Store {
        let directory = std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()));
        let namespace = places::namespace().unwrap();
        Store { directory, boot: "this".to_owned(), namespace, ending: String::new() }
    }

    #[test]
    fn a_journal_counts_until_the_machine_or_the_namespace_begins_anew() {
        let store = store("outdated");
        let lock = store.lock().unwrap();
        assert_eq!(store.load::<Sysctl>().unwrap(), Found::Nothing);
        let content = store.content::<Sysctl>("a run");
        store.save(&content).unwrap();
        assert_eq!(store.load().unwrap(), Found::Content(Box::new(content)));
        let restarted =
            Store { boot: "next".to_owned(), directory: store.directory.clone(), ..store };
        assert_eq!(restarted.load::<Sysctl>().unwrap(), Found::Outdated);
        restarted.forget().unwrap();
        restarted.unlock(lock);
        assert!(!restarted.directory.exists());
    }

    #[test]
    fn there_is_one_lock_at_a_time_and_nothing_left_of_it() {
        let store = store("lock");
        let lock = store.try_lock().unwrap().unwrap();
        assert!(store.try_lock().unwrap().is_none());
        store.unlock(lock);
        assert!(!store.directory.exists());
        store.unlock(store.lock().unwrap());
    }

    #[test]
    fn what_was_neither_before_nor_made_here_is_somebody_elses() {
        let text = |text: &str| State::Text(text.to_owned());
        let setting = Sysctl { name: "net.ipv4.tcp_wmem".to_owned(), value: String::new() };
        let (before, target, passed) = (text("1\t2\t3\n"), text("4 5 6"), vec![text("7 8 9")]);
        let entry = Change { setting, before, target, passed };
        for ours in ["1\t2\t3\n", "4\t5\t6\n", "7 8 9"] {
            assert!(!entry.is_foreign(&text(ours)));
        }
        assert!(entry.is_foreign(&text("4 5 7")) && entry.is_foreign(&State::Gone));
    }
}
