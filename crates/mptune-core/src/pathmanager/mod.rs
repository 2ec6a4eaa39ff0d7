//! The path-manager seam: events in, commands out, one file per policy.
//!
//! A policy is a pure function of what it was told: it opens no socket, reads no clock and knows
//! neither the simulator nor netlink, so the simulator and a daemon run the same code. To add one,
//! write `<name>.rs` beside this file and one line in the `path_managers!` list.
//!
//! Paths are numbered as in the topology: all pairs of a local and a remote interface.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

pub mod binder;
pub mod default;
pub mod driven;
pub mod fullmesh;
pub mod ndiffports;
pub mod pcdc;
#[cfg(test)]
pub(crate) mod testing;

/// The number of a path in the topology.
pub type PathId = usize;
/// The number of a subflow in its connection, in the order of creation; 0 is the initial one.
pub type SubflowId = usize;

/// A pair of interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEnds {
    /// Number of the local interface.
    pub local: usize,
    /// Number of the remote interface.
    pub remote: usize,
}

/// What a policy knows of the world when an event reaches it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Every path of the topology.
    pub paths: &'a [PathEnds],
    /// The network obeys loose source routes (RFC 791), which only binder uses.
    pub lsrr_honoured: bool,
    /// Every subflow so far.
    pub subflows: &'a [SubflowView],
    /// Payload bytes the transfer will have, [`Bytes::MAX`] for a saturated sender; none when nobody
    /// knows beforehand.
    pub transfer_bytes: Option<Bytes>,
}

/// A subflow as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubflowView {
    /// The path it runs on.
    pub path: PathId,
    /// Established and not lost.
    pub alive: bool,
    /// Carries no data while an active one lives (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Smallest RTT seen, 0 before the first sample: the path's own, without the queue that the
    /// connection's data builds.
    pub min_rtt: Nanos,
}

/// What happened. Facts in the past tense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The connection is fully established (first DATA_ACK received, RFC 8684 section 3.1) and the
    /// peer's other addresses are known (ADD_ADDR, section 3.4.1). `View::subflows[0]` is the
    /// initial subflow.
    Established,
    /// A subflow finished its handshake.
    SubflowEstablished(SubflowId),
    /// A subflow stopped making progress (repeated timeouts) or its path went away.
    SubflowLost(SubflowId),
    /// A lost subflow made progress again.
    SubflowRestored(SubflowId),
    /// The sender has sent so many payload bytes; answers [`Command::NotifyAtBytes`].
    BytesSent(Bytes),
}

/// What a policy wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Open a subflow on a path.
    Connect {
        /// The path.
        path: PathId,
        /// Join as backup (MP_JOIN's B bit).
        backup: bool,
    },
    /// Change a subflow's priority on both sides (MP_PRIO).
    SetBackup {
        /// The subflow.
        subflow: SubflowId,
        /// The new value.
        backup: bool,
    },
    /// Tell the policy once so many payload bytes were sent.
    NotifyAtBytes(Bytes),
}

/// Options of the policies; each reads what concerns it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// pcdc: the optional set, the paths whose subflows carry data; none means all of them.
    pub active: Option<Vec<PathId>>,
    /// pcdc: the standby paths, best impact factor first.
    pub standby_order: Vec<PathId>,
    /// pcdc: limits of the data-size classes L1 and L2, bytes.
    pub class_bytes: (Bytes, Bytes),
    /// ndiffports: subflows on the initial path.
    pub ndiffports: usize,
}

impl Default for Options {
    /// PCDC section IV (512 KiB, 1024 KiB) and path-management study section IV-C (2 port pairs).
    fn default() -> Self {
        Self {
            active: None,
            standby_order: Vec::new(),
            class_bytes: (512 * 1024, 1024 * 1024),
            ndiffports: 2,
        }
    }
}

/// A path-management policy.
pub trait PathManager {
    /// The policy with its options.
    fn new(options: &Options) -> Self
    where
        Self: Sized;

    /// The path for the initial subflow when the user named none; `default` is the topology's.
    fn initial_path(&self, _paths: &[PathEnds], default: PathId) -> PathId {
        default
    }

    /// An event happened; commands are appended to `commands` and carried out in order.
    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>);
}

/// Writes the [`Policy`] enum, the list of names and the dispatch from one list.
macro_rules! path_managers {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every path manager.
        #[derive(Debug, Clone)]
        pub enum Policy {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all path managers, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Policy {
            /// The path manager called `name`, or none.
            pub fn new(name: &str, options: &Options) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::new(options))),)+
                    _ => None,
                }
            }

            /// [`PathManager::initial_path`].
            pub fn initial_path(&self, paths: &[PathEnds], default: PathId) -> PathId {
                match self { $(Self::$variant(policy) => policy.initial_path(paths, default)),+ }
            }

            /// [`PathManager::on_event`].
            pub fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
                match self { $(Self::$variant(policy) => policy.on_event(event, view, commands)),+ }
            }
        }
    };
}

path_managers! {
    "default" => Default(default::DefaultManager),
    "fullmesh" => Fullmesh(fullmesh::Fullmesh),
    "ndiffports" => Ndiffports(ndiffports::Ndiffports),
    "binder" => Binder(binder::Binder),
    "pcdc" => Pcdc(pcdc::Pcdc),
}
