//! quick: messages take the path that delivers them first (`bpf/scheduling/quick.h`, whose equations these are).
//!
//! ```text
//! (1)  m = what the program has offered and the peer has not acknowledged as data, the most of the last 2 to 4 s
//! (2)  E = srtt max(1, m / cwnd)
//! (3)  while m <= burst: hold if a sibling j that is neither held nor timed out has E_j < 7/8 E, release if none has E_j < E
//! (4)  beyond it, and for the rate of a subflow that is not held: as hold
//! ```
//!
//! A burst goes to one subflow, so that a message below it is as quick as the path it is given.

use super::hold::Hold;
use super::{Parameters, PathPolicy, View};
use crate::congestion::Peer;
use crate::mptcp::scheduler::kernel::BURST;
use crate::units::{Nanos, SECOND};

/// Equation 3: part of its own time that another has to be below, if it is not held.
const CLEARLY: f64 = 7.0 / 8.0;
/// Time for which the most counts, once or twice.
const MEMORY: Nanos = 2 * SECOND;

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Quick {
    hold: Hold,
    /// Equation 1 in this period and the last, segments.
    most: [f64; 2],
    period_end: Nanos,
}

impl Quick {
    /// Equation 1, segments.
    fn message(&mut self, view: &View<'_>) -> f64 {
        if view.now >= self.period_end {
            self.most = [0.0, self.most[0]];
            self.period_end = view.now + MEMORY;
        }
        self.most[0] = self.most[0].max(view.waiting);
        self.most[0].max(self.most[1])
    }
}

/// Equation 2, ns.
fn delivery(peer: &Peer, message: f64) -> f64 {
    peer.srtt as f64 * (message / peer.window.max(1.0)).max(1.0)
}

/// Equation 3.
fn others_are_quicker(view: &View<'_>, message: f64) -> bool {
    let own = &view.subflows[view.own];
    if !own.usable || message > BURST.ceil() {
        return false;
    }
    let part = if own.held { 1.0 } else { CLEARLY };
    let most = part * delivery(own, message);
    view.subflows.iter().enumerate().any(|(id, peer)| {
        let counts = peer.usable && !(peer.held || peer.timed_out);
        id != view.own && counts && delivery(peer, message) < most
    })
}

impl PathPolicy for Quick {
    fn rate(&mut self, view: View<'_>) -> f64 {
        let message = self.message(&view);
        let rate = self.hold.rate(view);
        if others_are_quicker(&view, message) { 0.0 } else { rate }
    }

    fn limit(&self, subflow: usize) -> Option<f64> {
        self.hold.limit(subflow)
    }

    fn buffered(&self, view: View<'_>) -> f64 {
        self.hold.buffered(view)
    }

    fn unsent(&self, view: View<'_>) -> f64 {
        self.hold.unsent(view)
    }

    fn reset(&mut self, subflow: usize, path: Parameters) {
        self.hold.reset(subflow, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    /// RTTs of 20 and 40 ms, with windows of ten segments.
    fn subflows() -> [Peer; 2] {
        [20, 40].map(|rtt_ms| Peer {
            usable: true,
            srtt: rtt_ms * MILLISECOND,
            min_rtt: rtt_ms * MILLISECOND,
            window: 10.0,
            paced: 12.0,
            ..Peer::default()
        })
    }

    fn is_held(subflows: &[Peer], own: usize, waiting: f64) -> bool {
        let mut quick = Quick::default();
        (0..subflows.len()).for_each(|id| quick.reset(id, Parameters::default()));
        rate(&mut quick, subflows, own, waiting, 0) == 0.0
    }

    fn rate(quick: &mut Quick, subflows: &[Peer], own: usize, waiting: f64, now: Nanos) -> f64 {
        let (delivers, window) = (None, 1e9);
        quick.rate(View {
            subflows,
            own,
            delivers,
            delivered: 0,
            window,
            grows: false,
            waiting,
            now,
        })
    }

    #[test]
    fn the_slower_is_held_while_messages_fit_a_burst() {
        let subflows = subflows();
        assert!(is_held(&subflows, 1, 1.0) && !is_held(&subflows, 0, 1.0));
        assert!(is_held(&subflows, 1, 46.0) && !is_held(&subflows, 1, 47.0), "64 KiB");
    }

    #[test]
    fn a_message_beyond_the_window_takes_round_trips() {
        let mut subflows = subflows();
        // 20 segments: 40 ms with ten at a time, and 40 ms with all at once.
        subflows[1].window = 40.0;
        assert!(!is_held(&subflows, 1, 20.0) && !is_held(&subflows, 0, 20.0));
        assert!(is_held(&subflows, 1, 10.0), "20 and 40 ms");
        assert!(is_held(&subflows, 0, 40.0), "80 and 40 ms");
    }

    #[test]
    fn it_takes_a_clear_difference_to_hold_and_none_to_keep_held() {
        let mut subflows = subflows();
        subflows[1].srtt = 22 * MILLISECOND;
        assert!(!is_held(&subflows, 1, 1.0), "20 is above 7/8 of 22");
        subflows[1].held = true;
        assert!(is_held(&subflows, 1, 1.0));
        subflows[1].srtt = 20 * MILLISECOND;
        assert!(!is_held(&subflows, 1, 1.0));
    }

    #[test]
    fn a_sibling_that_is_held_or_silent_is_not_waited_for() {
        for change in [|peer: &mut Peer| peer.held = true, |peer: &mut Peer| peer.timed_out = true]
        {
            let mut subflows = subflows();
            change(&mut subflows[0]);
            assert!(!is_held(&subflows, 1, 1.0));
        }
    }

    #[test]
    fn a_large_message_is_remembered_for_two_periods() {
        let (subflows, mut quick) = (subflows(), Quick::default());
        (0..2).for_each(|id| quick.reset(id, Parameters::default()));
        assert!(rate(&mut quick, &subflows, 1, 100.0, 0) > 0.0);
        assert!(rate(&mut quick, &subflows, 1, 1.0, MEMORY) > 0.0);
        assert_eq!(rate(&mut quick, &subflows, 1, 1.0, 2 * MEMORY), 0.0);
    }
}
