//! One flow through one bottleneck, for the tests of controllers that follow delays, rates or marks:
//! a FIFO of a given rate and length and a constant delay, segment by segment.
//!
//! Not a TCP: every segment is acknowledged, a loss shows when the next segment arrives and is not repaired, a
//! reduction is made at once, and a loss during a recovery begins the next. A path that marks is assumed to
//! lose nothing.

use super::testing::{ack, alone};
use super::{CongestionControl, RateSample, Window};
use crate::units::{NEVER, Nanos, Seq};
use std::collections::VecDeque;

/// A segment in flight, and the state at its departure.
struct Segment {
    sent_at: Nanos,
    /// Arrival of its ACK, or never.
    ack_at: Nanos,
    marked: bool,
    delivered: u64,
    delivered_at: Nanos,
    first_sent_at: Nanos,
}

/// A flow and its path.
pub struct Bottleneck<C> {
    pub cc: C,
    pub window: Window,
    pub now: Nanos,
    /// RTT without a queue.
    pub delay: Nanos,
    /// Segments/s.
    pub rate: f64,
    /// Segments the queue holds, and how many make it mark.
    pub capacity: f64,
    pub threshold: f64,
    /// One in this many segments is lost on the way.
    pub loss_interval: Seq,
    /// A policer in front of the queue: tokens/s, one per segment, and the tokens it has and may have.
    pub policed_rate: f64,
    pub tokens: f64,
    pub bucket: f64,
    pub delivered: u64,
    pub lost: u64,
    flight: VecDeque<Segment>,
    busy_until: Nanos,
    paced_until: Nanos,
    una: Seq,
    next: Seq,
    last_sent_at: Nanos,
    first_sent_at: Nanos,
    delivered_at: Nanos,
    srtt: Nanos,
    min_rtt: Nanos,
    recovery_end: Option<Seq>,
    /// A loss or a mark since the recovery began.
    event_pending: bool,
}

impl<C: CongestionControl> Bottleneck<C> {
    /// A new flow on a path whose queue never fills.
    pub fn new(mut cc: C, rate: f64, delay: Nanos) -> Self {
        let mut window = Window::new();
        cc.on_established(&mut window, delay, 0);
        Self {
            cc,
            window,
            now: 0,
            delay,
            rate,
            capacity: f64::INFINITY,
            threshold: f64::INFINITY,
            loss_interval: Seq::MAX,
            policed_rate: f64::INFINITY,
            tokens: 1.0,
            bucket: 1.0,
            delivered: 0,
            lost: 0,
            flight: VecDeque::new(),
            busy_until: 0,
            paced_until: 0,
            una: 0,
            next: 0,
            last_sent_at: 0,
            first_sent_at: 0,
            delivered_at: 0,
            srtt: delay,
            min_rtt: delay,
            recovery_end: None,
            event_pending: false,
        }
    }

    /// Segments of a bandwidth-delay product.
    pub fn product(&self) -> f64 {
        self.rate * self.delay as f64 / 1e9
    }

    /// Segments in the queue.
    pub fn queued(&self) -> f64 {
        self.busy_until.saturating_sub(self.now) as f64 * self.rate / 1e9
    }

    /// Segments sent and not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Runs for `span`; `watch` is called after each ACK.
    pub fn run(&mut self, span: Nanos, mut watch: impl FnMut(&Self)) {
        let end = self.now + span;
        while self.now < end {
            self.step(&mut watch);
        }
    }

    /// Sends a segment or takes an ACK, whichever is due first.
    fn step(&mut self, watch: &mut impl FnMut(&Self)) {
        let ack_at = self.flight.iter().map(|segment| segment.ack_at).find(|&at| at < NEVER);
        let room = self.flight.len() < self.window.cwnd as usize;
        let send_at = if room { self.paced_until.max(self.now) } else { NEVER };
        match ack_at {
            Some(at) if at <= send_at => {
                self.now = at;
                self.acknowledge();
                watch(self);
            }
            _ => {
                assert!(send_at < NEVER, "everything in flight is lost");
                self.now = send_at;
                self.send();
            }
        }
    }

    /// Fills the bucket for the time since the last segment and takes a token, if available.
    fn pass_policer(&mut self, since: Nanos) -> bool {
        let filled = self.tokens + self.policed_rate * (self.now - since) as f64 / 1e9;
        self.tokens = filled.min(self.bucket);
        let passes = self.policed_rate == f64::INFINITY || self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(passes));
        passes
    }

    fn send(&mut self) {
        if self.flight.is_empty() {
            (self.first_sent_at, self.delivered_at) = (self.now, self.now);
            self.cc.on_start(&mut self.window, false, self.now);
        }
        self.next += 1;
        let queued = self.queued();
        let policed = !self.pass_policer(self.last_sent_at);
        self.last_sent_at = self.now;
        let lost =
            policed || queued >= self.capacity || self.next.is_multiple_of(self.loss_interval);
        if !lost {
            self.busy_until = self.busy_until.max(self.now) + (1e9 / self.rate) as Nanos;
        }
        self.flight.push_back(Segment {
            sent_at: self.now,
            ack_at: if lost { NEVER } else { self.busy_until + self.delay },
            marked: queued >= self.threshold,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        });
        let gap = self.cc.pacing_rate().map_or(0, |rate| (1e9 / rate) as Nanos);
        self.paced_until = self.now + gap;
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.flight.len() as u32;
        let lost = self.flight.iter().take_while(|segment| segment.ack_at == NEVER).count() as u32;
        self.flight.drain(..lost as usize);
        let segment = self.flight.pop_front().expect("an ACK is due");
        self.una += lost + 1;
        self.lost += u64::from(lost);
        self.delivered += 1;
        self.delivered_at = self.now;
        let rtt = self.now - segment.sent_at;
        self.srtt = (7 * self.srtt + rtt) / 8;
        self.min_rtt = self.min_rtt.min(rtt);
        self.first_sent_at = segment.sent_at;
        self.react(lost > 0, segment.marked);
        let mut report = ack(1).at(self.now).rtt(rtt).sequence(self.una, self.next);
        (report.srtt, report.min_rtt) = (self.srtt, self.min_rtt);
        (report.prior_in_flight, report.in_flight) = (prior_in_flight, self.flight.len() as u32);
        (report.lost, report.delivered) = (lost, self.delivered);
        report.ecn_echo = segment.marked;
        report.open = self.recovery_end.is_none();
        let sending = segment.sent_at - segment.first_sent_at;
        report.rate = Some(RateSample {
            delivered: (self.delivered - segment.delivered) as u32,
            interval: sending.max(self.now - segment.delivered_at),
            prior_delivered: segment.delivered,
            app_limited: false,
        });
        self.cc.on_delivered(&mut self.window, &report, alone());
        if report.open {
            self.cc.on_ack(&mut self.window, &report, alone());
        }
    }

    /// Ends a recovery, and begins one after a loss or a mark.
    fn react(&mut self, lost: bool, marked: bool) {
        self.event_pending |= lost || marked;
        if self.recovery_end.is_some_and(|end| self.una >= end) {
            self.recovery_end = None;
            self.cc.on_recovered(&mut self.window, self.next, self.now);
        }
        if self.recovery_end.is_some() || !std::mem::take(&mut self.event_pending) {
            return;
        }
        let ssthresh = if self.threshold < f64::INFINITY {
            self.cc.on_ecn(&self.window, self.now, alone())
        } else {
            self.cc.on_congestion(&self.window, self.now, alone())
        };
        self.recovery_end = Some(self.next);
        if !C::OWNS_WINDOW {
            self.window = Window { cwnd: ssthresh, ssthresh };
        }
    }
}
