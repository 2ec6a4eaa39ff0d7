//! The changes of a session on this host, and the values before: written before the first change, removed
//! when everything is put back.
//!
//! Whoever finds a journal can put everything back: the session itself, its guardian, or a later session.
//! A value that is no longer the session's was changed by somebody else and is left alone.

use super::change::{Change, Fate};
use super::directory::{Directory, LONGEST, PRIVATE};
use super::error::Error;
use super::kind::{self, Kind, State, bring, words};
use super::lock;
use super::places::{self, Namespace};
use super::sysctl::{ALLOWED, Sysctl, same};
use crate::kernel::sysctl::{Values, single_spaced};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Prefix and suffixes of the names of journals.
const PREFIX: &str = "journal-";
const FINISHED: &str = ".json";
const UNFINISHED: &str = ".new";

/// A setting that was changed, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    name: String,
    /// The raw value before.
    before: String,
    /// Every value that this session gave it or was about to.
    set: Vec<String>,
}

impl Noted {
    /// The same, to be put back.
    fn change(&self) -> Change<Sysctl> {
        let text = |value: &String| State::Text(value.clone());
        Change {
            setting: sysctl(&self.name, ""),
            before: text(&self.before),
            target: text(self.set.last().unwrap_or(&self.before)),
            passed: self.set.iter().map(text).collect(),
        }
    }
}

fn sysctl(name: &str, value: &str) -> Sysctl {
    Sysctl { name: name.to_owned(), value: value.to_owned() }
}

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    boot: String,
    pid: u32,
    began: u64,
    namespace: Namespace,
    changes: Vec<Noted>,
}

/// The journal of a session.
#[derive(Debug)]
pub struct Journal {
    directory: Directory,
    /// Of its file there.
    name: String,
    content: Content,
}

/// Outcome of putting settings back.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Settings that have their old values again.
    pub names: Vec<String>,
    /// The others, with the reason.
    pub kept: Values,
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
        Ok(Self { directory, name, content })
    }

    /// The journal in a file, to put everything back.
    ///
    /// # Errors
    /// It cannot be read, or is not this user's alone.
    pub fn open(directory: &Directory, name: &str) -> io::Result<Self> {
        let content = serde_json::from_slice(&directory.read(name)?)?;
        let (directory, name) = (directory.share()?, name.to_owned());
        Ok(Self { directory, name, content })
    }

    /// Its directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Its name there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its path, for messages.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Nothing is left to put back.
    pub fn is_empty(&self) -> bool {
        self.content.changes.is_empty()
    }

    /// Sets values and returns the old ones, with single blanks. After an error they are what they were; one that
    /// could not be made so stays in the journal.
    ///
    /// # Errors
    /// A setting cannot be made, or not be recorded.
    pub fn set(&mut self, values: &Values) -> Result<Values, Error> {
        let mut before = Values::new();
        let mut changes = self.content.changes.clone();
        let mut pending = Vec::new();
        for (name, value) in values {
            let setting = sysctl(name, value);
            let present = setting.read()?;
            let State::Text(text) = &present else {
                return Err(kind::Error::impossible(name, "there is no such setting here").into());
            };
            let state = setting.target(&present, &[])?;
            before.insert(name.clone(), single_spaced(text));
            if state != present {
                note(&mut changes, name, text, value);
                pending.push((setting, present, state));
            }
        }
        if !pending.is_empty() {
            self.make(pending, changes)?;
        }
        Ok(before)
    }

    /// Makes changes, which the journal has then as `changes`.
    fn make(
        &mut self,
        mut pending: Vec<(Sysctl, State, State)>,
        changes: Vec<Noted>,
    ) -> Result<(), Error> {
        // A default loads its module, without which nobody can be allowed to use it.
        pending.sort_by_key(|(setting, ..)| setting.name == ALLOWED);
        let earlier = std::mem::replace(&mut self.content.changes, changes);
        let written = self.save().map_err(|error| Error::File(self.file(), error));
        let done = written.and_then(|()| Ok(write_all(&pending)?));
        if done.is_err() {
            let noted = std::mem::take(&mut self.content.changes);
            self.content.changes = after_undo(earlier, noted, &left_changed(&pending));
            // Journal entries without a change are harmless: those values are as before.
            let _ = self.save();
        }
        done
    }

    /// Puts these settings back, or all, the last change first.
    ///
    /// # Errors
    /// The journal cannot be written; the settings are as before.
    pub fn restore(&mut self, names: Option<&[String]>) -> io::Result<Restored> {
        let mut restored = Restored::default();
        let mut remaining = Vec::new();
        let changes = std::mem::take(&mut self.content.changes);
        let count = changes.len();
        for noted in changes.into_iter().rev() {
            if names.is_some_and(|names| !names.contains(&noted.name)) {
                remaining.push(noted);
                continue;
            }
            let why = match noted.change().put_back(false) {
                Fate::Restored(_) | Fate::Unchanged => {
                    restored.names.push(noted.name);
                    continue;
                }
                Fate::Gone => "it is gone".to_owned(),
                Fate::Given(why) => why.to_string(),
                // It belongs to another program or person now.
                Fate::Foreign(present) => {
                    format!("somebody else has set it to {} meanwhile", words(&present))
                }
                Fate::Stuck(why) => {
                    remaining.push(noted.clone());
                    why.to_string()
                }
            };
            restored.kept.insert(noted.name, why);
        }
        remaining.reverse();
        let begun = remaining.len() < count || !restored.kept.is_empty();
        self.content.changes = remaining;
        if begun {
            self.save()?;
        }
        Ok(restored)
    }

    /// Saves the journal so that it survives a crash of the machine; removes the file if there is nothing to
    /// put back.
    fn save(&self) -> io::Result<()> {
        if self.is_empty() {
            return forget(&self.directory, &self.name);
        }
        let text = serde_json::to_vec(&self.content)?;
        if text.len() as u64 > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into()); // nobody would read it
        }
        self.directory.replace(&unfinished(&self.name), &self.name, &text, PRIVATE)
    }

    /// True if it applies to this namespace as it is now.
    fn concerns(&self, boot: &str, namespace: Namespace) -> bool {
        self.content.boot == boot && self.content.namespace == namespace
    }

    /// True if its session is still alive.
    fn is_alive(&self) -> bool {
        places::began(self.content.pid) == Some(self.content.began)
    }
}

/// Gives settings their values, all or none.
fn write_all(pending: &[(Sysctl, State, State)]) -> Result<(), kind::Error> {
    for (index, (setting, present, target)) in pending.iter().enumerate() {
        if let Err(error) = bring(setting, present, target) {
            for (setting, before, _) in pending[..=index].iter().rev() {
                let _ = setting.read().and_then(|now| bring(setting, &now, before));
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Of settings that were to be changed those that are not what they were then, and what they are; none if that cannot
/// be read.
fn left_changed(pending: &[(Sysctl, State, State)]) -> BTreeMap<String, Option<String>> {
    let changed = |(setting, before, _): &(Sysctl, State, State)| match setting.read() {
        Ok(now) if setting.same(&now, before) => None,
        Ok(State::Text(now)) => Some((setting.name.clone(), Some(now))),
        _ => Some((setting.name.clone(), None)),
    };
    pending.iter().filter_map(changed).collect()
}

/// The changes after an order that failed: as they were, but for those that are left of it.
fn after_undo(
    earlier: Vec<Noted>,
    noted: Vec<Noted>,
    left: &BTreeMap<String, Option<String>>,
) -> Vec<Noted> {
    let mut changes: Vec<_> =
        earlier.into_iter().filter(|change| !left.contains_key(&change.name)).collect();
    for mut change in noted {
        let Some(now) = left.get(&change.name) else { continue };
        if let Some(now) = now
            && !change.set.iter().any(|value| same(&change.name, value, now))
        {
            // The kernel has made something else of it, which is no less ours.
            change.set.push(now.clone());
        }
        changes.push(change);
    }
    changes
}

/// Name of a journal while it is written.
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

/// True for the unfinished journal of a session that is dead, which had not changed anything then.
fn abandoned(name: &str) -> bool {
    let writer = || {
        let (rest, began) =
            name.strip_prefix(PREFIX)?.strip_suffix(UNFINISHED)?.rsplit_once('-')?;
        Some((rest.rsplit_once('-')?.1.parse().ok()?, began.parse().ok()?))
    };
    writer().is_some_and(|(pid, began)| places::began(pid) != Some(began))
}

/// Adds a change that is about to be made.
fn note(changes: &mut Vec<Noted>, name: &str, present: &str, value: &str) {
    let set = |change: &&mut Noted| {
        change.name == name && change.set.iter().any(|value| same(name, value, present))
    };
    if let Some(change) = changes.iter_mut().find(set) {
        // It cannot have any other value of ours now; a setting that is adapted all the time would fill the journal.
        change.set.retain(|value| same(name, value, present));
        change.set.push(value.to_owned());
        return;
    }
    // Somebody else changed it after this session did: that is what it will be put back to.
    changes.retain(|change| change.name != name);
    changes.push(Noted {
        name: name.to_owned(),
        before: present.to_owned(),
        set: vec![value.to_owned()],
    });
}

/// True if a session has left a journal in a directory.
pub fn is_in(directory: &Directory) -> bool {
    directory.names().is_ok_and(|names| names.iter().any(|name| name.starts_with(PREFIX)))
}

/// Puts back what dead sessions have left changed in this namespace.
///
/// # Errors
/// The directory or a journal cannot be read, or is not this user's alone.
pub fn recover(directory: &Directory) -> Result<Restored, Error> {
    let named = |error: io::Error| Error::io(directory.path(), error);
    let boot = places::boot().map_err(named)?;
    let namespace = places::namespace().map_err(named)?;
    let mut all = Restored::default();
    let names = directory.names().map_err(named)?;
    for name in &names {
        let named = |error: io::Error| Error::File(directory.path().join(name), error);
        if abandoned(name) {
            directory.remove(name).map_err(named)?;
        }
        if !name.starts_with(PREFIX) || !name.ends_with(FINISHED) {
            continue;
        }
        let mut journal = match Journal::open(directory, name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_adapted_all_the_time_does_not_fill_the_journal() {
        let mut changes = Vec::new();
        let mut present = "4 5 6".to_owned();
        for number in 0..1000 {
            let value = format!("4 5 {number}");
            note(&mut changes, "net.ipv4.tcp_rmem", &present, &value);
            present = value;
        }
        let set = ["4 5 998", "4 5 999"].map(str::to_owned).to_vec();
        let (name, before) = ("net.ipv4.tcp_rmem".to_owned(), "4 5 6".to_owned());
        assert_eq!(changes, [Noted { name, before, set }]);
    }

    #[test]
    fn what_could_not_be_undone_stays_in_the_journal() {
        let noted = |name: &str, before: &str, set: &[&str]| {
            let set = set.iter().map(|&value| value.to_owned()).collect();
            Noted { name: name.to_owned(), before: before.to_owned(), set }
        };
        let earlier = vec![noted("net.a.a", "1", &["2"]), noted("net.b.b", "1", &["2"])];
        let mut changes = earlier.clone();
        note(&mut changes, "net.b.b", "2", "3");
        note(&mut changes, "net.c.c", "1", "9");
        note(&mut changes, "net.d.d", "1", "2");
        let now = |text: &str| Some(text.to_owned());
        let left = BTreeMap::from([
            ("net.b.b".to_owned(), now("3\n")),
            ("net.c.c".to_owned(), now("8\n")),
        ]);
        let expected = [
            noted("net.a.a", "1", &["2"]),
            noted("net.b.b", "1", &["2", "3"]),
            noted("net.c.c", "1", &["9", "8\n"]),
        ];
        assert_eq!(after_undo(earlier.clone(), changes.clone(), &left), expected);
        assert_eq!(after_undo(earlier.clone(), changes, &BTreeMap::new()), earlier);
    }

    #[test]
    fn a_journal_of_version_0_2_is_read_and_written_as_it_was() {
        let text = r#"{"boot":"b","pid":7,"began":9,"namespace":{"inode":4,"cookie":null},"changes":[
            {"name":"net.ipv4.tcp_rmem","before":"4096\t1\t2\n","set":["1 2 3","4 5 6"]}]}"#;
        let content: Content = serde_json::from_str(text).unwrap();
        let change = content.changes[0].change();
        let state = |text: &str| State::Text(text.to_owned());
        assert_eq!(
            (change.before.clone(), change.target.clone()),
            (state("4096\t1\t2\n"), state("4 5 6"))
        );
        assert!(!change.is_foreign(&state("1\t2\t3\n")) && change.is_foreign(&state("1 2 4")));
        let written: serde_json::Value = serde_json::to_value(&content).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }
}
