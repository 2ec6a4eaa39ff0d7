//! The specification of a trial: network, connection, workload.

use super::path_parameters::PathParameters;
use super::script::ScriptSpec;
use crate::mptcp::{Members, Protocol};
use crate::network::{Family, NetworkSpec};
use crate::pathmanager::{OptionMap, PathId};
use crate::transport::BIN;
use crate::units::{Bytes, Nanos};
use crate::workload::Workload;
use serde::Deserialize;

/// Connections of a workload, beside those of the trial's first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// The workload of each.
    pub workload: Workload,
    /// Time of the first SYN of each.
    pub starts_ns: Vec<Nanos>,
}

/// One simulated measurement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The network between the two sites, including the TCP connections that share it.
    pub network: NetworkSpec,
    /// MPTCP, or plain TCP on the initial path.
    #[serde(default)]
    pub protocol: Protocol,
    /// IP version of the paths that have none of their own.
    #[serde(default)]
    pub family: Family,
    /// Path manager.
    pub pm: String,
    /// Congestion control: a window algorithm, alone or with a path policy ("cubic+hold").
    pub cc: String,
    /// Scheduler.
    pub scheduler: String,
    /// Members of the stack that are switches and numbers, each a key beside the others.
    #[serde(flatten)]
    pub members: Members,
    /// Accounting of the buffer's bytes: "payload", or "linux" for socket memory as the kernel counts it.
    #[serde(default = "payload")]
    pub accounting: String,
    /// "fixed", or "auto" for buffers that grow as needed, up to a limit.
    #[serde(default = "fixed")]
    pub buffer_mode: String,
    /// Connection-level send and receive buffer, bytes each: of payload, or the value given to
    /// `SO_SNDBUF` and `SO_RCVBUF`. With the mode "auto" the limit: of payload, or the value of
    /// `tcp_wmem[2]` and `tcp_rmem[2]`.
    pub buffer_bytes: Bytes,
    /// The receive buffer where it is another one than the send buffer, as above.
    #[serde(default)]
    pub receive_buffer_bytes: Option<Bytes>,
    /// Payload bytes of a full segment over IPv4. With accounting "linux" they include the DSS option, as
    /// on the wire. Over IPv6 its packet is as long, and the longer header takes 20 of these bytes; of a connection
    /// with paths of both families on all of them.
    pub mss: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Time by the clock of the hosts at the start, whose timers are as a kernel's with accounting "linux".
    #[serde(default)]
    pub phase_ns: Nanos,
    /// The workload.
    pub workload: Workload,
    /// Time of the first SYN of each connection of this workload.
    #[serde(default = "one")]
    pub starts_ns: Vec<Nanos>,
    /// Workloads at the same time, on connections of their own.
    #[serde(default)]
    pub beside: Vec<FlowSpec>,
    /// Path of the first handshake; none leaves it to the path manager.
    #[serde(default)]
    pub initial_path: Option<PathId>,
    /// Options of the path manager, by name.
    #[serde(default)]
    pub pm_options: OptionMap,
    /// Path parameters for the path policy, each path once.
    #[serde(default)]
    pub path_parameters: Vec<PathParameters>,
    /// The path manager knows the size of the workload beforehand; otherwise it sees only the bytes sent.
    #[serde(default = "yes")]
    pub size_known: bool,
    /// Width of the bins of every series.
    #[serde(default = "bin")]
    pub bin_ns: Nanos,
    /// Scripted events.
    #[serde(default)]
    pub script: Vec<ScriptSpec>,
}

fn one() -> Vec<Nanos> {
    vec![0]
}

fn yes() -> bool {
    true
}

fn fixed() -> String {
    "fixed".into()
}

fn bin() -> Nanos {
    BIN
}

fn payload() -> String {
    "payload".into()
}
