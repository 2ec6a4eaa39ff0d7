//! Clients: when they ask, for how much, and what they measure. They know neither network nor connection; the simulator
//! and the agent run the same ones.

use super::page::Page;
use super::player::{Piece, Player};
use super::requests::Requests;
use super::video::Video;
use crate::units::{Bytes, Nanos};
use std::collections::VecDeque;

/// A request that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Its time.
    pub at: Nanos,
    /// Its payload.
    pub request_bytes: Bytes,
    /// That of its response.
    pub response_bytes: Bytes,
    /// Which of several responses it asks for ([`Purpose::choices`]).
    pub choice: u8,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Single responses.
    Requests(Requests),
    /// Pages with their objects.
    Page(Page),
    /// Segments of a video.
    Video(Video),
}

impl Purpose {
    /// Payload of each request.
    pub fn request_bytes(&self) -> Bytes {
        match self {
            Self::Requests(requests) => requests.request_bytes,
            Self::Page(page) => page.request_bytes,
            Self::Video(video) => video.request_bytes,
        }
    }

    /// Responses among which a request chooses; its content says which ([`Ask::choice`]).
    pub fn choices(&self) -> usize {
        if let Self::Video(video) = self { video.ladder_bps.len() } else { 1 }
    }

    /// Payload of the response to a request, by its number from 0 on and its choice.
    pub fn response_bytes(&self, number: u64, choice: u8) -> Bytes {
        match self {
            Self::Video(video) => video.segment_bytes(choice.into()),
            Self::Requests(requests) => requests.response(number),
            Self::Page(page) if number.is_multiple_of(u64::from(page.objects) + 1) => {
                page.page_bytes
            }
            Self::Page(page) => page.object_bytes,
        }
    }
}

/// The client. Times count from any common origin.
#[derive(Debug, Clone)]
pub struct Client {
    purpose: Purpose,
    /// The end of asking, once it began.
    until: Nanos,
    /// Times of the requests under way, in their order; and of the current page's.
    asked: VecDeque<Nanos>,
    page_asked: Nanos,
    /// Objects of the current page that are missing; none while the page itself is.
    missing: Option<u32>,
    /// Of a video.
    player: Option<Player>,
    /// Payload of the segment that the player waits for.
    segment_bytes: Bytes,
    /// Single responses that were planned.
    planned: u64,
    times: Vec<Nanos>,
}

impl Client {
    /// Before the connection is established.
    pub fn new(purpose: Purpose) -> Self {
        let player = match &purpose {
            Purpose::Video(video) => Some(Player::new(video.clone())),
            Purpose::Requests(_) | Purpose::Page(_) => None,
        };
        Self {
            purpose,
            until: 0,
            asked: VecDeque::new(),
            page_asked: 0,
            missing: None,
            player,
            segment_bytes: 0,
            planned: 0,
            times: Vec::new(),
        }
    }

    /// The connection is established: the first requests, at once.
    pub fn begin(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        let (duration, first) = match &self.purpose {
            Purpose::Requests(requests) => (requests.duration_ns, requests.at_once),
            Purpose::Page(page) => (page.duration_ns, 1),
            Purpose::Video(video) => (video.duration_ns, 1),
        };
        self.until = now + duration;
        if let Some(player) = &mut self.player {
            player.begin(now);
        }
        for _ in 0..first {
            self.plan(now, planned);
        }
    }

    /// A request for a response, a page, or a segment when there is room for it, unless it would be too late.
    fn plan(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        let (at, rung) = self.player.as_ref().map_or((now, 0), |player| player.next(now));
        if at < self.until {
            let choice = u8::try_from(rung).unwrap_or(u8::MAX);
            let request_bytes = self.purpose.request_bytes();
            let response_bytes = self.purpose.response_bytes(self.planned, choice);
            // A page is always the first of its objects.
            self.planned += u64::from(matches!(self.purpose, Purpose::Requests(_)));
            self.segment_bytes = response_bytes;
            planned.push_back(Ask { at, request_bytes, response_bytes, choice });
        }
    }

    /// A request was made.
    pub fn on_asked(&mut self, at: Nanos) {
        self.asked.push_back(at);
    }

    /// The oldest response arrived with its last byte: what is asked next goes behind what is planned.
    pub fn on_response(&mut self, now: Nanos, planned: &mut VecDeque<Ask>) {
        let Some(asked) = self.asked.pop_front() else { return };
        if let Purpose::Page(page) = self.purpose {
            return self.on_part(now, asked, page, planned);
        }
        self.times.push(now - asked);
        if let Some(player) = &mut self.player {
            player.on_segment(now, asked, self.segment_bytes);
        }
        let think =
            if let Purpose::Requests(requests) = &self.purpose { requests.think_ns } else { 0 };
        self.plan(now + think, planned);
    }

    /// A page or one of its objects arrived.
    fn on_part(&mut self, now: Nanos, asked: Nanos, page: Page, planned: &mut VecDeque<Ask>) {
        match self.missing {
            None => {
                self.page_asked = asked;
                self.missing = Some(page.objects);
                let Page { request_bytes, object_bytes, .. } = page;
                let object =
                    Ask { at: now, request_bytes, response_bytes: object_bytes, choice: 0 };
                planned.extend((0..page.objects).map(|_| object));
            }
            Some(1) => {
                self.missing = None;
                self.times.push(now - self.page_asked);
                self.plan(now + page.think_ns, planned);
            }
            Some(objects) => self.missing = Some(objects - 1),
        }
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
    ends: std::collections::VecDeque<Bytes>,
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
        let (mut client, mut planned) = (Client::new(Purpose::Requests(REQUESTS)), [].into());
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
        let purpose = Purpose::Requests(Requests { response_sizes, seed: 3, ..REQUESTS });
        let (mut client, mut planned) = (Client::new(purpose.clone()), [].into());
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
        let (mut client, mut planned) = (Client::new(Purpose::Page(page)), [].into());
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
