//! quick: messages take the path that delivers them first (`bpf/scheduling/quick.h`, whose equations these are).
//!
//! ```text
//! (1)  m = largest sum of what the subflows had out, in the last 2 to 4 s
//! (2)  E = srtt max(1, m / cwnd)
//! (3)  while m <= burst: hold if a sibling j that is neither held nor timed out has E_j < 7/8 E; release if none has E_j < E
//! (4)  otherwise, and for the rate of a subflow that is not held: as hold
//! ```

use super::hold::Hold;
use super::{Parameters, PathPolicy, View};
use crate::congestion::Peer;
use crate::mptcp::scheduler::kernel::BURST;
use crate::units::{Nanos, SECOND};

/// Equation 3: part of its own time that another has to be below, if it is not held.
const CLEARLY: f64 = 7.0 / 8.0;
/// Time for which the largest sum counts, once or twice.
const MEMORY: Nanos = 2 * SECOND;

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Quick {
    hold: Hold,
    /// Largest sums of this period and the last, segments.
    out: [f64; 2],
    period_end: Nanos,
}

impl Quick {
    /// Equation 1, segments.
    fn remember(&mut self, view: &View<'_>) -> f64 {
        if view.now >= self.period_end {
            self.out = [0.0, self.out[0]];
            self.period_end = view.now + MEMORY;
        }
        self.out[0] = self.out[0].max(view.waiting);
        self.out[0].max(self.out[1])
    }
}

/// Equation 2, ns.
fn time(peer: &Peer, message: f64) -> f64 {
    peer.srtt as f64 * (message / peer.window.max(1.0)).max(1.0)
}

impl PathPolicy for Quick {
    fn rate(&mut self, view: View<'_>) -> f64 {
        let message = self.remember(&view);
        let own = &view.subflows[view.own];
        let rate = self.hold.rate(view);
        if message > BURST.ceil() || !own.usable {
            return rate;
        }
        let part = if own.held { 1.0 } else { CLEARLY };
        let most = part * time(own, message);
        let mut siblings = view.subflows.iter().enumerate();
        let quicker = siblings.any(|(id, peer)| {
            let counts = peer.usable && !(peer.held || peer.timed_out);
            id != view.own && counts && time(peer, message) < most
        });
        if quicker { 0.0 } else { rate }
    }

    fn unsent(&self, view: View<'_>) -> f64 {
        self.hold.unsent(view)
    }

    fn reset(&mut self, subflow: usize, path: Parameters) {
        self.hold.reset(subflow, path);
    }
}
