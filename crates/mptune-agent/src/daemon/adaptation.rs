//! Adaptation of the limits of the buffers: the rule of `mptune_core::limits`, with what it needs to see and what it
//! decides. It sets `net.ipv4.tcp_wmem` and `net.ipv4.tcp_rmem`, by the watchdog's journal alone.
//!
//! The limits are those of the network namespace: all destinations share them, so the one that needs most decides.
//! The kernel lets living buffers grow up to a limit that has risen, and shrinks none when it falls.

use super::buffers::Buffers;
use super::error::Error;
use super::looks::{Known, Looks, Shown};
use super::policy::Plan;
use super::record::Record;
use super::status::{BuffersStatus, LimitStatus};
use super::watchdog::Watchdog;
use crate::kernel::sys;
use crate::kernel::sysctl::{self as settings, Values};
use crate::undo::places;
use mptune_core::limits::{Destination, Rule, Seen, Side, size};
use std::io;

/// Time between two looks, nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Looks take no more than this fraction of a processor.
const SHARE: u64 = 300;
/// An interval has at least this many looks.
const LOOKS: u32 = 5;

/// The settings, with the buffers whose limits they have.
const SETTINGS: [(Side, &str); 2] =
    [(Side::Send, "net.ipv4.tcp_wmem"), (Side::Receive, "net.ipv4.tcp_rmem")];

/// One limit.
struct Limit {
    side: Side,
    name: &'static str,
    rule: Rule,
    /// Smallest and first size of a buffer, as they were; none is set above the limit.
    lower: [u64; 2],
    /// The three values as they were read or set; others are somebody else's.
    known: [u64; 3],
    /// The limit when the daemon came.
    before: u64,
    why: String,
    policy: Option<String>,
    /// The reason why it is no longer adapted.
    resigned: Option<String>,
}

impl Limit {
    fn read(side: Side, name: &'static str, buffers: &Buffers) -> Result<Self, Error> {
        let known @ [smallest, first, limit] = present(name)?;
        Ok(Self {
            side,
            name,
            rule: Rule::new(side, buffers.bounds, limit),
            lower: [smallest, first],
            known,
            before: limit,
            why: "as it was".to_owned(),
            policy: None,
            resigned: None,
        })
    }

    /// The three values of the setting with this limit.
    fn values(&self, limit: u64) -> [u64; 3] {
        let [smallest, first] = self.lower.map(|lower| lower.min(limit));
        [smallest, first, limit]
    }

    /// What somebody has set it to, in words, if this is none of ours.
    fn overruled(&self, found: [u64; 3]) -> Option<String> {
        if found == self.known {
            return None;
        }
        let [smallest, first, limit] = found.map(size);
        let is_lower = found[2] == self.known[2];
        let to = if is_lower { format!("{smallest} {first} {limit}") } else { limit };
        Some(format!("somebody has set it to {to}; it stays so until a reload"))
    }

    /// The same limit before a reload: its lower values are those that it had then, unless somebody has set them.
    fn take_over(&mut self, old: &Self) {
        self.before = old.before;
        if self.lower == old.known[..2] {
            self.lower = old.lower;
        }
    }

    fn status(&self) -> LimitStatus {
        LimitStatus {
            name: self.name,
            limit_bytes: self.rule.limit(),
            before_bytes: self.before,
            policy: self.policy.clone(),
            why: self.resigned.clone().unwrap_or_else(|| self.why.clone()),
            adapted: self.resigned.is_none(),
        }
    }
}

/// The three values of a setting.
fn present(name: &str) -> io::Result<[u64; 3]> {
    let file = settings::file(&places::sysctl_root(), name).map_err(io::Error::other)?;
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    let text = settings::read(&file).map_err(named)?;
    let values: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let three = values.and_then(|values| <[u64; 3]>::try_from(values).ok());
    three.ok_or_else(|| {
        io::Error::other(format!("{name}: expected three numbers, found {:?}", text.trim()))
    })
}

/// The limits, adapted as far as the policy file allows it.
pub struct Adaptation {
    work: Option<Work>,
}

impl Adaptation {
    /// With the limits that are in force.
    ///
    /// # Errors
    /// The kernel has no such settings, or no socket statistics. Nothing is changed.
    pub fn begin(buffers: Option<&Buffers>) -> Result<Self, Error> {
        Ok(Self { work: buffers.map(Work::begin).transpose()? })
    }

    /// The file was read again: the same limits under other bounds, and those that were given up are taken up; or
    /// all are put back. Returns records of that.
    ///
    /// # Errors
    /// As [`Self::begin`], or the journal cannot be written. Everything is as before.
    pub fn follow(
        &mut self,
        buffers: Option<&Buffers>,
        watchdog: &mut Watchdog,
    ) -> Result<Vec<Record>, Error> {
        let mut renewed = buffers.map(Work::begin).transpose()?;
        let mut records = Vec::new();
        match (&self.work, &mut renewed) {
            (Some(old), Some(new)) => new.take_over(old),
            (Some(old), None) => records = Record::kept(&watchdog.put_back(&old.names())?.kept),
            (None, _) => {}
        }
        self.work = renewed;
        records.extend(self.within_bounds(watchdog));
        Ok(records)
    }

    /// Brings limits that are outside the bounds within them. Returns records of that.
    pub fn within_bounds(&mut self, watchdog: &mut Watchdog) -> Vec<Record> {
        self.work.as_mut().map_or_else(Vec::new, |work| work.within_bounds(watchdog))
    }

    /// When the next look is due, CLOCK_MONOTONIC.
    pub fn due_ns(&self) -> u64 {
        self.work.as_ref().map_or(u64::MAX, |work| work.look_at_ns)
    }

    /// Does what is due: a look, and at the end of an interval the rule. Returns records of changes.
    pub fn step(&mut self, now_ns: u64, plan: &Plan, watchdog: &mut Watchdog) -> Vec<Record> {
        let due = self.work.as_mut().filter(|work| now_ns >= work.look_at_ns);
        due.map_or_else(Vec::new, |work| work.step(now_ns, plan, watchdog))
    }

    /// For readers; none if the file does not allow it.
    pub fn status(&self) -> Option<BuffersStatus> {
        self.work.as_ref().map(Work::status)
    }
}

/// The limits while they are adapted.
struct Work {
    buffers: Buffers,
    limits: Vec<Limit>,
    looks: Looks,
    known: Known,
    look_at_ns: u64,
    looked: u32,
    began_ns: u64,
}

impl Work {
    fn begin(buffers: &Buffers) -> Result<Self, Error> {
        let read = |(side, name)| Limit::read(side, name, buffers);
        let limits = SETTINGS.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let now_ns = sys::monotonic_ns();
        let mut work = Self {
            buffers: buffers.clone(),
            limits,
            looks: Looks::open()?,
            known: Known::default(),
            look_at_ns: now_ns,
            looked: 0,
            began_ns: now_ns,
        };
        work.note_known();
        Ok(work)
    }

    fn take_over(&mut self, old: &Self) {
        for (limit, old) in self.limits.iter_mut().zip(&old.limits) {
            limit.take_over(old);
        }
        self.known.send.known.extend(&old.known.send.known);
        self.known.receive.known.extend(&old.known.receive.known);
    }

    fn names(&self) -> Vec<String> {
        self.limits.iter().map(|limit| limit.name.to_owned()).collect()
    }

    fn step(&mut self, now_ns: u64, plan: &Plan, watchdog: &mut Watchdog) -> Vec<Record> {
        let spent_ns = sys::thread_cpu_ns();
        let mut records = Vec::new();
        // A failed look is none: the interval gets longer.
        if self.looks.look(now_ns, &self.known).is_ok() {
            self.looked += 1;
        }
        let passed_ns = now_ns.saturating_sub(self.began_ns);
        if passed_ns >= self.buffers.every_ns && self.looked > LOOKS {
            let shown = self.looks.take(passed_ns);
            (self.began_ns, self.looked) = (now_ns, 1);
            records.extend(self.decide(&shown, plan, watchdog));
        }
        let cost_ns = sys::thread_cpu_ns() - spent_ns;
        self.look_at_ns = now_ns + LOOK_NS.max(cost_ns * SHARE);
        records
    }

    fn within_bounds(&mut self, watchdog: &mut Watchdog) -> Vec<Record> {
        let mut records = Vec::new();
        for limit in &mut self.limits {
            let wanted = limit.rule.limit();
            if limit.resigned.is_none() && present(limit.name).is_ok_and(|now| now[2] != wanted) {
                let why = format!("{} was outside the bounds", size(limit.before));
                records.push(set(limit, limit.before, why, None, watchdog));
            }
        }
        self.note_known();
        records
    }

    fn decide(&mut self, shown: &[Shown], plan: &Plan, watchdog: &mut Watchdog) -> Vec<Record> {
        let mut records = Vec::new();
        for limit in &mut self.limits {
            let before = limit.rule.limit();
            if limit.resigned.is_some() {
                continue;
            }
            let overruled = present(limit.name).ok().and_then(|found| limit.overruled(found));
            if let Some(why) = overruled {
                limit.resigned = Some(why.clone());
                let line = format!("{}: {why}", limit.name);
                records.push(Record::own(None, "overruled", &line));
                continue;
            }
            let seen = by_destination(shown, plan, limit.side);
            let destinations: Vec<_> = plan
                .rules
                .iter()
                .zip(&seen)
                .map(|(rule, seen)| Destination {
                    // A run measures what it sends.
                    curve: rule.curve.as_ref().filter(|_| limit.side == Side::Send),
                    seen,
                })
                .collect();
            let verdict = limit.rule.step(&destinations);
            let policy = verdict.destination.map(|place| plan.rules[place].name.to_string());
            if verdict.limit == before {
                (limit.why, limit.policy) = (verdict.why, policy);
            } else {
                records.push(set(limit, before, verdict.why, policy, watchdog));
            }
        }
        self.note_known();
        records
    }

    fn note_known(&mut self) {
        for limit in &self.limits {
            let known = match limit.side {
                Side::Send => &mut self.known.send,
                Side::Receive => &mut self.known.receive,
            };
            known.present = limit.rule.limit();
            known.known.extend([limit.before, known.present]);
        }
    }

    fn status(&self) -> BuffersStatus {
        BuffersStatus {
            least_bytes: self.buffers.bounds.least,
            most_bytes: self.buffers.bounds.most,
            target: self.buffers.bounds.target,
            every_ns: self.buffers.every_ns,
            limits: self.limits.iter().map(Limit::status).collect(),
        }
    }
}

/// Makes the rule's limit that of the kernel. One that the kernel refuses is given up until a reload.
fn set(
    limit: &mut Limit,
    before: u64,
    why: String,
    policy: Option<String>,
    watchdog: &mut Watchdog,
) -> Record {
    let new = limit.rule.limit();
    let values = limit.values(new);
    let [smallest, first, _] = values;
    let order = Values::from([(limit.name.to_owned(), format!("{smallest} {first} {new}"))]);
    match watchdog.set(&order) {
        Ok(()) => {
            limit.known = values;
            let line = format!("{} {} to {}: {why}", limit.name, size(before), size(new));
            let record = Record::own(policy.as_deref(), "limit", &line);
            (limit.why, limit.policy) = (why, policy);
            record
        }
        Err(error) => {
            let why = format!("{error}: it stays as it is until a reload");
            let record = Record::own(None, "refused", &why);
            limit.resigned = Some(why);
            record
        }
    }
}

/// Observations of the connections of each policy, in their order.
fn by_destination(shown: &[Shown], plan: &Plan, side: Side) -> Vec<Vec<Seen>> {
    let mut seen = vec![Vec::new(); plan.rules.len()];
    for connection in shown {
        seen[plan.place_of(connection.remote)].push(connection.of(side));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use mptune_core::limits::Bounds;

    const MIB: u64 = 1 << 20;

    fn limit(values: [u64; 3]) -> Limit {
        let [smallest, first, limit] = values;
        let bounds = Bounds { least: MIB, most: 8 * MIB, target: 0.95 };
        let rule = Rule::new(Side::Send, bounds, limit);
        let (lower, why, known) = ([smallest, first], String::new(), values);
        let (name, policy, resigned) = ("net.ipv4.tcp_wmem", None, None);
        Limit { side: Side::Send, name, rule, lower, known, before: limit, why, policy, resigned }
    }

    #[test]
    fn each_of_the_three_values_may_be_somebody_elses() {
        let own = [4096, 16384, 4 * MIB];
        assert_eq!(limit(own).overruled(own), None);
        for (found, to) in [
            ([4096, 16384, 3 * MIB], "3 MiB"),
            ([4096, 65536, 4 * MIB], "4 KiB 64 KiB 4 MiB"),
            ([8192, 16384, 4 * MIB], "8 KiB 16 KiB 4 MiB"),
        ] {
            let words = format!("somebody has set it to {to}; it stays so until a reload");
            assert_eq!(limit(own).overruled(found), Some(words));
        }
    }

    #[test]
    fn a_reload_keeps_what_somebody_has_set_and_not_what_a_small_limit_made_of_it() {
        // Under a limit of 1 MiB a first size of 2 MiB is 1 MiB.
        let mut old = limit([4096, 2 * MIB, 4 * MIB]);
        old.known = old.values(MIB);
        assert_eq!(old.known, [4096, MIB, MIB]);
        for (read, lower) in
            [([4096, MIB, MIB], [4096, 2 * MIB]), ([8192, 65536, MIB], [8192, 65536])]
        {
            let mut new = limit(read);
            new.take_over(&old);
            assert_eq!((new.lower, new.before), (lower, 4 * MIB));
        }
    }
}
