//! The subflows of a connection over time, as seen by one of its ends.
//!
//! The kernel forgets a subflow when it closes; its last known state is kept here.

use crate::kernel::address;
use crate::kernel::diag::{Counted, Diag, Single};
use crate::kernel::info::{SubflowInfo, TcpInfo};
use crate::kernel::pair::Pair;
use crate::meter::bins::Bins;
use serde::Serialize;
use std::net::SocketAddr;

/// One subflow as last seen by one end.
#[derive(Debug, Clone)]
struct Entry {
    info: SubflowInfo,
    received: Bins,
    closed: bool,
    diag: SubflowDiag,
    /// Bytes that arrived on it and are no payload.
    left_out: u64,
}

/// Priority, address numbers and congestion control of a subflow, which `MPTCP_FULL_INFO` has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SubflowDiag {
    /// Carries no data while a non-backup subflow is alive; none for plain TCP.
    backup: Option<bool>,
    cc: Option<String>,
    local_id: Option<u8>,
    remote_id: Option<u8>,
}

impl SubflowDiag {
    /// None if there is no such socket, or if it does not answer.
    fn ask(diag: &mut Diag, info: &SubflowInfo) -> Option<Self> {
        let (mut subflow, pair) = (None, Pair { local: info.local, remote: info.remote });
        let asked =
            diag.count(&[Single::Subflow(pair)], |_, counted| subflow = Some(Self::new(&counted)));
        asked.ok().and(subflow)
    }

    fn new(counted: &Counted<'_>) -> Self {
        let cc = String::from_utf8_lossy(counted.cc);
        Self {
            // Either end keeps this end's scheduler off it (net/mptcp/protocol.c, `mptcp_subflow_get_send`).
            backup: counted.mptcp.map(|mptcp| mptcp.backup || mptcp.backup_by_peer),
            cc: (!cc.is_empty()).then(|| cc.trim_end_matches('\0').to_owned()),
            local_id: counted.mptcp.map(|mptcp| mptcp.local_id),
            remote_id: counted.mptcp.map(|mptcp| mptcp.remote_id),
        }
    }
}

/// The kernel's number of a subflow, 0 if it has none, and its ends.
type Key = (u32, SocketAddr, SocketAddr);

fn key(info: &SubflowInfo) -> Key {
    (info.id, info.local, info.remote)
}

/// All subflows that one end ever saw, in order of appearance.
#[derive(Debug, Clone)]
pub struct Ledger {
    bin_ns: u64,
    entries: Vec<Entry>,
    left_out: Option<(Key, u64)>,
}

impl Ledger {
    /// No subflow yet.
    pub fn new(bin_ns: u64) -> Self {
        Self { bin_ns, entries: Vec::new(), left_out: None }
    }

    /// The first bytes that arrive on a subflow, which was not added before, are no payload.
    pub fn leave_out(&mut self, info: &SubflowInfo, bytes: u64) {
        self.left_out = Some((key(info), bytes));
    }

    /// Adds the current subflows; what was received on them since the last call falls into the bin
    /// of `at_ns`.
    pub fn update(&mut self, at_ns: u64, subflows: &[SubflowInfo]) {
        let places: Vec<_> = subflows.iter().map(|info| self.place(info)).collect();
        for entry in &mut self.entries {
            entry.closed = true;
        }
        for (info, place) in subflows.iter().zip(places) {
            let entry = &mut self.entries[place];
            let before = entry.info.tcp.bytes_received;
            let payload = info.tcp.bytes_received.saturating_sub(entry.left_out);
            let tcp = TcpInfo { bytes_received: payload, ..info.tcp };
            entry.info = SubflowInfo { tcp, ..entry.info };
            entry.received.add(at_ns, payload.saturating_sub(before));
            entry.closed = false;
        }
    }

    /// Number of the entry of `info`, created with nothing received if there is none. A subflow without a number gets
    /// its place in the order of appearance; between the ends of one that has closed it is another.
    fn place(&mut self, info: &SubflowInfo) -> usize {
        let same = |entry: &Entry| match info.id {
            0 => {
                !entry.closed && (entry.info.local, entry.info.remote) == (info.local, info.remote)
            }
            _ => key(&entry.info) == key(info),
        };
        let left_out = self.left_out.filter(|(subflow, _)| *subflow == key(info));
        self.entries.iter().position(same).unwrap_or_else(|| {
            let place = self.entries.len();
            let id = if info.id == 0 { place as u32 + 1 } else { info.id };
            self.entries.push(Entry {
                info: SubflowInfo { id, tcp: TcpInfo::default(), ..*info },
                received: Bins::new(self.bin_ns),
                closed: false,
                diag: SubflowDiag::default(),
                left_out: left_out.map_or(0, |(_, bytes)| bytes),
            });
            place
        })
    }

    /// The subflow that was seen first.
    pub fn first(&self) -> Option<SubflowInfo> {
        self.entries.first().map(|entry| entry.info)
    }

    /// The subflows that are open, as last seen.
    pub fn open(&self) -> impl Iterator<Item = &SubflowInfo> {
        self.entries.iter().filter(|entry| !entry.closed).map(|entry| &entry.info)
    }

    /// Payload bytes that ever left on any subflow, without retransmissions on the same one.
    pub fn sent(&self) -> u64 {
        let first_time = |tcp: TcpInfo| tcp.bytes_sent.saturating_sub(tcp.bytes_retransmitted);
        self.entries.iter().map(|entry| first_time(entry.info.tcp)).sum()
    }

    /// Asks about every open subflow; without an answer the last one is kept.
    pub fn diagnose(&mut self, diag: &mut Diag) {
        self.ask(diag, |_| true);
    }

    /// The same about those whose addresses have no numbers yet, which never change.
    pub fn identify(&mut self, diag: &mut Diag) {
        self.ask(diag, |entry| entry.diag.local_id.is_none());
    }

    fn ask(&mut self, diag: &mut Diag, asks: impl Fn(&Entry) -> bool) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.closed && asks(entry)) {
            if let Some(diag_of_subflow) = SubflowDiag::ask(diag, &entry.info) {
                entry.diag = diag_of_subflow;
            }
        }
    }
}

/// One subflow as reported by one end; each end is the local one in its own report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubflowReport {
    /// Own address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Payload bytes this end got on it in subflow sequence, reinjected ones included.
    pub bytes: u64,
    /// The same over time.
    pub bins: Vec<u64>,
    /// Smoothed RTT, nanoseconds.
    pub srtt_ns: u64,
    /// Smallest RTT, nanoseconds.
    pub min_rtt_ns: u64,
    /// Retransmission timeout at the end, with back-off, nanoseconds.
    pub rto_ns: u64,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Retransmission timeouts, including those of the handshake; none before Linux 6.7.
    pub timeouts: Option<u16>,
    /// Congestion window at the end, segments.
    pub cwnd: u32,
    /// It was a backup subflow at the end; none for plain TCP, or if not queried.
    pub backup: Option<bool>,
    /// Its congestion control; none if not queried.
    pub cc: Option<String>,
    /// It ended before the measurement did.
    pub closed: bool,
    /// Probes in a row without an answer at the end.
    pub probes: u8,
    /// The number of its local address; none for plain TCP.
    pub local_id: Option<u8>,
    /// The number of its remote address; the peer's own is the other way round, whatever addresses it sees.
    pub remote_id: Option<u8>,
    /// Time with data to send or unacknowledged, nanoseconds.
    pub busy_ns: u64,
    /// Part of it limited by the peer's receive window.
    pub rwnd_limited_ns: u64,
    /// Part of it limited by the send buffer.
    pub sndbuf_limited_ns: u64,
}

impl Ledger {
    /// The subflows until `end_ns`, in order of appearance.
    pub fn reports(&self, end_ns: u64) -> Vec<SubflowReport> {
        self.entries.iter().map(|entry| entry.report(end_ns)).collect()
    }
}

impl Entry {
    fn report(&self, end_ns: u64) -> SubflowReport {
        let (tcp, diag) = (self.info.tcp, self.diag.clone());
        SubflowReport {
            local: address::canonical(self.info.local),
            remote: address::canonical(self.info.remote),
            bytes: tcp.bytes_received,
            bins: self.received.until(end_ns),
            srtt_ns: tcp.srtt_ns,
            min_rtt_ns: tcp.min_rtt_ns,
            rto_ns: tcp.rto_ns,
            retransmitted: tcp.retransmitted,
            timeouts: tcp.timeouts,
            cwnd: tcp.cwnd,
            backup: diag.backup,
            cc: diag.cc,
            closed: self.closed,
            probes: tcp.probes,
            local_id: diag.local_id,
            remote_id: diag.remote_id,
            busy_ns: tcp.busy_ns,
            rwnd_limited_ns: tcp.rwnd_limited_ns,
            sndbuf_limited_ns: tcp.sndbuf_limited_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: u32, local: &str, remote: &str, bytes_received: u64) -> SubflowInfo {
        let tcp = TcpInfo { bytes_received, cwnd: 10 * id, ..TcpInfo::default() };
        SubflowInfo { id, local: local.parse().unwrap(), remote: remote.parse().unwrap(), tcp }
    }

    fn ledger(samples: &[(u64, &[SubflowInfo])]) -> Ledger {
        let mut ledger = Ledger::new(100);
        for (at_ns, subflows) in samples {
            ledger.update(*at_ns, subflows);
        }
        ledger
    }

    const S: [&str; 2] = ["10.64.0.1:4000", "10.64.1.1:4001"];
    const R: [&str; 2] = ["10.65.0.1:5000", "10.65.1.1:5000"];

    #[test]
    fn what_arrives_falls_into_its_bin() {
        let ledger = ledger(&[
            (100, &[info(2, S[1], R[1], 7), info(1, S[0], R[0], 5)]),
            (200, &[info(2, S[1], R[1], 9), info(1, S[0], R[0], 6)]),
        ]);
        let reports = ledger.reports(250);
        let flows: Vec<_> =
            reports.iter().map(|flow| (flow.cwnd, flow.bytes, &flow.bins[..])).collect();
        assert_eq!(flows, [(20, 9, &[7, 2, 0][..]), (10, 6, &[5, 1, 0][..])]);
    }

    #[test]
    fn what_is_no_payload_is_left_out_of_its_subflow_alone() {
        let first = info(1, S[0], R[0], 21);
        let mut ledger = Ledger::new(100);
        ledger.leave_out(&first, 16);
        ledger.update(100, &[info(1, S[0], R[0], 9), info(2, S[1], R[1], 7)]);
        ledger.update(200, &[first, info(2, S[1], R[1], 7)]);
        let reports = ledger.reports(200);
        let flows: Vec<_> = reports.iter().map(|flow| (flow.bytes, &flow.bins[..])).collect();
        assert_eq!(flows, [(5, &[0, 5][..]), (7, &[7, 0][..])]);
    }

    #[test]
    fn a_closed_subflow_keeps_its_last_numbers() {
        let reports = ledger(&[(100, &[info(1, S[0], R[0], 5)]), (200, &[])]).reports(200);
        assert!(reports[0].closed);
        assert_eq!((reports[0].cwnd, reports[0].bytes), (10, 5));
    }

    #[test]
    fn a_second_subflow_between_the_same_ports_is_another() {
        let samples = [(100, &[info(1, S[0], R[0], 5)][..]), (200, &[info(3, S[0], R[0], 4)][..])];
        let reports = ledger(&samples).reports(200);
        let flows: Vec<_> = reports.iter().map(|flow| (flow.cwnd, &flow.bins[..])).collect();
        assert_eq!(flows, [(10, &[5, 0][..]), (30, &[0, 4][..])]);
    }

    #[test]
    fn subflows_without_numbers_are_told_apart_by_their_ends() {
        let (first, second) = (info(0, S[0], R[0], 5), info(0, S[1], R[1], 3));
        let ledger = ledger(&[
            (100, &[first, second]),
            (200, &[info(0, S[1], R[1], 7)]),
            (300, &[info(0, S[1], R[1], 7), info(0, S[0], R[0], 2)]),
        ]);
        let reports = ledger.reports(300);
        let flows: Vec<_> = reports.iter().map(|flow| (flow.closed, &flow.bins[..])).collect();
        let expected = [(true, &[5, 0, 0][..]), (false, &[3, 4, 0][..]), (false, &[0, 0, 2][..])];
        assert_eq!(flows, expected);
        assert_eq!(ledger.open().map(|info| info.id).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn what_a_closed_subflow_sent_stays_sent() {
        let sent = |mut info: SubflowInfo, bytes_sent, bytes_retransmitted| {
            info.tcp = TcpInfo { bytes_sent, bytes_retransmitted, ..info.tcp };
            info
        };
        let (first, second) = (info(1, S[0], R[0], 0), info(2, S[1], R[1], 0));
        let both = [sent(first, 100, 10), sent(second, 50, 0)];
        assert_eq!(ledger(&[(100, &both), (200, &[sent(second, 70, 5)])]).sent(), 90 + 65);
    }
}
