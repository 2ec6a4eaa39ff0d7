//! Figures of each policy: counts of events, bytes, and the throughput of saturated time.
//!
//! An interval between two samples is saturated for a policy if, at both ends of it, some connection's send buffer
//! was so full that its program had to wait, and one of that connection's subflows was busy most of the interval
//! without the peer's window stopping it. The throughput is then that of all connections of the policy together.

use super::deviation::Deviation;
use super::policy::Rule;
use super::statistics::{Busy, Seen};
use super::status::PolicyStatus;
use super::steering::Steered;
use crate::paths::happening::{Happening, What};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// From this share of an interval on a subflow was busy most of it.
const BUSY: f64 = 0.75;

/// Counts of one policy since the daemon began.
#[derive(Debug, Default, Clone)]
struct Counts {
    opened: u64,
    joined: u64,
    role_changes: u64,
    demotions: u64,
    outages: u64,
    errors: u64,
    sent_bytes: u64,
    reinjected_bytes: u64,
    received_bytes: u64,
    acked_bytes: u64,
    connections: u64,
    active: u64,
    standby: u64,
    deviation: Option<Deviation>,
}

/// A connection as it was at the last look.
#[derive(Debug, Default)]
struct Tracked {
    seen: Seen,
    busy: Busy,
}

/// The figures of all policies.
pub struct Figures {
    window_ns: u64,
    policies: BTreeMap<Arc<str>, Counts>,
    tracked: HashMap<u32, Tracked>,
    looked_ns: u64,
}

impl Figures {
    /// Of these policies; what they predict is compared over so long a time.
    pub fn new(rules: &[Rule], window_ns: u64) -> Self {
        let (policies, tracked) = (BTreeMap::new(), HashMap::new());
        let mut figures = Self { window_ns, policies, tracked, looked_ns: 0 };
        figures.reload(rules);
        figures
    }

    /// Other policies are in force. Those that go on keep their counts; another prediction is compared anew.
    pub fn reload(&mut self, rules: &[Rule]) {
        let mut before = std::mem::take(&mut self.policies);
        for rule in rules {
            let mut counts = before.remove(&rule.name).unwrap_or_default();
            let predicted = counts.deviation.as_ref().map(|deviation| *deviation.expectation());
            if predicted != rule.expectation {
                counts.deviation =
                    rule.expectation.map(|expectation| Deviation::new(expectation, self.window_ns));
            }
            self.policies.insert(rule.name.clone(), counts);
        }
    }

    /// Something happened to a connection.
    pub fn count(&mut self, happening: &Happening) {
        if happening.what == What::Closed {
            self.tracked.remove(&happening.token);
        }
        let Some(counts) = self.policies.get_mut(&happening.policy) else { return };
        match happening.what {
            What::Opened => counts.opened += 1,
            What::Joined => counts.joined += 1,
            What::Active => counts.role_changes += 1,
            What::Standby => {
                counts.role_changes += 1;
                counts.demotions += 1;
            }
            What::Lost => counts.outages += 1,
            What::Refused => counts.errors += 1,
            What::Restored | What::OneFamily | What::Closed => {}
        }
    }

    /// The connections as they are steered.
    pub fn steer(&mut self, steered: &[Steered]) {
        for counts in self.policies.values_mut() {
            (counts.connections, counts.active, counts.standby) = (0, 0, 0);
        }
        for connection in steered {
            let Some(counts) = self.policies.get_mut(&connection.policy) else { continue };
            counts.connections += 1;
            let standby = connection.subflows.iter().filter(|(_, backup)| *backup).count();
            counts.standby += standby as u64;
            counts.active += (connection.subflows.len() - standby) as u64;
        }
    }

    /// True if the load of subflows matters: a connection of a policy with a prediction has a full buffer.
    pub fn wants_busy(&self, steered: &[Steered], seen: &HashMap<u32, Seen>) -> bool {
        let predicts = |connection: &&Steered| {
            self.policies.get(&connection.policy).is_some_and(|counts| counts.deviation.is_some())
        };
        let full =
            |connection: &Steered| seen.get(&connection.token).is_some_and(|seen| seen.is_full);
        steered.iter().filter(predicts).any(full)
    }

    /// A look at the connections.
    pub fn look(
        &mut self,
        now_ns: u64,
        steered: &[Steered],
        seen: &HashMap<u32, Seen>,
        busy: &Busy,
    ) {
        let interval_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        let mut before = std::mem::take(&mut self.tracked);
        let mut of_policy: HashMap<&Arc<str>, (u64, bool)> = HashMap::new();
        for connection in steered {
            let Some(&now) = seen.get(&connection.token) else { continue };
            let Some(counts) = self.policies.get_mut(&connection.policy) else { continue };
            let known = before.remove(&connection.token);
            let is_new = known.is_none();
            let then = known.unwrap_or_default();
            let pairs = connection.subflows.iter().map(|(pair, _)| *pair);
            let busy: Busy = pairs.filter_map(|pair| Some((pair, *busy.get(&pair)?))).collect();
            let saturated = !is_new && is_saturated(interval_ns, &then, &now, &busy);
            let acked = now.acked_bytes.saturating_sub(then.seen.acked_bytes);
            counts.sent_bytes += now.sent_bytes.saturating_sub(then.seen.sent_bytes);
            counts.reinjected_bytes +=
                now.reinjected_bytes.saturating_sub(then.seen.reinjected_bytes);
            counts.received_bytes += now.received_bytes.saturating_sub(then.seen.received_bytes);
            counts.acked_bytes += acked;
            let sum = of_policy.entry(&connection.policy).or_default();
            *sum = (sum.0 + acked, sum.1 | saturated);
            self.tracked.insert(connection.token, Tracked { seen: now, busy });
        }
        for (policy, (bytes, saturated)) in of_policy {
            let deviation =
                self.policies.get_mut(policy).and_then(|counts| counts.deviation.as_mut());
            if let Some(deviation) = deviation.filter(|_| saturated) {
                deviation.note(now_ns, interval_ns, bytes);
            }
        }
    }

    /// The policies whose answer has become outdated or valid, with a reason in words.
    pub fn judge(&mut self, now_ns: u64, now_s: u64) -> Vec<(Arc<str>, bool, String)> {
        let mut changes = Vec::new();
        for (name, counts) in &mut self.policies {
            let Some(deviation) = &mut counts.deviation else { continue };
            if let Some(outdated) = deviation.judge(now_ns) {
                changes.push((name.clone(), outdated, deviation.words(now_s)));
            }
        }
        changes
    }

    /// Connections that are remembered.
    #[cfg(test)]
    fn tracked(&self) -> usize {
        self.tracked.len()
    }

    /// The figures of a policy.
    pub fn status(&self, rule: &Rule, now_s: u64, suspended: bool) -> PolicyStatus {
        let counts = self.policies.get(&rule.name).cloned().unwrap_or_default();
        let seen = counts.deviation.as_ref().and_then(Deviation::seen);
        let outdated = counts.deviation.as_ref().is_some_and(Deviation::is_outdated);
        PolicyStatus {
            name: rule.name.to_string(),
            to: rule.to.iter().map(ToString::to_string).collect(),
            pm: rule.pm.clone(),
            run: rule.run.clone(),
            measured_at: rule.measured_at.clone(),
            suspended,
            connections: counts.connections,
            active: counts.active,
            standby: counts.standby,
            opened: counts.opened,
            joined: counts.joined,
            role_changes: counts.role_changes,
            demotions: counts.demotions,
            outages: counts.outages,
            errors: counts.errors,
            sent_bytes: counts.sent_bytes,
            reinjected_bytes: counts.reinjected_bytes,
            received_bytes: counts.received_bytes,
            expected_mbit_s: rule.expectation.map(|expectation| expectation.mbit_s),
            expected_low_mbit_s: rule.expectation.map(|expectation| expectation.low_mbit_s),
            expected_high_mbit_s: rule.expectation.map(|expectation| expectation.high_mbit_s),
            seen_low_mbit_s: seen.map(|seen| seen.low_mbit_s),
            seen_high_mbit_s: seen.map(|seen| seen.high_mbit_s),
            outdated,
            notice: counts.deviation.filter(|_| outdated).map(|notice| notice.words(now_s)),
        }
    }
}

fn is_saturated(interval_ns: u64, then: &Tracked, now: &Seen, busy: &Busy) -> bool {
    let enough = interval_ns as f64 * BUSY;
    let was_busy = |(pair, &after): (_, &u64)| {
        let before = then.busy.get(pair);
        before.is_some_and(|&before| after.saturating_sub(before) as f64 >= enough)
    };
    then.seen.is_full && now.is_full && interval_ns > 0 && busy.iter().any(was_busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::policy::Plan;
    use crate::kernel::pair::Pair;
    use std::path::Path;

    const SECOND: u64 = 1_000_000_000;

    fn pair() -> Pair {
        Pair { local: "10.0.1.2:1".parse().unwrap(), remote: "10.9.0.1:2".parse().unwrap() }
    }

    fn steered(token: u32) -> Steered {
        let subflows = vec![(pair(), false), (pair(), true)];
        Steered { token, policy: "a".into(), server_side: false, subflows }
    }

    /// A policy that predicts 80 Mbit/s, in a new directory.
    fn rules(name: &str) -> std::rc::Rc<[Rule]> {
        let run =
            std::env::temp_dir().join(format!("mptune-figures-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        let answer = r#"{"version": 1, "pm": "fullmesh", "expected_mbit_s": 80, "paths":
            [{"label": "A-X", "local": 0, "remote": 0, "pairs": [["10.0.1.2", "10.9.0.1"]]}]}"#;
        std::fs::write(run.join("policy.json"), answer).unwrap();
        let file = run.join("policy.toml");
        let text = "[[policy]]\nname = \"a\"\nto = [\"10.9.0.0/16\"]\nrun = \".\"\n";
        std::fs::write(&file, text).unwrap();
        let plan = Plan::read(Path::new(&file)).unwrap();
        std::fs::remove_dir_all(run).unwrap();
        plan.rules
    }

    fn happening(what: What, token: u32) -> Happening {
        let (policy, why) = ("a".into(), String::new());
        Happening { at_ns: 1, token, policy, subflow: None, what, why }
    }

    #[test]
    fn what_happens_is_counted_and_connections_that_are_over_are_forgotten() {
        let rules = rules("counts");
        let mut figures = Figures::new(&rules, 60 * SECOND);
        for token in 0..5000 {
            figures.count(&happening(What::Opened, token));
            let seen = HashMap::from([(token, Seen { sent_bytes: 7, ..Seen::default() })]);
            figures.look(u64::from(token), &[steered(token)], &seen, &Busy::new());
            figures.count(&happening(What::Closed, token));
        }
        figures.count(&happening(What::Standby, 1));
        figures.count(&happening(What::Lost, 1));
        figures.steer(&[steered(9)]);
        let status = figures.status(&rules[0], 0, false);
        assert_eq!((status.opened, status.sent_bytes, figures.tracked()), (5000, 35_000, 0));
        assert_eq!((status.role_changes, status.demotions, status.outages), (1, 1, 1));
        assert_eq!((status.connections, status.active, status.standby), (1, 1, 1));
        figures.reload(&rules);
        assert_eq!(figures.status(&rules[0], 0, false).opened, 5000);
    }

    /// Looks each second at a connection of 10 Mbit/s; whether the answer is found outdated.
    fn judged(name: &str, full: bool, busy_share: f64) -> bool {
        let rules = rules(name);
        let mut figures = Figures::new(&rules, 60 * SECOND);
        let mut changes = Vec::new();
        for second in 1..100u64 {
            let acked_bytes = second * 1_250_000;
            let seen = Seen { acked_bytes, is_full: full, ..Seen::default() };
            let busy = (second as f64 * busy_share * 1e9) as u64;
            let (steered, seen) = ([steered(1)], HashMap::from([(1, seen)]));
            assert_eq!(figures.wants_busy(&steered, &seen), full);
            figures.look(second * SECOND, &steered, &seen, &Busy::from([(pair(), busy)]));
            changes.extend(figures.judge(second * SECOND, 0));
        }
        let status = figures.status(&rules[0], 0, false);
        assert_eq!(status.outdated, changes.len() == 1 && status.notice.is_some());
        assert!(!status.outdated || status.seen_high_mbit_s == Some(10.0));
        status.outdated
    }

    #[test]
    fn only_saturated_time_is_compared() {
        assert!(judged("saturated", true, 1.0));
        assert!(!judged("application", false, 1.0));
        assert!(!judged("peer", true, 0.5));
    }
}
