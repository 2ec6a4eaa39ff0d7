//! The kinds of settings; add a line for another one.

use super::congestion::Congestion;
use super::directory::Directory;
use super::endpoint::Endpoint;
use super::file::File;
use super::limits::Limits;
use super::route::Route;
use crate::undo::change;
use crate::undo::kind::{Kind, State};
use crate::undo::sysctl::Sysctl;
use serde::{Deserialize, Serialize};

/// A setting, as orders and the journal have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Setting {
    /// Under /proc/sys/net.
    Sysctl(Sysctl),
    /// Of the kernel's path manager.
    Limits(Limits),
    /// Of the kernel's path manager.
    Endpoint(Endpoint),
    /// Its congestion control.
    Route(Route),
    /// One that the kernel lacks.
    Congestion(Congestion),
    /// A file that mptune's daemon reads.
    File(File),
    /// The directory of those, and of congestion controls; no order names it.
    Directory(Directory),
}

impl Setting {
    /// The same as the journal has it, without what only making it takes.
    pub fn noted(&self) -> Self {
        match self {
            Self::Congestion(setting) => {
                Self::Congestion(Congestion { name: setting.name.clone(), object: String::new() })
            }
            Self::File(setting) => Self::File(setting.noted()),
            other => other.clone(),
        }
    }
}

impl change::Setting for Setting {
    fn kind(&self) -> &dyn Kind {
        match self {
            Self::Sysctl(setting) => setting,
            Self::Limits(setting) => setting,
            Self::Endpoint(setting) => setting,
            Self::Route(setting) => setting,
            Self::Congestion(setting) => setting,
            Self::File(setting) => setting,
            Self::Directory(setting) => setting,
        }
    }

    fn place(&self) -> (u8, usize) {
        let depth = match self {
            Self::Directory(directory) => directory.path.components().count(),
            _ => 0,
        };
        (self.kind().rank(), depth)
    }

    fn outlives_the_machine(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Directory(directory) => !directory.is_of_bpf(),
            _ => false,
        }
    }

    fn is_private(&self) -> bool {
        matches!(self, Self::File(_))
    }

    fn gives_way(&self) -> bool {
        matches!(self, Self::Directory(_)) // others keep theirs in it
    }

    fn is_renewed(&self, present: &State) -> bool {
        matches!(self, Self::File(file) if file.is_renewed(present))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::change::Change;
    use serde_json::{Value, json};

    #[test]
    fn entries_of_version_0_2_are_read_and_written_as_they_were() {
        let entries = json!([
            {"setting": {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "1 2 3"},
             "before": {"text": "4\t5\t6\n"}, "wanted": {"text": "1 2 3"}, "passed": []},
            {"setting": {"kind": "limits", "subflows": 3, "add_addr_accepted": 2},
             "before": {"limits": {"subflows": 2, "add_addr_accepted": 0}},
             "wanted": {"limits": {"subflows": 3, "add_addr_accepted": 2}}, "passed": []},
            {"setting": {"kind": "endpoint", "address": "10.0.1.2", "device": "eth1", "flags": ["subflow"]},
             "before": "absent", "wanted": {"endpoint": {"id": 1, "flags": 2, "device": 3}},
             "passed": ["absent"]},
            {"setting": {"kind": "congestion", "name": "olia"},
             "before": "absent", "wanted": "present", "passed": []},
            {"setting": {"kind": "file", "path": "/etc/mptune/policy.toml"},
             "before": {"file": {"content": "0aff", "mode": 416, "owner": 7, "group": 8}},
             "wanted": "absent", "passed": []},
            {"setting": {"kind": "directory", "path": "/etc/mptune"},
             "before": "gone", "wanted": "present", "passed": []},
        ]);
        let read: Vec<Change<Setting>> = serde_json::from_value(entries.clone()).unwrap();
        let mut written: Value = serde_json::to_value(&read).unwrap();
        // Keys that an order may leave out.
        written[2]["setting"]
            .as_object_mut()
            .unwrap()
            .retain(|key, _| ["kind", "address", "device", "flags"].contains(&key.as_str()));
        assert_eq!(written, entries);
    }
}
