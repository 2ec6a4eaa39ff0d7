//! The timers of the connection, only under Linux accounting: its retransmission, and the application's write.

use crate::engine::Source;
use crate::mptcp::accounting::memory::WRITING;
use crate::mptcp::accounting::{Accounting, Release};
use crate::mptcp::io::{Io, Timer};
use crate::mptcp::options::ConnectionOptions;
use crate::tcp::Clock;
use crate::units::{NEVER, Nanos};

/// The timers.
#[derive(Debug)]
pub(super) struct Timers {
    clock: Clock,
    release: Release,
    /// The interval of the retransmission timer if no subflow has one.
    usual: Nanos,
    /// Its interval.
    interval: Nanos,
    retransmission: Source,
    /// Expiry of the retransmission timer, [`NEVER`] while it is off.
    deadline: Nanos,
    application: Source,
}

impl Timers {
    pub fn new(number: usize, options: &ConnectionOptions, io: &mut Io) -> Option<Self> {
        let Accounting::Linux(release) = options.accounting else { return None };
        Some(Self {
            clock: options.clock(),
            release,
            usual: options.usual_interval(),
            interval: options.usual_interval(),
            retransmission: io.add_timer(number, Timer::Data),
            deadline: NEVER,
            application: io.add_timer(number, Timer::Application),
        })
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Linux 7's resends fragment after fragment, each on an idle subflow; before, it resends one (`__mptcp_retrans`).
    pub fn resends_several(&self) -> bool {
        self.release == Release::Linux7
    }

    pub fn is_running(&self) -> bool {
        self.deadline < NEVER
    }

    /// Data is retransmitted this long after the timer starts, at the earliest; 0 if no subflow has a timer.
    pub fn note_interval(&mut self, interval: Nanos) {
        self.interval = if interval > 0 { interval } else { self.usual };
    }

    /// Starts the retransmission timer.
    pub fn run(&mut self, io: &mut Io) {
        self.deadline = self.clock.after(io.now, self.interval);
        io.queue.set_no_later(self.retransmission, self.deadline);
    }

    pub fn stop(&mut self) {
        self.deadline = NEVER;
    }

    /// The retransmission timer's event is early, and is set again.
    pub fn is_early(&self, io: &mut Io) -> bool {
        let early = self.deadline > io.now;
        if early {
            io.queue.set(self.retransmission, self.deadline);
        }
        early
    }

    pub fn wake_application(&self, io: &mut Io) {
        io.queue.set_no_later(self.application, io.now + WRITING);
    }
}
