//! Segments that leave in bursts, as with segmentation offload (TSO): Linux gives the network card up
//! to a millisecond's worth at once, and after sending waits until the window has room for that much
//! (`net/ipv4/tcp_output.c`, `tcp_tso_autosize`, `tcp_tso_should_defer`).
//!
//! A burst is several packets at the same time: queues and links see each of them.

use super::DataSender;
use crate::mptcp::scheduler::pacing_rate;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::tcp::pacing;
use crate::units::{MILLISECOND, Nanos};

/// Linux `net.ipv4.tcp_min_tso_segs`.
const SMALLEST_BURST: u32 = 2;
/// Linux `net.ipv4.tcp_tso_win_divisor`: this fraction of a window is sent without waiting.
const WINDOW_PART: f64 = 3.0;

impl DataSender {
    /// There is room, but too little for a burst this soon after the last one, and more is expected soon.
    pub(super) fn gathers(&self, now: Nanos, subflow: &Subflow, id: SubflowId) -> bool {
        let (sender, srtt) = (&subflow.sender, self.scheduling.peers[id].srtt);
        let Some(oldest) = sender.oldest_sent_at() else { return false };
        let soon = (srtt / 2).min(MILLISECOND);
        let waits = sender.is_open()
            && now <= sender.last_sent_at() + MILLISECOND
            && oldest + srtt <= now + soon;
        if !waits {
            return false;
        }
        let (window, room) = self.subflow_window(subflow);
        let left = self.buffer.end().saturating_sub(self.buffer.next());
        room < self.burst(id).min(left) && f64::from(room) < window / WINDOW_PART
    }

    /// Segments that a subflow may have in flight, and how many more it may send: by its own window,
    /// and by the receiver's if that also applies per subflow.
    fn subflow_window(&self, subflow: &Subflow) -> (f64, u32) {
        let (cwnd, room) = (subflow.sender.window.cwnd, subflow.sender.room());
        let Some(offered) = self.buffer.subflow_window(&subflow.send_window) else {
            return (cwnd, room);
        };
        let left = offered.saturating_sub(subflow.sender.outstanding());
        (cwnd.min(f64::from(offered)), room.min(left))
    }

    /// Segments of a full burst.
    fn burst(&self, id: SubflowId) -> u32 {
        let (peer, full) = (&self.scheduling.peers[id], self.buffer.full());
        pacing::burst(1e9 * pacing_rate(peer), peer.min_rtt, full, SMALLEST_BURST)
    }
}
