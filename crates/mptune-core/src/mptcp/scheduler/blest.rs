//! BLEST: blocking estimation (Ferlin, Alay, Mehani, Boreli: "BLEST: Blocking estimation-based MPTCP
//! scheduler for heterogeneous networks", IFIP Networking 2016; v0.9x kernels
//! `net/mptcp/mptcp_blest.c`).
//!
//! minRTT, but a slower subflow is skipped if the segments that the fastest could send while this one is in flight would
//! not fit into the shared window beside it. As in the kernel, the time in flight is interpolated between the smallest
//! and the largest RTT by the fill of the window, and the fast subflow grows like Reno. The paper's correction factor
//! lambda adapts to retransmissions on the slow subflow; here it decays from 1.2 to its lower bound of 1.0 as in the
//! kernel without any.

use super::{Candidates, Scheduler, bits};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::units::Nanos;

/// Kernel module parameters: start and bound of lambda, and its decay each round trip.
const LAMBDA: f64 = 1.2;
const MIN_LAMBDA: f64 = 1.0;
const DECAY: f64 = 0.01;

/// The state of BLEST.
#[derive(Debug, Clone)]
pub struct Blest {
    lambda: f64,
    updated_at: Nanos,
    /// Smallest and largest smoothed RTT of each subflow so far.
    rtts: Vec<(Nanos, Nanos)>,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: LAMBDA, updated_at: 0, rtts: Vec::new() }
    }
}

impl Scheduler for Blest {
    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        self.note_rtts(&candidates);
        let candidate = candidates.fastest_ready()?;
        let fastest = candidates.fastest()?;
        if candidate == fastest {
            return Some(candidate);
        }
        self.decay(candidates.now, self.rtts[candidate].0);
        let (fast, slow) = (&candidates.subflows[fastest], &candidates.subflows[candidate]);
        let on_the_way = self.linger(candidate, slow);
        let blocked = self.lambda * self.segments_within(fastest, fast, on_the_way);
        let beside = f64::from(candidates.whole_window) - f64::from(slow.outstanding + 1);
        (blocked <= beside).then_some(candidate)
    }
}

impl Blest {
    fn note_rtts(&mut self, candidates: &Candidates<'_>) {
        self.rtts.resize(candidates.subflows.len(), (Nanos::MAX, 0));
        for id in bits(candidates.usable) {
            let srtt = candidates.subflows[id].srtt;
            let (smallest, largest) = &mut self.rtts[id];
            *smallest = srtt.min(*smallest);
            *largest = srtt.max(*largest);
        }
    }

    fn decay(&mut self, now: Nanos, round_trip: Nanos) {
        if now - self.updated_at >= round_trip {
            self.lambda = (self.lambda - DECAY).max(MIN_LAMBDA);
            self.updated_at = now;
        }
    }

    /// Time for which a segment sent now will occupy the window, ns.
    fn linger(&self, id: usize, slow: &Peer) -> f64 {
        let (smallest, largest) = self.rtts[id];
        let fill = (f64::from(slow.outstanding + 1) / slow.cwnd).min(1.0);
        let estimate = smallest as f64 + (largest - smallest) as f64 * fill;
        estimate.max(slow.srtt as f64)
    }

    /// Segments that the fast subflow sends in that time: equation 2 of the paper, or doubling in its first slow start.
    fn segments_within(&self, id: usize, fast: &Peer, time: f64) -> f64 {
        let (smallest, largest) = self.rtts[id];
        let rtt = ((smallest + largest) / 2).max(1) as f64;
        let rounds = libm::floor(time / rtt) + 1.0;
        if fast.ssthresh >= INFINITE_SSTHRESH {
            return fast.cwnd * (libm::exp2(rounds.min(16.0)) - 1.0);
        }
        (fast.cwnd.max(fast.ssthresh + 1.0) + (rounds - 1.0) / 2.0) * rounds
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{candidates, starting, subflow};
    use super::*;

    #[test]
    fn the_fastest_subflow_is_never_skipped() {
        let subflows = [subflow(10, 10, 0), subflow(100, 10, 0)];
        assert_eq!(Blest::default().select(candidates(&subflows, 1, 12)), Some(0));
    }

    #[test]
    fn a_slow_subflow_waits_when_it_would_block_the_fast_one() {
        // In 100 ms the fast one sends (11 + 10/2) * 11 = 176 segments, times lambda 211.
        let subflows = [subflow(10, 10, 10), subflow(100, 10, 0)];
        let select = |window| Blest::default().select(candidates(&subflows, 1, window));
        assert_eq!(select(200), None);
        assert_eq!(select(215), Some(1));
    }

    #[test]
    fn in_slow_start_the_fast_subflow_is_expected_to_double() {
        let subflows = [starting(50, 10, 10), subflow(100, 10, 0)];
        // Three rounds: 10 + 20 + 40 segments, times lambda 84.
        let select = |window| Blest::default().select(candidates(&subflows, 1, window));
        assert_eq!((select(84), select(86)), (None, Some(1)));
    }
}
