//! cap: at most so many bit/s of payload on a path (`bpf/scheduling/cap.h`, whose equation this is).
//!
//! ```text
//! (1)  rate = min(rate of the window algorithm, cap), enforced by pacing
//! ```
//!
//! A path without a cap has the window algorithm alone.

use super::{Parameter, Parameters, PathPolicy, View};

/// The policy of a connection.
#[derive(Debug, Clone, Default)]
pub struct Cap {
    /// Of each subflow, segments per ns.
    caps: Vec<f64>,
}

impl PathPolicy for Cap {
    const GOES_BY: Option<Parameter> = Some(Parameter::Cap);

    fn rate(&mut self, _view: View<'_>) -> f64 {
        f64::INFINITY
    }

    fn limit(&self, subflow: usize) -> Option<f64> {
        Some(self.caps[subflow]).filter(|cap| cap.is_finite())
    }

    fn reset(&mut self, subflow: usize, path: Parameters) {
        self.caps.resize(self.caps.len().max(subflow + 1), f64::INFINITY);
        self.caps[subflow] = path.cap;
    }
}
