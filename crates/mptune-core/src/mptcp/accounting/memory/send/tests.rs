//! Lengths of segments, fragments, and the room of the send memory.

use super::*;

fn memory(edge: Bytes, total: Bytes) -> SendMemory {
    SendMemory::new(2 << 20, 1000, total, edge)
}

#[test]
fn the_edge_of_the_window_cuts_a_segment_of_a_scheduler_that_pushes() {
    // Linux `mptcp_check_allowed_size`: no more than the window, however little that is.
    let mut sender = memory(2500, Bytes::MAX);
    assert_eq!(sender.segments(true), 3);
    for _ in 0..3 {
        sender.take();
    }
    assert_eq!([0, 1, 2].map(|data| sender.length(data)), [1000, 1000, 500]);
    assert_eq!(sender.segments(true), 0);
}

#[test]
fn a_cut_segment_is_filled_up_while_it_waits() {
    let mut sender = memory(500, Bytes::MAX);
    sender.take();
    sender.on_window(1200);
    assert!(sender.fill_up(0));
    assert_eq!((sender.length(0), sender.segments(true)), (1000, 1));
    assert!(!sender.fill_up(0));
}

#[test]
fn a_cut_segment_with_another_copy_is_not_filled_up() {
    let mut sender = memory(500, Bytes::MAX);
    sender.take();
    assert!(sender.newest_is_short());
    sender.settle(0, 0);
    assert!(!sender.newest_is_short());
}

#[test]
fn its_bytes_are_those_of_its_segments_and_no_more_than_were_offered() {
    let mut sender = memory(2500, Bytes::MAX);
    for _ in 0..3 {
        sender.take();
    }
    sender.on_data_ack(1);
    assert!(sender.is_consistent(2) && !sender.is_consistent(3));
    let broken: [fn(&mut SendMemory); 3] =
        [|m| m.next += 1, |m| m.edge -= 1, |m| m.segments.at_mut(2).length += 1];
    for change in broken {
        let mut sender = memory(2500, Bytes::MAX);
        while sender.segments(true) > 0 {
            sender.take();
        }
        change(&mut sender);
        assert!(!sender.is_consistent(3));
    }
}

#[test]
fn tcp_avoids_small_segments_unless_nothing_is_in_flight() {
    // RFC 9293 section 3.8.6.2.1.
    let mut sender = memory(1500, Bytes::MAX);
    assert_eq!(sender.segments(false), 2, "nothing is in flight");
    sender.take();
    assert_eq!(sender.segments(false), 0);
    let mut last = memory(1500, 1400);
    last.take();
    assert_eq!(last.segments(false), 1, "the transfer ends with it");
    last.take();
    assert!(last.is_finished());
}

#[test]
fn the_application_fills_twice_the_value_and_waits_for_a_third_of_it() {
    // Linux `sk_stream_is_writeable`: 200,000 bytes are filled to the end of the seventh fragment.
    let mut sender = SendMemory::new(200_000, 1000, Bytes::MAX, Bytes::MAX);
    let filled = 7 * FRAGMENT;
    let all = sender.segments(true);
    assert_eq!(Bytes::from(all), filled.div_ceil(1000));
    while sender.segments(true) > 0 {
        sender.take();
    }
    let third_is_free = |acked: Bytes| filled - acked <= 200_000 * 2 / 3;
    let mut acked = 0;
    for data in 0.. {
        if sender.wakes_application() {
            break;
        }
        assert!(!third_is_free(acked), "{acked}");
        acked += Bytes::from(sender.length(data));
        sender.on_data_ack(1);
    }
    assert!(third_is_free(acked));
    sender.write();
    assert!(sender.segments(true) > 0 && !sender.wakes_application());
}

#[test]
fn plain_tcp_fills_its_buffer_with_packets_without_fragments() {
    // 200,000 bytes hold 141 packets of 1000 bytes of payload with 416 more of memory.
    let mut sender = SendMemory::of_packets(200_000, 1000, Bytes::MAX, Bytes::MAX);
    assert_eq!((sender.segments(false), sender.subflow_segments()), (141, 141));
    for _ in 0..141 {
        sender.take();
    }
    assert!((0..141).all(|data| sender.length(data) == 1000));
}

#[test]
fn a_segment_ends_with_its_fragment_unless_the_same_subflow_continues() {
    let mut sender = memory(Bytes::MAX, Bytes::MAX);
    for _ in 0..33 {
        sender.take();
    }
    assert_eq!(sender.length(32), (FRAGMENT % 1000) as u32);
    assert!(sender.begins_fragment());
    assert!(sender.fill_up(32) && !sender.begins_fragment());
    assert_eq!(sender.length(32), 1000);
}

/// One whose program offers nothing yet.
fn waiting() -> SendMemory {
    let mut sender = memory(1 << 20, Bytes::MAX);
    sender.wait_for_offers();
    sender
}

/// Hands over everything: the ends of fragments in it, from its beginning.
fn ends(sender: &mut SendMemory) -> Vec<Bytes> {
    let mut ends = vec![];
    let begin = sender.next;
    while sender.has_unsent() {
        sender.take();
        if sender.begins_fragment() {
            ends.push(sender.next - begin);
        }
    }
    ends
}

#[test]
fn a_write_after_everything_is_acknowledged_begins_a_page() {
    // Linux `skb_page_frag_refill`: nobody else has the page any more.
    let mut sender = waiting();
    for _ in 0..3 {
        sender.offer(70_000);
        assert_eq!(ends(&mut sender), [FRAGMENT, 2 * FRAGMENT]);
        sender.on_data_ack(Seq::try_from(sender.segments.len()).expect("few"));
    }
}

#[test]
fn a_write_while_something_is_unacknowledged_goes_on_in_its_page_after_a_header() {
    let mut sender = waiting();
    sender.offer(10_000);
    assert_eq!(ends(&mut sender), [0; 0]);
    sender.offer(70_000);
    let first = FRAGMENT - 10_000 - HEADER;
    assert_eq!(ends(&mut sender), [first, first + FRAGMENT]);
    // A retransmission of a whole fragment ends there too.
    assert_eq!(sender.next_fragment(10, 80), 10 + first.div_ceil(1000) as Seq);
}

#[test]
fn a_write_while_nothing_waits_begins_a_fragment() {
    // Linux `mptcp_pending_tail`: only what still waits takes more.
    let mut sender = waiting();
    for _ in 0..3 {
        sender.offer(200);
        sender.take();
    }
    assert_eq!([0, 1, 2].map(|data| sender.next_fragment(data, 3)), [1, 2, 3]);
    // Two writes, of which the second finds the first waiting.
    sender.offer(1000);
    sender.offer(1000);
    sender.take();
    sender.take();
    assert_eq!([2, 3, 4].map(|data| sender.next_fragment(data, 5)), [3, 5, 5]);
}
