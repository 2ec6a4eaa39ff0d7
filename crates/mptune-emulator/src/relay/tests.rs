//! The relay with a fake clock and fake devices: delays and order of packets, and the fate of the others.

use super::*;
use crate::config::tests::{parsed, two_by_two};
use crate::frame::tests::{Sent, written};
use crate::header::tests::udp;
use mptune_core::units::{MICROSECOND, SECOND};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;
use std::net::IpAddr;

const MS: Nanos = MILLISECOND;
const PAYLOAD: usize = 1000;
/// IPv4 and UDP headers.
const SIZE: u64 = PAYLOAD as u64 + 28;

/// A clock that advances whenever it is read.
struct FakeClock {
    now: Cell<Nanos>,
    cost: Nanos,
}

impl Clock for FakeClock {
    fn now(&self) -> Nanos {
        self.now.set(self.now.get() + self.cost);
        self.now.get()
    }
}

/// Devices with something to read from given times on.
#[derive(Default)]
struct FakePorts {
    now: Nanos,
    inboxes: [VecDeque<(Nanos, Vec<u8>)>; 4],
    /// Device and packet of each write.
    outbox: Vec<(usize, Vec<u8>)>,
    /// The same with the offloads.
    whole: Vec<Vec<u8>>,
    refuses: bool,
}

impl Ports for FakePorts {
    fn receive(&mut self, device: usize, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let inbox = &mut self.inboxes[device];
        if inbox.front().is_none_or(|(at, _)| *at > self.now) {
            return Ok(None);
        }
        let Some((_, bytes)) = inbox.pop_front() else { return Ok(None) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(bytes.len()))
    }

    fn send(&mut self, device: usize, packet: &[u8]) -> io::Result<()> {
        if self.refuses {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.outbox.push((device, packet[PREFIX..].to_vec()));
        self.whole.push(packet.to_vec());
        Ok(())
    }
}

/// A relay with its clock and devices, and the time of each write.
struct Bench {
    relay: Relay,
    clock: FakeClock,
    ports: FakePorts,
    written: Vec<Nanos>,
}

impl Bench {
    fn new(config: &Value, slots: usize, cost: Nanos) -> Self {
        let relay = Relay::new(&parsed(config), slots);
        let clock = FakeClock { now: Cell::new(0), cost };
        Self { relay, clock, ports: FakePorts::default(), written: Vec::new() }
    }

    /// Makes a packet wait in a device from `at` on, without offloads.
    fn send(&mut self, at: Nanos, from: usize, packet: Vec<u8>) {
        self.send_bytes(at, from, [vec![0; PREFIX], packet].concat());
    }

    fn send_bytes(&mut self, at: Nanos, from: usize, bytes: Vec<u8>) {
        self.ports.inboxes[from].push_back((at, bytes));
    }

    /// Runs as the process does, until nothing more happens or the time is over.
    fn run(&mut self, until: Nanos) {
        loop {
            let now = self.clock.now.get();
            let first =
                self.ports.inboxes.iter().filter_map(|inbox| inbox.front().map(|p| p.0)).min();
            let next = self.relay.next_at(now).into_iter().chain(first).min();
            let Some(at) = next.filter(|&at| at.max(now) <= until) else { return };
            self.clock.now.set(now.max(at));
            for device in 0..4 {
                self.ports.now = self.clock.now.get();
                self.relay.receive(device, &mut self.ports, &self.clock).expect("readable");
            }
            self.relay.deliver(&mut self.ports, &self.clock);
            self.written.resize(self.ports.outbox.len(), self.clock.now.get());
        }
    }
}

fn address(site: u8, index: u8) -> IpAddr {
    IpAddr::from([10, 64 + site, index, 1])
}

/// From interface `from` of one site to `to` of the other; devices 0 and 1 are local, 2 and 3 remote.
fn packet(site: u8, from: u8, to: u8, ecn: u8, fill: u8) -> Vec<u8> {
    udp(address(site, from), address(1 - site, to), 5, ecn, fill, PAYLOAD)
}

fn fill(packet: &[u8]) -> u8 {
    packet[packet.len() - 1]
}

#[test]
fn a_packet_takes_its_way_and_its_time_in_both_directions() {
    let mut bench =
        Bench::new(&two_by_two(json!({"delay_ns": 7 * MS, "rate_bps": SIZE * 8000})), 100, 0);
    bench.send(0, 0, packet(0, 0, 1, 0, 1));
    bench.send(20 * MS, 3, packet(1, 1, 0, 0, 2));
    bench.run(SECOND);
    let arrived: Vec<_> = bench.ports.outbox.iter().map(|(to, bytes)| (*to, fill(bytes))).collect();
    assert_eq!(arrived, [(3, 1), (0, 2)]);
    assert_eq!(bench.written, [8 * MS, 28 * MS]);
    assert_eq!(bench.ports.outbox[0].1, packet(0, 0, 1, 0, 1));
    let expected = Tally { packets: 2, bytes: 2 * SIZE, ..Tally::default() };
    assert_eq!((bench.relay.tally(), bench.relay.lateness().max()), (expected, 0));
}

/// On the first path: 60 segments, the last one shorter.
fn sent_at_once(v6: bool) -> Sent {
    Sent {
        v6,
        ecn: 0b10,
        identification: 7,
        sequence: 1,
        flags: 0,
        options: 12,
        payload: (0..59_500u32).map(|number| (number / 1000) as u8).collect(),
        segment: 1000,
    }
}

#[test]
fn what_is_sent_at_once_arrives_as_segments_at_the_rate_of_the_link() {
    for (v6, headers) in [(false, 52), (true, 72)] {
        let size = 1000 + headers;
        let link = json!({"delay_ns": 3 * MS, "rate_bps": size * 8000, "queue_bytes": 100_000});
        let mut bench = Bench::new(&two_by_two(link), 100, 0);
        let bytes = sent_at_once(v6).bytes();
        bench.send_bytes(0, 0, bytes.clone());
        bench.run(SECOND);
        let expected: Vec<_> = written(&bytes).iter().map(|w| (2, w[PREFIX..].to_vec())).collect();
        assert_eq!(bench.ports.outbox, expected);
        for (number, at) in bench.written[..59].iter().enumerate() {
            assert_eq!(*at, (4 + number as Nanos) * MS);
        }
        let bytes = 59_500 + 60 * headers;
        assert_eq!(bench.relay.tally(), Tally { packets: 60, bytes, ..Tally::default() });
    }
}

/// Of four paths, each of the rate; queues and losses are the model's.
fn fast(rate_bps: u64, more: Value) -> Value {
    let mut link = json!({"delay_ns": 3 * MS, "rate_bps": rate_bps, "queue_bytes": 100_000});
    link.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    two_by_two(link)
}

#[test]
fn at_high_rates_segments_arrive_in_pieces_with_nothing_else_changed() {
    for v6 in [false, true] {
        let bytes = Sent { flags: 0x10, ..sent_at_once(v6) }.bytes();
        let expected = written(&bytes);
        for (rate_bps, rejoins) in [(REJOINING / 4, false), (REJOINING / 4 + 1, true)] {
            let mut bench = Bench::new(&fast(rate_bps, json!({})), 100, 0);
            bench.send_bytes(0, 0, bytes.clone());
            bench.run(SECOND);
            let pieces: Vec<_> = bench.ports.whole.iter().map(|piece| written(piece)).collect();
            assert_eq!(pieces.iter().any(|piece| piece.len() > 1), rejoins);
            assert_eq!(pieces.concat(), expected);
            let late = bench.relay.lateness().max();
            assert!(if rejoins { late > 0 && late <= GATHERING } else { late == 0 }, "{late}");
            assert_eq!(bench.relay.tally().packets, 60);
            assert_eq!(
                bench.relay.tally().bytes,
                expected.iter().map(|p| (p.len() - PREFIX) as u64).sum::<u64>()
            );
        }
    }
}

#[test]
fn at_high_rates_the_network_still_drops_and_marks_segments_one_by_one() {
    let more = json!({"loss_ppb": 100_000_000, "aqm": {"kind": "step", "mark_bytes": 30_000}});
    let sent = Sent { flags: 0x10, ..sent_at_once(false) };
    let mut outcomes = Vec::new();
    for factor in [1, 4] {
        // Above and below the limit; the queue is the same relative to what is sent.
        let mut bench = Bench::new(&fast(REJOINING / factor, more.clone()), 100, 0);
        bench.send_bytes(0, 0, sent.bytes());
        bench.run(SECOND);
        let counters = bench.relay.counters().next().expect("a link");
        let packets: Vec<_> = bench.ports.whole.iter().flat_map(|piece| written(piece)).collect();
        assert_eq!(packets.len() as u64 + counters.lost + counters.dropped, 60);
        assert!(counters.lost > 0 && counters.marked > 5, "{counters:?}");
        // Marked packets may be lost behind the queue.
        let marked = packets.iter().filter(|packet| packet[PREFIX + 1] & 3 == 3).count() as u64;
        assert!(marked <= counters.marked && marked + counters.lost >= counters.marked);
        assert_eq!(bench.ports.whole.len() < packets.len(), factor == 1);
        outcomes.push(packets);
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

#[test]
fn segments_are_dropped_marked_and_refused_each_by_itself() {
    let link = json!({
        "rate_bps": 8_000_000, "queue_bytes": 20_000, "aqm": {"kind": "step", "mark_bytes": 10_000},
    });
    let mut bench = Bench::new(&two_by_two(link), 100, 0);
    bench.send_bytes(0, 0, sent_at_once(false).bytes());
    bench.run(SECOND);
    let counters = bench.relay.counters().next().expect("a link");
    let packets = bench.relay.tally().packets;
    assert_eq!(packets + counters.dropped, 60);
    assert!(counters.dropped > 30 && counters.marked > 5 && counters.marked < packets);
    let marked = bench.ports.outbox.iter().filter(|(_, packet)| packet[1] == 0b11).count();
    assert_eq!(marked as u64, counters.marked);

    let mut crowded = Bench::new(&two_by_two(json!({"delay_ns": 10 * MS})), 1, 0);
    for _ in 0..20 {
        crowded.send_bytes(0, 0, sent_at_once(false).bytes());
    }
    crowded.run(SECOND);
    let tally = crowded.relay.tally();
    assert_eq!(tally.packets + tally.overflow, 20 * 60);
    assert!(tally.packets >= 500 && tally.overflow >= 500, "{tally:?}");
}

#[test]
fn segments_that_are_larger_than_any_packet_go_nowhere() {
    let mut bench = Bench::new(&two_by_two(json!({})), 100, 0);
    bench.send_bytes(0, 0, Sent { segment: 3000, ..sent_at_once(false) }.bytes());
    bench.run(SECOND);
    assert_eq!(bench.relay.tally(), Tally { unroutable: 1, ..Tally::default() });
}

#[test]
fn what_is_on_no_path_goes_nowhere() {
    let mut bench = Bench::new(&two_by_two(json!({})), 100, 0);
    bench.send(0, 1, packet(0, 0, 0, 0, 0));
    bench.send(0, 0, packet(1, 0, 0, 0, 0));
    bench.send(0, 0, udp(address(0, 0), IpAddr::from([224, 0, 0, 1]), 1, 0, 0, 0));
    bench.send(0, 0, vec![0; 40]);
    bench.send(0, 0, vec![]);
    bench.send_bytes(0, 0, vec![]);
    bench.run(SECOND);
    assert_eq!(bench.relay.tally(), Tally { unroutable: 6, ..Tally::default() });
}

#[test]
fn a_path_that_is_cut_carries_nothing_and_the_others_do() {
    let mut bench = Bench::new(&two_by_two(json!({})), 100, 0);
    bench.relay.set_path_up(1, false);
    for (number, to) in [(0, 0), (1, 1)] {
        bench.send(0, 0, packet(0, 0, to, 0, number));
        bench.send(0, 2 + usize::from(to), packet(1, to, 0, 0, 2 + number));
    }
    bench.run(SECOND);
    bench.relay.set_path_up(1, true);
    bench.send(SECOND, 0, packet(0, 0, 1, 0, 4));
    bench.run(2 * SECOND);
    let arrived: Vec<_> = bench.ports.outbox.iter().map(|(_, bytes)| fill(bytes)).collect();
    assert_eq!(arrived, [0, 2, 4]);
}

#[test]
fn dropped_packets_leave_their_room_to_others() {
    let mut bench =
        Bench::new(&two_by_two(json!({"loss_ppb": 500_000_000, "delay_ns": 2 * MS})), 64, 0);
    for number in 0..20_000 {
        bench.send(number * 100 * MICROSECOND, 0, packet(0, 0, 0, 0, 0));
    }
    bench.run(10 * SECOND);
    let tally = bench.relay.tally();
    assert_eq!(tally.overflow, 0);
    // Binomial(20000, 0.5): standard deviation 71; five of them.
    assert!((9_645..=10_355).contains(&tally.packets), "{tally:?}");
}

#[test]
fn more_packets_than_there_is_room_for_overflow_and_the_rest_arrive() {
    let mut bench = Bench::new(&two_by_two(json!({"delay_ns": 10 * MS})), 1, 0);
    for number in 0..10_000 {
        bench.send(0, 0, packet(0, 0, 0, 0, number as u8));
    }
    bench.send(SECOND, 0, packet(0, 0, 0, 0, 77));
    bench.run(2 * SECOND);
    let tally = bench.relay.tally();
    assert_eq!(tally.packets + tally.overflow, 10_001);
    assert!(tally.packets >= 500 && tally.overflow >= 5_000, "{tally:?}");
    assert_eq!(bench.ports.outbox.last().map(|(_, bytes)| fill(bytes)), Some(77));
}

#[test]
fn a_device_that_refuses_loses_the_packet_and_it_is_counted() {
    let mut bench = Bench::new(&two_by_two(json!({})), 100, 0);
    bench.ports.refuses = true;
    bench.send(0, 0, packet(0, 0, 0, 0, 0));
    bench.run(SECOND);
    assert_eq!(bench.relay.tally(), Tally { overflow: 1, ..Tally::default() });
}

#[test]
fn copies_arrive_whole_and_do_not_use_up_the_room() {
    let mut bench = Bench::new(&two_by_two(json!({"duplicate_ppb": 1_000_000_000})), 64, 0);
    for number in 0..5_000 {
        bench.send(number * MS, 0, packet(0, 0, 0, 0, number as u8));
    }
    bench.run(10 * SECOND);
    assert_eq!(bench.relay.tally().packets, 10_000);
    for (number, pair) in bench.ports.outbox.chunks(2).enumerate() {
        assert!(pair[0] == pair[1] && fill(&pair[0].1) == number as u8);
    }
}

#[test]
fn marks_are_left_on_ect_packets_only_and_on_one_copy_only() {
    // The first link duplicates, the second marks above 1.5 packets: the copy finds the original.
    let marking = json!({
        "rate_bps": SIZE * 8000, "queue_bytes": 100_000,
        "aqm": {"kind": "step", "mark_bytes": SIZE / 2},
    });
    let mut config = two_by_two(marking);
    let links = config["network"]["links"].as_array_mut().expect("links");
    links.push(json!({"name": "copier", "delay_ns": 0, "duplicate_ppb": 1_000_000_000}));
    config["network"]["paths"][0]["forward"] = json!([8, 0]);
    let mut bench = Bench::new(&config, 100, 0);
    bench.send(0, 0, packet(0, 0, 0, 0b10, 1));
    bench.send(SECOND, 0, packet(0, 0, 0, 0, 2));
    bench.run(2 * SECOND);
    let arrived: Vec<_> =
        bench.ports.outbox.iter().map(|(_, bytes)| (bytes[1], fill(bytes))).collect();
    assert_eq!(arrived, [(0b10, 1), (0b11, 1), (0, 2), (0, 2)]);
}

#[test]
fn background_traffic_does_not_wake_for_every_packet_and_takes_its_room() {
    let background = json!({"rate_bps": 6_000_000, "packet_bytes": 1500, "stop_ns": 2 * SECOND});
    let link = json!({"rate_bps": 12_000_000, "queue_bytes": 3_000_000, "udp": [background]});
    let mut bench = Bench::new(&two_by_two(link), 10_000, 0);
    // 12 + 6 Mbit/s into 12 Mbit/s: each gets two thirds of what it sends, so a second takes 1.5.
    for number in 0..1000 {
        bench.send(number * 12_000_000 / 12 * SIZE / 1500, 0, packet(0, 0, 0, 0, 0));
    }
    let mut looks = 0;
    while bench.relay.tally().packets < 1000 {
        looks += 1;
        bench.run(looks * MS);
        assert!(looks < 3_000);
    }
    let full = 1000 * SIZE * 8 * SECOND / 12_000_000;
    assert!((full * 3 / 2).abs_diff(looks * MS) < full / 50, "{looks} ms");
    let latest = bench.clock.now.get() + CATCH_UP;
    assert_eq!(bench.relay.next_at(bench.clock.now.get()), Some(latest));
}

proptest! {
    /// Whatever the model's effects and however slow the machine: per direction of a path, packets of a flow
    /// come out in the order of their due times, every loss is counted, and what comes out is what went in.
    #[test]
    fn order_and_content_are_kept(
        gaps in prop::collection::vec((0u64..2_000_000, 0u8..2, 0u8..2, 0u8..2), 1..300),
        cost in 0u64..20_000, jitter_ns in 0u64..3_000_000, loss_ppb in prop_oneof![Just(0u64), 1u64..300_000_000],
        rate_bps in 1_000_000u64..1_000_000_000,
    ) {
        let link = json!({
            "delay_ns": 5 * MS, "jitter_ns": jitter_ns, "loss_ppb": loss_ppb, "rate_bps": rate_bps,
            "queue_bytes": 20_000,
        });
        let mut bench = Bench::new(&two_by_two(link), 64, cost);
        let mut at = 0;
        let mut sent: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 4];
        for (number, &(gap, site, from, to)) in gaps.iter().enumerate() {
            at += gap;
            let bytes = packet(site, from, to, 0, number as u8);
            let device = usize::from(2 * site + from);
            sent[device].push(bytes.clone());
            bench.send(at, device, bytes);
        }
        bench.run(60 * SECOND);
        let lost: u64 = bench.relay.counters().map(|c| c.dropped + c.lost).sum();
        prop_assert_eq!(bench.relay.tally().packets + lost, gaps.len() as u64);
        prop_assert_eq!(bench.relay.tally().overflow, 0);
        // What came out for a pair of addresses is a subsequence of what went in.
        for (site, from, to) in (0..8u8).map(|n| (n >> 2, n >> 1 & 1, n & 1)) {
            let pair = |bytes: &&Vec<u8>| bytes[12..20] == packet(site, from, to, 0, 0)[12..20];
            let mut sent = sent[usize::from(2 * site + from)].iter().filter(pair);
            let end = usize::from(2 * (1 - site) + to);
            let arrived = bench.ports.outbox.iter().filter(|(device, _)| *device == end).map(|p| &p.1);
            for bytes in arrived.filter(pair) {
                prop_assert!(sent.any(|s| s == bytes));
            }
        }
        // Written after it was due, which is at least the delay after its arrival.
        prop_assert!(bench.written.first().is_none_or(|&at| at >= 5 * MS));
    }
}

#[test]
fn every_packet_is_recorded_once_with_its_fate() {
    let queue = json!({"delay_ns": 7 * MS, "rate_bps": SIZE * 8000, "queue_bytes": 3 * SIZE});
    let mut config = two_by_two(queue);
    config["recording"] = json!({"file": "unused", "packets": 12});
    let mut bench = Bench::new(&config, 100, 0);
    for number in 0..6 {
        bench.send(0, 0, packet(0, 0, 1, 0, number));
    }
    bench.relay.set_path_up(1, true);
    bench.run(100 * MS);
    bench.relay.set_path_up(1, false);
    for number in 0..7 {
        bench.send(100 * MS, 0, packet(0, 0, 1, 0, number));
    }
    bench.run(SECOND);
    assert_eq!(bench.relay.unrecorded(), 1);
    let mut done = Encoded::default();
    let pieces: Vec<_> = (0..4).map(|_| bench.relay.records(&mut done, 5)).collect();
    assert_eq!(pieces.iter().map(|piece| piece.len() / 88).collect::<Vec<_>>(), [5, 5, 2, 0]);
    let records = pieces.concat();
    // 3 fit the queue, 3 do not; then the path is down.
    let fates: Vec<_> = records.chunks(88).map(|record| record[85]).collect();
    assert_eq!(fates, [[1; 3], [2; 3], [4; 3], [4; 3]].concat());
    let left = |i: usize| u64::from_le_bytes(records[88 * i + 8..88 * i + 16].try_into().unwrap());
    assert_eq!([0, 1, 2].map(left), [8, 9, 10].map(|at| at * MS));
    let dropped = bench.relay.counters().map(|link| link.dropped).sum::<u64>();
    assert_eq!((bench.relay.tally().packets, dropped), (3, 3));
}
