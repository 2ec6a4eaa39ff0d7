//! The policy file: which connections get what. Read, checked as a whole, and refused in one line.
//!
//! Nothing here changes anything, and nothing asks the kernel: a file that is right here may name devices that
//! are not there yet. Python checks no policy file: it asks `--check` (python/mptune/linux/daemon.py).

use super::answer::{Answer, Expectation};
use super::buffers::Buffers;
use super::remeasure::Remeasure;
use super::table::{self, Error, Table, displayed};
use super::web;
use crate::files::{self, Unread};
use crate::kernel::pair::Pair;
use crate::kernel::prefix::{self, Prefix};
use crate::paths::assignment::{Assignment, Terms};
use crate::paths::policies::{Opened, Policies};
use mptune_core::limits::Curve;
use mptune_core::pathmanager::OptionMap;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The usual policy file.
pub const USUAL: &str = "/etc/mptune/policy.toml";
/// Another place.
const VARIABLE: &str = "MPTUNE_POLICY";
/// The usual socket.
const SOCKET: &str = "/run/mptune/daemon.sock";
/// The name of the policy for all other destinations.
pub const DEFAULT: &str = "default";
/// Policy of all destinations that no policy names: in userspace mode a connection that nobody steers has
/// one subflow only.
const UNNAMED: &str = "fullmesh";
/// No file is longer, bytes.
const LONGEST: u64 = 1 << 20;
/// Longest name of a device (IFNAMSIZ) and of a policy.
const LONGEST_DEVICE: usize = 15;
const LONGEST_NAME: usize = 64;
/// Instead of a file: text for another machine, on the standard input. The answers of its runs are there.
pub const TEXT: &str = "-";

/// Modes of steering connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// By the daemon, subflow by subflow.
    Userspace,
    /// By the kernel, with endpoints that the daemon keeps.
    Endpoints,
    /// The first where the kernel can, otherwise the second.
    Auto,
}

const MODES: [(&str, Mode); 3] =
    [("auto", Mode::Auto), ("userspace", Mode::Userspace), ("endpoints", Mode::Endpoints)];

/// A policy file, checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// The mode of steering connections.
    pub mode: Mode,
    /// Path of the socket.
    pub socket: PathBuf,
    /// Address of the metrics, over HTTP; none without.
    pub metrics: Option<SocketAddr>,
    /// Endpoints outlive a clean end.
    pub keep_endpoints: bool,
    /// The devices that are used; none for all.
    pub interfaces: Option<Vec<String>>,
    /// In the order of the file; the one for all other destinations last.
    pub rules: Rc<[Rule]>,
    /// Permission to repeat measurements; none for never.
    pub remeasure: Option<Remeasure>,
    /// Permission to adapt the limits of the buffers; none for never.
    pub buffers: Option<Buffers>,
}

/// A policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name.
    pub name: Arc<str>,
    /// The destinations; empty for all that no other names.
    pub to: Vec<Prefix>,
    /// The path manager.
    pub pm: String,
    /// The run that it came from.
    pub run: Option<PathBuf>,
    /// Time of its measurement, as in its file.
    pub measured_at: Option<String>,
    /// Its prediction.
    pub expectation: Option<Expectation>,
    /// Throughput over the limit of the send buffer, as its run measured it.
    pub curve: Option<Curve>,
    /// The assignment of a connection.
    assignment: Assignment,
}

/// The policy file that is meant.
pub fn place(named: Option<&Path>) -> PathBuf {
    let usual = || std::env::var_os(VARIABLE).map_or_else(|| USUAL.into(), PathBuf::from);
    named.map_or_else(usual, Path::to_owned)
}

impl Plan {
    /// Reads and checks a policy file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text = if file == Path::new(TEXT) {
            let mut text = String::new();
            let read = std::io::stdin().take(LONGEST).read_to_string(&mut text);
            read.map(|_| text).map_err(Unread::from)
        } else {
            files::text(file, LONGEST)
        };
        let text = text.map_err(|found| {
            let file = file.to_owned();
            Error::Unread { file, expected: "a policy file", found }
        })?;
        Self::checked(file, &table::parsed(file, &text)?)
    }

    /// Reads its file once more. One that is gone, as an apply that is rolled back leaves it, has no policies:
    /// every destination gets the default.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn reread(&self) -> Result<Self, Error> {
        if !matches!(self.file.try_exists(), Ok(false)) {
            return Self::read(&self.file);
        }
        let empty = Self::checked(&self.file, &Map::new())?;
        let (socket, interfaces) = (self.socket.clone(), self.interfaces.clone());
        let Self { mode, metrics, keep_endpoints, .. } = *self;
        Ok(Self { mode, socket, metrics, keep_endpoints, interfaces, ..empty })
    }

    fn checked(file: &Path, values: &Map<String, Value>) -> Result<Self, Error> {
        let whole =
            Table::new(file, "", values, &["buffers", "daemon", "default", "policy", "remeasure"])?;
        let none = Map::new();
        let daemon = whole.table("daemon")?.unwrap_or(&none);
        let known = ["mode", "socket", "metrics", "keep_endpoints", "interfaces"];
        let daemon = Table::new(file, "daemon", daemon, &known)?;
        let interfaces = devices(&daemon, "interfaces", None)?;
        let remeasure = match whole.table("remeasure")? {
            Some(values) => Some(Remeasure::read(file, values)?),
            None => None,
        };
        let buffers = match whole.table("buffers")? {
            Some(values) => Some(Buffers::read(file, values)?),
            None => None,
        };
        Ok(Self {
            file: file.to_owned(),
            mode: daemon.word("mode", &MODES)?.unwrap_or(Mode::Auto),
            socket: socket(&daemon)?,
            metrics: metrics(&daemon)?,
            keep_endpoints: daemon.flag("keep_endpoints")?,
            rules: rules(&whole, interfaces.as_deref())?.into(),
            interfaces,
            remeasure,
            buffers,
        })
    }

    /// The place of a destination's policy among `rules`.
    pub fn place_of(&self, remote: IpAddr) -> usize {
        place_among(&self.rules, remote)
    }

    /// The policy of a destination.
    #[cfg(test)]
    fn rule_for(&self, remote: IpAddr) -> &Rule {
        chosen(&self.rules, remote)
    }
}

/// Policies by destination, as the manager asks for them.
pub struct ByDestination {
    rules: Rc<[Rule]>,
    suspended: Suspended,
}

/// Names of policies whose new connections are left alone for now.
pub type Suspended = Rc<RefCell<BTreeSet<String>>>;

impl ByDestination {
    /// Those of a plan.
    pub fn new(plan: &Plan, suspended: &Suspended) -> Self {
        Self { rules: plan.rules.clone(), suspended: suspended.clone() }
    }
}

impl Policies for ByDestination {
    fn assignment(&self, opened: &Opened) -> Option<Assignment> {
        let Pair { remote, .. } = opened.pair;
        let rule = chosen(&self.rules, remote.ip());
        let left_alone = self.suspended.borrow().contains(&*rule.name);
        (!left_alone).then(|| rule.assignment.clone())
    }

    fn destinations(&self) -> Vec<IpAddr> {
        self.rules.iter().flat_map(|rule| &rule.to).map(Prefix::some_host).collect()
    }
}

fn chosen(rules: &[Rule], remote: IpAddr) -> &Rule {
    &rules[place_among(rules, remote)]
}

/// The last rule takes what no other names.
fn place_among(rules: &[Rule], remote: IpAddr) -> usize {
    let names = |rule: &Rule| rule.to.iter().any(|prefix| prefix.contains(remote));
    rules.iter().position(names).unwrap_or(rules.len() - 1)
}

fn socket(daemon: &Table<'_>) -> Result<PathBuf, Error> {
    let text = daemon.text("socket")?.unwrap_or(SOCKET);
    let path = PathBuf::from(text);
    // struct sockaddr_un has 108 bytes, the last of which is a zero.
    if path.is_absolute() && path.file_name().is_some() && text.len() < 108 {
        return Ok(path);
    }
    let expected = format!("expected an absolute path below 108 bytes, found {text:?}");
    Err(daemon.wrong("socket", expected))
}

fn metrics(daemon: &Table<'_>) -> Result<Option<SocketAddr>, Error> {
    let Some(text) = daemon.text("metrics")? else { return Ok(None) };
    web::address(text).map(Some).map_err(|error| daemon.wrong("metrics", error.to_string()))
}

/// Names of devices under a key, all of which must be among `allowed` if that is given.
fn devices(
    table: &Table<'_>,
    key: &str,
    allowed: Option<&[String]>,
) -> Result<Option<Vec<String>>, Error> {
    let Some(names) = table.texts(key)? else { return Ok(None) };
    let wrong = |index: usize, name: &str, expected: &str| {
        table.wrong(&format!("{key}[{index}]"), format!("expected {expected}, found {name:?}"))
    };
    for (index, name) in names.iter().enumerate() {
        let strange = |byte: u8| byte.is_ascii_whitespace() || byte == b'/' || byte == 0;
        if name.is_empty() || name.len() > LONGEST_DEVICE || name.bytes().any(strange) {
            return Err(wrong(index, name, "the name of a device"));
        }
        if names[..index].contains(name) {
            return Err(wrong(index, name, "another device"));
        }
        if let Some(allowed) = allowed.filter(|allowed| !allowed.iter().any(|known| known == name))
        {
            return Err(wrong(
                index,
                name,
                &format!("one of daemon.interfaces ({})", allowed.join(", ")),
            ));
        }
    }
    Ok(Some(names.into_iter().map(str::to_owned).collect()))
}

/// All policies, the one for all other destinations last.
fn rules(whole: &Table<'_>, interfaces: Option<&[String]>) -> Result<Vec<Rule>, Error> {
    let mut rules: Vec<Rule> = Vec::new();
    for (index, values) in whole.tables("policy")?.into_iter().enumerate() {
        let prefix = format!("policy[{index}]");
        let rule = Rule::named(whole.file(), &prefix, values, interfaces)?;
        if rules.iter().any(|other| other.name == rule.name) {
            let expected = format!("expected a unique name, found {:?} twice", rule.name);
            return Err(whole.wrong(&format!("{prefix}.name"), expected));
        }
        for (number, destination) in rule.to.iter().enumerate() {
            let other =
                rules.iter().find(|other| other.to.iter().any(|that| that.overlaps(destination)));
            if let Some(other) = other {
                let expected = format!(
                    "expected a prefix that no other policy has addresses of, found {destination} beside policy {:?}",
                    other.name
                );
                return Err(whole.wrong(&format!("{prefix}.to[{number}]"), expected));
            }
        }
        rules.push(rule);
    }
    let unnamed = Map::from_iter([("policy".to_owned(), Value::from(UNNAMED))]);
    let values = whole.table("default")?.unwrap_or(&unnamed);
    rules.push(Rule::for_all_others(whole.file(), values, interfaces)?);
    Ok(rules)
}

/// The keys that every policy may have.
const KEYS: [&str; 7] = ["policy", "run", "options", "interfaces", "metered", "announce", "open"];

impl Rule {
    fn named(
        file: &Path,
        prefix: &str,
        values: &Map<String, Value>,
        interfaces: Option<&[String]>,
    ) -> Result<Self, Error> {
        let known = [&["name", "to"], &KEYS[..]].concat();
        let table = Table::new(file, prefix, values, &known)?;
        let name = table.needed("name")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name == DEFAULT || name.len() > LONGEST_NAME || !name.bytes().all(plain) {
            let expected = format!(
                "expected a name of letters, digits and ._- other than {DEFAULT}, found {name:?}"
            );
            return Err(table.wrong("name", expected));
        }
        let to = table.texts("to")?;
        let to =
            to.ok_or_else(|| table.wrong("to", "expected a list of prefixes, found nothing"))?;
        let parsed = to.iter().enumerate().map(|(index, text)| {
            let wrong = |expected: prefix::Error| {
                let found = format!("expected {expected}, found {text:?}");
                table.wrong(&format!("to[{index}]"), found)
            };
            Prefix::parse(text).map_err(wrong)
        });
        let to = parsed.collect::<Result<_, _>>()?;
        Self::read(&table, name, to, interfaces)
    }

    fn for_all_others(
        file: &Path,
        values: &Map<String, Value>,
        interfaces: Option<&[String]>,
    ) -> Result<Self, Error> {
        let table = Table::new(file, DEFAULT, values, &KEYS)?;
        Self::read(&table, DEFAULT, Vec::new(), interfaces)
    }

    fn read(
        table: &Table<'_>,
        name: &str,
        to: Vec<Prefix>,
        interfaces: Option<&[String]>,
    ) -> Result<Self, Error> {
        let terms = Terms {
            interfaces: devices(table, "interfaces", interfaces)?,
            metered: devices(table, "metered", interfaces)?.unwrap_or_default(),
            announce: table.flag("announce")?,
            open_accepted: table
                .word("open", &[("own", false), ("always", true)])?
                .unwrap_or(false),
        };
        match (table.text("run")?, table.text("policy")?) {
            (Some(run), None) => {
                if let Some(options) = table.value("options") {
                    let expected =
                        format!("expected only with policy, found {}", displayed(options));
                    return Err(table.wrong("options", expected));
                }
                let answer = answer(table, run)?;
                Ok(Self {
                    name: name.into(),
                    to,
                    pm: answer.pm,
                    run: Some(answer.directory),
                    measured_at: answer.measured_at,
                    expectation: answer.expectation,
                    curve: answer.curve,
                    assignment: answer.assignment.with_terms(name, terms),
                })
            }
            (None, Some(pm)) => {
                let options: OptionMap = table.table("options")?.cloned().unwrap_or_default();
                let made = Assignment::of_host(name, pm, &options, terms);
                let assignment = made.map_err(|error| match error.key.as_str() {
                    "pm" => table.wrong("policy", error.expected),
                    "pm_options" => table.wrong("options", error.expected),
                    option => table.wrong(&format!("options.{option}"), error.expected),
                })?;
                Ok(Self {
                    name: name.into(),
                    to,
                    pm: pm.to_owned(),
                    run: None,
                    measured_at: None,
                    expectation: None,
                    curve: None,
                    assignment,
                })
            }
            (Some(_), Some(_)) => Err(table.wrong("run", "expected run or policy, found both")),
            (None, None) => Err(table.wrong("run", "expected run or policy, found neither")),
        }
    }
}

/// The answer of a run, whose directory is relative to the policy file.
fn answer(table: &Table<'_>, run: &str) -> Result<Answer, Error> {
    let directory = table.file().parent().unwrap_or(Path::new("")).join(run);
    if table.file() == Path::new(TEXT) {
        return Ok(Answer::elsewhere(directory));
    }
    Answer::read(&directory)?.ok_or_else(|| {
        let there = if directory.is_dir() { "a directory without it" } else { "no directory" };
        let found = format!("found {there}: {run:?}");
        table.wrong("run", format!("expected a directory with policy.json, {found}"))
    })
}

#[cfg(test)]
mod tests;
