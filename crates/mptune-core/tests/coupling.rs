//! The goals of coupling the subflows' windows (RFC 6356 section 1): improve throughput, do no harm at a shared
//! bottleneck, balance congestion. Each coupled control must meet the goals of its specification; uncoupled Reno shows
//! that the scenarios discriminate.
//!
//! The scenarios and the limits are those of the table of all controls (`examples/rules`).

#[path = "../examples/rules/scenarios.rs"]
mod scenarios;

use crate::common::*;
use scenarios::Rules;
use std::sync::LazyLock;

/// Reno, and the coupled controls that follow losses.
static MEASURED: LazyLock<[Rules; 4]> =
    LazyLock::new(|| ["reno", "lia", "olia", "balia"].map(|cc| Rules::measure(cc, 3)));

/// Two flows against one: two thirds of a bottleneck, and on each of two paths what its losses allow, 1 /
/// sqrt(p): together 1 + 1 / sqrt(8) of the better one's.
#[test]
fn uncoupled_reno_improves_throughput_and_does_harm() {
    let [reno, ..] = &*MEASURED;
    for two in [reno.two_against_reno, reno.two_against_one] {
        assert!((0.62..0.71).contains(&two.mean), "{two:?}");
    }
    assert!((0.46..0.54).contains(&reno.one_against_reno.mean), "{reno:?}");
    assert!((reno.lossy.mean - 1.0 - 1.0 / f64::sqrt(8.0)).abs() < 0.06, "{reno:?}");
    assert!(reno.improves_throughput() && !reno.does_no_harm(), "{reno:?}");
}

/// RFC 6356 section 5: goals 1 and 2 are met, goal 3 in part: windows are proportional to 1/p, where full
/// resource pooling would leave nothing on the worse path.
#[test]
fn lia_meets_the_first_two_goals_and_a_part_of_the_third() {
    let [reno, lia, ..] = &*MEASURED;
    assert!(lia.improves_throughput() && lia.does_no_harm(), "{lia:?}");
    assert!(lia.balances_congestion(reno), "{lia:?}");
    assert!(lia.on_congested.mean > 0.4 * reno.on_congested.mean, "{lia:?}");
}

/// draft-khalili-mptcp-congestion-control-05: what LIA does, with optimal congestion balancing:
/// the worse path is left little more than probing traffic.
#[test]
fn olia_meets_all_three_goals() {
    let [reno, _, olia, _] = &*MEASURED;
    assert!(olia.improves_throughput() && olia.does_no_harm(), "{olia:?}");
    assert!(olia.on_congested.mean < 0.3 * reno.on_congested.mean, "{olia:?}");
}

/// draft-walid-mptcp-congestion-control-04: friendlier than LIA, more responsive than OLIA, so
/// that its congested path carries less than LIA's and more than OLIA's.
#[test]
fn balia_meets_all_three_goals_between_lia_and_olia() {
    let [reno, lia, olia, balia] = &*MEASURED;
    assert!(balia.improves_throughput() && balia.does_no_harm(), "{balia:?}");
    assert!(balia.balances_congestion(reno), "{balia:?}");
    let [less, share, more] = [olia, balia, lia].map(|rules| rules.on_congested.mean);
    assert!(less < share && share < more, "{less}, {share}, {more}");
}

/// draft-xu-mptcp-congestion-control-05: the segments that the subflows keep queued add up to those of
/// one flow. It fails the other two rules by its arithmetic: `wvegas` on draining, and the 2 segments
/// that each subflow keeps queued at least.
#[test]
fn wvegas_does_no_harm() {
    let wvegas = Rules::measure("wvegas", 10);
    assert!(wvegas.does_no_harm(), "{wvegas:?}");
}

#[test]
fn on_one_path_a_coupled_control_is_reno() {
    let outcome = |cc| run(&trial(disjoint(&[lossy(link(100.0, 20.0), 0.001)]), cc, 8 * MIB, 60));
    for cc in ["lia", "olia", "balia"] {
        assert_eq!(outcome(cc).bins, outcome("reno").bins, "{cc}");
    }
}
