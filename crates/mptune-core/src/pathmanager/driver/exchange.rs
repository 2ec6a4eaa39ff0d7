//! The interface between a driver and the stack below it: reports, orders, and the stack's abilities.

use crate::pathmanager::{ConnectionStatistics, PathId, SubflowId};
use crate::units::{Bytes, Nanos};

/// The abilities of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// It can keep a subflow silent even while no other is alive.
    pub silences: bool,
    /// It accepts roles before the subflow, or the connection, is established.
    pub early_roles: bool,
    /// Subflows are opened from here, not only by the peer.
    pub opens: bool,
}

impl Stack {
    /// The simulated connection: supports everything.
    pub const SIMULATED: Self = Self { silences: true, early_roles: true, opens: true };
    /// Linux: `SET_FLAGS` requires an established subflow, and standby subflows are its last resort.
    pub const LINUX: Self = Self { silences: false, early_roles: false, opens: true };
    /// The same for a connection that the peer opened, and whose subflows it opens.
    pub const LINUX_ACCEPTED: Self = Self { opens: false, ..Self::LINUX };
}

/// The role of a subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It carries data.
    Active,
    /// It carries data while no active one is alive (RFC 8684 section 3.3.8, `backup`).
    Standby,
    /// It carries none; only for stacks that support it ([`Stack::silences`]).
    Silent,
}

impl Role {
    /// The backup flag of MP_JOIN and MP_PRIO.
    pub fn backup(self) -> bool {
        self != Self::Active
    }
}

/// A report of an event, by the observer of the stack.
///
/// A subflow's number is that of the order that opened it, 0 for the initial subflow; an unknown number panics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The connection is fully established (first DATA_ACK received, RFC 8684 section 3.1).
    Established,
    /// A subflow (including the initial one) finished its handshake.
    Joined(SubflowId),
    /// The peer opened a subflow on a path; it gets the next number, if there is room for it.
    JoinedByPeer(PathId),
    /// A subflow could not be opened: the peer or the stack refused, or there was no answer.
    JoinFailed(SubflowId),
    /// A subflow was closed.
    Closed(SubflowId),
    /// A subflow was polled, or its timer expired: retransmission timeouts without progress so far.
    Timeouts {
        /// The subflow.
        subflow: SubflowId,
        /// Timeouts in a row; 0 after progress.
        consecutive: u32,
    },
    /// This many payload bytes were sent on the connection; reported any number of times, at any number.
    BytesSent(Bytes),
    /// A path was withdrawn from carrying data.
    Withdrawn(PathId),
    /// It was readmitted.
    Readmitted(PathId),
    /// A path was added; the number comes from [`super::Driver::add_path`].
    PathAdded(PathId),
    /// A path's address was removed (REMOVE_ADDR, RFC 8684 section 3.4.2).
    AddressRemoved(PathId),
    /// It was announced again (ADD_ADDR, section 3.4.1).
    AddressAnnounced(PathId),
    /// Another attempt on a path is due: its closed and refused subflows are reopened.
    Retried(PathId),
    /// The priority of a subflow in the stack, whatever was ordered.
    PrioritySeen {
        /// The subflow.
        subflow: SubflowId,
        /// It is standby.
        backup: bool,
    },
    /// The stack refused the [`Order::SetRole`] for this subflow. It is ordered again after another
    /// report, not at once. (Linux refuses until it has the subflow in its list.)
    RoleRefused(SubflowId),
    /// The connection's statistics, at the interval of [`super::Driver::sampling`]. Those of the subflows come before,
    /// by [`super::Driver::set_statistics`].
    Sample {
        /// Time since any fixed moment.
        now: Nanos,
        /// Statistics of the connection.
        statistics: ConnectionStatistics,
    },
}

/// An order to the stack, executed in sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Open a subflow; answered by [`Report::Joined`] or [`Report::JoinFailed`]. A number that is already
    /// known means a closed subflow to reopen.
    Connect {
        /// Its number.
        subflow: SubflowId,
        /// Its path.
        path: PathId,
        /// Its initial role.
        role: Role,
    },
    /// Close a subflow; answered by [`Report::Closed`].
    Close {
        /// The subflow.
        subflow: SubflowId,
    },
    /// Change a subflow's role. It counts as done unless [`Report::RoleRefused`] follows.
    SetRole {
        /// The subflow.
        subflow: SubflowId,
        /// The new role.
        role: Role,
    },
    /// Report [`Report::BytesSent`] once this many payload bytes were sent; replaces any earlier such order.
    NotifyAtBytes(Bytes),
    /// For the log: a subflow was lost, and these standby subflows were activated in its place.
    NoteLost {
        /// The subflow.
        subflow: SubflowId,
        /// Its successors by the policy's choice.
        successors: Vec<SubflowId>,
    },
    /// For the log: a lost subflow was restored.
    NoteRestored {
        /// The subflow.
        subflow: SubflowId,
    },
}
