//! The scheduler seam: which subflow takes the next segment. One trait, one list, one file each.
//!
//! A scheduler chooses among subflows that may send now; it neither sends nor decides what is sent.
//! To add one, write `<name>.rs` beside this file and one line in the `schedulers!` list.

use crate::congestion::Peer;
use crate::units::{Nanos, Seq};

pub mod blest;
pub mod ecf;
pub mod kernel;
pub mod minrtt;
pub mod redundant;
pub mod roundrobin;

pub use kernel::pacing_rate;

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
    /// A burst may end here: what is next begins a fragment of the send buffer.
    pub burst_may_end: bool,
    /// Segments the shared buffers hold in all.
    pub whole_window: Seq,
    /// The current time.
    pub now: Nanos,
}

impl Choice<'_> {
    /// The usable subflow with the smallest smoothed RTT, ready or not.
    pub fn fastest(&self) -> Option<usize> {
        bits(self.usable).min_by_key(|&i| self.subflows[i].srtt)
    }

    /// The ready subflow with the smallest smoothed RTT.
    #[inline]
    pub fn fastest_ready(&self) -> Option<usize> {
        // One ready subflow is the common case: the one whose ACK just arrived.
        if self.ready.is_power_of_two() {
            return Some(self.ready.trailing_zeros() as usize);
        }
        bits(self.ready).min_by_key(|&i| self.subflows[i].srtt)
    }
}

/// The numbers of the bits that are set, ascending.
pub fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// How a scheduler's choices reach the subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One subflow takes the next segment when its window has room for it.
    Pull,
    /// One subflow is handed the next segment whether or not its window has room: what does not go
    /// out at once waits in the subflow's send queue.
    Push,
    /// Every subflow sends everything.
    Copy,
}

/// A scheduling policy.
pub trait Scheduler {
    /// How its choices reach the subflows.
    const STYLE: Style = Style::Pull;

    /// The subflow that takes the next segment, one of `choice.ready`; none waits for a better one
    /// to become ready. (Ready are, for [`Style::Push`], subflows whose send queue has room.)
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

            /// [`Scheduler::STYLE`].
            #[inline]
            pub fn style(&self) -> Style {
                match self { $(Self::$variant(_) => <$type as Scheduler>::STYLE),+ }
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
    "roundrobin" => RoundRobin(roundrobin::RoundRobin),
    "redundant" => Redundant(redundant::Redundant),
    "blest" => Blest(blest::Blest),
    "ecf" => Ecf(ecf::Ecf),
    "kernel" => Kernel(kernel::Kernel),
}

#[cfg(test)]
pub(crate) mod testing {
    //! A choice among subflows written as a table.

    use super::Choice;
    use crate::congestion::{INFINITE_SSTHRESH, Peer};
    use crate::units::MILLISECOND;

    /// A subflow in congestion avoidance with that RTT, window and flight.
    pub fn subflow(rtt_ms: u64, cwnd: u32, outstanding: u32) -> Peer {
        Peer {
            usable: true,
            cwnd: f64::from(cwnd),
            ssthresh: f64::from(cwnd),
            srtt: rtt_ms * MILLISECOND,
            min_rtt: rtt_ms * MILLISECOND,
            outstanding,
            ..Peer::default()
        }
    }

    /// The same in its first slow start.
    pub fn starting(rtt_ms: u64, cwnd: u32, outstanding: u32) -> Peer {
        Peer { ssthresh: INFINITE_SSTHRESH, ..subflow(rtt_ms, cwnd, outstanding) }
    }

    /// All subflows are usable; those whose flight is below their window are ready.
    pub fn choice(subflows: &[Peer], window: u32, whole_window: u32) -> Choice<'_> {
        let ready = subflows.iter().enumerate().filter(|(_, s)| f64::from(s.outstanding) < s.cwnd);
        let ready = ready.fold(0, |set, (i, _)| set | 1 << i);
        let usable = (1 << subflows.len()) - 1;
        Choice { subflows, ready, usable, window, burst_may_end: true, whole_window, now: 0 }
    }
}
