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
/// Processor time that simulations may take at once, and the part of the time that they may take in the long run, as one in so
/// many.
const BURST_NS: Nanos = SECOND;
const SHARE: u64 = 400;

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
    let began_ns = sys::monotonic_ns();
    while let Ok((lines, buffer)) = asked.recv() {
        forecaster.throughput(&lines, buffer);
        thread::sleep(pause(sys::monotonic_ns() - began_ns, sys::thread_cpu_ns()));
    }
}

/// The time to wait after so much of it, and of the processor's.
fn pause(elapsed_ns: Nanos, spent_ns: Nanos) -> Duration {
    let owed_ns = spent_ns.saturating_sub(BURST_NS + elapsed_ns / SHARE);
    Duration::from_nanos(owed_ns.saturating_mul(SHARE))
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
        assert_eq!(pause(0, BURST_NS), Duration::ZERO);
        assert_eq!(pause(400 * SECOND, BURST_NS + SECOND), Duration::ZERO);
        assert_eq!(pause(0, BURST_NS + 10 * MILLISECOND), Duration::from_secs(4));
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
