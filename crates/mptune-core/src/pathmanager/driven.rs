//! A policy that something else than a simulated connection drives: whoever watches a kernel tells it
//! what happened and carries out what it wants.
//!
//! The owned and checked form of the seam, for callers that cannot hold Rust references. It decides
//! nothing: the policy inside is the one the simulator runs.

use super::{Command, Event, NAMES, Options, PathEnds, PathId, Policy, SubflowView, View};
use crate::mptcp::MAX_SUBFLOWS;
use crate::network::SpecError;
use crate::units::Bytes;
use serde::Deserialize;

/// [`View`], owned.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// Every path of the topology.
    pub paths: Vec<PathEnds>,
    /// The network obeys loose source routes.
    #[serde(default)]
    pub lsrr_honoured: bool,
    /// Every subflow so far, in the order of creation.
    pub subflows: Vec<SubflowView>,
    /// Payload bytes the transfer will have; none when nobody knows beforehand.
    #[serde(default)]
    pub transfer_bytes: Option<Bytes>,
}

/// A policy with the checks that a caller from outside needs.
#[derive(Debug, Clone)]
pub struct Driven {
    policy: Policy,
}

impl Driven {
    /// The path manager called `name`.
    ///
    /// # Errors
    /// The key that is wrong: "pm" for the name, "ndiffports" for a number no simulation takes either.
    pub fn new(name: &str, options: &Options) -> Result<Self, SpecError> {
        if !(1..=MAX_SUBFLOWS).contains(&options.ndiffports) {
            let expected = format!("1 to {MAX_SUBFLOWS} expected, found {}", options.ndiffports);
            return Err(SpecError::new("ndiffports", expected));
        }
        let policy = Policy::new(name, options).ok_or_else(|| {
            SpecError::new("pm", format!("one of {} expected, found {name:?}", NAMES.join(", ")))
        })?;
        Ok(Self { policy })
    }

    /// The path for the initial subflow when the user named none; `default` is the topology's.
    pub fn initial_path(&self, paths: &[PathEnds], default: PathId) -> PathId {
        self.policy.initial_path(paths, default)
    }

    /// An event happened: what the policy wants done, in this order.
    ///
    /// # Errors
    /// The part of the situation that cannot be.
    pub fn on_event(&mut self, event: Event, now: &Situation) -> Result<Vec<Command>, SpecError> {
        now.check(event)?;
        let view = View {
            paths: &now.paths,
            lsrr_honoured: now.lsrr_honoured,
            subflows: &now.subflows,
            transfer_bytes: now.transfer_bytes,
        };
        let mut commands = Vec::new();
        self.policy.on_event(event, view, &mut commands);
        Ok(commands)
    }
}

impl Situation {
    fn check(&self, event: Event) -> Result<(), SpecError> {
        let paths = self.paths.len();
        if let Some(subflow) = self.subflows.iter().find(|subflow| subflow.path >= paths) {
            let found = subflow.path;
            let expected = format!("a path below {paths} expected, found {found}");
            return Err(SpecError::new("subflows.path", expected));
        }
        let needed = match event {
            Event::Established | Event::BytesSent(_) => 0,
            Event::SubflowEstablished(id) | Event::SubflowLost(id) | Event::SubflowRestored(id) => {
                id
            }
        };
        if needed >= self.subflows.len() {
            let expected = format!("subflow {needed} expected among {}", self.subflows.len());
            return Err(SpecError::new("subflows", expected));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(subflows: usize) -> Situation {
        let ends = |path: usize| PathEnds { local: path / 2, remote: path % 2 };
        let subflow = |path| SubflowView { path, alive: true, backup: false, min_rtt: 7 };
        Situation {
            paths: (0..4).map(ends).collect(),
            lsrr_honoured: false,
            subflows: (0..subflows).map(subflow).collect(),
            transfer_bytes: None,
        }
    }

    #[test]
    fn the_policy_answers_as_it_does_inside_a_connection() {
        for name in NAMES {
            let options = Options::default();
            let (mut inside, mut driven) =
                (Policy::new(name, &options).unwrap(), Driven::new(name, &options).unwrap());
            for (event, subflows) in [
                (Event::Established, 1),
                (Event::SubflowEstablished(1), 2),
                (Event::BytesSent(600 * 1024), 2),
                (Event::SubflowLost(0), 2),
                (Event::SubflowRestored(0), 2),
            ] {
                let now = situation(subflows);
                let mut expected = Vec::new();
                let view = View {
                    paths: &now.paths,
                    lsrr_honoured: false,
                    subflows: &now.subflows,
                    transfer_bytes: None,
                };
                inside.on_event(event, view, &mut expected);
                assert_eq!(driven.on_event(event, &now), Ok(expected), "{name}, {event:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        fn key<T>(result: Result<T, SpecError>) -> Option<String> {
            result.err().map(|error| error.key)
        }
        let many = Options { ndiffports: 1_000_000, ..Options::default() };
        assert_eq!(key(Driven::new("fullmesh", &many)).as_deref(), Some("ndiffports"));
        assert_eq!(key(Driven::new("fullmash", &Options::default())).as_deref(), Some("pm"));

        let mut driven = Driven::new("pcdc", &Options::default()).unwrap();
        let lost = driven.on_event(Event::SubflowLost(2), &situation(2));
        assert_eq!(key(lost).as_deref(), Some("subflows"));
        let nothing = driven.on_event(Event::Established, &situation(0));
        assert_eq!(key(nothing).as_deref(), Some("subflows"));
        let elsewhere = driven.on_event(Event::Established, &situation(5));
        assert_eq!(key(elsewhere).as_deref(), Some("subflows.path"));
    }

    #[test]
    fn both_directions_of_the_seam_travel_as_json() {
        for (text, event) in [
            (r#""established""#, Event::Established),
            (r#"{"subflow_lost": 3}"#, Event::SubflowLost(3)),
            (r#"{"bytes_sent": 512}"#, Event::BytesSent(512)),
        ] {
            assert_eq!(serde_json::from_str::<Event>(text).unwrap(), event);
        }
        let connect = Command::Connect { path: 1, backup: true };
        let text = serde_json::to_string(&connect).unwrap();
        assert_eq!(text, r#"{"connect":{"path":1,"backup":true}}"#);
        let now: Situation = serde_json::from_str(
            r#"{"paths": [{"local": 0, "remote": 1}],
                "subflows": [{"path": 0, "alive": true, "backup": false, "min_rtt": 5}]}"#,
        )
        .unwrap();
        assert_eq!((now.paths[0].remote, now.subflows[0].min_rtt), (1, 5));
        assert!(serde_json::from_str::<Options>(r#"{"activ": [1]}"#).is_err());
        let options: Options = serde_json::from_str(r#"{"active": [1]}"#).unwrap();
        assert_eq!(options, Options { active: Some(vec![1]), ..Options::default() });
    }
}
