//! Operations of every kind of setting, and the states of settings.
//!
//! A kind reads and writes; what was there before and what happens on the way is the journal's business.

use crate::kernel::error::{self as kernel, plain};
use crate::kernel::sysctl;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use thiserror::Error;

/// Failure to check, read or make a setting.
#[derive(Debug, Error)]
pub enum Error {
    /// The order, or the machine, differs from what is possible.
    #[error("{place}: expected {expected}, found {found}")]
    Unexpected {
        /// The setting, or a key of it.
        place: String,
        /// The possible values.
        expected: String,
        /// The present value.
        found: String,
    },
    /// The machine does not allow the setting; nothing has changed.
    #[error("{setting}: {obstacle}")]
    Impossible {
        /// Its name.
        setting: String,
        /// In words.
        obstacle: String,
    },
    /// A system call on the file of a setting failed.
    #[error("{setting}: {}", plain(.error))]
    File {
        /// Its name or its path.
        setting: String,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel refused a request.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// The name of a sysctl is none.
    #[error(transparent)]
    Sysctl(#[from] sysctl::Unknown),
    /// The error of a kind of setting that has its own.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Something else was found there.
    pub fn unexpected(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (place, expected, found) = (place.into(), expected.into(), found.into());
        Self::Unexpected { place, expected, found }
    }

    /// The machine does not allow this setting.
    pub fn impossible(setting: impl Into<String>, obstacle: impl Into<String>) -> Self {
        Self::Impossible { setting: setting.into(), obstacle: obstacle.into() }
    }

    /// A system call on the file of a setting failed.
    pub fn file(setting: impl Into<String>, error: io::Error) -> Self {
        Self::File { setting: setting.into(), error }
    }
}

/// A setting at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The device or route that it belongs to does not exist.
    Gone,
    /// It is not set, or does not exist.
    Absent,
    /// It exists, and has no value.
    Present,
    /// A value, byte for byte as the kernel shows it.
    Text(String),
    /// Limits of the kernel's path manager for a connection.
    Limits {
        /// Subflows beyond the first.
        subflows: u32,
        /// Announced addresses that are used.
        add_addr_accepted: u32,
    },
    /// An endpoint of the kernel's path manager.
    Endpoint {
        /// Its number.
        id: u8,
        /// Its flags, as the kernel has them.
        flags: u32,
        /// Number of its device; 0 if it has none.
        device: i32,
    },
    /// A file, with all that is put back of it.
    File {
        /// Its content.
        #[serde(with = "digits")]
        content: Vec<u8>,
        /// Its rights.
        mode: u32,
        /// Its user.
        owner: u32,
        /// Its group.
        group: u32,
    },
}

/// A setting of some kind.
pub trait Kind {
    /// Its name, which no other setting has.
    fn name(&self) -> String;

    /// Settings are made in this order, and put back in the opposite one.
    fn rank(&self) -> u8;

    /// Checks that the order makes sense.
    ///
    /// # Errors
    /// A key with a wrong value.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Its present state.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self) -> Result<State, Error>;

    /// The state that the order asks for; `known` are states of other settings, whose numbers are taken.
    ///
    /// # Errors
    /// This is impossible.
    fn target(&self, present: &State, known: &[State]) -> Result<State, Error>;

    /// The states between two, each of which one step leads to; the last is `to`.
    fn way(&self, from: &State, to: &State) -> Vec<State> {
        if self.same(from, to) { Vec::new() } else { vec![to.clone()] }
    }

    /// Makes a step of the way.
    ///
    /// # Errors
    /// The kernel refuses it; nothing has changed.
    fn step(&self, from: &State, to: &State) -> Result<(), Error>;

    /// Removes what a step that was killed has left.
    fn tidy(&self) {}

    /// Waits until the kernel is done with a state that it was put back to.
    fn settle(&self, _state: &State) {}

    /// True if two states are the same to the kernel.
    fn same(&self, state: &State, other: &State) -> bool {
        state == other
    }

    /// The setting with a state as its value, as orders have it.
    fn as_order(&self, state: &State) -> Value;
}

/// The value of a state in a message.
pub fn words(state: &State) -> String {
    match state {
        State::Gone => "nothing it belongs to".to_owned(),
        State::Absent => "nothing".to_owned(),
        State::Present => "something".to_owned(),
        State::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        State::Limits { subflows, add_addr_accepted } => {
            format!("subflows {subflows} add_addr_accepted {add_addr_accepted}")
        }
        State::Endpoint { id, flags, device } => {
            format!("endpoint {id} with flags {flags:#x} on device {device}")
        }
        State::File { content, mode, owner, group } => {
            let size = content.len();
            format!("a file of {size} bytes with mode {mode:o} of {owner}:{group}")
        }
    }
}

/// Brings a setting from one state to another.
///
/// # Errors
/// The kernel refuses a step, or made something else of it.
pub fn bring(kind: &dyn Kind, from: &State, to: &State) -> Result<(), Error> {
    let mut at = from.clone();
    for next in kind.way(from, to) {
        kind.step(&at, &next)?;
        let present = kind.read()?;
        if !kind.same(&present, &next) {
            let found = format!("{} after it was set", words(&present));
            return Err(Error::unexpected(kind.name(), words(&next), found));
        }
        at = next;
    }
    Ok(())
}

/// Bytes as hexadecimal digits, in the journal.
pub mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Write;

    /// As serde writes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }

    /// As serde reads them.
    ///
    /// # Errors
    /// They are something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let pair =
            |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<_> = (0..text.len()).step_by(2).map(pair).collect();
        bytes.ok_or_else(|| D::Error::custom("expected hexadecimal digits"))
    }
}
