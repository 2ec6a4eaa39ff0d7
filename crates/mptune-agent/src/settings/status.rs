//! Status of the settings that were made on this machine; nothing is changed.

use super::apply;
use super::foreign;
use super::outcome::Refusal;
use super::protocol::{Standing, Status};
use super::setting::Setting;
use crate::undo::applied::{Content, Found, Phase, Store};
use crate::undo::change::{Change, Setting as _};
use crate::undo::kind::{self, State};
use serde_json::Value;

/// Settings with their present values.
///
/// # Errors
/// One cannot be read.
pub fn present(settings: &[Setting]) -> Result<Vec<Value>, Refusal> {
    let with_state = |setting: &Setting| {
        let kind = setting.kind();
        kind.read().map(|state| kind.as_order(&state))
    };
    let all: Result<_, kind::Error> = settings.iter().map(with_state).collect();
    Ok(all?)
}

/// The settings that were made, with their present state. A journal of another boot is forgotten.
///
/// # Errors
/// The journal or a setting cannot be read.
pub fn status(store: &Store) -> Result<Status, Refusal> {
    let reverted = store.reverted();
    let none = |state| Status {
        state,
        run: None,
        applied_s: None,
        confirm: None,
        settings: Vec::new(),
        foreign: Vec::new(),
        reverted: None,
    };
    match store.load()? {
        Found::Nothing => Ok(Status { reverted, ..none("nothing") }),
        Found::Outdated => {
            forget(store);
            Ok(Status { reverted, ..none("rebooted") })
        }
        Found::Content(content) => Ok(Status { reverted, ..of(&content)? }),
    }
}

/// Forgets a journal that no longer concerns this machine, if this user may.
fn forget(store: &Store) {
    if let Ok(lock) = store.lock() {
        if matches!(store.load::<Setting>(), Ok(Found::Outdated)) {
            let _ = store.forget();
        }
        store.unlock(lock);
    }
}

fn of(content: &Content<Setting>) -> Result<Status, Refusal> {
    let standing: Result<_, kind::Error> = content.entries.iter().map(standing).collect();
    let settings: Vec<_> = content.entries.iter().map(|entry| entry.setting.clone()).collect();
    Ok(Status {
        state: match content.phase {
            _ if content.restarted => "rebooted",
            Phase::Applied => "applied",
            Phase::Applying => "unfinished",
        },
        run: Some(content.run.clone()),
        applied_s: Some(content.applied_s),
        confirm: content.confirm.as_ref().map(apply::waiting),
        settings: standing?,
        foreign: foreign::at_work(&settings),
        reverted: None,
    })
}

fn standing(entry: &Change<Setting>) -> Result<Standing, kind::Error> {
    let kind = entry.setting.kind();
    let present = kind.read()?;
    let state = match &present {
        now if kind.same(now, &entry.target) => "set",
        State::Gone => "gone",
        now if kind.same(now, &entry.before) => "before",
        now if entry.setting.is_renewed(now) => "renewed",
        now if !entry.is_foreign(now) => "unfinished",
        _ => "changed",
    };
    let (setting, before) = (kind.as_order(&entry.target), kind.as_order(&entry.before));
    Ok(Standing { setting, before, present: kind.as_order(&present), state })
}
