//! The upstream kernel's default scheduler (`net/mptcp/protocol.c`, `mptcp_subflow_get_send`): the
//! subflow on which data would wait the shortest time, which is its send queue divided by its pacing
//! rate; it then gets a burst of 64 KiB.
//!
//! Unlike the schedulers of the v0.9x kernels it hands data to a subflow whether or not the window
//! has room: what does not go out at once waits in the subflow's send queue.

use super::{Choice, Scheduler, Style, bits};
use crate::congestion::Peer;

/// Linux `MPTCP_SEND_BURST_SIZE`, 65428 bytes, in segments of 1448.
const BURST: u32 = 45;
/// Linux `net.ipv4.tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const SLOW_START_RATIO: f64 = 2.0;
const AVOIDANCE_RATIO: f64 = 1.2;

/// The burst being handed out.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    chosen: usize,
    left: u32,
}

/// Linux `sk_pacing_rate` (`tcp_update_pacing_rate`), segments per ns.
fn pacing_rate(subflow: &Peer) -> f64 {
    let slow_start = subflow.cwnd < subflow.ssthresh / 2.0;
    let ratio = if slow_start { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
    ratio * subflow.cwnd / subflow.srtt.max(1) as f64
}

impl Scheduler for Kernel {
    const STYLE: Style = Style::Push;

    fn select(&mut self, choice: Choice<'_>) -> Option<usize> {
        if self.left == 0 || choice.usable >> self.chosen & 1 == 0 {
            let linger = |&id: &usize| {
                let subflow = &choice.subflows[id];
                f64::from(subflow.outstanding) / pacing_rate(subflow)
            };
            // The subflow with the shortest wait, even when its queue is full: then all wait.
            self.chosen = bits(choice.usable).min_by(|a, b| linger(a).total_cmp(&linger(b)))?;
            self.left = BURST.min(choice.window);
        }
        if choice.ready >> self.chosen & 1 == 0 {
            self.left = 0;
            return None;
        }
        self.left = self.left.saturating_sub(1);
        Some(self.chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choice, subflow};
    use super::*;

    #[test]
    fn the_shortest_queue_in_time_gets_a_burst() {
        // 20 segments at 1 per ms wait longer than 30 at 3 per ms.
        let subflows = [subflow(100, 100, 20), subflow(10, 30, 29)];
        let mut scheduler = Kernel::default();
        let now = Choice { ready: 0b11, ..choice(&subflows, 1000, 1000) };
        let given: Vec<_> = (0..BURST).filter_map(|_| scheduler.select(now)).collect();
        assert_eq!(given, vec![1; BURST as usize]);
        let longer = [subflow(100, 100, 20), subflow(10, 30, 29 + BURST)];
        let now = Choice { ready: 0b11, ..choice(&longer, 1000, 1000) };
        assert_eq!(scheduler.select(now), Some(0));
    }

    #[test]
    fn a_full_send_queue_of_the_best_subflow_holds_up_all() {
        let subflows = [subflow(100, 100, 20), subflow(10, 30, 29)];
        let now = Choice { ready: 0b01, ..choice(&subflows, 1000, 1000) };
        assert_eq!(Kernel::default().select(now), None);
    }
}
