//! Properties on any network: conservation, no deadlock, no more than the links allow.

use crate::common::drawn::*;
use crate::common::*;
use mptune_core::congestion;
use mptune_core::early_end::{EarlyEnd, Ended};
use mptune_core::mptcp::scheduler;
use mptune_core::network::{BackgroundSpec, Family, NetworkSpec};
use mptune_core::pathmanager;
use mptune_core::trial::{Outcome, ScriptAction, ScriptSpec};
use mptune_core::units::SECOND;
use mptune_core::workload::{Bulk, Workload};
use proptest::prelude::*;

/// Everything delivered, and no more.
fn complete(outcome: &Outcome, bytes: u64) -> bool {
    let sum = |bins: &[u64]| bins.iter().sum::<u64>();
    outcome.failed.is_none()
        && outcome.in_order_bytes == bytes
        && sum(&outcome.bins) == bytes
        && outcome.subflows.iter().map(|s| s.bytes).sum::<u64>() == bytes
}

proptest! {
    #![proptest_config(config())]

    /// Every byte is delivered once, with any buffer of at least one segment, and no path carries
    /// more than its links allow.
    #[test]
    fn a_transfer_completes_with_every_byte(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        pm in any_of(pathmanager::NAMES),
        scheduler in any_of(scheduler::NAMES),
        opportunistic in any::<bool>(),
        segments in prop_oneof![1u64..8, 1u64..2000],
        bytes in 1u64..400_000,
        seed in any::<u64>(),
    ) {
        let capacity: f64 = network.links.iter().filter_map(|l| l.rate_bps).map(|r| r as f64).sum();
        let mut spec = transfer(trial(network, cc, segments * u64::from(MSS), 1), bytes);
        spec.pm = pm.into();
        spec.scheduler = scheduler.into();
        spec.members.opportunistic = opportunistic;
        spec.seed = seed;
        within(&mut spec, 3600);
        let outcome = spec.run().expect("a valid trial");
        prop_assert_eq!(outcome.failed, None);
        prop_assert_eq!(outcome.in_order_bytes, bytes);
        prop_assert_eq!(outcome.bins.iter().sum::<u64>(), bytes);
        prop_assert_eq!(outcome.subflows.iter().map(|s| s.bytes).sum::<u64>(), bytes);
        let seconds = outcome.duration_ns as f64 / 1e9;
        prop_assert!(bytes as f64 * 8.0 <= capacity * seconds);
    }

    /// The in-order throughput of a saturated connection never exceeds the sender's access links,
    /// and the same seed gives the same bytes.
    #[test]
    fn a_saturated_connection_stays_below_the_access_links(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        segments in 1u64..2000,
        seed in any::<u64>(),
    ) {
        let uplinks: std::collections::BTreeSet<usize> = network.paths.iter().map(|p| p.forward[0]).collect();
        let capacity: f64 = uplinks.iter().filter_map(|&l| network.links[l].rate_bps).map(|r| r as f64).sum();
        let mut spec = trial(network, cc, segments * u64::from(MSS), 5);
        spec.seed = seed;
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(mbps(&outcome) * 1e6 <= capacity * PAYLOAD_SHARE * 1.0001);
        prop_assert_eq!(outcome, spec.run().expect("a valid trial"));
    }

    /// Looks do not change the trial: one that ends early is the beginning of the whole trial,
    /// and ends where the rule ends its series.
    #[test]
    fn a_trial_that_ends_early_is_the_beginning_of_the_whole_trial(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        segments in 1u64..2000,
        seed in any::<u64>(),
    ) {
        let mut spec = trial(network, cc, segments * u64::from(MSS), 8);
        spec.seed = seed;
        let whole = spec.run().expect("a valid trial");
        spec.workload = Workload::Bulk(Bulk { duration_ns: 8 * SECOND, ends_early: true });
        let mut early = spec.run().expect("a valid trial");
        // Steps of the simulator: packets before a junction enter it in one step or, at a look, in two.
        early.events = whole.events;
        let Some(expected) = early.expected_bytes else {
            prop_assert_eq!(early, whole);
            return Ok(());
        };
        let (at, used) = (early.duration_ns, early.bins.len());
        let ended = EarlyEnd::replay(&whole.bins, 8 * SECOND, spec.bin_ns);
        prop_assert_eq!(Some(Ended { at, expected }), ended);
        // Bytes that arrive exactly at its end are in its last bin.
        prop_assert_eq!(&early.bins[..used - 1], &whole.bins[..used - 1]);
        prop_assert_eq!(early.in_order_bytes, early.bins.iter().sum::<u64>());
    }

    /// Paths that go away and come back cost time, never a byte; one path stays up.
    #[test]
    fn outages_cost_no_byte(
        network in any_network(),
        pm in any_of(&["fullmesh", "pcdc"]),
        scheduler in any_of(scheduler::NAMES),
        outages in prop::collection::vec((1usize..6, 0u64..20, 1u64..20), 0..6),
        seed in any::<u64>(),
    ) {
        let paths = network.paths.len();
        let mut spec = transfer(trial(network, "reno", 200_000, 1), 1_000_000);
        spec.pm = pm.into();
        spec.scheduler = scheduler.into();
        spec.seed = seed;
        within(&mut spec, 3600);
        for (path, from, length) in outages {
            let path = path % paths;
            let at = |seconds: u64, action| ScriptSpec { at_ns: seconds * SECOND / 4, path, action };
            spec.script.push(at(from, ScriptAction::Down));
            spec.script.push(at(from + length, ScriptAction::Up));
        }
        let outcome = spec.run().expect("a valid trial");
        prop_assert_eq!(outcome.failed, None);
        prop_assert_eq!(outcome.in_order_bytes, 1_000_000);
    }

    /// With sockets charged as the kernel charges them a connection may stall, and then reports it; it always
    /// ends, with every byte or with a reason, even when addresses come and go and others share the paths.
    #[test]
    fn linux_accounting_ends_with_every_byte_or_a_reason(
        mut network in any_network(),
        cc in any_of(congestion::NAMES),
        scheduler in any_of(scheduler::NAMES),
        tso in any::<bool>(),
        kib in prop_oneof![4u64..64, 64u64..4096],
        bytes in 1u64..2_000_000,
        changes in prop::collection::vec((1usize..6, 0u64..20, 1u64..20), 0..4),
        others in prop::collection::vec((0usize..6, any_of(congestion::NAMES), 0u64..5, 1u64..5), 0..3),
        seed in any::<u64>(),
    ) {
        let paths = network.paths.len();
        for (path, cc, from, length) in others {
            network.background.push(BackgroundSpec {
                path: path % paths,
                cc: cc.into(),
                start_ns: from * SECOND,
                stop_ns: Some((from + length) * SECOND),
            });
        }
        let mut spec = transfer(trial(network, cc, kib * 1024, 1), bytes);
        spec.scheduler = scheduler.into();
        spec.accounting = "linux".into();
        spec.members.tso = tso;
        spec.seed = seed;
        for (path, from, length) in changes {
            let path = path % paths;
            let at = |seconds: u64, action| ScriptSpec { at_ns: seconds * SECOND / 4, path, action };
            spec.script.push(at(from, ScriptAction::Remove));
            spec.script.push(at(from + length, ScriptAction::Add));
        }
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(outcome.in_order_bytes <= bytes);
        prop_assert_eq!(outcome.bins.iter().sum::<u64>(), outcome.in_order_bytes);
        prop_assert_eq!(outcome.failed.is_none(), outcome.in_order_bytes == bytes);
        prop_assert_eq!(outcome, spec.run().expect("a valid trial"));
    }

    /// Under Linux' accounting a trial ends too: with every byte, or with a stall that has a time and a reason,
    /// and only when the receive memory is full.
    #[test]
    fn linux_accounting_delivers_every_byte_or_reports_a_stall(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        pm in any_of(pathmanager::NAMES),
        scheduler in any_of(scheduler::NAMES),
        (opportunistic, tso) in any::<(bool, bool)>(),
        family in prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)],
        segments in prop_oneof![1u64..8, 1u64..2000],
        mss in prop_oneof![Just(MSS), 64u32..9000],
        bytes in 1u64..400_000,
        seed in any::<u64>(),
    ) {
        let mss = mss.min(8960);
        let mut spec = transfer(trial(network, cc, segments * u64::from(mss), 1), bytes);
        spec.family = family;
        (spec.pm, spec.scheduler, spec.accounting) = (pm.into(), scheduler.into(), "linux".into());
        (spec.members.opportunistic, spec.members.tso, spec.mss, spec.seed) = (opportunistic, tso, mss, seed);
        within(&mut spec, 3600);
        let outcome = spec.run().expect("a valid trial");
        if let Some(at) = outcome.stalled_ns {
            prop_assert!(at < outcome.duration_ns && outcome.in_order_bytes < bytes);
            let reason = outcome.failed.unwrap_or_default();
            prop_assert!(reason.starts_with("stalled at ") || reason == "no byte was delivered", "{}", reason);
            prop_assert!(reason.contains("receive memory") || outcome.in_order_bytes == 0, "{}", reason);
        } else {
            prop_assert!(complete(&outcome, bytes), "{:?}", outcome.failed);
        }
    }

    /// A saturated connection under Linux' accounting stays below the links, and repeats exactly.
    #[test]
    fn linux_accounting_stays_below_the_access_links(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        scheduler in any_of(scheduler::NAMES),
        segments in 1u64..2000,
        seed in any::<u64>(),
    ) {
        let uplinks: std::collections::BTreeSet<usize> = network.paths.iter().map(|p| p.forward[0]).collect();
        let capacity: f64 = uplinks.iter().filter_map(|&l| network.links[l].rate_bps).map(|r| r as f64).sum();
        let mut spec = trial(network, cc, segments * u64::from(MSS), 5);
        (spec.scheduler, spec.accounting, spec.seed) = (scheduler.into(), "linux".into(), seed);
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(mbps(&outcome) * 1e6 <= capacity * (1424.0 / 1500.0) * 1.0001);
        prop_assert_eq!(outcome, spec.run().expect("a valid trial"));
    }

    /// Bursts change when packets leave, never what arrives.
    #[test]
    fn bursts_cost_no_byte(
        network in any_network(),
        cc in any_of(congestion::NAMES),
        scheduler in any_of(scheduler::NAMES),
        segments in 1u64..2000,
        bytes in 1u64..2_000_000,
        seed in any::<u64>(),
    ) {
        let mut spec = transfer(trial(network, cc, segments * u64::from(MSS), 1), bytes);
        (spec.scheduler, spec.members.tso, spec.seed) = (scheduler.into(), true, seed);
        within(&mut spec, 3600);
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(complete(&outcome, bytes), "{:?}", outcome.failed);
    }

    /// Others take their share of the links, and the transfer still completes.
    #[test]
    fn background_flows_cost_time_only(
        network in any_network(),
        flows in prop::collection::vec((0usize..6, any_of(congestion::NAMES), 0u64..10, 1u64..20), 1..5),
        accounting in any_of(&["payload", "linux"]),
        seed in any::<u64>(),
    ) {
        let paths = network.paths.len();
        let capacity: f64 = network.links.iter().filter_map(|l| l.rate_bps).map(|r| r as f64).sum();
        let background = flows.iter().map(|&(path, cc, start, length)| BackgroundSpec {
            path: path % paths,
            cc: cc.into(),
            start_ns: start * SECOND,
            stop_ns: Some((start + length) * SECOND),
        });
        let network = NetworkSpec { background: background.collect(), ..network };
        let mut spec = transfer(trial(network, "reno", 4 * MIB, 1), 500_000);
        (spec.accounting, spec.seed) = (accounting.into(), seed);
        within(&mut spec, 3600);
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(complete(&outcome, 500_000), "{:?}", outcome.failed);
        let others: u64 = outcome.background.iter().map(|flow| flow.bytes).sum();
        let seconds = outcome.duration_ns as f64 / 1e9;
        prop_assert!((others + 500_000) as f64 * 8.0 <= capacity * seconds);
    }

    /// Addresses that go away and come back cost time, never a byte; the first path's stays.
    #[test]
    fn removed_addresses_cost_no_byte(
        network in any_network(),
        pm in any_of(pathmanager::NAMES),
        scheduler in any_of(scheduler::NAMES),
        tso in any::<bool>(),
        changes in prop::collection::vec((0u64..24, 0usize..6, any::<bool>()), 0..12),
        cuts in prop::collection::vec((0u64..24, 1usize..6, any::<bool>()), 0..4),
        seed in any::<u64>(),
    ) {
        let paths = network.paths.len();
        let mut spec = transfer(trial(network, "reno", 200_000, 1), 1_000_000);
        (spec.pm, spec.scheduler, spec.members.tso, spec.seed) = (pm.into(), scheduler.into(), tso, seed);
        within(&mut spec, 3600);
        let at = |quarters: u64, path, action| ScriptSpec { at_ns: quarters * SECOND / 4, path, action };
        for (when, path, add) in changes {
            let action = if add { ScriptAction::Add } else { ScriptAction::Remove };
            spec.script.push(at(when, path % paths, action));
        }
        for (when, path, up) in cuts {
            spec.script.push(at(when, path % paths, if up { ScriptAction::Up } else { ScriptAction::Down }));
        }
        spec.script.push(at(25, 0, ScriptAction::Add));
        spec.script.push(at(25, 0, ScriptAction::Up));
        let outcome = spec.run().expect("a valid trial");
        prop_assert!(complete(&outcome, 1_000_000), "{:?}", outcome.failed);
    }
}
