//! Settings of this machine that stay: the role `settings`.
//!
//! It makes them, all or none, notes before anything changes what was there, and puts everything back when
//! the order comes, or when nobody confirms them within a given time (`reverter`). Every
//! kind of setting is a file (`setting` has the list): it reads and writes one, and knows no other.
//!
//! ```text
//! in   {"action": "read", "settings": [{"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "..."}, ...]}
//! out  {"event": "read", "present": [...], "foreign": ["NetworkManager", ...]}
//! in   {"action": "apply", "settings": [...], "run": "name", "confirm_within_s": 600, "despite": []}
//! out  {"event": "applied", "settings": [{"setting": {...}, "before": {...}, "changed": true}, ...], ...}
//! in   {"action": "confirm"}
//! out  {"event": "confirmed", "waited": true}
//! in   {"action": "status"}
//! out  {"event": "status", "state": "applied", ...}
//! in   {"action": "rollback", "force": false}
//! out  {"event": "rolled-back", "restored": [...], "kept": [{"name": "...", "reason": "..."}]}
//! out  {"event": "refused", "because": "input", "reason": "..."}      instead of any of them
//! ```
//!
//! An order that was begun is carried out, whoever is gone meanwhile, and however long it takes. Not here: settings of a session, which
//! go with it (`host`), and which settings are good ones (the controller knows).

mod apply;
mod congestion;
mod directory;
mod endpoint;
mod file;
mod foreign;
mod limits;
mod outcome;
mod protocol;
mod reload;
mod rollback;
mod route;
mod setting;
mod status;

use self::outcome::{Because, Refusal};
use self::protocol::{Message, Order};
use self::setting::Setting;
use crate::control::{self, Control, Input};
use crate::kernel::signals;
use crate::role;
use crate::undo::applied::{Content, Found, Kept, Phase, Store};
use crate::undo::reverter;
use crate::undo::steps;
use std::time::Duration;

/// Longest wait for an order; every wait ends by itself only to begin again.
const TICK: Duration = Duration::from_secs(3600);

/// The role `reverter`.
pub fn revert() -> i32 {
    let put_back = |store: &Store, content: Content<Setting>| -> (Vec<String>, Vec<Kept>) {
        let outcome::Restored { restored, kept, .. } = rollback::restore(store, content, false);
        (restored, kept)
    };
    reverter::main::<Setting>(put_back)
}

/// The role.
pub fn main() -> i32 {
    steps::begin("settings");
    role::play_until(libc::SIGTERM, run)
}

fn run(control: &mut Control) -> Result<(), control::Error> {
    loop {
        match control.wait(&mut [], TICK)? {
            Some(Input::Line(line)) if line.is_empty() => {}
            Some(Input::Line(line)) => {
                let answer = obey(&line).unwrap_or_else(Message::Refused);
                control.tell(&answer);
            }
            Some(Input::Closed) => return Ok(()),
            Some(Input::Signal(name)) => return Err(control::Error::Signal(name)),
            None => {}
        }
    }
}

/// Carries out an order.
fn obey(line: &str) -> Result<Message, Refusal> {
    let expected = |error: serde_json::Error| {
        Refusal::new(Because::Input, format!("expected an order: {error}"))
    };
    let order: Order = serde_json::from_str(line).map_err(expected)?;
    let store = Store::here()?;
    match order {
        Order::Read { settings } => {
            let settings = protocol::settings(&settings)?;
            let present = status::present(&settings)?;
            Ok(Message::Read { present, foreign: foreign::at_work(&settings) })
        }
        Order::Apply(order) => signals::unhurried(|| apply::apply(&store, &order)),
        Order::Confirm => signals::unhurried(|| confirm(&store)),
        Order::Status => status::status(&store).map(Message::Status),
        Order::Rollback { force } => {
            apply::privileged()?;
            let done = signals::unhurried(|| rollback::roll_back(&store, force));
            done.map(Message::RolledBack)
        }
    }
}

/// Keeps what was made; the deadline is cancelled.
fn confirm(store: &Store) -> Result<Message, Refusal> {
    apply::privileged()?;
    let lock = store.lock()?;
    let confirmed = match store.load::<Setting>() {
        Ok(Found::Content(content)) if content.phase == Phase::Applying => Err(Refusal::new(
            Because::Stuck,
            "the last apply was killed before it was done: apply again, or roll back",
        )),
        Ok(Found::Content(mut content)) => match content.confirm.take() {
            None => Ok(Message::Confirmed { waited: false }),
            Some(_) => store.save(&content).map_err(Refusal::from).map(|()| {
                store.forget_program();
                Message::Confirmed { waited: true }
            }),
        },
        Ok(Found::Nothing | Found::Outdated) => Err(Refusal::new(
            Because::Input,
            "there is nothing to confirm: no settings of mptune are applied here",
        )),
        Err(error) => Err(error.into()),
    };
    store.unlock(lock);
    confirmed
}
