//! Bursts of segments, as with segmentation offload (TSO): Linux gives the network card up to a millisecond of data at
//! once, and then waits until cwnd has room for as much (`net/ipv4/tcp_output.c`, `tcp_tso_autosize`,
//! `tcp_tso_should_defer`). Queues and links see the packets of a burst one by one.

use super::DataSender;
use super::transmitting::Place;
use crate::mptcp::scheduler::pacing_rate;
use crate::mptcp::subflow::Subflow;
use crate::pathmanager::SubflowId;
use crate::tcp::pacing;
use crate::units::{MILLISECOND, Nanos};

/// Linux `net.ipv4.tcp_min_tso_segs`.
const SMALLEST_BURST: u32 = 2;
/// Linux `net.ipv4.tcp_tso_win_divisor`: this fraction of cwnd is sent without waiting.
const WINDOW_PART: f64 = 3.0;

/// Segments of a subflow's queue that leave together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Burst {
    /// Their number.
    pub segments: u32,
    /// They are a whole packet of the queue.
    pub whole: bool,
}

impl Burst {
    /// The place of the segment after so many of it.
    #[inline]
    pub fn place(self, sent: u32) -> Place {
        match self.segments {
            1 if !self.whole => Place::Cut,
            segments if sent + 1 == segments => Place::Last,
            _ => Place::Within,
        }
    }
}

impl DataSender {
    /// The burst that may leave a subflow's queue now. It is empty if the segments wait for a full one, until an ACK
    /// or more data.
    ///
    /// Waiting counts as limited by cwnd, as `tcp_write_xmit` reports it to `tcp_cwnd_validate`.
    #[inline]
    pub(super) fn next_burst(&self, now: Nanos, subflow: &mut Subflow, id: SubflowId) -> Burst {
        if subflow.deferred {
            return Burst { segments: 0, whole: false };
        }
        let (window, room) = self.subflow_window(subflow);
        let (packet, is_followed) = subflow.queue.first_packet();
        // A single segment never waits for others, nor does a packet with a successor, which will not grow.
        let fits = packet <= room && is_followed;
        let goes = packet <= 1
            || fits
            || f64::from(room) >= window / WINDOW_PART
            || room >= self.burst(id)
            || !Self::expects_more_room(now, subflow, self.scheduling.peers[id].srtt);
        if goes {
            // At least two packets in each window (Linux `tcp_cwnd_test`).
            let half = (subflow.sender.window.cwnd as u32 / 2).max(1);
            let most = packet.min(subflow.sender.room()).min(half);
            // The rate is asked only where it can matter: it takes two divisions.
            let segments = if most <= SMALLEST_BURST { most } else { most.min(self.burst(id)) };
            return Burst { segments, whole: segments == packet };
        }
        if room == subflow.sender.room() {
            subflow.sender.note_deferred();
        }
        subflow.deferred = true;
        Burst { segments: 0, whole: false }
    }

    /// The last burst left less than a millisecond ago, and the next ACK is due within one.
    #[inline]
    fn expects_more_room(now: Nanos, subflow: &Subflow, srtt: Nanos) -> bool {
        let sender = &subflow.sender;
        let soon = (srtt / 2).min(MILLISECOND);
        sender.is_open()
            && now <= sender.last_sent_at() + MILLISECOND
            && sender.oldest_sent_at().is_some_and(|oldest| oldest + srtt <= now + soon)
    }

    /// The room is too small for a burst, and the last was recent enough to wait for more.
    pub(super) fn defers(&self, now: Nanos, subflow: &Subflow, id: SubflowId) -> bool {
        if !Self::expects_more_room(now, subflow, self.scheduling.peers[id].srtt) {
            return false;
        }
        let (window, room) = self.subflow_window(subflow);
        let left = self.buffer.left();
        room < self.burst(id).min(left) && f64::from(room) < window / WINDOW_PART
    }

    /// cwnd of a subflow, and its room in segments, also limited by the receiver's window if that applies per subflow.
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
        let peer = &self.scheduling.peers[id];
        pacing::burst(1e9 * pacing_rate(peer), peer.min_rtt, self.lengths, SMALLEST_BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_of_a_burst_is_pushed_and_a_part_of_a_packet_is_not() {
        let places = |segments, whole| {
            let burst = Burst { segments, whole };
            (0..segments).map(|sent| burst.place(sent)).collect::<Vec<_>>()
        };
        assert_eq!(places(3, false), [Place::Within, Place::Within, Place::Last]);
        assert_eq!(places(1, true), [Place::Last]);
        assert_eq!(places(1, false), [Place::Cut]);
    }
}
