//! prefer: an order of paths; one takes data when those before it are full (`bpf/scheduling/prefer.h`, whose equations these
//! are).
//!
//! ```text
//! (1)  j is full once half a window has waited unsent at each of its ACKs for 2 srtt_j after its first slow start, until for as
//!      long less than a quarter has
//! (2)  hold while a sibling before it in the order, that is not held itself and has made progress since an RTO, is not full
//! (3)  rate of a subflow that is not held: that of the window algorithm
//! ```
//!
//! Paths without a place in the order come after those that have one, and never hold each other.

use super::{Parameters, PathPolicy, View};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::units::Nanos;

/// Equation 1: for how long the queue is looked at, in RTTs.
const RTTS: Nanos = 2;

/// State of a subflow.
#[derive(Debug, Clone, Copy)]
struct State {
    rank: u32,
    full: bool,
    /// Since when the queue shows the contrary.
    since: Option<Nanos>,
}

impl State {
    fn of(rank: u32) -> Self {
        Self { rank, full: false, since: None }
    }

    /// Equation 1.
    fn observe(&mut self, own: &Peer, now: Nanos) {
        let unsent = f64::from(own.outstanding - own.sent);
        let changes = if self.full {
            unsent < own.window / 4.0
        } else {
            unsent >= own.window / 2.0 && own.ssthresh < INFINITE_SSTHRESH
        };
        let since = changes.then(|| self.since.unwrap_or(now));
        let lasts = since.is_some_and(|since| now - since >= RTTS * own.srtt);
        self.full ^= lasts;
        self.since = since.filter(|_| !lasts);
    }
}

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Prefer {
    subflows: Vec<State>,
}

impl Prefer {
    /// Equation 2.
    fn others_have_room(&self, view: &View<'_>) -> bool {
        let own = self.subflows[view.own].rank;
        let counts = |peer: &Peer| peer.usable && !(peer.held || peer.timed_out);
        let siblings = view.subflows.iter().zip(&self.subflows).enumerate();
        view.subflows[view.own].usable
            && siblings
                .filter(|(id, (peer, _))| *id != view.own && counts(peer))
                .any(|(_, (_, state))| state.rank < own && !state.full)
    }
}

impl PathPolicy for Prefer {
    fn rate(&mut self, view: View<'_>) -> f64 {
        self.subflows[view.own].observe(&view.subflows[view.own], view.now);
        if self.others_have_room(&view) { 0.0 } else { f64::INFINITY }
    }

    fn reset(&mut self, subflow: usize, path: Parameters) {
        self.subflows.resize(self.subflows.len().max(subflow + 1), State::of(u32::MAX));
        self.subflows[subflow] = State::of(path.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;

    /// RTT of both, ms.
    const RTT_MS: u64 = 20;

    fn subflow(unsent: u32) -> Peer {
        Peer {
            usable: true,
            srtt: RTT_MS * MILLISECOND,
            min_rtt: RTT_MS * MILLISECOND,
            window: 40.0,
            ssthresh: 30.0,
            sent: 40,
            outstanding: 40 + unsent,
            ..Peer::default()
        }
    }

    fn ordered() -> Prefer {
        let mut prefer = Prefer::default();
        for (subflow, rank) in [(0, 0), (1, 1)] {
            prefer.reset(subflow, Parameters { rank, ..Parameters::default() });
        }
        prefer
    }

    /// The rate of one at a time, ms.
    fn rate(prefer: &mut Prefer, subflows: &[Peer], own: usize, now_ms: u64) -> f64 {
        let now = now_ms * MILLISECOND;
        prefer.rate(View {
            subflows,
            own,
            delivers: None,
            delivered: 0,
            window: 1e9,
            grows: false,
            waiting: 1e9,
            now,
        })
    }

    #[test]
    fn the_second_takes_data_once_the_first_has_been_full_for_two_round_trips() {
        let mut prefer = ordered();
        let (idle, full) = ([subflow(0), subflow(0)], [subflow(20), subflow(0)]);
        assert_eq!(rate(&mut prefer, &idle, 1, 0), 0.0);
        for (now_ms, expected) in [(100, 0.0), (139, 0.0), (140, f64::INFINITY)] {
            assert_eq!(rate(&mut prefer, &full, 0, now_ms), f64::INFINITY);
            assert_eq!(rate(&mut prefer, &full, 1, now_ms), expected, "{now_ms} ms");
        }
        // A quarter of a window still waits, then less, for two round trips.
        for (unsent, now_ms, expected) in
            [(10, 200, f64::INFINITY), (9, 300, f64::INFINITY), (0, 340, 0.0)]
        {
            let both = [subflow(unsent), subflow(0)];
            rate(&mut prefer, &both, 0, now_ms);
            assert_eq!(rate(&mut prefer, &both, 1, now_ms), expected, "{unsent} wait");
        }
    }

    #[test]
    fn slow_start_is_not_full_and_who_is_silent_or_held_is_not_waited_for() {
        let starting = [Peer { ssthresh: INFINITE_SSTHRESH, ..subflow(400) }, subflow(0)];
        let mut prefer = ordered();
        for now_ms in [0, 1000] {
            rate(&mut prefer, &starting, 0, now_ms);
            assert_eq!(rate(&mut prefer, &starting, 1, now_ms), 0.0);
        }
        for change in [|peer: &mut Peer| peer.held = true, |peer: &mut Peer| peer.timed_out = true]
        {
            let mut subflows = [subflow(0), subflow(0)];
            change(&mut subflows[0]);
            assert_eq!(rate(&mut prefer, &subflows, 1, 0), f64::INFINITY);
        }
    }

    #[test]
    fn paths_without_a_place_come_last_and_never_hold_each_other() {
        let mut prefer = Prefer::default();
        prefer.reset(0, Parameters::default());
        prefer.reset(1, Parameters::default());
        let subflows = [subflow(0), subflow(0)];
        assert_eq!(rate(&mut prefer, &subflows, 0, 0), f64::INFINITY);
        assert_eq!(rate(&mut prefer, &subflows, 1, 0), f64::INFINITY);
        prefer.reset(1, Parameters { rank: 7, ..Parameters::default() });
        assert_eq!(rate(&mut prefer, &subflows, 0, 0), 0.0);
    }
}
