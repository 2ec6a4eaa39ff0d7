//! The opener's `connect` call on the acceptor's clock, without comparing clocks.
//!
//! The opener's call takes `handshake` until the answer arrives; the acknowledgement of the answer
//! takes another one-way delay until the acceptor accepts. So the call was made `handshake` plus one
//! one-way delay before that. Both ends have measured a round trip with the answer in it (RFC 6298 3):
//! the opener's begins with the request, the acceptor's ends with the acknowledgement. The answer is
//! taken to need half the shorter one, and the acknowledgement the rest of the acceptor's, so that one
//! late request or acknowledgement spoils nothing. If one end has no measurement, the
//! delay is half the other's. The error is half the difference of the two one-way delays in the
//! handshake: zero if they are equal, never more than half the round-trip time.

use serde::{Deserialize, Serialize};

/// The opener's report of its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// From the `connect` call until the connection was established there.
    pub handshake_ns: u64,
    /// The round-trip time its TCP measured; 0 if it has none.
    pub rtt_ns: u64,
}

/// The times of a connection, on the clock of one of its halves.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    accepted_ns: u64,
    rtt_ns: u64,
    handshake: Option<Handshake>,
}

impl Clock {
    /// A connection accepted at `accepted_ns`, whose round trip took `rtt_ns`, 0 if unknown.
    pub fn new(accepted_ns: u64, rtt_ns: u64) -> Self {
        Self { accepted_ns, rtt_ns, handshake: None }
    }

    /// The clock of the half that opened the connection: it runs from its `connect` call.
    pub fn of_opener(handshake: Handshake) -> Self {
        let own = Handshake { rtt_ns: 0, ..handshake };
        Self { accepted_ns: own.handshake_ns, rtt_ns: 0, handshake: Some(own) }
    }

    /// The opener has reported how long its handshake took.
    pub fn align(&mut self, handshake: Handshake) {
        self.handshake = Some(handshake);
    }

    /// The opener has reported it. Until then the origin assumes that nothing in the handshake was lost.
    pub fn aligned(&self) -> bool {
        self.handshake.is_some()
    }

    /// Time of the `connect` call.
    fn origin_ns(&self) -> u64 {
        let handshake =
            self.handshake.unwrap_or(Handshake { handshake_ns: self.rtt_ns, rtt_ns: 0 });
        let acknowledged_ns = match (self.rtt_ns, handshake.rtt_ns) {
            (own, 0) | (0, own) => own / 2,
            (own, other) => own - own.min(other) / 2,
        };
        self.accepted_ns.saturating_sub(handshake.handshake_ns + acknowledged_ns)
    }

    /// Time from the `connect` call until `at_ns` on this half's clock.
    pub fn since_connect_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.origin_ns())
    }

    /// Time from when the connection was established at the opener until `at_ns` on this half's clock.
    pub fn since_established_ns(&self, at_ns: u64) -> u64 {
        let handshake_ns = self.handshake.map_or(self.rtt_ns, |handshake| handshake.handshake_ns);
        self.since_connect_ns(at_ns).saturating_sub(handshake_ns)
    }

    /// The moment `since_connect_ns` after the `connect` call, on this half's clock.
    pub fn at_ns(&self, since_connect_ns: u64) -> u64 {
        self.origin_ns().saturating_add(since_connect_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The clock of a receiver whose clock shows `connect` at the call; the way there takes
    /// `forth`, the way back `back`, and `lost` is the time lost to repetitions of the sender's request.
    fn clock(connect: u64, forth: u64, back: u64, lost: u64) -> Clock {
        let handshake = Handshake { handshake_ns: lost + forth + back, rtt_ns: forth + back };
        let mut clock = Clock::new(connect + lost + forth + back + forth, forth + back);
        clock.align(handshake);
        clock
    }

    proptest! {
        #[test]
        fn the_error_is_half_the_difference_of_the_ways(
            connect in 0u64..1 << 40, forth in 0u64..1 << 30, back in 0u64..1 << 30, lost in 0u64..1 << 32,
        ) {
            let clock = clock(connect, forth, back, lost);
            let error = clock.since_connect_ns(connect + (1 << 40)).abs_diff(1 << 40);
            prop_assert!(error <= forth.abs_diff(back).div_ceil(2));
        }
    }

    #[test]
    fn a_request_or_an_acknowledgement_that_comes_late_once_is_told_apart() {
        let (connect, way, late) = (5_000, 100, 70);
        for (request, acknowledgement) in [(way + late, way), (way, way + late)] {
            let accepted = connect + request + way + acknowledgement;
            let mut clock = Clock::new(accepted, way + acknowledgement);
            clock.align(Handshake { handshake_ns: request + way, rtt_ns: request + way });
            assert_eq!(clock.since_connect_ns(connect + 1_000), 1_000);
        }
    }

    #[test]
    fn the_senders_round_trip_replaces_one_that_was_not_measured() {
        let mut clock = Clock::new(1_000, 0);
        clock.align(Handshake { handshake_ns: 400, rtt_ns: 200 });
        assert_eq!(clock.since_connect_ns(1_000), 500);
        assert_eq!(clock.at_ns(500), 1_000);
    }

    #[test]
    fn the_connection_is_established_at_the_sender_half_a_round_trip_before_it_is_accepted() {
        for lost in [0, 1_000] {
            let clock = clock(5_000, 100, 100, lost);
            let established = 5_000 + lost + 200;
            assert_eq!(clock.since_established_ns(established + 70), 70);
            assert_eq!(clock.since_established_ns(established - 1), 0);
        }
        assert_eq!(Clock::new(1_000, 200).since_established_ns(1_000), 100);
    }

    #[test]
    fn the_opener_needs_no_report() {
        let clock = Clock::of_opener(Handshake { handshake_ns: 1_200, rtt_ns: 200 });
        assert!(clock.aligned());
        assert_eq!((clock.since_connect_ns(1_500), clock.at_ns(1_500)), (1_500, 1_500));
        assert_eq!(clock.since_established_ns(1_500), 300);
    }

    #[test]
    fn until_the_sender_reports_the_handshake_took_one_round_trip() {
        let clock = Clock::new(1_000, 200);
        assert!(!clock.aligned());
        assert_eq!(clock.since_connect_ns(1_000), 300);
    }
}
