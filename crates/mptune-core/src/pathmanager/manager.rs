//! The trait of path managers, their events, and their commands.

use super::declaration::OptionInfo;
use super::forecast::Forecast;
use crate::error::SpecError;
use crate::network::{Family, NetworkSpec, PathSpec};
use crate::units::{Bytes, Nanos};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of subflows of a connection: sets of them have 64 bits. No more are opened.
pub const MAX_SUBFLOWS: usize = 64;
/// The number of a path in the topology.
pub type PathId = usize;
/// The number of a subflow in its connection, in order of creation; 0 is the initial one.
pub type SubflowId = usize;

/// A pair of interfaces, and of addresses there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEnds {
    /// Number of the local interface.
    pub local: usize,
    /// Number of the remote interface.
    pub remote: usize,
    /// Family of the addresses at both ends.
    #[serde(default)]
    pub family: Family,
    /// Data over one of the interfaces are paid for.
    #[serde(default)]
    pub metered: bool,
}

impl PathEnds {
    /// The ends of all paths of a network; `family` is that of paths without one of their own.
    pub fn of_all(network: &NetworkSpec, family: Family) -> Vec<Self> {
        let ends = |path: &PathSpec| Self {
            local: path.local,
            remote: path.remote,
            family: path.family.unwrap_or(family),
            metered: path.metered,
        };
        network.paths.iter().map(ends).collect()
    }
}

/// The number of payload bytes of a transfer, as known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferSize {
    /// This many bytes.
    Known(Bytes),
    /// No end: a saturated sender, the papers' "large stream".
    Unlimited,
    /// Unknown: only the bytes sent so far are known.
    Unknown,
}

/// The state of the connection at an event.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Every path of the topology, or of a connection's hosts so far.
    pub paths: &'a [PathEnds],
    /// The network obeys loose source routes (RFC 791), which only binder uses.
    pub lsrr_honoured: bool,
    /// Every subflow so far.
    pub subflows: &'a [SubflowView],
    /// Size of the transfer.
    pub size: TransferSize,
    /// Statistics of the connection at the latest sample; zeros before the first.
    pub statistics: ConnectionStatistics,
}

/// Statistics of a connection at its data sender. They only grow, but for the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// Payload bytes handed to subflows.
    pub sent: Bytes,
    /// Payload bytes acknowledged in order (DATA_ACK, RFC 8684 section 3.3.2).
    pub acked: Bytes,
    /// Limit of the send buffer just now, as a program sets it (`SO_SNDBUF`); 0 if it is not known.
    pub buffer: Bytes,
}

/// Statistics and state of a subflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubflowStatistics {
    /// Payload bytes delivered, cumulatively or selectively (Linux `tcpi_delivered`).
    pub delivered: Bytes,
    /// Payload bytes sent again.
    pub retransmitted: Bytes,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Smoothed RTT, 0 before the first sample.
    pub srtt: Nanos,
    /// Congestion window, bytes.
    pub window: Bytes,
    /// Delivery rate of the latest sample, bytes per second (Linux `tcpi_delivery_rate`); 0 before the first.
    #[serde(default)]
    pub rate: Bytes,
}

/// A subflow as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubflowView {
    /// The path it runs on.
    pub path: PathId,
    /// Established and not lost.
    pub alive: bool,
    /// Carries no data while an active one is alive (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Smallest RTT, 0 before the first sample: that of the path without the connection's queue.
    pub min_rtt: Nanos,
    /// As of the latest sample; zeros before the first.
    #[serde(default)]
    pub statistics: SubflowStatistics,
}

/// An event of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The connection is fully established (first DATA_ACK received, RFC 8684 section 3.1) and the
    /// peer's other addresses are known (ADD_ADDR, section 3.4.1). `View::subflows[0]` is the
    /// initial subflow.
    Established,
    /// A subflow finished its handshake.
    SubflowEstablished(SubflowId),
    /// A subflow stopped making progress (repeated timeouts) or its path was removed.
    SubflowLost(SubflowId),
    /// A lost subflow made progress again.
    SubflowRestored(SubflowId),
    /// The sender has sent this many payload bytes; answers [`Command::NotifyAtBytes`].
    BytesSent(Bytes),
    /// A path was added: an interface came up, or the peer announced an address. The view includes it, and it has no
    /// subflow.
    PathAdded(PathId),
    /// New statistics in the view at this time ([`PathManager::sampling`]), counted from any fixed moment.
    Sample(Nanos),
}

/// A command of a policy.
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
    /// Notify the policy once this many payload bytes were sent.
    NotifyAtBytes(Bytes),
}

/// Gives subflows the roles that they should have: true for standby, none to leave one alone. Those that become active come
/// first, so that data can always flow.
pub(super) fn assign(
    subflows: &[SubflowView],
    role: impl Fn(SubflowId) -> Option<bool>,
    commands: &mut Vec<Command>,
) {
    for backup in [false, true] {
        let changed = (0..subflows.len())
            .filter(|&id| role(id) == Some(backup) && subflows[id].backup != backup);
        commands.extend(changed.map(|subflow| Command::SetBackup { subflow, backup }));
    }
}

/// A path-management policy.
pub trait PathManager: Sized {
    /// Its options with their defaults; path numbers in them are checked by the code that reads them.
    type Options: Default + Serialize + DeserializeOwned;

    /// The declarations of its options, one per field.
    const OPTIONS: &'static [OptionInfo] = &[];

    /// The policy with its options.
    ///
    /// # Errors
    /// The name of the invalid option.
    fn new(options: Self::Options) -> Result<Self, SpecError>;

    /// The default path of the initial subflow; `default` is the topology's.
    fn initial_path(&self, _paths: &[PathEnds], _size: TransferSize, default: PathId) -> PathId {
        default
    }

    /// Numbers of sent bytes for which it may give [`Command::NotifyAtBytes`].
    fn thresholds(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// The interval of [`Event::Sample`]; none for no samples.
    fn sampling(&self) -> Option<Nanos> {
        None
    }

    /// From now on it may ask what a connection like this one would give over other paths.
    fn foresee(&mut self, _forecast: impl FnOnce() -> Arc<dyn Forecast>) {}

    /// The reason for the latest commands in a few words, for a log; none if there is nothing to add.
    fn why(&self) -> Option<String> {
        None
    }

    /// Handles an event; commands are appended to `commands` and executed in order.
    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>);
}
