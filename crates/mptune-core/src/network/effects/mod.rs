//! Effects on the wire beside independent loss, delay, jitter and duplication: one trait, one list, one file per
//! effect. To add an effect, write `<name>.rs` beside this file and its two lines here: a link's specification and
//! topology files get its key, and [`super::wire`] applies it to every packet.

mod declaration;
mod effect;
mod gilbert;
mod reorder;

pub use declaration::{EffectInfo, ParameterDefault, ParameterInfo, ParameterKind};

use super::stream::Streams;
use crate::error::SpecError;
use crate::units::Nanos;
use declaration::Parameters;
use effect::WireEffect;

/// Passes the list of effects on to a macro: key, parameters, state, and the number of its own stream of random
/// numbers ([`Streams`]).
macro_rules! wire_effects {
    ($then:ident) => {
        $then! {
            /// Losses in bursts, independent of and in addition to `loss_ppb`.
            gilbert_elliott: GilbertElliottSpec => gilbert::GilbertElliott, 2;
            /// Packets that are late and get overtaken.
            reorder: ReorderSpec => reorder::Reorder, 3;
        }
    };
}
pub(super) use wire_effects;

/// Writes the parameters and the states of all effects of a link.
macro_rules! effects {
    ($($(#[$doc:meta])* $key:ident: $spec:ident => $module:ident::$state:ident, $stream:literal;)+) => {
        /// Their parameters, for all who write a link's specification.
        pub mod specs {
            $(pub use super::$module::$spec;)+
        }
        use specs::*;

        /// Every effect, in the order of the list.
        pub const DECLARED: &[EffectInfo] = &[$(
            EffectInfo {
                key: stringify!($key),
                words: <$module::$state as WireEffect>::WORDS,
                bursts: <$module::$state as WireEffect>::BURSTS,
                parameters: <$spec as Parameters>::PARAMETERS,
            },
        )+];

        /// Share of packets that the effect called `key` loses in the long run, parts per billion; its parameters are
        /// a JSON object.
        ///
        /// # Errors
        /// There is no such effect, or these are not its parameters; the key is the effect's.
        pub fn mean_loss_ppb(key: &str, parameters: &[u8]) -> Result<u64, SpecError> {
            let refused = |error: &dyn std::fmt::Display| SpecError::new(key, format!("expected an effect: {error}"));
            match key {
                $(stringify!($key) => {
                    let spec: $spec = serde_json::from_slice(parameters).map_err(|error| refused(&error))?;
                    spec.validate(key)?;
                    Ok(<$module::$state as WireEffect>::mean_loss_ppb(&spec))
                })+
                _ => Err(refused(&"no such key")),
            }
        }

        // No two share a stream, and none has another purpose's (`Streams`).
        const _: () = {
            let mut taken = 1u32 << 4;
            $(
                assert!(matches!($stream, 2..=15) && taken >> $stream & 1 == 0, stringify!($key));
                taken |= 1 << $stream;
            )+
            assert!(taken > 0);
        };

        /// The effects of a link.
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Specs<'a> {
            $(pub $key: Option<&'a $spec>,)+
        }

        impl Specs<'_> {
            /// It has none.
            pub fn is_empty(&self) -> bool {
                $(self.$key.is_none())&&+
            }

            /// Packets may overtake others.
            pub fn reorders(&self) -> bool {
                $(self.$key.is_some() && <$module::$state as WireEffect>::REORDERS)||+
            }

            /// # Errors
            /// The first key that is wrong.
            pub fn validate(&self) -> Result<(), SpecError> {
                $(self.$key.map_or(Ok(()), |spec| spec.validate(stringify!($key)))?;)+
                Ok(())
            }
        }

        /// Their states.
        #[derive(Debug, Clone)]
        pub(super) struct States {
            $($key: Option<$module::$state>,)+
        }

        impl States {
            /// Before the first packet.
            pub fn new(specs: Specs<'_>, streams: Streams) -> Self {
                Self {
                    $($key: specs.$key.map(|spec| WireEffect::new(spec, streams.effect($stream))),)+
                }
            }

            /// True if the next packet is lost. All effects draw, so that one kind of loss does not shift another.
            pub fn lose(&mut self) -> bool {
                let mut lost = false;
                $(lost |= self.$key.as_mut().is_some_and(WireEffect::loses);)+
                lost
            }

            /// The extra delay of the next packet, if it is late.
            pub fn lateness(&mut self) -> Option<Nanos> {
                let mut late = None;
                $(if let Some(more) = self.$key.as_mut().and_then(WireEffect::lateness) {
                    late = Some(late.unwrap_or(0) + more);
                })+
                late
            }
        }
    };
}

wire_effects!(effects);
