//! Errors of libbpf, and the most useful of its messages.

use std::ffi::{NulError, OsString, c_int};
use std::io;
use std::sync::Mutex;
use thiserror::Error;

/// The library; its ABI has been stable since 2022.
pub(super) const LIBRARY: &str = "libbpf.so.1";
/// Longest message in an error, characters.
const ERROR_CHARACTERS: usize = 360;

/// Messages of libbpf since the last registration began; it has one print function for the whole process.
pub(super) static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Failure of libbpf, or of the kernel behind it.
#[derive(Debug, Error)]
pub enum Error {
    /// The library is not installed.
    #[error("no {}: install libbpf1 (Debian, Ubuntu) or libbpf (Fedora)", .0.to_string_lossy())]
    Missing(OsString),
    /// This program can load no library.
    #[error(
        "this agent is linked statically and loads no {LIBRARY}: the kernel's own congestion controls remain"
    )]
    Static,
    /// The library lacks a function.
    #[error("{LIBRARY} has no {0}")]
    Function(&'static str),
    /// A path has a zero byte.
    #[error(transparent)]
    Path(#[from] NulError),
    /// The object registers something else.
    #[error("expected an object that registers {expected}, found one of {present}")]
    Object {
        /// Name of the congestion control.
        expected: String,
        /// Names of the struct_ops maps that the object has.
        present: String,
    },
    /// A call failed.
    #[error("{call}: {error}{}", bracketed(.message.as_deref()))]
    Call {
        /// The call, as a participle.
        call: &'static str,
        /// The system's error.
        error: io::Error,
        /// The most useful message of libbpf: the verifier's, or else the first.
        message: Option<String>,
    },
}

impl Error {
    /// The kernel has a congestion control of this name already.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Call { error, .. } if error.kind() == io::ErrorKind::AlreadyExists)
    }

    /// The last system call failed, which libbpf has no message for.
    pub(super) fn last(call: &'static str) -> Self {
        Self::Call { call, error: io::Error::last_os_error(), message: None }
    }

    /// A call failed with this number, perhaps after messages.
    pub(super) fn with_message(call: &'static str, number: c_int) -> Self {
        let messages = MESSAGES.lock().expect("nothing panics with it");
        let verifier = messages.iter().find(|line| line.starts_with("the verifier"));
        let message = verifier.or(messages.first());
        let message = message.map(|line| line.chars().take(ERROR_CHARACTERS).collect());
        Self::Call { call, error: io::Error::from_raw_os_error(number), message }
    }
}

fn bracketed(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(" ({message})"))
}

pub(super) fn last_error() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub(super) fn check(call: &'static str, result: c_int) -> Result<c_int, Error> {
    if result < 0 { Err(Error::with_message(call, -result)) } else { Ok(result) }
}

/// The error in a message; for the verifier's log, the last line before its statistics.
pub(super) fn line(message: &str) -> String {
    const APART: [&str; 6] =
        ["libbpf:", "-- END", "processed ", "verification time ", "stack depth ", "mark_precise:"];
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    if !message.contains("BEGIN PROG LOAD LOG") {
        let first = lines.next().unwrap_or_default();
        return first.trim_start_matches("libbpf: ").to_owned();
    }
    let last = lines.rfind(|line| !APART.iter().any(|apart| line.starts_with(apart)));
    last.map_or("the verifier refuses it".to_owned(), |line| {
        format!("the verifier reports: {line}")
    })
}
