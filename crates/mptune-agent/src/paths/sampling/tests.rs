//! Looks at the buffers, totals over time, and the choice of connections.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const MSS: u32 = 1_400;

/// A subflow with this much of a window of 10 segments in use, and bytes in its queue.
fn subflow(id: SubflowId, in_flight: u32, unsent: u32) -> SubflowLook {
    let tcp = TcpInfo { mss: MSS, cwnd: 10, unacked: in_flight, unsent, ..TcpInfo::default() };
    SubflowLook { id, backup: false, tcp }
}

/// A connection whose application has written this many bytes more than were handed to subflows; 100 kB are on
/// their way, and the send buffer is full or half empty.
fn look(waiting: u64, is_full: bool, subflows: &[SubflowLook]) -> Look {
    let connection = MptcpInfo {
        snd_una: 1 << 40,
        write_seq: (1 << 40) + 100_000 + waiting,
        bytes_sent: Some(300_000),
        bytes_acked: Some(200_000),
        ..MptcpInfo::default()
    };
    let memory = SendMemory { used: if is_full { 900 } else { 500 }, limit: 1_000 };
    Look { connection, memory, subflows: subflows.to_vec() }
}

#[test]
fn data_that_wait_although_a_subflow_has_room_wait_for_the_receive_buffer() {
    let (busy, idle) = (subflow(0, 10, 50_000), subflow(1, 3, 0));
    assert_eq!(look(50_000, true, &[busy, idle]).holds(), Some(Buffer::Receive));
    assert_eq!(look(50_000, false, &[idle]).holds(), Some(Buffer::Receive));
}

#[test]
fn without_data_that_wait_a_full_send_buffer_is_what_holds() {
    let idle = subflow(0, 3, 0);
    assert_eq!(look(0, true, &[idle]).holds(), Some(Buffer::Send));
    // The rest of a segment waits for more to fill it.
    assert_eq!(look(900, true, &[idle]).holds(), Some(Buffer::Send));
}

#[test]
fn an_application_without_more_to_send_is_not_held_up() {
    assert_eq!(look(0, false, &[subflow(0, 3, 0), subflow(1, 0, 0)]).holds(), None);
    assert_eq!(look(900, false, &[subflow(0, 3, 0)]).holds(), None);
}

#[test]
fn subflows_whose_window_or_queue_is_full_are_not_held_up() {
    for busy in [subflow(0, 10, 0), subflow(0, 3, 2 * MSS), subflow(0, 12, 0)] {
        assert_eq!(look(50_000, true, &[busy]).holds(), None, "{busy:?}");
    }
    assert_eq!(look(50_000, true, &[]).holds(), None);
}

#[test]
fn what_is_known_to_have_left_the_network_makes_room() {
    let mut recovering = subflow(0, 12, 0);
    (recovering.tcp.sacked, recovering.tcp.lost, recovering.tcp.resent) = (4, 1, 1);
    assert_eq!(look(50_000, true, &[recovering]).holds(), Some(Buffer::Receive));
    recovering.tcp.timeouts_in_a_row = 1;
    assert_eq!(look(50_000, true, &[recovering]).holds(), None, "it carries nothing new");
}

#[test]
fn subflows_on_standby_count_only_while_there_are_no_others() {
    let standby = SubflowLook { backup: true, ..subflow(1, 0, 0) };
    assert_eq!(look(50_000, true, &[subflow(0, 10, 0), standby]).holds(), None);
    assert_eq!(look(50_000, true, &[standby]).holds(), Some(Buffer::Receive));
}

/// The time in which a buffer held the connection up, after a look.
fn limited(meter: &mut Meter, look: &Look, now_ns: u64) -> u64 {
    meter.note(look, now_ns).expect("a sample");
    let sampled = meter.sampled().expect("looked at");
    sampled.receive_limited_ns + sampled.send_limited_ns
}

#[test]
fn a_sample_has_the_send_buffer_as_a_program_sets_it() {
    let look = Look { memory: SendMemory { used: 0, limit: 400_000 }, ..look(0, false, &[]) };
    assert_eq!(Meter::default().note(&look, 1).map(|sample| sample.buffer), Some(200_000));
}

#[test]
fn what_a_look_shows_counts_for_the_time_since_the_last_one() {
    let (held, free) = (look(50_000, true, &[subflow(0, 3, 0)]), look(0, false, &[]));
    let mut meter = Meter::default();
    assert_eq!(limited(&mut meter, &held, 5 * SECOND), 0, "nothing is known of before");
    assert_eq!(limited(&mut meter, &held, 5 * SECOND + 20 * MS), 20 * MS);
    assert_eq!(limited(&mut meter, &free, 5 * SECOND + 50 * MS), 20 * MS);
    assert_eq!(limited(&mut meter, &held, 5 * SECOND + 60 * MS), 30 * MS);
    // Nobody looked for a minute.
    assert_eq!(limited(&mut meter, &held, 65 * SECOND), 30 * MS + LONGEST_GAP_NS);
    let sampled = meter.sampled().unwrap();
    assert_eq!(sampled.receive_limited_ns, 30 * MS + LONGEST_GAP_NS);
    assert_eq!((sampled.looks, sampled.send_limited_ns), (5, 0));
}

#[test]
fn plain_tcp_and_older_kernels_give_no_samples() {
    let mut fallen_back = look(0, false, &[]);
    fallen_back.connection.fallback = true;
    let mut older = look(0, false, &[]);
    older.connection.bytes_sent = None;
    let mut meter = Meter::default();
    assert_eq!((meter.note(&fallen_back, 1), meter.note(&older, 2)), (None, None));
    assert_eq!(meter.sampled(), None);
}

#[test]
fn samples_come_at_the_interval_that_the_policy_wants() {
    let mut meter = Meter::default();
    let due = |meter: &mut Meter, ms: u64| meter.is_due(10 * SECOND + ms * MS, 100 * MS);
    let times: Vec<_> =
        (0..30).map(|number| 21 * number).filter(|&ms| due(&mut meter, ms)).collect();
    assert_eq!(times, [0, 105, 210, 294, 399, 504, 609]);
    // Late ones are not made up for.
    assert!(due(&mut meter, 5_000) && !due(&mut meter, 5_020) && due(&mut meter, 5_100));
}

fn tcp(acked: u64, sacked: u32) -> SubflowLook {
    let tcp = TcpInfo { mss: 1_000, cwnd: 10, bytes_acked: acked, sacked, ..TcpInfo::default() };
    SubflowLook { tcp, ..SubflowLook::default() }
}

#[test]
fn what_arrived_beyond_a_gap_counts_and_is_not_counted_twice() {
    let mut meter = Meter::default();
    let delivered: Vec<_> = [tcp(5_001, 0), tcp(5_001, 7), tcp(13_001, 0), tcp(13_001, 2)]
        .iter()
        .map(|look| meter.note_subflow(look).delivered)
        .collect();
    assert_eq!(delivered, [5_000, 12_000, 13_000, 15_000]);
    assert_eq!(meter.note_subflow(&tcp(13_001, 0)).delivered, 15_000, "the peer forgot it");
    assert_eq!(meter.note_subflow(&tcp(13_001, 0)).window, 10_000);
}

#[test]
fn a_subflow_that_rejoins_goes_on_where_it_was() {
    let mut meter = Meter::default();
    let mut first = tcp(9_001, 0);
    (first.tcp.bytes_retransmitted, first.tcp.timeouts) = (500, Some(2));
    meter.note_subflow(&first);
    let again = meter.note_subflow(&tcp(2_001, 0));
    assert_eq!((again.delivered, again.retransmitted, again.timeouts), (11_000, 500, 2));
}

proptest! {
    #[test]
    fn nothing_ever_shrinks(steps in prop::collection::vec((0..50_000u64, 0..30u32, 0..400u64, any::<bool>()), 1..60)) {
        let (mut meter, mut now) = (Meter::default(), 0);
        let mut before = (0, 0);
        for (acked, sacked, ms, is_full) in steps {
            now += ms * MS;
            let limited = limited(&mut meter, &look(0, is_full, &[subflow(0, 3, 0)]), now);
            let delivered = meter.note_subflow(&tcp(acked, sacked)).delivered;
            prop_assert!(limited >= before.0 && delivered >= before.1);
            prop_assert!(limited <= now);
            before = (limited, delivered);
        }
    }
}

/// Every connection's bytes on their way at a glance.
fn glance(schedule: &mut Schedule, connections: impl IntoIterator<Item = (u32, u32)>) {
    connections.into_iter().for_each(|(token, bytes)| schedule.weigh(token, bytes));
    schedule.choose(0);
}

#[test]
fn a_connection_alone_is_looked_at_often_and_many_no_more_often_than_the_time_allows() {
    for connections in [1, 5, 12, 1_000] {
        let (mut schedule, mut now, mut looks) = (Schedule::default(), 0, 0);
        glance(&mut schedule, (0..connections).map(|token| (token, 1_000_000 + token)));
        while now < 10 * SECOND {
            let due = schedule.begin(now);
            schedule.end(due.len(), due.len() as u64 * 100_000);
            looks += due.len() as u64;
            if now % (100 * MS) == 0 {
                glance(&mut schedule, (0..connections).map(|token| (token, 1_000_000 + token)));
            }
            now += MS;
        }
        let allowed = 1.0 / SHARE as f64;
        let share = (looks * 100_000) as f64 / now as f64;
        assert!(share < 1.3 * allowed, "{connections}: {share}"); // the cost was guessed at first
        let most = now / SHORTEST_NS * u64::from(connections);
        assert!(share > 0.8 * allowed || looks * 50 >= most * 49, "{connections}: {looks} looks");
    }
}

#[test]
fn the_busiest_get_looks_and_keep_them_until_others_have_clearly_more() {
    let mut schedule = Schedule::default();
    schedule.end(1, 40 * GUESSED_COST_NS); // one at most
    glance(&mut schedule, [(1, 100_000), (2, 90_000), (3, 10)]);
    assert_eq!(schedule.begin(0), [1]);
    glance(&mut schedule, [(1, 100_000), (2, 120_000)]);
    assert_eq!(schedule.begin(SECOND), [1]);
    glance(&mut schedule, [(1, 100_000), (2, 160_000)]);
    assert_eq!(schedule.begin(2 * SECOND), [2]);
    schedule.forget(2);
    glance(&mut schedule, [(1, 100_000)]);
    assert_eq!(schedule.begin(3 * SECOND), [1]);
}

#[test]
fn a_quiet_connection_costs_nothing() {
    let mut schedule = Schedule::default();
    glance(&mut schedule, [(1, 100_000), (2, 3_000)]);
    assert_eq!(schedule.begin(0), [1]);
    assert_eq!(schedule.begin(10 * MS), [] as [u32; 0], "not yet");
    for _ in 0..20 {
        glance(&mut schedule, []);
    }
    assert_eq!((schedule.due_ns(), schedule.begin(SECOND)), (None, vec![]));
}
