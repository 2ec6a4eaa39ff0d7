//! Congestion controls that the kernel lacks, as BPF programs: the role `congestion`.
//!
//! It receives one, registers it for every program on this machine and keeps it registered until it ends,
//! even by being killed: the kernel then closes its descriptors and removes the program.
//!
//! ```text
//! in   {"action": "register", "name": "olia_k3j9x2", "object": "..."}    its name in the kernel; base64
//! in   {"action": "share", "name": "mptune_olia", "object": "...", "pin": "/sys/fs/bpf/..."}
//! out  {"event": "registered", "held": true}
//! in   {"action": "tell", "paths": [{"local": "10.0.0.1", "remote": "10.0.1.1", "cap_bps": 2000000}]}
//! out  {"event": "told"}
//! in   {"action": "table", "paths": [...]}    in the kernel of a guest, which has path policies itself
//! out  {"event": "told"}, and it ends
//! in   {"action": "list"}
//! out  {"event": "listed", "registered": [{"name": ..., "link": ..., "hooks": [...]}]}, and it ends
//! out  {"event": "error", "reason": "..."} instead, and status 1
//! ```
//!
//! Both ways to register take `paths` too; parameters of paths (`paths`) replace all that the path policy had
//! before. What is shared may be registered already: then this one holds it too. It is not held where another program
//! registered it without a link. A pin keeps it after the end.
//!
//! Not here: which one, under which name (the controller chooses one that nothing else on the machine uses),
//! and the calls into libbpf (`libbpf`).

pub mod paths;

use crate::control::{self, Control, Input};
use crate::kernel::libbpf::{self, Libbpf};
use crate::role;
use paths::Told;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest wait for input; every wait ends by itself only to begin again.
const TICK: Duration = Duration::from_secs(3600);
/// The kernel's types, which libbpf needs to fit a program to them.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// End of a file of two objects, and the characters of the second one's length before it (bpf/Makefile).
const SECOND: &[u8] = b"mptune tx-start\n";
const LENGTH_CHARACTERS: usize = 16;
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Longest name of a congestion control (`TCP_CA_NAME_MAX` without its end).
const NAME_BYTES: usize = 15;
/// Capabilities to register: CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF (include/uapi/linux/capability.h).
const CAPABILITIES: u64 = 1 << 12 | 1 << 38 | 1 << 39;
/// The map of the initial user namespace: all users (user_namespaces(7)).
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

/// Longest time that a name may be taken by a congestion control that is being removed or registered.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Refusal of a congestion control.
#[derive(Debug, Error)]
pub enum Error {
    /// No name that the kernel accepts.
    #[error("name: expected at most {NAME_BYTES} of a-z, 0-9 and _, found {0:?}")]
    Name(String),
    /// The kernel has a congestion control of this name.
    #[error("{0}: there is one of that name already")]
    Taken(String),
    /// The object is not base64.
    #[error("object: expected base64")]
    Base64,
    /// libbpf or the kernel refuses the object of this name.
    #[error("the kernel refuses {0}: {1}")]
    Refused(String, libbpf::Error),
    /// The object of this name registers something else.
    #[error("{0} is no congestion control")]
    Other(String),
    /// The program of this name has no map for parameters of paths.
    #[error("{0} goes by nothing that it can be told of paths")]
    Untold(String),
    /// There is no table, or it has no room for so many paths.
    #[error("{table}: {0}, where another version of mptune built the kernel", table = paths::TABLE)]
    Table(io::Error),
    /// A line after the first one is something else.
    #[error("expected an order, found {0}")]
    Order(serde_json::Error),
    /// The kernel's type information, which libbpf needs, is missing.
    #[error("no {TYPES}: needs a kernel with CONFIG_DEBUG_INFO_BTF")]
    Types,
    /// This user may register none.
    #[error("needs root: log in as root, or let sudo work without a password")]
    Privilege,
    /// libbpf is missing, or a call of it that concerns no particular object failed.
    #[error(transparent)]
    Libbpf(#[from] libbpf::Error),
    /// The conversation with the controller failed.
    #[error(transparent)]
    Control(#[from] control::Error),
}

impl Error {
    /// Another program registered a congestion control of this name first.
    fn is_taken(&self) -> bool {
        match self {
            Self::Taken(_) => true,
            Self::Refused(_, error) => error.is_taken(),
            _ => false,
        }
    }
}

/// An order.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Request {
    Register {
        #[serde(flatten)]
        program: Program,
        #[serde(default)]
        paths: Vec<Told>,
    },
    Share {
        #[serde(flatten)]
        program: Program,
        #[serde(default)]
        paths: Option<Vec<Told>>,
        #[serde(default)]
        pin: Option<PathBuf>,
    },
    Table {
        paths: Vec<Told>,
    },
    List,
}

/// An order to the program that is registered.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Later {
    Tell { paths: Vec<Told> },
}

/// A congestion control.
#[derive(Deserialize)]
pub struct Program {
    /// As the kernel will know it.
    pub name: String,
    /// The object, base64.
    pub object: String,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Report {
    Registered { held: bool },
    Told,
    Listed { registered: Vec<libbpf::WithHooks> },
}

/// The role.
pub fn main() -> i32 {
    role::play(run)
}

fn run(control: &mut Control) -> Result<(), Error> {
    let request: Request = control.configuration()?;
    let (held, name) = match request {
        Request::List => {
            control.tell(&Report::Listed { registered: Libbpf::open()?.registered()? });
            return Ok(());
        }
        Request::Table { paths } => {
            paths::write(&paths).map_err(Error::Table)?;
            control.tell(&Report::Told);
            return Ok(());
        }
        Request::Register { program, paths } => {
            possible()?;
            let held = register(&program)?;
            if !paths.is_empty() {
                tell(&program.name, &paths)?;
            }
            (Some(held), program.name)
        }
        Request::Share { program, paths, pin } => {
            possible()?;
            let held = share(&program)?;
            if let Some(paths) = paths {
                tell(&program.name, &paths)?;
            }
            if let (Some(held), Some(file)) = (&held, pin) {
                self::pin(held, &file)?;
            }
            (held, program.name)
        }
    };
    control.tell(&Report::Registered { held: held.is_some() });
    obey(control, &name)
}

/// Follows orders until the end.
fn obey(control: &mut Control, name: &str) -> Result<(), Error> {
    loop {
        match control.wait(&mut [], TICK).map_err(control::Error::from)? {
            Some(Input::Closed | Input::Signal(_)) => return Ok(()),
            Some(Input::Line(line)) => {
                let Later::Tell { paths } = serde_json::from_str(&line).map_err(Error::Order)?;
                tell(name, &paths)?;
                control.tell(&Report::Told);
            }
            None => {}
        }
    }
}

/// Tells the program of this name about paths.
fn tell(name: &str, told: &[Told]) -> Result<(), Error> {
    if paths::tell(&Libbpf::open()?, name, told)? {
        return Ok(());
    }
    Err(Error::Untold(name.to_owned()))
}

/// Holds one that is registered, or registers it; none if another program registered it without a link.
fn share(program: &Program) -> Result<Option<OwnedFd>, Error> {
    let (library, end) = (Libbpf::open()?, Instant::now() + PATIENCE);
    loop {
        let mut links = library.links()?.into_iter();
        if let Some((_, link)) = links.find(|(registered, _)| registered.name == program.name) {
            return Ok(Some(link));
        }
        if !known(&program.name) {
            match register(program) {
                // Another program was faster: its link appears, or it has ended in the meantime.
                Err(error) if error.is_taken() => {}
                registered => return registered.map(Some),
            }
        }
        if Instant::now() > end {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Checks that the kernel can know one by this name.
///
/// # Errors
/// [`Error::Name`].
pub fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(plain) {
        return Err(Error::Name(name.to_owned()));
    }
    Ok(())
}

/// Keeps what `register` returned registered as long as this file exists, in a BPF file system.
///
/// # Errors
/// The file cannot be made.
pub fn pin(held: &OwnedFd, file: &Path) -> Result<(), Error> {
    Ok(Libbpf::open()?.pin(held, file)?)
}

/// Registers it as long as the descriptor is open.
///
/// # Errors
/// It is wrong, or the kernel refuses it.
pub fn register(program: &Program) -> Result<OwnedFd, Error> {
    let name = &program.name;
    check_name(name)?;
    if known(name) {
        return Err(Error::Taken(name.clone()));
    }
    let content = decoded(&program.object).ok_or(Error::Base64)?;
    let held = Libbpf::open()?.register(object_for(&content, has_tx_start), name);
    let held = held.map_err(|error| Error::Refused(name.clone(), error))?;
    if known(name) { Ok(held) } else { Err(Error::Other(name.clone())) }
}

/// The object in a file of `bpf/Makefile` that fits this kernel: the only one, the first of two, or the second.
fn object_for(content: &[u8], is_second: impl FnOnce() -> bool) -> &[u8] {
    let second = content.strip_suffix(SECOND).and_then(|rest| {
        let (objects, length) = rest.split_last_chunk::<LENGTH_CHARACTERS>()?;
        let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
        objects.split_at_checked(objects.len().checked_sub(length)?)
    });
    match second {
        Some((_, second)) if is_second() => second,
        Some((first, _)) => first,
        None => content,
    }
}

/// True if the start of sending is a hook of its own in the kernel's table (`cwnd_event_tx_start`, include/net/tcp.h).
fn has_tx_start() -> bool {
    const MEMBER: &[u8] = b"\0cwnd_event_tx_start\0";
    fs::read(TYPES).is_ok_and(|types| types.windows(MEMBER.len()).any(|text| text == MEMBER))
}

/// True if the kernel has one of this name now.
pub fn known(name: &str) -> bool {
    let text = fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().any(|known| known == name)
}

/// Checks that this process can register any.
///
/// # Errors
/// The first known obstacle.
pub fn possible() -> Result<(), Error> {
    if !Path::new(TYPES).exists() {
        return Err(Error::Types);
    }
    if !privileged() {
        return Err(Error::Privilege);
    }
    Libbpf::open()?;
    Ok(())
}

/// True if this process has the rights: root, and not just root of a user namespace.
fn privileged() -> bool {
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    users.split_whitespace().eq(ALL_USERS) && role::capabilities() & CAPABILITIES == CAPABILITIES
}

/// Decodes base64 with padding (RFC 4648, section 4); none if the text is anything else.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let plain = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(plain.len() * 3 / 4);
    for group in plain.chunks(4) {
        let digits = group.iter().try_fold(0u32, |sum, &byte| Some(sum << 6 | digit(byte)?))?;
        // The last group may be of two or three digits, for one or two bytes.
        let whole = (digits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend(&whole[1..group.len()]);
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_any_length() {
        // RFC 4648, section 10.
        let vectors =
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")];
        for (text, bytes) in vectors {
            assert_eq!(decoded(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decoded("+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
        for wrong in ["Zg", "Zg=", "Z g=", "====", "Zm9v\n"] {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn of_two_objects_in_a_file_the_one_that_fits_is_taken() {
        let both = b"first second 0000000000000007mptune tx-start\n";
        assert_eq!(object_for(both, || false), b"first ");
        assert_eq!(object_for(both, || true), b"second ");
        // What is no such file is one object: too long a length, none, and an object alone.
        let others: [&[u8]; 3] =
            [b"x0000000000000002mptune tx-start\n", b"+7mptune tx-start\n", b"only"];
        for content in others {
            assert_eq!(object_for(content, || true), content);
        }
    }

    #[test]
    fn names_that_no_kernel_takes_are_refused() {
        for name in ["", "olia olia", "0123456789abcdef", "../x"] {
            let program = Program { name: name.to_owned(), object: String::new() };
            let reason = register(&program).unwrap_err().to_string();
            assert!(reason.starts_with("name: expected"), "{reason}");
        }
    }

    #[test]
    fn only_a_name_that_another_program_took_is_tried_again() {
        let call = |error| libbpf::Error::Call { call: "registering", error, message: None };
        let refused = |number| {
            let error = io::Error::from_raw_os_error(number);
            Error::Refused("olia".to_owned(), call(error))
        };
        assert!(refused(libc::EEXIST).is_taken() && Error::Taken("olia".to_owned()).is_taken());
        assert!(!refused(libc::EINVAL).is_taken() && !Error::Base64.is_taken());
    }
}
