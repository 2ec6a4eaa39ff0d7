//! Effects of a link against closed forms: queue management, changing rates, background traffic, and combinations.

use super::*;

const MS: Nanos = MILLISECOND;
/// A full packet takes 1 ms.
const RATE: u64 = 12_000_000;

fn one_link(link: LinkSpec) -> NetworkSpec {
    network(vec![link], vec![path(&[0], &[0])])
}

fn codel(ecn: bool) -> AqmSpec {
    AqmSpec::Codel(CodelSpec { target_ns: 5 * MS, interval_ns: 100 * MS, ecn })
}

fn fq_codel() -> AqmSpec {
    AqmSpec::FqCodel(FqCodelSpec {
        target_ns: 5 * MS,
        interval_ns: 100 * MS,
        ecn: true,
        queues: 1024,
        quantum_bytes: 1514,
    })
}

/// Sends a full packet of a flow every `gap` from `from` to `until`.
fn stream(bench: &mut Bench, flow: u32, (from, gap, until): (Nanos, Nanos, Nanos), ect: bool) {
    for at in (from..until).step_by(gap as usize) {
        bench.send(at, 0, 1500, flow, ect);
    }
}

#[test]
fn codel_drops_at_its_control_law() {
    // Twice the rate from time 0: the packet that leaves at t has waited t / 2, more than 5 ms from
    // 10 ms on (first seen with the packet taken out at 10 ms), so dropping starts at 110 ms, and the
    // n-th interval after that is 100 ms / sqrt(n).
    let spec = one_link(LinkSpec { aqm: Some(codel(false)), ..link(RATE, 0, None) });
    let mut bench = Bench::new(&spec, 1);
    let mut drops = Vec::new();
    for at in (0..600 * MS).step_by(MS as usize / 2) {
        bench.send(at, 0, 1500, 0, false);
        drops.resize(bench.counters(0).dropped as usize, at);
    }
    let mut due = 110 * MS;
    for (n, &at) in (1..).zip(&drops) {
        // A packet is taken every millisecond, and dropping takes no line time.
        assert!((due..=due + 2 * MS).contains(&at), "drop {n} at {at}, due {due}");
        due += (100e6 / f64::from(n).sqrt()) as Nanos;
    }
    assert!(drops.len() > 9, "{drops:?}");
}

#[test]
fn codel_marks_the_same_packets_that_it_would_drop_first() {
    let spec = |ecn| one_link(LinkSpec { aqm: Some(codel(ecn)), ..link(RATE, 0, None) });
    let mut marking = Bench::new(&spec(true), 1);
    stream(&mut marking, 0, (0, MS / 2, 400 * MS), true);
    marking.run(NEVER);
    assert_eq!((marking.counters(0).dropped, marking.arrivals.len()), (0, 800));
    let mut dropping = Bench::new(&spec(false), 1);
    stream(&mut dropping, 0, (0, MS / 2, 400 * MS), true);
    dropping.run(NEVER);
    let mut numbers = dropping.arrivals.iter().map(|a| a.2.number);
    let first_dropped = (0..).find(|&n| numbers.next() != Some(n));
    let first_marked = marking.arrivals.iter().find(|a| a.2.marked).map(|a| a.2.number);
    assert_eq!(first_marked, first_dropped);
    assert!(marking.counters(0).marked > 4);
}

#[test]
fn codel_leaves_alone_a_queue_that_stays_short_or_drains() {
    let spec = one_link(LinkSpec { aqm: Some(codel(false)), ..link(RATE, 0, None) });
    let mut bench = Bench::new(&spec, 1);
    // Bursts of 50 packets, gone within 50 ms each, and the line's own rate in between.
    for burst in 0..20 {
        for _ in 0..50 {
            bench.send(burst * 100 * MS, 0, 1500, 0, false);
        }
    }
    stream(&mut bench, 0, (2000 * MS, MS, 3000 * MS), false);
    bench.run(NEVER);
    assert_eq!(bench.arrivals.len(), 2000);
}

#[test]
fn an_active_queue_without_congestion_is_a_fifo_of_the_same_rate() {
    let plain = one_link(link(RATE, 7, Some(30_000)));
    for aqm in [codel(false), fq_codel()] {
        let managed = one_link(LinkSpec { aqm: Some(aqm), ..link(RATE, 7, Some(30_000)) });
        let packets: Vec<_> = (0..200).map(|i| (i * i % 97 * MS / 8 + i * MS, 0, 1500)).collect();
        let mut packets = packets;
        packets.sort_unstable();
        assert_eq!(run(&managed, &packets), run(&plain, &packets));
    }
}

#[test]
fn fq_codel_shares_by_bytes_and_lets_a_sparse_flow_pass() {
    let spec = one_link(LinkSpec { aqm: Some(fq_codel()), ..link(RATE, 0, Some(1_000_000)) });
    let mut bench = Bench::new(&spec, 1);
    // Flow 1 sends small packets, flow 2 full ones, both far too many; flow 3 one every 50 ms.
    for at in (0..2000 * MS).step_by(MS as usize / 4) {
        for _ in 0..3 {
            bench.send(at, 0, 500, 1, true);
        }
        bench.send(at, 0, 1500, 2, true);
        if at % (50 * MS) == 0 {
            bench.send(at, 0, 100, 3, true);
        }
    }
    bench.run(2000 * MS);
    let carried =
        |flow, size: usize| size * bench.arrivals.iter().filter(|a| a.2.flow == flow).count();
    let (small, full) = (carried(1, 500) as f64, carried(2, 1500) as f64);
    assert!((small / full - 1.0).abs() < 0.01, "{small} {full}");
    let sparse = bench.arrivals.iter().filter(|a| a.2.flow == 3);
    let waits: Vec<_> = sparse.enumerate().map(|(i, a)| a.0 - i as u64 * 50 * MS).collect();
    // At first all three are new: a turn of 2000 and one of 3000 bytes. Later it waits for the packet
    // that is being sent. Its own 100 bytes take a fifteenth of a millisecond.
    assert!(waits[0] <= 5000 * MS / 1500 + MS / 15 + 1, "{waits:?}");
    assert!(waits[1..].iter().all(|&wait| wait <= MS + MS / 15 + 1), "{waits:?}");
}

#[test]
fn fq_codel_takes_from_the_longest_queue_when_it_is_full() {
    let spec = one_link(LinkSpec { aqm: Some(fq_codel()), ..link(RATE, 0, Some(15_000)) });
    let mut bench = Bench::new(&spec, 1);
    for _ in 0..40 {
        bench.send(0, 0, 1500, 1, false);
    }
    for _ in 0..3 {
        bench.send(0, 0, 1500, 2, false);
    }
    bench.run(NEVER);
    let of = |flow| bench.arrivals.iter().filter(|a| a.2.flow == flow).count();
    // One packet on the line, ten in the queue; the oldest of the long flow are dropped.
    assert_eq!((of(1), of(2), bench.counters(0).dropped), (8, 3, 32));
    assert_eq!(bench.arrivals.iter().map(|a| a.2.number).max(), Some(42));
}

#[test]
fn a_step_threshold_marks_packets_that_find_more_and_drops_nothing() {
    let aqm = Some(AqmSpec::Step(StepMarkingSpec { mark_bytes: 4500 }));
    let spec = one_link(LinkSpec { aqm, ..link(RATE, 0, Some(15_000)) });
    let mut bench = Bench::new(&spec, 1);
    for number in 0..12 {
        bench.send(0, 0, 1500, 0, number != 7);
    }
    bench.run(NEVER);
    let marked: Vec<_> = bench.arrivals.iter().filter(|a| a.2.marked).map(|a| a.2.number).collect();
    assert_eq!(marked, [4, 5, 6, 8, 9]);
    assert_eq!((bench.counters(0).marked, bench.counters(0).dropped), (5, 2));
}

#[test]
fn red_keeps_the_average_queue_between_its_thresholds() {
    // Twice the rate, and nothing reacts: the average settles where half of the packets are dropped.
    let red = RedSpec {
        min_bytes: 15_000,
        max_bytes: 45_000,
        max_ppb: 100_000_000,
        weight_ppb: 20_000_000,
        gentle: true,
        ecn: true,
    };
    let limit = Some(150_000);
    let spec = one_link(LinkSpec { aqm: Some(AqmSpec::Red(red)), ..link(RATE, 0, limit) });
    let mut bench = Bench::new(&spec, 1);
    stream(&mut bench, 0, (0, MS / 2, 20_000 * MS), false);
    bench.run(NEVER);
    let counters = bench.counters(0);
    let share = counters.dropped as f64 / 40_000.0;
    assert!((share - 0.5).abs() < 0.01, "{share}");
    let waits = bench.arrivals.iter().map(|a| a.0 - u64::from(a.2.number) * MS / 2);
    let mean = waits.sum::<u64>() as f64 / bench.arrivals.len() as f64;
    // Uniform gaps from 1 to 1/p have mean (1 + 1/p) / 2 = 2 at p = 1/3. With p = 0.1 + 0.9 (a - max)
    // / max that is a = 1.26 max: 56.7 kB, 37.8 ms; twice the lower threshold would be 20 ms.
    assert!((34e6..42e6).contains(&mean), "{mean}");
}

#[test]
fn a_scheduled_rate_that_never_changes_is_the_plain_link() {
    let step = StepSpec { at_ns: 3 * MS, rate_bps: Some(RATE), ..StepSpec::default() };
    let schedule = Some(ScheduleSpec { steps: vec![step], period_ns: Some(5 * MS) });
    let plain = one_link(link(RATE, 7, None));
    let scheduled = one_link(LinkSpec { schedule, ..link(RATE, 7, None) });
    let packets: Vec<_> = (0..300).map(|i| (i * 700_000, 0, 500 + 1000 * (i as u32 % 2))).collect();
    assert_eq!(run(&scheduled, &packets), run(&plain, &packets));
}

#[test]
fn a_rate_that_stays_zero_keeps_the_packets_and_ends_the_events() {
    let step = StepSpec { at_ns: 5 * MS / 2, rate_bps: Some(0), ..StepSpec::default() };
    let schedule = Some(ScheduleSpec { steps: vec![step], period_ns: None });
    for aqm in [None, Some(codel(true)), Some(fq_codel())] {
        let spec = LinkSpec { schedule: schedule.clone(), aqm, ..link(RATE, 1, Some(9_000)) };
        let mut bench = Bench::new(&one_link(spec), 1);
        stream(&mut bench, 0, (0, MS / 4, 100 * MS), false);
        bench.run(NEVER);
        assert_eq!(bench.queue.earliest(), None);
        assert_eq!(bench.arrivals.len(), 2);
        let waiting = bench.counters(0).stuck + bench.network.queued().sum::<usize>() as u64;
        // 9000 bytes; an active queue does not count the packet on the line.
        assert!((6..=7).contains(&waiting), "{waiting}");
        assert_eq!(bench.counters(0).dropped + waiting + 2, 400);
    }
}

#[test]
fn a_token_bucket_lets_a_burst_through_at_the_links_rate() {
    // 3 Mbit/s behind a bucket of 6 packets, the line itself 12 Mbit/s.
    let bucket = Some(BucketSpec { rate_bps: RATE / 4, burst_bytes: 9_000 });
    let spec = one_link(LinkSpec { bucket, ..link(RATE, 0, None) });
    let at: Vec<_> = run(&spec, &[(0, 0, 1500); 9]).iter().map(|a| a.0 / MS).collect();
    // Tokens: six at once, the seventh packet's after 4 ms, while the line is busy until 6 ms.
    assert_eq!(at, [1, 2, 3, 4, 5, 6, 7, 9, 13]);
}

#[test]
fn a_trace_drops_by_bytes_and_what_it_carries_is_the_trace() {
    let trace_ms = Some(vec![2, 4, 6, 10]);
    let spec = LinkSpec { trace_ms, rate_bps: None, ..link(RATE, 1, Some(4_500)) };
    let arrivals = run(&one_link(spec), &[(0, 0, 1500); 5]);
    let at: Vec<_> = arrivals.iter().map(|a| (a.0 / MS, a.2)).collect();
    assert_eq!(at, [(3, 0), (5, 1), (7, 2)]);
}

#[test]
fn late_packets_are_overtaken_in_the_order_of_time_and_merge_with_others() {
    let reorder = Some(ReorderSpec { probability_ppb: 300_000_000, delay_ns: 5 * MS });
    let links = vec![LinkSpec { reorder, ..link(RATE, 10, None) }, link(10 * RATE, 1, None)];
    let spec = network(links, vec![path(&[0, 1], &[1])]);
    let packets: Vec<_> = (0..1000).map(|i| (i * MS, 0, 1500)).collect();
    let arrivals = run(&spec, &packets);
    assert_eq!(arrivals.len(), 1000);
    assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    for &(at, _, number) in &arrivals {
        // 1 ms on the first line and 0.1 ms on the second, or again 0.1 ms behind one that was late.
        let extra = at - u64::from(number) * MS - 121 * MS / 10;
        assert!([0, MS / 10, 5 * MS, 51 * MS / 10].contains(&extra), "{extra}");
    }
    let overtaken = arrivals.windows(2).filter(|pair| pair[0].2 > pair[1].2).count();
    // A late packet behind which not all are late is overtaken once: a run of late ones ends with
    // probability 0.7. Binomial with at most 1000 * 0.3: far more than none.
    assert!((150..=300).contains(&overtaken), "{overtaken}");
}

#[test]
fn copies_cross_the_links_behind() {
    let links =
        vec![LinkSpec { duplicate_ppb: 1_000_000_000, ..link(RATE, 1, None) }, link(RATE, 1, None)];
    let spec = network(links, vec![path(&[0, 1], &[1])]);
    let arrivals = run(&spec, &[(0, 0, 1500), (10 * MS, 0, 1500)]);
    let at: Vec<_> = arrivals.iter().map(|a| (a.0 / MS, a.2)).collect();
    assert_eq!(at, [(4, 0), (5, 0), (14, 1), (15, 1)]);
}

#[test]
fn background_takes_its_share_of_a_queue_and_stays_on_its_link() {
    // The full rate half of the time.
    let on_off = OnOffSpec { on_ns: 20 * MS, off_ns: 20 * MS, lengths: Lengths::Exponential };
    let udp = UdpSpec {
        rate_bps: RATE,
        packet_bytes: 1500,
        on_off: Some(on_off),
        start_ns: 0,
        stop_ns: None,
    };
    // The first link forwards packets before they are due; the second must see them in time.
    let shared = LinkSpec { udp: vec![udp], ..link(RATE, 1, Some(30_000)) };
    let spec = network(vec![link(10 * RATE, 5, None), shared], vec![path(&[0, 1], &[0])]);
    let mut bench = Bench::new(&spec, 1);
    stream(&mut bench, 0, (0, MS, 10_000 * MS), false);
    bench.run(10_000 * MS);
    let counters = bench.counters(1);
    // The line is never idle for long: it has sent 10 s at its rate and holds a queue of 20, and the
    // rest is dropped except for the packets that the first link delays by 5 ms.
    assert!((9_900..=10_020).contains(&counters.forwarded), "{counters:?}");
    let before = 10_000 + counters.background - counters.forwarded - counters.dropped;
    assert!((4..=6).contains(&before), "{before}");
    // Alone the stream would lose nothing. (How the two share depends on who finds room first.)
    let delivered = bench.arrivals.len();
    assert!((5_000..9_900).contains(&delivered), "{delivered}");
    assert!(bench.arrivals.windows(2).all(|pair| pair[0].2.number < pair[1].2.number));
}

#[test]
fn background_stops_and_then_no_events_are_left() {
    let stop_ns = Some(100 * MS);
    let udp = UdpSpec { rate_bps: RATE, packet_bytes: 1500, on_off: None, start_ns: 0, stop_ns };
    let spec = one_link(LinkSpec { udp: vec![udp], ..link(RATE, 1, Some(30_000)) });
    let mut bench = Bench::new(&spec, 1);
    bench.run(NEVER);
    assert_eq!((bench.counters(0).background, bench.counters(0).forwarded), (99, 99));
}
