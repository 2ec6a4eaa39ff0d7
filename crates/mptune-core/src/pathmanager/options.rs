//! Options of path managers: each policy has a struct of them, and a table of their declarations.
//!
//! A map ([`OptionMap`]) passes from the user to the policy, so that a new option only touches the policy's file. Here
//! the map becomes the struct, and an invalid option a [`SpecError`] at its name.

use super::declaration::OptionInfo;
use super::manager::PathManager;
use crate::error::SpecError;
use serde::Serialize;
use serde_json::Value;

/// Options by name, as JSON; missing ones have their defaults.
pub type OptionMap = serde_json::Map<String, Value>;

/// [`OptionInfo`] with the default from the policy's struct.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DescribedOption {
    /// Its declaration.
    #[serde(flatten)]
    pub info: OptionInfo,
    /// The value if it is not set; null if the policy then chooses.
    pub default: Value,
}

/// The policy with these options, for a topology with this many paths.
pub(super) fn configured<P: PathManager>(
    pm: &str,
    options: &OptionMap,
    paths: usize,
) -> Result<P, SpecError> {
    for (name, value) in options {
        let info = P::OPTIONS.iter().find(|info| info.name == name);
        let info = info.ok_or_else(|| unknown::<P>(pm, name))?;
        if let Some(path) = info.kind.paths(value).iter().find(|&&path| path >= paths as u64) {
            let expected = format!("expected a path below {paths}, found {path}");
            return Err(SpecError::new(name, expected));
        }
        // One at a time, so that the error names the option.
        let alone = OptionMap::from_iter([(name.clone(), value.clone())]);
        read::<P>(&alone).map_err(|_| {
            SpecError::new(name, format!("expected {}, found {value}", info.kind.expected()))
        })?;
    }
    let read = read::<P>(options);
    P::new(read.map_err(|error| SpecError::new("pm_options", error.to_string()))?)
}

fn read<P: PathManager>(options: &OptionMap) -> Result<P::Options, serde_json::Error> {
    serde_json::from_value(Value::Object(options.clone()))
}

fn unknown<P: PathManager>(pm: &str, name: &str) -> SpecError {
    let known: Vec<_> = P::OPTIONS.iter().map(|info| info.name).collect();
    let expected = match known.as_slice() {
        [] => format!("expected no option for {pm}, found {name:?}"),
        known => format!("expected one of {} for {pm}, found {name:?}", known.join(", ")),
    };
    SpecError::new("pm_options", expected)
}

/// Every field of a policy's options, with its default.
pub(super) fn defaults<P: PathManager>() -> OptionMap {
    match serde_json::to_value(P::Options::default()) {
        Ok(Value::Object(fields)) => fields,
        _ => OptionMap::new(),
    }
}

/// A policy's options, with their defaults.
pub(super) fn described<P: PathManager>() -> Vec<DescribedOption> {
    let defaults = defaults::<P>();
    let described = P::OPTIONS.iter().map(|&info| {
        let default = defaults.get(info.name).cloned().unwrap_or_default();
        DescribedOption { info, default }
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pathmanager::{NAMES, Policy};
    use serde_json::json;
    use std::collections::BTreeSet;

    fn refused(pm: &str, options: Value) -> (String, String) {
        let Value::Object(options) = options else { panic!("a map") };
        let error = Policy::new(pm, &options, 4).expect_err("refused");
        (error.key, error.expected)
    }

    #[test]
    fn the_defaults_described_are_those_a_policy_has_without_any_option() {
        for name in NAMES {
            let described = Policy::describe(name).expect("a known policy");
            let set = described
                .iter()
                .map(|option| (option.info.name.to_owned(), option.default.clone()));
            let explicit = Policy::new(name, &set.collect(), 4).expect("defaults are valid");
            let implicit = Policy::new(name, &OptionMap::new(), 4).expect("no option is needed");
            assert_eq!(format!("{explicit:?}"), format!("{implicit:?}"));
        }
    }

    #[test]
    fn every_option_of_a_struct_is_described() {
        for name in NAMES {
            let described = Policy::describe(name).expect("a known policy");
            let described: BTreeSet<_> = described.iter().map(|option| option.info.name).collect();
            let defaults = Policy::defaults(name).expect("a known policy");
            let fields: BTreeSet<_> = defaults.keys().map(String::as_str).collect();
            assert_eq!(described, fields, "{name}");
        }
    }

    #[test]
    fn an_error_names_the_option_and_the_expected_value() {
        let (key, expected) = refused("pcdc", json!({"activ": [1]}));
        assert_eq!(key, "pm_options");
        assert!(expected.starts_with("expected one of active, "), "{expected}");
        assert!(expected.ends_with(" for pcdc, found \"activ\""), "{expected}");
        let none = refused("fullmesh", json!({"active": [1]}));
        assert_eq!(none.1, "expected no option for fullmesh, found \"active\"");
        assert_eq!(
            refused("pcdc", json!({"active": [0, 4]})),
            ("active".into(), "expected a path below 4, found 4".into())
        );
        assert_eq!(
            refused("pcdc", json!({"rtt_ns": {"7": 1}})),
            ("rtt_ns".into(), "expected a path below 4, found 7".into())
        );
        assert_eq!(
            refused("ndiffports", json!({"ndiffports": "two"})),
            ("ndiffports".into(), "expected a whole number, found \"two\"".into())
        );
        assert_eq!(refused("fullmash", json!({})).0, "pm");
    }
}
