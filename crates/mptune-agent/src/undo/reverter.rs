//! Rollback if nobody confirms: the role `reverter`, started by the role `settings` only.
//!
//! A process that leads a session, or a unit of systemd where that runs, whose end no shell, no SSH session and
//! no login manager brings about. It runs from a copy of the agent next to the journal, so that mptune may be
//! removed meanwhile, and knows nothing but the journal: it waits for its deadline, and ends as soon as
//! the journal does not wait for it any more.
//!
//! ```text
//! in   {"detach": true}           from whoever starts it as a process; without, it is somebody's unit
//! out  {"event": "waiting"}       on the same socket
//! ```

use super::applied::{self, Confirm, Content, Found, Kept, Phase, Reverted, Store};
use super::change::Setting;
use super::detached::{self, SELF};
use super::error::Error;
use super::steps;
use crate::kernel::{signals, sys};
use crate::log;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Puts settings back; returns the names of those that are as before, and the others.
pub type PutBack<S> = fn(&Store, Content<S>) -> (Vec<String>, Vec<Kept>);

/// systemd runs where there is this directory (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Instead of it, for tests.
const SYSTEMD_VARIABLE: &str = "MPTUNE_SYSTEMD_DIRECTORY";
/// Environment variables that a unit does not inherit.
const PASSED_ON: [&str; 4] =
    [applied::VARIABLE, "MPTUNE_SYSCTL_ROOT", "MPTUNE_BPF_FILE_SYSTEM", steps::STOP_AT];
/// The mark of processes that end with a program, by which `mptune clean` finds those that did not.
const MARK: &str = "MPTUNE_RUN";
/// Between two looks at the journal.
const TICK: Duration = Duration::from_millis(500);
/// Further attempts to put back what could not be.
const TRIES: u32 = 5;

const DETACH: &str = "{\"detach\": true}\n";
const WAITING: &str = "{\"event\": \"waiting\"}\n";

/// Starts one for a confirmation that the journal has already; it waits when this returns.
///
/// # Errors
/// It cannot be started.
pub fn start(store: &Store, confirm: &mut Confirm) -> Result<(), Error> {
    store.save_program(Path::new(SELF))?;
    let program = store.program();
    if is_unit_possible() && start_unit(&program, confirm) {
        confirm.by = "systemd".to_owned();
        return Ok(());
    }
    let started = start_process(&program).or_else(|error| match error.kind() {
        // Where no program may be executed, this one still runs.
        io::ErrorKind::PermissionDenied => start_process(Path::new(SELF)),
        _ => Err(error),
    });
    started.map_err(Error::Unguarded)
}

/// True if units see what this process sees: the machine's own network.
fn is_unit_possible() -> bool {
    if let Some(directory) = std::env::var_os(SYSTEMD_VARIABLE) {
        return Path::new(&directory).is_dir();
    }
    let same = |kind: &str| {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
        of("1").is_some() && of("1") == of("self")
    };
    Path::new(SYSTEMD).is_dir() && same("net") && same("mnt")
}

/// True if systemd has started it.
fn start_unit(program: &Path, confirm: &Confirm) -> bool {
    let done = unit(program, confirm).status();
    steps::changed();
    done.is_ok_and(|status| status.success())
}

/// The command that starts it as a unit.
fn unit(program: &Path, confirm: &Confirm) -> Command {
    let passed_on = PASSED_ON.iter().filter_map(|name| {
        let mut text = OsString::from(format!("--setenv={name}="));
        text.push(std::env::var_os(name)?);
        Some(text)
    });
    let mut command = Command::new("systemd-run");
    command
        .args(["--quiet", "--collect", "--property=Restart=on-failure"])
        // Without it a program that cannot be executed, as where /var is mounted noexec, counts as started. A systemd
        // that does not know it (before 240) refuses the unit, and a process waits instead.
        .arg("--property=Type=exec")
        .arg(format!("--unit=mptune-revert-{}", confirm.token))
        .arg("--description=puts mptune's settings back unless somebody confirms them")
        .args(passed_on)
        .arg(program)
        .arg("reverter")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start_process(program: &Path) -> io::Result<()> {
    let mut command = Command::new(program);
    command.current_dir("/").env_remove(MARK).stdout(Stdio::null());
    detached::start(&mut command, "reverter", DETACH, WAITING).map(drop)
}

/// The role, for settings of this sort.
pub fn main<S: Setting + DeserializeOwned>(put_back: PutBack<S>) -> i32 {
    steps::begin("reverter");
    match run(put_back) {
        Ok(()) => 0,
        Err(reason) => {
            log::write(&format!("mptune-agent: reverter: {reason}"));
            1
        }
    }
}

fn run<S: Setting + DeserializeOwned>(put_back_settings: PutBack<S>) -> Result<(), Error> {
    begin().map_err(|error| Error::io(Path::new("/proc/self"), error))?;
    let store = Store::here()?;
    let token = match store.load::<S>()? {
        Found::Content(content) => content.confirm,
        _ => None,
    };
    let Some(confirm) = token else { return Ok(()) };
    announce();
    while sys::boottime_ns() < confirm.deadline_ns {
        if !is_waited_for::<S>(&store, &confirm) {
            return Ok(());
        }
        let left = confirm.deadline_ns.saturating_sub(sys::boottime_ns());
        thread::sleep(TICK.min(Duration::from_nanos(left)));
    }
    finish(&store, &confirm, put_back_settings, TICK)
}

/// Puts everything back, as soon as no other order is running.
///
/// # Errors
/// The journal cannot be read, however often that is tried: nothing was put back.
fn finish<S: Setting + DeserializeOwned>(
    store: &Store,
    confirm: &Confirm,
    restore: PutBack<S>,
    pause: Duration,
) -> Result<(), Error> {
    let mut failures = 0;
    loop {
        match put_back(store, confirm, restore, pause) {
            Err(Error::Busy) => {}
            Err(_) if failures < TRIES => failures += 1,
            done => return done,
        }
        thread::sleep(pause);
    }
}

/// Detaches this process, if its starter waits for that.
fn begin() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut line = String::new();
    // Without a socket it is a unit, and its input is empty.
    if BufReader::new(&socket).read_line(&mut line).is_ok() && line == DETACH {
        sys::detach()?;
    }
    // Blocked: nothing that ends a session ends it.
    signals::block()
}

/// Reports to whoever has started it, if anybody listens.
fn announce() {
    if let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() {
        let _ = UnixStream::from(socket).write_all(WAITING.as_bytes());
    }
}

fn is_awaited<S>(content: &Content<S>, confirm: &Confirm) -> bool {
    let own = content.confirm.as_ref().is_some_and(|pending| pending.token == confirm.token);
    // An order that is being carried out may yet be undone.
    own || content.phase == Phase::Applying
}

/// True if the journal still awaits this confirmation, or cannot be read.
fn is_waited_for<S: Setting + DeserializeOwned>(store: &Store, confirm: &Confirm) -> bool {
    match store.load::<S>() {
        Ok(Found::Content(content)) => is_awaited(&content, confirm),
        Ok(Found::Nothing | Found::Outdated) => false,
        Err(_) => true,
    }
}

/// Puts everything back, if the journal still waits for this confirmation.
///
/// # Errors
/// `Error::Busy` if another order is running; or the journal cannot be read.
fn put_back<S: Setting + DeserializeOwned>(
    store: &Store,
    confirm: &Confirm,
    restore: PutBack<S>,
    pause: Duration,
) -> Result<(), Error> {
    let lock = match store.lock() {
        Err(Error::Busy) => return Err(Error::Busy),
        lock => lock.ok(),
    };
    let done = locked(store, confirm, restore, pause);
    if let Some(lock) = lock {
        store.unlock(lock);
    }
    done
}

fn locked<S: Setting + DeserializeOwned>(
    store: &Store,
    confirm: &Confirm,
    restore: PutBack<S>,
    pause: Duration,
) -> Result<(), Error> {
    let Found::Content(content) = store.load::<S>()? else { return Ok(()) };
    if !is_awaited(&content, confirm) {
        return Ok(());
    }
    let (mut restored, mut kept) = restore(store, (*content).clone());
    for _ in 0..TRIES {
        let left = match store.load::<S>() {
            Ok(Found::Content(left)) => left,
            Ok(Found::Nothing | Found::Outdated) => break,
            Err(_) => {
                thread::sleep(pause);
                continue;
            }
        };
        thread::sleep(pause);
        let (more, still) = restore(store, *left);
        restored.extend(more);
        kept = still;
    }
    let _ = store.save_reverted(&Reverted::new(&content, restored, kept));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::applied::tests::store;
    use super::super::change::Change;
    use super::super::kind::State;
    use super::super::sysctl::Sysctl;
    use super::*;

    fn confirm() -> Confirm {
        let by = "process".to_owned();
        Confirm { token: "a-token".to_owned(), within_s: 1, deadline_ns: 0, by }
    }

    /// A journal that waits for a confirmation.
    fn awaited(store: &Store) -> Confirm {
        let confirm = confirm();
        let mut content = store.content::<Sysctl>("a run");
        content.confirm = Some(confirm.clone());
        let setting = Sysctl { name: "net.ipv4.tcp_wmem".to_owned(), value: String::new() };
        let (before, target) = (State::Text("1 2 3".to_owned()), State::Text("4 5 6".to_owned()));
        content.entries = vec![Change { setting, before, target, passed: Vec::new() }];
        content.phase = Phase::Applied;
        store.save(&content).unwrap();
        confirm
    }

    /// All is as before at once.
    fn at_once(store: &Store, content: Content<Sysctl>) -> (Vec<String>, Vec<Kept>) {
        store.forget().unwrap();
        (content.entries.iter().map(|entry| entry.setting.name()).collect(), Vec::new())
    }

    #[test]
    fn systemd_says_whether_the_program_of_a_unit_was_executed() {
        let unit = unit(Path::new("/var/lib/mptune/mptune-agent"), &confirm());
        let words: Vec<_> = unit.get_args().map(|word| word.to_string_lossy()).collect();
        let place = |word| words.iter().position(|other| other == word);
        assert!(place("--property=Type=exec") < place("/var/lib/mptune/mptune-agent"), "{words:?}");
        assert!(place("--property=Type=exec").is_some());
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_no_success() {
        let store = store("unreadable");
        let lock = store.lock().unwrap();
        let confirm = awaited(&store);
        store.unlock(lock);
        let (journal, pause) = (store.program().with_file_name("applied.json"), Duration::ZERO);
        let content = fs::read(&journal).unwrap();
        fs::write(&journal, "cut off").unwrap();
        assert!(finish(&store, &confirm, at_once, pause).is_err());
        fs::write(&journal, content).unwrap();
        finish(&store, &confirm, at_once, pause).unwrap();
        assert_eq!(store.reverted().unwrap().restored, ["net.ipv4.tcp_wmem"]);
        fs::remove_dir_all(store.program().parent().unwrap()).unwrap();
    }
}
