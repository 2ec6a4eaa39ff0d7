//! Properties of any network: every packet is accounted for, time never runs backwards, packets stay in order unless
//! reordering is requested, the same seed gives the same arrivals; invalid specifications are refused.

use super::*;

fn ppb() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => 1u64..300_000_000]
}

prop_compose! {
    fn schedule()(
        steps in prop::collection::btree_map(
            0u64..2_000_000_000,
            (prop::option::of(prop_oneof![1 => Just(0u64), 3 => 100_000u64..50_000_000]), 0u64..50_000_000,
             prop::option::of(0u64..=1_000_000_000)),
            1..5,
        ),
        repeats in prop::option::of(1u64..1_000_000_000),
    ) -> ScheduleSpec {
        let period_ns = repeats.map(|extra| steps.keys().last().unwrap() + extra);
        let steps = steps.into_iter().map(|(at_ns, (rate_bps, delay, loss_ppb))|
            StepSpec { at_ns, rate_bps, delay_ns: Some(delay), loss_ppb });
        ScheduleSpec { steps: steps.collect(), period_ns }
    }
}

prop_compose! {
    fn udp()(
        rate_bps in 10_000u64..5_000_000,
        packet_bytes in 28u32..=1500,
        on_off in prop::option::of((1u64..100, 0u64..500_000_000, any::<bool>())),
        start_ns in 0u64..1_000_000_000,
        length in prop::option::of(1u64..2_000_000_000),
    ) -> UdpSpec {
        let packet_ns = u64::from(packet_bytes) * 8_000_000_000 / rate_bps + 1;
        let on_off = on_off.map(|(packets, off_ns, drawn)| OnOffSpec {
            on_ns: packets * packet_ns,
            off_ns,
            lengths: if drawn { Lengths::Exponential } else { Lengths::Fixed },
        });
        UdpSpec { rate_bps, packet_bytes, on_off, start_ns, stop_ns: length.map(|l| start_ns + l) }
    }
}

fn aqm() -> impl Strategy<Value = Option<AqmSpec>> {
    let codel = (100_000u64..50_000_000, 1u64..200_000_000, any::<bool>());
    prop_oneof![
        3 => Just(None),
        1 => (1u64..20_000, 1u64..20_000, 1u64..=1_000_000_000, 1u64..=1_000_000_000, any::<bool>(), any::<bool>())
            .prop_map(|(min_bytes, more, max_ppb, weight_ppb, gentle, ecn)| {
                let max_bytes = min_bytes + more;
                Some(AqmSpec::Red(RedSpec { min_bytes, max_bytes, max_ppb, weight_ppb, gentle, ecn }))
            }),
        1 => (0u64..20_000).prop_map(|mark_bytes| Some(AqmSpec::Step(StepMarkingSpec { mark_bytes }))),
        1 => codel.clone().prop_map(|(target_ns, more, ecn)| {
            Some(AqmSpec::Codel(CodelSpec { target_ns, interval_ns: target_ns + more, ecn }))
        }),
        1 => (codel, 1u32..2000, 256u32..4000).prop_map(|((target_ns, more, ecn), queues, quantum_bytes)| {
            let interval_ns = target_ns + more;
            Some(AqmSpec::FqCodel(FqCodelSpec { target_ns, interval_ns, ecn, queues, quantum_bytes }))
        }),
    ]
}

prop_compose! {
    fn queueing()(
        rate in 100_000u64..50_000_000,
        trace in prop::option::of(prop::collection::vec(0u32..300, 1..20)),
        schedule in prop::option::of(schedule()),
        bucket in prop::option::of((100_000u64..20_000_000, 1_500u64..50_000)),
        aqm in aqm(),
        queue_bytes in 40_000u64..200_000,
        udp in prop::collection::vec(udp(), 0..2),
    ) -> LinkSpec {
        let trace_ms = trace.map(|mut times| {
            times.sort_unstable();
            let last = times.len() - 1;
            times[last] += 1;
            times
        });
        let rate_bps = trace_ms.is_none().then_some(rate);
        let schedule = schedule.map(|mut schedule| {
            if rate_bps.is_none() {
                schedule.steps.iter_mut().for_each(|step| step.rate_bps = None);
            }
            schedule
        });
        let bucket = bucket.map(|(rate_bps, burst_bytes)| BucketSpec { rate_bps, burst_bytes });
        let queue_bytes = Some(queue_bytes);
        LinkSpec { rate_bps, trace_ms, schedule, bucket, aqm, queue_bytes, udp, ..LinkSpec::default() }
    }
}

prop_compose! {
    fn any_link(reordering: bool)(
        plain in any::<bool>(),
        queueing in queueing(),
        delay_ns in 0u64..50_000_000,
        jitter_ns in prop_oneof![Just(0u64), 1u64..5_000_000],
        loss_ppb in ppb(),
        duplicate_ppb in ppb(),
        bursts in prop::option::of((0u64..=1_000_000_000, 1u64..=1_000_000_000, ppb(), 0u64..=1_000_000_000)),
        late in prop::option::of((ppb(), 1u64..50_000_000)),
    ) -> LinkSpec {
        let base = LinkSpec { delay_ns, jitter_ns, loss_ppb, ..queueing };
        if plain {
            let LinkSpec { rate_bps, queue_bytes, .. } = base;
            return LinkSpec { rate_bps, queue_bytes, delay_ns, jitter_ns, loss_ppb, ..LinkSpec::default() };
        }
        let gilbert_elliott = bursts.map(|(enter_ppb, leave_ppb, good_loss_ppb, bad_loss_ppb)|
            GilbertElliottSpec { enter_ppb, leave_ppb, good_loss_ppb, bad_loss_ppb });
        let reorder = late.filter(|_| reordering)
            .map(|(probability_ppb, delay_ns)| ReorderSpec { probability_ppb, delay_ns });
        LinkSpec { gilbert_elliott, reorder, duplicate_ppb, ..base }
    }
}

/// Two paths that share their middle links, one of which packets enter from two places; some routes
/// cross a link twice.
fn any_network(reordering: bool) -> impl Strategy<Value = NetworkSpec> {
    prop::collection::vec(any_link(reordering), 5).prop_map(|links| {
        let ways = [path(&[0, 1, 2], &[3]), path(&[4, 1, 2], &[3, 4, 3])];
        network(links, ways.to_vec())
    })
}

type Packets = Vec<(u64, usize, u32, u32, bool)>;

fn packets() -> impl Strategy<Value = Packets> {
    let packet = (0u64..3_000_000, 0usize..4, 40u32..=1500, 0u32..4, any::<bool>());
    prop::collection::vec(packet, 1..400)
}

/// Sends everything and runs until all events within a minute are handled.
fn carry(spec: &NetworkSpec, seed: u64, packets: &Packets) -> Bench {
    let mut bench = Bench::new(spec, seed);
    let mut at = 0;
    for &(gap, route, size, flow, ect) in packets {
        at += gap;
        bench.send(at, route, size, flow, ect);
    }
    bench.run(60 * SECOND);
    bench
}

/// Makes background traffic end, so that everything that can leave the network does.
fn ending(mut spec: NetworkSpec) -> NetworkSpec {
    for udp in spec.links.iter_mut().flat_map(|link| &mut link.udp) {
        udp.stop_ns = udp.stop_ns.or(Some(udp.start_ns + SECOND));
    }
    spec
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_accounted_for(spec in any_network(true), packets in packets(), seed: u64) {
        let mut bench = carry(&ending(spec), seed, &packets);
        // Slow schedules may take longer than a minute; packets that wait forever have no event.
        bench.run(NEVER);
        let mut entered = u64::from(bench.sent);
        let mut left = bench.arrivals.len() as u64;
        for (counters, queued) in bench.network.counters().zip(bench.network.queued()) {
            entered += counters.duplicated + counters.background;
            left += counters.dropped + counters.lost + counters.stuck + queued as u64;
        }
        // Background packets that got through left the network behind their link: what is missing.
        let background: u64 = bench.network.counters().map(|c| c.background).sum();
        prop_assert!(left <= entered && entered <= left + background, "{entered} {left} {background}");
        if background == 0 {
            prop_assert_eq!(entered, left);
        }
        for number in bench.arrivals.iter().map(|a| a.2.number) {
            prop_assert!(number < bench.sent);
        }
    }

    #[test]
    fn order_is_kept_unless_reordering_is_asked_for(
        spec in any_network(false), packets in packets(), seed: u64,
    ) {
        let bench = carry(&spec, seed, &packets);
        for route in 0..4 {
            for flow in 0..4 {
                // Queues that keep flows apart keep the order of each.
                let arrivals = bench.arrivals.iter().filter(|a| a.1 == route && a.2.flow == flow);
                let numbers: Vec<_> = arrivals.map(|a| a.2.number).collect();
                prop_assert!(numbers.windows(2).all(|pair| pair[0] <= pair[1]), "{numbers:?}");
            }
        }
    }

    #[test]
    fn no_packet_is_faster_than_its_delay_and_only_ect_packets_are_marked(
        spec in any_network(true), packets in packets(), seed: u64,
    ) {
        let bench = carry(&spec, seed, &packets);
        let mut at = 0;
        let sent: Vec<_> = packets.iter().map(|p| { at += p.0; at }).collect();
        for &(arrival, route, probe) in &bench.arrivals {
            let way = &spec.paths[route / 2];
            let way = if route % 2 == 0 { &way.forward } else { &way.reverse };
            let least = |&link: &usize| {
                let link = &spec.links[link];
                let scheduled = link.schedule.iter().flat_map(|s| &s.steps).filter_map(|s| s.delay_ns);
                scheduled.chain([link.delay_ns]).min().unwrap_or(0)
            };
            let least: Nanos = way.iter().map(least).sum();
            prop_assert!(arrival >= sent[probe.number as usize] + least);
            prop_assert!(probe.ect || !probe.marked);
        }
    }

    #[test]
    fn the_visited_packets_are_those_that_can_still_arrive(
        spec in any_network(true), packets in packets(), seed: u64, later in 0u64..100_000_000,
    ) {
        let mut bench = Bench::new(&ending(spec), seed);
        let mut at = 0;
        for &(gap, route, size, flow, ect) in &packets {
            at += gap;
            bench.send(at, route, size, flow, ect);
        }
        bench.run(at + later);
        let removed = |bench: &Bench| -> u64 {
            let counters = bench.network.counters();
            counters.map(|c| c.dropped + c.lost + c.stuck).sum::<u64>() + bench.arrivals.len() as u64
        };
        let copies = |bench: &Bench| bench.network.counters().map(|c| c.duplicated).sum::<u64>();
        let before = (removed(&bench), copies(&bench), bench.arrivals.len());
        let mut visited = Vec::new();
        bench.network.for_each_payload(|probe| visited.push(probe.number));
        bench.run(NEVER);
        let queued: usize = bench.network.queued().sum();
        for (_, _, probe) in &bench.arrivals[before.2..] {
            prop_assert!(visited.contains(&probe.number), "{probe:?}");
        }
        if bench.network.counters().all(|c| c.background == 0) {
            let left = removed(&bench) - before.0 + queued as u64;
            prop_assert_eq!(visited.len() as u64 + copies(&bench) - before.1, left);
        }
    }

    #[test]
    fn nothing_arrives_before_it_is_announced_and_copies_know_that_they_are(
        spec in any_network(true), packets in packets(), seed: u64,
    ) {
        let mut bench = Bench::new(&ending(spec), seed);
        let mut at = 0;
        for &(gap, route, size, flow, ect) in &packets {
            at += gap;
            bench.send(at, route, size, flow, ect);
            let next = bench.network.next_at(&bench.queue);
            let before = bench.arrivals.len();
            bench.run(next.min(at + 5_000_000) - 1);
            prop_assert_eq!(before, bench.arrivals.len());
            at = at.max(bench.now);
        }
        bench.run(60 * SECOND);
        let mut seen = vec![0; bench.sent as usize];
        bench.arrivals.iter().for_each(|arrival| seen[arrival.2.number as usize] += 1);
        for (_, _, probe) in &bench.arrivals {
            prop_assert!(probe.copied || seen[probe.number as usize] == 1);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals(
        spec in any_network(true), packets in packets(), seed: u64,
    ) {
        let arrivals = |bench: Bench| -> Vec<_> {
            bench.arrivals.iter().map(|a| (a.0, a.1, a.2.number, a.2.marked)).collect()
        };
        prop_assert_eq!(arrivals(carry(&spec, seed, &packets)), arrivals(carry(&spec, seed, &packets)));
    }

    #[test]
    fn what_happens_does_not_depend_on_how_far_ahead_it_is_known(
        spec in any_network(true), packets in packets(), seed: u64, later in 0u64..100_000_000,
    ) {
        let spec = ending(spec);
        let send = |ahead: Nanos| {
            let mut bench = Bench::new(&spec, seed);
            bench.ahead = ahead;
            let mut at = 0;
            for &(gap, route, size, flow, ect) in &packets {
                at += gap;
                bench.send(at, route, size, flow, ect);
            }
            (bench, at + later)
        };
        let outcome = |bench: &Bench| {
            let arrivals: Vec<_> = bench.arrivals.iter().map(|a| (a.0, a.1, a.2.number)).collect();
            (arrivals, bench.network.counters().collect::<Vec<_>>())
        };
        // Until a time: event by event, and as far ahead as possible.
        let ((mut stepwise, until), (mut at_once, _)) = (send(0), send(0));
        while let Some((at, _)) = stepwise.queue.earliest().filter(|event| event.0 <= until) {
            stepwise.run(at);
        }
        at_once.run(until);
        prop_assert_eq!(outcome(&stepwise), outcome(&at_once));
        // To the end: also while more is sent.
        let (mut ahead, _) = send(NEVER);
        for bench in [&mut stepwise, &mut ahead] {
            bench.run(NEVER);
        }
        prop_assert_eq!(outcome(&stepwise), outcome(&ahead));
    }

    /// Any specification is either refused or runs.
    #[test]
    fn any_numbers_are_refused_or_run(
        rate in prop::option::of(any::<u64>()), queue in prop::option::of(any::<u64>()),
        delay in 0u64..200_000_000_000, loss: u64,
        step in (any::<u64>(), prop::option::of(any::<u64>()), prop::option::of(any::<u64>())),
        period in prop::option::of(any::<u64>()), trace in prop::option::of(prop::collection::vec(any::<u32>(), 0..3)),
        bucket in prop::option::of((any::<u64>(), any::<u64>())),
        udp in prop::option::of((any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>())),
        quarter in 0usize..4,
    ) {
        let (at_ns, rate_bps, loss_ppb) = step;
        let step = StepSpec { at_ns, rate_bps, loss_ppb, delay_ns: None };
        let mut link = LinkSpec { rate_bps: rate, queue_bytes: queue, delay_ns: delay, ..LinkSpec::default() };
        // A quarter at a time: all at once would nearly always be refused.
        match quarter {
            0 => link.schedule = Some(ScheduleSpec { steps: vec![step], period_ns: period }),
            1 => link.trace_ms = trace,
            2 => link.bucket = bucket.map(|(rate_bps, burst_bytes)| BucketSpec { rate_bps, burst_bytes }),
            _ => link.loss_ppb = loss,
        }
        if let Some((rate_bps, packet_bytes, on_ns, off_ns)) = udp {
            let on_off = Some(OnOffSpec { on_ns, off_ns, lengths: Lengths::Exponential });
            link.udp = vec![UdpSpec { rate_bps, packet_bytes, on_off, start_ns: 0, stop_ns: None }];
        }
        let spec = NetworkSpec { links: vec![link], paths: vec![path(&[0], &[0])], ..NetworkSpec::default() };
        if spec.validate().is_ok() {
            let mut bench = Bench::new(&spec, 1);
            for at in 0..20 {
                bench.send(at * 100, 0, 1500, 0, true);
            }
        }
    }
}

#[test]
fn invalid_values_are_refused_with_their_key() {
    let rated = || link(12_000_000, 1, Some(30_000));
    let refused = |link: LinkSpec| {
        let paths = vec![path(&[0], &[0])];
        let spec = NetworkSpec { links: vec![link], paths, ..NetworkSpec::default() };
        spec.validate().expect_err("impossible").key
    };
    let step = AqmSpec::Step(StepMarkingSpec { mark_bytes: 3_000 });
    let trace_ms = Some(vec![1]);
    assert_eq!(refused(LinkSpec { trace_ms: trace_ms.clone(), ..rated() }), "links[0].trace_ms");
    assert_eq!(
        refused(LinkSpec { trace_ms: Some(vec![]), ..LinkSpec::default() }),
        "links[0].trace_ms"
    );
    assert_eq!(
        refused(LinkSpec { aqm: Some(step.clone()), ..LinkSpec::default() }),
        "links[0].aqm"
    );
    let small = LinkSpec { aqm: Some(step), queue_bytes: Some(3_000), ..rated() };
    assert_eq!(refused(small), "links[0].aqm.mark_bytes");
    let udp =
        vec![UdpSpec { rate_bps: 99, packet_bytes: 100, on_off: None, start_ns: 0, stop_ns: None }];
    assert_eq!(refused(LinkSpec { udp: udp.clone(), ..rated() }), "links[0].udp[0].rate_bps");
    assert_eq!(refused(LinkSpec { udp, queue_bytes: None, ..rated() }), "links[0].udp");
    let bucket = Some(BucketSpec { rate_bps: 1_000, burst_bytes: 1_499 });
    assert_eq!(refused(LinkSpec { bucket, ..rated() }), "links[0].bucket.burst_bytes");
    let reorder = Some(ReorderSpec { probability_ppb: 1, delay_ns: 0 });
    assert_eq!(refused(LinkSpec { reorder, ..rated() }), "links[0].reorder.delay_ns");
    let duplicate_ppb = 1_000_000_001;
    assert_eq!(refused(LinkSpec { duplicate_ppb, ..rated() }), "links[0].duplicate_ppb");
    let codel = CodelSpec { target_ns: 5, interval_ns: 5, ecn: true };
    let aqm = Some(AqmSpec::Codel(codel));
    assert_eq!(refused(LinkSpec { aqm, ..rated() }), "links[0].aqm.interval_ns");
}

#[test]
fn background_connections_and_routes_are_checked() {
    let flow = |path, stop_ns| BackgroundSpec { path, cc: "reno".into(), start_ns: 5, stop_ns };
    let spec = |background, way: Vec<usize>| NetworkSpec {
        links: vec![link(12_000_000, 1, None)],
        paths: vec![path(&way, &[0])],
        background,
        ..NetworkSpec::default()
    };
    let refused = |spec: NetworkSpec| spec.validate().expect_err("impossible").key;
    assert_eq!(refused(spec(vec![flow(0, None), flow(1, None)], vec![0])), "background[1].path");
    assert_eq!(refused(spec(vec![flow(0, Some(5))], vec![0])), "background[0].stop_ns");
    assert_eq!(refused(spec(vec![], vec![0; 17])), "paths[0].forward");
    assert_eq!(spec(vec![flow(0, Some(6))], vec![0]).validate(), Ok(()));
    let many = NetworkSpec { paths: vec![path(&[0; 16], &[0; 16]); 64], ..spec(vec![], vec![0]) };
    assert_eq!(refused(many), "links");
}

#[test]
fn json_is_read_and_unknown_keys_are_refused() {
    let read = |text: &str| serde_json::from_str::<LinkSpec>(text);
    let text = r#"{"name": "a", "rate_bps": 1000000, "delay_ns": 0, "queue_bytes": 30000,
        "schedule": {"steps": [{"at_ns": 5, "rate_bps": 0}], "period_ns": 10},
        "bucket": {"rate_bps": 1000000, "burst_bytes": 15000},
        "aqm": {"kind": "fq_codel", "target_ns": 5, "interval_ns": 100, "ecn": true, "queues": 1024, "quantum_bytes": 1514},
        "gilbert_elliott": {"enter_ppb": 1, "leave_ppb": 2, "bad_loss_ppb": 3},
        "reorder": {"probability_ppb": 1, "delay_ns": 2}, "duplicate_ppb": 4,
        "udp": [{"rate_bps": 1000000, "on_off": {"on_ns": 20000000, "off_ns": 1, "lengths": "exponential"}}]}"#;
    let link = read(text).expect("complete");
    let spec =
        NetworkSpec { links: vec![link], paths: vec![path(&[0], &[0])], ..NetworkSpec::default() };
    assert_eq!(spec.validate(), Ok(()));
    for wrong in [
        text.replace("\"queues\"", "\"quues\""),
        text.replace("fq_codel", "pie"),
        text.replace("\"enter_ppb\"", "\"entry_ppb\""),
        text.replace("\"duplicate_ppb\"", "\"double_ppb\""),
    ] {
        assert!(read(&wrong).is_err(), "{wrong}");
    }
}
