//! The kinds of settings; add a line for another one.

use super::congestion::Congestion;
use super::directory::Directory;
use super::endpoint::Endpoint;
use super::file::File;
use super::limits::Limits;
use super::route::Route;
use crate::undo::kind::Kind;
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
    /// What mptune's daemon reads.
    File(File),
    /// Where those, and congestion controls, are kept; nobody orders one.
    Directory(Directory),
}

impl Setting {
    /// What its kind can do.
    pub fn kind(&self) -> &dyn Kind {
        match self {
            Self::Sysctl(one) => one,
            Self::Limits(one) => one,
            Self::Endpoint(one) => one,
            Self::Route(one) => one,
            Self::Congestion(one) => one,
            Self::File(one) => one,
            Self::Directory(one) => one,
        }
    }

    /// Settings are made in this order, and put back in the opposite one: of directories the outer first.
    pub fn place(&self) -> (u8, usize) {
        let depth = match self {
            Self::Directory(one) => one.path.components().count(),
            _ => 0,
        };
        (self.kind().rank(), depth)
    }

    /// Whether it is still there after a restart of the machine.
    pub fn outlives_the_machine(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Directory(one) => !one.is_of_bpf(),
            _ => false,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.kind().name()
    }

    /// The same as the journal has it, without what only making it takes.
    pub fn noted(&self) -> Self {
        match self {
            Self::Congestion(one) => {
                Self::Congestion(Congestion { name: one.name.clone(), object: String::new() })
            }
            Self::File(one) => Self::File(one.noted()),
            other => other.clone(),
        }
    }
}
