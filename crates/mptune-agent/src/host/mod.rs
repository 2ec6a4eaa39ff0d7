//! A host under a controller that is elsewhere: the role `host`, at the end of one SSH connection.
//!
//! It starts the other roles as children and passes their lines on, changes settings and puts them back,
//! whatever ends the session: an order, the end of standard input, a signal, silence, a reader that is gone;
//! if it is killed its guardian does (`guardian`), and if that is killed as well the next session (`undo::session`).
//!
//! ```text
//! out  {"event": "hello", "version": "0.2.0", "protocol": 1, ...}
//! in   {"action": "beat"}                                     at least every 2 s
//! in   {"action": "start", "id": 7, "role": "sender"}
//! in   {"action": "tell", "id": 7, "line": {...}}             for its standard input
//! in   {"action": "close", "id": 7}                           the end of it; "kill": SIGKILL
//! out  {"event": "said", "id": 7, "line": {...}}              of its standard output
//! out  {"event": "ended", "id": 7, "status": 0, "signal": null, "stderr": "..."}
//! in   {"action": "set", "id": 9, "settings": {"net.mptcp.path_manager": "userspace"}}
//! out  {"event": "set", "id": 9, "before": {...}} or {"event": "refused", "id": 9, "reason": "..."}
//! in   {"action": "restore", "id": 10, "names": null}         all of them
//! out  {"event": "restored", "id": 10, "kept": {...}}         those that somebody else changed meanwhile
//! in   {"action": "look", "id": 11, "names": ["net.core.rmem_max"], "pairs": [["10.64.0.1", "10.65.0.1"]]}
//! out  {"event": "looked", "id": 11, "interfaces": [...], ...} or "refused"     see `facts`
//! in   {"action": "stop"}
//! out  {"event": "error", "reason": "..."}                    and status 1, after everything was put back
//! ```
//!
//! Not here: which settings and which roles (the controller knows), how the program gets to the host.

mod error;
mod facts;
mod protocol;
mod roles;

use self::error::Error;
use self::protocol::{Ended, Hello, Message, Order, PROTOCOL};
use self::roles::{News, Roles};
use crate::control::{self, Control, Input};
use crate::kernel::sys::{self, Watch};
use crate::kernel::sysctl::Values;
use crate::role;
use crate::undo::directory::Directory;
use crate::undo::error as undo;
use crate::undo::guardian::Guardian;
use crate::undo::lock::Lock;
use crate::undo::places;
use crate::undo::session::{self, Journal, Restored};
use crate::undo::steps;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait: silence is noticed this much later, also after the machine was suspended.
const TICK: Duration = Duration::from_millis(500);
/// Between two looks at a role that is ending.
const ENDING_TICK: Duration = Duration::from_millis(5);
/// Time for roles to end by themselves.
const GRACE: Duration = Duration::from_secs(3);
/// Further attempts to start a guardian.
const GUARDIANS: u32 = 3;
/// More than this is not read from roles before the controller has read what there is, bytes.
const PENDING_BYTES: usize = 1 << 24;

/// The role; `roles` are those that it may start. `unlinks`: its file is its own to remove.
pub fn main(roles: &[&str], unlinks: bool) -> i32 {
    if unlinks {
        unlink();
    }
    steps::begin("host");
    role::play_until(libc::SIGTERM, |control| {
        // The output of a shell before this may lack the end of its line.
        control.pass_on("");
        let mut session = Session::begin(control, roles)?;
        let ending = session.run(control);
        session.end(control);
        ending
    })
}

/// Removes the file of this program and the directory that was made for it.
fn unlink() {
    if let Ok(file) = std::env::current_exe() {
        let _ = fs::remove_file(&file);
        let _ = file.parent().map(fs::remove_dir);
    }
}

/// A session between a controller and this host.
struct Session<'a> {
    startable: &'a [&'a str],
    guardian: Option<Guardian>,
    journal: Journal,
    roles: Roles,
    lock: Lock,
    output: OwnedFd,
    heard_ns: u64,
}

impl<'a> Session<'a> {
    fn begin(control: &mut Control, startable: &'a [&'a str]) -> Result<Self, Error> {
        let (directory, lock) =
            Lock::take(places::make_run_directory, "session", control.signals())?;
        let recovered = match Self::recover(&directory) {
            Ok(recovered) => recovered,
            Err(error) => {
                lock.remove(&directory);
                return Err(error.into());
            }
        };
        let journal =
            Journal::new(&directory).map_err(|error| undo::Error::io(Path::new("/proc"), error))?;
        // Each role has three pipes, and of many connections each has a role.
        sys::descriptors();
        let output = control.output().try_clone_to_owned()?;
        control.tell(&Message::Hello(&hello(recovered)));
        let (guardian, roles, heard_ns) = (None, Roles::default(), sys::boottime_ns());
        Ok(Self { startable, guardian, journal, roles, lock, output, heard_ns })
    }

    /// Puts back what others have left, also those of an earlier version.
    fn recover(directory: &Directory) -> Result<Restored, undo::Error> {
        let mut recovered = session::recover(directory)?;
        if let Some(earlier) = places::earlier_directory().filter(session::is_in) {
            let more = session::recover(&earlier)?;
            recovered.names.extend(more.names);
            recovered.kept.extend(more.kept);
        }
        Ok(recovered)
    }

    /// Until an order, the end of input or a signal ends it.
    fn run(&mut self, control: &mut Control) -> Result<(), Error> {
        let silence = places::silence();
        loop {
            match self.wait(control)? {
                Some(Input::Line(line)) => {
                    self.heard_ns = sys::boottime_ns();
                    if !line.is_empty() && !self.obey(control, &line)? {
                        return Ok(());
                    }
                }
                Some(Input::Closed) => return Ok(()),
                Some(Input::Signal(name)) => return Err(control::Error::Signal(name).into()),
                None => {}
            }
            let unheard = Duration::from_nanos(sys::boottime_ns().saturating_sub(self.heard_ns));
            if unheard > silence {
                return Err(Error::Silence(silence));
            }
        }
    }

    /// Waits for anything and does what follows from it, except for input.
    fn wait(&mut self, control: &mut Control) -> Result<Option<Input>, Error> {
        let hears = control.pending() < PENDING_BYTES;
        let mut watches = vec![Watch::hung_up(&self.output)];
        watches.extend(self.guardian.as_ref().map(Guardian::watch));
        let own = watches.len();
        watches.extend(self.roles.watches(hears));
        let timeout = if self.roles.is_ending() { ENDING_TICK } else { TICK };
        let input = control.wait(&mut watches, timeout)?;
        let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
        if ready[0] {
            return Err(Error::Unread);
        }
        if ready[1..own].contains(&true) {
            self.guardian = None;
            self.guard().map_err(|error| Error::Unguarded(Box::new(error)))?;
        }
        self.pass_on(control, hears, &ready[own..]);
        Ok(input)
    }

    /// Passes on lines of roles, and lines to them.
    fn pass_on(&mut self, control: &mut Control, hears: bool, ready: &[bool]) {
        for news in self.roles.serve(hears, ready) {
            match news {
                News::Said(id, line) => {
                    control.pass_on(&format!(r#"{{"event":"said","id":{id},"line":{line}}}"#));
                }
                News::Ended(ended) => control.tell(&Message::Ended(&ended)),
            }
        }
    }

    /// Carries out an order; false if it is the last.
    fn obey(&mut self, control: &mut Control, line: &str) -> Result<bool, Error> {
        match serde_json::from_str(line)? {
            Order::Beat => {}
            Order::Start { id, role } => {
                if let Some(ended) = self.start(id, &role)? {
                    control.tell(&Message::Ended(&ended));
                }
            }
            Order::Tell { id, line } => self.roles.tell(id, &line),
            Order::Close { id } => self.roles.close(id),
            Order::Kill { id } => self.roles.kill(id),
            Order::Set { id, settings } => match self.set(&settings) {
                Ok(before) => control.tell(&Message::Set { id, before: &before }),
                Err(error) => control.tell(&Message::Refused { id, reason: &error.to_string() }),
            },
            Order::Restore { id, names } => {
                let restored = self.journal.restore(names.as_deref());
                let kept = restored.map_err(Error::Journal)?.kept;
                control.tell(&Message::Restored { id, kept: &kept });
            }
            Order::Look { id, names, pairs } => match facts::read(&names, &pairs) {
                Ok(facts) => control.tell(&Message::Looked { id, facts: &facts }),
                Err(error) => control.tell(&Message::Refused { id, reason: &error.to_string() }),
            },
            Order::Stop => return Ok(false),
        }
        Ok(true)
    }

    fn start(&mut self, id: u64, role: &str) -> Result<Option<Ended>, Error> {
        if !self.startable.contains(&role) {
            let known = self.startable.join(", ");
            return Ok(Some(Ended::unable(id, &format!("expected one of {known}, found {role}"))));
        }
        self.roles.start(id, role)
    }

    fn set(&mut self, values: &Values) -> Result<Values, Error> {
        self.guard()?;
        Ok(self.journal.set(values)?)
    }

    /// Sees to it that there is a guardian, even if it is killed while it begins.
    fn guard(&mut self) -> Result<(), Error> {
        let mut tries = 0;
        while self.guardian.is_none() {
            match Guardian::start(&self.journal, &self.lock) {
                Ok(guardian) => self.guardian = Some(guardian),
                Err(error) if tries == GUARDIANS => return Err(Error::Guardian(error)),
                Err(_) => tries += 1,
            }
        }
        Ok(())
    }

    /// Puts everything back, and ends the roles.
    fn end(mut self, control: &mut Control) {
        // Settings that could not be put back stay in the journal, for the guardian and for the next session.
        let _ = self.journal.restore(None);
        if self.journal.is_empty()
            && let Some(guardian) = self.guardian.take()
        {
            guardian.dismiss();
        }
        self.end_roles(control);
        // Otherwise it tries once more when this process has ended, and then removes the lock.
        if self.guardian.is_none() {
            self.lock.remove(self.journal.directory());
        }
    }

    fn end_roles(&mut self, control: &mut Control) {
        self.roles.close_all();
        let end = Instant::now() + GRACE;
        while !self.roles.is_empty() {
            if Instant::now() >= end {
                self.roles.kill_all();
                if self.roles.are_finishing() {
                    return;
                }
            }
            let mut watches = self.roles.watches(true);
            if sys::wait(&mut watches, ENDING_TICK).is_err() {
                return;
            }
            let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
            self.pass_on(control, true, &ready);
        }
    }
}

fn hello(recovered: Restored) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION"),
        protocol: PROTOCOL,
        machine: std::env::consts::ARCH,
        kernel: facts::kernel("osrelease"),
        uid: sys::user(),
        net_admin: facts::may_administrate(),
        pid: std::process::id(),
        hostname: facts::kernel("hostname"),
        recovered: recovered.names,
        kept: recovered.kept,
    }
}
