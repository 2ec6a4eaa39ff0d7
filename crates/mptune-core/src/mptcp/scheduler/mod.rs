//! The scheduler seam: which subflow takes the next segment. One trait, one list, one file each.
//!
//! A scheduler chooses among subflows that may send now; it neither sends nor decides what is sent.
//! To add one, write `<name>.rs` beside this file and one line in the `schedulers!` list.

use crate::congestion::Peer;
use crate::units::Seq;

pub mod minrtt;

/// What a scheduler chooses from.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Every subflow of the connection: windows and RTTs.
    pub subflows: &'a [Peer],
    /// Bit `i` is set when subflow `i` may take a segment now; never 0.
    pub ready: u64,
    /// Bit `i` is set when subflow `i` carries data at all, ready or not.
    pub usable: u64,
    /// Segments the shared buffers still have room for.
    pub window: Seq,
}

/// The numbers of the bits that are set, ascending.
pub fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// A scheduling policy.
pub trait Scheduler {
    /// The subflow that takes the next segment, one of `choice.ready`; none waits for a better one
    /// to become ready.
    fn select(&mut self, choice: Choice<'_>) -> Option<usize>;
}

/// Writes the [`Policy`] enum, the list of names and the dispatch from one list.
macro_rules! schedulers {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every scheduler.
        #[derive(Debug, Clone)]
        pub enum Policy {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all schedulers, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Policy {
            /// The scheduler called `name`, or none.
            pub fn new(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::default())),)+
                    _ => None,
                }
            }

            /// [`Scheduler::select`].
            #[inline]
            pub fn select(&mut self, choice: Choice<'_>) -> Option<usize> {
                match self { $(Self::$variant(policy) => policy.select(choice)),+ }
            }
        }
    };
}

schedulers! {
    "minrtt" => MinRtt(minrtt::MinRtt),
}
