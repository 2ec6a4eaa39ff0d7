//! ECF: earliest completion first (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP path scheduler to
//! manage heterogeneous paths", CoNEXT 2017; v0.9x kernels `net/mptcp/mptcp_ecf.c`).
//!
//! minRTT, but a slower subflow is skipped if waiting for the fastest completes the remaining data sooner (algorithm 1 of
//! the paper). The remaining data is that in the shared buffer or its room, at least a cwnd of either subflow, as in
//! the kernel.

use super::{Candidates, Scheduler};

/// Hysteresis of the decision to wait (paper section 4; kernel `mptcp_ecf_r_beta` 4).
const BETA: f64 = 0.25;

/// The state of ECF: it is waiting for the fastest subflow, or not.
#[derive(Debug, Clone, Default)]
pub struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        let candidate = candidates.fastest_ready()?;
        let fastest = candidates.fastest()?;
        if candidate == fastest {
            return Some(candidate);
        }
        let (fast, slow) = (&candidates.subflows[fastest], &candidates.subflows[candidate]);
        let left = f64::from(candidates.window);
        let margin = fast.rtt_variation.max(slow.rtt_variation) as f64;
        let (fast_rtt, slow_rtt) = (fast.srtt as f64, slow.srtt as f64);
        // n round trips on the fast subflow against one on the slow one.
        let rounds = 1.0 + (left / fast.cwnd).max(1.0);
        let hysteresis = 1.0 + if self.waiting { BETA } else { 0.0 };
        if rounds * fast_rtt < hysteresis * (slow_rtt + margin) {
            // Would the slow subflow take more than two round trips of the fast one?
            if (left / slow.cwnd).max(1.0) * slow_rtt >= 2.0 * fast_rtt + margin {
                self.waiting = true;
                return None;
            }
        } else {
            self.waiting = false;
        }
        Some(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{candidates, subflow};
    use super::*;

    #[test]
    fn a_short_remainder_waits_for_the_fast_subflow_and_a_long_one_does_not() {
        // One window left: two round trips of 20 ms beat one of 100 ms; 100 segments need 11 rounds.
        let subflows = [subflow(20, 10, 10), subflow(100, 10, 0)];
        assert_eq!(Ecf::default().select(candidates(&subflows, 5, 100)), None);
        assert_eq!(Ecf::default().select(candidates(&subflows, 100, 100)), Some(1));
    }

    #[test]
    fn a_decision_to_wait_has_hysteresis() {
        // 5 rounds of 20 ms are 100 ms: not less than 100, but less than 125.
        let subflows = [subflow(20, 10, 10), subflow(100, 10, 0)];
        let close = candidates(&subflows, 40, 100);
        assert_eq!(Ecf::default().select(close), Some(1));
        assert_eq!(Ecf { waiting: true }.select(close), None);
    }

    #[test]
    fn similar_paths_are_both_used() {
        let subflows = [subflow(20, 10, 10), subflow(22, 10, 0)];
        assert_eq!(Ecf::default().select(candidates(&subflows, 5, 100)), Some(1));
    }
}
