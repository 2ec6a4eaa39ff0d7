//! Clients: when they ask, for how much, and what they measure. They know neither network nor connection; the simulator
//! and the agent run the same ones.

use super::player::{Piece, Player};
use crate::units::{Bytes, Nanos};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

/// A request that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Its time.
    pub at: Nanos,
    /// Its payload.
    pub request_bytes: Bytes,
    /// That of its response.
    pub response_bytes: Bytes,
    /// Number of the response among several ([`Purpose::choices`]).
    pub choice: u8,
}

/// Requests of a client, and a server's responses: wholes, each of one response or of several parts.
pub trait Purpose: Debug + Send + Sync {
    /// Payload of each request.
    fn request_bytes(&self) -> Bytes;

    /// Responses among which a request chooses; its content tells which ([`Ask::choice`]).
    fn choices(&self) -> usize {
        1
    }

    /// Payload of the response to a request, by its number from 0 on and its choice.
    fn response_bytes(&self, number: u64, choice: u8) -> Bytes;

    /// Time for which the client asks.
    fn duration(&self) -> Nanos;

    /// Wholes under way together; one if they have parts.
    fn at_once(&self) -> u32 {
        1
    }

    /// Responses of a whole, at least one: those behind the first are asked for together when that has arrived.
    fn parts(&self) -> u32 {
        1
    }

    /// Time from a whole to the next request.
    fn think(&self) -> Nanos {
        0
    }

    /// Of a video: what chooses the time and the response of the next request.
    fn player(&self) -> Option<Player> {
        None
    }
}

/// The client. Times count from any common origin.
#[derive(Debug, Clone)]
pub struct Client {
    purpose: Arc<dyn Purpose>,
    /// The end of asking, once it began.
    until: Nanos,
    /// Times of the requests under way, in their order; and that of the current whole's first.
    asked: VecDeque<Nanos>,
    whole_asked: Nanos,
    /// Parts of the current whole that are missing; none while its first is.
    missing: u32,
    /// Of a video.
    player: Option<Player>,
    /// Payload of the segment that the player waits for.
    segment_bytes: Bytes,
    /// Responses that were planned, with all parts of their wholes.
    planned: u64,
    times: Vec<Nanos>,
}

impl Client {
    /// Before the connection is established.
    pub fn new(purpose: Arc<dyn Purpose>) -> Self {
        Self {
            player: purpose.player(),
            purpose,
            until: 0,
            asked: VecDeque::new(),
            whole_asked: 0,
            missing: 0,
            segment_bytes: 0,
            planned: 0,
            times: Vec::new(),
        }
    }

    /// The connection is established: the first requests, at once.
    pub fn begin(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        self.until = now + self.purpose.duration();
        if let Some(player) = &mut self.player {
            player.begin(now);
        }
        for _ in 0..self.purpose.at_once() {
            self.plan(now, planned);
        }
    }

    /// A request for a response, a page, or a segment when there is room for it, unless it would be too late.
    fn plan(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        let (at, rung) = self.player.as_ref().map_or((now, 0), |player| player.next(now));
        if at < self.until {
            let ask = self.ask(at, self.planned, u8::try_from(rung).unwrap_or(u8::MAX));
            self.planned += u64::from(self.purpose.parts());
            self.segment_bytes = ask.response_bytes;
            planned.push_back(ask);
        }
    }

    /// The request with this number.
    fn ask(&self, at: Nanos, number: u64, choice: u8) -> Ask {
        let request_bytes = self.purpose.request_bytes();
        let response_bytes = self.purpose.response_bytes(number, choice);
        Ask { at, request_bytes, response_bytes, choice }
    }

    /// A request was made.
    pub fn on_asked(&mut self, at: Nanos) {
        self.asked.push_back(at);
    }

    /// The oldest response arrived with its last byte: what is asked next goes behind what is planned.
    pub fn on_response(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        let Some(asked) = self.asked.pop_front() else { return };
        if self.missing > 0 {
            self.missing -= 1;
        } else {
            self.whole_asked = asked;
            self.missing = self.purpose.parts() - 1;
            let others = self.planned - u64::from(self.missing)..self.planned;
            planned.extend(others.map(|number| self.ask(now, number, 0)));
        }
        if self.missing > 0 {
            return;
        }
        self.times.push(now - self.whole_asked);
        if let Some(player) = &mut self.player {
            player.on_segment(now, asked, self.segment_bytes);
        }
        self.plan(now + self.purpose.think(), planned);
    }

    /// Requests under way.
    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Of each response, or page, that arrived, in their order: the time from the request to its last byte in order.
    pub fn times(&self) -> &[Nanos] {
        &self.times
    }

    /// Of each segment of a video that arrived, what is known beside its time.
    pub fn pieces(&self) -> &[Piece] {
        self.player.as_ref().map_or(&[], Player::pieces)
    }
}

/// Positions in a stream of data at which messages end.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    total: Bytes,
    ends: VecDeque<Bytes>,
}

impl Ends {
    /// Another message.
    pub fn push(&mut self, bytes: Bytes) {
        self.total += bytes;
        self.ends.push_back(self.total);
    }

    /// The first message is whole after this many bytes, and is taken out.
    pub fn take(&mut self, delivered: Bytes) -> bool {
        let whole = self.ends.front().is_some_and(|&end| end <= delivered);
        if whole {
            self.ends.pop_front();
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Page, Requests};
    use super::*;
    use crate::units::{MILLISECOND, SECOND};

    const REQUESTS: Requests = Requests {
        request_bytes: 400,
        response_bytes: 20_000,
        response_sizes: Vec::new(),
        think_ns: 100 * MILLISECOND,
        at_once: 2,
        duration_ns: SECOND,
        patience_ns: SECOND,
        seed: 0,
    };

    /// Makes all planned requests.
    fn ask(client: &mut Client, planned: &mut VecDeque<Ask>) -> Vec<Ask> {
        let made: Vec<_> = planned.drain(..).collect();
        made.iter().for_each(|ask| client.on_asked(ask.at));
        made
    }

    #[test]
    fn a_client_asks_again_after_thinking_until_its_time_is_over() {
        let (mut client, mut planned) = (Client::new(Arc::new(REQUESTS)), [].into());
        client.begin(5, &mut planned);
        let first = ask(&mut client, &mut planned);
        assert_eq!(
            first,
            [Ask { at: 5, request_bytes: 400, response_bytes: 20_000, choice: 0 }; 2]
        );
        client.on_response(50 * MILLISECOND + 5, &mut planned);
        assert_eq!((planned[0].at, client.waiting()), (150 * MILLISECOND + 5, 1));
        planned.clear();
        client.on_response(900 * MILLISECOND + 5, &mut planned);
        assert!(planned.is_empty(), "it would be too late");
        assert_eq!(client.times(), [50 * MILLISECOND, 900 * MILLISECOND]);
        client.on_response(SECOND, &mut planned);
        assert_eq!((client.times().len(), planned.len()), (2, 0), "nobody asked");
    }

    #[test]
    fn a_client_expects_the_sizes_that_the_server_draws() {
        let response_sizes = (1..=40).map(|size| 1_000 * size).collect();
        let purpose = Requests { response_sizes, seed: 3, ..REQUESTS };
        let (mut client, mut planned) = (Client::new(Arc::new(purpose.clone())), [].into());
        client.begin(0, &mut planned);
        let mut expected: Vec<_> = planned.iter().map(|ask: &Ask| ask.response_bytes).collect();
        for number in 1..6 {
            ask(&mut client, &mut planned);
            client.on_response(number * 50 * MILLISECOND, &mut planned);
            expected.extend(planned.iter().map(|ask| ask.response_bytes));
        }
        let served: Vec<_> = (0..7).map(|number| purpose.response_bytes(number, 0)).collect();
        assert_eq!(expected, served);
    }

    #[test]
    fn a_page_is_whole_with_its_last_object() {
        let page = Page {
            request_bytes: 400,
            page_bytes: 30_000,
            objects: 3,
            object_bytes: 20_000,
            think_ns: 100 * MILLISECOND,
            duration_ns: SECOND,
            patience_ns: SECOND,
        };
        let (mut client, mut planned) = (Client::new(Arc::new(page)), [].into());
        client.begin(0, &mut planned);
        assert_eq!(ask(&mut client, &mut planned)[0].response_bytes, 30_000);
        client.on_response(40 * MILLISECOND, &mut planned);
        let objects = ask(&mut client, &mut planned);
        let at = 40 * MILLISECOND;
        assert_eq!(objects, [Ask { at, request_bytes: 400, response_bytes: 20_000, choice: 0 }; 3]);
        for at in [60, 61] {
            client.on_response(at * MILLISECOND, &mut planned);
        }
        assert!(planned.is_empty() && client.times().is_empty());
        client.on_response(80 * MILLISECOND, &mut planned);
        assert_eq!(client.times(), [80 * MILLISECOND]);
        assert_eq!((planned[0].at, planned[0].response_bytes), (180 * MILLISECOND, 30_000));
    }

    #[test]
    fn a_message_ends_where_the_next_begins() {
        let mut ends = Ends::default();
        ends.push(100);
        ends.push(50);
        assert!(!ends.take(99) && ends.take(149) && !ends.take(149) && ends.take(150));
        assert!(!ends.take(1_000));
    }
}
