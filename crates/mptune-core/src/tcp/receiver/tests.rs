//! What a receiver answers to segments in and out of order.

use super::*;
use proptest::prelude::*;

const AT_ONCE: Reply = Reply::Now { duplicate: false };

/// A receiver past its quick ACKs, expecting segment 16.
fn settled() -> Receiver<Seq> {
    let mut receiver = Receiver::new(false);
    for seq in 0..16 {
        assert_eq!(receiver.on_segment(0, seq, seq, |_| ()), AT_ONCE);
        receiver.acknowledge(false);
    }
    receiver
}

#[test]
fn every_second_segment_is_acknowledged() {
    // RFC 5681 section 4.2: "an ACK SHOULD be generated for at least every second full-sized
    // segment, and MUST be generated within 500 ms".
    let mut receiver = settled();
    assert_eq!(receiver.on_segment(5, 16, 16, |_| ()), Reply::Later);
    assert_eq!(receiver.deadline(), 5 + DELAYED_ACK);
    assert_eq!(receiver.on_segment(6, 17, 17, |_| ()), AT_ONCE);
    assert_eq!(receiver.acknowledge(false).next, 18);
    assert_eq!(receiver.deadline(), NEVER);
}

#[test]
fn while_the_window_grows_every_segment_is_acknowledged() {
    // Linux `tcp_grow_window`: traced on 6.18, 170 segments with SO_RCVBUF of 2 MiB.
    let mut receiver = settled();
    for seq in 16..50 {
        receiver.extend_quickack();
        assert_eq!(receiver.on_segment(0, seq, seq, |_| ()), AT_ONCE);
        receiver.acknowledge(false);
    }
    assert_eq!(receiver.on_segment(0, 50, 50, |_| ()), Reply::Later);
    receiver.acknowledge(false);
    // Linux `tcp_enter_quickack_mode`, and `__tcp_select_window` when half the memory is taken.
    receiver.enter_quickack();
    assert_eq!(receiver.on_segment(0, 51, 51, |_| ()), AT_ONCE);
    receiver.acknowledge(false);
    receiver.leave_quickack();
    assert_eq!(receiver.on_segment(0, 52, 52, |_| ()), Reply::Later);
}

#[test]
fn after_a_silence_segments_are_acknowledged_at_once_again() {
    let mut receiver = settled();
    receiver.note_silence(1_000, 1_000);
    assert_eq!(receiver.on_segment(1_000, 16, 16, |_| ()), Reply::Later);
    receiver.acknowledge(false);
    receiver.note_silence(2_001, 1_000);
    assert_eq!(receiver.on_segment(2_001, 17, 17, |_| ()), AT_ONCE);
}

#[test]
fn the_timestamp_of_the_first_segment_since_the_last_ack_is_echoed_if_it_was_the_next() {
    // RFC 7323 section 4.3: 17 is delayed behind a first copy of 16; 20 came before a retransmission of 18.
    let mut receiver = settled();
    let mut original = |seqs: &[Seq], repeated: &[Seq]| {
        for &seq in seqs {
            receiver.note_stamp(seq, repeated.contains(&seq));
            receiver.on_segment(0, seq, seq, |_| ());
        }
        receiver.acknowledge(false).original
    };
    assert!(original(&[16, 17], &[17]));
    assert!(original(&[20], &[]), "still that of 16");
    assert!(!original(&[18], &[18]));
    assert!(original(&[19], &[]));
}

#[test]
fn out_of_order_segments_are_acknowledged_at_once_with_the_newest_block_first() {
    let mut receiver = settled();
    assert_eq!(receiver.on_segment(0, 18, 18, |_| ()), AT_ONCE);
    receiver.on_segment(0, 19, 19, |_| ());
    assert_eq!(receiver.acknowledge(false).sack, [(18, 20), (0, 0)]);
    receiver.on_segment(0, 22, 22, |_| ());
    assert_eq!(receiver.acknowledge(false).sack, [(22, 23), (18, 20)]);
    receiver.on_segment(0, 20, 20, |_| ());
    assert_eq!(receiver.acknowledge(false).sack, [(18, 21), (22, 23)]);
}

#[test]
fn a_segment_beside_no_other_begins_a_range() {
    let mut receiver = settled();
    for seq in [18, 22] {
        receiver.on_segment(0, seq, seq, |_| ());
    }
    let begins: Vec<_> = (14..25).filter(|&seq| receiver.begins_range(seq)).collect();
    assert_eq!((begins, receiver.ranges()), (vec![20, 24], 2));
}

#[test]
fn a_filled_gap_is_acknowledged_at_once_and_delivers_the_segments_behind() {
    let mut receiver = settled();
    receiver.on_segment(0, 17, 170, |_| ());
    let mut delivered = Vec::new();
    assert_eq!(receiver.on_segment(0, 16, 160, |data| delivered.push(data)), AT_ONCE);
    assert_eq!(delivered, [160, 170]);
    assert_eq!(receiver.acknowledge(false), Acknowledgement { next: 18, ..Default::default() });
}

#[test]
fn a_segment_received_before_is_reported_as_duplicate() {
    let mut receiver = settled();
    receiver.on_segment(0, 18, 18, |_| ());
    for seq in [3, 18] {
        let reply = receiver.on_segment(0, seq, seq, |_| panic!("delivered twice"));
        assert_eq!(reply, Reply::Now { duplicate: true });
    }
}

#[test]
fn a_mark_is_echoed_until_cwr() {
    // RFC 3168 section 6.1.3.
    let mut receiver = settled();
    let mut receive = |seq, marked, reduced| {
        assert!(!receiver.on_ecn(marked, reduced));
        receiver.on_segment(0, seq, seq, |_| ());
        receiver.acknowledge(false).ecn_echo
    };
    let echoes = [(false, false), (true, false), (false, false), (false, true), (false, false)];
    let echoes: Vec<_> = (16..).zip(echoes).map(|(seq, (m, r))| receive(seq, m, r)).collect();
    assert_eq!(echoes, [false, true, true, false, false]);
}

#[test]
fn dctcp_acknowledges_before_the_mark_changes() {
    // RFC 8257 section 3.2, figure 1.
    let mut receiver = Receiver::new(true);
    receiver.quick = 0;
    assert!(!receiver.on_ecn(false, false));
    receiver.on_segment(0, 0, 0, |_| ());
    assert!(receiver.on_ecn(true, false), "segment 0 was not marked, 1 is");
    assert!(!receiver.acknowledge(false).ecn_echo);
    receiver.set_ecn_state(true);
    receiver.on_segment(0, 1, 1, |_| ());
    assert!(receiver.acknowledge(false).ecn_echo);
}

proptest! {
    #[test]
    fn delivers_every_segment_once_in_order(order in Just((0u32..200).collect::<Vec<_>>()).prop_shuffle(),
                                            twice in prop::collection::vec(0usize..200, 0..50)) {
        let mut arrivals = order.clone();
        for at in twice {
            arrivals.insert(at, order[at]);
        }
        let mut receiver = Receiver::new(false);
        let mut delivered = Vec::new();
        for seq in arrivals {
            let mut short = receiver.clone();
            let expected = short.on_next(0, seq);
            let reply = receiver.on_segment(0, seq, seq * 3, |data| delivered.push(data));
            // The fast path, where it applies, gives the same response.
            if expected.is_some() {
                prop_assert_eq!(expected, Some(reply));
                prop_assert_eq!(format!("{short:?}"), format!("{receiver:?}"));
            }
            let ack = receiver.acknowledge(false);
            prop_assert_eq!(ack.next as usize, delivered.len());
            let ranges = receiver.out_of_order.clone();
            let count = (0..200).filter(|&seq| ranges.containing(seq).is_some()).count();
            prop_assert_eq!(receiver.out_of_order_count() as usize, count);
        }
        prop_assert_eq!(delivered, (0..200).map(|seq| seq * 3).collect::<Vec<_>>());
    }
}

#[test]
fn by_a_kernels_clock_the_delay_follows_the_time_between_segments() {
    // tcp_event_data_recv, tcp_send_delayed_ack: 40 ms, and half of it and the time between slower segments.
    let mut receiver = Receiver::<()>::new(false)
        .with_timing(&Timing { clock: Clock::new(MILLISECOND, 0), ..Timing::EXACT });
    receiver.leave_quickack();
    receiver.note_rtt(100 * MILLISECOND);
    assert_eq!(receiver.on_next(0, 0), Some(Reply::Later));
    assert_eq!(receiver.deadline(), 41 * MILLISECOND);
    receiver.acknowledge(false);
    assert_eq!(receiver.on_next(30 * MILLISECOND, 1), Some(Reply::Later));
    assert_eq!(receiver.deadline(), (30 + 20 + 30 + 1) * MILLISECOND);
    receiver.acknowledge(false);
    let late = receiver.on_next(2 * 1000 * MILLISECOND, 2);
    assert_eq!(late, Some(Reply::Now { duplicate: false }), "after a long gap");
}

#[test]
fn acks_wait_for_data_that_reply_until_one_has_waited_in_vain() {
    // tcp_event_data_sent, tcp_in_quickack_mode, tcp_delack_timer_handler.
    let mut receiver = Receiver::<()>::new(false)
        .with_timing(&Timing { clock: Clock::new(MILLISECOND, 0), ..Timing::EXACT });
    assert_eq!(receiver.on_next(0, 0), Some(AT_ONCE), "quick ACKs");
    receiver.acknowledge(false);
    assert!(!receiver.on_data_sent(50 * MILLISECOND) && !receiver.awaits_reply(), "no reply");
    assert_eq!(receiver.on_next(60 * MILLISECOND, 1), Some(AT_ONCE));
    receiver.acknowledge(false);
    assert!(!receiver.on_data_sent(70 * MILLISECOND) && receiver.awaits_reply());
    assert_eq!(receiver.on_next(80 * MILLISECOND, 2), Some(Reply::Later));
    assert!(receiver.on_data_sent(90 * MILLISECOND), "the ACK travels with it");
    receiver.acknowledge(false);
    assert_eq!(receiver.on_next(100 * MILLISECOND, 3), Some(Reply::Later));
    receiver.end_replies();
    receiver.acknowledge(false);
    assert_eq!(receiver.on_next(120 * MILLISECOND, 4), Some(AT_ONCE));
}
