//! Stale subflows, under Linux accounting (Linux `net/mptcp/pm.c`, `mptcp_pm_subflow_chk_stale`;
//! `net/mptcp/pm_kernel.c`, `mptcp_pm_nl_subflow_chk_stale`; `net/mptcp/protocol.c`, `__mptcp_retransmit_pending_data`).
//!
//! The connection ignores RTOs of its subflows. It checks them when its own retransmission timer expires: a subflow with
//! unfinished data from which no ACK came for several such periods is stale, gets no new data, and its data is reinjected
//! on others.
//!
//! A difference from Linux: that reinjects all data that is not DATA_ACKed, also that of healthy subflows.

use super::DataSender;
use crate::mptcp::subflow::{Phase, Subflow};
use crate::pathmanager::SubflowId;
use crate::tcp::Clock;

/// Most periods that are counted (Linux `U8_MAX`).
const MOST: u32 = 255;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StaleCheck {
    /// No subflow with unfinished data answers.
    pub all_silent: bool,
    /// A subflow became stale.
    pub newly_stale: bool,
}

/// A subflow has data outstanding or queued.
fn has_unfinished(subflow: &Subflow) -> bool {
    subflow.sender.outstanding() > 0 || !subflow.queue.is_empty()
}

impl DataSender {
    /// An RTO makes a subflow fail, and its data is reinjected; otherwise stale subflows are detected by the connection's
    /// timer, or there is only one.
    pub fn fails_at_timeout(&self) -> bool {
        self.fails_at_timeout
    }

    /// A period of the retransmission timer ends.
    pub(super) fn check_stale(&mut self, subflows: &mut [Subflow], clock: Clock) -> StaleCheck {
        let mut all_silent = true;
        let mut newly_stale = false;
        for id in 0..subflows.len() {
            let subflow = &mut subflows[id];
            if subflow.phase != Phase::Established || !has_unfinished(subflow) {
                continue;
            }
            let heard = clock.ticks(subflow.acked_at);
            if subflow.stale_count == 0 {
                (subflow.stale_since, subflow.stale_count) = (heard, 1);
            } else if subflow.stale_since == heard {
                subflow.stale_count = (subflow.stale_count + 1).min(MOST);
                newly_stale |= self.give_up_stale(subflows, id);
            } else {
                subflow.stale_count = 0;
            }
            all_silent &= subflows[id].stale_count > 1;
        }
        StaleCheck { all_silent, newly_stale }
    }

    /// Marks a stale subflow as failing if there is a better one. True if it did.
    fn give_up_stale(&mut self, subflows: &mut [Subflow], id: SubflowId) -> bool {
        let limit = self.members.stale_loss_cnt;
        let subflow = &subflows[id];
        if !subflow.alive() || limit == 0 || subflow.stale_count <= limit {
            return false;
        }
        let better = limit.saturating_sub(1).max(1);
        let is_better = |other: &Subflow| other.alive() && other.stale_count < better;
        if !subflows.iter().enumerate().any(|(other, subflow)| other != id && is_better(subflow)) {
            return false;
        }
        subflows[id].failing = true;
        self.reinject_unhealthy(subflows);
        true
    }
}
