//! The network against closed forms: serialisation and propagation, queue limits, loss, order,
//! sharing, conservation.

use super::*;
use crate::units::{MILLISECOND, SECOND};
use proptest::prelude::*;

mod effects;
mod properties;

/// A payload with a number and its CE mark.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    number: u32,
    flow: u32,
    ect: bool,
    marked: bool,
    copied: bool,
}

impl Carried for Probe {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn is_ect(&self) -> bool {
        self.ect
    }

    fn mark_ce(&mut self) {
        self.marked = true;
    }

    fn is(&self, entered: &Self) -> bool {
        self.number == entered.number
    }

    fn is_marked(&self) -> bool {
        self.marked
    }

    fn duplicate(&mut self) {
        self.copied = true;
    }
}

fn link(rate_bps: u64, delay_ms: u64, queue_bytes: Option<u64>) -> LinkSpec {
    let delay_ns = delay_ms * MILLISECOND;
    LinkSpec { rate_bps: Some(rate_bps), delay_ns, queue_bytes, ..LinkSpec::default() }
}

fn path(forward: &[usize], reverse: &[usize]) -> PathSpec {
    let label = String::new();
    PathSpec {
        label,
        local: 0,
        remote: 0,
        forward: forward.into(),
        reverse: reverse.into(),
        family: None,
        metered: false,
    }
}

fn network(links: Vec<LinkSpec>, paths: Vec<PathSpec>) -> NetworkSpec {
    let spec = NetworkSpec { links, paths, ..NetworkSpec::default() };
    spec.validate().expect("valid");
    spec
}

/// A network with its clock, and all arrivals: time, route, packet.
struct Bench {
    queue: EventQueue,
    network: Network<Probe>,
    now: Nanos,
    sent: u32,
    events: usize,
    /// Lookahead of links, even past later packets.
    ahead: Nanos,
    arrivals: Vec<(Nanos, RouteId, Probe)>,
}

impl Bench {
    fn new(spec: &NetworkSpec, seed: u64) -> Self {
        let mut queue = EventQueue::new();
        let network = Network::new(spec, seed, &mut queue);
        Self { queue, network, now: 0, sent: 0, events: 0, ahead: 0, arrivals: Vec::new() }
    }

    /// Handles every event up to and including `until`.
    fn run(&mut self, until: Nanos) {
        while let Some((at, source)) = self.queue.earliest().filter(|&(at, _)| at <= until) {
            assert!(at >= self.now, "time goes backwards");
            self.now = at;
            self.events += 1;
            if let Some((route, probe)) =
                self.network.advance(&mut self.queue, source, until.max(self.ahead))
            {
                self.arrivals.push((at, route, probe));
            }
        }
    }

    /// Sends the next probe at a time no earlier than the last.
    fn send(&mut self, at: Nanos, route: RouteId, size: u32, flow: u32, ect: bool) {
        self.run(at);
        let probe = Probe { number: self.sent, flow, ect, ..Probe::default() };
        self.network.send(&mut self.queue, at, route, size, probe);
        self.sent += 1;
    }

    fn counters(&self, link: usize) -> LinkCounters {
        self.network.counters().nth(link).expect("a link of the network")
    }
}

/// Sends packets `(time, route, size)`, numbered in order; returns `(arrival, route, number)`.
fn run(spec: &NetworkSpec, packets: &[(Nanos, RouteId, u32)]) -> Vec<(Nanos, RouteId, u32)> {
    let mut bench = Bench::new(spec, 1);
    for &(at, route, size) in packets {
        bench.send(at, route, size, 0, false);
    }
    bench.run(NEVER);
    bench.arrivals.iter().map(|&(at, route, probe)| (at, route, probe.number)).collect()
}

#[test]
fn a_packet_takes_serialisation_plus_propagation_on_every_link() {
    // 1500 bytes at 12 Mbit/s are 1 ms, at 6 Mbit/s 2 ms.
    let spec = network(
        vec![link(12_000_000, 10, None), link(6_000_000, 20, None)],
        vec![path(&[0, 1], &[1])],
    );
    assert_eq!(run(&spec, &[(0, 0, 1500)]), vec![(33 * MILLISECOND, 0, 0)]);
}

#[test]
fn a_burst_leaves_at_the_rate_of_the_slowest_link() {
    let spec = network(
        vec![link(12_000_000, 0, None), link(6_000_000, 0, None)],
        vec![path(&[0, 1], &[1])],
    );
    let arrivals = run(&spec, &[(0, 0, 1500); 5]);
    let gaps: Vec<_> = arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(gaps, vec![2 * MILLISECOND; 4]);
}

#[test]
fn the_queue_holds_its_bytes_and_drops_the_rest() {
    let spec = network(vec![link(12_000_000, 0, Some(4500))], vec![path(&[0], &[0])]);
    let numbers: Vec<_> = run(&spec, &[(0, 0, 1500); 6]).into_iter().map(|a| a.2).collect();
    assert_eq!(numbers, [0, 1, 2]);
    // After 1 ms one packet has left and one more fits.
    let mut later = vec![(0, 0, 1500); 6];
    later.push((MILLISECOND, 0, 1500));
    assert_eq!(run(&spec, &later).last().map(|a| a.2), Some(6));
}

#[test]
fn routes_sharing_a_downlink_share_its_rate_in_order_of_arrival() {
    // Two uplinks of different delay into one downlink: the second packet enters it first.
    let links = vec![
        link(1_000_000_000, 30, None),
        link(1_000_000_000, 10, None),
        link(12_000_000, 0, None),
    ];
    let spec = network(links, vec![path(&[0, 2], &[2]), path(&[1, 2], &[2])]);
    let arrivals = run(&spec, &[(0, forward(0), 1500), (0, forward(1), 1500)]);
    assert_eq!(arrivals.iter().map(|a| a.2).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(arrivals[0].0, 11 * MILLISECOND + 12_000);
}

#[test]
fn packets_that_meet_on_a_downlink_cost_an_event_each_and_few_more() {
    let links = vec![
        link(50_000_000, 30, None),
        link(50_000_000, 10, None),
        link(80_000_000, 5, Some(150_000)),
        link(80_000_000, 5, None),
    ];
    let spec = network(links, vec![path(&[0, 2], &[3]), path(&[1, 2], &[3])]);
    let mut bench = Bench::new(&spec, 1);
    bench.ahead = NEVER;
    for number in 0..5000 {
        bench.send(number * 120_000, forward(number as usize % 2), 1500, 0, false);
    }
    bench.run(NEVER);
    assert!(bench.arrivals.len() > 3000);
    // 83 packets enter the downlink within the shorter delay of 10 ms.
    assert!(bench.events < bench.arrivals.len() + 5000 / 50, "{}", bench.events);
}

#[test]
fn random_loss_has_the_requested_probability_and_repeats_with_the_seed() {
    let mut lossy = link(1_000_000_000, 1, None);
    lossy.loss_ppb = 20_000_000;
    let spec = network(vec![lossy], vec![path(&[0], &[0])]);
    let packets: Vec<_> = (0..50_000).map(|i| (i * 20_000, 0, 1500)).collect();
    let arrivals = run(&spec, &packets);
    // Binomial(50000, 0.02): mean 1000, standard deviation 31.3; five of them.
    let lost = 50_000 - arrivals.len();
    assert!((844..=1156).contains(&lost), "{lost}");
    assert_eq!(arrivals, run(&spec, &packets));
}

#[test]
fn a_path_that_is_down_swallows_packets_until_it_is_up_again() {
    let spec = network(vec![link(12_000_000, 1, None)], vec![path(&[0], &[0])]);
    let mut bench = Bench::new(&spec, 1);
    bench.network.set_path_up(0, false);
    bench.send(0, forward(0), 1500, 0, false);
    assert_eq!(bench.queue.earliest(), None);
    bench.network.set_path_up(0, true);
    bench.send(0, forward(0), 1500, 0, false);
    assert!(bench.queue.earliest().is_some());
}

proptest! {
    #[test]
    fn every_packet_arrives_once_in_order_and_no_faster_than_the_links(
        seed in 0u64..1000,
        jitter in 0u64..5_000_000,
        gaps in prop::collection::vec((0u64..3_000_000, 0usize..2), 1..200),
    ) {
        let mut shared = link(8_000_000, 3, None);
        shared.jitter_ns = jitter;
        let links = vec![link(20_000_000, seed % 7, None), link(5_000_000, 2, None), shared];
        let spec = network(links, vec![path(&[0, 2], &[2]), path(&[1, 2], &[2])]);
        let mut at = 0;
        let packets: Vec<_> = gaps.iter().map(|&(gap, path)| { at += gap; (at, forward(path), 1500) }).collect();
        let arrivals = run(&spec, &packets);
        prop_assert_eq!(arrivals.len(), packets.len());
        prop_assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        for route in [forward(0), forward(1)] {
            let numbers: Vec<_> = arrivals.iter().filter(|a| a.1 == route).map(|a| a.2).collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "reordered: {:?}", numbers);
        }
        // The shared link cannot have carried more than its rate allows: 1.5 ms a packet.
        let (first, last) = (packets[0].0, arrivals.last().unwrap().0);
        prop_assert!(last - first + SECOND / 1_000_000 >= 1_500_000 * packets.len() as u64);
    }
}
