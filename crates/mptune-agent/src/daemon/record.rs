//! Records of the daemon's actions with their reasons: stored for readers, and a line each in the journal.

use crate::kernel::sys;
use crate::kernel::sysctl::Values;
use crate::log::{self, visible};
use crate::paths::happening::{Happening, What};
use crate::paths::hosting::Hosting;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Number of records that are stored, the latest.
const STORED: usize = 1000;
/// So many lines in so long a time go to the journal; more are counted.
const LINES: u32 = 50;
const PERIOD_NS: u64 = 1_000_000_000;

/// Something the daemon did, or saw.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Counted from 1 on.
    pub id: u64,
    /// Time, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The action, in a word or two.
    pub what: String,
    /// The reason, in a sentence.
    pub why: String,
    /// The connection.
    pub token: Option<u32>,
    /// The policy.
    pub policy: Option<String>,
    /// The device of the subflow.
    pub device: Option<String>,
    /// This side's end of the subflow.
    pub local: Option<SocketAddr>,
    /// The other.
    pub remote: Option<SocketAddr>,
}

impl Record {
    /// The daemon itself did something, or about one policy.
    pub fn own(policy: Option<&str>, what: &str, why: &str) -> Self {
        let (token, device, local, remote) = (None, None, None, None);
        let (what, why) = (what.to_owned(), visible(&why.replace('\n', " ")));
        let policy = policy.map(str::to_owned);
        Self { id: 0, at_ns: sys::monotonic_ns(), what, why, token, policy, device, local, remote }
    }

    /// Settings that could not be put back, with the reasons.
    pub fn kept(kept: &Values) -> Vec<Self> {
        let record = |(name, reason)| Self::own(None, "kept", &format!("{name}: {reason}"));
        kept.iter().map(record).collect()
    }

    /// The record of an action on a connection; none for the life of connections, of which there may be thousands.
    pub fn of(happening: &Happening, host: &dyn Hosting) -> Option<Self> {
        let what = match happening.what {
            What::Standby => "standby",
            What::Active => "active",
            What::Lost => "lost",
            What::Restored => "restored",
            What::Refused => "refused",
            What::OneFamily => "one family",
            What::Opened | What::Joined | What::Closed => return None,
        };
        let ends = happening.subflow.map(|pair| {
            let (local, remote) = pair.addresses();
            (SocketAddr::new(local, pair.local.port()), SocketAddr::new(remote, pair.remote.port()))
        });
        Some(Self {
            at_ns: happening.at_ns,
            token: Some(happening.token),
            device: ends.and_then(|(local, _)| host.device_of(local.ip())),
            local: ends.map(|(local, _)| local),
            remote: ends.map(|(_, remote)| remote),
            ..Self::own(Some(&happening.policy), what, &happening.why)
        })
    }

    /// As a line of the journal.
    pub fn line(&self) -> String {
        let ends = self.local.zip(self.remote);
        let ends = ends.map(|(local, remote)| format!("{}->{}", local.ip(), remote.ip()));
        let (policy, device) = (self.policy.as_deref(), self.device.as_deref());
        let parts = [policy, ends.as_deref(), device, Some(&self.what)];
        let begin = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if self.why.is_empty() { begin } else { format!("{begin}: {}", self.why) }
    }
}

/// The latest records.
#[derive(Default)]
pub struct Records {
    stored: VecDeque<Record>,
    last: u64,
    period_ns: u64,
    printed: u32,
    omitted: u64,
}

impl Records {
    /// Stores a record and prints it on standard error, which needs no reader.
    pub fn add(&mut self, record: Record) {
        self.last += 1;
        let record = Record { id: self.last, ..record };
        for line in self.lines(&record) {
            log::write(&line);
        }
        self.stored.push_back(record);
        if self.stored.len() > STORED {
            self.stored.pop_front();
        }
    }

    /// Adds several.
    pub fn add_all(&mut self, records: impl IntoIterator<Item = Record>) {
        records.into_iter().for_each(|record| self.add(record));
    }

    /// Lines for the journal: the record, unless there were too many lately, and the number left out before.
    fn lines(&mut self, record: &Record) -> Vec<String> {
        let mut lines = Vec::new();
        if record.at_ns.saturating_sub(self.period_ns) >= PERIOD_NS {
            if self.omitted > 0 {
                lines.push(format!("{} more like these", self.omitted));
            }
            (self.period_ns, self.printed, self.omitted) = (record.at_ns, 0, 0);
        }
        if self.printed < LINES {
            self.printed += 1;
            lines.push(record.line());
        } else {
            self.omitted += 1;
        }
        lines
    }

    /// The number of the latest.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Those after a number that are still kept.
    pub fn since(&self, id: u64) -> Vec<&Record> {
        let first = self.last - self.stored.len() as u64;
        let known = id.saturating_sub(first).min(self.stored.len() as u64);
        self.stored.iter().skip(known as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::pair::Pair;
    use std::net::IpAddr;

    struct Host;

    impl Hosting for Host {
        fn usable_towards(&self, _remote: IpAddr) -> Vec<(String, IpAddr)> {
            Vec::new()
        }

        fn leads(&self, _local: IpAddr, _remote: IpAddr) -> bool {
            true
        }

        fn device_of(&self, _address: IpAddr) -> Option<String> {
            Some("eth2".to_owned())
        }
    }

    #[test]
    fn a_line_has_policy_device_action_and_reason() {
        let pair = Pair {
            local: "[::ffff:10.0.1.2]:40000".parse().unwrap(),
            remote: "[::ffff:10.9.0.1]:443".parse().unwrap(),
        };
        let happening = Happening {
            at_ns: 1,
            token: 7,
            policy: "alice".into(),
            subflow: Some(pair),
            what: What::Standby,
            why: "buffers full 62 %\nof 3 s".to_owned(),
        };
        let record = Record::of(&happening, &Host).unwrap();
        let line = "alice 10.0.1.2->10.9.0.1 eth2 standby: buffers full 62 % of 3 s";
        assert_eq!(record.line(), line);
        let opened = Happening { what: What::Opened, ..happening };
        assert!(Record::of(&opened, &Host).is_none());
        assert_eq!(Record::own(None, "reloaded", "").line(), "reloaded");
        let record = Record::own(None, "kept", "\x1b[2J\u{202e}\rname");
        assert_eq!(record.line(), r"kept: \u{1b}[2J\u{202e}\rname");
    }

    #[test]
    fn only_the_latest_are_stored_and_the_journal_is_not_flooded() {
        let mut records = Records::default();
        let mut printed = 0;
        for index in 0..3000u64 {
            let record =
                Record { at_ns: 5 + index / 2000 * PERIOD_NS, ..Record::own(None, "x", "") };
            printed += records.lines(&record).len();
            records.last += 1;
            records.stored.push_back(Record { id: records.last, ..record });
            if records.stored.len() > STORED {
                records.stored.pop_front();
            }
        }
        assert_eq!(printed, 2 * LINES as usize + 1);
        assert_eq!(records.since(0).len(), STORED);
        assert_eq!(
            records.since(2998).iter().map(|record| record.id).collect::<Vec<_>>(),
            [2999, 3000]
        );
        assert!(records.since(3000).is_empty() && records.since(u64::MAX).is_empty());
    }
}
