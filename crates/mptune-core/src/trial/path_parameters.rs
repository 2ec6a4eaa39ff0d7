//! Path parameters of a path policy.

use crate::error::SpecError;
use crate::mptcp::pathpolicy::{self, Parameters};
use crate::pathmanager::PathId;
use serde::Deserialize;

/// Parameters of a path; those that are missing have their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathParameters {
    /// The path.
    pub path: PathId,
    /// Its place in the order of the paths, the first 0: of the policy `prefer`.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Its share beside those of the others: of the policy `weight`.
    #[serde(default)]
    pub weight: Option<u32>,
    /// The largest rate of payload, bit/s: of the policy `cap`.
    #[serde(default)]
    pub cap_bps: Option<u64>,
}

impl PathParameters {
    /// The same for a connection whose paces count full segments of this many bytes.
    pub(super) fn told(&self, full: u32) -> (PathId, Parameters) {
        let default = Parameters::default();
        let segments = |bps: u64| bps as f64 / 8e9 / f64::from(full);
        let told = Parameters {
            rank: self.rank.unwrap_or(default.rank),
            weight: self.weight.map_or(default.weight, f64::from),
            cap: self.cap_bps.map_or(default.cap, segments),
        };
        (self.path, told)
    }

    /// The given parameters, and the policy that each concerns.
    fn concerns(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let told = [
            ("rank", "prefer", self.rank.is_some()),
            ("weight", "weight", self.weight.is_some()),
            ("cap_bps", "cap", self.cap_bps.is_some()),
        ];
        told.into_iter().filter(|(.., given)| *given).map(|(name, policy, _)| (name, policy))
    }
}

/// Every path once, positive numbers, and for the policy that the congestion control `cc` has.
pub(super) fn check(told: &[PathParameters], cc: &str) -> Result<(), SpecError> {
    let wrong = |expected: String| Err(SpecError::new("path_parameters", expected));
    let policy = pathpolicy::parts(cc).1;
    for (number, of_path) in told.iter().enumerate() {
        if told[..number].iter().any(|other| other.path == of_path.path) {
            return wrong(format!("expected each path once, found {} twice", of_path.path));
        }
        if of_path.weight == Some(0) || of_path.cap_bps == Some(0) {
            return wrong(format!("expected more than 0, found 0 of path {}", of_path.path));
        }
        if let Some((name, of)) = of_path.concerns().find(|(_, of)| Some(*of) != policy) {
            return wrong(format!("expected path policy {of} with {name}, found {cc}"));
        }
    }
    Ok(())
}
