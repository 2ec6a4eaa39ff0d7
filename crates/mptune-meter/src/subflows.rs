//! The subflows of a connection over time, as its two ends see them, joined to one list.
//!
//! An end forgets a subflow when it closes; what was last known of it stays here.

use crate::bins::Bins;
use crate::diag::SubflowDiag;
use crate::info::{SubflowInfo, TcpInfo};
use serde::Serialize;
use std::net::IpAddr;

/// One subflow as one end saw it last.
#[derive(Debug, Clone)]
struct Entry {
    info: SubflowInfo,
    received: Bins,
    closed: bool,
    diag: SubflowDiag,
}

/// All subflows that one end ever saw, in the order of their appearance.
#[derive(Debug, Clone)]
pub struct Ledger {
    bin_ns: u64,
    entries: Vec<Entry>,
}

impl Ledger {
    /// No subflow yet.
    pub fn new(bin_ns: u64) -> Self {
        Self { bin_ns, entries: Vec::new() }
    }

    /// Takes in the subflows there are; what was received on them since the last time falls into
    /// the bin of `at_ns`.
    pub fn update(&mut self, at_ns: u64, subflows: &[SubflowInfo]) {
        for entry in &mut self.entries {
            entry.closed = true;
        }
        for info in subflows {
            let entry = self.entry(info);
            let before = entry.info.tcp.bytes_received;
            entry.received.add(at_ns, info.tcp.bytes_received.saturating_sub(before));
            entry.info = *info;
            entry.closed = false;
        }
    }

    /// The entry of `info`, made if there is none: with nothing received so far.
    fn entry(&mut self, info: &SubflowInfo) -> &mut Entry {
        let same = |entry: &Entry| {
            (entry.info.id, entry.info.local, entry.info.remote)
                == (info.id, info.local, info.remote)
        };
        let index = self.entries.iter().position(same).unwrap_or_else(|| {
            self.entries.push(Entry {
                info: SubflowInfo { tcp: TcpInfo::default(), ..*info },
                received: Bins::new(self.bin_ns),
                closed: false,
                diag: SubflowDiag::default(),
            });
            self.entries.len() - 1
        });
        &mut self.entries[index]
    }

    /// Payload bytes that ever left on some subflow, each repetition on the same one left out.
    pub fn sent(&self) -> u64 {
        let first_time = |tcp: TcpInfo| tcp.bytes_sent.saturating_sub(tcp.bytes_retransmitted);
        self.entries.iter().map(|entry| first_time(entry.info.tcp)).sum()
    }

    /// Asks `diag` about every subflow that is not closed; no answer leaves the last one.
    pub fn diagnose(&mut self, mut diag: impl FnMut(&SubflowInfo) -> Option<SubflowDiag>) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.closed) {
            if let Some(found) = diag(&entry.info) {
                entry.diag = found;
            }
        }
    }
}

/// One subflow in the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubflowReport {
    /// The sender's address.
    pub local: IpAddr,
    /// The receiver's address.
    pub remote: IpAddr,
    /// The sender's port.
    pub local_port: u16,
    /// The receiver's port.
    pub remote_port: u16,
    /// Payload bytes the receiver got on it in its own sequence, reinjected ones included.
    pub bytes: u64,
    /// The same over time.
    pub bins: Vec<u64>,
    /// Smoothed RTT at the sender, nanoseconds.
    pub srtt_ns: u64,
    /// Smallest RTT at the sender, nanoseconds.
    pub min_rtt_ns: u64,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Retransmission timeouts, those of the handshake included; none before Linux 6.7.
    pub timeouts: Option<u16>,
    /// Congestion window at the end, segments.
    pub cwnd: u32,
    /// It was a backup subflow at the end; none for plain TCP.
    pub backup: Option<bool>,
    /// Its congestion control.
    pub cc: Option<String>,
    /// It ended before the measurement did.
    pub closed: bool,
    /// Probes in a row without an answer at the end.
    #[serde(skip)]
    pub probes: u8,
}

/// Joins what both ends saw until `end_ns`, in the order in which the sender saw it. A subflow only
/// one end knew, because it was gone before the other looked, has zeros for what the other would
/// have told.
pub fn join(sender: Ledger, receiver: Ledger, end_ns: u64) -> Vec<SubflowReport> {
    let mut received: Vec<_> = receiver.entries.into_iter().map(Some).collect();
    let mut reports = Vec::new();
    for entry in sender.entries {
        // Addresses and ports may come again after a subflow closed; both ends see the same order.
        let other = received.iter_mut().find(|other| {
            let info = other.as_ref().map(|other| other.info);
            info.is_some_and(|info| {
                (info.local, info.remote) == (entry.info.remote, entry.info.local)
            })
        });
        let other = other.and_then(Option::take);
        reports.push(report(entry.info, Some(&entry), other, end_ns));
    }
    for other in received.into_iter().flatten() {
        let info = SubflowInfo { local: other.info.remote, remote: other.info.local, ..other.info };
        reports.push(report(info, None, Some(other), end_ns));
    }
    reports
}

fn report(
    ends: SubflowInfo,
    sender: Option<&Entry>,
    receiver: Option<Entry>,
    end_ns: u64,
) -> SubflowReport {
    let tcp = sender.map(|entry| entry.info.tcp).unwrap_or_default();
    let diag = sender.map(|entry| entry.diag.clone()).unwrap_or_default();
    SubflowReport {
        local: ends.local.ip(),
        remote: ends.remote.ip(),
        local_port: ends.local.port(),
        remote_port: ends.remote.port(),
        bytes: receiver.as_ref().map_or(0, |entry| entry.info.tcp.bytes_received),
        bins: receiver.map_or_else(Vec::new, |entry| entry.received.until(end_ns)),
        srtt_ns: tcp.srtt_ns,
        min_rtt_ns: tcp.min_rtt_ns,
        retransmitted: tcp.retransmitted,
        timeouts: tcp.timeouts,
        cwnd: tcp.cwnd,
        backup: diag.backup,
        cc: diag.cc,
        closed: sender.is_none_or(|entry| entry.closed),
        probes: tcp.probes,
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
    fn ends_are_joined_by_their_addresses() {
        let sender = ledger(&[(100, &[info(1, S[0], R[0], 0), info(2, S[1], R[1], 0)])]);
        let receiver = ledger(&[
            (100, &[info(2, R[1], S[1], 7), info(1, R[0], S[0], 5)]),
            (200, &[info(2, R[1], S[1], 9), info(1, R[0], S[0], 6)]),
        ]);
        let joined = join(sender, receiver, 250);
        let found: Vec<_> =
            joined.iter().map(|flow| (flow.cwnd, flow.bytes, &flow.bins[..])).collect();
        assert_eq!(found, [(10, 6, &[5, 1, 0][..]), (20, 9, &[7, 2, 0][..])]);
    }

    #[test]
    fn a_closed_subflow_keeps_its_last_numbers() {
        let sender = ledger(&[(100, &[info(1, S[0], R[0], 0)]), (200, &[])]);
        let receiver = ledger(&[(100, &[info(1, R[0], S[0], 5)]), (200, &[])]);
        let joined = join(sender, receiver, 200);
        assert!(joined[0].closed);
        assert_eq!((joined[0].cwnd, joined[0].bytes), (10, 5));
    }

    #[test]
    fn a_second_subflow_between_the_same_ports_is_another() {
        let sender = ledger(&[(100, &[info(1, S[0], R[0], 0)]), (200, &[info(3, S[0], R[0], 0)])]);
        let receiver =
            ledger(&[(100, &[info(1, R[0], S[0], 5)]), (200, &[info(2, R[0], S[0], 4)])]);
        let joined = join(sender, receiver, 200);
        let found: Vec<_> = joined.iter().map(|flow| (flow.cwnd, &flow.bins[..])).collect();
        assert_eq!(found, [(10, &[5, 0][..]), (30, &[0, 4][..])]);
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

    #[test]
    fn a_subflow_that_one_end_missed_is_kept() {
        let sender = ledger(&[(100, &[info(1, S[0], R[0], 0)])]);
        let receiver = ledger(&[(100, &[info(1, R[1], S[1], 5)])]);
        let joined = join(sender, receiver, 100);
        let ends: Vec<_> = joined.iter().map(|flow| (flow.local_port, flow.bytes)).collect();
        assert_eq!(ends, [(4000, 0), (4001, 5)]);
        assert_eq!(joined[1].remote.to_string(), "10.65.1.1");
    }
}
