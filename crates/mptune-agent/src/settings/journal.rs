//! What was made on this machine and what was there before: written before anything changes, and gone when
//! everything is as before.
//!
//! Unlike that of the role `host` it outlives the process, and stays until somebody rolls back. It belongs to
//! one network namespace and one start of the machine: after a restart the settings are the system's again.

use super::outcome::{Because, Kept, Refusal};
use super::setting::Setting;
use crate::files;
use crate::kernel::sys;
use crate::undo::kind::State;
use crate::undo::places::{self, Namespace};
use crate::undo::steps;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where it is kept.
const DIRECTORY: &str = "/var/lib/mptune";
/// Instead of it, for tests.
pub const VARIABLE: &str = "MPTUNE_STATE_DIRECTORY";
/// Number of the format.
const VERSION: u32 = 1;
/// How long another order may take before one is refused.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);
/// Everybody may read what was made; nobody else may write it. Where files are among it only their owner's
/// superior may: what is in them, before and now, may be nobody else's business.
const RIGHTS: u32 = 0o755;
const READABLE: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// Longest file that is read, bytes: a journal has several states of each file, in hexadecimal digits.
const LONGEST: u64 = 1 << 28;

/// How far an order has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Settings are being made; if nobody does that, it was killed.
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
    /// Who puts back otherwise: `process` or `systemd`.
    pub by: String,
}

/// A setting that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// It.
    pub setting: Setting,
    /// What it was before the first order.
    pub before: State,
    /// What it was made.
    pub wanted: State,
    /// Everything that it may be because of us, before and `wanted` apart.
    pub passed: Vec<State>,
}

impl Entry {
    /// Whether somebody else has made it what it is.
    pub fn is_foreign(&self, present: &State) -> bool {
        let kind = self.setting.kind();
        let ours = self.passed.iter().chain([&self.wanted, &self.before]);
        !ours.into_iter().any(|state| kind.same(state, present)) && !self.is_renewed(present)
    }

    /// Whether the daemon has measured it again.
    pub fn is_renewed(&self, present: &State) -> bool {
        matches!(&self.setting, Setting::File(file) if file.is_renewed(present))
    }
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    version: u32,
    boot: String,
    namespace: Namespace,
    /// What the settings came from.
    pub run: String,
    /// When they were made, seconds since 1970.
    pub applied_s: u64,
    /// How far.
    pub phase: Phase,
    /// Whether somebody has to confirm.
    pub confirm: Option<Confirm>,
    /// In the order in which they are made.
    pub entries: Vec<Entry>,
    /// The machine, or the network namespace, began anew: only what outlives that is left.
    #[serde(skip)]
    pub restarted: bool,
}

impl Content {
    /// Who may read it.
    fn rights(&self) -> u32 {
        let is_file = |entry: &Entry| matches!(entry.setting, Setting::File(_));
        if self.entries.iter().any(is_file) { PRIVATE } else { READABLE }
    }

    /// What is left after a restart, as that of now; none if nothing is.
    fn after_restart(mut self, store: &Store) -> Option<Self> {
        self.entries.retain(|entry| entry.setting.outlives_the_machine());
        let files = self.entries.iter().any(|entry| matches!(entry.setting, Setting::File(_)));
        let (boot, namespace) = (store.boot.clone(), store.namespace);
        files.then_some(Self { boot, namespace, confirm: None, restarted: true, ..self })
    }
}

/// What was put back because nobody confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    boot: String,
    /// What the settings came from.
    pub run: String,
    /// When, seconds since 1970.
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
    pub fn new(content: &Content, restored: Vec<String>, kept: Vec<Kept>) -> Self {
        let within_s = content.confirm.as_ref().map_or(0, |confirm| confirm.within_s);
        let (boot, run) = (content.boot.clone(), content.run.clone());
        Self { boot, run, at_s: now_s(), within_s, restored, kept }
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    sys::realtime_ns() / 1_000_000_000
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// No settings were made.
    Nothing,
    /// These, and they are still what counts.
    Content(Box<Content>),
    /// Some, before this machine or this network namespace began anew.
    Outdated,
}

/// The directory with the journal of this network namespace.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    boot: String,
    namespace: Namespace,
    /// What the names of its files end with.
    ending: String,
}

/// The right to change anything here; its file is there as long as it.
pub struct Lock {
    file: PathBuf,
    _held: File,
}

impl Store {
    /// Of this process.
    ///
    /// # Errors
    /// /proc does not tell what is needed.
    pub fn here() -> Result<Self, Refusal> {
        let failed = |error: io::Error| Refusal::new(Because::Journal, format!("/proc: {error}"));
        let directory = std::env::var_os(VARIABLE).map_or_else(|| DIRECTORY.into(), PathBuf::from);
        let namespace = places::namespace().map_err(failed)?;
        let machines = fs::metadata("/proc/1/ns/net").map(|found| found.ino());
        // Who may not ask belongs to the machine's own.
        let is_machines = machines.map_or(true, |inode| inode == namespace.inode);
        let ending = if is_machines { String::new() } else { format!("-{}", namespace.inode) };
        Ok(Self { directory, boot: places::boot().map_err(failed)?, namespace, ending })
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}{}{extension}", self.ending))
    }

    fn journal(&self) -> PathBuf {
        self.file("applied", ".json")
    }

    fn report(&self) -> PathBuf {
        self.file("reverted", ".json")
    }

    /// Where the program is that puts back if nobody confirms.
    pub fn program(&self) -> PathBuf {
        self.file("mptune-agent", "")
    }

    fn named(&self, error: &io::Error) -> Refusal {
        let directory = self.directory.display();
        Refusal::new(Because::Journal, format!("{directory}: {}", words(error)))
    }

    /// A content for new entries.
    pub fn content(&self, run: &str) -> Content {
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

    /// Waits a little for others that are at work.
    ///
    /// # Errors
    /// They do not end, or the directory cannot be written.
    pub fn lock(&self) -> Result<Lock, Refusal> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = self.try_lock().map_err(|error| self.named(&error))? {
                self.tidy();
                return Ok(lock);
            }
            if Instant::now() > end {
                return Err(Refusal::new(
                    Because::Busy,
                    "another apply or rollback is at work on this machine",
                ));
            }
            thread::sleep(PAUSE);
        }
    }

    fn try_lock(&self) -> io::Result<Option<Lock>> {
        if places::own(&self.directory, RIGHTS)? {
            steps::changed();
        }
        let path = self.directory.join("lock");
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = match made {
            Ok(file) => {
                steps::changed();
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match OpenOptions::new().write(true).open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    opened => opened?,
                }
            }
            // The directory was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !sys::lock_file(&file)? {
            return Ok(None);
        }
        // Whoever had it may have removed it before it was locked here.
        let there = fs::metadata(&path).map(|found| found.ino()).ok();
        let lock = Lock { file: path, _held: file };
        Ok((there == Some(lock._held.metadata()?.ino())).then_some(lock))
    }

    /// Removes what was not finished when its writer was killed.
    fn tidy(&self) {
        for file in [self.journal(), self.report(), self.program()] {
            if fs::remove_file(unfinished(&file)).is_ok() {
                steps::changed();
            }
        }
    }

    /// Gives the lock back; nothing is left of a directory in which there is nothing.
    pub fn unlock(&self, lock: Lock) {
        if fs::remove_file(&lock.file).is_ok() {
            steps::changed();
        }
        if fs::remove_dir(&self.directory).is_ok() {
            steps::changed();
        }
    }

    /// What was made here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn load(&self) -> Result<Found, Refusal> {
        let file = self.journal();
        let unreadable = |error: &dyn std::fmt::Display| {
            Refusal::new(Because::Journal, format!("{}: {error}", file.display()))
        };
        let bytes = match read(&file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let reason =
                    "settings of mptune are applied here, with files: only root may see which";
                return Err(Refusal::new(Because::Privilege, reason));
            }
            read => read.map_err(|error| unreadable(&words(&error)))?,
        };
        let Some(bytes) = bytes else { return Ok(Found::Nothing) };
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
        if content.version != VERSION {
            return Err(unreadable(&format!(
                "expected version {VERSION}, found {}: use the mptune that wrote it",
                content.version
            )));
        }
        if content.boot != self.boot || content.namespace != self.namespace {
            let left = content.after_restart(self);
            return Ok(left.map_or(Found::Outdated, |content| Found::Content(Box::new(content))));
        }
        Ok(Found::Content(Box::new(content)))
    }

    /// What was put back by itself since the machine began.
    pub fn reverted(&self) -> Option<Reverted> {
        let found: Reverted = json(&self.report())?;
        (found.boot == self.boot).then_some(found)
    }

    /// Writes the journal, whatever happens to the machine afterwards.
    ///
    /// # Errors
    /// It cannot be written; the last one is still there.
    pub fn save(&self, content: &Content) -> Result<(), Refusal> {
        let bytes = serde_json::to_vec(content).expect("structures serialise");
        self.write(&self.journal(), &bytes, content.rights())
    }

    /// Writes what was put back by itself.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_reverted(&self, reverted: &Reverted) -> Result<(), Refusal> {
        let bytes = serde_json::to_vec(reverted).expect("structures serialise");
        self.write(&self.report(), &bytes, READABLE)
    }

    fn write(&self, file: &Path, bytes: &[u8], rights: u32) -> Result<(), Refusal> {
        let new = unfinished(file);
        let written = write(&new, bytes, rights).and_then(|()| self.finish(file));
        if written.is_err() && fs::remove_file(&new).is_ok() {
            steps::changed();
        }
        written.map_err(|error| self.named(&error))
    }

    /// Lets what is written take its place.
    fn finish(&self, file: &Path) -> io::Result<()> {
        fs::rename(unfinished(file), file)?;
        steps::changed();
        File::open(&self.directory)?.sync_all()
    }

    /// Copies this program next to the journal.
    ///
    /// # Errors
    /// There is no room.
    pub fn save_program(&self, from: &Path) -> Result<(), Refusal> {
        let (file, new) = (self.program(), unfinished(&self.program()));
        let copied = files::read(from, LONGEST)
            .map_err(io::Error::from)
            .and_then(|bytes| write(&new, &bytes, READABLE))
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(RIGHTS)))
            .map(|()| steps::changed())
            .and_then(|()| self.finish(&file));
        if copied.is_err() && fs::remove_file(&new).is_ok() {
            steps::changed();
        }
        copied.map_err(|error| self.named(&error))
    }

    /// Forgets the program; who runs it goes on.
    pub fn forget_program(&self) {
        if fs::remove_file(self.program()).is_ok() {
            steps::changed();
        }
    }

    /// Forgets what was put back by itself.
    pub fn forget_reverted(&self) {
        if fs::remove_file(self.report()).is_ok() {
            steps::changed();
        }
    }

    /// Forgets the journal, and the program.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn forget(&self) -> Result<(), Refusal> {
        self.forget_program();
        match fs::remove_file(self.journal()) {
            Ok(()) => steps::changed(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.named(&error)),
            Err(_) => {}
        }
        Ok(())
    }
}

fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn write(file: &Path, bytes: &[u8], rights: u32) -> io::Result<()> {
    // One that is there may be more readable.
    if fs::remove_file(file).is_ok() {
        steps::changed();
    }
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(rights).open(file)?;
    steps::changed();
    file.write_all(bytes)?;
    steps::changed();
    file.sync_all()
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match files::read(file, LONGEST) {
        Err(unread) if unread.is_missing() => Ok(None),
        read => Ok(Some(read?)),
    }
}

fn json<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&read(file).ok()??).ok()
}

fn words(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::sysctl::Sysctl;

    fn store(name: &str) -> Store {
        let directory = std::env::temp_dir().join(format!("mptune-{name}-{}", std::process::id()));
        let namespace = places::namespace().unwrap();
        Store { directory, boot: "this".to_owned(), namespace, ending: String::new() }
    }

    #[test]
    fn a_journal_counts_until_the_machine_or_the_namespace_begins_anew() {
        let store = store("outdated");
        let lock = store.lock().unwrap();
        assert_eq!(store.load(), Ok(Found::Nothing));
        let content = store.content("a run");
        store.save(&content).unwrap();
        assert_eq!(store.load(), Ok(Found::Content(Box::new(content))));
        let restarted =
            Store { boot: "next".to_owned(), directory: store.directory.clone(), ..store };
        assert_eq!(restarted.load(), Ok(Found::Outdated));
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
        let setting =
            Setting::Sysctl(Sysctl { name: "net.ipv4.tcp_wmem".to_owned(), value: String::new() });
        let (before, wanted, passed) = (text("1\t2\t3\n"), text("4 5 6"), vec![text("7 8 9")]);
        let entry = Entry { setting, before, wanted, passed };
        for ours in ["1\t2\t3\n", "4\t5\t6\n", "7 8 9"] {
            assert!(!entry.is_foreign(&text(ours)));
        }
        assert!(entry.is_foreign(&text("4 5 7")) && entry.is_foreign(&State::Gone));
    }
}
