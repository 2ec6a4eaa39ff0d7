//! Samples of what a connection has done, for policies that decide by them: what the kernel's counters mean,
//! and which connections are looked at, when.
//!
//! All that a sample has is the kernel's own counting. Reports have one thing more: how long the shared buffers kept a
//! subflow with room from sending. The kernel measures no such time. (`tcpi_sndbuf_limited` is none: a subflow counts
//! as limited by the send buffer while the application of its connection waits for room, which a saturated
//! one always does.) At a look it shows: data that the application has written are handed to no subflow
//! although one has room, so the peer's window has none; or there is no more such data because the send
//! buffer is full ([`Look::holds`]). What a look shows counts for the time since the previous one.
//!
//! The simulated connection measures the same thing exactly (`mptune_core::mptcp`). Where they differ: a look
//! cannot see what is over before the next, and a subflow counts as having nothing to send while less than a
//! segment waits in its queue.
//!
//! Nothing is decided here about subflows, and no clock is read.

use crate::kernel::diag::{Counted, Diag, Single};
use crate::kernel::error::Error;
use crate::kernel::info::{MptcpInfo, TcpInfo};
use crate::kernel::pair::Pair;
use mptune_core::pathmanager::{ConnectionStatistics, SubflowId, SubflowStatistics};
use mptune_core::units::Nanos;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Looks take no more than one part in this many of the time: with many connections they are less frequent, and
/// only some connections get any.
const SHARE: u64 = 500;
/// Time between two looks at a connection. The longest is the interval at which policies want samples.
const SHORTEST_NS: u64 = 20_000_000;
const LONGEST_NS: u64 = 100_000_000;
/// Longest time before a look that the look may stand for.
const LONGEST_GAP_NS: u64 = 300_000_000;
/// First guess of a look's processor time: a connection with three subflows.
const GUESSED_COST_NS: u64 = 60_000;
/// A connection with less than this on its way at every glance of late gets no samples, bytes.
const QUIET: u64 = 4_000;
/// Bytes on their way that another subflow needs, in parts of four, to take the place of one that gets samples.
const LOYALTY: u64 = 6;

/// A subflow at a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubflowLook {
    /// Its number.
    pub id: SubflowId,
    /// One end or the other made it standby.
    pub backup: bool,
    /// Its TCP state.
    pub tcp: TcpInfo,
}

impl SubflowLook {
    /// It could send, but was given nothing to send: less than a segment waits for the rest of it.
    pub fn is_idle(&self) -> bool {
        let tcp = &self.tcp;
        let in_flight = (tcp.unacked + tcp.resent).saturating_sub(tcp.sacked + tcp.lost);
        tcp.timeouts_in_a_row == 0 && tcp.unsent < tcp.mss && in_flight < tcp.cwnd
    }
}

/// Memory of a connection's send buffer, bytes as the kernel accounts for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendMemory {
    /// In use for what the application wrote and the peer has not acknowledged.
    pub used: u32,
    /// Its limit.
    pub limit: u32,
}

impl SendMemory {
    /// From the array of `SK_MEMINFO_*`; nothing of what it lacks.
    pub fn parse(bytes: &[u8]) -> Self {
        let field = |index: usize| {
            let field = bytes.get(4 * index..4 * (index + 1)).unwrap_or(&[0; 4]);
            u32::from_ne_bytes(field.try_into().expect("four bytes"))
        };
        Self { used: field(5), limit: field(3) }
    }

    /// An application that has more to write waits until a third of what is in use has become free
    /// (include/net/sock.h, `sk_stream_min_wspace`).
    pub fn is_full(&self) -> bool {
        self.limit > 0 && u64::from(self.used) * 3 >= u64::from(self.limit) * 2
    }
}

/// Obstacle to sending on a subflow with room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// The peer's, whose window is used up.
    Receive,
    /// This side's, which holds no data that was not handed to subflows.
    Send,
}

/// A connection at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The connection.
    pub connection: MptcpInfo,
    /// Its send buffer.
    pub memory: SendMemory,
    /// Its established subflows.
    pub subflows: Vec<SubflowLook>,
}

impl Look {
    /// Asks the kernel about connections, by their tokens, with their established subflows; none for one that
    /// is gone, or if the kernel reports no connections.
    ///
    /// A connection comes before its subflows: what they could not be given then they still have not, unless
    /// something has changed meanwhile, and then nothing is held against the buffers.
    ///
    /// # Errors
    /// The kernel does not answer such queries.
    pub fn take(
        diag: &mut Diag,
        connections: &[(u32, Vec<(SubflowId, Pair)>)],
    ) -> Result<Vec<Option<Self>>, Error> {
        let (mut sockets, mut owners) = (Vec::new(), Vec::new());
        for (index, (token, established)) in connections.iter().enumerate() {
            sockets.push(Single::Connection(*token));
            owners.push((index, None));
            for (id, pair) in established {
                sockets.push(Single::Subflow(*pair));
                owners.push((index, Some(*id)));
            }
        }
        let mut looks: Vec<Option<Self>> = vec![None; connections.len()];
        diag.count(&sockets, |place, counted| {
            let (index, id) = owners[place];
            match (id, &mut looks[index]) {
                (None, look) => *look = Some(Self::at(&counted)),
                (Some(id), Some(look)) => {
                    let backup = counted.mptcp.is_some_and(|it| it.backup || it.backup_by_peer);
                    let tcp = TcpInfo::parse(counted.info);
                    look.subflows.push(SubflowLook { id, backup, tcp });
                }
                (Some(_), None) => {}
            }
        })?;
        Ok(looks)
    }

    fn at(counted: &Counted<'_>) -> Self {
        Self {
            connection: MptcpInfo::parse(counted.info),
            memory: SendMemory::parse(counted.memory),
            subflows: Vec::new(),
        }
    }

    /// The buffer that keeps a subflow with room from sending, if there is one and one does.
    pub fn holds(&self) -> Option<Buffer> {
        let (sent, acked) = self.bytes()?;
        let active = || self.subflows.iter().filter(|flow| !flow.backup);
        // Without an active one the kernel sends on those on standby.
        let all_on_standby = active().next().is_none();
        let usable = self.subflows.iter().filter(|flow| all_on_standby || !flow.backup);
        let idle = usable.filter(|flow| flow.is_idle()).map(|flow| flow.tcp.mss).min()?;
        let written = self.connection.write_seq.saturating_sub(self.connection.snd_una);
        let waiting = written.saturating_sub(sent.saturating_sub(acked));
        match waiting >= u64::from(idle.max(1)) {
            true => Some(Buffer::Receive),
            false => self.memory.is_full().then_some(Buffer::Send),
        }
    }

    /// Payload bytes handed to subflows, and acknowledged in order; none before Linux 6.5.
    fn bytes(&self) -> Option<(u64, u64)> {
        Some((self.connection.bytes_sent?, self.connection.bytes_acked?))
    }
}

/// Totals of a subflow over all its sockets: one that rejoins begins to count anew.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    before: SubflowStatistics,
    now: SubflowStatistics,
    acked: u64,
}

impl Tally {
    fn note(&mut self, tcp: &TcpInfo) -> SubflowStatistics {
        if tcp.bytes_acked < self.acked {
            self.before = self.total();
            self.now = SubflowStatistics::default();
        }
        self.acked = tcp.bytes_acked;
        let mss = u64::from(tcp.mss);
        // `tcpi_bytes_acked` without the SYN is exact, but silent while a gap is open; what lies beyond the
        // gap is in whole segments. `tcpi_delivered` has both, but counts segments of any size, and twice
        // what arrived twice. A peer may forget what it had beyond the gap; this never shrinks.
        let delivered = tcp.bytes_acked.saturating_sub(1) + u64::from(tcp.sacked) * mss;
        self.now = SubflowStatistics {
            delivered: delivered.max(self.now.delivered),
            retransmitted: tcp.bytes_retransmitted,
            timeouts: tcp.timeouts.map_or(0, u64::from),
            srtt: tcp.srtt_ns,
            window: u64::from(tcp.cwnd) * mss,
            rate: tcp.delivery_rate_bps / 8,
        };
        self.total()
    }

    fn total(&self) -> SubflowStatistics {
        SubflowStatistics {
            delivered: self.before.delivered + self.now.delivered,
            retransmitted: self.before.retransmitted + self.now.retransmitted,
            timeouts: self.before.timeouts + self.now.timeouts,
            ..self.now
        }
    }
}

/// Totals of the looks at a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sampled {
    /// Number of looks.
    looks: u64,
    /// The time that they speak for.
    span_ns: u64,
    /// Part of it in which a buffer kept a subflow with room from sending: the receive buffer,
    receive_limited_ns: u64,
    /// or the send buffer.
    send_limited_ns: u64,
}

/// The counters of one connection, from looks at it.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    sampled: Sampled,
    subflows: HashMap<SubflowId, Tally>,
    looked_ns: Option<u64>,
    sample_ns: u64,
}

impl Meter {
    /// Totals of the connection, if the kernel's look has them.
    pub fn note(&mut self, look: &Look, now_ns: u64) -> Option<ConnectionStatistics> {
        let (sent, acked) = look.bytes().filter(|_| !look.connection.fallback)?;
        let since_ns = now_ns - self.looked_ns.replace(now_ns).unwrap_or(now_ns);
        let spoken_for_ns = since_ns.min(LONGEST_GAP_NS);
        self.sampled.looks += 1;
        self.sampled.span_ns += spoken_for_ns;
        match look.holds() {
            Some(Buffer::Receive) => self.sampled.receive_limited_ns += spoken_for_ns,
            Some(Buffer::Send) => self.sampled.send_limited_ns += spoken_for_ns,
            None => {}
        }
        // The kernel doubles what a program sets.
        Some(ConnectionStatistics { sent, acked, buffer: u64::from(look.memory.limit) / 2 })
    }

    /// Totals of the looks, if there were any.
    pub fn sampled(&self) -> Option<Sampled> {
        self.looked_ns.map(|_| self.sampled)
    }

    /// Totals of a subflow.
    pub fn note_subflow(&mut self, look: &SubflowLook) -> SubflowStatistics {
        self.subflows.entry(look.id).or_default().note(&look.tcp)
    }

    /// A sample is due, half a shortest look early rather than late; the next one is after the interval.
    pub fn is_due(&mut self, now_ns: u64, interval: Nanos) -> bool {
        if now_ns + SHORTEST_NS / 2 < self.sample_ns {
            return false;
        }
        let next_ns = self.sample_ns + interval;
        // Missed looks are not made up for.
        self.sample_ns = if next_ns < now_ns + interval / 2 { now_ns + interval } else { next_ns };
        true
    }
}

/// Connections that get looks, and the times of these.
#[derive(Debug, Default)]
pub struct Schedule {
    /// By token.
    chosen: BTreeSet<u32>,
    /// Recent bytes on their way of each connection that takes samples.
    weights: HashMap<u32, u64>,
    /// The same at the glance that goes on.
    glanced: HashMap<u32, u64>,
    /// Processor time of a look.
    cost_ns: Option<u64>,
    due_ns: u64,
}

impl Schedule {
    /// This many bytes of a connection that wants samples are on their way on one of its subflows.
    pub fn weigh(&mut self, token: u32, bytes: u32) {
        *self.glanced.entry(token).or_default() += u64::from(bytes);
    }

    /// The connection is gone.
    pub fn forget(&mut self, token: u32) {
        self.chosen.remove(&token);
        self.weights.remove(&token);
        self.glanced.remove(&token);
    }

    /// The glance is over: the connections with most on their way get looks from now on, as many as the
    /// time allows.
    pub fn choose(&mut self, now_ns: u64) {
        self.weights.values_mut().for_each(|weight| *weight = *weight * 3 / 4);
        for (token, bytes) in self.glanced.drain() {
            let weight = self.weights.entry(token).or_default();
            *weight = bytes.max(*weight);
        }
        self.weights.retain(|_, weight| *weight >= QUIET);
        let value = |token: u32, weight: u64| {
            if self.chosen.contains(&token) { weight * LOYALTY / 4 } else { weight }
        };
        let weighed = self.weights.iter().map(|(&token, &weight)| (value(token, weight), token));
        let mut weighed: Vec<_> = weighed.collect();
        weighed.sort_unstable_by(|a, b| b.cmp(a));
        weighed
            .truncate(usize::try_from(LONGEST_NS / (SHARE * self.cost_ns())).unwrap_or(1).max(1));
        if self.chosen.is_empty() {
            self.due_ns = now_ns;
        }
        self.chosen = weighed.into_iter().map(|(_, token)| token).collect();
    }

    /// Time of the next looks; none if no connection gets any.
    pub fn due_ns(&self) -> Option<u64> {
        (!self.chosen.is_empty()).then_some(self.due_ns)
    }

    /// The connections to look at now.
    pub fn begin(&mut self, now_ns: u64) -> Vec<u32> {
        if self.due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return Vec::new();
        }
        let needed_ns = self.chosen.len() as u64 * self.cost_ns() * SHARE;
        self.due_ns = now_ns + needed_ns.clamp(SHORTEST_NS, LONGEST_NS);
        self.chosen.iter().copied().collect()
    }

    /// The looks at this many connections took this much processor time.
    pub fn end(&mut self, connections: usize, cpu_ns: u64) {
        if let Some(each_ns) = cpu_ns.checked_div(connections as u64) {
            self.cost_ns = Some((7 * self.cost_ns() + each_ns) / 8);
        }
    }

    fn cost_ns(&self) -> u64 {
        self.cost_ns.unwrap_or(GUESSED_COST_NS).max(1)
    }
}

#[cfg(test)]
mod tests;
