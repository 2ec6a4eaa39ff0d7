//! Guard on a toy connection, with a throughput for each set of active subflows and a forecast set by the test; and on
//! arbitrary samples.

use super::super::testing::{World, activate, connect, silence};
use super::*;
use crate::pathmanager::{SharedBuffer, SubflowStatistics};
use crate::units::MILLISECOND;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const MBPS: f64 = 1e6 / 8.0;

/// A set's throughput in order, Mbit/s.
type Throughput = fn(&[SubflowId]) -> f64;

/// What the buffers hold, bytes.
const ROOM: Bytes = 200_000;

/// Two paths and a connection over them.
struct Toy {
    world: World<Guard>,
    now: Nanos,
    /// Paths alone: Mbit/s and ms.
    lines: Vec<(f64, u64)>,
    throughput: Throughput,
    /// Orders with their times.
    orders: Vec<(Nanos, Vec<Command>)>,
}

impl Toy {
    fn new(lines: &[(f64, u64)], throughput: Throughput) -> Self {
        Self::foreseen(Arc::new(SharedBuffer), lines, throughput)
    }

    fn foreseen(forecast: Arc<dyn Forecast>, lines: &[(f64, u64)], throughput: Throughput) -> Self {
        let mut world = World::<Guard>::new(lines.len(), 1, Options::default());
        world.policy.foresee(|| forecast);
        world.start(0);
        for (id, &(_, rtt_ms)) in lines.iter().enumerate().skip(1) {
            world.establish(id, rtt_ms);
        }
        world.subflows[0].min_rtt = lines[0].1 * MILLISECOND;
        Self { world, now: 0, lines: lines.to_vec(), throughput, orders: Vec::new() }
    }

    /// Lets time pass, a sample at a time. Each active subflow delivers its share of the throughput.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now += TUNING.interval;
            let active = self.world.active();
            let mbps = (self.throughput)(&active);
            let whole: f64 = active.iter().map(|&id| self.lines[id].0).sum();
            for id in active {
                let (line, rtt_ms) = self.lines[id];
                let statistics = &mut self.world.subflows[id].statistics;
                statistics.srtt = rtt_ms * MILLISECOND;
                statistics.rate = (line * MBPS) as Bytes;
                statistics.delivered += (mbps * MBPS * line / whole / 10.0) as Bytes;
            }
            let all = &mut self.world.statistics;
            all.acked += (mbps * MBPS / 10.0) as Bytes;
            all.sent = all.acked + ROOM;
            all.buffer = ROOM;
            let ordered = self.world.sample(self.now);
            if !ordered.is_empty() {
                self.orders.push((self.now, ordered));
            }
        }
    }

    fn lose(&mut self, id: SubflowId) -> Vec<Command> {
        self.world.lose(id)
    }
}

/// The second path holds the first one up.
fn harmful(active: &[SubflowId]) -> f64 {
    match active {
        [0] => 80.0,
        [1] => 4.0,
        _ => 20.0,
    }
}

/// Nothing is harmful, whatever is foreseen.
fn all_help(active: &[SubflowId]) -> f64 {
    40.0 * active.len() as f64
}

#[test]
fn every_path_gets_a_subflow_that_carries_data() {
    let mut world = World::<Guard>::new(2, 2, Options::default());
    assert_eq!(world.start(2), [0, 1, 3].map(connect));
}

#[test]
fn a_subflow_that_holds_the_others_up_goes_on_standby_within_seconds() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200)], harmful);
    toy.run(5);
    assert_eq!(toy.world.active(), [0]);
    assert!(toy.orders[0].0 <= 3 * SECOND);
    toy.run(60);
    assert_eq!(toy.orders.len(), 1, "nothing promises more: {:?}", toy.orders);
}

#[test]
fn where_all_paths_are_foreseen_to_help_nothing_is_tried() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 15)], |_| 20.0);
    toy.run(600);
    assert_eq!(toy.orders, []);
}

#[test]
fn what_is_not_better_is_taken_back_and_tried_less_and_less_often() {
    let mut toy = Toy::new(&[(200.0, 10), (80.0, 100)], all_help);
    toy.run(600);
    assert_eq!(toy.world.active(), [0, 1]);
    let trials: Vec<Nanos> = toy.orders.iter().step_by(2).map(|order| order.0).collect();
    assert!((3..8).contains(&trials.len()), "{trials:?}");
    let waits: Vec<Nanos> = trials.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    for pair in toy.orders.chunks(2) {
        assert!(matches!(pair, [(from, _), (to, _)] if to - from < 8 * SECOND), "{pair:?}");
    }
}

#[test]
fn a_subflow_that_has_recovered_is_used_again() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200)], harmful);
    toy.run(10);
    assert_eq!(toy.world.active(), [0]);
    toy.lines[1] = (80.0, 10);
    toy.throughput = |active| 80.0 * active.len() as f64;
    toy.run(180);
    assert_eq!(toy.world.active(), [0, 1]);
}

#[test]
fn one_that_stays_harmful_is_tried_again_at_growing_intervals() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200)], harmful);
    toy.run(3600);
    let added = |order: &&(Nanos, Vec<Command>)| order.1.contains(&activate(1));
    let tried: Vec<Nanos> = toy.orders.iter().filter(added).map(|order| order.0).collect();
    assert!((3..10).contains(&tried.len()), "{tried:?}");
    for order in toy.orders.iter().filter(added) {
        let back = toy.orders.iter().find(|later| later.0 > order.0).expect("taken back");
        assert!(back.0 - order.0 < 2 * SECOND && back.1 == [silence(1)]);
    }
    let waits: Vec<Nanos> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted() && waits[0] >= TUNING.blind, "{waits:?}");
}

#[test]
fn a_subflow_that_has_delivered_nothing_keeps_nobody_from_acting() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200), (0.0, 30)], |active| {
        if active.contains(&1) { 20.0 } else { 80.0 }
    });
    toy.run(10);
    assert!(!toy.world.active().contains(&1), "{:?}", toy.orders);
}

#[test]
fn standby_takes_over_when_the_last_active_one_is_lost() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200)], harmful);
    toy.run(10);
    assert_eq!(toy.lose(0), [activate(1)]);
    assert_eq!(toy.world.active(), [1]);
    assert_eq!(toy.world.restore(0), []);
}

#[test]
fn of_several_on_standby_the_most_promising_takes_over() {
    fn first_alone(active: &[SubflowId]) -> f64 {
        if active == [0] { 80.0 } else { 10.0 }
    }
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200), (20.0, 100)], first_alone);
    toy.run(10);
    assert_eq!(toy.world.active(), [0]);
    assert_eq!(toy.lose(0), [activate(2)]);
}

#[test]
fn when_the_active_ones_fail_the_others_are_tried_although_their_wait_is_not_over() {
    let mut toy = Toy::new(&[(80.0, 10), (5.0, 200)], harmful);
    toy.run(20);
    toy.lines[0] = (1.0, 10);
    toy.throughput = |active| if active == [0] { 1.0 } else { 5.0 };
    toy.run(12);
    assert_eq!(toy.world.active(), [0, 1]);
}

#[test]
fn of_many_subflows_those_alone_and_the_neighbours_are_considered() {
    assert_eq!(candidates(0b101, 0b101), [0b001, 0b100]);
    assert!(candidates(0b1, 0b1).is_empty());
    assert_eq!(candidates(0b1111, 0b11).len(), 14);
    let many = candidates(Set::MAX, 0b111);
    assert!(many.len() <= 3 * 64 + 1 && many.iter().all(|&set| set != 0 && set != 0b111));
    for wanted in [1, 0b110, 0b1111, Set::MAX, Set::MAX ^ 1] {
        assert!(many.contains(&wanted), "{wanted:b}");
    }
}

/// One sample of a subflow that delivers 10 Mbit/s with RTTs of 20 to 60 ms.
fn sampled(estimate: &mut Estimate, number: u64, srtt_ms: u64, resent: &mut Bytes, more: Bytes) {
    *resent += more;
    let statistics = SubflowStatistics {
        delivered: number * 125_000,
        retransmitted: *resent,
        srtt: srtt_ms * MILLISECOND,
        rate: 1_250_000,
        ..SubflowStatistics::default()
    };
    let min_rtt = 20 * MILLISECOND;
    let subflow = SubflowView { path: 0, alive: true, backup: false, min_rtt, statistics };
    estimate.update(number * TUNING.interval, &subflow);
}

#[test]
fn a_path_is_as_its_subflow_shows_it() {
    let mut estimate = Estimate::default();
    assert_eq!(estimate.line(), None);
    let mut resent = 0;
    for number in 1..=600 {
        // A queue that fills and overruns every two seconds, by many segments at once.
        let srtt_ms = 20 + 2 * (number % 20);
        let more = if number % 20 == 19 { 40_000 } else { 0 };
        sampled(&mut estimate, number, srtt_ms, &mut resent, more);
    }
    let line = estimate.line().expect("known");
    assert_eq!(line.rtt, 20 * MILLISECOND);
    assert_eq!(line.loss, 0.0, "the queue lost them");
    assert!((10_000_000..11_000_000).contains(&line.rate_bps), "{line:?}");
    assert!((45_000..62_000).contains(&line.queue), "38 ms and what smoothing hides: {line:?}");

    let mut estimate = Estimate::default();
    let mut resent = 0;
    for number in 1..=600 {
        // One segment in 875 is lost, whatever the RTT.
        let more = if number % 10 == 0 { 1428 } else { 0 };
        sampled(&mut estimate, number, 20 + number % 2, &mut resent, more);
    }
    let loss = estimate.line().expect("known").loss;
    assert!((0.9..1.2).contains(&(loss * 875.0)), "{loss}");
}

#[test]
fn without_an_answer_nothing_is_tried_and_the_questions_are_asked_once_a_second() {
    #[derive(Debug, Default)]
    struct Busy(AtomicUsize);
    impl Forecast for Busy {
        fn throughput(&self, _lines: &[Line], _buffer: Bytes) -> Option<f64> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
    let busy = Arc::new(Busy::default());
    let mut toy = Toy::foreseen(Arc::clone(&busy) as _, &[(80.0, 10), (5.0, 200)], harmful);
    toy.run(100);
    assert_eq!(toy.orders, []);
    // About all of the time, about three sets, of ten samples a second one.
    let asked = busy.0.load(Ordering::Relaxed);
    assert!((100..400).contains(&asked), "{asked}");
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let defaults = Options::default;
    for (options, key) in [
        (Options { promised_gain: 0, ..defaults() }, "promised_gain"),
        (Options { first_retry: 601, ..defaults() }, "first_retry"),
    ] {
        assert_eq!(Guard::new(options).expect_err("refused").key, key);
    }
}

/// An arbitrary report of an observer.
#[derive(Debug, Clone)]
enum Step {
    Sample { after_ms: u64, acked: u64, subflows: Vec<(u64, u64, u64)> },
    Lose(usize),
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let subflow = (0..5_000_000u64, 0..2_000u64, 0..10_000_000u64);
    let sample = (1..400u64, 0..5_000_000u64, prop::collection::vec(subflow, 4))
        .prop_map(|(after_ms, acked, subflows)| Step::Sample { after_ms, acked, subflows });
    prop_oneof![
        40 => sample,
        1 => (0..4usize).prop_map(Step::Lose),
        1 => (0..4usize).prop_map(Step::Restore),
    ]
}

/// All orders at samples, with their times.
fn follow(steps: &[Step]) -> Result<Vec<(Nanos, Vec<Command>)>, TestCaseError> {
    let mut world = World::<Guard>::new(4, 1, Options::default());
    world.policy.foresee(|| Arc::new(SharedBuffer));
    world.start(0);
    for id in 1..4 {
        world.establish(id, 20);
    }
    let (mut now, mut orders) = (0, Vec::new());
    for step in steps {
        match step {
            Step::Sample { after_ms, acked, subflows } => {
                now += after_ms * MILLISECOND;
                world.statistics.acked += acked;
                world.statistics.sent = world.statistics.sent.max(world.statistics.acked) + 1000;
                for (subflow, &(delivered, rtt_ms, rate)) in world.subflows.iter_mut().zip(subflows)
                {
                    subflow.statistics.delivered += delivered;
                    (subflow.statistics.srtt, subflow.statistics.rate) =
                        (rtt_ms * MILLISECOND, rate);
                }
                orders.push((now, world.sample(now)));
            }
            Step::Lose(id) if world.subflows[*id].alive => drop(world.lose(*id)),
            Step::Restore(id) if !world.subflows[*id].alive => drop(world.restore(*id)),
            _ => {}
        }
        let alive = world.subflows.iter().any(|subflow| subflow.alive);
        prop_assert_eq!(alive, !world.active().is_empty());
    }
    orders.retain(|(_, commands)| !commands.is_empty());
    Ok(orders)
}

proptest! {
    /// Data can always flow, no minute has more changes than allowed, and the same samples lead to the same
    /// orders. The world refuses commands that change nothing.
    #[test]
    fn whatever_the_samples_are_it_keeps_a_subflow_active_and_does_not_flap(
        steps in prop::collection::vec(step(), 0..900),
    ) {
        let orders = follow(&steps)?;
        for (at, _) in &orders {
            let minute = orders.iter().filter(|(other, _)| other >= at && *other < at + MINUTE);
            // A trial that began last may end.
            prop_assert!(minute.count() <= TUNING.most_changes + 1);
        }
        prop_assert_eq!(orders, follow(&steps)?);
    }
}
