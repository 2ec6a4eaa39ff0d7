//! One look at everything: connections and subflows of both families, put together.
//!
//! The kernel reports connections and TCP sockets separately. A subflow belongs to the connection whose
//! token it reports; where tokens are hidden from this process, to the one with the same inode.

use super::devices::Devices;
use super::owners::Owners;
use super::protocol::{Census, Change, Connection, Subflow};
use crate::kernel::diag::{Counted, Counting, Diag, Mptcp};
use crate::kernel::error::Error;
use crate::kernel::info::{MptcpInfo, TcpInfo};
use crate::kernel::mptcp_pm::commands::Commands;
use crate::kernel::pair::Pair;
use crate::kernel::sys;
use crate::role;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;

/// `CAP_NET_ADMIN`.
const NET_ADMIN: u32 = 12;
/// `struct mptcp_info` has 96 bytes in Linux 6.18, `struct tcp_info` 232 in the first Linux with MPTCP,
/// which does not know how to report connections and reports TCP sockets instead.
const LONGEST_MPTCP_INFO: usize = 200;
/// include/net/tcp_states.h, from 1 on.
const STATES: [&str; 11] = [
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
];

const NO_CONNECTIONS: &str = "bytes and fallback of connections: this kernel reports only subflows \
    (CONFIG_INET_MPTCP_DIAG, module mptcp_diag)";
const NO_BYTES: &str = "bytes of connections: this kernel is older than Linux 6.5";
const NO_ROLES: &str =
    "roles and address numbers of subflows: they take CAP_NET_ADMIN on this kernel";
const NO_OWNERS: &str = "processes of other users' connections: they take root";
const NO_CHANGES: &str = "roles of subflows can be seen, not changed: that takes CAP_NET_ADMIN";

/// Looks around in one network namespace.
pub struct Lookout {
    diag: Diag,
    devices: Devices,
    owners: Owners,
    commands: Option<Commands>,
    may_change: bool,
    /// The subflows of the last look, as the kernel names them.
    pairs: HashMap<(u32, SocketAddr, SocketAddr), Pair>,
}

impl Lookout {
    /// For the current namespace.
    pub fn open() -> Result<Self, Error> {
        Ok(Self {
            diag: Diag::open()?,
            devices: Devices::open()?,
            owners: Owners::new(Path::new("/proc")),
            commands: None,
            may_change: role::capabilities() >> NET_ADMIN & 1 == 1,
            pairs: HashMap::new(),
        })
    }

    /// Everything as it is now.
    ///
    /// # Errors
    /// The kernel does not answer such queries.
    pub fn look(&mut self) -> Result<Census, Error> {
        let at_ns = sys::monotonic_ns();
        self.devices.refresh(at_ns);
        let mut gathering = Gathering::default();
        let counted = self.diag.census(Counting::Mptcp, |socket| gathering.connection(&socket));
        match counted {
            Err(Error::Refused(_)) => gathering.reports_connections = false,
            counted => counted?,
        }
        self.diag.census(Counting::Tcp, |socket| gathering.subflow(&socket, &mut self.devices))?;
        self.owners.update(&gathering.inodes());
        self.pairs = std::mem::take(&mut gathering.pairs);
        let limits = self.limits(&gathering);
        let connections = gathering.owned(&self.owners);
        Ok(Census { at_ns, may_change: self.may_change, limits, connections })
    }

    fn limits(&self, gathering: &Gathering) -> Vec<&'static str> {
        let all = [
            (!gathering.reports_connections, NO_CONNECTIONS),
            (gathering.lacks_bytes(), NO_BYTES),
            (gathering.lacks_roles(), NO_ROLES),
            (self.owners.lack_rights(), NO_OWNERS),
            (!self.may_change, NO_CHANGES),
        ];
        all.into_iter().filter_map(|(lacks, limit)| lacks.then_some(limit)).collect()
    }

    /// Changes the role of a subflow, which is named as in the last look.
    ///
    /// # Errors
    /// There is none of that name, or the kernel refuses.
    pub fn change(&mut self, change: &Change) -> Result<(), Error> {
        let Some(pair) = self.pairs.get(&(change.token, change.local, change.remote)).copied()
        else {
            let ends = format!("{} to {}", change.local, change.remote);
            return Err(Error::Failed(format!(
                "subflow {ends}: there is no such subflow any more"
            )));
        };
        let commands = match self.commands.take() {
            Some(commands) => commands,
            None => Commands::open()?,
        };
        let done = self.commands.insert(commands).set_backup(change.token, &pair, change.backup);
        done.map_err(explained)
    }
}

/// The kernel's refusals of a change, in words that need no knowledge of path management.
fn explained(error: Error) -> Error {
    match error {
        Error::Refused(refusal) if refusal.number() == libc::EINVAL => {
            Error::Refused(refusal.meaning(
                "the kernel's own path manager has this connection, and lets nobody change the role of one \
                 subflow; net.mptcp.path_manager must be userspace when a connection begins",
            ))
        }
        error => error,
    }
}

/// A connection that is being put together.
struct Gathered {
    inode: u32,
    connection: Connection,
}

/// Connections and subflows so far.
struct Gathering {
    connections: Vec<Gathered>,
    by_token: HashMap<u32, usize>,
    by_inode: HashMap<u32, usize>,
    pairs: HashMap<(u32, SocketAddr, SocketAddr), Pair>,
    reports_connections: bool,
}

impl Default for Gathering {
    fn default() -> Self {
        let (by_token, by_inode, pairs) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { connections: Vec::new(), by_token, by_inode, pairs, reports_connections: true }
    }
}

impl Gathering {
    fn connection(&mut self, counted: &Counted<'_>) {
        if counted.info.len() > LONGEST_MPTCP_INFO {
            self.reports_connections = false;
            return;
        }
        let info = MptcpInfo::parse(counted.info);
        // One that has no token yet is about to be opened.
        let Some(token) = info.token.filter(|&token| token != 0) else { return };
        let known = Connection {
            state: state(counted.state),
            fallback: Some(info.fallback),
            path_manager: info.kernel_limits.then_some("kernel"),
            sent_bytes: info.bytes_sent,
            received_bytes: info.bytes_received,
            acked_bytes: info.bytes_acked,
            reinjected_bytes: info.bytes_reinjected,
            ..unknown(token, &counted.pair)
        };
        self.add(counted.inode, known);
    }

    fn subflow(&mut self, counted: &Counted<'_>, devices: &mut Devices) {
        let Some(index) = self.connection_of(counted) else { return };
        let device = devices.of(&counted.pair, counted.device);
        let subflow = subflow(counted, device);
        let token = self.connections[index].connection.token;
        self.pairs.insert((token, subflow.local, subflow.remote), counted.pair);
        self.connections[index].connection.subflows.push(subflow);
    }

    /// The place of the connection that a TCP socket belongs to; none if it is no subflow.
    fn connection_of(&mut self, counted: &Counted<'_>) -> Option<usize> {
        let token = counted.mptcp.map_or(0, |mptcp| mptcp.token);
        if let Some(&index) = self.by_token.get(&token) {
            return Some(index);
        }
        if token != 0 && !self.reports_connections {
            return Some(self.add(counted.inode, unknown(token, &counted.pair)));
        }
        // A socket with a token but no connection outlives it.
        self.by_inode.get(&counted.inode).copied().filter(|_| token == 0)
    }

    fn add(&mut self, inode: u32, connection: Connection) -> usize {
        let index = self.connections.len();
        self.by_token.insert(connection.token, index);
        if inode != 0 {
            self.by_inode.insert(inode, index);
        }
        self.connections.push(Gathered { inode, connection });
        index
    }

    fn inodes(&self) -> HashSet<u32> {
        self.connections.iter().map(|gathered| gathered.inode).filter(|&inode| inode != 0).collect()
    }

    fn lacks_bytes(&self) -> bool {
        let lacks = |gathered: &Gathered| gathered.connection.sent_bytes.is_none();
        self.reports_connections && self.connections.iter().any(lacks)
    }

    fn lacks_roles(&self) -> bool {
        let mut subflows =
            self.connections.iter().flat_map(|gathered| &gathered.connection.subflows);
        subflows.any(|subflow| subflow.backup.is_none())
    }

    /// The connections with their processes.
    fn owned(self, owners: &Owners) -> Vec<Connection> {
        let owned = |Gathered { inode, connection }| match owners.of(inode) {
            Some(owner) => {
                let (pid, command) = (Some(owner.pid), Some(owner.command.clone()));
                Connection { pid, command, ..connection }
            }
            None => connection,
        };
        self.connections.into_iter().map(owned).collect()
    }
}

fn state(number: u8) -> Option<&'static str> {
    STATES.get(usize::from(number).checked_sub(1)?).copied()
}

/// A connection of which only its name is known.
fn unknown(token: u32, pair: &Pair) -> Connection {
    let (local, remote) = ends(pair);
    Connection {
        token,
        local,
        remote,
        family: if local.is_ipv4() { "ipv4" } else { "ipv6" },
        state: None,
        pid: None,
        command: None,
        fallback: None,
        path_manager: None,
        sent_bytes: None,
        received_bytes: None,
        acked_bytes: None,
        reinjected_bytes: None,
        subflows: Vec::new(),
    }
}

/// The ends as people know them: IPv4 addresses in an IPv6 socket are IPv4 addresses.
fn ends(pair: &Pair) -> (SocketAddr, SocketAddr) {
    let (local, remote) = pair.addresses();
    (SocketAddr::new(local, pair.local.port()), SocketAddr::new(remote, pair.remote.port()))
}

fn subflow(counted: &Counted<'_>, device: Option<String>) -> Subflow {
    let (local, remote) = ends(&counted.pair);
    let info = TcpInfo::parse(counted.info);
    let known = |value: u64| Some(value).filter(|&value| value > 0);
    let mptcp = |read: fn(Mptcp) -> u8| counted.mptcp.map(read);
    let cc = String::from_utf8_lossy(counted.cc).trim_end_matches('\0').to_owned();
    Subflow {
        local,
        remote,
        device,
        local_id: mptcp(|mptcp| mptcp.local_id),
        remote_id: mptcp(|mptcp| mptcp.remote_id),
        backup: counted.mptcp.map(|mptcp| mptcp.backup || mptcp.backup_by_peer),
        state: state(counted.state),
        cc: Some(cc).filter(|cc| !cc.is_empty()),
        held: info.held,
        rtt_ns: known(info.srtt_ns),
        min_rtt_ns: known(info.min_rtt_ns),
        cwnd: info.cwnd,
        acked_bytes: info.bytes_acked,
        received_bytes: info.bytes_received,
        retransmitted_bytes: info.bytes_retransmitted,
        lost: info.lost,
        unacked: info.unacked,
        delivery_rate_bps: known(info.delivery_rate_bps),
        busy_ns: info.busy_ns,
        rwnd_limited_ns: info.rwnd_limited_ns,
        sndbuf_limited_ns: info.sndbuf_limited_ns,
        timeouts: info.timeouts,
        timeouts_in_a_row: info.timeouts_in_a_row,
        silent_ns: info.silent_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: &str, remote: &str) -> Pair {
        Pair { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    fn mptcp_info(token: u32, flags: u32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; 96];
        bytes[3] = 2; // the kernel's path manager allows two subflows
        bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
        bytes[12..16].copy_from_slice(&token.to_ne_bytes());
        bytes[72..80].copy_from_slice(&77u64.to_ne_bytes());
        bytes.truncate(length);
        bytes
    }

    fn counted<'a>(pair: Pair, inode: u32, info: &'a [u8], mptcp: Option<Mptcp>) -> Counted<'a> {
        let (cc, memory, send_buffer, receive_buffer) = (b"cubic\0", &[], None, None);
        let (timeouts, queued, state, device) = (0, 0, 1, 0);
        Counted {
            pair,
            timeouts,
            queued,
            state,
            inode,
            device,
            info,
            cc,
            memory,
            mptcp,
            send_buffer,
            receive_buffer,
        }
    }

    fn of(token: u32) -> Option<Mptcp> {
        Some(Mptcp { token, local_id: 1, ..Mptcp::default() })
    }

    fn gathered(connections: &[Counted<'_>], subflows: &[Counted<'_>]) -> Gathering {
        let mut gathering = Gathering::default();
        connections.iter().for_each(|socket| gathering.connection(socket));
        let mut devices = Devices::open().unwrap();
        subflows.iter().for_each(|socket| gathering.subflow(socket, &mut devices));
        gathering
    }

    const FIRST: (&str, &str) = ("10.0.1.2:40000", "10.9.0.1:443");
    const SECOND: (&str, &str) = ("10.0.2.2:40001", "10.9.0.1:443");

    #[test]
    fn subflows_find_their_connection_by_token_or_else_by_inode() {
        let (first, second) = (pair(FIRST.0, FIRST.1), pair(SECOND.0, SECOND.1));
        let info = [mptcp_info(5, 0, 96), mptcp_info(6, 1, 96)];
        let connections =
            [counted(first, 100, &info[0], None), counted(second, 200, &info[1], None)];
        let subflows = [
            counted(second, 0, &[], of(5)),  // by its token
            counted(first, 200, &[], None),  // by its inode
            counted(first, 300, &[], None),  // TCP
            counted(first, 0, &[], None),    // TCP that no program has any more
            counted(first, 100, &[], of(9)), // of a connection that is gone
        ];
        let gathering = gathered(&connections, &subflows);
        let connections: Vec<_> =
            gathering.connections.iter().map(|connection| &connection.connection).collect();
        assert_eq!(
            connections.iter().map(|connection| connection.subflows.len()).collect::<Vec<_>>(),
            [1, 1]
        );
        assert_eq!(connections[0].subflows[0].local.to_string(), SECOND.0);
        assert_eq!((connections[0].fallback, connections[1].fallback), (Some(false), Some(true)));
        assert_eq!(
            (connections[0].acked_bytes, connections[0].path_manager),
            (Some(77), Some("kernel"))
        );
        assert_eq!(
            (connections[0].subflows[0].local_id, connections[1].subflows[0].local_id),
            (Some(1), None)
        );
        assert!(gathering.lacks_roles() && !gathering.lacks_bytes());
    }

    #[test]
    fn without_reports_of_connections_tokens_tell_them() {
        let (first, second) = (pair(FIRST.0, FIRST.1), pair(SECOND.0, SECOND.1));
        let tcp_info = [0; 280];
        let reported = [counted(first, 100, &tcp_info, None)];
        let subflows = [counted(first, 100, &[], of(5)), counted(second, 100, &[], of(5))];
        let gathering = gathered(&reported, &subflows);
        assert!(!gathering.reports_connections && !gathering.lacks_bytes());
        assert_eq!(gathering.connections.len(), 1);
        let connection = &gathering.connections[0].connection;
        assert_eq!(
            (
                connection.token,
                connection.subflows.len(),
                connection.fallback,
                connection.acked_bytes
            ),
            (5, 2, None, None)
        );
    }

    #[test]
    fn an_older_kernel_lacks_bytes() {
        let info = mptcp_info(5, 0, 56);
        assert!(gathered(&[counted(pair(FIRST.0, FIRST.1), 1, &info, None)], &[]).lacks_bytes());
    }

    #[test]
    fn mapped_addresses_are_reported_canonical_and_stored_as_the_kernel_has_them() {
        let mapped = pair("[::ffff:10.0.1.2]:40000", "[::ffff:10.9.0.1]:443");
        let info = mptcp_info(5, 0, 96);
        let gathering =
            gathered(&[counted(mapped, 1, &info, None)], &[counted(mapped, 1, &[], of(5))]);
        let connection = &gathering.connections[0].connection;
        assert_eq!((connection.local.to_string().as_str(), connection.family), (FIRST.0, "ipv4"));
        let subflow_report = &connection.subflows[0];
        assert_eq!(gathering.pairs[&(5, subflow_report.local, subflow_report.remote)], mapped);
    }

    #[test]
    fn what_is_not_measured_is_not_known() {
        let subflow_report = subflow(&counted(pair(FIRST.0, FIRST.1), 1, &[0; 280], None), None);
        assert_eq!(
            (subflow_report.rtt_ns, subflow_report.min_rtt_ns, subflow_report.delivery_rate_bps),
            (None, None, None)
        );
        assert_eq!((subflow_report.backup, subflow_report.local_id), (None, None));
        assert_eq!(
            (subflow_report.state, subflow_report.cc.as_deref()),
            (Some("established"), Some("cubic"))
        );
        assert_eq!((state(0), state(11), state(12)), (None, Some("closing"), None));
    }
}
