//! The declaration of an effect's parameters: names, kinds of values, and defaults with their reasons.
//!
//! Here alone: the core checks a specification by it, and a topology file's tables, words and messages follow from
//! it (`python/mptune/topology/_wire_effects.py`).

use crate::error::SpecError;
use crate::network::chance::BILLION;
use crate::network::limits::MAX_DELAY;
use serde::Serialize;

/// The kind of a parameter's values; the end of its name is their unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// A probability.
    Chance,
    /// A probability above 0.
    SomeChance,
    /// A probability below 1.
    Loss,
    /// A time above 0.
    SomeTime,
}

impl ParameterKind {
    /// The least and the largest value.
    const fn bounds(self) -> (u64, u64) {
        match self {
            Self::Chance => (0, BILLION),
            Self::SomeChance => (1, BILLION),
            Self::Loss => (0, BILLION - 1),
            Self::SomeTime => (1, MAX_DELAY),
        }
    }
}

/// The value of a parameter that a file leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParameterDefault {
    /// The value itself.
    pub value: u64,
    /// One line for a person: "no bad_loss given: ...".
    pub reason: &'static str,
}

/// A parameter as its effect declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParameterInfo {
    /// Its name: the field of the effect's parameters.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ParameterKind,
    /// None if a file must give it.
    pub default: Option<ParameterDefault>,
}

impl ParameterInfo {
    fn check(&self, effect: &str, value: u64) -> Result<(), SpecError> {
        let (least, most) = self.kind.bounds();
        if (least..=most).contains(&value) {
            return Ok(());
        }
        let expected = format!("expected {least} to {most}, found {value}");
        Err(SpecError::new(format!("{effect}.{}", self.name), expected))
    }
}

/// An effect as topology files have it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct EffectInfo {
    /// Its key.
    pub key: &'static str,
    /// [`super::effect::WireEffect::WORDS`].
    pub words: &'static str,
    /// [`super::effect::WireEffect::BURSTS`].
    pub bursts: bool,
    /// Its parameters, in the order of files.
    pub parameters: &'static [ParameterInfo],
}

/// The parameters of an effect ([`parameters`] writes it).
pub trait Parameters {
    /// Their declarations.
    const PARAMETERS: &'static [ParameterInfo];

    /// Their values, in the same order.
    fn values(&self) -> Vec<u64>;

    /// # Errors
    /// The first that is out of its bounds.
    fn validate(&self, effect: &str) -> Result<(), SpecError> {
        let mut values = Self::PARAMETERS.iter().zip(self.values());
        values.try_for_each(|(parameter, value)| parameter.check(effect, value))
    }
}

/// Writes the parameters of an effect as a struct, with their declarations.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $kind:ident $(= $default:expr, $reason:literal)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$about])* pub $field: u64,)+
        }

        impl $crate::network::effects::declaration::Parameters for $name {
            const PARAMETERS: &'static [$crate::network::effects::declaration::ParameterInfo] = &[$(
                $crate::network::effects::declaration::ParameterInfo {
                    name: stringify!($field),
                    kind: $crate::network::effects::declaration::ParameterKind::$kind,
                    default: $crate::network::effects::declaration::default!($($default, $reason)?),
                },
            )+];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),+]
            }
        }
    };
}
pub(super) use parameters;

/// The default of a parameter, if it has one.
macro_rules! default {
    () => {
        None
    };
    ($value:expr, $reason:literal) => {
        Some($crate::network::effects::declaration::ParameterDefault {
            value: $value,
            reason: $reason,
        })
    };
}
pub(super) use default;
