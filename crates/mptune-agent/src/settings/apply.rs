//! Making settings: all of them or none, noted before anything changes.

use super::directory::Directory;
use super::foreign;
use super::outcome::{Because, Refusal, Reload};
use super::protocol::{self, Apply, Made, Message, Waiting};
use super::setting::Setting;
use super::{congestion, reload};
use crate::kernel::sys;
use crate::role;
use crate::undo::applied::{Confirm, Content, Found, Phase, Store};
use crate::undo::change::{Change, Setting as _};
use crate::undo::error::Error;
use crate::undo::kind::bring;
use crate::undo::kind::{State, words};
use crate::undo::reverter;
use crate::undo::sysctl::{ALLOWED, Sysctl};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// The right to change the network (CAP_NET_ADMIN, include/uapi/linux/capability.h).
const CAPABILITY: u64 = 1 << 12;

/// One setting's part in an order.
struct Item {
    entry: Change<Setting>,
    present: State,
    /// It was made by an earlier order, and this one does not want it.
    obsolete: bool,
}

impl Item {
    /// True for what keeps a congestion control, which goes when nothing can refer to it any more.
    fn goes_last(&self) -> bool {
        self.obsolete
            && matches!(self.entry.setting, Setting::Congestion(_) | Setting::Directory(_))
    }
}

/// Checks that this process may change settings.
///
/// # Errors
/// It may not.
pub fn privileged() -> Result<(), Refusal> {
    if role::capabilities() & CAPABILITY != 0 {
        return Ok(());
    }
    Err(Refusal::new(Because::Privilege, "changing settings needs root (CAP_NET_ADMIN)"))
}

/// Carries out an order.
///
/// # Errors
/// Nothing has changed, unless it is `Because::Stuck`.
pub fn apply(store: &Store, order: &Apply) -> Result<Message, Refusal> {
    let settings = protocol::settings(&order.settings)?;
    if settings.is_empty() {
        return Err(Refusal::new(Because::Input, "settings: expected at least one, found none"));
    }
    if let Some(unknown) = order.despite.iter().find(|name| !foreign::names().contains(&&***name)) {
        let names = foreign::names().join(", ");
        let reason = format!("despite: expected one of {names}, found {unknown}");
        return Err(Refusal::new(Because::Input, reason));
    }
    privileged()?;
    refuse_foreign(&settings, &order.despite)?;
    let lock = store.lock()?;
    let done = locked(store, order, settings);
    store.unlock(lock);
    done
}

fn refuse_foreign(settings: &[Setting], despite: &[String]) -> Result<(), Refusal> {
    let mut others = foreign::at_work(settings);
    others.retain(|name| !despite.iter().any(|allowed| allowed == name));
    if others.is_empty() {
        return Ok(());
    }
    let names = others.join(", ");
    Err(Refusal::new(
        Because::Foreign,
        format!("{names} manages the same settings on this machine"),
    ))
}

fn locked(store: &Store, order: &Apply, settings: Vec<Setting>) -> Result<Message, Refusal> {
    let earlier = match store.load()? {
        Found::Content(content) => Some(*content),
        Found::Nothing | Found::Outdated => None,
    };
    let items = plan(settings, earlier.as_ref(), order.force)?;
    let confirm = order.confirm_within_s.map(confirmation);
    let mut content = store.content(&order.run);
    content.entries = items.iter().map(noted).collect();
    content.entries.sort_by_key(|entry| entry.setting.place());
    content.confirm.clone_from(&confirm);
    store.save(&content)?;
    let guarded = match &mut content.confirm {
        None => Ok(()),
        Some(confirm) => reverter::start(store, confirm).map_err(Refusal::from),
    };
    let made = guarded.and_then(|()| make(&items)).and_then(|made| {
        inform_daemon(&items)
            .and_then(|daemon| {
                commit(store, &mut content)?;
                Ok(daemon)
            })
            .map_err(|refusal| match undo(&made) {
                Ok(()) => {
                    // It reads what it had before.
                    let _ = inform_daemon(&items);
                    refusal
                }
                Err(stuck) => stuck,
            })
    });
    let daemon = match made {
        Ok(daemon) => daemon,
        Err(refusal) => {
            // Journal entries without a change are harmless: those settings are as they were.
            if refusal.because != Because::Stuck {
                let _ = return_to(store, earlier.as_ref());
            }
            return Err(refusal);
        }
    };
    if confirm.is_none() {
        store.forget_program();
    }
    store.forget_reverted();
    let dropped = sweep(store, &items, &mut content);
    Ok(Message::Applied {
        run: content.run.clone(),
        settings: items.iter().filter(|item| !item.obsolete).map(made_of).collect(),
        dropped,
        confirm: content.confirm.as_ref().map(waiting),
        daemon,
    })
}

/// Asks the daemon to read its files again, if they change; it must not refuse them.
fn inform_daemon(items: &[Item]) -> Result<Option<Reload>, Refusal> {
    let change = |item: &Item| (item.entry.setting.clone(), item.present != item.entry.target);
    match reload::ask(items.iter().map(change)) {
        Some(Reload::Refused { reason }) => {
            Err(Refusal::new(Because::Daemon, format!("the daemon: {reason}")))
        }
        outcome => Ok(outcome),
    }
}

/// As the journal has it.
fn noted(item: &Item) -> Change<Setting> {
    Change { setting: item.entry.setting.noted(), ..item.entry.clone() }
}

fn confirmation(within_s: u64) -> Confirm {
    let now_ns = sys::boottime_ns();
    let length = Duration::from_secs(within_s).as_nanos();
    let deadline_ns = now_ns.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    let token = format!("{}-{now_ns}", std::process::id());
    Confirm { token, within_s, deadline_ns, by: "process".to_owned() }
}

/// Time left to confirm.
pub fn waiting(confirm: &Confirm) -> Waiting {
    let left_ns = confirm.deadline_ns.saturating_sub(sys::boottime_ns());
    let left_s = Duration::from_nanos(left_ns).as_secs_f64();
    Waiting { left_s, within_s: confirm.within_s, by: confirm.by.clone() }
}

/// The changes in order: first obsolete settings go, then new ones come.
fn plan(
    settings: Vec<Setting>,
    earlier: Option<&Content<Setting>>,
    force: bool,
) -> Result<Vec<Item>, Refusal> {
    let noted = earlier.map_or(&[][..], |content| &content.entries);
    let settings = expanded(settings, noted)?;
    let names: BTreeSet<_> = settings.iter().map(Setting::name).collect();
    let mut known: Vec<State> = Vec::new();
    for entry in noted {
        known.extend([&entry.before, &entry.target].into_iter().chain(&entry.passed).cloned());
    }
    let mut items = Vec::new();
    for entry in noted.iter().rev().filter(|entry| !names.contains(&entry.setting.name())) {
        entry.setting.kind().tidy();
        let present = entry.setting.kind().read()?;
        let passed = [&entry.passed[..], std::slice::from_ref(&entry.target)].concat();
        let entry = Change { target: entry.before.clone(), passed, ..entry.clone() };
        items.push(Item { entry, present, obsolete: true });
    }
    for setting in settings {
        let kind = setting.kind();
        kind.tidy();
        let present = kind.read()?;
        if present == State::Gone {
            let reason = format!("{}: there is no such setting here", kind.name());
            return Err(Refusal::new(Because::Input, reason));
        }
        let target = kind.target(&present, &known)?;
        known.push(target.clone());
        let earlier = noted.iter().find(|entry| entry.setting.name() == kind.name());
        let (before, passed) = match earlier {
            Some(entry) => {
                let passed = entry.passed.iter().chain([&entry.target]).cloned().collect();
                (entry.before.clone(), passed)
            }
            None => (present.clone(), Vec::new()),
        };
        items.push(Item {
            entry: Change { setting, before, target, passed },
            present,
            obsolete: false,
        });
    }
    for item in &mut items {
        check_drift(item, force)?;
        note_way(item);
    }
    Ok(items)
}

/// The settings of an order with those that they need, in the order in which they are made.
fn expanded(settings: Vec<Setting>, noted: &[Change<Setting>]) -> Result<Vec<Setting>, Refusal> {
    let mut all = Vec::new();
    for setting in settings {
        match &setting {
            Setting::Route(route) => {
                let resolved = route.resolved();
                let input = |error| Refusal::new(Because::Input, error);
                all.push(Setting::Route(resolved.map_err(input)?));
                continue;
            }
            Setting::Congestion(_) => add_directories(&mut all, vec![congestion::pins()]),
            Setting::File(file) => add_directories(&mut all, file.directories()),
            Setting::Sysctl(sysctl) => {
                // After it: a default loads its module, without which nobody can be allowed to use it.
                let companion = sysctl.companion(allowed(noted).as_deref()).map(Setting::Sysctl);
                all.push(setting);
                all.extend(companion);
                continue;
            }
            _ => {}
        }
        all.push(setting);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = all.iter().find(|setting| !names.insert(setting.name())) {
        let reason = format!("{}: expected once, found twice", twice.name());
        return Err(Refusal::new(Because::Input, reason));
    }
    all.sort_by_key(Setting::place);
    Ok(all)
}

/// Adds directories, each once.
fn add_directories(all: &mut Vec<Setting>, paths: Vec<PathBuf>) {
    for directory in paths.into_iter().map(|path| Setting::Directory(Directory { path })) {
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
}

/// The congestion controls that every program could use before anything was changed.
fn allowed(noted: &[Change<Setting>]) -> Option<String> {
    let setting = Setting::Sysctl(Sysctl { name: ALLOWED.to_owned(), value: String::new() });
    let before = noted.iter().find(|entry| entry.setting.name() == ALLOWED);
    let state = match before {
        Some(entry) => entry.before.clone(),
        None => setting.kind().read().ok()?,
    };
    match state {
        State::Text(text) => Some(text),
        _ => None,
    }
}

fn check_drift(item: &Item, force: bool) -> Result<(), Refusal> {
    let Item { entry, present, .. } = item;
    if force || *present == State::Gone || !entry.is_foreign(present) {
        return Ok(());
    }
    let (name, present) = (entry.setting.name(), words(present));
    let reason = format!("{name}: somebody else has set it to {present} since it was applied");
    Err(Refusal::new(Because::Drift, reason))
}

/// Notes everything that the setting may be between now and the end of a rollback.
fn note_way(item: &mut Item) {
    let entry = &mut item.entry;
    let kind = entry.setting.kind();
    let there = kind.way(&item.present, &entry.target);
    let back = kind.way(&entry.target, &entry.before);
    for state in [vec![item.present.clone()], there, back].concat() {
        let known = [&entry.before, &entry.target];
        if !entry.passed.contains(&state) && !known.contains(&&state) {
            entry.passed.push(state);
        }
    }
}

/// Makes the settings, all or none; returns those that were made.
fn make(items: &[Item]) -> Result<Vec<&Item>, Refusal> {
    let mut made = Vec::new();
    for item in items.iter().filter(|item| !item.goes_last() && item.present != State::Gone) {
        let Change { setting, target, .. } = &item.entry;
        made.push(item);
        if let Err(error) = bring(setting.kind(), &item.present, target) {
            undo(&made)?;
            return Err(error.into());
        }
    }
    Ok(made)
}

/// Brings settings to what they were when this order began.
fn undo(made: &[&Item]) -> Result<(), Refusal> {
    let mut stuck = Vec::new();
    for item in made.iter().rev() {
        let kind = item.entry.setting.kind();
        let done = kind.read().and_then(|now| bring(kind, &now, &item.present));
        stuck.extend(done.err().map(|error| error.to_string()));
    }
    if stuck.is_empty() {
        return Ok(());
    }
    let reason = format!("{}; mptune rollback tries again", stuck.join("; "));
    Err(Refusal::new(Because::Stuck, reason))
}

/// From here on the order is carried out.
fn commit(store: &Store, content: &mut Content<Setting>) -> Result<(), Error> {
    content.phase = Phase::Applied;
    store.save(content)
}

/// Lets the journal be what it was.
fn return_to(store: &Store, earlier: Option<&Content<Setting>>) -> Result<(), Error> {
    match earlier {
        Some(content) => {
            if content.confirm.is_none() {
                store.forget_program();
            }
            store.save(content)
        }
        None => store.forget(),
    }
}

/// Takes away what nothing refers to any more, and forgets what is as before; the names of these.
fn sweep(store: &Store, items: &[Item], content: &mut Content<Setting>) -> Vec<String> {
    for item in items.iter().filter(|item| item.goes_last()) {
        let kind = item.entry.setting.kind();
        // What does not go stays in the journal, and goes with the rollback.
        let _ = bring(kind, &item.present, &item.entry.target);
    }
    let obsolete: Vec<_> = items.iter().filter(|item| item.obsolete).collect();
    let is_back = |item: &&&Item| {
        let kind = item.entry.setting.kind();
        let back = |now: State| now == State::Gone || kind.same(&now, &item.entry.before);
        kind.read().is_ok_and(back)
    };
    let names: Vec<_> =
        obsolete.iter().filter(is_back).map(|item| item.entry.setting.name()).collect();
    if !names.is_empty() {
        content.entries.retain(|entry| !names.contains(&entry.setting.name()));
        // Otherwise they are noted as what they are.
        let _ = store.save(content);
    }
    names
}

fn made_of(item: &Item) -> Made {
    let Change { setting, before, target, .. } = &item.entry;
    let kind = setting.kind();
    let changed = !kind.same(&item.present, target);
    Made { setting: kind.as_order(target), before: kind.as_order(before), changed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::sysctl::DEFAULT_CC;

    #[test]
    fn a_congestion_control_is_loaded_as_the_default_before_it_is_allowed() {
        let setting = |name: &str, value: &str| {
            Setting::Sysctl(Sysctl { name: name.to_owned(), value: value.to_owned() })
        };
        let text = |text: &str| State::Text(text.to_owned());
        let noted = Change {
            setting: setting(ALLOWED, ""),
            before: text("reno cubic\n"),
            target: text("reno cubic\n"),
            passed: Vec::new(),
        };
        let all = expanded(vec![setting(DEFAULT_CC, "bbr")], &[noted]).unwrap();
        assert_eq!(all, [setting(DEFAULT_CC, "bbr"), setting(ALLOWED, "reno cubic bbr")]);
    }
}
