//! minRTT: the ready subflow with the smallest smoothed RTT, the default of the v0.9x kernels
//! (`net/mptcp/mptcp_sched.c`, `get_available_subflow`), without its opportunistic retransmission
//! and penalisation.

use super::{Choice, Scheduler, bits};

/// minRTT has no state.
#[derive(Debug, Clone, Default)]
pub struct MinRtt;

impl Scheduler for MinRtt {
    #[inline]
    fn select(&mut self, choice: Choice<'_>) -> Option<usize> {
        // One ready subflow is the common case: the one whose ACK just arrived.
        if choice.ready.is_power_of_two() {
            return Some(choice.ready.trailing_zeros() as usize);
        }
        bits(choice.ready).min_by_key(|&i| choice.subflows[i].srtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Peer;

    #[test]
    fn takes_the_smallest_rtt_among_the_ready_only() {
        let rtts = [30, 10, 20, 20];
        let subflows = rtts.map(|srtt| Peer { usable: true, srtt, ..Peer::default() });
        let select =
            |ready| MinRtt.select(Choice { subflows: &subflows, ready, usable: 0b1111, window: 1 });
        assert_eq!(select(0b1111), Some(1));
        assert_eq!(select(0b1101), Some(2));
        assert_eq!(select(0b0001), Some(0));
    }
}
