//! A subflow's send queue: segments in packets, as Linux hands them to the network card (GSO), and the memory that the
//! packets take (Linux `net/mptcp/protocol.c`, `mptcp_sendmsg_frag`; `net/ipv4/tcp_output.c`, `tso_fragment`).
//!
//! Consecutive data joins the last packet until that has its size. The part that is left of a packet whose beginning
//! was sent takes no more data on a subflow of MPTCP, since its mapping has been sent (`mptcp_ext.frozen`).

use crate::engine::Ring;
use crate::units::{Bytes, Seq};

/// Memory of a packet besides its payload: `struct sk_buff` with its clone, and its head. Measured on Linux 6.18:
/// 14,144 bytes for 17 packets.
pub const PACKET_OVERHEAD: Bytes = 832;
/// Bytes of the largest packet (Linux `sk_gso_max_size`: `GSO_LEGACY_MAX_SIZE` without room for headers).
const LARGEST_PACKET: u32 = 65_215;
/// Half of a larger window bounds a packet, all of a smaller one (Linux `tcp_bound_to_half_wnd`, `TCP_MSS_DEFAULT`).
const HALVED_ABOVE: u32 = 536;

/// Segments of the largest packet for a receiver whose largest window so far is `window` (Linux
/// `tcp_xmit_size_goal`).
pub fn packet_segments(window: u32, full: u32) -> u32 {
    let bound = if window > HALVED_ABOVE { window / 2 } else { window };
    (LARGEST_PACKET.min(bound) / full).max(1)
}

/// A packet in the queue.
#[derive(Debug, Clone, Copy, Default)]
struct Packet {
    segments: u32,
    /// Its beginning was sent.
    cut: bool,
}

/// Segments that wait for cwnd, by their data, and the packets of those that were sent.
#[derive(Debug, Clone, Default)]
pub struct SendQueue {
    segments: Ring<Seq>,
    packets: Ring<Packet>,
    /// One past the last segment, on the subflow, of each packet that is not acknowledged.
    sent: Ring<Seq>,
}

impl SendQueue {
    /// Segments in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// There are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first segment.
    #[inline]
    pub fn front(&self) -> Option<Seq> {
        self.segments.front().copied()
    }

    /// The segment of a queue of one.
    #[inline]
    pub fn only(&self) -> Option<Seq> {
        if self.segments.len() == 1 { self.front() } else { None }
    }

    /// It ends with this segment, whose packet may still grow.
    #[inline]
    pub fn may_fill(&self, newest: Seq) -> bool {
        self.segments.back() == Some(&newest) && self.packets.back().is_some_and(|last| !last.cut)
    }

    /// Appends a segment; packets have at most this many. True if it begins a packet.
    #[inline]
    pub fn push(&mut self, data: Seq, most: u32) -> bool {
        let follows = self.segments.back().is_some_and(|last| last.wrapping_add(1) == data);
        self.segments.push(data);
        match self.packets.back_mut() {
            Some(last) if follows && !last.cut && last.segments < most => {
                last.segments += 1;
                false
            }
            _ => {
                self.packets.push(Packet { segments: 1, cut: false });
                true
            }
        }
    }

    /// Segments of the first packet, and whether another follows it.
    #[inline]
    pub fn first_packet(&self) -> (u32, bool) {
        (self.packets.front().map_or(0, |packet| packet.segments), self.packets.len() > 1)
    }

    /// Takes the first segment out.
    #[inline]
    pub fn pop(&mut self) -> Option<Seq> {
        let data = self.segments.pop()?;
        if let Some(first) = self.packets.front_mut() {
            first.segments -= 1;
            if first.segments == 0 {
                self.packets.pop();
            }
        }
        Some(data)
    }

    /// The segments just taken out leave as a packet, whose last one precedes `end` on the subflow. With `closes`, what
    /// they leave of theirs takes no more data.
    #[inline]
    pub fn on_sent(&mut self, end: Seq, cut: bool, closes: bool) {
        self.sent.push(end);
        if let Some(first) = self.packets.front_mut().filter(|_| cut && closes) {
            first.cut = true;
        }
    }

    /// The subflow's segments before `una` are acknowledged.
    #[inline]
    pub fn on_acknowledged(&mut self, una: Seq) {
        while self.sent.front().is_some_and(|&end| end <= una) {
            self.sent.pop();
        }
    }

    /// Packets, those included that are not acknowledged (Linux: those of the write queue and of the retransmission
    /// queue).
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets.len() + self.sent.len()
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> impl DoubleEndedIterator<Item = Seq> {
        self.packets.clear();
        let all: Vec<Seq> = self.segments.iter().copied().collect();
        self.segments.clear();
        all.into_iter()
    }

    /// The subflow starts again: nothing of it is in flight.
    pub fn restart(&mut self) {
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(data: impl IntoIterator<Item = Seq>, most: u32) -> SendQueue {
        let mut queue = SendQueue::default();
        for seq in data {
            queue.push(seq, most);
        }
        queue
    }

    #[test]
    fn packets_have_half_the_window_at_most() {
        assert_eq!(packet_segments(1 << 20, 1424), 45);
        assert_eq!(packet_segments(65_535, 1424), 23);
        assert_eq!(packet_segments(28_480, 1424), 10);
        assert_eq!([0, 536, 2000].map(|window| packet_segments(window, 1424)), [1; 3]);
    }

    #[test]
    fn consecutive_data_joins_a_packet_and_other_data_begins_one() {
        let queue = queue([0, 1, 2, 3, 9, 10], 3);
        assert_eq!((queue.first_packet(), queue.packets()), ((3, true), 3));
    }

    #[test]
    fn the_rest_of_a_packet_takes_no_more_data() {
        for closes in [false, true] {
            let mut queue = queue(0..4, 45);
            assert_eq!((queue.pop(), queue.pop()), (Some(0), Some(1)));
            queue.on_sent(2, true, closes);
            assert_eq!(queue.may_fill(3), !closes);
            assert_eq!(queue.push(4, 45), closes);
            assert_eq!(queue.first_packet(), if closes { (2, true) } else { (3, false) });
        }
    }

    #[test]
    fn packets_take_memory_until_they_are_acknowledged() {
        let mut queue = queue(0..4, 2);
        for end in [2, 4] {
            while queue.pop().is_some_and(|data| data + 1 < end) {}
            queue.on_sent(end, false, true);
        }
        assert_eq!((queue.packets(), queue.len()), (2, 0));
        queue.on_acknowledged(3);
        assert_eq!(queue.packets(), 1);
        queue.on_acknowledged(4);
        assert_eq!(queue.packets(), 0);
    }

    #[test]
    fn a_single_segment_is_found() {
        let mut queue = queue([7, 8], 45);
        assert_eq!(queue.only(), None);
        assert_eq!(queue.pop(), Some(7));
        assert_eq!(queue.only(), Some(8));
        assert_eq!(queue.drain().collect::<Vec<_>>(), [8]);
        assert_eq!((queue.only(), queue.first_packet()), (None, (0, false)));
    }
}
