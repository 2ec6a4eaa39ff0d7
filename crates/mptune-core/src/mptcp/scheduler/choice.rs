//! What a scheduler is: the trait, what it chooses from, and how its choices reach the subflows.

use crate::congestion::Peer;
use crate::units::{Nanos, Seq};

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
    /// A burst may end here: the next segment begins a fragment of the send buffer.
    pub burst_may_end: bool,
    /// Segments the shared buffers can hold in total.
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
    /// One subflow is handed the next segment whether or not its window has room: what cannot leave
    /// at once waits in the subflow's send queue.
    Push,
    /// Every subflow sends everything.
    Copy,
}

/// A scheduling policy.
pub trait Scheduler {
    /// How its choices reach the subflows.
    const STYLE: Style = Style::Pull;
    /// It has no state and always takes the only ready subflow: it need not be asked then.
    const TAKES_THE_ONLY_ONE: bool = false;

    /// The subflow that takes the next segment, one of `choice.ready`; none waits for a better one
    /// to become ready. (For [`Style::Push`], subflows are ready when their send queue has room.)
    fn select(&mut self, choice: Choice<'_>) -> Option<usize>;

    /// The subflow selected last also takes the next segment, if it is still ready and nothing else
    /// happened since: there is no need to ask again.
    #[inline]
    fn continues(&mut self) -> bool {
        false
    }
}
