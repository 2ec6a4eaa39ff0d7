//! A client and a server over two connections of the simulation, one for each direction of the data.
//!
//! The two directions of a TCP connection have windows, losses and timers of their own, so each is a connection here.
//! Of their interaction, what arrived is acknowledged on the subflows on which a program's data leave at once: whoever
//! writes next finds it acknowledged. The client opens both, so that the server's subflows are in the order in which they
//! joined. Left out are that such ACKs need no packets of their own, that data acknowledge which
//! leave later, and one handshake of each subflow in place of two at the same time.

use crate::transport::Transport;
use crate::units::{Bytes, NEVER, Nanos};
use crate::workload::{Ask, Client, Ends, Piece, Purpose};
use std::collections::VecDeque;
use std::sync::Arc;

/// The two programs and their connections.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Numbers of the connections that carry responses and requests.
    responses: usize,
    requests: usize,
    client: Client,
    begun: bool,
    /// The client may open further subflows.
    joined: bool,
    /// Requests to be made, in order of time.
    planned: VecDeque<Ask>,
    /// Responses to the requests that are on their way, in their order.
    owed: VecDeque<u64>,
    /// Ends of the requests and of the responses in their streams.
    request_ends: Ends,
    response_ends: Ends,
    /// Segments that each subflow had sent before the last writing.
    sent: Vec<u64>,
    /// Time of the last response.
    over_at: Option<Nanos>,
}

impl Exchange {
    pub fn new(purpose: Arc<dyn Purpose>, [response_number, request_number]: [usize; 2]) -> Self {
        Self {
            responses: response_number,
            requests: request_number,
            client: Client::new(purpose),
            begun: false,
            joined: false,
            planned: [].into(),
            owed: [].into(),
            request_ends: Ends::default(),
            response_ends: Ends::default(),
            sent: vec![],
            over_at: None,
        }
    }

    /// Something happened: the programs do what is due.
    pub fn step<T: Transport>(
        &mut self,
        connections: &mut [T],
        io: &mut crate::transport::Io<T::Packet, T::Timer>,
    ) {
        let now = io.now;
        if !self.begun {
            // The client opens both connections, and asks as soon as its own is there.
            if !connections[self.requests].is_open() {
                return;
            }
            self.begun = true;
            self.client.begin(now, &mut self.planned);
        }
        if !self.joined && connections[self.requests].is_fully_established() {
            self.joined = true;
            connections[self.responses].on_peer_established(io);
        }
        while self.request_ends.take(connections[self.requests].series().total()) {
            let Some(response) = self.owed.pop_front() else { break };
            self.response_ends.push(response);
            self.offer(connections, io, [self.responses, self.requests], response);
        }
        while self.response_ends.take(connections[self.responses].series().total()) {
            self.client.on_response(now, &mut self.planned);
        }
        // Requests that are due together are written together, responses each by itself.
        let mut asked = 0;
        while let Some(ask) = self.planned.front().copied().filter(|ask| ask.at <= now) {
            self.planned.pop_front();
            self.client.on_asked(now);
            self.owed.push_back(ask.response_bytes);
            self.request_ends.push(ask.request_bytes);
            asked += ask.request_bytes;
        }
        if asked > 0 {
            self.offer(connections, io, [self.requests, self.responses], asked);
        }
        let next = self.planned.front().map_or(NEVER, |ask| ask.at);
        connections[self.requests].wake_at(io, next);
        if self.planned.is_empty() && self.client.waiting() == 0 {
            self.over_at.get_or_insert(now);
        }
    }

    /// A program writes on `this` connection, and what leaves at once acknowledges on its subflows what arrived in the `other`
    /// direction. The ACKs go first: whoever receives the data may answer before the next packet arrives.
    fn offer<T: Transport>(
        &mut self,
        connections: &mut [T],
        io: &mut crate::transport::Io<T::Packet, T::Timer>,
        [this, other]: [usize; 2],
        bytes: Bytes,
    ) {
        let sent = &mut self.sent;
        sent.clear();
        sent.extend((0..).map_while(|number| connections[this].sent(number)));
        io.network.pause();
        connections[this].offer(io, bytes);
        let waiters = io.network.resume();
        for (number, before) in sent.iter().enumerate() {
            if connections[this].sent(number).is_some_and(|now| now > *before) {
                connections[other].on_data_sent_back(io, number);
            }
        }
        io.network.release(&mut io.queue, waiters);
    }

    /// It is on the connection with this number.
    pub fn is_on(&self, number: usize) -> bool {
        number == self.responses
    }

    /// Time of the last response; none before.
    pub fn over_at(&self) -> Option<Nanos> {
        self.over_at
    }

    /// Times of the responses that arrived.
    pub fn times(&self) -> &[Nanos] {
        self.client.times()
    }

    /// Records of its pieces beside their times.
    pub fn pieces(&self) -> &[Piece] {
        self.client.pieces()
    }
}
