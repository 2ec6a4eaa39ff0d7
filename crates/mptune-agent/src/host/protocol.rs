//! The lines of JSON of the role `host`.

use super::facts::Facts;
use crate::kernel::sysctl::Values;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;

/// Number of this protocol.
pub const PROTOCOL: u32 = 1;

/// An order of the controller.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Order {
    /// A sign of life.
    Beat,
    /// Start a role.
    Start {
        /// Its number from now on.
        id: u64,
        /// Its name.
        role: String,
    },
    /// A line for a role.
    Tell {
        /// Its number.
        id: u64,
        /// The line.
        line: Value,
    },
    /// End a role's input.
    Close {
        /// Its number.
        id: u64,
    },
    /// Kill a role.
    Kill {
        /// Its number.
        id: u64,
    },
    /// Change settings.
    Set {
        /// Number of the question.
        id: u64,
        /// Values by name.
        settings: Values,
    },
    /// Put settings back.
    Restore {
        /// Number of the question.
        id: u64,
        /// Their names; none for all.
        #[serde(default)]
        names: Option<Vec<String>>,
    },
    /// Report the facts of the host; nothing is changed.
    Look {
        /// Number of the question.
        id: u64,
        /// Settings to read.
        #[serde(default)]
        names: Vec<String>,
        /// Pairs of an address of the host and another: by which device do packets leave?
        #[serde(default)]
        pairs: Vec<(IpAddr, IpAddr)>,
    },
    /// The session is over.
    Stop,
}

/// A line of the host.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Message<'a> {
    /// The greeting.
    Hello(&'a Hello),
    /// End of a role.
    Ended(&'a Ended),
    /// Settings are changed; the values before.
    Set {
        /// Number of the question.
        id: u64,
        /// Values by name.
        before: &'a Values,
    },
    /// Nothing was changed.
    Refused {
        /// Number of the question.
        id: u64,
        /// The reason.
        reason: &'a str,
    },
    /// The facts of the host.
    Looked {
        /// Number of the question.
        id: u64,
        /// The facts.
        #[serde(flatten)]
        facts: &'a Facts,
    },
    /// Settings are put back.
    Restored {
        /// Number of the question.
        id: u64,
        /// Those that were left as they are, with the reason.
        kept: &'a Values,
    },
}

/// The greeting.
#[derive(Debug, Serialize)]
pub struct Hello {
    /// Of the agent.
    pub version: &'static str,
    /// Number of the protocol.
    pub protocol: u32,
    /// The kind of processor.
    pub machine: &'static str,
    /// The kernel's release.
    pub kernel: String,
    /// The user whose rights it has.
    pub uid: u32,
    /// It may change settings of the network.
    pub net_admin: bool,
    /// Its number.
    pub pid: u32,
    /// The host's own name.
    pub hostname: String,
    /// Settings that an earlier session had left changed and that were put back now.
    pub recovered: Vec<String>,
    /// Those of them that were left as they are, with the reason.
    pub kept: Values,
}

/// End of a role.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its number.
    pub id: u64,
    /// Its exit status.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// The last of what it wrote to its standard error.
    pub stderr: String,
}

impl Ended {
    /// A role that could not be started.
    pub fn unable(id: u64, reason: &str) -> Self {
        Self { id, status: Some(2), signal: None, stderr: reason.to_owned() }
    }
}
