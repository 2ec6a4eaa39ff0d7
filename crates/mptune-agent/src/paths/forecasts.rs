//! Forecasts for path managers: simulations in a thread of their own, so that nobody waits for one, and within a budget of the
//! processor's time. Networks that are nearly alike, of whatever connection, are simulated once.

use crate::kernel::{sys, sysctl};
use crate::undo::places;
use crate::undo::sysctl::DEFAULT_CC;
use mptune_core::pathmanager::{Forecast, Line};
use mptune_core::trial::Forecaster;
use mptune_core::units::{Bytes, Nanos, SECOND};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Questions that wait; others are asked again.
const WAITING: usize = 64;
/// Processor time that this process may take at once for simulations, and what all of it may take in the long run, as one part
/// of the time in so many; simulations wait for the rest to be cheaper, but have a part of their own.
const BURST_NS: Nanos = SECOND / 2;
const SHARE: u64 = 100;
const OWN_SHARE: u64 = 1000;

/// A question.
type Question = (Vec<Line>, Bytes);

/// Answers what is known, and lets the rest be simulated.
#[derive(Debug)]
struct Background {
    forecaster: Arc<Forecaster>,
    questions: SyncSender<Question>,
}

impl Forecast for Background {
    fn throughput(&self, lines: &[Line], buffer: Bytes) -> Option<f64> {
        let known = self.forecaster.known(lines, buffer);
        if known.is_none() {
            // It is asked again at the next sample.
            let _ = self.questions.try_send((lines.to_vec(), buffer));
        }
        known
    }
}

/// Forecasts of connections with this congestion control, by its name in the kernel or of a trial; none for that of the host.
pub fn of(cc: Option<&str>) -> Arc<dyn Forecast> {
    let of_host = || {
        let file = sysctl::file(&places::sysctl_root(), DEFAULT_CC).ok()?;
        sysctl::read(&file).ok()
    };
    let cc = cc.map(str::to_owned).or_else(of_host).unwrap_or_default();
    let forecaster = Arc::new(Forecaster::of_host(&name(&cc)));
    let (questions, asked) = sync_channel(WAITING);
    let answering = Arc::clone(&forecaster);
    // Without a thread there are no answers, and nothing is tried.
    let _ =
        thread::Builder::new().name("forecasts".into()).spawn(move || answer(&answering, &asked));
    Arc::new(Background { forecaster, questions })
}

/// A kernel's name of a congestion control as the simulator has it: `mptune_olia`, `cubic_hold`.
fn name(kernel: &str) -> String {
    kernel.trim().trim_start_matches("mptune_").replacen('_', "+", 1)
}

/// Until nobody can ask any more.
fn answer(forecaster: &Forecaster, asked: &Receiver<Question>) {
    let (began_ns, before_ns) = (sys::monotonic_ns(), sys::cpu_ns());
    while let Ok((lines, buffer)) = asked.recv() {
        forecaster.throughput(&lines, buffer);
        let elapsed_ns = sys::monotonic_ns() - began_ns;
        thread::sleep(pause(elapsed_ns, sys::cpu_ns() - before_ns, sys::thread_cpu_ns()));
    }
}

/// The time to wait after so much of it, and of the processor's for the process and for simulations.
fn pause(elapsed_ns: Nanos, process_ns: Nanos, own_ns: Nanos) -> Duration {
    let wait = |spent_ns: Nanos, share: u64| {
        spent_ns.saturating_sub(BURST_NS + elapsed_ns / share).saturating_mul(share)
    };
    Duration::from_nanos(wait(process_ns, SHARE).min(wait(own_ns, OWN_SHARE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mptune_core::units::MILLISECOND;

    #[test]
    fn names_of_the_kernel_are_those_of_the_simulator() {
        for (kernel, simulated) in
            [("cubic\n", "cubic"), ("mptune_olia", "olia"), ("cubic_hold", "cubic+hold")]
        {
            assert_eq!(name(kernel), simulated);
        }
    }

    #[test]
    fn simulations_take_a_burst_and_then_their_share() {
        let after = |spent_ns| pause(0, spent_ns, spent_ns);
        assert_eq!(after(BURST_NS), Duration::ZERO);
        assert_eq!(after(BURST_NS + 10 * MILLISECOND), Duration::from_secs(1));
        // An idle process has 1 % for them, a busy one a tenth of that.
        let burst_and = |share: u64| BURST_NS + 1000 * SECOND / share;
        assert_eq!(pause(1000 * SECOND, burst_and(100), burst_and(100)), Duration::ZERO);
        let busy = 50 * SECOND;
        assert_eq!(pause(1000 * SECOND, busy, burst_and(1000)), Duration::ZERO);
        let more = burst_and(1000) + 10 * MILLISECOND;
        assert_eq!(pause(1000 * SECOND, busy, more), Duration::from_secs(10));
    }

    #[test]
    fn a_question_is_answered_in_time_and_then_known() {
        let forecasts = of(Some("cubic"));
        let line = Line { rate_bps: 5_000_000, rtt: 20 * MILLISECOND, queue: 50_000, loss: 0.0 };
        let found = std::iter::repeat_with(|| {
            thread::sleep(Duration::from_millis(5));
            forecasts.throughput(&[line], 1 << 20)
        });
        let answer = found.take(12_000).flatten().next().expect("an answer within a minute");
        assert!((4e6..5.1e6).contains(&(8.0 * answer)), "{answer}");
        assert_eq!(forecasts.throughput(&[line], 1 << 20), Some(answer));
    }
}
