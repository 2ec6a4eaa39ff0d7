//! The trait of schedulers, and its input.

use crate::congestion::Peer;
use crate::units::{Nanos, Seq};

/// The subflows and windows that a scheduler chooses from.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// Every subflow of the connection: windows and RTTs.
    pub subflows: &'a [Peer],
    /// Bit `i` is set when subflow `i` may take a segment now; never 0.
    pub ready: u64,
    /// Bit `i` is set when subflow `i` carries data at all, ready or not.
    pub usable: u64,
    /// Segments the shared buffers still have room for.
    pub window: Seq,
    /// A burst may end here: the next segment begins a fragment of the send buffer.
    pub burst_may_end: bool,
    /// Segments the shared buffers can hold in total.
    pub whole_window: Seq,
    /// Segments that the connection may have under way now: the smaller of the peer's window and the send buffer.
    pub under_way: f64,
    /// The current time.
    pub now: Nanos,
}

impl Candidates<'_> {
    /// The usable subflow with the smallest smoothed RTT, ready or not.
    pub fn fastest(&self) -> Option<usize> {
        bits(self.usable).min_by_key(|&i| self.subflows[i].srtt)
    }

    /// The ready subflow with the smallest smoothed RTT.
    #[inline]
    pub fn fastest_ready(&self) -> Option<usize> {
        // Usually only the subflow whose ACK just arrived is ready.
        if self.ready.is_power_of_two() {
            return Some(self.ready.trailing_zeros() as usize);
        }
        bits(self.ready).min_by_key(|&i| self.subflows[i].srtt)
    }
}

/// The indices of set bits, ascending.
pub fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// The way in which segments reach the subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A subflow takes the next segment when its cwnd has room.
    Pull,
    /// A subflow gets the next segment regardless of cwnd: its send queue holds the segments that cannot leave at once.
    Push,
    /// Every subflow sends every segment.
    Copy,
}

/// A scheduling policy.
pub trait Scheduler {
    /// The way in which segments reach the subflows.
    const STYLE: Style = Style::Pull;
    /// It has no state and always selects the only ready subflow, so that it need not be called.
    const TAKES_ONLY_READY: bool = false;

    /// It goes by delivery rates ([`Peer::delivers`]).
    const RATE_SAMPLES: bool = false;

    /// What the connection repeats goes to the quickest of the idle subflows, not to the first.
    const REPEATS_ON_QUICKEST: bool = false;

    /// The subflow that takes the next segment, one of `candidates.ready`; none to wait for a better one. (With
    /// [`Style::Push`], a subflow is ready if its send queue has room.)
    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize>;

    /// The subflow selected last also takes the next segment, if it is still ready and no event came between.
    #[inline]
    fn continues(&self) -> bool {
        false
    }

    /// The subflow selected last got so many full segments.
    #[inline]
    fn note_handed(&mut self, _segments: f64) {}

    /// The program writes: what is selected next is another event's, also at the same time.
    fn on_write(&mut self) {}

    /// TCP paces the subflow by its own rate.
    fn paces(&self, _subflow: usize) -> bool {
        false
    }
}
