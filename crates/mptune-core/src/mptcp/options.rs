//! The options of a connection, and its scripted events.

use super::accounting::{Accounting, BufferMode, Release};
use super::members::Members;
use super::packet::{DATA_HEADER, HandshakeSizes};
use super::pathpolicy::{self, Paces, Parameters};
use super::protocol::Protocol;
use super::scheduler;
use crate::congestion::Controller;
use crate::pathmanager::{self, PathId, TransferSize};
use crate::tcp::pacing::Lengths;
use crate::tcp::{Clock, Timing};
use crate::units::{Bytes, Nanos};
use crate::workload::Workload;

/// A scripted change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedEvent {
    /// Its subflows carry no data from now on.
    Withdraw,
    /// They may carry data again.
    Readmit,
    /// The path is cut.
    Cut,
    /// The path is restored.
    Restore,
    /// Its addresses are removed: its subflows are closed.
    Remove,
    /// They are announced again: its subflows are reopened.
    Announce,
    /// The application has no more to send; the path does not matter.
    Finish,
}

/// A scripted event with its time and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptedAction {
    /// Time of the event.
    pub at: Nanos,
    /// Its path.
    pub path: PathId,
    /// The event.
    pub event: ScriptedEvent,
}

/// The options of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// MPTCP or plain TCP.
    pub protocol: Protocol,
    /// Congestion control of every subflow, in its initial state.
    pub controller: Controller,
    /// Scheduler.
    pub scheduler: scheduler::Policy,
    /// Path policy, if there is one; only with the scheduler `kernel`.
    pub path_policy: Option<pathpolicy::Policy>,
    /// Its path parameters, by the paths' numbers.
    pub path_parameters: Vec<(PathId, Parameters)>,
    /// Path manager.
    pub path_manager: pathmanager::Policy,
    /// The workload.
    pub workload: Workload,
    /// Its size, as the path manager knows it beforehand.
    pub size: TransferSize,
    /// Accounting of the buffers' bytes.
    pub accounting: Accounting,
    /// Mode of the buffers: of the size below, or growing up to it.
    pub buffer_mode: BufferMode,
    /// Shared send buffer: payload bytes, or the value of `SO_SNDBUF` or of `tcp_wmem[2]`.
    pub send_buffer: Bytes,
    /// Shared receive buffer: payload bytes, or the value of `SO_RCVBUF` or of `tcp_rmem[2]`.
    pub receive_buffer: Bytes,
    /// Payload bytes of a full segment of any subflow; under Linux accounting, including the DSS option.
    pub mss: u32,
    /// Path of the MP_CAPABLE handshake.
    pub initial_path: PathId,
    /// The other members of its stack.
    pub members: Members,
    /// Time by the clock of its hosts when it starts: the phase of their timers.
    pub phase: Nanos,
    /// Width of the bins of its series.
    pub bin: Nanos,
    /// Time of the first SYN.
    pub start: Nanos,
    /// Data goes from the receiving site of the network to the sending one.
    pub reversed: bool,
    /// Scripted events, in any order.
    pub script: Vec<ScriptedAction>,
}

impl ConnectionOptions {
    /// The data receiver opens the connection: it is a client that asks.
    pub fn receiver_opens(&self) -> bool {
        self.workload.purpose().is_some() && !self.reversed
    }

    /// Payload bytes of a full segment: under Linux accounting options take up some of them.
    pub fn full_segment(&self) -> u32 {
        match self.accounting {
            Accounting::Linux(_) => self.mss - self.protocol.rules().option_size(),
            Accounting::Payload => self.mss,
        }
    }

    /// Lengths of a full segment, as bursts count them.
    pub fn lengths(&self) -> Lengths {
        let full = self.full_segment();
        match self.accounting {
            Accounting::Linux(_) => Lengths::new(self.mss, full),
            Accounting::Payload => Lengths::counted(full),
        }
    }

    /// Bytes of a full segment in a rate.
    pub fn counted_segment(&self) -> u32 {
        match self.accounting {
            Accounting::Linux(_) => self.mss,
            Accounting::Payload => self.full_segment(),
        }
    }

    /// The same as paces count them.
    pub fn paced_lengths(&self) -> Lengths {
        match self.accounting {
            Accounting::Linux(_) => self.lengths(),
            Accounting::Payload => Lengths::default(),
        }
    }

    /// The clock of its hosts' timers.
    pub fn clock(&self) -> Clock {
        match self.accounting {
            Accounting::Linux(release) => Clock::new(release.tick(), self.phase),
            Accounting::Payload => Clock::EXACT,
        }
    }

    /// The timers of its hosts.
    pub fn timing(&self) -> Timing {
        let [rto_min, rto_max] = self.members.rto();
        Timing { clock: self.clock(), rto_min, rto_max, pauses: self.workload.offers_pieces() }
    }

    /// The interval of the connection's retransmissions if no subflow has a timer: on Linux 7.3 the least timeout of its
    /// hosts (`net/mptcp/protocol.c`, `__mptcp_set_timeout`), before that always `TCP_RTO_MIN`.
    pub fn usual_interval(&self) -> Nanos {
        match self.accounting {
            Accounting::Linux(Release::Linux7) => self.members.rto()[0],
            _ => Timing::EXACT.rto_min,
        }
    }

    /// The path policy of a connection without subflows.
    pub fn paces(&self) -> Option<Paces> {
        let policy = self.path_policy.clone()?;
        Some(Paces::new(policy, self.path_parameters.clone()))
    }

    /// Bytes of a pure ACK without SACK blocks, over IPv4.
    pub fn ack_size(&self) -> u32 {
        self.protocol.rules().ack_size()
    }

    /// Of the first subflow's handshake, and of the others'.
    pub fn handshakes(&self) -> [HandshakeSizes; 2] {
        self.protocol.rules().handshakes()
    }

    /// Bytes that come before the payload of a full segment in its packet, over IPv4.
    pub fn header(&self) -> u32 {
        DATA_HEADER + (self.mss - self.full_segment())
    }
}
