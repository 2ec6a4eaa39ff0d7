//! What a path manager is: the trait, its input events, and the commands it may give.

use super::declaration::OptionInfo;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum number of subflows of a connection: sets of them have 64 bits. No more are opened.
pub const MAX_SUBFLOWS: usize = 64;
/// The number of a path in the topology.
pub type PathId = usize;
/// The number of a subflow in its connection, in order of creation; 0 is the initial one.
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

/// What is known about the number of payload bytes before a transfer begins.
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

/// What a policy knows when an event reaches it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Every path of the topology, or of a connection's hosts so far.
    pub paths: &'a [PathEnds],
    /// The network obeys loose source routes (RFC 791), which only binder uses.
    pub lsrr_honoured: bool,
    /// Every subflow so far.
    pub subflows: &'a [SubflowView],
    /// How much there will be to send.
    pub size: TransferSize,
    /// What the connection has done, as of the latest sample; zeros before the first.
    pub statistics: ConnectionStatistics,
}

/// What a connection has done so far, as its data sender knows it. Everything only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// Payload bytes handed to subflows.
    pub sent: Bytes,
    /// Payload bytes acknowledged in order (DATA_ACK, RFC 8684 section 3.3.2).
    pub acked: Bytes,
    /// How long the shared buffers kept a subflow with room from sending.
    pub limited: Nanos,
}

/// What a subflow has done so far, and how it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubflowStatistics {
    /// Payload bytes that the other end has, out of order or not (Linux `tcpi_delivered`).
    pub delivered: Bytes,
    /// Payload bytes sent again.
    pub retransmitted: Bytes,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Smoothed RTT, 0 before the first sample.
    pub srtt: Nanos,
    /// Congestion window, bytes.
    pub window: Bytes,
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
    /// Smallest RTT seen, 0 before the first sample: the path's own, without the queue that the
    /// connection's data builds.
    pub min_rtt: Nanos,
    /// As of the latest sample; zeros before the first.
    #[serde(default)]
    pub statistics: SubflowStatistics,
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
    /// The sender has sent this many payload bytes; answers [`Command::NotifyAtBytes`].
    BytesSent(Bytes),
    /// There is another path: an interface came up, or the peer announced an address. The paths of the
    /// view include it, and it has no subflow.
    PathAdded(PathId),
    /// It is this time, and the statistics in the view are new ([`PathManager::sampling`]). Times are since
    /// any fixed moment.
    Sample(Nanos),
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
    /// Notify the policy once this many payload bytes were sent.
    NotifyAtBytes(Bytes),
}

/// A path-management policy.
pub trait PathManager: Sized {
    /// Its options with their defaults; path numbers in them are checked by the code that reads them.
    type Options: Default + Serialize + DeserializeOwned;

    /// What its options mean, one entry per field.
    const OPTIONS: &'static [OptionInfo] = &[];

    /// The policy with its options.
    ///
    /// # Errors
    /// The name of the invalid option.
    fn new(options: Self::Options) -> Result<Self, SpecError>;

    /// The path for the initial subflow when the user named none; `default` is the topology's.
    fn initial_path(&self, _paths: &[PathEnds], _size: TransferSize, default: PathId) -> PathId {
        default
    }

    /// Numbers of sent bytes for which it may give [`Command::NotifyAtBytes`].
    fn thresholds(&self) -> Vec<Bytes> {
        Vec::new()
    }

    /// How often it wants [`Event::Sample`]; none spares the connection the work.
    fn sampling(&self) -> Option<Nanos> {
        None
    }

    /// Why it gave the latest commands, in a few words for a journal; none if it has nothing to add.
    fn why(&self) -> Option<String> {
        None
    }

    /// An event happened; commands are appended to `commands` and carried out in order.
    fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>);
}
