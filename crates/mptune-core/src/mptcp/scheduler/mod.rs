//! Schedulers: the choice of the subflow that takes the next segment. One trait, one list, one file each.
//!
//! A scheduler chooses among the subflows that may send now; it does not choose the data. To add a scheduler, write
//! `<name>.rs` beside this file and one line in the `schedulers!` list.

pub mod blest;
pub mod ecf;
pub mod hold;
mod interface;
pub mod kernel;
pub mod minrtt;
pub mod redundant;
pub mod roundrobin;

pub use interface::{Candidates, Scheduler, Style, bits};
pub use kernel::pacing_rate;

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

            /// [`Scheduler::STYLE`].
            #[inline]
            pub fn style(&self) -> Style {
                match self { $(Self::$variant(_) => <$type as Scheduler>::STYLE),+ }
            }

            /// [`Scheduler::TAKES_ONLY_READY`].
            pub fn takes_only_ready(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as Scheduler>::TAKES_ONLY_READY),+ }
            }

            /// [`Scheduler::RATE_SAMPLES`].
            pub fn rate_samples(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as Scheduler>::RATE_SAMPLES),+ }
            }

            /// [`Scheduler::REPEATS_ON_QUICKEST`].
            pub fn repeats_on_quickest(&self) -> bool {
                match self { $(Self::$variant(_) => <$type as Scheduler>::REPEATS_ON_QUICKEST),+ }
            }

            /// [`Scheduler::select`].
            #[inline]
            pub fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
                match self { $(Self::$variant(policy) => policy.select(candidates)),+ }
            }

            /// [`Scheduler::continues`].
            #[inline]
            pub fn continues(&self) -> bool {
                match self { $(Self::$variant(policy) => policy.continues()),+ }
            }

            /// [`Scheduler::on_write`].
            pub fn on_write(&mut self) {
                match self { $(Self::$variant(policy) => policy.on_write()),+ }
            }

            /// [`Scheduler::paces`].
            pub fn paces(&self, subflow: usize) -> bool {
                match self { $(Self::$variant(policy) => policy.paces(subflow)),+ }
            }

            /// [`Scheduler::note_handed`].
            #[inline]
            pub fn note_handed(&mut self, segments: f64) {
                match self { $(Self::$variant(policy) => policy.note_handed(segments)),+ }
            }
        }
    };
}

schedulers! {
    "minrtt" => MinRtt(minrtt::MinRtt),
    "roundrobin" => RoundRobin(roundrobin::RoundRobin),
    "redundant" => Redundant(redundant::Redundant),
    "blest" => Blest(blest::Blest),
    "ecf" => Ecf(ecf::Ecf),
    "kernel" => Kernel(kernel::Kernel),
    "hold" => Hold(hold::Hold),
}

#[cfg(test)]
pub(crate) mod testing {
    //! Candidates written as a table.

    use super::Candidates;
    use crate::congestion::{INFINITE_SSTHRESH, Peer};
    use crate::tcp::pacing::per_rtt;
    use crate::units::MILLISECOND;

    /// A subflow in congestion avoidance with this RTT, window and flight.
    pub fn subflow(rtt_ms: u64, cwnd: u32, outstanding: u32) -> Peer {
        Peer {
            usable: true,
            cwnd: f64::from(cwnd),
            ssthresh: f64::from(cwnd),
            srtt: rtt_ms * MILLISECOND,
            min_rtt: rtt_ms * MILLISECOND,
            outstanding,
            memory: f64::from(outstanding),
            window: f64::from(cwnd),
            paced: per_rtt(f64::from(cwnd), f64::from(cwnd), outstanding),
            ..Peer::default()
        }
    }

    /// The same in its first slow start.
    pub fn starting(rtt_ms: u64, cwnd: u32, outstanding: u32) -> Peer {
        Peer { ssthresh: INFINITE_SSTHRESH, ..subflow(rtt_ms, cwnd, outstanding) }
    }

    /// All subflows are usable; those whose flight is below their window are ready.
    pub fn candidates(subflows: &[Peer], window: u32, whole_window: u32) -> Candidates<'_> {
        let ready = subflows.iter().enumerate().filter(|(_, s)| f64::from(s.outstanding) < s.cwnd);
        let ready = ready.fold(0, |set, (i, _)| set | 1 << i);
        let usable = (1 << subflows.len()) - 1;
        Candidates {
            subflows,
            ready,
            usable,
            window,
            burst_may_end: true,
            whole_window,
            under_way: f64::from(whole_window),
            now: 0,
        }
    }
}
