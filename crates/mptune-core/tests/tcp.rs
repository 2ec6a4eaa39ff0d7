//! Plain TCP: one path, whole packets of payload, one socket's memory.

use crate::common::*;
use mptune_core::mptcp::Protocol;
use mptune_core::network::Family;
use mptune_core::trial::{ScriptAction, TrialSpec};
use mptune_core::units::SECOND;

/// 10 Mbit/s and 20 ms, with a queue of one bandwidth-delay product, and a second path that stays unused.
fn tcp(accounting: &str, buffer: u64) -> TrialSpec {
    let wide = queued(link(10.0, 10.0), 20.0, 1.0);
    TrialSpec {
        protocol: Protocol::Tcp,
        pm: "default".into(),
        scheduler: if accounting == "linux" { "kernel" } else { "minrtt" }.into(),
        accounting: accounting.into(),
        ..trial(disjoint(&[wide, link(50.0, 10.0)]), "reno", buffer, 20)
    }
}

#[test]
fn the_link_is_filled_with_whole_packets_of_payload() {
    for accounting in ["payload", "linux"] {
        let outcome = run(&tcp(accounting, 4 * MIB));
        let share = mbps(&outcome) / 10.0;
        assert!((share / PAYLOAD_SHARE - 1.0).abs() < 0.015, "{accounting}: {share}");
        let paths: Vec<_> = outcome.subflows.iter().map(|subflow| subflow.path).collect();
        assert_eq!(paths, [0]);
    }
}

#[test]
fn mptcp_on_one_path_is_slower_by_its_option_alone() {
    let plain = tcp("linux", 4 * MIB);
    let multipath = TrialSpec { protocol: Protocol::Mptcp, ..plain.clone() };
    let ratio = mbps(&run(&multipath)) / mbps(&run(&plain));
    assert!((ratio / (1424.0 / 1448.0) - 1.0).abs() < 0.005, "{ratio}");
}

#[test]
fn the_buffer_bounds_the_throughput_as_one_sockets_window() {
    // On Linux 64 KiB offer 80 kB (tests of the receive memory), here over 200 ms; and of the 70 segments
    // that fit the send buffer, the application refills a third at a time (`sk_stream_is_writeable`).
    let network = disjoint(&[link(100.0, 100.0)]);
    let outcome = run(&TrialSpec { network, ..tcp("linux", 64 << 10) });
    let rate = mbps_between(&outcome, 10 * SECOND, 20 * SECOND);
    let [least, most] = [70.0 * 2.0 / 3.0 * 1448.0, 80_106.0].map(|bytes| bytes * 8.0 / 0.2 / 1e6);
    assert!((least..most).contains(&rate), "{rate}, not {least} to {most}");
}

#[test]
fn growing_buffers_fill_the_link_and_keep_to_their_limit() {
    for accounting in ["payload", "linux"] {
        let rate = |buffer| {
            let network = disjoint(&[queued(link(100.0, 50.0), 100.0, 1.0)]);
            let grown =
                TrialSpec { buffer_mode: "auto".into(), network, ..tcp(accounting, buffer) };
            mbps_between(&run(&grown), 15 * SECOND, 20 * SECOND)
        };
        // The product of rate and delay is 1.25 MB, ten times the buffers of a new connection.
        let wide = rate(16 * MIB) / 100.0;
        assert!((wide / PAYLOAD_SHARE - 1.0).abs() < 0.01, "{accounting}: {wide}");
        let (narrow, most) = (rate(128 << 10), f64::from(128 << 10) * 8.0 / 0.1 / 1e6);
        assert!((most / 4.0..=most).contains(&narrow), "{accounting}: {narrow}, not up to {most}");
    }
}

#[test]
fn an_outage_repeats_nothing_but_tcps_own_segments() {
    let script = vec![at(5, 0, ScriptAction::Down), at(7, 0, ScriptAction::Up)];
    let outcome = run(&TrialSpec { script, ..tcp("linux", MIB) });
    assert!(outcome.subflows[0].timeouts > 0);
    assert_eq!((outcome.reinjected, outcome.beyond_window), (0, 0));
    assert_eq!(mbps_between(&outcome, 6 * SECOND, 7 * SECOND), 0.0);
    assert!(mbps_between(&outcome, 15 * SECOND, 20 * SECOND) > 0.95 * 10.0 * PAYLOAD_SHARE);
}

#[test]
fn random_losses_never_stall_a_small_buffer() {
    // A missing segment finds memory, whatever else holds it (Linux `tcp_prune_queue`).
    for seed in 0..20 {
        let network = disjoint(&[lossy(link(20.0, 20.0), 0.03)]);
        let outcome = run(&TrialSpec { network, seed, ..tcp("linux", 16 << 10) });
        assert_eq!(outcome.stalled_ns, None);
    }
}

#[test]
fn options_of_mptcp_are_refused() {
    let refused = |spec: TrialSpec| spec.run().expect_err("refused").to_string();
    let pm = refused(TrialSpec { pm: "fullmesh".into(), ..tcp("linux", MIB) });
    assert!(pm.contains("expected default with protocol tcp, found fullmesh"), "{pm}");
    for action in [ScriptAction::Standby, ScriptAction::Remove] {
        let script = vec![at(1, 0, action)];
        let why = refused(TrialSpec { script, ..tcp("linux", MIB) });
        assert!(why.contains("expected only down and up with protocol tcp"), "{why}");
    }
}

#[test]
fn ipv6_takes_twenty_bytes_of_every_packet() {
    for accounting in ["payload", "linux"] {
        let share = |family| mbps(&run(&TrialSpec { family, ..tcp(accounting, 4 * MIB) })) / 10.0;
        let ratio = share(Family::Ipv6) / share(Family::Ipv4);
        assert!((ratio / (1428.0 / 1448.0) - 1.0).abs() < 0.003, "{accounting}: {ratio}");
    }
}

#[test]
fn finer_bins_change_nothing_but_the_series() {
    let spec = tcp("linux", MIB);
    let [wide, fine] =
        [spec.bin_ns, spec.bin_ns / 10].map(|bin_ns| run(&TrialSpec { bin_ns, ..spec.clone() }));
    let sums: Vec<u64> = fine.bins.chunks(10).map(|bins| bins.iter().sum()).collect();
    assert_eq!((sums, fine.events), (wide.bins, wide.events));
}
