//! Rollback by order, of which the daemon is informed.

use super::outcome::{Refusal, Reload, Restored};
use super::reload;
use super::setting::Setting;
use crate::undo::applied::{self, Content, Found, Store};
use crate::undo::error::Error;

/// Puts everything back that was made here.
///
/// # Errors
/// Another order is being carried out, or the journal cannot be read.
pub fn roll_back(store: &Store, force: bool) -> Result<Restored, Refusal> {
    // Without a lock file nobody else can work either: a full disk is no reason to leave everything as it is.
    let lock = match store.lock() {
        Err(error @ (Error::Busy | Error::Hidden)) => return Err(error.into()),
        lock => lock.ok(),
    };
    let done = match store.load() {
        Ok(Found::Content(content)) => Ok(restore(store, *content, force)),
        Ok(Found::Nothing | Found::Outdated) => {
            store.forget().map(|()| Restored::default()).map_err(Refusal::from)
        }
        Err(error) => Err(error.into()),
    };
    if done.is_ok() {
        store.forget_reverted();
    }
    if let Some(lock) = lock {
        store.unlock(lock);
    }
    done
}

/// Puts back what a journal has, and asks the daemon to read its files again.
pub fn restore(store: &Store, content: Content<Setting>, force: bool) -> Restored {
    let mut daemon: Option<Reload> = None;
    let (restored, kept) = applied::restore(store, content, force, |changed| {
        daemon = reload::ask(changed.iter().cloned())
    });
    Restored { restored, kept, daemon }
}
