//! Linux' accounting of the buffers, compared with measurements of the kernel itself.
//!
//! Measured on Linux 6.18.44 between two network namespaces: paths of 100 Mbit/s with 20 ms and 50
//! Mbit/s with 60 ms of round trip emulated on TUN devices, queues of 250 and 375 kB, Cubic, the
//! kernel's scheduler, `SO_SNDBUF` and `SO_RCVBUF` set to the same value, 10 to 25 s.

use crate::common::*;
use mptune_core::mptcp::scheduler;
use mptune_core::network::{BackgroundSpec, NetworkSpec};
use mptune_core::trial::{Outcome, ScriptAction, ScriptSpec, TrialSpec};
use mptune_core::units::{MILLISECOND, SECOND};

const KIB: u64 = 1024;

/// The paths of the measurement. An emulator on a busy host adds jitter.
fn unlike_paths() -> NetworkSpec {
    let mut network = disjoint(&[link(100.0, 10.0), link(50.0, 30.0)]);
    (network.links[0].queue_bytes, network.links[2].queue_bytes) = (Some(250_000), Some(375_000));
    for link in &mut network.links {
        link.jitter_ns = MILLISECOND;
    }
    network
}

fn charged(buffer_bytes: u64, seed: u64) -> TrialSpec {
    TrialSpec {
        scheduler: "kernel".into(),
        accounting: "linux".into(),
        seed,
        ..trial(unlike_paths(), "cubic", buffer_bytes, 25)
    }
}

/// Throughput until the end, or until the stall.
fn mbps_while_running(outcome: &Outcome) -> f64 {
    let span = outcome.stalled_ns.unwrap_or(outcome.duration_ns);
    outcome.in_order_bytes as f64 * 8e3 / span as f64
}

#[test]
fn a_buffer_gives_the_throughput_that_it_gives_on_linux() {
    // KiB, and the smallest and largest of at least two runs of the kernel, Mbit/s.
    let measured = [
        (32, 7.7, 8.6),
        (64, 12.3, 18.5),
        (96, 17.9, 24.2),
        (128, 28.0, 32.4),
        (192, 31.3, 39.0),
        (256, 43.2, 50.0),
        (384, 59.1, 69.5),
        (512, 65.9, 97.0),
        (768, 121.0, 140.2),
        (1024, 123.1, 142.5),
        (2048, 127.1, 142.0),
    ];
    for (kib, lowest, highest) in measured {
        let outcomes = (0..5).map(|seed| charged(kib * KIB, seed).run().expect("valid"));
        let mean = outcomes.map(|outcome| mbps_while_running(&outcome)).sum::<f64>() / 5.0;
        let bounds = 0.85 * lowest..1.15 * highest;
        assert!(bounds.contains(&mean), "{kib} KiB: {mean:.1}, not {lowest} to {highest}");
    }
}

#[test]
fn full_packets_carry_as_much_as_on_linux() {
    // 24 of 1448 bytes are the DSS option: packets captured on Linux 6.18 carry 1424.
    let spec = TrialSpec {
        scheduler: "kernel".into(),
        accounting: "linux".into(),
        ..trial(disjoint(&[queued(link(10.0, 10.0), 20.0, 1.0)]), "reno", 4 * MIB, 20)
    };
    let share = mbps(&run(&spec)) / 10.0;
    assert!((share / (1424.0 / 1500.0) - 1.0).abs() < 0.015, "{share}");
}

/// True if one of so many trials with a buffer on unlike paths stalls.
fn one_stalls(kib: u64, trials: u64) -> bool {
    (0..trials).any(|seed| charged(kib * KIB, seed).run().expect("valid").stalled_ns.is_some())
}

#[test]
fn small_buffers_on_unlike_paths_stall_now_and_then() {
    // On Linux 3 of 11 runs of 25 s stalled with 64 KiB, 4 of 11 with 96, 2 of 11 with 128, 0 of 5 with 192.
    // In the simulator it is rarer: about 3 of 200.
    assert!(one_stalls(64, 100) || one_stalls(96, 100));
}

#[test]
fn large_buffers_on_unlike_paths_do_not_stall() {
    assert!(!one_stalls(512, 100));
    assert!(!one_stalls(1024, 20), "twice what suffices");
}

/// A trial that stalls, long enough before its end for timeouts to back off.
fn stalling() -> TrialSpec {
    let sizes = [96, 128, 64].into_iter().flat_map(|kib| (0..100).map(move |seed| (kib, seed)));
    let mut trials = sizes.map(|(kib, seed)| charged(kib * KIB, seed));
    let stalls =
        |spec: &TrialSpec| spec.run().expect("valid").stalled_ns.is_some_and(|at| at < 20 * SECOND);
    trials.find(stalls).expect("one of 300 stalls")
}

#[test]
fn a_stall_is_reported_with_its_time_and_its_reason() {
    let spec = stalling();
    let outcome = spec.run().expect("valid");
    let at = outcome.stalled_ns.expect("stalls");
    let reason = outcome.failed.expect("a reason");
    assert!(reason.starts_with(&format!("stalled at {:.3} s: all ", at as f64 / 1e9)), "{reason}");
    assert!(
        reason.contains("bytes of receive memory hold data after a missing segment"),
        "{reason}"
    );
    let silent = outcome.bins[(at / (100 * MILLISECOND)) as usize + 1..].iter().sum::<u64>();
    assert_eq!(silent, 0, "nothing is delivered any more");
    // The sender keeps retransmitting, into queues that are full in turn (Linux `TCPRcvQDrop`).
    assert!(outcome.reinjected > 0, "the connection retransmits what is not DATA_ACKed");
    assert!(outcome.subflows.iter().any(|subflow| subflow.refused > 0 && subflow.timeouts > 2));
    // With payload accounting, the same trial completes.
    run(&TrialSpec { accounting: "payload".into(), ..spec });
}

#[test]
fn a_transfer_that_stalls_ends_with_its_deadline_and_the_reason() {
    let outcome = transfer(stalling(), 1 << 30).run().expect("valid");
    assert_eq!(outcome.completion_ns, None);
    assert!(outcome.failed.is_some_and(|reason| reason.starts_with("stalled at ")));
    // Timeouts back off, so ten minutes of silence are cheap.
    assert!(outcome.events < 2_000_000, "{}", outcome.events);
}

#[test]
fn every_scheduler_delivers_every_byte_under_linux_accounting() {
    for name in scheduler::NAMES {
        let mut spec = transfer(charged(256 * KIB, 1), 3_000_001);
        spec.scheduler = (*name).into();
        let outcome = run(&spec);
        assert_eq!(outcome.in_order_bytes, 3_000_001, "{name}");
        assert_eq!(outcome.subflows.iter().map(|s| s.bytes).sum::<u64>(), 3_000_001, "{name}");
    }
}

#[test]
fn small_buffers_limit_a_connection_and_large_ones_do_not() {
    let limited = |kib: u64| {
        let outcome = charged(kib * KIB, 1).run().expect("valid");
        outcome.window_limited_ns as f64 / outcome.duration_ns as f64
    };
    assert!(limited(64) > 0.4, "{}", limited(64));
    let payload = TrialSpec { accounting: "payload".into(), ..charged(16 * MIB, 3) };
    let minrtt = TrialSpec { scheduler: "minrtt".into(), ..payload };
    let outcome = run(&minrtt);
    assert!(outcome.window_limited_ns < outcome.duration_ns / 100);
}

#[test]
fn under_linux_accounting_a_buffer_holds_less_payload_than_its_value() {
    // Linux `tcp_win_from_space`, `sk_stream_memory_free`: socket memory counts whole packets and their
    // headers, doubled at setsockopt. One path is limited by its window: less is in flight than with payload
    // accounting.
    let limited = |accounting: &str| {
        let mut spec = trial(disjoint(&[link(1000.0, 25.0)]), "reno", MIB / 4, 20);
        spec.scheduler = "kernel".into();
        spec.accounting = accounting.into();
        mbps(&run(&spec))
    };
    let (payload, linux) = (limited("payload"), limited("linux"));
    assert!((0.5..1.3).contains(&(linux / payload)), "{linux} against {payload}");
}

#[test]
fn unlike_paths_stall_under_linux_accounting_at_some_small_buffer_with_a_reason() {
    // Linux `__mptcp_move_skbs_from_subflow`: with the receive memory full of out-of-order data the missing
    // segment is not taken from its subflow, and nothing else can be sent.
    let network = || {
        let jittered = |mbps, delay_ms, rtt_ms| {
            let mut link = queued(link(mbps, delay_ms), rtt_ms, 1.0);
            link.jitter_ns = MILLISECOND / 2;
            link
        };
        disjoint(&[
            jittered(100.0, 5.0, 10.0),
            jittered(50.0, 20.0, 40.0),
            jittered(30.0, 25.0, 50.0),
            jittered(8.0, 50.0, 100.0),
            jittered(8.0, 30.0, 60.0),
            jittered(4.0, 40.0, 80.0),
        ])
    };
    let stalls = |accounting: &str| {
        let sizes = [16, 24, 32, 48, 64, 96].into_iter();
        let trials = sizes.flat_map(|kib| (1..=6).map(move |seed| (kib, seed)));
        let outcomes = trials.map(|(kib, seed)| {
            let mut spec = trial(network(), "cubic", kib * 1024, 30);
            spec.scheduler = "kernel".into();
            spec.accounting = accounting.into();
            spec.seed = seed;
            spec.run().expect("a valid trial")
        });
        let stalled: Vec<_> = outcomes.filter(|outcome| outcome.stalled_ns.is_some()).collect();
        assert!(stalled.iter().all(|outcome| {
            outcome.failed.as_ref().is_some_and(|reason| reason.starts_with("stalled at "))
        }));
        stalled.len()
    };
    assert_eq!(stalls("payload"), 0);
    assert!(stalls("linux") > 0);
}

#[test]
fn a_hole_on_one_subflow_makes_the_sender_overrun_the_window() {
    // Linux `ack_update_msk` with `tcp_may_update_window`: duplicate acknowledgements of a subflow with a
    // hole bring new DATA_ACKs and cannot narrow its window. What arrives beyond the window is dropped
    // (`mptcp_data_queue_ofo`, MPTcpExtNoDSSInWindow) and retransmitted 32 KiB at a time when a timer expires
    // (`__mptcp_retrans`). Traced on Linux 6.18: hundreds of segments in the first seconds.
    let overrun = |losses: [f64; 2]| {
        // The queues hold everything that is sent: only random losses leave holes.
        let mut links = [(100.0, 5.0, 10.0), (8.0, 50.0, 100.0)]
            .map(|(mbps, delay_ms, rtt_ms)| queued(link(mbps, delay_ms), rtt_ms, 40.0));
        for (link, loss) in links.iter_mut().zip(losses) {
            *link = lossy(link.clone(), loss);
        }
        let counts = (1..=10).map(|seed| {
            let mut spec = transfer(trial(disjoint(&links), "cubic", MIB, 1), 20_000_000);
            spec.scheduler = "kernel".into();
            spec.accounting = "linux".into();
            spec.seed = seed;
            run(&spec).beyond_window
        });
        counts.sum::<u64>()
    };
    assert_eq!(overrun([0.0, 0.0]), 0);
    assert!(overrun([0.0, 0.05]) > 0);
}

/// A trial whose buffers grow up to a limit.
fn growing(accounting: &str, limit: u64, seed: u64) -> TrialSpec {
    TrialSpec {
        accounting: accounting.into(),
        buffer_mode: "auto".into(),
        workload: saturated(10 * SECOND),
        ..charged(limit, seed)
    }
}

#[test]
fn a_buffer_that_grows_gives_more_the_higher_its_limit_is() {
    for accounting in ["linux", "payload"] {
        let mean = |limit: u64| {
            (0..4).map(|seed| mbps(&run(&growing(accounting, limit, seed)))).sum::<f64>() / 4.0
        };
        let (small, large) = (mean(128 * KIB), mean(8 * MIB));
        assert!(large > 2.0 * small, "{accounting}: {small:.1} and {large:.1}");
        assert!(large > 100.0, "{accounting}: {large:.1} of 150");
    }
}

#[test]
fn the_smaller_of_two_limits_decides() {
    for accounting in ["linux", "payload"] {
        let both = |send: u64, receive: u64| {
            let spec =
                TrialSpec { receive_buffer_bytes: Some(receive), ..growing(accounting, send, 1) };
            mbps(&run(&spec))
        };
        let (large, small) = (both(8 * MIB, 8 * MIB), both(128 * KIB, 128 * KIB));
        for found in [both(128 * KIB, 8 * MIB), both(8 * MIB, 128 * KIB)] {
            assert!(
                small <= found && found < large / 2.0,
                "{accounting}: {found:.1} of {large:.1}"
            );
        }
    }
}

#[test]
fn a_limit_that_is_never_reached_has_no_effect() {
    for accounting in ["linux", "payload"] {
        let network = disjoint(&[queued(link(10.0, 10.0), 20.0, 1.0)]);
        let bytes = |limit: u64| {
            let spec = TrialSpec { network: network.clone(), ..growing(accounting, limit, 1) };
            run(&spec).in_order_bytes
        };
        // The window's scale follows from the limit under Linux accounting: up to 4 MiB it is the same.
        assert_eq!(bytes(2 * MIB), bytes(4 * MIB), "{accounting}");
    }
}

#[test]
fn a_transfer_completes_while_its_buffers_grow() {
    for accounting in ["linux", "payload"] {
        for bytes in [1, 10_000, 3_000_000] {
            let spec = transfer(growing(accounting, 4 * MIB, 5), bytes);
            assert_eq!(run(&spec).in_order_bytes, bytes, "{accounting}");
        }
    }
}

#[test]
fn a_standby_subflow_sends_its_queue() {
    // Linux: MP_PRIO applies to new data; the subflow's socket sends its queue. The kernel's
    // scheduler gives the slow subflow some tenths of a second of data ahead.
    let network =
        disjoint(&[queued(link(20.0, 10.0), 20.0, 1.0), queued(link(2.0, 10.0), 20.0, 4.0)]);
    let mut spec = trial(network, "cubic", MIB, 10);
    (spec.accounting, spec.scheduler) = ("linux".into(), "kernel".into());
    let at_ns = 5 * SECOND;
    spec.script = vec![ScriptSpec { at_ns, path: 1, action: ScriptAction::Standby }];
    let outcome = spec.run().expect("a valid trial");
    let slow = &outcome.subflows[1];
    let per_bin = 10 * SECOND / slow.bins.len() as u64;
    let after: u64 = slow.bins[(at_ns / per_bin) as usize..].iter().sum();
    // The path holds 5 kB, its queue 20 kB.
    assert!(after > 2 * 25_000, "{after}");
    let reinjected: u64 = outcome.subflows.iter().map(|subflow| subflow.reinjected).sum();
    assert_eq!(reinjected, 0);
}

#[test]
fn bbr_has_send_buffers_of_three_windows() {
    // tcp_sndbuf_expand, bbr_sndbuf_expand: others have two.
    use mptune_core::congestion::Controller;
    let windows = |cc: &str| Controller::new(cc).expect("a known name").buffered_windows();
    assert_eq!(["cubic", "bbr"].map(windows), [2, 3]);
}

#[test]
fn the_queue_of_a_failing_path_is_sent_on_another() {
    // Without the memory of Linux there is no timer of the connection that would repeat it.
    for (accounting, tenths) in [("payload", 5), ("payload", 10), ("payload", 20), ("linux", 10)] {
        let network =
            disjoint(&[queued(link(7.0, 80.0), 160.0, 1.0), queued(link(1.0, 80.0), 160.0, 1.0)]);
        let mut spec = transfer(trial(network, "reno", MIB, 1), 4 * MIB);
        (spec.accounting, spec.scheduler) = (accounting.into(), "kernel".into());
        let at_ns = tenths * SECOND / 10;
        spec.script = vec![ScriptSpec { at_ns, path: 1, action: ScriptAction::Down }];
        let outcome = spec.run().expect("a valid trial");
        assert!(outcome.failed.is_none(), "{accounting}, {tenths}: {:?}", outcome.failed);
    }
}

#[test]
fn a_segment_repeated_on_the_same_subflow_keeps_its_length() {
    // The last segment is short; its subflow acknowledges it, another one has a gap before it. The connection
    // repeats it on the same subflow, where it waits while the window opens for more.
    let mut network = sites(&[14.537_916], 2, 59.562_114, 0.031_082_558, 10, 5_487_795);
    let other = BackgroundSpec {
        path: 0,
        cc: "scalable".into(),
        start_ns: 4 * SECOND,
        stop_ns: Some(8 * SECOND),
    };
    network.background.push(other);
    let spec = TrialSpec {
        scheduler: "kernel".into(),
        accounting: "linux".into(),
        seed: 16_843_968_353_436_689_257,
        ..transfer(trial(network, "dctcp", 7 * KIB, 1), 564_061)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.in_order_bytes, 564_061);
}

#[test]
fn the_connections_retransmissions_leave_with_any_scheduler() {
    // Found at random. The repeated segments did not all fit the window of their subflow, and schedulers without
    // send queues never sent the rest, for which everything else waited.
    let network = sites(&[0.2, 0.2, 29.866_28], 2, 0.1, 0.0, 6, 0);
    for scheduler in scheduler::NAMES {
        let mut spec = charged(28 * 1448, 0);
        (spec.network, spec.cc, spec.scheduler) =
            (network.clone(), "reno".into(), (*scheduler).into());
        let outcome = run(&transfer(spec, 233_369));
        assert_eq!(outcome.in_order_bytes, 233_369, "{scheduler}");
    }
}
