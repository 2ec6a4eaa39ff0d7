//! The upstream kernel's default scheduler (`net/mptcp/protocol.c`, `mptcp_subflow_get_send`): the subflow with the
//! shortest wait, its send queue divided by its pacing rate, gets a burst of up to 64 KiB, which ends with a fragment of
//! the send buffer. Each event leads to a new choice. A subflow whose rate is 0, because a path policy holds it, is skipped.
//!
//! Unlike the schedulers of the v0.9x kernels it ignores cwnd: segments that cannot leave at once wait in the subflow's
//! send queue. The pacing rate is an average over the data handed over, so a recent change of cwnd counts little while
//! the queue is long.

use super::{Candidates, Scheduler, Style, bits};
use crate::congestion::{INFINITE_SSTHRESH, Peer};
use crate::units::{NEVER, Nanos};

/// Linux `MPTCP_SEND_BURST_SIZE`, 65428 bytes, in segments of 1424 with the DSS option.
pub const BURST: f64 = 65_428.0 / 1424.0;

/// Round trips until the last of so many segments is acknowledged; before the first loss, while slow start opens the window, one.
pub fn rounds(peer: &Peer, burst: f64) -> f64 {
    let starts = peer.ssthresh >= INFINITE_SSTHRESH;
    if starts { 1.0 } else { (burst / peer.window.max(1.0)).max(1.0) }
}

/// The burst being handed out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Handout {
    chosen: usize,
    chosen_at: Nanos,
    /// Full segments.
    left: f64,
}

impl Handout {
    /// The subflow that takes the next segment: `choose` names the one for a new burst, and its length at most. None if its
    /// queue is full.
    #[inline]
    pub fn select(
        &mut self,
        candidates: &Candidates<'_>,
        choose: impl FnOnce() -> Option<(usize, f64)>,
    ) -> Option<usize> {
        let ended =
            self.left <= 0.0 && candidates.burst_may_end || candidates.now != self.chosen_at;
        if ended || candidates.usable >> self.chosen & 1 == 0 {
            self.left = 0.0;
            // Without a choice the next event makes one, also at this time.
            self.chosen_at = NEVER;
            let (chosen, most) = choose()?;
            (self.chosen, self.chosen_at) = (chosen, candidates.now);
            self.left = most.min(f64::from(candidates.window));
        }
        if candidates.ready >> self.chosen & 1 == 0 {
            self.left = 0.0;
            return None;
        }
        Some(self.chosen)
    }

    /// Some of it is left.
    #[inline]
    pub fn continues(&self) -> bool {
        self.left > 0.0
    }

    /// The next segment needs a new choice (Linux `__mptcp_push_pending`, which asks the scheduler first).
    pub fn end(&mut self) {
        self.chosen_at = NEVER;
    }

    /// So many full segments went to the subflow.
    #[inline]
    pub fn note_handed(&mut self, segments: f64) {
        self.left -= segments;
    }
}

/// The scheduler, with the average pacing rate of each subflow, 0 before its first burst.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    handout: Handout,
    paces: Paces,
}

/// Linux `sk_pacing_rate`, segments per ns: that of the path policy or the congestion control, otherwise TCP's own of the
/// last ACK.
pub fn pacing_rate(subflow: &Peer) -> f64 {
    if subflow.pace > 0.0 || subflow.held {
        return subflow.pace;
    }
    subflow.paced / subflow.srtt.max(1) as f64
}

/// The average pacing rates.
#[derive(Debug, Clone, Default)]
struct Paces(Vec<f64>);

impl Paces {
    /// The subflow for a burst, and its length.
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<(usize, f64)> {
        let id = self.shortest(candidates)?;
        if candidates.ready >> id & 1 == 1 {
            self.average(id, &candidates.subflows[id], BURST.min(f64::from(candidates.window)));
        }
        Some((id, BURST))
    }

    /// The subflow with the shortest wait, even when its queue is full: then all wait.
    fn shortest(&mut self, candidates: &Candidates<'_>) -> Option<usize> {
        if self.0.len() < candidates.subflows.len() {
            self.0.resize(candidates.subflows.len(), 0.0);
        }
        let waits = bits(candidates.usable).filter_map(|id| {
            let (subflow, pace) = (&candidates.subflows[id], &mut self.0[id]);
            if *pace == 0.0 {
                *pace = pacing_rate(subflow);
            }
            (*pace > 0.0).then(|| (subflow.memory / *pace, subflow.rank, id))
        });
        // Of equal ones the first in the list: idle subflows all wait for nothing.
        waits.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, _, id)| id)
    }

    /// Adds a burst to the average, weighted by its length against that of the queue before it.
    fn average(&mut self, id: usize, subflow: &Peer, burst: f64) {
        let queue = subflow.memory;
        let pace = &mut self.0[id];
        *pace = (*pace * queue + pacing_rate(subflow) * burst) / (burst + queue);
    }
}

impl Scheduler for Kernel {
    const STYLE: Style = Style::Push;

    fn select(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        self.handout.select(&candidates, || self.paces.choose(&candidates))
    }

    #[inline]
    fn continues(&self) -> bool {
        self.handout.continues()
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
    use super::super::testing::{candidates, subflow};
    use super::*;

    #[test]
    fn the_queue_with_the_shortest_wait_gets_a_burst() {
        // 20 segments at 1 per ms wait longer than 30 at 3 per ms.
        let subflows = [subflow(100, 100, 20), subflow(10, 30, 29)];
        let mut scheduler = Kernel::default();
        let now = Candidates { ready: 0b11, ..candidates(&subflows, 1000, 1000) };
        let mut selected = vec![];
        for _ in 0..46 {
            selected.extend(scheduler.select(now));
            scheduler.note_handed(1.0);
        }
        assert_eq!((selected, scheduler.continues()), (vec![1; 46], false));
        let longer = [subflow(100, 100, 20), subflow(10, 30, 29 + 46)];
        let now = Candidates { ready: 0b11, ..candidates(&longer, 1000, 1000) };
        assert_eq!(scheduler.select(now), Some(0));
    }

    #[test]
    fn each_write_makes_a_new_choice_also_at_the_same_time() {
        let mut scheduler = Kernel::default();
        let mut selected = vec![];
        // Two responses of 14 segments: the first leaves the other subflow with the shorter wait.
        let mut queued = [0, 0];
        for _ in 0..2 {
            scheduler.on_write();
            for _ in 0..14 {
                let subflows = [subflow(10, 20, queued[0]), subflow(20, 30, queued[1])];
                let now = Candidates { ready: 0b11, ..candidates(&subflows, 1000, 1000) };
                let id = scheduler.select(now).unwrap();
                scheduler.note_handed(1.0);
                queued[id] += 1;
                selected.push(id);
            }
        }
        let expected: Vec<_> = [0; 14].into_iter().chain([1; 14]).collect();
        assert_eq!(selected, expected);
    }

    #[test]
    fn the_pace_is_the_controllers_or_that_of_the_last_ack() {
        // 120 % of 40 segments in 10 ms, whatever became of the window since.
        let open = subflow(10, 40, 40);
        let close = |pace: f64, expected: f64| assert!((pace * 1e6 / expected - 1.0).abs() < 1e-9);
        close(pacing_rate(&open), 1.2 * 4.0);
        close(pacing_rate(&Peer { window: 10.0, sent: 0, ..open }), 1.2 * 4.0);
        close(pacing_rate(&Peer { pace: 3e-6, ..open }), 3.0);
    }

    #[test]
    fn a_full_send_queue_of_the_best_subflow_holds_up_all_subflows() {
        let subflows = [subflow(100, 100, 20), subflow(10, 30, 29)];
        let now = Candidates { ready: 0b01, ..candidates(&subflows, 1000, 1000) };
        assert_eq!(Kernel::default().select(now), None);
    }

    #[test]
    fn a_held_subflow_is_skipped_once_its_queue_is_empty_and_takes_part_again_when_released() {
        let held = |outstanding| Peer { held: true, ..subflow(100, 100, outstanding) };
        let other = subflow(10, 30, 29);
        let mut scheduler = Kernel::default();
        let mut select = |first: Peer, now| {
            let subflows = [first, other];
            let event = Candidates { ready: 0b11, now, ..candidates(&subflows, 1000, 1000) };
            scheduler.select(event)
        };
        assert_eq!(select(subflow(100, 100, 0), 1), Some(0));
        // The average before a burst that finds the queue empty is forgotten with it.
        assert_eq!(select(held(0), 2), Some(0));
        assert_eq!(select(held(0), 3), Some(1));
        assert_eq!(select(subflow(100, 100, 0), 4), Some(0));
        let all = [held(0), held(0)];
        let event = Candidates { ready: 0b11, ..candidates(&all, 1000, 1000) };
        assert_eq!(Kernel::default().select(event), None);
    }

    #[test]
    fn a_window_that_collapsed_counts_little_while_the_queue_is_long() {
        // 100 segments in the queue and bursts of one: the average of 3 per ms barely moves, and 100
        // segments at 3 per ms leave sooner than 50 at 1 per ms.
        let before = [subflow(100, 100, 100), subflow(10, 30, 100)];
        let mut scheduler = Kernel::default();
        assert_eq!(
            scheduler.select(Candidates { ready: 0b11, ..candidates(&before, 1, 1000) }),
            Some(1)
        );
        let after = [subflow(100, 100, 50), subflow(10, 3, 100)];
        assert_eq!(
            scheduler.select(Candidates { ready: 0b11, ..candidates(&after, 1, 1000) }),
            Some(1)
        );
    }
}
