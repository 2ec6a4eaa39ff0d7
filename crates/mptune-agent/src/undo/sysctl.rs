//! A setting of the network under /proc/sys.

use crate::kernel::sysctl as settings;
use crate::undo::change::Setting;
use crate::undo::kind::{Error, Kind, State, words};
use crate::undo::places;
use crate::undo::steps;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

/// The congestion control of programs that name none. In the machine's own namespace the kernel adds it to
/// `ALLOWED` by itself, for good.
pub const DEFAULT_CC: &str = "net.ipv4.tcp_congestion_control";
/// The congestion controls that every program may use.
pub const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// True if two values of a setting are the same to the kernel. It lists congestion controls in the order in which they
/// came, not in that in which they were allowed.
pub fn same(name: &str, value: &str, other: &str) -> bool {
    let names = |list: &str| list.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    if name == ALLOWED { names(value) == names(other) } else { settings::same(value, other) }
}

/// By its name as sysctl(8) prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sysctl {
    /// Its name.
    pub name: String,
    /// The value wanted.
    pub value: String,
}

impl Sysctl {
    fn file(&self) -> Result<PathBuf, settings::Unknown> {
        settings::file(&places::sysctl_root(), &self.name)
    }

    fn failed(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::NotFound => {
                Error::impossible(&self.name, "there is no such setting here")
            }
            _ => Error::file(&self.name, error),
        }
    }

    /// The setting to set with it, and after it, so that nothing else changes unnoticed; `list` is what `ALLOWED` was
    /// before anything was changed, if this namespace has it.
    pub fn companion(&self, list: Option<&str>) -> Option<Self> {
        let list = list.filter(|_| self.name == DEFAULT_CC)?;
        let mut names: Vec<_> = list.split_whitespace().collect();
        if !names.contains(&self.value.trim()) {
            names.push(self.value.trim());
        }
        Some(Self { name: ALLOWED.to_owned(), value: names.join(" ") })
    }
}

impl Setting for Sysctl {
    fn kind(&self) -> &dyn Kind {
        self
    }
}

impl Kind for Sysctl {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn rank(&self) -> u8 {
        2
    }

    fn check(&self) -> Result<(), Error> {
        Ok(self.file().map(drop)?)
    }

    fn read(&self) -> Result<State, Error> {
        match settings::read(&self.file()?) {
            Ok(text) => Ok(State::Text(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Gone),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn target(&self, present: &State, _known: &[State]) -> Result<State, Error> {
        let ordered = State::Text(self.value.clone());
        Ok(if self.same(present, &ordered) { present.clone() } else { ordered })
    }

    fn step(&self, _from: &State, to: &State) -> Result<(), Error> {
        let State::Text(text) = to else {
            return Err(Error::unexpected(&self.name, "a value", words(to)));
        };
        settings::write(&self.file()?, text).map_err(|error| self.failed(error))?;
        steps::changed();
        Ok(())
    }

    fn same(&self, state: &State, other: &State) -> bool {
        match (state, other) {
            (State::Text(state), State::Text(other)) => same(&self.name, state, other),
            _ => state == other,
        }
    }

    fn as_order(&self, state: &State) -> Value {
        match state {
            State::Text(_) => json!({"kind": "sysctl", "name": self.name, "value": words(state)}),
            _ => json!({"kind": "sysctl", "name": self.name, "absent": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_default_is_allowed_by_name() {
        let setting = |name: &str, value: &str| Sysctl { name: name.into(), value: value.into() };
        let companion = setting(DEFAULT_CC, "bbr").companion(Some("reno cubic\n"));
        assert_eq!(companion, Some(setting(ALLOWED, "reno cubic bbr")));
        let companion = setting(DEFAULT_CC, "reno").companion(Some("reno cubic\n"));
        assert_eq!(companion, Some(setting(ALLOWED, "reno cubic")));
        assert_eq!(setting(DEFAULT_CC, "reno").companion(None), None);
        assert_eq!(setting("net.ipv4.tcp_wmem", "1 2 3").companion(Some("reno")), None);
    }

    #[test]
    fn the_order_of_allowed_congestion_controls_is_the_kernels() {
        let wanted = Sysctl { name: ALLOWED.into(), value: "reno cubic bbr".into() };
        let text = |text: &str| State::Text(text.into());
        assert!(wanted.same(&text("reno cubic bbr"), &text("bbr reno cubic\n")));
        assert!(!wanted.same(&text("reno cubic bbr"), &text("reno cubic\n")));
        let other = Sysctl { name: "net.ipv4.tcp_wmem".into(), value: "1 2 3".into() };
        assert!(!other.same(&text("1 2 3"), &text("2 1 3")));
    }

    #[test]
    fn what_differs_only_in_blanks_is_not_written_again() {
        let setting = Sysctl { name: "net.ipv4.tcp_wmem".into(), value: "1 2 3".into() };
        let present = State::Text("1\t2\t3\n".into());
        assert_eq!(setting.target(&present, &[]).unwrap(), present);
        assert_eq!(setting.way(&present, &State::Text("1 2 3".into())), []);
    }
}
