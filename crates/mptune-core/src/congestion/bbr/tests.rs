//! BBR on an ideal bottleneck: the behaviour of each mode in the draft.

use super::model::{CYCLE, HIGH_GAIN};
use super::state::MIN_WINDOW;
use super::*;
use crate::congestion::bottleneck::Bottleneck;
use crate::congestion::testing::{ack, alone, assert_close};
use crate::units::{MILLISECOND, SECOND};

const RTT: Nanos = 40 * MILLISECOND;

/// A path of 100 Mbit/s in segments of 1500 bytes.
fn path() -> Bottleneck<Bbr> {
    Bottleneck::new(Bbr::default(), 100e6 / 8.0 / 1500.0, RTT)
}

impl Bottleneck<Bbr> {
    fn model(&self) -> &Model {
        &self.cc.0
    }

    /// Runs until it is in `mode`; returns the time.
    fn until(&mut self, mode: Mode) -> Nanos {
        let limit = self.now + 60 * SECOND;
        while self.model().mode != mode {
            assert!(self.now < limit, "never in {mode:?}");
            self.run(1, |_| {});
        }
        self.now
    }

    /// Share of the bottleneck's rate over a span.
    fn utilisation(&mut self, span: Nanos) -> f64 {
        let before = self.delivered;
        self.run(span, |_| {});
        (self.delivered - before) as f64 / self.rate / (span as f64 / 1e9)
    }
}

#[test]
fn startup_doubles_the_rate_each_round() {
    // Draft section 4.3.2.1.
    let mut path = path();
    let rate = |path: &Bottleneck<Bbr>| path.cc.pacing_rate().expect("a pace");
    let first = rate(&path);
    assert_close(first, 0.99 * HIGH_GAIN * 10.0 / 0.04, 1e-9);
    // From 10 to 333 segments are 5 doublings, and the first round and its samples come before.
    path.run(8 * RTT, |_| {});
    assert!(path.model().bandwidth() > 0.8 * path.rate, "{}", path.model().bandwidth());
}

#[test]
fn startup_ends_three_rounds_after_the_bandwidth_stopped_growing() {
    // Draft section 4.3.2.2.
    let mut path = path();
    let mut full_at = None;
    while path.model().mode == Mode::Startup {
        path.run(1, |_| {});
        if path.model().bandwidth.get() > 0.8 * path.rate {
            full_at.get_or_insert(path.model().rounds);
        }
    }
    let rounds = path.model().rounds - full_at.expect("the bandwidth was reached");
    assert!((3..=4).contains(&rounds), "{rounds}");
}

#[test]
fn drain_leaves_the_queue_of_startup_empty() {
    // Draft section 4.3.3.
    let mut path = path();
    path.until(Mode::Drain);
    assert!(path.queued() > path.product(), "{}", path.queued());
    path.until(Mode::ProbeBw);
    assert!(path.in_flight() as f64 <= path.model().in_flight_target(1.0));
    assert!(path.queued() < 0.3 * path.product(), "{}", path.queued());
}

#[test]
fn the_model_finds_bandwidth_and_smallest_rtt() {
    let mut path = path();
    path.run(5 * SECOND, |_| {});
    assert_close(path.model().bandwidth(), path.rate, 0.01);
    assert_close(path.model().min_rtt.expect("a sample") as f64, RTT as f64, 0.01);
}

#[test]
fn probe_bw_uses_the_path_with_a_short_queue() {
    let mut path = path();
    path.run(2 * SECOND, |_| {});
    let (mut queued, mut acks) = (0.0, 0.0);
    let before = path.delivered;
    path.run(8 * SECOND, |path| {
        queued += path.queued();
        acks += 1.0;
        assert!(path.in_flight() as f64 <= 2.0 * path.product() + 3.0 * path.model().burst() + 8.0);
    });
    assert!((path.delivered - before) as f64 > 0.98 * 8.0 * path.rate);
    assert!(queued / acks < 0.15 * path.product(), "{}", queued / acks);
}

#[test]
fn the_gains_of_a_cycle_follow_each_other_a_smallest_rtt_long() {
    // Draft section 4.3.4.
    let mut path = path();
    path.until(Mode::ProbeBw);
    let mut phases = vec![(path.model().phase, path.now)];
    path.run(3 * SECOND, |path| {
        let phase = path.model().phase;
        if phases.last().is_some_and(|&(last, _)| last != phase) {
            phases.push((phase, path.now));
        }
    });
    assert!(phases.len() > 5 * CYCLE.len());
    for pair in phases.windows(2) {
        let [(phase, start), (next, end)] = [pair[0], pair[1]];
        assert_eq!(next, (phase + 1) % CYCLE.len());
        // Probing lasts until the pipe holds a quarter more; draining ends when its queue is empty.
        let rtts = (end - start) as f64 / RTT as f64;
        let expected = if phase == 0 { 0.9..4.0 } else { 0.0..1.3 };
        assert!(expected.contains(&rtts), "phase {phase}: {rtts} RTTs");
    }
}

#[test]
fn the_first_phase_never_drains_and_differs_from_flow_to_flow() {
    let mut phases = [0; CYCLE.len()];
    for me in 0..8 {
        for at in 0..1_000 {
            let mut model = Model { me, ..Model::default() };
            model.enter_probe_bw(SECOND + at * 120_000);
            phases[model.phase] += 1;
        }
    }
    assert_eq!(phases[1], 0);
    let others = phases.iter().enumerate().filter(|&(phase, _)| phase != 1);
    assert!(others.into_iter().all(|(_, &count)| (1_000..1_300).contains(&count)), "{phases:?}");
}

#[test]
fn the_smallest_rtt_is_measured_anew_every_ten_seconds() {
    // Draft section 4.3.5: at most 4 segments for 200 ms and a round.
    let mut path = path();
    let mut stays = vec![];
    for _ in 0..2 {
        // An RTT rarely equals the smallest to the nanosecond; if it did, nothing would be measured again.
        path.delay += 1_000;
        let start = path.until(Mode::ProbeRtt);
        let mut least = usize::MAX;
        while path.model().mode == Mode::ProbeRtt {
            path.run(1, |path| least = least.min(path.in_flight()));
        }
        assert!(least <= 4, "{least}");
        stays.push((start, path.now));
    }
    for (start, end) in &stays {
        assert!((200..200 + 4 * 40).contains(&((end - start) / MILLISECOND)), "{start} to {end}");
    }
    let apart = stays[1].0 - stays[0].1;
    assert!((10 * SECOND..10 * SECOND + 5 * RTT).contains(&apart), "{apart}");
}

#[test]
fn a_standing_queue_is_drained_and_a_longer_path_noticed() {
    let mut path = path();
    path.run(3 * SECOND, |_| {});
    path.delay = 2 * RTT;
    path.run(22 * SECOND, |_| {});
    assert_close(path.model().min_rtt.expect("a sample") as f64, 2.0 * RTT as f64, 0.02);
    assert!(path.utilisation(5 * SECOND) > 0.95);
}

#[test]
fn more_bandwidth_is_found_by_probing_and_less_within_ten_rounds() {
    let mut path = path();
    path.run(2 * SECOND, |_| {});
    path.rate *= 2.0;
    // A quarter more per cycle of 8 RTTs: ln 2 / ln 1.25 = 3.1 cycles.
    path.run(2 * SECOND, |_| {});
    assert_close(path.model().bandwidth(), path.rate, 0.02);
    path.rate /= 2.0;
    // Rounds take longer while the queue is long.
    path.run(2 * SECOND, |_| {});
    assert_close(path.model().bandwidth(), path.rate, 0.02);
}

#[test]
fn random_losses_up_to_the_probing_gain_leave_the_rate_alone() {
    // Cardwell et al., figure 8: throughput holds until losses reach 20 %, the inverse of 1.25.
    for (loss_interval, least) in [(1_000, 0.97), (100, 0.95), (20, 0.85)] {
        let mut path = path();
        path.loss_interval = loss_interval;
        path.run(2 * SECOND, |_| {});
        let share = path.utilisation(7 * SECOND);
        assert!(share > least * (1.0 - 1.0 / f64::from(loss_interval)), "{loss_interval}: {share}");
    }
}

#[test]
fn a_shallow_queue_is_used_with_losses() {
    let mut path = path();
    path.capacity = 0.2 * path.product();
    path.run(2 * SECOND, |_| {});
    assert!(path.utilisation(7 * SECOND) > 0.9);
    assert!(path.lost > 0);
}

/// An ACK of an established flow with this many segments in flight after it.
fn recovering(in_flight: u32, lost: u32, delivered: u64) -> Ack {
    Ack { in_flight, lost, delivered, prior_in_flight: in_flight + 1 + lost, ..ack(1) }
}

#[test]
fn a_recovery_begins_with_conservation_and_ends_with_the_window_before_it() {
    // Draft section 4.2.3.4.
    let mut path = path();
    path.run(2 * SECOND, |_| {});
    let before = path.window.cwnd;
    let delivered = path.delivered;
    let (cc, window) = (&mut path.cc, &mut path.window);
    cc.on_congestion(window, path.now, alone());
    for step in 1..=20_u32 {
        let report = recovering(80 - step, 1, delivered + u64::from(step)).at(path.now);
        cc.on_delivered(window, &report, alone());
        if step == 1 {
            assert_eq!(window.cwnd, 80.0);
        }
        assert!(window.cwnd <= 80.0, "as many segments leave as arrive");
    }
    cc.on_recovered(window, 0, path.now);
    let report = recovering(60, 0, delivered + 21).at(path.now);
    cc.on_delivered(window, &report, alone());
    assert_close(window.cwnd, before, 0.02);
}

#[test]
fn a_timeout_lets_the_window_grow_again_from_what_is_in_flight() {
    let mut path = path();
    path.run(2 * SECOND, |_| {});
    let delivered = path.delivered;
    let (cc, window) = (&mut path.cc, &mut path.window);
    let before = window.cwnd;
    cc.on_congestion(window, path.now, alone());
    window.cwnd = 1.0;
    cc.on_timeout(window, path.now);
    for step in 1..=10_u32 {
        let report = recovering(step, 0, delivered + u64::from(step)).at(path.now);
        cc.on_delivered(window, &report, alone());
        assert_eq!(window.cwnd, f64::from(step) + MIN_WINDOW - 1.0);
    }
    cc.on_recovered(window, 0, path.now);
    cc.on_delivered(window, &recovering(10, 0, delivered + 11).at(path.now), alone());
    assert_close(window.cwnd, before, 0.02);
}

#[test]
fn ecn_is_ignored() {
    let mut marked = path();
    marked.threshold = 1.0;
    let mut other = path();
    for path in [&mut marked, &mut other] {
        path.run(3 * SECOND, |_| {});
    }
    assert_eq!(marked.delivered, other.delivered);
}

#[test]
fn after_an_idle_time_the_smallest_rtt_stands_and_the_pace_is_the_bandwidth() {
    // Draft section 4.3.4.4.
    let mut path = path();
    path.run(2 * SECOND, |_| {});
    let now = path.now + 20 * SECOND;
    let bandwidth = path.model().bandwidth();
    let delivered = path.delivered + 1;
    path.cc.on_start(&mut path.window, true, now);
    assert_close(path.cc.pacing_rate().expect("a pace"), 0.99 * bandwidth, 1e-9);
    let report = Ack { delivered, ..ack(1) };
    path.cc.on_delivered(&mut path.window, &report.at(now + RTT).rtt(RTT), alone());
    assert_eq!(path.model().mode, Mode::ProbeBw);
}

#[test]
fn a_policer_is_found_and_its_rate_kept() {
    // Bursts of 200 segments pass at 5000 segments/s, more only at 1000 segments/s.
    let mut path = Bottleneck::new(Bbr::default(), 5_000.0, RTT);
    (path.policed_rate, path.tokens, path.bucket) = (1_000.0, 200.0, 200.0);
    let (mut policed, mut acks) = (0, 0);
    path.run(20 * SECOND, |path| {
        acks += 1;
        if let Some(rate) = path.model().policer.rate() {
            assert_close(rate, 1_000.0, 0.25);
            policed += 1;
        }
    });
    assert!(policed > acks / 2, "{policed} of {acks} ACKs");
    assert!(path.delivered as f64 > 0.8 * 1_000.0 * 20.0, "{}", path.delivered);
}
