//! Stale subflows, under Linux accounting (Linux `net/mptcp/pm.c`, `mptcp_pm_subflow_chk_stale`;
//! `net/mptcp/pm_kernel.c`, `mptcp_pm_nl_subflow_chk_stale`; `net/mptcp/protocol.c`, `__mptcp_retransmit_pending_data`).
//!
//! The connection ignores RTOs of its subflows. It checks them when its own retransmission timer expires: a subflow that
//! is silent for several such periods is stale, gets no new data, and its data is reinjected on others.
//!
//! Two differences from Linux: a period counts only after an RTO, so that only an outage counts (Linux starts a period
//! earlier); and Linux reinjects all data that is not DATA_ACKed, also that of healthy subflows.

use super::DataSender;
use crate::mptcp::subflow::{Phase, Subflow};

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
    pub(super) fn check_stale(&mut self, subflows: &mut [Subflow]) -> StaleCheck {
        let mut all_silent = true;
        for subflow in subflows.iter_mut().filter(|subflow| subflow.phase == Phase::Established) {
            subflow.stale_count += u32::from(subflow.timed_out);
            all_silent &= subflow.is_silent() || !has_unfinished(subflow);
        }
        let newly_stale = self.give_up_stale(subflows);
        StaleCheck { all_silent, newly_stale }
    }

    /// Marks stale subflows as failing if there is a better one. True if there are new ones.
    fn give_up_stale(&mut self, subflows: &mut [Subflow]) -> bool {
        // Linux counts one more, see above.
        let (stale, better) = (self.stale_loss_cnt, self.stale_loss_cnt.saturating_sub(1).max(1));
        let is_better = |subflow: &Subflow| subflow.alive() && subflow.stale_count < better;
        if stale == 0 || !subflows.iter().any(is_better) {
            return false;
        }
        let is_stale = |subflow: &&mut Subflow| subflow.alive() && subflow.stale_count >= stale;
        let new =
            subflows.iter_mut().filter(is_stale).map(|subflow| subflow.failing = true).count();
        if new > 0 {
            self.reinject_unhealthy(subflows);
        }
        new > 0
    }
}
