//! What a session has changed on this host, and the values before: written before the first change, removed
//! when everything is put back.
//!
//! Whoever finds a journal can put everything back: the session itself, its guardian, or a later session.
//! A value that is no longer the session's was changed by somebody else and is left alone.

use super::directory::{Directory, LONGEST};
use super::lock;
use super::places::{self, Namespace};
use crate::kernel::sysctl::{self as settings, Values};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::PathBuf;

/// What the names of journals begin and end with.
const PREFIX: &str = "journal-";
const FINISHED: &str = ".json";
const UNFINISHED: &str = ".new";

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    name: String,
    /// The raw value before.
    before: String,
    /// Every value that this session gave it or was about to.
    set: Vec<String>,
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    boot: String,
    pid: u32,
    began: u64,
    namespace: Namespace,
    changes: Vec<Change>,
}

/// The journal of a session.
#[derive(Debug)]
pub struct Journal {
    directory: Directory,
    /// Of its file there.
    name: String,
    root: PathBuf,
    /// Who it is in the steps that tests wait for.
    who: &'static str,
    content: Content,
}

/// What was put back.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Settings that have their old values again.
    pub names: Vec<String>,
    /// The others, with the reason.
    pub kept: Values,
}

/// What became of one setting.
enum Fate {
    /// It is as before.
    Restored,
    /// It is given up, because it is somebody else's now: the reason.
    Given(String),
    /// It could not be put back: the reason.
    Stuck(String),
}

impl Journal {
    /// A journal of this process in a directory; nothing is written yet.
    ///
    /// # Errors
    /// /proc lacks what is needed.
    pub fn new(directory: &Directory) -> io::Result<Self> {
        let (boot, pid) = (places::boot()?, std::process::id());
        let began = places::began(pid).ok_or(io::ErrorKind::NotFound)?;
        let name = format!("{PREFIX}{boot}-{pid}-{began}{FINISHED}");
        let directory = directory.share()?;
        let content =
            Content { boot, pid, began, namespace: places::namespace()?, changes: Vec::new() };
        Ok(Self { directory, name, root: places::sysctl_root(), who: "host", content })
    }

    /// The journal in a file, to put everything back.
    ///
    /// # Errors
    /// It cannot be read, or is not this user's alone.
    pub fn open(directory: &Directory, name: &str, who: &'static str) -> io::Result<Self> {
        let content = serde_json::from_slice(&directory.read(name)?)?;
        let (directory, name) = (directory.share()?, name.to_owned());
        Ok(Self { directory, name, root: places::sysctl_root(), who, content })
    }

    /// Where it is.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Its name there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is, for messages.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Nothing is left to put back.
    pub fn is_empty(&self) -> bool {
        self.content.changes.is_empty()
    }

    /// Sets values and returns the old ones, with single blanks. After an error nothing is changed.
    ///
    /// # Errors
    /// One line with the name and what is wrong.
    pub fn set(&mut self, wanted: &Values) -> Result<Values, String> {
        let mut before = Values::new();
        let mut changes = self.content.changes.clone();
        let mut pending = Vec::new();
        for (name, value) in wanted {
            let present = self.present(name)?;
            if !settings::same(&present, value) {
                note(&mut changes, name, &present, value);
                pending.push((name, value, present.clone()));
            }
            before.insert(name.clone(), settings::shown(&present));
        }
        if pending.is_empty() {
            return Ok(before);
        }
        let earlier = std::mem::replace(&mut self.content.changes, changes);
        places::reached(self.who, "guarded");
        let written = self.save().map_err(|error| format!("{}: {error}", self.file().display()));
        if let Err(reason) = written.and_then(|()| self.write_all(&pending)) {
            self.content.changes = earlier;
            // What it says too much is harmless: those values are as before.
            let _ = self.save();
            return Err(reason);
        }
        Ok(before)
    }

    fn present(&self, name: &str) -> Result<String, String> {
        let file = settings::file(&self.root, name)?;
        settings::read(&file).map_err(|error| format!("{name}: {}", settings::words(&error)))
    }

    /// Writes values, all or none.
    fn write_all(&self, pending: &[(&String, &String, String)]) -> Result<(), String> {
        places::reached(self.who, "noted");
        for (index, (name, value, _)) in pending.iter().enumerate() {
            if let Err(reason) = self.write(name, value) {
                for (name, _, before) in pending[..=index].iter().rev() {
                    let _ = self.write_raw(name, before);
                }
                return Err(reason);
            }
            if index == 0 {
                places::reached(self.who, "begun");
            }
        }
        places::reached(self.who, "set");
        Ok(())
    }

    /// Writes a value and checks that the kernel took it unchanged.
    fn write(&self, name: &str, value: &str) -> Result<(), String> {
        self.write_raw(name, value)
            .map_err(|error| format!("{name}: {}", settings::words(&error)))?;
        let present = self.present(name)?;
        if settings::same(&present, value) {
            return Ok(());
        }
        Err(format!(
            "{name}: expected {value}, found {} after it was set",
            settings::shown(&present)
        ))
    }

    fn write_raw(&self, name: &str, value: &str) -> io::Result<()> {
        let file = settings::file(&self.root, name).map_err(io::Error::other)?;
        settings::write(&file, value)
    }

    /// Puts these settings back, or all, the last change first.
    ///
    /// # Errors
    /// The journal cannot be written; the settings are as before.
    pub fn restore(&mut self, names: Option<&[String]>) -> io::Result<Restored> {
        let mut restored = Restored::default();
        let mut remaining = Vec::new();
        let mut begun = false;
        let changes = std::mem::take(&mut self.content.changes);
        for change in changes.into_iter().rev() {
            if names.is_some_and(|names| !names.contains(&change.name)) {
                remaining.push(change);
                continue;
            }
            match self.put_back(&change) {
                Fate::Restored => restored.names.push(change.name),
                Fate::Given(why) => drop(restored.kept.insert(change.name, why)),
                Fate::Stuck(why) => {
                    restored.kept.insert(change.name.clone(), why);
                    remaining.push(change);
                }
            }
            if !std::mem::replace(&mut begun, true) {
                places::reached(self.who, "restoring");
            }
        }
        remaining.reverse();
        self.content.changes = remaining;
        if begun {
            places::reached(self.who, "restored");
            self.save()?;
        }
        Ok(restored)
    }

    fn put_back(&self, change: &Change) -> Fate {
        let Ok(file) = settings::file(&self.root, &change.name) else {
            return Fate::Given("it is no setting".to_owned());
        };
        let present = match settings::read(&file) {
            Ok(present) => present,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Fate::Given("it is gone".to_owned());
            }
            Err(error) => return Fate::Stuck(settings::words(&error)),
        };
        if present == change.before {
            return Fate::Restored;
        }
        if !change.set.iter().any(|value| settings::same(value, &present)) {
            let found = settings::shown(&present);
            return Fate::Given(format!("somebody else has set it to {found} meanwhile"));
        }
        match settings::write(&file, &change.before) {
            Ok(()) => Fate::Restored,
            Err(error) => Fate::Stuck(settings::words(&error)),
        }
    }

    /// Saves the journal so that it survives a crash of the machine; removes the file if there is nothing to
    /// put back.
    fn save(&self) -> io::Result<()> {
        if self.is_empty() {
            return forget(&self.directory, &self.name);
        }
        let (new, text) = (unfinished(&self.name), serde_json::to_vec(&self.content)?);
        if text.len() as u64 > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into()); // nobody would read it
        }
        let mut file = self.directory.create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        places::reached(self.who, "written");
        self.directory.rename(&new, &self.name)
    }

    /// Whether it applies to this namespace as it is now.
    fn concerns(&self, boot: &str, namespace: Namespace) -> bool {
        self.content.boot == boot && self.content.namespace == namespace
    }

    /// Whether its session is still alive.
    fn is_alive(&self) -> bool {
        places::began(self.content.pid) == Some(self.content.began)
    }
}

/// Where a journal is written before it takes its place.
fn unfinished(name: &str) -> String {
    format!("{}{UNFINISHED}", name.strip_suffix(FINISHED).unwrap_or(name))
}

/// Removes a journal, also an unfinished one.
///
/// # Errors
/// It is there and cannot be removed.
pub fn forget(directory: &Directory, name: &str) -> io::Result<()> {
    directory.remove(name)?;
    directory.remove(&unfinished(name))
}

/// Whether a file is the unfinished journal of a session that is dead, which had not changed anything then.
fn abandoned(name: &str) -> bool {
    let writer = || {
        let (rest, began) =
            name.strip_prefix(PREFIX)?.strip_suffix(UNFINISHED)?.rsplit_once('-')?;
        Some((rest.rsplit_once('-')?.1.parse().ok()?, began.parse().ok()?))
    };
    writer().is_some_and(|(pid, began)| places::began(pid) != Some(began))
}

/// Adds a change that is about to be made.
fn note(changes: &mut Vec<Change>, name: &str, present: &str, value: &str) {
    let set = |change: &&mut Change| {
        change.name == name && change.set.iter().any(|value| settings::same(value, present))
    };
    if let Some(change) = changes.iter_mut().find(set) {
        change.set.push(value.to_owned());
        return;
    }
    // Somebody else changed it after this session did: that is what it will be put back to.
    changes.retain(|change| change.name != name);
    changes.push(Change {
        name: name.to_owned(),
        before: present.to_owned(),
        set: vec![value.to_owned()],
    });
}

/// Whether a session has left a journal in a directory.
pub fn is_in(directory: &Directory) -> bool {
    directory.names().is_ok_and(|names| names.iter().any(|name| name.starts_with(PREFIX)))
}

/// Puts back what dead sessions have left changed in this namespace.
///
/// # Errors
/// One line: the directory or a journal cannot be read, or is not this user's alone.
pub fn recover(directory: &Directory) -> Result<Restored, String> {
    let named = |error: io::Error| format!("{}: {error}", directory.path().display());
    let boot = places::boot().map_err(named)?;
    let namespace = places::namespace().map_err(named)?;
    let mut all = Restored::default();
    let names = directory.names().map_err(named)?;
    for name in &names {
        let named =
            |error: io::Error| format!("{}: {error}", directory.path().join(name).display());
        if abandoned(name) {
            directory.remove(name).map_err(named)?;
        }
        if !name.starts_with(PREFIX) || !name.ends_with(FINISHED) {
            continue;
        }
        let mut journal = match Journal::open(directory, name, "recovery") {
            Ok(journal) => journal,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(named(error)),
        };
        if journal.content.boot != boot {
            forget(directory, name).map_err(named)?;
        } else if journal.concerns(&boot, namespace) && !journal.is_alive() {
            let restored = journal.restore(None).map_err(named)?;
            all.names.extend(restored.names);
            all.kept.extend(restored.kept);
        }
    }
    lock::sweep(directory, &names);
    directory.leave();
    Ok(all)
}
