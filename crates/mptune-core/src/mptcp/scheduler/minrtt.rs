//! minRTT: the ready subflow with the smallest smoothed RTT, the default of the v0.9x kernels
//! (`net/mptcp/mptcp_sched.c`, `get_available_subflow`). Their opportunistic retransmission and
//! penalisation are an option of the connection, since any scheduler may use them.

use super::{Candidates, Scheduler};

/// minRTT has no state.
#[derive(Debug, Clone, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    const TAKES_ONLY_READY: bool = true;

    #[inline]
    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        candidates.fastest_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{candidates, subflow};
    use super::*;

    #[test]
    fn takes_the_smallest_rtt_among_the_ready_only() {
        let subflows = [subflow(30, 10, 0), subflow(10, 10, 0), subflow(20, 10, 0)];
        let select = |ready| MinRtt.select(Candidates { ready, ..candidates(&subflows, 1, 1) });
        assert_eq!(select(0b111), Some(1));
        assert_eq!(select(0b101), Some(2));
        assert_eq!(select(0b001), Some(0));
    }
}
