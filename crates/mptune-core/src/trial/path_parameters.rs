//! Path parameters of a path policy.

use crate::error::SpecError;
use crate::mptcp::pathpolicy::{self, Parameter, Parameters, Policy};
use crate::pathmanager::PathId;
use serde::Deserialize;

/// Parameters of a path; those that are missing have their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathParameters {
    /// The path.
    pub path: PathId,
    /// Its place in the order of the paths, the first 0.
    #[serde(default)]
    pub rank: Option<u32>,
    /// Its share beside those of the others.
    #[serde(default)]
    pub weight: Option<u32>,
    /// The largest rate of payload, bit/s.
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

    /// The given parameters by their keys.
    fn given(&self) -> impl Iterator<Item = (&'static str, Parameter)> {
        let told = [
            ("rank", Parameter::Rank, self.rank.is_some()),
            ("weight", Parameter::Weight, self.weight.is_some()),
            ("cap_bps", Parameter::Cap, self.cap_bps.is_some()),
        ];
        told.into_iter().filter(|(.., given)| *given).map(|(key, parameter, _)| (key, parameter))
    }
}

/// Names of the policies that go by a parameter.
fn going_by(parameter: Parameter) -> String {
    let goes =
        |name: &&&str| Policy::new(name).and_then(|policy| policy.goes_by()) == Some(parameter);
    pathpolicy::NAMES.iter().filter(goes).copied().collect::<Vec<_>>().join(" or ")
}

/// Every path once, positive numbers, and the parameter by which the policy of the congestion control `cc` goes.
pub(super) fn check(told: &[PathParameters], cc: &str) -> Result<(), SpecError> {
    let wrong = |expected: String| Err(SpecError::new("path_parameters", expected));
    let policy = pathpolicy::parts(cc).1.and_then(Policy::new);
    let own = policy.and_then(|policy| policy.goes_by());
    for (number, of_path) in told.iter().enumerate() {
        if told[..number].iter().any(|other| other.path == of_path.path) {
            return wrong(format!("expected each path once, found {} twice", of_path.path));
        }
        if of_path.weight == Some(0) || of_path.cap_bps == Some(0) {
            return wrong(format!("expected more than 0, found 0 of path {}", of_path.path));
        }
        if let Some((key, other)) = of_path.given().find(|(_, given)| Some(*given) != own) {
            let policies = going_by(other);
            return wrong(format!("expected path policy {policies} with {key}, found {cc}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: PathParameters =
        PathParameters { path: 0, rank: None, weight: None, cap_bps: None };

    #[test]
    fn a_policy_has_the_parameter_by_which_it_goes_and_no_other() {
        let ranked = PathParameters { rank: Some(0), ..NONE };
        let weighed = PathParameters { weight: Some(2), ..NONE };
        let capped = PathParameters { cap_bps: Some(1), ..NONE };
        let own =
            [("rank", "prefer", ranked), ("weight", "weight", weighed), ("cap_bps", "cap", capped)];
        for (key, policy, parameters) in own {
            assert_eq!(check(&[parameters], &format!("reno+{policy}")), Ok(()));
            let others = pathpolicy::NAMES.iter().filter(|name| **name != policy);
            for cc in others.map(|other| format!("reno+{other}")).chain(["reno".into()]) {
                let expected = format!("expected path policy {policy} with {key}, found {cc}");
                assert_eq!(
                    check(&[parameters], &cc),
                    Err(SpecError::new("path_parameters", expected))
                );
            }
        }
    }
}
