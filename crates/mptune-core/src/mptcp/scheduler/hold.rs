//! hold as a scheduler of the kernel (`bpf/scheduler/hold.c`, whose equations these are): before each burst, for the subflows by
//! `min_rtt N`, the quickest first.
//!
//! ```text
//! (1)  R = sum of rate_j over the quicker subflows j that are not held and have made progress since an RTO
//! (2)  T = max(srtt, 3/2 min_rtt) N
//! (3)  hold if R T > W
//! (4)  wait = queued / (2 min(rate, cwnd / srtt)): the shortest of those that are not held takes the burst
//! (5)  N = max(1, burst / cwnd), and 1 before the first loss
//! (6)  unsent <= max(cwnd, 3 rate max_j(srtt_j)) over the subflows j that are not held
//! (7)  while R (T + srtt N) > W, and before the first loss beside a quicker one: TCP paces it by its own rate, and
//!      unsent and in flight <= 3 rate min_rtt
//! (8)  what the connection repeats goes to the subflow with the smallest srtt of those that have nothing out
//! ```
//!
//! where `rate` is the largest delivery rate of this and the last period of 2 s, and `W` what the connection may have under way.
//! Unlike the path policy of this name (`pathpolicy::hold`) it has no hysteresis and owns no rate.

use super::kernel::{self, BURST, Handout, pacing_rate};
use super::{Candidates, Scheduler, Style, bits};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::units::{Nanos, SECOND};

/// Equation 2: the least time that a segment is under way, in parts of the smallest RTT.
const LEAST_RTTS: f64 = 3.0 / 2.0;
/// Equation 4: what a subflow asks for, in parts of what it delivers.
const DEMAND: f64 = 2.0;
/// Equation 6: what may wait, in parts of what is delivered in the longest RTT.
const WAITING_RTTS: f64 = 3.0;
/// Equation 7: what may be queued or in flight, in parts of what is delivered in the smallest RTT; and always, segments.
const QUEUED_RTTS: f64 = 3.0;
const LEAST_QUEUED: f64 = 4.0;

/// Length of a period.
const PERIOD: Nanos = 2 * SECOND;

fn starts(peer: &Peer) -> bool {
    peer.ssthresh >= INFINITE_SSTHRESH
}

/// Equation 5: round trips until the last segment of a burst is acknowledged.
fn rounds(peer: &Peer) -> f64 {
    kernel::rounds(peer, BURST)
}

/// Time of a burst on an empty path, ns: by this, paths are quicker or slower.
fn least_time(peer: &Peer) -> f64 {
    peer.min_rtt as f64 * rounds(peer)
}

/// T of equation 2, ns.
fn under_way(peer: &Peer) -> f64 {
    (peer.srtt as f64).max(LEAST_RTTS * peer.min_rtt as f64) * rounds(peer)
}

/// Largest delivery rates of a period and the one before it, segments per ns.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    period: Nanos,
    best: [f64; 2],
}

impl Memory {
    fn remember(&mut self, now: Nanos, rate: f64) -> f64 {
        let period = now / PERIOD;
        if period != self.period {
            let last = if period == self.period + 1 { self.best[0] } else { 0.0 };
            *self = Self { period, best: [0.0, last] };
        }
        self.best[0] = self.best[0].max(rate);
        self.best[0].max(self.best[1])
    }
}

/// A subflow that may carry data.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: usize,
    time: f64,
    /// Segments per ns; 0 before a sample.
    rate: f64,
    /// R of equation 1, segments per ns.
    quicker: f64,
    held: bool,
    /// Equation 7 bounds it.
    bounded: bool,
}

/// The scheduler.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    handout: Handout,
    decisions: Decisions,
}

/// What is decided before a burst.
#[derive(Debug, Clone, Default)]
struct Decisions {
    /// Of each subflow.
    memories: Vec<Memory>,
    /// Those of the last choice, the quickest first.
    order: Vec<Candidate>,
}

impl Decisions {
    /// Equations 1, 3 and 7; the longest RTT of those that are not held, ns.
    fn decide(&mut self, candidates: &Candidates<'_>) -> f64 {
        let subflows = candidates.subflows;
        self.memories.resize(subflows.len(), Memory::default());
        self.order.clear();
        for id in bits(candidates.usable) {
            let (peer, memory) = (&subflows[id], &mut self.memories[id]);
            let rate = memory.remember(candidates.now, peer.delivers);
            self.order.push(Candidate {
                id,
                time: least_time(peer),
                rate,
                quicker: 0.0,
                held: false,
                bounded: false,
            });
        }
        self.order.sort_by(|a, b| a.time.total_cmp(&b.time));
        let (mut rates, mut quicker, mut time, mut longest) = (0.0, 0.0, 0.0, 0.0_f64);
        for own in &mut self.order {
            let peer = &subflows[own.id];
            if own.time > time {
                quicker = rates;
            }
            time = own.time;
            own.quicker = quicker;
            own.held = peer.usable && quicker * under_way(peer) > candidates.under_way;
            let repaired = quicker * (under_way(peer) + peer.srtt as f64 * rounds(peer));
            own.bounded = quicker > 0.0 && (starts(peer) || repaired > candidates.under_way);
            if own.held {
                continue;
            }
            longest = longest.max(peer.srtt as f64);
            if !peer.timed_out {
                rates += own.rate;
            }
        }
        longest
    }

    /// The subflow for the next burst, and its length in full segments.
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<(usize, f64)> {
        let longest = self.decide(candidates);
        let free = self.order.iter().filter(|own| !own.held);
        let bursts = free.filter_map(|own| {
            let peer = &candidates.subflows[own.id];
            let room = room(peer, own, longest);
            (room >= 1.0).then(|| (peer.memory / demand(peer, own.rate), own.id, room))
        });
        let (_, id, room) = bursts.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((id, room.min(BURST)))
    }
}

/// The rate of equation 4, segments per ns.
fn demand(peer: &Peer, rate: f64) -> f64 {
    if rate > 0.0 {
        DEMAND * rate.min(peer.window / peer.srtt.max(1) as f64)
    } else {
        pacing_rate(peer)
    }
}

/// Equations 6 and 7: segments that a subflow may still take.
fn room(peer: &Peer, own: &Candidate, longest: f64) -> f64 {
    let &Candidate { rate, bounded, .. } = own;
    let waiting = peer.window.max(WAITING_RTTS * rate * longest);
    let room = waiting - f64::from(peer.outstanding - peer.sent);
    if !bounded || rate == 0.0 {
        return room;
    }
    let most = (QUEUED_RTTS * rate * peer.min_rtt as f64).max(LEAST_QUEUED);
    room.min(most - f64::from(peer.outstanding))
}

impl Scheduler for Hold {
    const STYLE: Style = Style::Push;
    const RATE_SAMPLES: bool = true;
    const REPEATS_ON_QUICKEST: bool = true;

    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        self.handout.select(&candidates, || self.decisions.choose(&candidates))
    }

    #[inline]
    fn continues(&self) -> bool {
        self.handout.continues()
    }

    fn paces(&self, subflow: usize) -> bool {
        self.decisions.order.iter().any(|own| own.id == subflow && own.bounded)
    }

    #[inline]
    fn note_handed(&mut self, segments: f64) {
        self.handout.note_handed(segments);
    }

    fn on_write(&mut self) {
        self.handout.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{candidates, starting, subflow};
    use super::*;
    use crate::units::MILLISECOND;

    /// 20 ms and 2 segments per ms; 200 ms and 0.5 per ms.
    fn two(queued: [u32; 2]) -> [Peer; 2] {
        let with = |rate: f64, peer: Peer| Peer {
            delivers: rate / MILLISECOND as f64,
            sent: peer.outstanding,
            ..peer
        };
        [with(2.0, subflow(20, 60, queued[0])), with(0.5, subflow(200, 100, queued[1]))]
    }

    fn select(subflows: &[Peer], window: f64) -> Option<usize> {
        let now = Candidates {
            ready: (1 << subflows.len()) - 1,
            under_way: window,
            ..candidates(subflows, 1000, 1000)
        };
        Hold::default().select(now)
    }

    #[test]
    fn it_alone_repeats_on_the_quickest_idle_subflow() {
        let names = super::super::NAMES.iter().copied();
        let which = |name: &&str| super::super::Policy::new(name).unwrap().repeats_on_quickest();
        assert_eq!(names.filter(which).collect::<Vec<_>>(), ["hold"]);
    }

    #[test]
    fn the_slower_is_held_while_the_quicker_would_fill_the_window() {
        // Equations 1 and 2: 2 segments per ms for 300 ms are 600. The quicker one's queue is the longer.
        let subflows = two([60, 0]);
        assert_eq!(select(&subflows, 590.0), Some(0));
        assert_eq!(select(&subflows, 610.0), Some(1));
    }

    #[test]
    fn a_quicker_one_without_progress_is_not_waited_for() {
        let mut subflows = two([60, 0]);
        subflows[0].timed_out = true;
        assert_eq!(select(&subflows, 10.0), Some(1));
    }

    #[test]
    fn a_held_subflow_holds_up_nobody() {
        // Beside the two a third of 2000 ms: the 200 ms are held, and their rate does not count for it.
        let [quick, slow] = two([60, 0]);
        let slowest = Peer { delivers: 0.0, ..subflow(2000, 100, 0) };
        let subflows = [quick, slow, Peer { sent: 0, ..slowest }];
        let mut hold = Hold::default();
        hold.decisions
            .decide(&Candidates { under_way: 590.0, ..candidates(&subflows, 1000, 1000) });
        let seen: Vec<_> = hold.decisions.order.iter().map(|own| (own.id, own.held)).collect();
        assert_eq!(seen, [(0, false), (1, true), (2, true)]);
        assert!((hold.decisions.order[2].quicker * MILLISECOND as f64 - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_takes_round_trips_where_the_window_is_small_but_not_before_the_first_loss() {
        let small = Peer { window: 2.0, ..subflow(20, 2, 0) };
        assert!((rounds(&small) - BURST / 2.0).abs() < 1e-9);
        assert!((rounds(&starting(20, 2, 0)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_waits_unsent_and_what_a_slower_one_has_under_way_is_bounded() {
        let close = |number: f64, expected: f64| assert!((number - expected).abs() < 1e-6);
        let [quick, slow] = two([60, 90]);
        let own = |rate: f64, bounded| Candidate {
            id: 0,
            time: 0.0,
            rate: rate / MILLISECOND as f64,
            quicker: 0.0,
            held: false,
            bounded,
        };
        // Equation 6: 2 segments per ms for three times 200 ms.
        close(room(&quick, &own(2.0, false), 200.0 * 1e6), 1200.0);
        // Equation 7: 0.5 per ms for three times 200 ms, 90 of them under way.
        close(room(&slow, &own(0.5, true), 200.0 * 1e6), 300.0 - 90.0);
        close(room(&slow, &own(0.5, false), 200.0 * 1e6), 300.0);
        // Before a sample it is its window.
        close(room(&slow, &own(0.0, true), 200.0 * 1e6), 100.0);
    }

    #[test]
    fn who_would_hold_up_a_quicker_one_by_a_repair_is_paced() {
        // 600 as above and 400 for the repair; before the first loss whatever the window.
        let paced = |subflows: &[Peer], under_way| {
            let mut hold = Hold::default();
            hold.decisions.decide(&Candidates { under_way, ..candidates(subflows, 1000, 1000) });
            [hold.paces(0), hold.paces(1)]
        };
        let subflows = two([60, 0]);
        assert_eq!(paced(&subflows, 990.0), [false, true]);
        assert_eq!(paced(&subflows, 1010.0), [false, false]);
        let new = subflows.map(|peer| Peer { ssthresh: INFINITE_SSTHRESH, ..peer });
        assert_eq!(paced(&new, 1e9), [false, true]);
    }

    #[test]
    fn the_best_rate_counts_for_this_period_and_the_next() {
        let mut memory = Memory::default();
        let seen = [(0, 3.0), (1, 1.0), (3, 1.0), (4, 1.0)]
            .map(|(s, rate)| memory.remember(s * SECOND, rate));
        assert_eq!(seen, [3.0, 3.0, 3.0, 1.0]);
        assert_eq!(memory.remember(20 * SECOND, 0.5), 0.5);
    }

    #[test]
    fn nobody_takes_data_while_none_has_room() {
        let mut subflows = two([60, 0]);
        subflows[0].sent = 0;
        assert_eq!(select(&subflows[..1], 1e9), Some(0));
        subflows[0].outstanding = 300;
        assert_eq!(select(&subflows[..1], 1e9), None);
    }
}
