//! What holds for every controller, whatever a sender tells it.

use super::testing::ack;
use super::*;
use proptest::prelude::*;

/// What the sender may tell a controller.
#[derive(Debug, Clone)]
enum Fact {
    Acked { segments: u32, rtt_us: u64, limited: bool },
    Lost,
    TimedOut,
    Recovered,
    Restarted,
    SiblingChanged(Peer),
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

fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        20 => (1..200u32, 1..2_000_000u64, any::<bool>())
            .prop_map(|(segments, rtt_us, limited)| Fact::Acked { segments, rtt_us, limited }),
        2 => Just(Fact::Lost),
        1 => Just(Fact::TimedOut),
        3 => Just(Fact::Recovered),
        1 => Just(Fact::Restarted),
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
    fn reduce(&mut self) -> Result<(), TestCaseError> {
        let peers = Peers { all: &self.all, me: 0 };
        let ssthresh = self.cc.on_congestion(&self.window, self.now, peers);
        prop_assert!(ssthresh >= 1.0 && ssthresh <= self.window.cwnd.max(2.0), "{ssthresh}");
        self.window.ssthresh = ssthresh;
        Ok(())
    }

    fn acked(&mut self, segments: u32, rtt: Nanos, limited: bool) {
        self.now += rtt / 4;
        self.una += segments;
        let mut facts = ack(segments).at(self.now).rtt(rtt).sequence(self.una, self.una + 10);
        facts.cwnd_limited = limited;
        facts.open = self.state == State::Open;
        self.all[0].srtt = rtt;
        self.all[0].acked_since_loss += u64::from(segments);
        let peers = Peers { all: &self.all, me: 0 };
        self.cc.on_delivered(&mut self.window, &facts, peers);
        if self.state != State::Recovery {
            self.cc.on_ack(&mut self.window, &facts, peers);
        }
    }

    fn tell(&mut self, fact: &Fact) -> Result<(), TestCaseError> {
        match (fact, self.state) {
            (Fact::Acked { segments, rtt_us, limited }, _) => {
                self.acked(*segments, rtt_us * 1_000, *limited);
            }
            (Fact::Lost, State::Open) => {
                self.reduce()?;
                self.state = State::Recovery;
            }
            (Fact::TimedOut, state) => {
                if state != State::Loss {
                    self.reduce()?;
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
        facts in prop::collection::vec(fact(), 1..300)
    ) {
        for name in NAMES {
            let mut sender = Sender::new(name);
            for fact in &facts {
                sender.tell(fact)?;
                let Window { cwnd, ssthresh } = sender.window;
                prop_assert!(cwnd.is_finite() && cwnd >= 1.0, "{name}: cwnd {cwnd}");
                prop_assert!(ssthresh.is_finite() && ssthresh >= 1.0, "{name}: {ssthresh}");
            }
        }
    }
}

#[test]
fn every_name_makes_a_controller_and_others_none() {
    assert!(NAMES.iter().all(|name| Controller::new(name).is_some()));
    assert!(Controller::new("Reno").is_none());
}
