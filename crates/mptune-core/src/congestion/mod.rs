//! The congestion-control interface: one trait, one list, one file per algorithm.
//!
//! A controller owns the growth and the reduction of a subflow's cwnd. It does not detect losses, shape a recovery
//! (PRR, `tcp::sender`) or see packets. To add a controller, write `<name>.rs` beside this file and one line in the
//! `controllers!` list, from which the command line, the docs and the reports take its name.
//!
//! Windows are in segments and may be fractional, so formulas look as in their specification; the sender uses
//! `floor(cwnd)`.

pub mod balia;
pub mod bbr;
#[cfg(test)]
mod bottleneck;
mod control;
mod coupling;
pub mod cubic;
pub mod dctcp;
pub mod hybla;
mod hystart;
pub mod lia;
pub mod olia;
pub mod reno;
pub mod scalable;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod vegas;
pub mod wvegas;

pub use control::{
    Ack, CongestionControl, INFINITE_SSTHRESH, INITIAL_WINDOW, Peer, Peers, RateSample, Window,
};

use crate::units::{Bytes, Nanos};

/// Writes the [`Controller`] enum, the list of names and the dispatch from one list.
macro_rules! controllers {
    ($($name:literal => $variant:ident($type:ty)),+ $(,)?) => {
        /// Every congestion control; static dispatch.
        #[derive(Debug, Clone)]
        pub enum Controller {
            $(#[allow(missing_docs)] $variant($type)),+
        }

        /// The names of all congestion controls, in the order of the list.
        pub const NAMES: &[&str] = &[$($name),+];

        impl Controller {
            /// The controller called `name`, or none.
            pub fn new(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant(<$type>::default())),)+
                    _ => None,
                }
            }

            /// [`CongestionControl::OWNS_WINDOW`].
            pub fn owns_window(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::OWNS_WINDOW),+ }
            }

            /// [`CongestionControl::BUFFERED_WINDOWS`].
            pub fn buffered_windows(&self) -> Bytes {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::BUFFERED_WINDOWS),+ }
            }

            /// [`CongestionControl::ECN_PER_SEGMENT`].
            pub fn ecn_per_segment(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::ECN_PER_SEGMENT),+ }
            }

            /// [`CongestionControl::RATE_SAMPLES`].
            pub fn rate_samples(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as CongestionControl>::RATE_SAMPLES),+ }
            }

            controllers!(@forward [$($variant)+]
                fn on_established(window: &mut Window, srtt: Nanos, now: Nanos) (window, srtt, now);
                fn on_delivered(window: &mut Window, ack: &Ack, peers: Peers<'_>) (window, ack, peers);
                fn on_ack(window: &mut Window, ack: &Ack, peers: Peers<'_>) (window, ack, peers);
                fn on_timeout(window: &mut Window, now: Nanos) (window, now);
                fn on_recovered(window: &mut Window, next: u32, now: Nanos) (window, next, now);
                fn on_restart(window: &mut Window, next: u32, now: Nanos) (window, next, now);
                fn on_start(window: &mut Window, app_limited: bool, now: Nanos)
                    (window, app_limited, now);
            );

            /// [`CongestionControl::on_congestion`].
            pub fn on_congestion(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
                match self { $(Self::$variant(cc) => cc.on_congestion(window, now, peers)),+ }
            }

            /// [`CongestionControl::on_ecn`].
            pub fn on_ecn(&mut self, window: &Window, now: Nanos, peers: Peers<'_>) -> f64 {
                match self { $(Self::$variant(cc) => cc.on_ecn(window, now, peers)),+ }
            }

            /// [`CongestionControl::pacing_rate`].
            pub fn pacing_rate(&self) -> Option<f64> {
                match self { $(Self::$variant(cc) => cc.pacing_rate()),+ }
            }
        }
    };
    (@forward $variants:tt $(fn $hook:ident($($arg:ident: $argtype:ty),*) $call:tt;)+) => {
        $(controllers!(@one $variants $hook($($arg: $argtype),*) $call);)+
    };
    // `$call` repeats the arguments' names as one token tree: a list cannot be repeated per variant.
    (@one [$($variant:ident)+] $hook:ident($($arg:ident: $argtype:ty),*) $call:tt) => {
        #[doc = concat!("[`CongestionControl::", stringify!($hook), "`].")]
        #[inline]
        pub fn $hook(&mut self, $($arg: $argtype),*) {
            match self { $(Self::$variant(cc) => cc.$hook $call),+ }
        }
    };
}

impl Controller {
    /// The controller as the v0.9x kernels compute it, where that is another: OLIA's growth.
    pub fn in_integers(self) -> Self {
        match self {
            Self::Olia(_) => Self::Olia(olia::Olia::in_integers()),
            other => other,
        }
    }
}

controllers! {
    "reno" => Reno(reno::Reno),
    "cubic" => Cubic(cubic::Cubic),
    "hybla" => Hybla(hybla::Hybla),
    "scalable" => Scalable(scalable::Scalable),
    "vegas" => Vegas(vegas::Vegas),
    "olia" => Olia(olia::Olia),
    "lia" => Lia(lia::Lia),
    "balia" => Balia(balia::Balia),
    "wvegas" => Wvegas(wvegas::Wvegas),
    "bbr" => Bbr(bbr::Bbr),
    "dctcp" => Dctcp(dctcp::Dctcp),
}
