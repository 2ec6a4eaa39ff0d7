//! The service: one loop around what steers connections, the socket, and those who look after both.
//!
//! Everything is checked before anything is changed. It waits for the kernel's events, readers and signals, does
//! what is due, and samples the connections about once a second; by CLOCK_MONOTONIC alone, so that nobody who sets the
//! clock concerns it. `requests` is what readers of the socket ask for.

mod requests;

use super::adaptation::Adaptation;
use super::deviation;
use super::endpoints::Endpoints;
use super::error::Error;
use super::figures::Figures;
use super::hosting::Addresses;
use super::policy::{ByDestination, Mode, Plan, Suspended};
use super::record::{Record, Records};
use super::socket::Server;
use super::statistics::{Busy, Statistics};
use super::steering::Steering;
use super::systemd::Notify;
use super::table;
use super::watchdog::{Ability, Knob, Watchdog};
use super::web::Web;
use crate::kernel::signals;
use crate::kernel::sys::{self, Watch};
use crate::kernel::sysctl as settings;
use crate::paths::hosting::ANYWHERE;
use crate::paths::manager::Manager;
use crate::paths::policies::Policies;
use crate::paths::survey::Resynced;
use crate::undo::places;
use serde::Serialize;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Time between two lines for readers, and between two samples.
const TICK_NS: u64 = 1_000_000_000;
/// The shortest time between two samples, for tests that cannot wait an hour.
const SHORTEST_NS: u64 = 50_000_000;
/// Samples in a part of the window over which throughput is compared.
const SAMPLES_PER_PART: u64 = 60;
/// Sampling takes no more than this fraction of a processor.
const SAMPLING_SHARE: u64 = 500;
/// Hint to the source of connections.
const ELSEWHERE: &str = "the connections: the role watch has them; here is what the daemon did";

/// A line for all readers.
#[derive(Serialize)]
#[serde(tag = "event", rename = "connections")]
struct Report<'a> {
    at_ns: u64,
    connections: [(); 0],
    may_change: bool,
    limits: [&'static str; 1],
    events: Vec<&'a Record>,
    /// Lines that this reader did not get.
    lost: u64,
}

/// End of a service.
enum Ending {
    /// By a signal, in order.
    Asked(&'static str),
    /// Nothing more can be done.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Ending {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A running daemon.
pub struct Service {
    plan: Plan,
    userspace: bool,
    knob: Option<Knob>,
    signals: File,
    addresses: Rc<Addresses>,
    steering: Box<dyn Steering>,
    statistics: Statistics,
    watchdog: Watchdog,
    server: Server,
    web: Option<Web>,
    records: Records,
    figures: Figures,
    adaptation: Adaptation,
    notify: Notify,
    suspended: Suspended,
    in_force: bool,
    reload_refused: Option<String>,
    /// Lost events, as far as they were reported.
    resynced: Resynced,
    began_ns: u64,
    sample_every_ns: u64,
    tick_at_ns: u64,
    sample_at_ns: u64,
    alive_at_ns: u64,
}

/// True if it steers connections itself, and the kernel's setting for that.
fn chosen(plan: &Plan) -> Result<(bool, Option<Knob>), Error> {
    match (Ability::here(), plan.mode) {
        (Ability::Nothing, _) => Err(Error::NoMptcp),
        (Ability::Userspace(knob), mode) => Ok((mode != Mode::Endpoints, Some(knob))),
        (Ability::Endpoints, Mode::Userspace) => {
            let problem = "expected endpoints or auto on this kernel, whose path manager cannot be in userspace \
                           (Linux 5.19 and later), found \"userspace\"";
            Err(wrong(plan, "daemon.mode", problem))
        }
        (Ability::Endpoints, _) => Ok((false, None)),
    }
}

/// The error of a key of the policy file.
fn wrong(plan: &Plan, key: &str, problem: &str) -> Error {
    let (file, key, problem) = (plan.file.clone(), key.to_owned(), problem.to_owned());
    Error::File(table::Error::Key { file, key, problem })
}

/// Listens where the metrics are to be: the option's address comes before the policy file's.
fn web(plan: &Plan, option: Option<SocketAddr>) -> Result<Option<Web>, Error> {
    let key = || format!("{}: daemon.metrics", plan.file.display());
    let place = option.map(|address| ("--metrics".to_owned(), address));
    let place = place.or_else(|| plan.metrics.map(|address| (key(), address)));
    place.map(|(of, address)| Web::open(&of, address)).transpose()
}

impl Service {
    /// Takes over the connections of this network namespace.
    ///
    /// # Errors
    /// It is impossible here; everything is as before then.
    pub fn begin(plan: Plan, metrics: Option<SocketAddr>, signals: File) -> Result<Self, Error> {
        let began_ns = sys::monotonic_ns();
        let (userspace, knob) = chosen(&plan)?;
        let (watchdog, mut left) = Watchdog::begin(&signals)?;
        // In the other mode they are taken over.
        if userspace {
            watchdog.take_back_endpoints(&mut left);
        }
        match Self::around(plan, metrics, signals, userspace, knob, watchdog, began_ns) {
            Ok(mut service) => {
                for name in left.names {
                    let why = format!("{name}: as before a daemon that died");
                    service.records.add(Record::own(None, "restored", &why));
                }
                service.records.add_all(Record::kept(&left.kept));
                let limits = service.adaptation.within_bounds(&mut service.watchdog);
                service.records.add_all(limits);
                service.greet();
                Ok(service)
            }
            Err(error) => Err(error),
        }
    }

    fn around(
        plan: Plan,
        metrics: Option<SocketAddr>,
        signals: File,
        userspace: bool,
        knob: Option<Knob>,
        mut watchdog: Watchdog,
        began_ns: u64,
    ) -> Result<Self, Error> {
        let suspended = Suspended::default();
        let prepared = (|| {
            let addresses = Rc::new(Addresses::open(plan.interfaces.clone())?);
            let policies = Box::new(ByDestination::new(&plan, &suspended));
            let server = Server::open(&places::located(&plan.socket))?;
            let web = web(&plan, metrics)?;
            let statistics = Statistics::open()?;
            let adaptation = Adaptation::begin(plan.buffers.as_ref())?;
            let steering: Box<dyn Steering> = if userspace {
                Box::new(Manager::of_host(policies, addresses.clone())?)
            } else {
                let journal = watchdog.place_of_endpoints()?;
                let keep = plan.keep_endpoints;
                Box::new(Endpoints::open(policies, addresses.clone(), journal, keep)?)
            };
            Ok::<_, Error>((addresses, (server, web), statistics, adaptation, steering))
        })();
        // Last, when nothing else can fail: from here on new connections are different.
        let set = prepared.and_then(|mut made: (_, _, _, _, Box<dyn Steering>)| {
            match knob.map_or(Ok(()), |knob| watchdog.choose(knob, userspace)) {
                Ok(()) => Ok(made),
                Err(reason) => {
                    let _ = made.4.end();
                    Err(reason)
                }
            }
        });
        let (addresses, (server, web), statistics, adaptation, steering) = match set {
            Ok(made) => made,
            Err(reason) => {
                let _ = watchdog.end();
                return Err(reason);
            }
        };
        let window_ns = deviation::window_ns();
        Ok(Self {
            figures: Figures::new(&plan.rules, window_ns),
            adaptation,
            plan,
            userspace,
            knob,
            signals,
            addresses,
            steering,
            statistics,
            watchdog,
            server,
            web,
            records: Records::default(),
            notify: Notify::open(),
            suspended,
            in_force: true,
            reload_refused: None,
            resynced: Resynced::default(),
            began_ns,
            sample_every_ns: (window_ns / deviation::PARTS / SAMPLES_PER_PART)
                .clamp(SHORTEST_NS, TICK_NS),
            tick_at_ns: began_ns + TICK_NS,
            sample_at_ns: began_ns,
            alive_at_ns: began_ns,
        })
    }

    /// "userspace" or "endpoints".
    fn mode(&self) -> &'static str {
        if self.userspace { "userspace" } else { "endpoints" }
    }

    fn greet(&mut self) {
        let (mode, count) = (self.mode(), self.plan.rules.len());
        let file = self.plan.file.display();
        let words = format!("mode {mode}, {count} policies of {file}");
        self.notify.ready(&words);
        self.records.add(Record::own(None, "ready", &words));
        let enabled = settings::file(&places::sysctl_root(), "net.mptcp.enabled")
            .ok()
            .and_then(|file| settings::read(&file).ok());
        if enabled.is_some_and(|value| value.trim() == "0") {
            let why = "net.mptcp.enabled is 0: no program can open an MPTCP connection";
            self.records.add(Record::own(None, "warning", why));
        }
        self.warn_of_routes();
        if let Some(web) = &self.web {
            self.records.add(Record::own(None, "metrics", &web.url()));
            if web.is_open_to_others() {
                let why = "whoever reaches the address of the metrics can read them";
                self.records.add(Record::own(None, "warning", why));
            }
        }
    }

    /// Hosts to which connections may go.
    fn remotes(&self) -> Vec<IpAddr> {
        let mut remotes = ByDestination::new(&self.plan, &self.suspended).destinations();
        remotes.extend(ANYWHERE);
        remotes
    }

    /// Reports addresses that are of no use, as their packets leave elsewhere.
    fn warn_of_routes(&mut self) {
        for (device, address, other) in self.addresses.misled(&self.remotes()) {
            let why = format!(
                "{address} on {device} is not used: packets from it leave by {other} (it needs a rule and a \
                 table of its own, see ip-rule(8))"
            );
            self.records.add(Record::own(None, "warning", &why));
        }
    }

    /// Until a signal ends it.
    ///
    /// # Errors
    /// The kernel's side no longer works, or something could not be put back.
    pub fn run(mut self) -> Result<(), Error> {
        let ending = loop {
            if let Err(ending) = self.turn() {
                break ending;
            }
        };
        self.notify.stopping();
        let (words, mut result) = match ending {
            Ending::Asked(signal) => (format!("asked by {signal}"), Ok(())),
            Ending::Failed(error) => (error.to_string(), Err(error)),
        };
        self.records.add(Record::own(None, "ending", &words));
        drop(self.server);
        // New connections are the kernel's before their subflows lose who steers them.
        let restored = self.watchdog.end();
        if let Err(error) = self.steering.end() {
            result = result.and(Err(error.into()));
        }
        if let Ok(restored) = &restored {
            self.records.add_all(Record::kept(&restored.kept));
        }
        restored.map(drop).and(result)
    }

    /// Waits, and does what is due.
    fn turn(&mut self) -> Result<(), Ending> {
        let ready = self.wait()?;
        if ready.addresses {
            for change in self.addresses.step()? {
                self.steering.on_address(&change)?;
            }
        }
        self.steering.step()?;
        self.note_happenings();
        if ready.guardian {
            self.renew_guardian()?;
        }
        for (reader, request) in self.server.step(&ready.server, self.records.last()) {
            self.serve(reader, request);
        }
        self.show(&ready.web);
        self.suspend();
        if ready.signals {
            self.obey()?;
        }
        let now_ns = sys::monotonic_ns();
        if now_ns >= self.sample_at_ns {
            self.sample(now_ns);
        }
        let limits = self.adaptation.step(now_ns, &self.plan, &mut self.watchdog);
        self.records.add_all(limits);
        if now_ns >= self.tick_at_ns {
            self.tick_at_ns = now_ns + TICK_NS;
            self.tick();
        }
        if let Some(every) = self.notify.alive_every().filter(|_| now_ns >= self.alive_at_ns) {
            self.alive_at_ns = now_ns + every.as_nanos() as u64;
            self.notify.alive();
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Ready, Ending> {
        let now_ns = sys::monotonic_ns();
        let mut due_ns = self.tick_at_ns.min(self.sample_at_ns).min(self.adaptation.due_ns());
        if self.notify.alive_every().is_some() {
            due_ns = due_ns.min(self.alive_at_ns);
        }
        if self.server.is_behind() {
            due_ns = now_ns;
        }
        let own = Duration::from_nanos(due_ns.saturating_sub(now_ns));
        let pause = self.steering.pause(now_ns).map_or(own, |pause| pause.min(own));
        let event = |fd| Watch { fd, events: libc::POLLIN, ready: false };
        let mut watches = vec![
            Watch::readable(&self.signals),
            event(self.addresses.events()),
            self.watchdog.watch(),
        ];
        watches.extend(self.server.watches());
        let visitors = watches.len();
        watches.extend(self.web.iter().flat_map(Web::watches));
        let others = watches.len();
        watches.extend(self.steering.events(now_ns).map(event));
        sys::wait(&mut watches, pause)?;
        let ready: Vec<_> = watches.iter().map(|watch| watch.ready).collect();
        Ok(Ready {
            signals: ready[0],
            addresses: ready[1],
            guardian: ready[2],
            server: ready[3..visitors].to_vec(),
            web: ready[visitors..others].to_vec(),
        })
    }

    fn note_happenings(&mut self) {
        for happening in self.steering.take_happenings() {
            self.figures.count(&happening);
            if let Some(record) = Record::of(&happening, &*self.addresses) {
                self.records.add(record);
            }
        }
        let resynced = self.steering.resynced();
        // Events that were lost are reported with what was made up for.
        if resynced.times > self.resynced.times {
            if let Some(words) = resynced.since(&self.resynced) {
                self.records.add(Record::own(None, "resynchronised", &words));
            }
            self.resynced = resynced;
        }
    }

    fn renew_guardian(&mut self) -> Result<(), Ending> {
        self.watchdog.renew().map_err(Error::Watchdog)?;
        let why = "the process that puts settings back if the daemon dies was killed";
        self.records.add(Record::own(None, "watchdog started again", why));
        Ok(())
    }

    /// A signal.
    fn obey(&mut self) -> Result<(), Ending> {
        match signals::next(&self.signals) {
            Ok(Some("SIGHUP")) => {
                let _ = self.reload();
                Ok(())
            }
            Ok(Some(name)) => Err(Ending::Asked(name)),
            _ => Ok(()),
        }
    }

    /// Reads the policy file again; a bad one leaves everything as it is.
    fn reload(&mut self) -> Result<(), Error> {
        let done = self.plan.reread().map_err(Error::from).and_then(|plan| {
            self.check_fixed(&plan)?;
            self.knob.map_or(Ok(()), |knob| self.watchdog.choose(knob, self.userspace))?;
            let limits = self.adaptation.follow(plan.buffers.as_ref(), &mut self.watchdog)?;
            Ok((plan, limits))
        });
        match done {
            Ok((plan, limits)) => {
                self.plan = plan;
                self.records.add_all(limits);
                self.figures.reload(&self.plan.rules);
                self.steering
                    .set_policies(Box::new(ByDestination::new(&self.plan, &self.suspended)));
                self.steering.resynchronise();
                self.reload_refused = None;
                let words =
                    format!("{} policies of {}", self.plan.rules.len(), self.plan.file.display());
                self.records.add(Record::own(None, "reloaded", &words));
                self.warn_of_routes();
                Ok(())
            }
            Err(error) => {
                let why = format!("{error}; the policies are as before");
                self.records.add(Record::own(None, "reload refused", &why));
                self.reload_refused = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Checks that the keys that a reload cannot change are the same.
    fn check_fixed(&self, new: &Plan) -> Result<(), Error> {
        let old = &self.plan;
        let same = [
            ("mode", old.mode == new.mode),
            ("socket", old.socket == new.socket),
            ("metrics", old.metrics == new.metrics),
            ("keep_endpoints", old.keep_endpoints == new.keep_endpoints),
            ("interfaces", old.interfaces == new.interfaces),
        ];
        match same.iter().find(|(_, same)| !same) {
            Some((key, _)) => {
                let problem = "expected what it was when the daemon began, found something else (a restart takes it)";
                Err(wrong(new, &format!("daemon.{key}"), problem))
            }
            None => Ok(()),
        }
    }

    /// Samples the connections, at a bounded cost.
    fn sample(&mut self, now_ns: u64) {
        let spent_ns = sys::thread_cpu_ns();
        let steered = self.steering.steered();
        self.figures.steer(&steered);
        let seen =
            if steered.is_empty() { Ok(Default::default()) } else { self.statistics.connections() };
        if let Ok(seen) = seen {
            let is_needed = self.figures.wants_busy(&steered, &seen);
            let busy =
                if is_needed { self.statistics.busy().unwrap_or_default() } else { Busy::new() };
            self.figures.look(now_ns, &steered, &seen, &busy);
        }
        for (policy, outdated, words) in self.figures.judge(now_ns, sys::realtime_ns() / TICK_NS) {
            let record = if outdated {
                Record::own(Some(&policy), "outdated", &words)
            } else {
                Record::own(Some(&policy), "as measured again", "")
            };
            self.records.add(record);
        }
        let cost_ns = sys::thread_cpu_ns() - spent_ns;
        self.sample_at_ns = now_ns + self.sample_every_ns.max(cost_ns * SAMPLING_SHARE);
    }

    /// Work that is due about once a second.
    fn tick(&mut self) {
        let overruled = self.watchdog.overruled();
        let in_force = overruled.is_none();
        if in_force != std::mem::replace(&mut self.in_force, in_force) {
            let (what, why) = match overruled {
                Some((name, value)) => {
                    let problem = format!(
                        "somebody has set {name} to {value}: new connections are not steered"
                    );
                    ("overruled", format!("{problem}; a reload sets it again"))
                }
                None => ("in force again", String::new()),
            };
            self.records.add(Record::own(None, what, &why));
        }
        let (at_ns, last) = (sys::monotonic_ns(), self.records.last());
        let records = &self.records;
        self.server.tell_all(last, |last_sent, lost| Report {
            at_ns,
            connections: [],
            may_change: false,
            limits: [ELSEWHERE],
            events: records.since(last_sent),
            lost,
        });
    }
}

/// Descriptors that can be read.
struct Ready {
    signals: bool,
    addresses: bool,
    guardian: bool,
    server: Vec<bool>,
    web: Vec<bool>,
}
