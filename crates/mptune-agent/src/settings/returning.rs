//! Putting everything back, and saying what could not be.

use super::journal::{Content, Entry, Found, Store};
use super::outcome::{Because, Kept, Refusal, Restored};
use super::reload;
use super::setting::Setting;
use crate::undo::kind::bring;
use crate::undo::kind::{State, words};

/// What becomes of one setting.
enum Fate {
    /// It is as before; whether it had to be changed.
    Restored(bool),
    /// It was never changed here.
    Foreign,
    /// Nothing more can be done about it: the reason.
    Given(String),
    /// It can be tried again: the reason.
    Left(String),
}

/// Puts everything back that was made here.
///
/// # Errors
/// Another order is being carried out, or the journal cannot be read.
pub fn roll_back(store: &Store, force: bool) -> Result<Restored, Refusal> {
    // Without a lock file nobody else can work either: a full disk is no reason to leave everything as it is.
    let lock = match store.lock() {
        Err(refusal) if refusal.because != Because::Journal => return Err(refusal),
        lock => lock.ok(),
    };
    let done = match store.load() {
        Ok(Found::Content(content)) => Ok(restore(store, *content, force)),
        Ok(Found::Nothing | Found::Outdated) => store.forget().map(|()| Restored::default()),
        Err(refusal) => Err(refusal),
    };
    if done.is_ok() {
        store.forget_reverted();
    }
    if let Some(lock) = lock {
        store.unlock(lock);
    }
    done
}

/// Puts back what a journal has, the last first; forgets what needs no further try.
pub fn restore(store: &Store, mut content: Content, force: bool) -> Restored {
    let mut found = Restored::default();
    let mut left = Vec::new();
    let mut as_before = Vec::new();
    let mut changed = Vec::new();
    for entry in content.entries.iter().rev() {
        let name = entry.setting.name();
        match put_back(entry, force) {
            Fate::Restored(now) => {
                as_before.push(entry.clone());
                changed.push((entry.setting.clone(), now));
            }
            Fate::Foreign => {}
            Fate::Given(reason) => found.kept.push(Kept { name, reason }),
            Fate::Left(reason) => {
                found.kept.push(Kept { name, reason });
                left.push(entry.clone());
            }
        }
    }
    for entry in as_before {
        // Setting one may have changed another that was put back before.
        match differs(&entry) {
            None => found.restored.push(entry.setting.name()),
            Some(reason) => {
                found.kept.push(Kept { name: entry.setting.name(), reason });
                left.push(entry);
            }
        }
    }
    found.daemon = reload::ask(changed.into_iter());
    left.sort_by_key(|entry| entry.setting.place());
    content.entries = left;
    content.confirm = None;
    // If this fails, the journal says too much, and the next try finds that nothing is left to do.
    let _ = if content.entries.is_empty() {
        store.forget()
    } else {
        store.forget_program();
        store.save(&content)
    };
    found
}

fn put_back(entry: &Entry, force: bool) -> Fate {
    let kind = entry.setting.kind();
    kind.tidy();
    let present = match kind.read() {
        Ok(present) => present,
        Err(reason) => return Fate::Left(reason),
    };
    if kind.same(&present, &entry.before) {
        return Fate::Restored(false);
    }
    if present == State::Gone {
        return Fate::Given("what it belongs to is gone".to_owned());
    }
    if entry.is_foreign(&present) && !force {
        if kind.same(&entry.wanted, &entry.before) {
            return Fate::Foreign;
        }
        return Fate::Left(format!(
            "somebody else has set it to {}; --force puts it back to {}",
            words(&present),
            words(&entry.before)
        ));
    }
    match bring(kind, &present, &entry.before) {
        Ok(()) => Fate::Restored(true),
        // Others keep theirs in it.
        Err(reason) if matches!(entry.setting, Setting::Directory(_)) => Fate::Given(reason),
        Err(reason) => Fate::Left(reason),
    }
}

/// What is wrong with a setting that should be as before.
fn differs(entry: &Entry) -> Option<String> {
    let kind = entry.setting.kind();
    kind.settle(&entry.before);
    match kind.read() {
        Ok(present) if kind.same(&present, &entry.before) => None,
        Ok(present) => {
            let (before, present) = (words(&entry.before), words(&present));
            Some(format!("it was put back to {before}, and is {present}"))
        }
        Err(reason) => Some(reason),
    }
}
