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
use crate::units::{MILLISECOND, Nanos, Seq};
use std::collections::VecDeque;

/// Linux `net.ipv4.tcp_min_tso_segs`.
const SMALLEST_BURST: u32 = 2;
/// Linux `net.ipv4.tcp_tso_win_divisor`: this fraction of a window is sent without waiting.
const WINDOW_PART: f64 = 3.0;

/// Segments in the largest packet that waits in a send queue (Linux `GSO_LEGACY_MAX_SIZE`).
const LARGEST_PACKET: u32 = 45;

impl DataSender {
    /// How many segments of a subflow's queue leave together now. None if they wait for a full burst, as they
    /// then do until the subflow hears something or is handed more: only then does Linux look again.
    ///
    /// Waiting counts as using up the window, as `tcp_write_xmit` says it to `tcp_cwnd_validate`.
    #[inline]
    pub(super) fn next_burst(&self, now: Nanos, subflow: &mut Subflow, id: SubflowId) -> u32 {
        if subflow.gathering {
            return 0;
        }
        let (window, room) = self.subflow_window(subflow);
        let packet = first_packet(&subflow.queue, room);
        let burst = self.burst(id);
        // One segment is never held back for others, nor is a packet that has a successor and will not grow.
        let fits = packet <= room && (packet as usize) < subflow.queue.len();
        let goes = packet <= 1
            || fits
            || room >= burst
            || f64::from(room) >= window / WINDOW_PART
            || !Self::expects_more_room(now, subflow, self.scheduling.peers[id].srtt);
        if goes {
            return packet.min(subflow.sender.room()).min(burst);
        }
        if room == subflow.sender.room() {
            subflow.sender.note_deferred();
        }
        subflow.gathering = true;
        0
    }

    /// The last burst left less than a millisecond ago, and the next acknowledgement is due within one.
    #[inline]
    fn expects_more_room(now: Nanos, subflow: &Subflow, srtt: Nanos) -> bool {
        let sender = &subflow.sender;
        let soon = (srtt / 2).min(MILLISECOND);
        sender.is_open()
            && now <= sender.last_sent_at() + MILLISECOND
            && sender.oldest_sent_at().is_some_and(|oldest| oldest + srtt <= now + soon)
    }

    /// There is room, but too little for a burst this soon after the last one, and more is expected soon.
    pub(super) fn gathers(&self, now: Nanos, subflow: &Subflow, id: SubflowId) -> bool {
        if !Self::expects_more_room(now, subflow, self.scheduling.peers[id].srtt) {
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

/// Segments at the front of a queue that follow each other in the data, and so are one packet; no more than
/// one beyond `enough`.
fn first_packet(queue: &VecDeque<Seq>, enough: u32) -> u32 {
    let most = LARGEST_PACKET.min(enough.saturating_add(1)) as usize;
    let pairs = queue.iter().zip(queue.iter().skip(1)).take(most - 1);
    let followed = pairs.take_while(|&(one, next)| one.wrapping_add(1) == *next).count();
    if queue.is_empty() { 0 } else { 1 + followed as u32 }
}
