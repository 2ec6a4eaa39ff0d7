//! Programs that manage the same settings: found by their names among the processes of this network
//! namespace, and named.

use super::setting::Setting;
use crate::undo::places;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A program.
struct Manager {
    /// Its usual name.
    name: &'static str,
    /// Name of its process.
    command: &'static str,
    /// True if it may change such a setting.
    manages: fn(&Setting) -> bool,
}

const MANAGERS: [Manager; 4] = [
    Manager {
        name: "NetworkManager",
        command: "NetworkManager",
        // It makes endpoints of addresses, sets limits for them, and replaces its routes.
        manages: |setting| {
            matches!(setting, Setting::Endpoint(_) | Setting::Limits(_) | Setting::Route(_))
        },
    },
    Manager {
        name: "mptcpd",
        command: "mptcpd",
        manages: |setting| match setting {
            Setting::Endpoint(_) | Setting::Limits(_) => true,
            Setting::Sysctl(sysctl) => sysctl.name.starts_with("net.mptcp."),
            _ => false,
        },
    },
    Manager {
        name: "TuneD",
        command: "tuned",
        manages: |setting| matches!(setting, Setting::Sysctl(_)),
    },
    Manager {
        name: "bpftune",
        command: "bpftune",
        manages: |setting| matches!(setting, Setting::Sysctl(_) | Setting::Congestion(_)),
    },
];

/// Names of the running programs that manage one of these settings.
pub fn at_work(settings: &[Setting]) -> Vec<&'static str> {
    let commands = commands();
    let concerned = MANAGERS.iter().filter(|manager| {
        commands.iter().any(|command| command == manager.command)
            && settings.iter().any(manager.manages)
    });
    concerned.map(|manager| manager.name).collect()
}

/// All names, of running programs or not.
pub fn names() -> Vec<&'static str> {
    MANAGERS.iter().map(|manager| manager.name).collect()
}

/// Names of the processes of this network namespace, as far as this user may see them.
fn commands() -> Vec<String> {
    let Ok(here) = places::namespace() else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_here = |process: &Path| {
        fs::metadata(process.join("ns/net")).is_ok_and(|namespace| namespace.ino() == here.inode)
    };
    let processes = entries.map(|entry| entry.path()).filter(|path| {
        let number = path.file_name().and_then(|name| name.to_str());
        number.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit())) && of_here(path)
    });
    let names = processes.filter_map(|process| fs::read_to_string(process.join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).collect()
}
