//! Timestamps (RFC 7323) and the RTT that a data receiver estimates from their echoes (Linux `net/ipv4/tcp_input.c`,
//! `tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_measure`, `tcp_rcv_rtt_update`).
//!
//! An acknowledgement carries the time at which it was sent, in whole milliseconds, and each data segment that of the
//! newest acknowledgement before it. Timestamps here have 16 bits: nothing is echoed after half a minute.

use crate::units::{MICROSECOND, MILLISECOND, Nanos};

/// The timestamp of what is sent now.
#[inline]
pub fn stamp(now: Nanos) -> u16 {
    // The lower 16 bits.
    (now / MILLISECOND) as u16
}

/// The newer of two timestamps (Linux `tcp_replace_ts_recent`).
#[inline]
pub fn newer(one: u16, other: u16) -> u16 {
    if other.wrapping_sub(one) as i16 > 0 { other } else { one }
}

/// The estimate of one subflow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echoes {
    /// The last echo.
    last: Option<u16>,
    /// Eight times the estimate, us; 0 before a sample (Linux `rcv_rtt_est.rtt_us`).
    eightfold: u64,
    /// Start of the current window (Linux `rcv_rtt_est.time`).
    window_began: Option<Nanos>,
}

impl Echoes {
    /// A segment arrived with this echo; `full` if none before it had more payload.
    #[inline]
    pub fn on_segment(&mut self, now: Nanos, echo: u16, full: bool) {
        if self.last == Some(echo) {
            return;
        }
        self.last = Some(echo);
        let elapsed = stamp(now).wrapping_sub(echo);
        if full && elapsed > 0 && elapsed < 1 << 15 {
            self.smooth(Nanos::from(elapsed) * MILLISECOND);
        }
    }

    /// A window of data has arrived since the last call: that took an RTT at most.
    #[inline]
    pub fn on_window(&mut self, now: Nanos) {
        if let Some(began) = self.window_began {
            let sample = 8 * ((now - began) / MICROSECOND).max(1);
            if self.eightfold == 0 || sample < self.eightfold {
                self.eightfold = sample;
            }
        }
        self.window_began = Some(now);
    }

    /// A smaller sample applies at once, a larger one by an eighth.
    fn smooth(&mut self, sample: Nanos) {
        let (sample, before) = (sample / MICROSECOND, self.eightfold);
        let at_once = before == 0 || 8 * sample < before;
        self.eightfold = if at_once { 8 * sample } else { before - before / 8 + sample };
    }

    /// The estimate, 0 before a sample.
    #[inline]
    pub fn rtt(&self) -> Nanos {
        self.eightfold / 8 * MICROSECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_falls_at_once_and_rises_by_eighths() {
        let mut echoes = Echoes::default();
        echoes.on_segment(40 * MILLISECOND, 10, true);
        assert_eq!(echoes.rtt(), 30 * MILLISECOND);
        echoes.on_segment(61 * MILLISECOND, 15, true);
        assert_eq!(echoes.rtt(), 32 * MILLISECOND);
        echoes.on_segment(62 * MILLISECOND, 15, true);
        assert_eq!(echoes.rtt(), 32 * MILLISECOND, "each echo counts once");
        echoes.on_segment(62 * MILLISECOND + 999_999, 42, true);
        assert_eq!(echoes.rtt(), 20 * MILLISECOND, "in whole milliseconds");
        echoes.on_segment(64 * MILLISECOND, 63, false);
        assert_eq!(echoes.rtt(), 20 * MILLISECOND, "a short segment tells nothing");
        echoes.on_segment(64 * MILLISECOND, 64, true);
        assert_eq!(echoes.rtt(), 20 * MILLISECOND, "less than a millisecond tells nothing");
    }

    #[test]
    fn a_window_of_data_bounds_the_estimate() {
        let mut echoes = Echoes::default();
        echoes.on_window(5 * MILLISECOND);
        assert_eq!(echoes.rtt(), 0);
        for (now, rtt) in [(45, 40), (100, 40), (130, 30)] {
            echoes.on_window(now * MILLISECOND);
            assert_eq!(echoes.rtt(), rtt * MILLISECOND);
        }
    }

    #[test]
    fn timestamps_wrap() {
        assert_eq!(stamp(65_537 * MILLISECOND), 1);
        assert_eq!((newer(65_535, 1), newer(1, 65_535), newer(4, 4)), (1, 1, 4));
        let mut echoes = Echoes::default();
        echoes.on_segment(65_537 * MILLISECOND, 65_530, true);
        assert_eq!(echoes.rtt(), 7 * MILLISECOND);
    }
}
