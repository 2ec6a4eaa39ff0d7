//! Subflows that do not answer, under Linux accounting (Linux `net/mptcp/pm.c`,
//! `mptcp_pm_subflow_chk_stale`; `net/mptcp/pm_kernel.c`, `mptcp_pm_nl_subflow_chk_stale`;
//! `net/mptcp/protocol.c`, `__mptcp_retransmit_pending_data`).
//!
//! A timeout of a subflow's TCP changes nothing for the connection. It looks at its subflows whenever its
//! own retransmission is due. One that stays silent for several such periods is stale: it gets nothing
//! new, and what it carries goes to others.
//!
//! Two things differ from Linux. A period counts only after a timeout, so that nothing but an outage
//! is taken for one; Linux begins to count a period earlier. And Linux repeats everything that is not
//! DATA_ACKed, also what a sound subflow carries.

use super::DataSender;
use crate::mptcp::subflow::{Phase, Subflow};

/// Periods after which a subflow is stale (Linux `net.mptcp.stale_loss_cnt`; its count is then 5, see above).
const STALE: u32 = 4;

/// What the end of a period found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    /// No subflow that has something unfinished answers.
    pub all_silent: bool,
    /// A subflow is stale from now on.
    pub newly_stale: bool,
}

/// Data waits at a subflow for an answer or for room.
fn has_unfinished(subflow: &Subflow) -> bool {
    subflow.sender.outstanding() > 0 || !subflow.queue.is_empty()
}

impl DataSender {
    /// A subflow that times out fails, and others carry what it carries; otherwise the connection judges by its
    /// own timer which ones are silent, or there are no others.
    pub fn gives_up_at_timeout(&self) -> bool {
        self.gives_up_at_timeout
    }

    /// A period of the retransmission timer ends.
    pub(super) fn judge_silence(&mut self, subflows: &mut [Subflow]) -> Judgement {
        let mut all_silent = true;
        for subflow in subflows.iter_mut().filter(|one| one.phase == Phase::Established) {
            subflow.silent_periods += u32::from(subflow.timed_out);
            all_silent &= subflow.is_silent() || !has_unfinished(subflow);
        }
        let newly_stale = self.give_up_stale(subflows);
        Judgement { all_silent, newly_stale }
    }

    /// Marks the stale subflows if there is a better one, and returns whether there are new ones.
    fn give_up_stale(&mut self, subflows: &mut [Subflow]) -> bool {
        let is_better = |one: &Subflow| one.alive() && one.silent_periods + 1 < STALE;
        if !subflows.iter().any(is_better) {
            return false;
        }
        let is_stale = |one: &&mut Subflow| one.alive() && one.silent_periods >= STALE;
        let stale = subflows.iter_mut().filter(is_stale).map(|one| one.failing = true).count();
        if stale > 0 {
            self.resend_unsound(subflows);
        }
        stale > 0
    }
}
