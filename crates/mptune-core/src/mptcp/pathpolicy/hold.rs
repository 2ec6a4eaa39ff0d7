//! hold: a subflow takes no new data while it would hold up faster ones (`bpf/scheduling/hold.h`, whose equations these
//! are).
//!
//! ```text
//! (1)  R = sum of best_j over siblings j with min_rtt_j N_j < min_rtt N that are neither held nor timed out
//! (2)  T = max(srtt, 5/4 min_rtt) N
//! (3)  hold while R T > W, release when R T < 27/32 W, or R T <= W where the buffer grows by being used
//! (4)  rate = 2 min(best, cwnd / srtt)
//! (5)  N = max(1, burst / cwnd), and 1 before the first loss
//! (6)  unsent <= max(cwnd, 3 best max_j(srtt_j)) over the subflows j that are not held
//! (7)  it sends no faster than its rate while R (T + srtt N) > W, and before its first loss;
//!      unless less than a burst of the program's is sent or waiting
//! (8)  its part of a send buffer that grows >= 2 cwnd (1 + min(R T, W) / cwnd)
//! ```
//!
//! where `best_j` is the largest delivery rate of subflow `j` in the last 2 to 4 s.

use super::{Parameters, PathPolicy, View};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::mptcp::scheduler::kernel::{self, BURST, pacing_rate};
use crate::units::{Nanos, SECOND};

/// Equation 2: the least time that a segment is under way, in parts of the smallest RTT.
const LEAST_RTTS: f64 = 5.0 / 4.0;
/// Equation 3: part of the window below which a subflow is released.
const RELEASED_BELOW: f64 = 54.0 / 64.0;
/// Equation 4: what a subflow asks for, in parts of what it delivers.
const DEMAND: f64 = 2.0;
/// Equation 6: what may wait, in parts of what is delivered in the longest RTT.
const WAITING_RTTS: f64 = 3.0;
/// Equation 8: the kernel's smallest window, and its windows in a buffer.
const LEAST_WINDOW: f64 = 10.0;
const WINDOWS: f64 = 2.0;
/// Time for which a best rate counts, once or twice.
const MEMORY: Nanos = 2 * SECOND;

/// Equation 5: round trips until the last segment of a burst is acknowledged.
fn rounds(peer: &Peer) -> f64 {
    kernel::rounds(peer, BURST.ceil())
}

/// Time of a burst on an empty path, ns: by this, paths are faster or slower.
fn least_time(peer: &Peer) -> f64 {
    peer.min_rtt as f64 * rounds(peer)
}

/// State of a subflow.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Largest delivery rates of this period and the last, segments per ns.
    best: [f64; 2],
    period_end: Nanos,
    /// Equation 7, segments per ns.
    limit: Option<f64>,
}

impl State {
    fn best(&self) -> f64 {
        self.best[0].max(self.best[1])
    }

    fn remember(&mut self, now: Nanos, rate: f64) {
        if now >= self.period_end {
            self.best = [0.0, self.best[0]];
            self.period_end = now + MEMORY;
        }
        self.best[0] = self.best[0].max(rate);
    }
}

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    subflows: Vec<State>,
}

impl Hold {
    /// Equation 1, segments per ns.
    fn faster(&self, view: &View<'_>) -> f64 {
        let own = &view.subflows[view.own];
        let siblings = view.subflows.iter().enumerate();
        let faster = siblings.filter(|(id, peer)| {
            let counts = peer.usable && !(peer.held || peer.timed_out);
            *id != view.own && counts && least_time(peer) < least_time(own)
        });
        faster.map(|(id, _)| self.subflows[id].best()).sum()
    }

    /// R T of equations 1 and 2, segments; and R srtt N.
    fn sent_meanwhile(&self, view: &View<'_>) -> (f64, f64) {
        let own = &view.subflows[view.own];
        if !own.usable {
            return (0.0, 0.0);
        }
        let (faster, srtt) = (self.faster(view) * rounds(own), own.srtt as f64);
        (faster * srtt.max(LEAST_RTTS * own.min_rtt as f64), faster * srtt)
    }
}

impl PathPolicy for Hold {
    fn rate(&mut self, view: View<'_>) -> f64 {
        if let Some(rate) = view.delivers {
            self.subflows[view.own].remember(view.now, rate);
        }
        let own = &view.subflows[view.own];
        let (meanwhile, repairing) = self.sent_meanwhile(&view);
        let state = &mut self.subflows[view.own];
        state.limit = None;
        // Equation 3.
        let part = if own.held && !view.grows { RELEASED_BELOW } else { 1.0 };
        if meanwhile > part * view.window {
            return 0.0;
        }
        let best = state.best();
        let rate = if best == 0.0 {
            pacing_rate(&Peer { pace: 0.0, held: false, ..*own })
        } else {
            DEMAND * best.min(own.window / own.srtt.max(1) as f64)
        };
        let starts = meanwhile > 0.0 && own.ssthresh >= INFINITE_SSTHRESH;
        let overflows = starts || meanwhile + repairing > view.window;
        state.limit = (overflows && view.waiting > BURST).then_some(rate);
        rate
    }

    fn limit(&self, subflow: usize) -> Option<f64> {
        self.subflows[subflow].limit
    }

    fn buffered(&self, view: View<'_>) -> f64 {
        let cwnd = view.subflows[view.own].cwnd.max(LEAST_WINDOW);
        // A number of windows. A rate may be that of a burst, and the buffer never shrinks: it at most doubles at a time,
        // and beyond the peer's window it does not grow.
        let meanwhile = self.sent_meanwhile(&view).0.min(view.window);
        (WINDOWS * meanwhile / cwnd).floor() * cwnd / WINDOWS
    }

    fn unsent(&self, view: View<'_>) -> f64 {
        let active = view.subflows.iter().filter(|peer| peer.usable && !peer.held);
        let longest = active.map(|peer| peer.srtt).max().unwrap_or(0);
        let best = self.subflows[view.own].best();
        view.subflows[view.own].window.max(WAITING_RTTS * best * longest as f64)
    }

    fn reset(&mut self, subflow: usize, _path: Parameters) {
        self.subflows.resize(self.subflows.len().max(subflow + 1), State::default());
        self.subflows[subflow] = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::pacing::per_rtt;
    use crate::units::MILLISECOND;

    /// 20 Mbit/s with an RTT of 20 ms, beside 5 Mbit/s with 200 ms: some 1.7 and 0.4 segments per ms.
    fn subflows() -> [Peer; 2] {
        [(20, 35.0), (200, 86.0)].map(|(rtt_ms, window)| Peer {
            usable: true,
            srtt: rtt_ms * MILLISECOND,
            min_rtt: rtt_ms * MILLISECOND,
            window,
            cwnd: window,
            ssthresh: window,
            paced: per_rtt(window, window, 0),
            ..Peer::default()
        })
    }

    fn segments_per_ms(number: f64) -> Option<f64> {
        Some(number / MILLISECOND as f64)
    }

    /// View of a subflow with no new sample of its rate, and a program that always has more.
    fn view(subflows: &[Peer], own: usize, window: f64) -> View<'_> {
        View {
            subflows,
            own,
            delivers: None,
            delivered: 0,
            window,
            grows: false,
            waiting: 1e9,
            now: 0,
        }
    }

    /// Both subflows have delivered at their rates.
    fn warm(subflows: &[Peer]) -> Hold {
        let mut hold = Hold::default();
        for (own, delivers) in [(0, segments_per_ms(1.7)), (1, segments_per_ms(0.4))] {
            hold.reset(own, Parameters::default());
            hold.rate(View { delivers, ..view(subflows, own, 1e9) });
        }
        hold
    }

    #[test]
    fn the_slower_is_held_while_the_faster_would_fill_the_window_and_released_below_a_part_of_it() {
        let mut subflows = subflows();
        let mut hold = warm(&subflows);
        // Equations 1 and 2: 1.7 segments per ms for 250 ms are 425.
        let mut rate = |own, window| {
            let view = view(&subflows, own, window);
            let rate = hold.rate(view);
            subflows[own].held = rate == 0.0;
            rate
        };
        assert!(rate(1, 430.0) > 0.0);
        assert_eq!(rate(1, 420.0), 0.0);
        assert_eq!(rate(1, 500.0), 0.0, "425 is above 27/32 of 500");
        assert!(rate(1, 510.0) > 0.0);
        assert!(rate(0, 1.0) > 0.0, "nothing is faster");
    }

    #[test]
    fn a_sibling_that_is_held_or_silent_is_not_waited_for() {
        for change in [|peer: &mut Peer| peer.held = true, |peer: &mut Peer| peer.timed_out = true]
        {
            let mut subflows = subflows();
            let mut hold = warm(&subflows);
            change(&mut subflows[0]);
            let view = view(&subflows, 1, 10.0);
            assert!(hold.rate(view) > 0.0);
        }
    }

    #[test]
    fn a_window_of_a_few_segments_takes_round_trips_for_a_burst_but_not_before_the_first_loss() {
        // Equal RTTs, but a burst of 46 segments takes 23 of them with a window of 2.
        let mut subflows = subflows();
        (subflows[1].srtt, subflows[1].min_rtt) = (subflows[0].srtt, subflows[0].min_rtt);
        (subflows[0].window, subflows[1].window) = (50.0, 2.0);
        let mut hold = warm(&subflows);
        // 1.7 segments per ms for 25 ms 23 times are 978.
        let mut rate = |subflows: &[Peer], own, window| hold.rate(view(subflows, own, window));
        assert!(rate(&subflows, 1, 1000.0) > 0.0);
        assert_eq!(rate(&subflows, 1, 950.0), 0.0);
        assert!(rate(&subflows, 0, 1.0) > 0.0, "the other way round nothing is waited for");
        subflows[1].ssthresh = INFINITE_SSTHRESH;
        assert!(rate(&subflows, 1, 10.0) > 0.0);
    }

    #[test]
    fn as_much_waits_unsent_as_a_window_or_what_is_delivered_in_three_of_the_longest_rtt() {
        let mut subflows = subflows();
        let hold = warm(&subflows);
        let unsent = |subflows: &[Peer], own| hold.unsent(view(subflows, own, 1e9));
        let close = |number: f64, expected: f64| assert!((number - expected).abs() < 1e-6);
        // Equation 6: 1.7 segments per ms for three times 200 ms, and 0.4.
        close(unsent(&subflows, 0), 1020.0);
        close(unsent(&subflows, 1), 240.0);
        subflows[1].held = true;
        close(unsent(&subflows, 0), 102.0);
        subflows[0].window = 110.0;
        close(unsent(&subflows, 0), 110.0);
    }

    #[test]
    fn who_would_hold_up_faster_ones_by_a_repair_is_paced_and_its_buffer_has_room_for_them() {
        let subflows = subflows();
        let mut hold = warm(&subflows);
        let mut paced = |own, window| {
            let view = view(&subflows, own, window);
            let rate = hold.rate(view);
            (hold.limit(own) == Some(rate), hold.limit(own), hold.buffered(view))
        };
        // R T is 425, and R srtt 340: beyond 760, and nine halves of a window of 86.
        assert_eq!(paced(1, 760.0), (true, segments_per_ms(0.8), 9.0 * 86.0 / 2.0));
        assert_eq!(paced(1, 770.0), (false, None, 9.0 * 86.0 / 2.0));
        assert_eq!(paced(1, 400.0).1, None, "held");
        assert_eq!(paced(0, 10.0), (false, None, 0.0), "nothing is faster");
    }

    #[test]
    fn a_rate_of_a_burst_makes_no_buffer_beyond_the_window() {
        let subflows = subflows();
        let mut hold = warm(&subflows);
        // A thousand segments at once, as through a token bucket: R T is 250,000.
        hold.rate(View { delivers: segments_per_ms(1000.0), ..view(&subflows, 0, 1e9) });
        let buffered = |window| hold.buffered(view(&subflows, 1, window));
        assert_eq!(buffered(1e9), 250_000_f64.div_euclid(43.0) * 43.0);
        assert_eq!(buffered(430.0), 430.0);
        assert_eq!(buffered(42.0), 0.0);
    }

    #[test]
    fn before_its_first_loss_a_slower_one_is_paced_whatever_the_window_but_not_for_messages() {
        let mut subflows = subflows();
        subflows.iter_mut().for_each(|peer| peer.ssthresh = INFINITE_SSTHRESH);
        let mut hold = warm(&subflows);
        let paced = segments_per_ms(0.8);
        for (own, waiting, limit) in [(0, 1e9, None), (1, 1e9, paced), (1, 40.0, None)] {
            let window = 1e9;
            let view = View { waiting, ..view(&subflows, own, window) };
            hold.rate(view);
            assert_eq!(hold.limit(own), limit);
        }
    }

    #[test]
    fn a_window_that_grows_by_being_used_releases_at_once() {
        let mut subflows = subflows();
        let mut hold = warm(&subflows);
        subflows[1].held = true;
        let mut rate = |window, grows| {
            let view = View { grows, ..view(&subflows, 1, window) };
            hold.rate(view)
        };
        assert_eq!(rate(430.0, false), 0.0, "425 is above 27/32 of it");
        assert!(rate(430.0, true) > 0.0);
        assert_eq!(rate(420.0, true), 0.0);
    }

    #[test]
    fn slow_start_does_not_ask_for_more_than_twice_what_was_delivered() {
        let mut subflows = subflows();
        subflows[1].window = 1000.0;
        let mut hold = warm(&subflows);
        let rate = |hold: &mut Hold, now| {
            hold.rate(View { delivers: segments_per_ms(0.1), now, ..view(&subflows, 1, 1e9) })
        };
        let close = |rate: f64, per_ms: f64| (rate * MILLISECOND as f64 - per_ms).abs() < 1e-9;
        assert!(close(rate(&mut hold, 0), 0.8));
        assert!(close(rate(&mut hold, MEMORY), 0.8), "of the last period");
        assert!(close(rate(&mut hold, 2 * MEMORY), 0.2), "forgotten");
    }
}
