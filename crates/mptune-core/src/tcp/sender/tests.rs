//! The sender against its requirements, one test each. Time is in milliseconds; a test plays the path and sends the
//! ACKs.

use super::*;
use crate::congestion::Peers;
use crate::tcp::{Acknowledgement, SackBlocks};
use crate::units::MILLISECOND;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A sender after a handshake of 100 ms, with a window of ten segments.
pub(super) struct Subject {
    pub(super) sender: Sender,
    peers: [Peer; 1],
}

impl Subject {
    pub(super) fn new(cc: &str) -> Self {
        let controller = Controller::new(cc).expect("a known name");
        let sampled = controller.rate_samples();
        let mut sender = Sender::new(controller, sampled);
        sender.on_established(0, Some(100 * MILLISECOND));
        Self { sender, peers: [Peer::default()] }
    }

    /// Sends new segments, all at once.
    pub(super) fn send(&mut self, at_ms: u64, count: u32) {
        for _ in 0..count {
            let data = self.sender.next;
            self.sender.send(at_ms * MILLISECOND, data);
        }
    }

    /// An ACK for everything below `next` and the ranges above it.
    pub(super) fn ack(&mut self, at_ms: u64, next: Seq, sack: &[(Seq, Seq)]) -> Progress {
        self.acknowledge(at_ms, next, sack, false)
    }

    pub(super) fn acknowledge(
        &mut self,
        at_ms: u64,
        next: Seq,
        sack: &[(Seq, Seq)],
        duplicate: bool,
    ) -> Progress {
        let mut blocks = SackBlocks::default();
        blocks[..sack.len()].copy_from_slice(sack);
        let ack = Acknowledgement { next, sack: blocks, duplicate, ..Acknowledgement::default() };
        self.take(at_ms, &ack)
    }

    pub(super) fn take(&mut self, at_ms: u64, ack: &Acknowledgement) -> Progress {
        let (now, peers) = (at_ms * MILLISECOND, Peers { all: &self.peers, me: 0 });
        let mut thorough = self.sender.clone();
        let progress = self.sender.on_ack(now, ack, &self.peers, 0);
        // The fast path gives the same state.
        assert_eq!(thorough.on_any_ack(now, ack, peers), progress);
        assert_eq!(format!("{thorough:?}"), format!("{:?}", self.sender));
        progress
    }

    /// Everything the sender would retransmit now.
    pub(super) fn retransmissions(&mut self, at_ms: u64) -> Vec<Seq> {
        let sender = &mut self.sender;
        std::iter::from_fn(|| sender.next_retransmission(at_ms * MILLISECOND))
            .map(|(seq, _)| seq)
            .collect()
    }

    /// Fires the timer when due; returns the time and the action.
    pub(super) fn fire(&mut self) -> (u64, TimerAction) {
        let at = self.sender.deadline(0);
        (at / MILLISECOND, self.sender.on_timer(at, &self.peers, 0))
    }
}

#[test]
fn three_segments_above_a_hole_make_it_lost_and_fewer_do_not() {
    // RFC 8985 section 6.2 step 4: without reordering the window is zero once DupThresh segments
    // are selectively acknowledged.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 3)]);
    assert_eq!(subject.retransmissions(100), [] as [Seq; 0]);
    subject.ack(100, 0, &[(1, 4)]);
    assert_eq!(subject.retransmissions(100), [0]);
}

#[test]
fn with_fewer_the_reordering_window_of_a_quarter_rtt_decides() {
    // RFC 8985 section 6.2 step 4: RACK.reo_wnd = RACK.min_RTT / 4, and step 5 arms the timer.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 2)]);
    assert_eq!(subject.fire(), (125, TimerAction::None));
    assert_eq!(subject.retransmissions(125), [0]);
}

#[test]
fn once_reordering_was_seen_three_segments_no_longer_suffice() {
    // RFC 8985 section 6.2 step 3 and 4.
    let mut subject = Subject::new("reno");
    subject.send(0, 3);
    subject.send(1, 7);
    subject.ack(101, 0, &[(3, 5)]);
    subject.ack(102, 5, &[]);
    subject.send(10, 5);
    subject.ack(110, 5, &[(6, 14)]);
    assert_eq!(subject.retransmissions(110), [] as [Seq; 0], "it may only be late");
    assert_eq!(subject.fire(), (126, TimerAction::None));
    assert_eq!(subject.retransmissions(126), [5], "a quarter of the RTT later it is lost");
}

#[test]
fn reordering_is_seen_within_a_burst_too_but_not_in_the_order_of_the_blocks() {
    // RFC 8985 section 6.2 step 3 goes by sequence, and Linux by the highest one SACKed before.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(6, 8), (2, 4)]);
    assert!(!subject.sender.rack.reordering_seen, "one ACK has both");
    subject.ack(101, 5, &[(6, 8)]);
    assert!(subject.sender.rack.reordering_seen);
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    // RFC 8985 section 3: RACK detects lost retransmissions, which duplicate ACKs cannot.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 6)]);
    assert_eq!(subject.retransmissions(100), [0]);
    subject.send(100, 1);
    subject.ack(200, 0, &[(6, 11), (1, 6)]);
    assert_eq!(subject.retransmissions(200), [0], "segment 10 left after it and arrived");
}

#[test]
fn windows_are_reduced_to_whole_segments_if_asked() {
    // Linux `cubictcp_recalc_ssthresh`: 5 * 717 / 1024 = 3.5 segments.
    for (whole, expected) in [(false, 3.5), (true, 3.0)] {
        let mut subject = Subject::new("cubic");
        subject.sender = subject.sender.counting_whole(whole);
        subject.sender.window.cwnd = 5.0;
        subject.send(0, 5);
        subject.ack(100, 0, &[(1, 5)]);
        assert!((subject.sender.window.ssthresh - expected).abs() < 0.01, "{whole}");
    }
}

#[test]
fn a_window_is_reduced_once_however_many_of_its_segments_are_lost() {
    // RFC 5681 section 4.3: a loss of several segments of a window is one congestion indication.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 2), (5, 8)]);
    assert_eq!(subject.sender.window.ssthresh, 5.0);
    subject.ack(101, 0, &[(9, 10)]);
    assert_eq!(subject.sender.window.ssthresh, 5.0);
    subject.ack(300, 10, &[]);
    // Recovery ends at ssthresh (RFC 6937); the ACK that ends it lets the window grow already.
    assert!((5.0..6.5).contains(&subject.sender.window.cwnd));
}

#[test]
fn in_flight_counts_neither_the_delivered_nor_the_lost() {
    // RFC 6675 section 4, `pipe`.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    assert_eq!(subject.sender.in_flight(), 10);
    subject.ack(100, 0, &[(2, 6)]);
    assert_eq!(subject.sender.in_flight(), 10 - 4 - 2);
    let retransmitted = subject.retransmissions(100).len() as u32;
    assert_eq!(subject.sender.in_flight(), 10 - 4 - 2 + retransmitted);
    subject.ack(200, 10, &[]);
    assert_eq!((subject.sender.in_flight(), subject.sender.outstanding()), (0, 0));
}

#[test]
fn karn_retransmitted_segments_give_no_rtt_sample() {
    // RFC 6298 section 3.
    let mut subject = Subject::new("reno");
    subject.send(0, 1);
    let (at, action) = subject.fire();
    assert_eq!(action, TimerAction::Probe);
    assert_eq!(subject.sender.probe(at * MILLISECOND), Some((0, 0)));
    let before = subject.sender.rtt;
    subject.ack(at + 5000, 1, &[]);
    assert_eq!(subject.sender.rtt, before);
}

#[test]
fn the_probe_comes_after_two_round_trips_and_for_a_lone_segment_after_the_delayed_ack() {
    // RFC 8985 section 7.2: PTO = 2 * SRTT; FlightSize of one adds the worst-case delayed ACK.
    let mut subject = Subject::new("reno");
    subject.send(0, 2);
    assert_eq!(subject.fire(), (202, TimerAction::Probe));
    let mut subject = Subject::new("reno");
    subject.send(0, 1);
    // RTO after one sample of 100 ms: 100 + 4 * 50; it bounds the probe.
    assert_eq!(subject.fire(), (300, TimerAction::Probe));
}

#[test]
fn the_probe_repeats_the_last_segment_and_is_followed_by_the_timeout() {
    // RFC 8985 section 7.3.
    let mut subject = Subject::new("reno");
    subject.send(0, 4);
    let (at, _) = subject.fire();
    assert_eq!(subject.sender.probe(at * MILLISECOND), Some((3, 3)));
    assert_eq!(subject.fire(), (at + 300, TimerAction::Timeout));
}

/// A sender whose ACK of a first segment came at 100 ms and of nothing since, by a clock that ticks each millisecond.
fn unanswered() -> Subject {
    let mut subject = Subject::new("reno");
    let clock = crate::tcp::Clock::new(MILLISECOND, 0);
    subject.sender.timing = crate::tcp::Timing { clock, pauses: true, ..crate::tcp::Timing::EXACT };
    subject.send(0, 1);
    subject.ack(100, 1, &[]);
    for at_ms in [110, 150, 205] {
        subject.send(at_ms, 1);
    }
    subject
}

#[test]
fn while_a_program_sends_into_silence_each_segment_shifts_the_probe_and_the_timeout() {
    // Linux `tcp_schedule_loss_probe`: after twice the RTT, no later than the first segment's timeout, if that is still
    // to come; `tcp_rearm_rto` after a probe.
    let mut subject = unanswered();
    assert_eq!(subject.sender.timer, Timer::Probe);
    let first = subject.sender.deadline;
    subject.send(215, 1);
    assert!(subject.sender.deadline > first, "shifted");
    let timeout = 110 + subject.sender.rtt.rto() / MILLISECOND;
    let (at, action) = subject.fire();
    assert_eq!(action, TimerAction::Probe);
    assert!(at < timeout + 16, "no later than the timeout and the wheel's coarseness: {at}");
    subject.sender.probe(at * MILLISECOND);
    let mut sent = at;
    while sent < timeout + 2000 {
        sent += 50;
        subject.send(sent, 1);
        assert!(subject.sender.deadline > (sent + 50) * MILLISECOND, "no timeout at {sent}");
    }
    // Once the program pauses the timeout, which is long due, follows at once.
    assert_eq!(subject.fire().1, TimerAction::None);
    let (late, action) = subject.fire();
    assert_eq!(action, TimerAction::Timeout);
    assert!(late < sent + 225, "{late} after {sent}");
}

#[test]
fn while_acks_come_a_further_segment_does_not_set_the_timer() {
    let mut subject = unanswered();
    subject.ack(206, 2, &[]);
    let at = subject.sender.deadline;
    subject.send(220, 3);
    assert_eq!(subject.sender.deadline, at);
}

#[test]
fn a_timer_that_is_due_has_no_time_left_although_it_expires_with_a_later_tick() {
    // Linux `mptcp_timeout_from_subflow`: `tcp_timeout_expires(ssk) - jiffies`.
    let mut subject = unanswered();
    let (due, deadline) = (subject.sender.due, subject.sender.deadline);
    assert!(due < deadline, "{due} {deadline}");
    assert_eq!(subject.sender.remaining(due - MILLISECOND), deadline - (due - MILLISECOND));
    assert_eq!(subject.sender.remaining(due), 0);
    subject.ack(300, 4, &[]);
    assert_eq!(subject.sender.remaining(300 * MILLISECOND), 0, "no timer");
}

#[test]
fn a_probe_that_repaired_a_loss_counts_as_congestion_and_a_needless_one_does_not() {
    // RFC 8985 section 7.4.2.
    for duplicate in [false, true] {
        let mut subject = Subject::new("reno");
        subject.send(0, 10);
        let (at, _) = subject.fire();
        subject.sender.probe(at * MILLISECOND);
        subject.acknowledge(at + 100, 10, &[], duplicate);
        subject.send(at + 100, 1);
        subject.ack(at + 200, 11, &[]);
        let reduced = subject.sender.window.ssthresh < crate::congestion::INFINITE_SSTHRESH;
        assert_eq!(reduced, !duplicate);
    }
}

#[test]
fn the_timeout_doubles_until_there_is_progress() {
    // RFC 6298 section 5 (5.5).
    let mut subject = Subject::new("reno");
    subject.send(0, 5);
    let (at, _) = subject.fire();
    subject.sender.probe(at * MILLISECOND);
    let mut last = at;
    for expected in [300, 600, 1200, 2400] {
        let (at, action) = subject.fire();
        assert_eq!((at - last, action), (expected, TimerAction::Timeout));
        last = at;
    }
    subject.ack(last + 10, 5, &[]);
    assert_eq!(subject.sender.consecutive_timeouts(), 0);
}

#[test]
fn after_a_timeout_the_window_is_one_segment_and_slow_start_retransmits_everything() {
    // RFC 5681 section 3.1: cwnd to the loss window of one segment, ssthresh to half the flight.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let (at, _) = subject.fire();
    subject.sender.probe(at * MILLISECOND);
    let (at, _) = subject.fire();
    assert_eq!((subject.sender.window.cwnd, subject.sender.window.ssthresh), (1.0, 5.0));
    assert_eq!(subject.retransmissions(at), [0]);
    subject.ack(at + 100, 1, &[]);
    assert_eq!(subject.retransmissions(at + 100), [1, 2]);
    subject.ack(at + 200, 3, &[]);
    assert_eq!(subject.retransmissions(at + 200), [3, 4, 5, 6]);
}

#[test]
fn repeated_timeouts_reduce_ssthresh_once() {
    // RFC 5681 section 3.1: ssthresh is held when the same segment times out again.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let (at, _) = subject.fire();
    subject.sender.probe(at * MILLISECOND);
    for _ in 0..3 {
        let (at, _) = subject.fire();
        subject.retransmissions(at);
        assert_eq!(subject.sender.window.ssthresh, 5.0);
    }
}

#[test]
fn an_unused_window_does_not_grow() {
    // RFC 7661 sections 4.4 and 4.5.3: no growth while the application or the peer limits.
    let mut subject = Subject::new("reno");
    for round in 0..20 {
        subject.send(100 * round, 2);
        subject.ack(100 * round + 100, 2 * round as u32 + 2, &[]);
    }
    assert_eq!(subject.sender.window.cwnd, 10.0);
}

#[test]
fn a_used_window_doubles_each_round_trip_in_slow_start() {
    // RFC 5681 section 3.1.
    let mut subject = Subject::new("reno");
    let mut next = 0;
    for round in 0..4 {
        let window = 10 << round;
        assert_eq!(subject.sender.window.cwnd, f64::from(window));
        subject.send(100 * round, window);
        next += window;
        subject.ack(100 * round + 100, next, &[]);
    }
}

#[test]
fn an_idle_time_halves_the_window_for_each_rto_down_to_the_initial_window() {
    // RFC 5681 section 4.1, Linux `tcp_cwnd_restart`.
    let mut subject = Subject::new("reno");
    subject.sender.window.cwnd = 80.0;
    subject.send(0, 1);
    subject.ack(100, 1, &[]);
    let rto = subject.sender.rtt.rto();
    subject.sender.restart_if_idle(2 * rto + MILLISECOND);
    assert_eq!(subject.sender.window.cwnd, 20.0);
    subject.sender.restart_if_idle(20 * rto);
    assert_eq!(subject.sender.window.cwnd, 10.0);
    // The pacing rate follows at the next ACK.
    assert_eq!(subject.sender.summary(true).paced, 2.0 * 80.0);
    subject.send(3000, 1);
    subject.ack(3100, 2, &[]);
    assert_eq!(subject.sender.summary(true).paced, 2.0 * 10.0);
}

/// Ten segments, a timeout, and the head retransmitted.
pub(super) fn timed_out() -> (Subject, u64) {
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let (at, _) = subject.fire();
    subject.sender.probe(at * MILLISECOND);
    let (at, _) = subject.fire();
    assert_eq!(subject.retransmissions(at), [0]);
    (subject, at)
}

#[test]
fn lost_retransmissions_go_first_so_that_the_cumulative_acknowledgement_advances() {
    // Linux `tcp_verify_retransmit_hint`: the lowest lost segment is always the next one.
    let mut subject = Subject::new("reno");
    subject.sender.window.cwnd = 100.0;
    subject.send(0, 100);
    subject.ack(100, 0, &[(96, 100)]);
    let first = subject.retransmissions(100);
    assert_eq!(first.first(), Some(&0));
    // All but the last arrive: this shows at once that the first is lost again.
    let (second, last) = (first[1], first[first.len() - 1]);
    subject.ack(200, 0, &[(second, last + 1), (96, 100)]);
    assert_eq!(subject.retransmissions(200).first(), Some(&0));
}

#[test]
fn an_ecn_echo_reduces_the_window_once_a_window_and_is_answered() {
    // RFC 3168 section 6.1.2.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let mut echo = |at_ms: u64, next: Seq| {
        let ack = Acknowledgement { next, ecn_echo: true, ..Acknowledgement::default() };
        subject.sender.on_ack(at_ms * MILLISECOND, &ack, &subject.peers, 0);
        (subject.sender.window.ssthresh, subject.sender.take_ecn_signal())
    };
    assert_eq!(echo(100, 2), (5.0, true));
    assert_eq!(echo(101, 4), (5.0, false));
    assert_eq!(echo(102, 10), (5.0, false), "the signal is still on its way");
    subject.send(102, 5);
    subject.ack(202, 15, &[]);
    assert!(subject.sender.window.cwnd >= 5.0);
    assert_eq!(subject.retransmissions(202), [] as [Seq; 0], "nothing was lost");
}

#[test]
fn a_reduction_after_a_loss_or_a_timeout_is_signalled_too() {
    // RFC 3168 section 6.1.2: CWR follows it for any reason, so that the echo of an older mark ends.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    subject.ack(100, 0, &[(1, 4)]);
    assert!(subject.sender.take_ecn_signal());
    let (mut subject, _) = timed_out();
    assert!(subject.sender.take_ecn_signal());
}

#[test]
fn after_marks_alone_probes_and_the_reordering_window_stay() {
    // Linux `tcp_schedule_loss_probe` and `tcp_rack_reo_wnd` in `TCP_CA_CWR`.
    let mut subject = Subject::new("reno");
    subject.send(0, 10);
    let marked = Acknowledgement { next: 2, ecn_echo: true, ..Acknowledgement::default() };
    subject.take(100, &marked);
    assert_eq!(subject.sender.state_number(), 2);
    let mut probed = subject.sender.clone();
    assert_eq!(probed.on_timer(probed.deadline(0), &subject.peers, 0), TimerAction::Probe);
    subject.ack(101, 2, &[(3, 4)]);
    assert_eq!(subject.retransmissions(101), [] as [Seq; 0], "one segment above a hole is no loss");
    subject.ack(102, 2, &[(3, 6)]);
    assert_eq!((subject.retransmissions(102), subject.sender.state_number()), (vec![2], 3));
    assert_eq!((subject.sender.counters().recoveries, subject.sender.window.ssthresh), (1, 5.0));
}

/// Fails unless a sender's counters and queues match its segments.
fn check(sender: &Sender) {
    let flags: Vec<(Seq, u8)> =
        (sender.una..sender.next).map(|seq| (seq, sender.board.at(seq).flags)).collect();
    let count = |flag: u8| flags.iter().filter(|(_, f)| f & flag != 0).count() as u32;
    assert_eq!(count(SACKED), sender.sacked_out);
    assert_eq!(count(LOST), sender.lost_out);
    assert_eq!(count(RETRANSMITTED), sender.retransmitted_out);
    for (seq, flags) in flags {
        let queued = sender.lost.contains(&seq) || sender.lost_retransmissions.contains(&seq);
        if flags & (LOST | RETRANSMITTED) == LOST {
            assert!(queued, "segment {seq} is lost but will not be retransmitted");
        }
        if flags & RETRANSMITTED != 0 {
            let sent_at = sender.board.at(seq).sent_at;
            assert!(sender.retransmissions.contains(&(seq, sent_at)), "{seq} is not watched");
        }
        if flags & !AMBIGUOUS == 0 {
            assert!(seq >= sender.rack_scan, "segment {seq} was forgotten");
        }
    }
}

#[test]
fn counts_that_are_not_those_of_the_scoreboard_are_noticed() {
    let mut subject = Subject::new("reno");
    subject.send(100, 10);
    subject.ack(200, 1, &[(3, 6)]);
    assert!(subject.sender.sacked() > 0 && subject.sender.is_consistent());
    let broken: [fn(&mut Sender); 3] =
        [|s| s.sacked_out += 1, |s| s.lost_out += 1, |s| s.retransmitted_out += 1];
    for change in broken {
        let mut sender = subject.sender.clone();
        change(&mut sender);
        assert!(!sender.is_consistent());
    }
    // Back at the right count after an underflow.
    let sender = &mut subject.sender;
    let (counted, mut count) = (sender.lost_out, 0);
    Sender::decrement(&mut count, true, &mut sender.miscounted);
    assert_eq!((count, sender.lost_out), (0, counted));
    assert!(!sender.is_consistent());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Over a path that loses, delays and duplicates at random, every segment arrives and the counters are
    /// consistent after every event.
    #[test]
    fn no_segment_is_forgotten(
        cc in prop::sample::select(vec!["reno", "cubic", "hybla"]),
        fates in prop::collection::vec((0u8..100, 0u64..80), 400),
        loss in 0u8..60,
        reordering in any::<bool>(),
    ) {
        let mut subject = Subject::new(cc);
        let mut receiver = crate::tcp::Receiver::new(false);
        let mut fates = fates.into_iter().chain(std::iter::repeat((99, 0)));
        let mut arrivals: BTreeMap<(u64, u32), Seq> = BTreeMap::new();
        let (mut now, mut number, total) = (0, 0, 300);
        while receiver.next() < total {
            // Send what may be sent.
            let mut sent = subject.retransmissions(now);
            while subject.sender.ready(now * MILLISECOND) && subject.sender.next < total {
                sent.push(subject.sender.next);
                subject.send(now, 1);
            }
            for seq in sent {
                let (fate, delay) = fates.next().expect("endless");
                if fate >= loss {
                    number += 1;
                    arrivals.insert((now + 50 + if reordering { delay } else { 0 }, number), seq);
                }
            }
            check(&subject.sender);
            // The next arrival or the timer, whichever comes first.
            let due = subject.sender.deadline(0) / MILLISECOND;
            match arrivals.first_key_value().filter(|((at, _), _)| *at <= due).map(|(&key, _)| key) {
                Some(key) => {
                    let seq = arrivals.remove(&key).expect("present");
                    now = now.max(key.0);
                    let reply = receiver.on_segment(now, seq, seq, |_| ());
                    let duplicate = reply == crate::tcp::Reply::Now { duplicate: true };
                    let ack = receiver.acknowledge(duplicate);
                    subject.sender.on_ack(now * MILLISECOND, &ack, &subject.peers, 0);
                }
                None => {
                    now = now.max(due);
                    if subject.fire().1 == TimerAction::Probe {
                        let probe = subject.sender.probe(now * MILLISECOND);
                        arrivals.extend(probe.map(|(seq, _)| ((now + 50, 0), seq)));
                    }
                }
            }
            check(&subject.sender);
        }
    }
}
