//! When the program that offers data in pieces offers more: messages at fixed times, or what it is asked for.

use super::Connection;
use crate::mptcp::io::Io;
use crate::units::{Bytes, NEVER, Nanos};
use crate::workload::WRITE_BYTES;

impl Connection {
    /// The connection is established: the first message is due.
    pub(super) fn begin_program(&mut self, io: &mut Io) {
        let Some(program) = self.program.as_mut().filter(|program| program.begun_at.is_none())
        else {
            return;
        };
        program.begun_at = Some(io.now);
        self.receiver.begin_messages(io.now);
        self.offer_message(io);
    }

    /// The next message is due.
    pub(super) fn on_program(&mut self, io: &mut Io) {
        self.offer_message(io);
        self.pump(io);
    }

    fn offer_message(&mut self, io: &mut Io) {
        let Some(program) = &mut self.program else { return };
        let Some(schedule) = &program.schedule else { return };
        self.sender.offer(schedule.bytes(program.offered));
        program.offered += 1;
        if let Some(begun_at) = program.begun_at.filter(|_| program.offered < schedule.count()) {
            io.queue.set(program.timer, begun_at + schedule.due(program.offered));
        }
    }

    /// It is established.
    pub(super) fn is_begun(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.begun_at.is_some())
    }

    /// The program offers this much more now.
    pub(super) fn offer_now(&mut self, io: &mut Io, bytes: Bytes) {
        // The first write finds the connection idle, the others do not (Linux `mptcp_sendmsg` pushes at its end).
        let mut left = bytes;
        while left > 0 {
            let written = left.min(WRITE_BYTES);
            self.sender.offer(written);
            self.pump(io);
            left -= written;
        }
    }

    /// The program's timer is due then.
    pub(super) fn wake_program(&self, io: &mut Io, at: Nanos) {
        if let Some(program) = self.program.as_ref().filter(|_| at < NEVER) {
            io.queue.set(program.timer, at);
        }
    }
}
