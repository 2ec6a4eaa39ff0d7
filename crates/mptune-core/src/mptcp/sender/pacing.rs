//! The path policy: it chooses a subflow's pacing rate at each of its ACKs.

use super::DataSender;
use crate::congestion::Peer;
use crate::mptcp::pathpolicy::{BEAT, View};
use crate::mptcp::scheduler::pacing_rate;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::units::{NEVER, Nanos};

impl DataSender {
    /// A subflow starts, or starts again.
    pub fn restart_pace(&mut self, subflows: &[Subflow], id: SubflowId) {
        if let Some(paces) = &mut self.scheduling.paces {
            paces.reset(id, subflows[id].path);
        }
    }

    /// A subflow is established, an ACK arrived on it, or that of its keepalive.
    #[inline]
    pub fn pace(&mut self, now: Nanos, subflows: &mut [Subflow], id: SubflowId) {
        if self.scheduling.paces.is_some() {
            self.choose_pace(now, subflows, id);
        } else if self.paced_by_scheduler {
            self.follow_scheduler(now, subflows, id);
        }
    }

    /// TCP's own rate where the scheduler wants it to pace the subflow (Linux `SK_PACING_NEEDED`).
    #[inline(never)]
    fn follow_scheduler(&mut self, now: Nanos, subflows: &mut [Subflow], id: SubflowId) {
        self.refresh_one(now, subflows, id);
        let own = Peer { pace: 0.0, ..self.scheduling.peers[id] };
        let limit = self.scheduling.paces(id).then(|| pacing_rate(&own));
        subflows[id].sender.limit_pace(limit);
    }

    #[inline(never)]
    fn choose_pace(&mut self, now: Nanos, subflows: &mut [Subflow], id: SubflowId) {
        self.refresh_one(now, subflows, id);
        let subflow = &mut subflows[id];
        let Some(paces) = &mut self.scheduling.paces else { return };
        let limit = paces.choose(View {
            subflows: &self.scheduling.peers,
            own: id,
            delivers: subflow.sender.delivery_rate(),
            delivered: subflow.sender.delivered(),
            window: self.buffer.window(),
            grows: self.buffer.grows(),
            waiting: (self.buffer.next() - self.buffer.una()) as f64 + self.buffer.left() as f64,
            now,
        });
        subflow.sender.limit_pace(limit);
        let peer = &mut self.scheduling.peers[id];
        paces.apply(id, peer);
        let is_idle = peer.held && peer.outstanding == 0;
        subflow.beat_at = if is_idle { now + BEAT + subflow.sender.rtt.srtt } else { NEVER };
    }
}
