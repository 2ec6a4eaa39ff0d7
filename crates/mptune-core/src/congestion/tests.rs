//! Properties of every controller under any report of a sender.

use super::testing::ack;
use super::*;
use crate::units::MICROSECOND;
use proptest::prelude::*;

/// A report of the sender to a controller.
#[derive(Debug, Clone)]
enum Fact {
    Acked(Acked),
    Lost,
    Marked,
    TimedOut,
    Recovered,
    Restarted,
    Started { app_limited: bool },
    SiblingChanged(Peer),
}

/// The free fields of an ACK.
#[derive(Debug, Clone)]
struct Acked {
    segments: u32,
    rtt: Nanos,
    limited: bool,
    lost: u32,
    marked: bool,
    sampled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Open,
    Recovery,
    Loss,
}

fn sibling() -> impl Strategy<Value = Peer> {
    (any::<bool>(), 1.0..1e5, 1_000..1_000_000_000u64, 0..1u64 << 40, 0..1u64 << 40).prop_map(
        |(usable, cwnd, srtt, acked_since_loss, acked_between_losses)| Peer {
            usable,
            cwnd,
            srtt,
            min_rtt: srtt,
            acked_since_loss,
            acked_between_losses,
            ..Peer::default()
        },
    )
}

fn acked() -> impl Strategy<Value = Acked> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (1..200u32, 1..2_000_000u64, 0..20u32, flags).prop_map(
        |(segments, rtt_us, lost, (limited, marked, sampled))| Acked {
            segments,
            rtt: rtt_us * MICROSECOND,
            limited,
            lost,
            marked,
            sampled,
        },
    )
}

fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        20 => acked().prop_map(Fact::Acked),
        2 => Just(Fact::Lost),
        1 => Just(Fact::Marked),
        1 => Just(Fact::TimedOut),
        3 => Just(Fact::Recovered),
        1 => Just(Fact::Restarted),
        1 => any::<bool>().prop_map(|app_limited| Fact::Started { app_limited }),
        2 => sibling().prop_map(Fact::SiblingChanged),
    ]
}

/// A sender reduced to its obligations towards a controller.
struct Sender {
    cc: Controller,
    window: Window,
    state: State,
    now: Nanos,
    una: u32,
    all: [Peer; 2],
}

impl Sender {
    fn new(name: &str) -> Self {
        let mut cc = Controller::new(name).unwrap();
        let mut window = Window::new();
        cc.on_established(&mut window, 20_000_000, 0);
        let mine = Peer { usable: true, cwnd: window.cwnd, srtt: 20_000_000, ..Peer::default() };
        Self { cc, window, state: State::Open, now: 0, una: 0, all: [mine, Peer::default()] }
    }

    /// Lets the controller choose `ssthresh`.
    fn reduce(&mut self, marked: bool) -> Result<(), TestCaseError> {
        let peers = Peers { all: &self.all, me: 0 };
        let ssthresh = if marked {
            self.cc.on_ecn(&self.window, self.now, peers)
        } else {
            self.cc.on_congestion(&self.window, self.now, peers)
        };
        prop_assert!(ssthresh >= 1.0 && ssthresh <= self.window.cwnd.max(2.0), "{ssthresh}");
        self.window.ssthresh = ssthresh;
        Ok(())
    }

    fn acked(&mut self, acked: &Acked) {
        let prior_delivered = u64::from(self.una);
        self.now += acked.rtt / 4;
        self.una += acked.segments;
        let sequence = (self.una, self.una + 10);
        let mut report =
            ack(acked.segments).at(self.now).rtt(acked.rtt).sequence(sequence.0, sequence.1);
        report.cwnd_limited = acked.limited;
        report.open = self.state == State::Open;
        report.lost = acked.lost;
        report.ecn_echo = acked.marked;
        report.delivered = u64::from(self.una);
        report.rate = acked.sampled.then_some(RateSample {
            delivered: acked.segments,
            interval: acked.rtt,
            prior_delivered,
            app_limited: !acked.limited,
        });
        self.all[0].srtt = acked.rtt;
        self.all[0].acked_since_loss += u64::from(acked.segments);
        let peers = Peers { all: &self.all, me: 0 };
        self.cc.on_delivered(&mut self.window, &report, peers);
        if self.state != State::Recovery {
            self.cc.on_ack(&mut self.window, &report, peers);
        }
    }

    fn tell(&mut self, fact: &Fact) -> Result<(), TestCaseError> {
        match (fact, self.state) {
            (Fact::Acked(acked), _) => self.acked(acked),
            (Fact::Lost | Fact::Marked, State::Open) => {
                self.reduce(matches!(fact, Fact::Marked))?;
                self.state = State::Recovery;
            }
            (Fact::TimedOut, state) => {
                if state != State::Loss {
                    self.reduce(false)?;
                }
                self.state = State::Loss;
                self.window.cwnd = 1.0;
                self.cc.on_timeout(&mut self.window, self.now);
            }
            (Fact::Recovered, State::Recovery | State::Loss) => {
                if self.state == State::Recovery {
                    self.window.cwnd = self.window.ssthresh;
                }
                self.state = State::Open;
                self.cc.on_recovered(&mut self.window, self.una, self.now);
            }
            (Fact::Restarted, State::Open) => {
                self.now += 1_000_000_000;
                self.cc.on_restart(&mut self.window, self.una, self.now);
            }
            (Fact::Started { app_limited }, State::Open) => {
                self.cc.on_start(&mut self.window, *app_limited, self.now);
            }
            (Fact::SiblingChanged(peer), _) => self.all[1] = *peer,
            _ => {}
        }
        self.all[0].cwnd = self.window.cwnd;
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_window_stays_finite_and_at_least_one_segment(
        report in prop::collection::vec(fact(), 1..300)
    ) {
        for name in NAMES {
            let mut sender = Sender::new(name);
            for fact in &report {
                sender.tell(fact)?;
                let Window { cwnd, ssthresh } = sender.window;
                prop_assert!(cwnd.is_finite() && cwnd >= 1.0, "{name}: cwnd {cwnd}");
                prop_assert!(ssthresh.is_finite() && ssthresh >= 1.0, "{name}: {ssthresh}");
                let pace = sender.cc.pacing_rate();
                prop_assert!(pace.is_none_or(|rate| rate.is_finite() && rate > 0.0), "{pace:?}");
            }
        }
    }
}

#[test]
fn every_name_makes_a_controller_and_others_none() {
    assert!(NAMES.iter().all(|name| Controller::new(name).is_some()));
    assert!(Controller::new("Reno").is_none());
}
