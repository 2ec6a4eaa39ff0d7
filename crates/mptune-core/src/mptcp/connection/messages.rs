//! The program that sends messages at fixed times.

use super::Connection;
use crate::engine::Source;
use crate::mptcp::io::{Io, Timer};
use crate::mptcp::options::ConnectionOptions;
use crate::units::Nanos;
use crate::workload::Messages;

/// Its messages.
#[derive(Debug)]
pub(super) struct MessageTimes {
    messages: Messages,
    timer: Source,
    /// Time of the first, once the connection is established.
    begun_at: Option<Nanos>,
    /// Messages offered so far.
    offered: u64,
}

impl MessageTimes {
    /// Those of the connection with this number, if it has such a workload.
    pub fn new(number: usize, options: &ConnectionOptions, io: &mut Io) -> Option<Self> {
        let messages = options.workload.messages()?;
        let timer = io.add_timer(number, Timer::Message);
        Some(Self { messages, timer, begun_at: None, offered: 0 })
    }
}

impl Connection {
    /// The connection is established: the first message is due.
    pub(super) fn begin_messages(&mut self, io: &mut Io) {
        let Some(times) = self.messages.as_mut().filter(|times| times.begun_at.is_none()) else {
            return;
        };
        times.begun_at = Some(io.now);
        self.receiver.begin_messages(io.now);
        self.offer_message(io);
    }

    /// The next message is due.
    pub(super) fn on_message(&mut self, io: &mut Io) {
        self.offer_message(io);
        self.pump(io);
    }

    fn offer_message(&mut self, io: &mut Io) {
        let Some(times) = &mut self.messages else { return };
        times.offered += 1;
        self.sender.offer_message();
        if let Some(begun_at) = times.begun_at.filter(|_| times.offered < times.messages.count()) {
            io.queue.set(times.timer, begun_at + times.messages.due(times.offered));
        }
    }
}
