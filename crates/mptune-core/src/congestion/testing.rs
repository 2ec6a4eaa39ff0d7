//! Helpers of the controllers' tests: acknowledgements that read as prose and an ideal path.
//!
//! Not a network: nothing is queued or lost unless the test says so.

use super::{Ack, CongestionControl, Peer, Peers, Window};
use crate::units::{MILLISECOND, Nanos, seconds};

/// An ACK of `acked` segments on an open, window-limited subflow with an RTT of 100 ms.
pub fn ack(acked: u32) -> Ack {
    Ack {
        now: 0,
        acked,
        rtt: None,
        srtt: 0,
        min_rtt: 0,
        una: 0,
        next: 0,
        prior_in_flight: 0,
        in_flight: 0,
        lost: 0,
        delivered: u64::from(acked),
        cwnd_limited: true,
        open: true,
        ecn_echo: false,
        rate: None,
    }
    .rtt(100 * MILLISECOND)
}

impl Ack {
    /// It arrived at `now`.
    pub fn at(self, now: Nanos) -> Self {
        Self { now, ..self }
    }

    /// The RTT was never anything but `rtt`.
    pub fn rtt(self, rtt: Nanos) -> Self {
        Self { rtt: Some(rtt), srtt: rtt, min_rtt: rtt, ..self }
    }

    /// It acknowledges everything below `una`; `next` is the next segment to be sent.
    pub fn sequence(self, una: u32, next: u32) -> Self {
        Self { una, next, ..self }
    }

    /// Something other than the window limited sending.
    pub fn not_limited(self) -> Self {
        Self { cwnd_limited: false, ..self }
    }

    /// The subflow is repairing a timeout.
    pub fn in_loss_recovery(self) -> Self {
        Self { open: false, ..self }
    }
}

/// A connection with one subflow.
pub fn alone() -> Peers<'static> {
    const ONE: [Peer; 1] = [Peer {
        usable: true,
        cwnd: 10.0,
        srtt: 100 * MILLISECOND,
        min_rtt: 100 * MILLISECOND,
        acked_since_loss: 0,
        acked_between_losses: 0,
        ssthresh: 10.0,
        outstanding: 0,
        rtt_variation: 0,
    }];
    Peers { all: &ONE, me: 0 }
}

/// A subflow in congestion avoidance.
pub fn avoiding(cwnd: f64) -> Window {
    Window { cwnd, ssthresh: cwnd / 2.0 }
}

/// One flow on a path with a constant RTT whose ACKs arrive evenly: a window per RTT.
pub struct Flow<C> {
    pub cc: C,
    pub window: Window,
    pub rtt: Nanos,
    pub now: Nanos,
    una: u32,
}

impl<C: CongestionControl> Flow<C> {
    pub fn new(cc: C, window: Window, rtt: Nanos) -> Self {
        Self { cc, window, rtt, now: 0, una: 0 }
    }

    /// The next ACK, of one segment.
    pub fn ack(&mut self) {
        self.now += (self.rtt as f64 / self.window.cwnd) as Nanos;
        self.una += 1;
        let facts = ack(1)
            .at(self.now)
            .rtt(self.rtt)
            .sequence(self.una, self.una + self.window.cwnd as u32);
        self.cc.on_delivered(&mut self.window, &facts, alone());
        self.cc.on_ack(&mut self.window, &facts, alone());
    }

    /// The ACKs of one window.
    pub fn round(&mut self) {
        for _ in 0..self.window.cwnd as u32 {
            self.ack();
        }
    }

    /// The ACKs of `span`.
    pub fn run(&mut self, span: Nanos) {
        let end = self.now + span;
        while self.now < end {
            self.ack();
        }
    }

    /// A loss, repaired at once.
    pub fn lose(&mut self) {
        let ssthresh = self.cc.on_congestion(&self.window, self.now, alone());
        self.window = Window { cwnd: ssthresh, ssthresh };
        self.cc.on_recovered(&mut self.window, self.una, self.now);
    }

    /// The mean window when one in `segments` is lost, after a transient of as many cycles as are
    /// measured: segments acknowledged per RTT.
    pub fn mean_window(&mut self, segments: u32, cycles: u32) -> f64 {
        let mut start = self.now;
        for cycle in 0..2 * cycles {
            if cycle == cycles {
                start = self.now;
            }
            for _ in 0..segments {
                self.ack();
            }
            self.lose();
        }
        f64::from(segments * cycles) * seconds(self.rtt) / seconds(self.now - start)
    }
}

/// Fails unless `found` is within a share of `expected`.
#[track_caller]
pub fn assert_close(found: f64, expected: f64, share: f64) {
    assert!(
        (found - expected).abs() <= share * expected.abs(),
        "{found} is not within {} % of {expected}",
        share * 100.0
    );
}
