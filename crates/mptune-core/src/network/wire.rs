//! The wire behind a line: independent and bursty loss, delay, jitter, reordering, duplication. Delay and loss may
//! change over time.

use super::chance::Chance;
use super::counters::LinkCounters;
use super::effects::States;
use super::schedule::{Timeline, timeline};
use super::spec::LinkSpec;
use super::stream::Streams;
use crate::engine::Random;
use crate::units::Nanos;

/// Arrival of a packet at the far end, and its number of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub at: Nanos,
    pub copies: u8,
}

/// The wire of a composite link. Losses and jitter are drawn from the same stream, and in the same
/// order, as for a plain link.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    delay: Timeline<Nanos>,
    loss: Timeline<Chance>,
    jitter: Nanos,
    effects: States,
    duplication: Chance,
    /// Arrival of the last in-order packet at the far end.
    last_exit: Nanos,
    random: Random,
    copier: Random,
}

impl Wire {
    pub fn new(spec: &LinkSpec, streams: Streams) -> Self {
        let schedule = spec.schedule.as_ref();
        Self {
            delay: timeline(schedule, spec.delay_ns, |step| step.delay_ns),
            loss: timeline(schedule, Chance::ppb(spec.loss_ppb), |step| {
                step.loss_ppb.map(Chance::ppb)
            }),
            jitter: spec.jitter_ns,
            effects: States::new(spec.effects(), streams),
            duplication: Chance::ppb(spec.duplicate_ppb),
            last_exit: 0,
            random: streams.wire(),
            copier: streams.duplication(),
        }
    }

    /// The exit of a packet sent at `sent`, no earlier than any before it; none if it is lost.
    pub fn cross(&mut self, sent: Nanos, counters: &mut LinkCounters) -> Option<Exit> {
        let lost = self.loss.at(sent).happens(&mut self.random);
        if self.effects.lose() || lost {
            counters.lost += 1;
            return None;
        }
        let mut at = sent + self.delay.at(sent);
        if self.jitter > 0 {
            at += self.random.up_to(self.jitter);
        }
        at = at.max(self.last_exit);
        match self.effects.lateness() {
            Some(late) => at += late,
            None => self.last_exit = at,
        }
        let twice = self.duplication.happens(&mut self.copier);
        counters.duplicated += u64::from(twice);
        counters.forwarded += 1 + u64::from(twice);
        Some(Exit { at, copies: 1 + u8::from(twice) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::ReorderSpec;
    use crate::network::schedule::{ScheduleSpec, StepSpec};
    use crate::units::MILLISECOND;

    const MS: Nanos = MILLISECOND;

    fn exits(
        spec: &LinkSpec,
        sent: impl Iterator<Item = Nanos>,
    ) -> (Vec<Option<Exit>>, LinkCounters) {
        let mut wire = Wire::new(spec, Streams::new(7, 0));
        let mut counters = LinkCounters::default();
        (sent.map(|at| wire.cross(at, &mut counters)).collect(), counters)
    }

    #[test]
    fn a_falling_delay_keeps_the_order() {
        let step = StepSpec { at_ns: 10 * MS, delay_ns: Some(5 * MS), ..StepSpec::default() };
        let schedule = ScheduleSpec { steps: vec![step], period_ns: None };
        let spec = LinkSpec { delay_ns: 30 * MS, schedule: Some(schedule), ..LinkSpec::default() };
        let (exits, _) = exits(&spec, [9, 10, 30, 36].map(|at| at * MS).into_iter());
        let at: Vec<_> = exits.iter().flatten().map(|exit| exit.at / MS).collect();
        assert_eq!(at, [39, 39, 39, 41]);
    }

    #[test]
    fn a_scheduled_loss_lasts_until_its_next_step() {
        let step = |at_ns, loss| StepSpec { at_ns, loss_ppb: Some(loss), ..StepSpec::default() };
        let steps = vec![step(10, 1_000_000_000), step(20, 0)];
        let schedule = Some(ScheduleSpec { steps, period_ns: None });
        let (exits, counters) = exits(&LinkSpec { schedule, ..LinkSpec::default() }, 0..30);
        let lost: Vec<_> = (0..30).filter(|&at| exits[at].is_none()).collect();
        assert_eq!(lost, (10..20).collect::<Vec<_>>());
        assert_eq!((counters.lost, counters.forwarded), (10, 20));
    }

    #[test]
    fn late_packets_are_as_many_and_as_late_as_requested_and_the_others_do_not_wait() {
        let reorder = Some(ReorderSpec { probability_ppb: 100_000_000, delay_ns: 50 });
        let (exits, _) =
            exits(&LinkSpec { delay_ns: 7, reorder, ..LinkSpec::default() }, 0..20_000);
        let extra: Vec<_> =
            exits.iter().flatten().zip(0..).map(|(exit, sent)| exit.at - sent - 7).collect();
        let late = extra.iter().filter(|&&extra| extra == 50).count();
        assert_eq!(late + extra.iter().filter(|&&extra| extra == 0).count(), 20_000);
        // Binomial(20000, 0.1): mean 2000, standard deviation 42.4; five of them.
        assert!((1788..=2212).contains(&late), "{late}");
    }

    #[test]
    fn copies_are_as_many_as_requested_and_come_with_the_original() {
        let spec = LinkSpec { duplicate_ppb: 50_000_000, ..LinkSpec::default() };
        let (exits, counters) = exits(&spec, 0..20_000);
        let copies: u64 = exits.iter().flatten().map(|exit| u64::from(exit.copies) - 1).sum();
        // Binomial(20000, 0.05): mean 1000, standard deviation 30.8; five of them.
        assert!((846..=1154).contains(&copies), "{copies}");
        assert_eq!((counters.duplicated, counters.forwarded), (copies, 20_000 + copies));
    }

    #[test]
    fn an_effect_does_not_change_what_another_draws() {
        let plain = LinkSpec { loss_ppb: 100_000_000, jitter_ns: 5, ..LinkSpec::default() };
        let copied = LinkSpec { duplicate_ppb: 300_000_000, ..plain.clone() };
        let at =
            |spec| exits(spec, 0..1000).0.into_iter().map(|e| e.map(|e| e.at)).collect::<Vec<_>>();
        assert_eq!(at(&plain), at(&copied));
    }
}
