//! The declaration of a policy's options.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of an option's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// A whole number.
    Count,
    /// A list of whole numbers of bytes.
    Sizes,
    /// A list of paths: numbers here, labels for people.
    Paths,
    /// A span of nanoseconds for each path that has one, by the path's number (its label).
    PathTimes,
}

/// An option as its policy declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OptionInfo {
    /// Its name: the field of the policy's options.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: OptionKind,
    /// The unit of its numbers, empty if they have none.
    pub unit: &'static str,
    /// One sentence for a person.
    pub help: &'static str,
}

/// The options of a policy without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

impl OptionKind {
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Count => "a whole number",
            Self::Sizes => "a list of whole numbers of bytes",
            Self::Paths => "a list of path numbers",
            Self::PathTimes => "whole numbers of nanoseconds by path number",
        }
    }

    /// The path numbers in a value of this kind.
    pub(super) fn paths(self, value: &Value) -> Vec<u64> {
        match (self, value) {
            (Self::Paths, Value::Array(paths)) => paths.iter().filter_map(Value::as_u64).collect(),
            (Self::PathTimes, Value::Object(times)) => {
                times.keys().filter_map(|path| path.parse().ok()).collect()
            }
            _ => Vec::new(),
        }
    }
}
