//! A fixed window: a toy that shows what adding a congestion control takes. No specification has it.
//!
//! The same number of segments is in flight whatever was acknowledged or lost.

use super::{Ack, CongestionControl, Peers, Window};
use crate::units::Nanos;

/// The window, segments.
const WINDOW: f64 = 20.0;

/// Fixedwin has no state.
#[derive(Debug, Clone, Default)]
pub struct Fixedwin;

impl CongestionControl for Fixedwin {
    fn on_ack(&mut self, window: &mut Window, _ack: &Ack, _peers: Peers<'_>) {
        window.cwnd = WINDOW;
    }

    fn on_congestion(&mut self, window: &Window, _now: Nanos, _peers: Peers<'_>) -> f64 {
        window.cwnd.min(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::testing::{Flow, avoiding};
    use crate::units::MILLISECOND;

    #[test]
    fn the_window_is_the_same_after_every_round() {
        let mut flow = Flow::new(Fixedwin, avoiding(100.0), 50 * MILLISECOND);
        flow.round();
        assert_eq!(flow.window.cwnd, WINDOW);
    }
}
