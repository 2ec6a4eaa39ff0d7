//! Parts of coupled controllers: the condition for coupling, and sums over the subflows that are computed once per
//! window. Not here: the increase, in which they differ.

use super::{Ack, Peers};
use crate::units::Seq;

/// Smallest `ssthresh` with several subflows, segments: together they can be as slow as one flow (drafts of
/// OLIA and BALIA, fork).
pub const MIN_SSTHRESH_COUPLED: f64 = 1.0;

/// Several subflows share the growth, including the controller's own.
#[inline]
pub fn coupled(peers: Peers<'_>) -> bool {
    peers.mine().usable && peers.usable().nth(1).is_some()
}

/// A value computed from all subflows once per window: the cost per ACK does not grow with their number, and the value
/// is at most an RTT old.
#[derive(Debug, Clone, Default)]
pub struct PerWindow {
    value: f64,
    /// The window ends when SND.UNA reaches it.
    end: Seq,
}

impl PerWindow {
    /// The value for this ACK.
    #[inline]
    pub fn get(&mut self, ack: &Ack, compute: impl FnOnce() -> f64) -> f64 {
        if ack.una >= self.end {
            self.end = ack.next;
            self.value = compute();
        }
        self.value
    }

    /// The window changed by something other than growth: the next ACK recomputes the value.
    pub fn expire(&mut self) {
        self.end = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::ack;

    #[test]
    fn the_value_is_computed_once_per_window_and_after_an_event() {
        let mut value = PerWindow::default();
        let mut computed = 0;
        let mut acknowledge = |value: &mut PerWindow, una: Seq| {
            value.get(&ack(1).sequence(una, una + 10), || {
                computed += 1;
                f64::from(computed)
            })
        };
        let values: Vec<_> = (1..=25).map(|una| acknowledge(&mut value, una)).collect();
        let expected: Vec<_> = (0..25).map(|number| f64::from(number / 10 + 1)).collect();
        assert_eq!(values, expected);
        value.expire();
        assert_eq!(acknowledge(&mut value, 26), 4.0);
    }
}
