//! Connections while limits are adapted: looks at all that are open, and a summary of each interval.
//!
//! Plain TCP is looked at too, as the limits are its own as well. A connection counts as held up by its send buffer
//! while that has grown to the limit and a look shows room in cwnd that it keeps from being used
//! (`sampling::Look::holds`). The kernel's own count of that time, `tcpi_sndbuf_limited`, is used where it is more: it
//! leaves out slow start with a cwnd below twice what is in flight, and is none for subflows. A receiver sees no such time: its window holds the sender up while its buffer has grown to the limit, and what arrives in a round trip is
//! nearly the largest window that it has offered.

use super::statistics::LONGEST_MPTCP_INFO;
use crate::kernel::diag::{Counted, Counting, Diag};
use crate::kernel::error::Error;
use crate::kernel::info::{MptcpInfo, TcpInfo};
use crate::kernel::pair::Pair;
use crate::paths::sampling::{Buffer, Look, SendMemory, SubflowLook};
use mptune_core::limits::{Seen, Side};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// Longest time before a look that the look may stand for, nanoseconds.
const LONGEST_GAP_NS: u64 = 300_000_000;
/// From this share of the largest window in a round trip on the window holds the sender up.
const FILLED: f64 = 0.75;
/// Round trips over which that is measured, at least.
const ROUND_TRIPS: u64 = 2;

/// A connection, by what names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    /// By its token.
    Mptcp(u32),
    /// By its ends.
    Tcp(Pair),
}

/// A connection at a look.
#[derive(Debug, Clone)]
struct Glimpse {
    remote: IpAddr,
    acked: u64,
    received: u64,
    /// The program waits for room in the send buffer.
    is_full: bool,
    /// The send buffer keeps it, or one of its subflows, from sending.
    is_held: bool,
    /// The same time by the kernel's own count, nanoseconds; of TCP only.
    held_ns: u64,
    /// Size of the send buffer of each subflow.
    send_buffers: Vec<u32>,
    receive_buffer: u32,
    subflows: Vec<(Pair, TcpInfo)>,
}

/// Totals of one side of a connection since the interval began.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    bytes: u64,
    /// Bytes times the smallest RTT of their path.
    byte_ns: f64,
    spoken_for_ns: u64,
    saturated_ns: u64,
    limited_ns: u64,
}

impl Tally {
    fn seen(&self, interval_ns: u64) -> Seen {
        let interval = interval_ns.max(1) as f64;
        let share = |part: u64| part as f64 / self.spoken_for_ns.max(1) as f64;
        Seen {
            mbit_s: self.bytes as f64 * 8e3 / interval,
            pipe_bytes: self.byte_ns / interval,
            saturated: share(self.saturated_ns).min(1.0),
            limited: share(self.limited_ns).min(1.0),
        }
    }
}

/// A subflow as it was.
#[derive(Debug, Clone, Copy)]
struct Before {
    tcp: TcpInfo,
    /// Smallest RTT as a receiver estimates it, nanoseconds; 0 before the first sample.
    receive_rtt_ns: u64,
}

/// The measurement of a receiver's round trips.
#[derive(Debug, Clone, Copy)]
struct RoundTrips {
    since_ns: u64,
    received: u64,
}

/// A connection over time.
#[derive(Debug, Clone)]
struct Tracked {
    remote: IpAddr,
    looked_ns: u64,
    acked: u64,
    received: u64,
    held_ns: u64,
    subflows: HashMap<Pair, Before>,
    round_trips: RoundTrips,
    /// The largest window that was offered, bytes.
    window: u32,
    send: Tally,
    receive: Tally,
}

/// The limits of one side, bytes.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// In force.
    pub present: u64,
    /// That were in force so far.
    pub known: BTreeSet<u64>,
}

impl Limits {
    /// A buffer has grown up to the limit: that in force, or a larger one before. Smaller ones are still to grow, and
    /// what a program has set (`SO_SNDBUF`) is hardly ever of the size of a limit.
    fn is_reached(&self, size: u32) -> bool {
        u64::from(size) >= self.present && self.known.contains(&u64::from(size))
    }
}

/// The limits of both sides.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Of send buffers.
    pub send: Limits,
    /// Of receive buffers.
    pub receive: Limits,
}

impl Tracked {
    fn new(now_ns: u64, glimpse: &Glimpse) -> Self {
        let before = |tcp: TcpInfo| Before { tcp, receive_rtt_ns: tcp.receive_rtt_ns };
        Self {
            remote: glimpse.remote,
            looked_ns: now_ns,
            acked: glimpse.acked,
            received: glimpse.received,
            held_ns: glimpse.held_ns,
            subflows: glimpse.subflows.iter().map(|&(pair, tcp)| (pair, before(tcp))).collect(),
            round_trips: RoundTrips { since_ns: now_ns, received: glimpse.received },
            window: window_of(glimpse),
            send: Tally::default(),
            receive: Tally::default(),
        }
    }

    fn look(&mut self, now_ns: u64, glimpse: &Glimpse, known: &Known) {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        let at_limit = glimpse.send_buffers.iter().any(|&size| known.send.is_reached(size));
        for (pair, tcp) in &glimpse.subflows {
            let then = self.subflows.get(pair).copied();
            let Before { tcp: before, receive_rtt_ns } =
                then.unwrap_or(Before { tcp: *tcp, receive_rtt_ns: 0 });
            let receive_rtt_ns = smallest(receive_rtt_ns, tcp.receive_rtt_ns);
            let acked = tcp.bytes_acked.saturating_sub(before.bytes_acked);
            let received = tcp.bytes_received.saturating_sub(before.bytes_received);
            self.send.byte_ns += acked as f64 * tcp.min_rtt_ns as f64;
            self.receive.byte_ns += received as f64 * receive_rtt_ns as f64;
            self.subflows.insert(*pair, Before { tcp: *tcp, receive_rtt_ns });
        }
        let spoken_for_ns = since_ns.min(LONGEST_GAP_NS);
        self.send.spoken_for_ns += spoken_for_ns;
        self.send.bytes += glimpse.acked.saturating_sub(self.acked);
        if at_limit || !glimpse.is_held {
            self.send.saturated_ns += if glimpse.is_full { spoken_for_ns } else { 0 };
        }
        if at_limit {
            let counted_ns = glimpse.held_ns.saturating_sub(self.held_ns);
            self.send.limited_ns +=
                if glimpse.is_held { spoken_for_ns } else { counted_ns.min(spoken_for_ns) };
        }
        self.receive.bytes += glimpse.received.saturating_sub(self.received);
        self.round_trips(now_ns, glimpse, known);
        (self.looked_ns, self.held_ns) = (now_ns, glimpse.held_ns);
        (self.acked, self.received) = (glimpse.acked, glimpse.received);
    }

    fn round_trips(&mut self, now_ns: u64, glimpse: &Glimpse, known: &Known) {
        self.window = self.window.max(window_of(glimpse));
        let rtt_ns = glimpse.subflows.iter().map(|(_, tcp)| tcp.receive_rtt_ns).max().unwrap_or(0);
        let RoundTrips { since_ns, received } = self.round_trips;
        let passed_ns = now_ns.saturating_sub(since_ns);
        if passed_ns < ROUND_TRIPS * rtt_ns || passed_ns == 0 {
            return;
        }
        self.round_trips = RoundTrips { since_ns: now_ns, received: glimpse.received };
        self.receive.spoken_for_ns += passed_ns;
        let bytes = glimpse.received.saturating_sub(received);
        if bytes == 0 || !known.receive.is_reached(glimpse.receive_buffer) {
            return;
        }
        self.receive.saturated_ns += passed_ns;
        // Before Linux 6.2 no window is known, and half of the memory is near enough.
        let window = if self.window > 0 { self.window } else { glimpse.receive_buffer / 2 };
        let in_round_trip = bytes as f64 * rtt_ns as f64 / passed_ns as f64;
        if in_round_trip >= FILLED * f64::from(window) {
            self.receive.limited_ns += passed_ns;
        }
    }
}

fn window_of(glimpse: &Glimpse) -> u32 {
    glimpse.subflows.iter().filter_map(|(_, tcp)| tcp.receive_window).max().unwrap_or(0)
}

/// The smaller of two RTTs, of which 0 is none.
fn smallest(left: u64, right: u64) -> u64 {
    if left == 0 || right == 0 { left.max(right) } else { left.min(right) }
}

/// Summary of a connection's interval.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Its destination.
    pub remote: IpAddr,
    /// As a sender.
    pub send: Seen,
    /// As a receiver.
    pub receive: Seen,
}

impl Shown {
    /// Of one side.
    pub fn of(&self, side: Side) -> Seen {
        match side {
            Side::Send => self.send,
            Side::Receive => self.receive,
        }
    }
}

/// Looks at all connections of a network namespace.
pub struct Looks {
    diag: Diag,
    over_time: OverTime,
}

impl Looks {
    /// In the current namespace.
    ///
    /// # Errors
    /// The kernel has no socket statistics.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { diag: Diag::open()?, over_time: OverTime::default() })
    }

    /// Looks at all of them.
    ///
    /// # Errors
    /// The kernel does not answer such queries.
    pub fn look(&mut self, now_ns: u64, known: &Known) -> Result<(), Error> {
        let glimpses = glimpses(&mut self.diag)?;
        self.over_time.look(now_ns, glimpses, known);
        Ok(())
    }

    /// Summaries of the looks since the last call, of connections that moved anything; the next interval begins.
    pub fn take(&mut self, interval_ns: u64) -> Vec<Shown> {
        self.over_time.take(interval_ns)
    }
}

#[derive(Default)]
struct OverTime {
    tracked: HashMap<Name, Tracked>,
}

impl OverTime {
    /// Connections that are gone are forgotten with their part of the interval.
    fn look(&mut self, now_ns: u64, glimpses: HashMap<Name, Glimpse>, known: &Known) {
        self.tracked.retain(|name, _| glimpses.contains_key(name));
        for (name, glimpse) in glimpses {
            match self.tracked.get_mut(&name) {
                Some(tracked) => tracked.look(now_ns, &glimpse, known),
                None => {
                    self.tracked.insert(name, Tracked::new(now_ns, &glimpse));
                }
            }
        }
    }

    fn take(&mut self, interval_ns: u64) -> Vec<Shown> {
        let mut shown = Vec::new();
        for tracked in self.tracked.values_mut() {
            let (send, receive) =
                (std::mem::take(&mut tracked.send), std::mem::take(&mut tracked.receive));
            if send.bytes + receive.bytes > 0 {
                let (send, receive) = (send.seen(interval_ns), receive.seen(interval_ns));
                shown.push(Shown { remote: tracked.remote, send, receive });
            }
        }
        shown
    }
}

/// A connection of MPTCP before its subflows are known.
struct Connection {
    look: Look,
    glimpse: Glimpse,
}

fn glimpses(diag: &mut Diag) -> Result<HashMap<Name, Glimpse>, Error> {
    let mut connections: HashMap<u32, Connection> = HashMap::new();
    let mut fallen_back = HashSet::new();
    let counted = diag.census(Counting::Mptcp, |socket| {
        if socket.info.len() > LONGEST_MPTCP_INFO {
            return;
        }
        let info = MptcpInfo::parse(socket.info);
        let Some(token) = info.token.filter(|&token| token != 0) else { return };
        if info.fallback {
            fallen_back.insert(token);
        } else if let Some(remote) = remote(&socket) {
            connections.insert(token, connection(&socket, info, remote));
        }
    });
    match counted {
        // A kernel that reports no connections still has TCP.
        Err(Error::Refused(_)) => {}
        counted => counted?,
    }
    let mut glimpses = HashMap::new();
    diag.census(Counting::Tcp, |socket| {
        let Some(remote) = remote(&socket) else { return };
        let tcp = TcpInfo::parse(socket.info);
        let (_, room) = socket.send_buffer.unwrap_or_default();
        match socket.mptcp.filter(|mptcp| mptcp.token != 0) {
            None => {
                let glimpse = plain(&socket, tcp, room, remote);
                glimpses.insert(Name::Tcp(socket.pair), glimpse);
            }
            Some(mptcp) => {
                if let Some(connection) = connections.get_mut(&mptcp.token) {
                    let backup = mptcp.backup || mptcp.backup_by_peer;
                    let id = connection.look.subflows.len();
                    connection.look.subflows.push(SubflowLook { id, backup, tcp });
                    connection.glimpse.send_buffers.push(room);
                    connection.glimpse.subflows.push((socket.pair, tcp));
                }
            }
        }
    })?;
    let of_mptcp = connections.into_iter().map(|(token, Connection { look, mut glimpse })| {
        glimpse.is_held = look.holds() == Some(Buffer::Send);
        (Name::Mptcp(token), glimpse)
    });
    glimpses.extend(of_mptcp);
    Ok(glimpses)
}

/// Another machine's address; the loopback is no network.
fn remote(socket: &Counted<'_>) -> Option<IpAddr> {
    let (_, remote) = socket.pair.addresses();
    (!remote.is_loopback()).then_some(remote)
}

fn connection(socket: &Counted<'_>, info: MptcpInfo, remote: IpAddr) -> Connection {
    let memory = SendMemory::parse(socket.memory);
    let glimpse = Glimpse {
        remote,
        acked: info.bytes_acked.unwrap_or(0),
        received: info.bytes_received.unwrap_or(0),
        is_full: memory.is_full(),
        is_held: false,
        held_ns: 0,
        send_buffers: Vec::new(),
        receive_buffer: socket.receive_buffer.unwrap_or(0),
        subflows: Vec::new(),
    };
    Connection { look: Look { connection: info, memory, subflows: Vec::new() }, glimpse }
}

fn plain(socket: &Counted<'_>, tcp: TcpInfo, room: u32, remote: IpAddr) -> Glimpse {
    let is_full = SendMemory::parse(socket.memory).is_full();
    Glimpse {
        remote,
        acked: tcp.bytes_acked,
        received: tcp.bytes_received,
        is_full,
        is_held: is_full && SubflowLook { id: 0, backup: false, tcp }.is_idle(),
        held_ns: tcp.sndbuf_limited_ns,
        send_buffers: vec![room],
        receive_buffer: socket.receive_buffer.unwrap_or(0),
        subflows: vec![(socket.pair, tcp)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_NS: u64 = 100_000_000;
    const LIMIT: u32 = 1 << 20;

    fn pair() -> Pair {
        Pair { local: "10.0.1.2:1".parse().unwrap(), remote: "10.9.0.1:2".parse().unwrap() }
    }

    /// A connection after so many looks: 1 MB each way per look, and an RTT of 50 ms.
    fn glimpse(number: u64) -> Glimpse {
        let bytes = number * 1_000_000;
        let tcp = TcpInfo {
            bytes_acked: bytes,
            bytes_received: bytes,
            min_rtt_ns: 50_000_000,
            receive_rtt_ns: 50_000_000,
            receive_window: Some(500_000),
            ..TcpInfo::default()
        };
        Glimpse {
            remote: "10.9.0.1".parse().unwrap(),
            acked: bytes,
            received: bytes,
            is_full: true,
            is_held: true,
            held_ns: 0,
            send_buffers: vec![LIMIT],
            receive_buffer: LIMIT,
            subflows: vec![(pair(), tcp)],
        }
    }

    fn known(present: u64) -> Known {
        let limits = Limits { present, known: BTreeSet::from([u64::from(LIMIT), present]) };
        Known { send: limits.clone(), receive: limits }
    }

    /// Summary of ten looks at a connection.
    fn shown(known: &Known, change: impl Fn(&mut Glimpse)) -> Shown {
        let mut over_time = OverTime::default();
        for number in 0..=10 {
            let mut glimpse = glimpse(number);
            change(&mut glimpse);
            let glimpses = HashMap::from([(Name::Tcp(pair()), glimpse)]);
            over_time.look(number * LOOK_NS, glimpses, known);
        }
        over_time.take(10 * LOOK_NS)[0]
    }

    #[test]
    fn rates_and_pipes_are_those_of_the_interval() {
        let seen = shown(&known(LIMIT.into()), |_| {});
        for side in [seen.send, seen.receive] {
            assert!((side.mbit_s - 80.0).abs() < 1e-9, "{side:?}");
            assert!((side.pipe_bytes - 500_000.0).abs() < 1e-6, "{side:?}");
            assert_eq!((side.saturated, side.limited), (1.0, 1.0));
        }
    }

    #[test]
    fn only_a_buffer_that_has_grown_to_the_limit_counts() {
        let limited = |present: u64| {
            let seen = shown(&known(present), |_| {});
            [seen.send.limited, seen.receive.limited, seen.send.saturated]
        };
        // A limit that fell since, the limit, and one to which it has not grown yet.
        assert_eq!(limited(1 << 19), [1.0; 3]);
        assert_eq!(limited(1 << 20), [1.0; 3]);
        assert_eq!(limited(1 << 21), [0.0; 3]);
        let other = shown(&known(LIMIT.into()), |glimpse| {
            (glimpse.send_buffers, glimpse.receive_buffer) = (vec![LIMIT + 1], LIMIT + 1);
        });
        assert_eq!((other.send.limited, other.receive.limited), (0.0, 0.0));
    }

    #[test]
    fn a_window_that_is_not_filled_in_a_round_trip_limits_nobody() {
        let seen = shown(&known(LIMIT.into()), |glimpse| {
            glimpse.subflows[0].1.receive_window = Some(700_000);
        });
        assert_eq!((seen.receive.limited, seen.receive.saturated), (0.0, 1.0));
    }

    #[test]
    fn the_window_of_a_program_that_reads_slowly_counts_at_its_largest() {
        let mut over_time = OverTime::default();
        for number in 0..=10 {
            let mut glimpse = glimpse(number);
            let window = if number == 0 { 5_000_000 } else { 10_000 };
            glimpse.subflows[0].1.receive_window = Some(window);
            let glimpses = HashMap::from([(Name::Mptcp(7), glimpse)]);
            over_time.look(number * LOOK_NS, glimpses, &known(LIMIT.into()));
        }
        assert_eq!(over_time.take(10 * LOOK_NS)[0].receive.limited, 0.0);
    }

    #[test]
    fn the_kernels_own_count_is_used_where_a_look_shows_nothing() {
        let seen = shown(&known(LIMIT.into()), |glimpse| {
            (glimpse.is_held, glimpse.held_ns) = (false, glimpse.acked / 1_000_000 * LOOK_NS / 4);
        });
        assert!((seen.send.limited - 0.25).abs() < 1e-9, "{seen:?}");
    }

    #[test]
    fn connections_that_are_gone_or_silent_are_left_out() {
        let mut over_time = OverTime::default();
        let known = known(LIMIT.into());
        let silent = || HashMap::from([(Name::Mptcp(7), glimpse(1))]);
        over_time.look(0, silent(), &known);
        over_time.look(LOOK_NS, silent(), &known);
        assert!(over_time.take(LOOK_NS).is_empty());
        over_time.look(2 * LOOK_NS, HashMap::new(), &known);
        assert!(over_time.tracked.is_empty());
    }
}
