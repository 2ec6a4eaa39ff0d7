//! Counters of a network namespace that show why a connection stalls.
//!
//! /proc/thread-self/net/netstat: pairs of lines, names and values, with the same prefix (Linux
//! net/ipv4/proc.c, net/mptcp/mib.c).

use std::collections::BTreeMap;

/// Counters reported when they increased: segments dropped or pruned for lack of receive memory,
/// windows closed and probed, timeouts, and what MPTCP's own receive window did. TCP and MPTCP share `RcvPruned`.
const WATCHED: &[&str] = &[
    "TCPRcvQDrop",
    "TCPZeroWindowDrop",
    "TCPToZeroWindowAdv",
    "TCPWantZeroWindowAdv",
    "TCPBacklogDrop",
    "TCPOFODrop",
    "PruneCalled",
    "RcvPruned",
    "OfoPruned",
    "TCPTimeouts",
    "RcvWndShared",
    "RcvWndConflict",
    "RcvWndConflictUpdate",
    "MPTCPRetrans",
    "NoDSSInWindow",
    "BacklogDrop",
    "OFOPruned",
    "MPFailRx",
    "SubflowStale",
    "SubflowRecover",
];

/// Values by name.
pub type Counters = BTreeMap<&'static str, u64>;

/// The watched counters of the calling thread's network namespace.
fn read() -> Counters {
    parse(&std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default())
}

fn parse(netstat: &str) -> Counters {
    let lines: Vec<_> = netstat.lines().collect();
    let mut counters = Counters::new();
    for pair in lines.chunks_exact(2) {
        for (name, value) in pair[0].split_whitespace().zip(pair[1].split_whitespace()) {
            if let Some(name) = WATCHED.iter().find(|watched| **watched == name) {
                *counters.entry(name).or_default() += value.parse().unwrap_or(0);
            }
        }
    }
    counters
}

/// By how much each counter increased; unchanged ones are left out.
fn moved(before: &Counters, after: &Counters) -> Counters {
    let delta = |(name, value): (&&'static str, &u64)| {
        (*name, value - before.get(name).copied().unwrap_or(0).min(*value))
    };
    after.iter().map(delta).filter(|(_, moved)| *moved > 0).collect()
}

/// The counters of the calling thread's namespace over a measurement.
#[derive(Debug, Default)]
pub struct Recorder {
    start: Counters,
    at_progress: Counters,
    progress_ns: u64,
}

/// By how much the counters increased.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// During the whole measurement.
    pub whole: Counters,
    /// Since the connection last made progress, or a little later.
    pub since_progress: Counters,
}

impl Recorder {
    /// Counts from now on.
    pub fn new() -> Self {
        let start = read();
        Self { at_progress: start.clone(), start, progress_ns: 0 }
    }

    /// Reads again if the connection made progress, at `progress_ns`, since the last reading.
    pub fn look(&mut self, progress_ns: u64) {
        if progress_ns != self.progress_ns {
            (self.at_progress, self.progress_ns) = (read(), progress_ns);
        }
    }

    /// Counters that have increased up to now.
    pub fn moved(&self) -> Moved {
        let now = read();
        Moved { whole: moved(&self.start, &now), since_progress: moved(&self.at_progress, &now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "TcpExt: SyncookiesSent TCPTimeouts TCPRcvQDrop\nTcpExt: 9 4 0\n\
                          MPTcpExt: MPCapableSYNRX RcvWndShared\nMPTcpExt: 1 2\n";
    const AFTER: &str = "TcpExt: SyncookiesSent TCPTimeouts TCPRcvQDrop\nTcpExt: 11 4 12\n\
                         MPTcpExt: MPCapableSYNRX RcvWndShared\nMPTcpExt: 1 5\n";

    #[test]
    fn increases_are_reported() {
        let moved = moved(&parse(BEFORE), &parse(AFTER));
        assert_eq!(moved, Counters::from([("RcvWndShared", 3), ("TCPRcvQDrop", 12)]));
    }

    #[test]
    fn a_name_that_tcp_and_mptcp_share_counts_both() {
        let both =
            parse("TcpExt: RcvPruned\nTcpExt: 3\nMPTcpExt: OFOPruned RcvPruned\nMPTcpExt: 7 4\n");
        assert_eq!(both, Counters::from([("OFOPruned", 7), ("RcvPruned", 7)]));
    }

    #[test]
    fn unreadable_counters_report_nothing() {
        assert!(moved(&parse(""), &parse("TcpExt: a")).is_empty());
    }

    #[test]
    fn this_machine_counts_timeouts() {
        assert!(read().contains_key("TCPTimeouts"));
    }
}
