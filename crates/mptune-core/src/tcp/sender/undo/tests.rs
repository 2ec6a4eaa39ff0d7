//! What is undone and what stands, with the sender of [`super::super::tests`].

use crate::tcp::sender::TimerAction;
use crate::tcp::sender::tests::{Subject, timed_out};
use crate::tcp::{Acknowledgement, SackBlocks};
use crate::units::Seq;

#[test]
fn a_timeout_is_undone_when_an_original_arrives_after_all() {
    // RFC 5682 section 2.1 step 3.b: an ACK for data that was not sent again shows that the timeout
    // was spurious.
    let (mut subject, at) = timed_out();
    subject.ack(at + 150, 4, &[]);
    assert!(subject.sender.window.cwnd >= 10.0);
    assert!(!subject.sender.window.in_slow_start() || subject.sender.window.ssthresh > 10.0);
    assert_eq!(subject.retransmissions(at + 150), [] as [Seq; 0], "nothing is lost any more");
}

#[test]
fn a_timeout_is_undone_by_the_timestamp_of_a_first_copy() {
    // RFC 3522 (Eifel): the ACK of the segment that was sent again echoes what its first copy carried.
    let late = Acknowledgement { next: 1, original: true, ..Acknowledgement::default() };
    for (ack, resent) in [(late, &[][..]), (Acknowledgement { original: false, ..late }, &[1, 2])] {
        let (mut subject, at) = timed_out();
        subject.take(at + 150, &ack);
        assert_eq!(subject.sender.window.cwnd >= 10.0, ack.original);
        assert_eq!(subject.retransmissions(at + 150), resent);
    }
}

#[test]
fn a_timeout_stands_when_an_original_arrives_that_a_fast_recovery_before_it_left_behind() {
    // RFC 5682 section 3.1 step 1, Linux `tcp_enter_loss`: no F-RTO while another recovery is under way.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 5)]);
    assert_eq!(subject.retransmissions(100), [0]);
    while subject.fire().1 != TimerAction::Timeout {}
    let reduced = subject.sender.window.ssthresh;
    subject.ack(2_000, 0, &[(1, 6)]);
    assert_eq!((subject.sender.counters().undone, subject.sender.window.ssthresh), (0, reduced));
}

#[test]
fn a_timeout_is_not_undone_by_an_echo_that_advances_nothing() {
    let (mut subject, at_ms) = timed_out();
    subject.sender.window.cwnd = 10.0;
    assert!(subject.retransmissions(at_ms).contains(&1));
    let mut sack = SackBlocks::default();
    sack[0] = (1, 2);
    let echo = Acknowledgement { next: 0, sack, original: true, ..Acknowledgement::default() };
    subject.take(at_ms + 100, &echo);
    assert_eq!(subject.sender.counters().undone, 0);
}

#[test]
fn a_recovery_is_undone_by_the_timestamp_of_a_late_original() {
    // Linux `tcp_try_undo_partial`: the hole is filled by a delayed packet, and reordering is seen.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let before = subject.sender.window;
    subject.ack(100, 0, &[(1, 4)]);
    assert_eq!(subject.retransmissions(100), [0]);
    let late = Acknowledgement { next: 4, original: true, ..Acknowledgement::default() };
    subject.take(103, &late);
    assert_eq!(subject.sender.counters().undone, 1);
    assert!(subject.sender.is_open() && subject.sender.rack.reordering_seen);
    assert!(subject.sender.window.cwnd >= before.cwnd);
}

#[test]
fn a_timeout_stands_when_only_retransmissions_arrive() {
    let (mut subject, at) = timed_out();
    subject.ack(at + 150, 1, &[]);
    assert_eq!(subject.sender.window.ssthresh, 5.0);
    assert_eq!(subject.retransmissions(at + 150), [1, 2]);
}

#[test]
fn a_recovery_is_undone_when_every_retransmission_was_a_duplicate() {
    // RFC 3708: the receiver reports each needless retransmission by D-SACK.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(2, 6)]);
    let retransmitted = subject.retransmissions(100);
    assert_eq!(retransmitted, [0]);
    subject.ack(101, 0, &[(2, 7)]);
    assert_eq!(subject.retransmissions(101), [1]);
    subject.ack(205, 10, &[]);
    assert!(subject.sender.window.ssthresh < 10.0);
    subject.acknowledge(206, 10, &[], true);
    assert!(subject.sender.window.ssthresh < 10.0, "one of two is explained");
    subject.acknowledge(207, 10, &[], true);
    assert!(subject.sender.window.ssthresh > 10.0);
}
