//! Segments that leave in bursts, as with segmentation offload (TSO): Linux gives the network card up
//! to a millisecond's worth at once, and waits for so much room in the window when it just sent
//! (`net/ipv4/tcp_output.c`, `tcp_tso_autosize`, `tcp_tso_should_defer`).
//!
//! A burst is a number of packets at the same time: queues and links see each of them.

use super::Connection;
use crate::mptcp::scheduler::pacing_rate;
use crate::pathmanager::SubflowId;
use crate::units::{MILLISECOND, Nanos};

/// Linux `sk_pacing_shift` 10: a burst is what the pacing rate sends in 1/1024 s.
const BURST_SPAN: f64 = 1e9 / 1024.0;
/// Linux `net.ipv4.tcp_min_tso_segs`.
const SMALLEST_BURST: u32 = 2;
/// Linux `GSO_LEGACY_MAX_SIZE`, bytes of the largest burst.
const LARGEST_BURST: u32 = 65_536;
/// Linux `net.ipv4.tcp_tso_rtt_log`: a burst is a full one for RTTs below 2^9 us, and that addition is
/// halved with each 2^9 us more.
const RTT_LOG: u32 = 9;
/// Linux `net.ipv4.tcp_tso_win_divisor`: this part of a window is sent without waiting.
const WINDOW_PART: f64 = 3.0;

impl Connection {
    /// There is room, but too little for a burst so soon after the last one, and more is expected soon.
    pub(super) fn gathers(&self, now: Nanos, id: SubflowId) -> bool {
        let subflow = &self.subflows[id];
        let sender = &subflow.sender;
        let Some(oldest) = sender.oldest_sent_at() else { return false };
        let soon = (self.peers[id].srtt / 2).min(MILLISECOND);
        let waits = sender.is_open()
            && now <= sender.last_sent_at() + MILLISECOND
            && oldest + self.peers[id].srtt <= now + soon;
        if !waits {
            return false;
        }
        let (window, room) = self.subflow_window(id);
        let left = self.segments.saturating_sub(self.data_next);
        room < self.burst(id).min(left) && f64::from(room) < window / WINDOW_PART
    }

    /// Segments that a subflow may have on their way, and how many more it may send: by its own window,
    /// and under Linux' accounting by the receiver's, which applies to each subflow too.
    fn subflow_window(&self, id: SubflowId) -> (f64, u32) {
        let subflow = &self.subflows[id];
        let (cwnd, room) = (subflow.sender.window.cwnd, subflow.sender.room());
        if self.memory.is_none() {
            return (cwnd, room);
        }
        let offered = subflow.offered / self.mss;
        let left = offered.saturating_sub(subflow.sender.outstanding());
        (cwnd.min(f64::from(offered)), room.min(left))
    }

    /// Segments of a full burst.
    fn burst(&self, id: SubflowId) -> u32 {
        let peer = &self.peers[id];
        let halvings = (peer.min_rtt / 1000) >> RTT_LOG;
        let short_way = if halvings < 32 { LARGEST_BURST >> halvings } else { 0 };
        let paced = pacing_rate(peer) * BURST_SPAN;
        let largest = LARGEST_BURST / self.mss;
        // Saturates; the rate is never NaN.
        (paced as u32).saturating_add(short_way / self.mss).min(largest).max(SMALLEST_BURST)
    }
}
