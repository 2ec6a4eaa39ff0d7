//! Path management: the policies, one file each, and the life cycle of the subflows they manage.
//!
//! A policy is a pure function of its events, with commands as output: it opens no socket, reads no clock and knows
//! neither the simulator nor netlink. To add a policy, write `<name>.rs` beside this file, with its options, and one line
//! in the `path_managers!` list. [`Driver`] runs a policy for a connection, simulated or real: reports in, orders out.
//! `mptcp` uses this module, not the reverse.
//!
//! Paths are numbered as in the topology: all pairs of a local and a remote interface; without a topology (a daemon) in
//! the order in which they become known.

pub mod binder;
mod declaration;
pub mod default;
mod driver;
mod forecast;
pub mod fullmesh;
pub mod guard;
mod manager;
pub mod ndiffports;
mod options;
pub mod pcdc;
pub mod reserve;
#[cfg(test)]
pub(crate) mod testing;

pub use declaration::{NoOptions, OptionInfo, OptionKind};
pub use driver::{
    Assignment, Driver, LOST_AFTER_TIMEOUTS, Order, Report, Role, Stack, State, Subflow,
};
pub use forecast::{Forecast, Line, SharedBuffer};
pub use manager::{
    Command, ConnectionStatistics, Event, MAX_SUBFLOWS, PathEnds, PathId, PathManager, SubflowId,
    SubflowStatistics, SubflowView, TransferSize, View,
};
pub use options::{DescribedOption, OptionMap};

use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use std::sync::Arc;

/// Writes the [`Policy`] enum, the list of names and the dispatch from one list.
macro_rules! path_managers {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every path manager.
        #[derive(Debug, Clone)]
        pub enum Policy {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all path managers, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Policy {
            /// The path manager called `name` with its options, for a topology with this many paths.
            ///
            /// # Errors
            /// The key that is wrong: "pm", "pm_options" for an unknown option, or an option's name.
            pub fn new(name: &str, options: &OptionMap, paths: usize) -> Result<Self, SpecError> {
                match name {
                    $($name => Ok(Self::$variant(options::configured(name, options, paths)?)),)+
                    _ => {
                        let expected = format!("expected one of {}, found {name:?}", NAMES.join(", "));
                        Err(SpecError::new("pm", expected))
                    }
                }
            }

            /// The options of the path manager called `name`; none if there is no such path manager.
            pub fn describe(name: &str) -> Option<Vec<DescribedOption>> {
                match name {
                    $($name => Some(options::described::<$type>()),)+
                    _ => None,
                }
            }

            #[cfg(test)]
            fn defaults(name: &str) -> Option<OptionMap> {
                match name {
                    $($name => Some(options::defaults::<$type>()),)+
                    _ => None,
                }
            }

            /// [`PathManager::initial_path`].
            pub fn initial_path(
                &self,
                paths: &[PathEnds],
                size: TransferSize,
                default: PathId,
            ) -> PathId {
                match self { $(Self::$variant(policy) => policy.initial_path(paths, size, default)),+ }
            }

            /// [`PathManager::thresholds`].
            pub fn thresholds(&self) -> Vec<Bytes> {
                match self { $(Self::$variant(policy) => policy.thresholds()),+ }
            }

            /// [`PathManager::sampling`].
            pub fn sampling(&self) -> Option<Nanos> {
                match self { $(Self::$variant(policy) => policy.sampling()),+ }
            }

            /// [`PathManager::foresee`].
            pub fn foresee(&mut self, forecast: impl FnOnce() -> Arc<dyn Forecast>) {
                match self { $(Self::$variant(policy) => policy.foresee(forecast)),+ }
            }

            /// [`PathManager::why`].
            pub fn why(&self) -> Option<String> {
                match self { $(Self::$variant(policy) => policy.why()),+ }
            }

            /// [`PathManager::on_event`].
            pub fn on_event(&mut self, event: Event, view: View<'_>, commands: &mut Vec<Command>) {
                match self { $(Self::$variant(policy) => policy.on_event(event, view, commands)),+ }
            }
        }
    };
}

path_managers! {
    "default" => Default(default::DefaultManager),
    "fullmesh" => Fullmesh(fullmesh::Fullmesh),
    "ndiffports" => Ndiffports(ndiffports::Ndiffports),
    "binder" => Binder(binder::Binder),
    "pcdc" => Pcdc(pcdc::Pcdc),
    "guard" => Guard(guard::Guard),
    "reserve" => Reserve(reserve::Reserve),
}
