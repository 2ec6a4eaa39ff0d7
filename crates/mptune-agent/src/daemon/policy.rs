//! The policy file: which connections get what. Read, checked as a whole, and refused in one line.
//!
//! Nothing here changes anything, and nothing asks the kernel: a file that is right here may name devices that
//! are not there yet. Python checks no policy file: it asks `--check` (python/mptune/linux/daemon.py).

use super::answer::{Answer, Expectation};
use super::remeasure::Remeasure;
use super::table::{self, Error, Table, displayed};
use crate::files::{self, Unread};
use crate::kernel::pair::Pair;
use crate::kernel::prefix::{self, Prefix};
use crate::paths::assignment::{Assignment, Terms};
use crate::paths::policies::{Opened, Policies};
use mptune_core::pathmanager::OptionMap;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::IpAddr;
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
    /// Endpoints outlive a clean end.
    pub keep_endpoints: bool,
    /// The devices that are used; none for all.
    pub interfaces: Option<Vec<String>>,
    /// In the order of the file; the one for all other destinations last.
    pub rules: Rc<[Rule]>,
    /// Permission to repeat measurements; none for never.
    pub remeasure: Option<Remeasure>,
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
        let Self { mode, keep_endpoints, .. } = *self;
        Ok(Self { mode, socket, keep_endpoints, interfaces, ..empty })
    }

    fn checked(file: &Path, values: &Map<String, Value>) -> Result<Self, Error> {
        let whole = Table::new(file, "", values, &["daemon", "default", "policy", "remeasure"])?;
        let none = Map::new();
        let daemon = whole.table("daemon")?.unwrap_or(&none);
        let known = ["mode", "socket", "keep_endpoints", "interfaces"];
        let daemon = Table::new(file, "daemon", daemon, &known)?;
        let interfaces = devices(&daemon, None)?;
        let remeasure = match whole.table("remeasure")? {
            Some(values) => Some(Remeasure::read(file, values)?),
            None => None,
        };
        Ok(Self {
            file: file.to_owned(),
            mode: daemon.word("mode", &MODES)?.unwrap_or(Mode::Auto),
            socket: socket(&daemon)?,
            keep_endpoints: daemon.flag("keep_endpoints")?,
            rules: rules(&whole, interfaces.as_deref())?.into(),
            interfaces,
            remeasure,
        })
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

/// The last rule takes what no other names.
fn chosen(rules: &[Rule], remote: IpAddr) -> &Rule {
    let named = rules.iter().find(|rule| rule.to.iter().any(|prefix| prefix.contains(remote)));
    named.or(rules.last()).expect("a plan has a rule for all others")
}

fn socket(daemon: &Table<'_>) -> Result<PathBuf, Error> {
    let Some(text) = daemon.text("socket")? else { return Ok(SOCKET.into()) };
    let path = PathBuf::from(text);
    // struct sockaddr_un has 108 bytes, the last of which is a zero.
    if path.is_absolute() && path.file_name().is_some() && text.len() < 108 {
        return Ok(path);
    }
    let expected = format!("expected an absolute path below 108 bytes, found {text:?}");
    Err(daemon.wrong("socket", expected))
}

/// Names of devices, all of which must be among `allowed` if that is given.
fn devices(table: &Table<'_>, allowed: Option<&[String]>) -> Result<Option<Vec<String>>, Error> {
    let Some(names) = table.texts("interfaces")? else { return Ok(None) };
    let wrong = |index: usize, name: &str, expected: &str| {
        table.wrong(&format!("interfaces[{index}]"), format!("expected {expected}, found {name:?}"))
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
const KEYS: [&str; 6] = ["policy", "run", "options", "interfaces", "announce", "open"];

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
            interfaces: devices(table, interfaces)?,
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
                let (run, measured_at, expectation) = (None, None, None);
                let pm = pm.to_owned();
                Ok(Self { name: name.into(), to, pm, run, measured_at, expectation, assignment })
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
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, Error> {
        let file = Path::new("/etc/mptune/policy.toml");
        Plan::checked(file, &table::parsed(file, text)?)
    }

    const TWO: &str = r#"
        [daemon]
        interfaces = ["eth1", "wwan0"]
        [[policy]]
        name = "one"
        to = ["10.9.0.0/16", "2001:db8::/32"]
        policy = "guard"
        interfaces = ["eth1"]
        [[policy]]
        name = "two"
        to = ["10.10.0.1"]
        policy = "ndiffports"
        options = { ndiffports = 3 }
        open = "always"
        [remeasure]
        hours = "22:30-05:00"
        max_data = "2GB"
    "#;

    #[test]
    fn a_destination_has_the_policy_that_names_it() {
        let plan = plan(TWO).unwrap();
        let name = |ip: &str| &*plan.rule_for(ip.parse().unwrap()).name;
        assert_eq!([name("10.9.3.4"), name("2001:db8::9")], ["one", "one"]);
        assert_eq!([name("::ffff:10.10.0.1"), name("10.10.0.2")], ["two", "default"]);
        assert_eq!(plan.rule_for("1.1.1.1".parse().unwrap()).pm, "fullmesh");
        assert_eq!((plan.mode, plan.keep_endpoints), (Mode::Auto, false));
        assert_eq!(plan.socket, Path::new("/run/mptune/daemon.sock"));
        let remeasure = plan.remeasure.unwrap();
        assert_eq!((&*remeasure.hours, remeasure.ends), ("22:30-05:00", [22 * 60 + 30, 5 * 60]));
        assert_eq!(
            (remeasure.max_data_bytes, remeasure.budget_ns),
            (Some(2_000_000_000), 600_000_000_000)
        );
        assert_eq!(super::Plan::checked(Path::new("/f"), &Map::new()).unwrap().rules.len(), 1);
    }

    #[test]
    fn connections_of_a_suspended_policy_are_left_alone() {
        let suspended = Suspended::default();
        let policies = ByDestination::new(&plan(TWO).unwrap(), &suspended);
        let (local, remote) = ("10.0.0.1:1".parse().unwrap(), "10.9.0.1:2".parse().unwrap());
        let opened = Opened { pair: Pair { local, remote }, server_side: false };
        assert_eq!(&*policies.assignment(&opened).unwrap().name, "one");
        suspended.borrow_mut().insert("one".to_owned());
        assert!(policies.assignment(&opened).is_none());
    }

    #[test]
    fn an_error_is_one_line_with_its_key() {
        let a = "[[policy]]\nname = \"a\"\nto = [\"10.9.0.0/16\"]\n";
        let ab =
            format!("{a}policy = \"fullmesh\"\n[[policy]]\nname = \"b\"\npolicy = \"default\"\n");
        let cases = [
            (
                "colour = 1".to_owned(),
                "colour: expected one of daemon, default, policy, remeasure, found \"colour\"",
            ),
            ("[daemon".to_owned(), "line 1: expected TOML, found something else: "),
            ("\n\na = = 1".to_owned(), "line 3: expected TOML, found"),
            ("daemon = 1".to_owned(), "daemon: expected a table, found 1"),
            (
                "[daemon]\nmode = \"fast\"".to_owned(),
                "daemon.mode: expected one of auto, userspace, endpoints, found \"fast\"",
            ),
            ("[daemon]\nmode = 3".to_owned(), "daemon.mode: expected text, found 3"),
            (
                "[daemon]\nkeep_endpoints = \"no\"".to_owned(),
                "daemon.keep_endpoints: expected true or false, found \"no\"",
            ),
            (
                "[daemon]\nsocket = \"x.sock\"".to_owned(),
                "daemon.socket: expected an absolute path below 108 bytes",
            ),
            (
                "[daemon]\ninterfaces = []".to_owned(),
                "daemon.interfaces: expected a list of text, found an empty list",
            ),
            (
                "[daemon]\ninterfaces = [\"a b\"]".to_owned(),
                "daemon.interfaces[0]: expected the name of a device",
            ),
            (
                "[daemon]\ninterfaces = [\"a\", \"a\"]".to_owned(),
                "daemon.interfaces[1]: expected another device",
            ),
            (
                "[default]\npolicy = \"fullmash\"".to_owned(),
                "default.policy: expected one of default,",
            ),
            (
                "[default]\npolicy = \"fullmesh\"\nto = [\"::/0\"]".to_owned(),
                "default.to: expected one of policy, run,",
            ),
            (
                "[default]\npolicy = \"ndiffports\"\noptions = {ndiffports = 0}".to_owned(),
                "default.options.ndiffports: expected 1 to 64",
            ),
            (
                "[default]\npolicy = \"ndiffports\"\noptions = {fast = 0}".to_owned(),
                "default.options: expected one of ndiffports",
            ),
            ("[default]".to_owned(), "default.run: expected run or policy, found neither"),
            (
                "[policy]\nname = \"a\"".to_owned(),
                "policy: expected tables [[policy]], found a table",
            ),
            ("[[policy]]".to_owned(), "policy[0].name: expected text, found nothing"),
            (
                "[[policy]]\nname = \"default\"".to_owned(),
                "policy[0].name: expected a name of letters",
            ),
            (
                "[[policy]]\nname = \"a\"".to_owned(),
                "policy[0].to: expected a list of prefixes, found nothing",
            ),
            (
                "[[policy]]\nname = \"a\"\nto = [\"10.9.0.1/16\"]".to_owned(),
                "policy[0].to[0]: expected 10.9.0.0/16 (no bits of a host), found \"10.9.0.1/16\"",
            ),
            (
                format!("{a}run = \"/nowhere\""),
                "policy[0].run: expected a directory with policy.json, found no directory: \"/nowhere\"",
            ),
            (
                format!("{a}run = \"/proc\""),
                "policy[0].run: expected a directory with policy.json, found a directory without it",
            ),
            (
                format!("{a}run = \"/nowhere\"\npolicy = \"guard\""),
                "policy[0].run: expected run or policy, found both",
            ),
            (
                format!("{a}run = \"/nowhere\"\noptions = {{a = 1}}"),
                "policy[0].options: expected only with policy, found a table",
            ),
            (
                format!("{a}policy = \"guard\"\nopen = true"),
                "policy[0].open: expected text, found true",
            ),
            (
                format!("{a}policy = \"guard\"\nopen = \"never\""),
                "policy[0].open: expected one of own, always, found \"never\"",
            ),
            (
                format!("{ab}to = [\"10.9.1.0/24\"]"),
                "policy[1].to[0]: expected a prefix that no other policy has addresses of, found 10.9.1.0/24 beside policy \"a\"",
            ),
            (
                format!("{a}policy = \"guard\"\n{a}policy = \"guard\""),
                "policy[1].name: expected a unique name, found \"a\" twice",
            ),
            (
                format!(
                    "[daemon]\ninterfaces = [\"eth1\"]\n{a}policy = \"guard\"\ninterfaces = [\"eth2\"]"
                ),
                "policy[0].interfaces[0]: expected one of daemon.interfaces (eth1), found \"eth2\"",
            ),
            ("[remeasure]".to_owned(), "remeasure.hours: expected text, found nothing"),
            (
                "[remeasure]\nhours = \"2-5\"".to_owned(),
                "remeasure.hours: expected hours of the day such as 02:00-05:00, found \"2-5\"",
            ),
            (
                "[remeasure]\nhours = \"02:00-24:00\"".to_owned(),
                "remeasure.hours: expected hours of the day",
            ),
            (
                "[remeasure]\nhours = \"02:00-05:00\"\nmax_data = \"2XB\"".to_owned(),
                "remeasure.max_data: expected a size such as 2GB",
            ),
            (
                "[remeasure]\nhours = \"02:00-05:00\"\nmax_data = 2".to_owned(),
                "remeasure.max_data: expected text, found 2",
            ),
            (
                "[remeasure]\nhours = \"02:00-05:00\"\nbudget = \"0min\"".to_owned(),
                "remeasure.budget: expected a time such as 10min",
            ),
        ];
        for (text, expected) in cases {
            let reason = plan(&text).unwrap_err().to_string();
            let expected = format!("/etc/mptune/policy.toml: {expected}");
            assert!(reason.starts_with(&expected), "{text}: {reason} / {expected}");
            assert!(!reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn text_for_another_machine_may_name_runs_that_are_not_here() {
        let text = "[[policy]]\nname = \"a\"\nto = [\"10.9.0.0/16\"]\nrun = \"/nowhere\"\n";
        let file = Path::new(TEXT);
        let plan = Plan::checked(file, &table::parsed(file, text).unwrap()).unwrap();
        assert_eq!(plan.rules[0].run.as_deref(), Some(Path::new("/nowhere")));
        let twice = [text, text].concat();
        let reason = Plan::checked(file, &table::parsed(file, &twice).unwrap());
        let reason = reason.unwrap_err().to_string();
        assert!(reason.starts_with("-: policy[1].name: expected a unique name"), "{reason}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let reason = Plan::read(Path::new("/nowhere/policy.toml")).unwrap_err().to_string();
        assert!(
            reason.starts_with("/nowhere/policy.toml: expected a policy file, found No such file")
        );
    }
}
