//! Helpers for the controllers' tests: readable acknowledgements and an ideal path.
//!
//! Not a network: only the test queues and loses segments.

use super::reno::Reno;
use super::{Ack, CongestionControl, Peer, Peers, Window};
use crate::units::{MILLISECOND, Nanos, seconds};
use std::sync::LazyLock;

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

    /// The RTT has always been `rtt`.
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
    static ONE: LazyLock<[Peer; 1]> = LazyLock::new(|| [peer(10.0, 100)]);
    Peers { all: &*ONE, me: 0 }
}

/// A usable subflow.
pub fn peer(cwnd: f64, rtt_ms: u64) -> Peer {
    let rtt = rtt_ms * MILLISECOND;
    Peer { usable: true, cwnd, srtt: rtt, min_rtt: rtt, ..Peer::default() }
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
        let report = ack(1)
            .at(self.now)
            .rtt(self.rtt)
            .sequence(self.una, self.una + self.window.cwnd as u32);
        self.cc.on_delivered(&mut self.window, &report, alone());
        self.cc.on_ack(&mut self.window, &report, alone());
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

    /// The mean window when one in `segments` is lost, as segments acknowledged per RTT; the transient before
    /// lasts as many cycles as the measurement.
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

/// Fails unless a coupled controller is Reno on a connection's only usable subflow: bit for bit, over growth,
/// losses and timeouts.
#[track_caller]
pub fn assert_same_as_reno(mut cc: impl CongestionControl) {
    let all = [peer(10.0, 50), Peer { usable: false, ..peer(10.0, 20) }];
    let peers = Peers { all: &all, me: 0 };
    let (mut window, mut reno) = (Window::new(), Window::new());
    for i in 0..1_000 {
        if i % 170 == 100 {
            let ssthresh = cc.on_congestion(&window, 0, peers);
            assert_eq!(ssthresh, Reno.on_congestion(&reno, 0, alone()));
            let cwnd = if i == 440 { 1.0 } else { ssthresh };
            window = Window { cwnd, ssthresh };
            reno = window;
        }
        cc.on_ack(&mut window, &ack(1 + i % 3), peers);
        Reno.on_ack(&mut reno, &ack(1 + i % 3), alone());
        assert_eq!(window, reno);
    }
}

/// Equilibrium windows of two subflows with equal RTTs and these loss rates, by the fluid model of the algorithm: every
/// ACK applies the expected share of a reduction.
pub fn equilibrium<C: CongestionControl + Clone>(cc: C, losses: [f64; 2]) -> [f64; 2] {
    let mut windows = losses.map(|loss: f64| 0.5 / loss.sqrt());
    for _ in 0..40_000 {
        let all = windows.map(|cwnd| peer(cwnd, 100));
        for me in 0..2 {
            let (mut cc, peers) = (cc.clone(), Peers { all: &all, me });
            let before = avoiding(windows[me]);
            let mut window = before;
            cc.on_ack(&mut window, &ack(1), peers);
            let growth = window.cwnd - before.cwnd;
            let reduction = before.cwnd - cc.on_congestion(&before, 0, peers);
            // A tenth of an RTT's ACKs per step.
            windows[me] += 0.1 * before.cwnd * (growth - losses[me] * reduction);
        }
    }
    windows
}

/// Fails unless `value` is within this share of `expected`.
#[track_caller]
pub fn assert_close(value: f64, expected: f64, share: f64) {
    assert!(
        (value - expected).abs() <= share * expected.abs(),
        "{value} is not within {} % of {expected}",
        share * 100.0
    );
}
