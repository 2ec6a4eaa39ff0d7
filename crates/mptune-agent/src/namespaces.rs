//! Two network namespaces, held and set up: the role `namespaces`.
//!
//! Unnamed namespaces exist as long as a process, a socket or an open file uses them. This role opens both and
//! does nothing else. When it ends, because its input ends or because the program that started it dies, they are
//! gone, and nothing has to be removed:
//!
//! ```text
//! in   {"settings": {"net.ipv4.tcp_sack": "1", ...}, "dispensable": ["net.mptcp.", ...], "telling": [...]}
//! out  {"event": "held", "local": <path>, "remote": <path>, "user": <path> or null, "settings": {...}}
//! in   {"side": "local", "interfaces": [{"device", "ipv4", "ipv6", "table", "preferred"}, ...]}
//! out  {"event": "configured", "offloads": {"if0": "tso gso gro", ...}}
//! out  {"event": "error", "reason": "..."} instead of any of them, after which it ends
//! ```
//!
//! A setting that the kernel lacks is an error, unless its name begins with one of `dispensable`. `settings` in
//! the answer are the values of `telling` in effect. Without the privilege to create network namespaces, it first
//! enters a user namespace in which it has it.

use crate::control::{self, Control, Input};
use crate::kernel::error::{Error as Refused, plain};
use crate::kernel::routes::assign::{Device, Devices};
use crate::kernel::sysctl::{self, Values};
use crate::kernel::{offloads, sys};
use crate::role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process;
use std::time::Duration;
use thiserror::Error as Derived;

/// Longest wait for input; every wait ends by itself only to begin again.
const TICK: Duration = Duration::from_secs(3600);
/// Largest packet of a device, bytes.
const MTU: u32 = 1500;
/// Packets that a device can queue for the emulator. A whole window may leave at once, and packets that do not
/// fit are lost outside the network model: 49 MB is more than any window in use. Some kernels (6.12.117 and 7.3.4,
/// not 6.18.44) refuse a longer queue: "integer out of range".
const QUEUE_PACKETS: u32 = 32767;
const SETTINGS: &str = "/proc/sys";
/// It is not there where the kernel has no IPv6.
const IPV6: &str = "/proc/sys/net/ipv6";

#[derive(Debug, Derived)]
enum Error {
    #[error(transparent)]
    Control(#[from] control::Error),
    #[error("{0}: {error}", error = plain(.1))]
    Kernel(String, io::Error),
    #[error(transparent)]
    Setting(#[from] sysctl::Unknown),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("command: {0}")]
    Command(#[from] serde_json::Error),
}

/// Adds the subject to an error of the system.
fn of(subject: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Kernel(subject.into(), error)
}

/// The first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    settings: Values,
    dispensable: Vec<String>,
    telling: Vec<String>,
}

/// Every further line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    side: Side,
    interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Side {
    Local,
    Remote,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Interface {
    device: String,
    ipv4: Ipv4Addr,
    ipv6: Ipv6Addr,
    table: u32,
    /// Programs that choose no address use this one.
    #[serde(default)]
    preferred: bool,
}

#[derive(Serialize)]
#[serde(tag = "event", rename = "held")]
struct Reported {
    local: String,
    remote: String,
    user: Option<String>,
    settings: Values,
}

#[derive(Serialize)]
#[serde(tag = "event", rename = "configured")]
struct Configured {
    offloads: BTreeMap<String, String>,
}

/// Both namespaces, open.
struct Held {
    local: File,
    remote: File,
    /// They belong to a user namespace of this process.
    user: bool,
}

/// The role.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let wanted: Wanted = control.configuration()?;
    let held = Held::create(&wanted)?;
    control.tell(&held.reported(&wanted.telling));
    loop {
        match control.wait(&mut [], TICK).map_err(control::Error::from)? {
            Some(Input::Closed | Input::Signal(_)) => return Ok(()),
            Some(Input::Line(line)) => {
                control.tell(&held.configured(&serde_json::from_str(&line)?)?)
            }
            None => {}
        }
    }
}

impl Held {
    fn create(wanted: &Wanted) -> Result<Self, Error> {
        let user = enter_user_namespace()?;
        let create = || {
            sys::unshare(libc::CLONE_NEWNET).map_err(of("unshare"))?;
            apply(Path::new(SETTINGS), wanted)?;
            File::open("/proc/self/ns/net").map_err(of("/proc/self/ns/net"))
        };
        Ok(Self { local: create()?, remote: create()?, user })
    }

    fn file(&self, side: Side) -> &File {
        match side {
            Side::Local => &self.local,
            Side::Remote => &self.remote,
        }
    }

    /// Their files for other processes, and the settings of this process's, which is the remote one.
    fn reported(&self, telling: &[String]) -> Reported {
        let own = format!("/proc/{}", process::id());
        let path = |file: &File| format!("{own}/fd/{}", file.as_raw_fd());
        let value = |name: &String| {
            let file = sysctl::file(Path::new(SETTINGS), name).ok()?;
            Some((name.clone(), sysctl::single_spaced(&sysctl::read(&file).ok()?)))
        };
        Reported {
            local: path(&self.local),
            remote: path(&self.remote),
            user: self.user.then(|| format!("{own}/ns/user")),
            settings: telling.iter().filter_map(value).collect(),
        }
    }

    /// Gives the devices of a site, which must exist, their addresses and routes.
    fn configured(&self, order: &Order) -> Result<Configured, Error> {
        let namespace = format!("/proc/self/fd/{}", self.file(order.side).as_raw_fd());
        sys::enter_network_namespace(Path::new(&namespace)).map_err(of("setns"))?;
        let (mut devices, mut all) = (Devices::open()?, BTreeMap::new());
        for interface in &order.interfaces {
            let name = &interface.device;
            let index = sys::device_number(name).map_err(of(name.as_str()))?;
            let device = Device { name, index };
            devices.up(device, MTU, QUEUE_PACKETS)?;
            let second = Path::new(IPV6).exists().then(|| interface.ipv6.into());
            for ip in [Some(interface.ipv4.into()), second].into_iter().flatten() {
                devices.assign(device, ip, interface.table)?;
                if interface.preferred {
                    devices.prefer(device, ip)?;
                }
            }
            all.insert(name.clone(), offloads::of(name).join(" "));
        }
        Ok(Configured { offloads: all })
    }
}

/// Becomes root of a user namespace if that is needed to create network namespaces; true if it is.
fn enter_user_namespace() -> Result<bool, Error> {
    match sys::unshare(libc::CLONE_NEWNET) {
        Ok(()) => return Ok(false),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        Err(error) => return Err(of("unshare")(error)),
    }
    let (user, group) = (sys::user(), sys::group());
    sys::unshare(libc::CLONE_NEWUSER).map_err(of("unshare"))?;
    // user_namespaces(7): before gid_map.
    let files = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, text) in files {
        sysctl::write(Path::new(file), &text).map_err(of(file))?;
    }
    // The change of user revoked it.
    sys::die_with_parent(libc::SIGKILL).map_err(of("prctl"))?;
    sys::stay_readable().map_err(of("prctl"))?;
    Ok(true)
}

/// Writes the settings, whose files are below a directory; the kernel's are those of the current namespace.
fn apply(root: &Path, wanted: &Wanted) -> Result<(), Error> {
    for (name, value) in &wanted.settings {
        let file = sysctl::file(root, name)?;
        let dispensable = wanted.dispensable.iter().any(|prefix| name.starts_with(prefix));
        if dispensable && !file.exists() {
            continue;
        }
        sysctl::write(&file, value).map_err(of(file.display().to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs};

    /// A kernel with two settings, and what is wanted of it.
    fn kernel(name: &str, wanted: &[&str]) -> (std::path::PathBuf, Wanted) {
        let root = env::temp_dir().join(format!("mptune-namespaces-{name}-{}", process::id()));
        fs::create_dir_all(root.join("net/ipv4")).unwrap();
        for setting in ["tcp_sack", "tcp_ecn"] {
            fs::write(root.join("net/ipv4").join(setting), "0").unwrap();
        }
        let settings = wanted.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        let dispensable = vec!["net.mptcp.".to_owned()];
        (root, Wanted { settings, dispensable, telling: Vec::new() })
    }

    #[test]
    fn settings_are_written_and_what_older_kernels_lack_is_left_out() {
        let (root, wanted) = kernel("older", &["net.ipv4.tcp_sack", "net.mptcp.path_manager"]);
        apply(&root, &wanted).unwrap();
        let read = |name: &str| fs::read_to_string(root.join("net/ipv4").join(name)).unwrap();
        assert_eq!((read("tcp_sack"), read("tcp_ecn")), ("1".into(), "0".into()));
        assert!(!root.join("net/mptcp").exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_refusal_names_the_file() {
        let (root, wanted) = kernel("lacking", &["net.ipv4.tcp_timestamps"]);
        let reason = apply(&root, &wanted).unwrap_err().to_string();
        assert!(reason.ends_with("net/ipv4/tcp_timestamps: No such file or directory"), "{reason}");
        fs::remove_dir_all(root).unwrap();
    }
}
