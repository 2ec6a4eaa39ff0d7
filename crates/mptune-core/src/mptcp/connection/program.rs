//! The state of a program that offers data in pieces.

use crate::engine::Source;
use crate::mptcp::io::{Io, Timer};
use crate::mptcp::options::ConnectionOptions;
use crate::units::Nanos;
use crate::workload::Schedule;

/// The program.
#[derive(Debug)]
pub(super) struct Program {
    /// Its messages or bursts; none if it offers what it is asked for.
    pub(super) schedule: Option<Schedule>,
    pub(super) timer: Source,
    /// Time at which the connection was established.
    pub(super) begun_at: Option<Nanos>,
    /// Messages offered so far.
    pub(super) offered: u64,
}

impl Program {
    /// That of the connection with this number, if its workload comes in pieces.
    pub fn new(number: usize, options: &ConnectionOptions, io: &mut Io) -> Option<Self> {
        options.workload.offers_pieces().then(|| Self {
            schedule: options.workload.schedule(),
            timer: io.add_timer(number, Timer::Program),
            begun_at: None,
            offered: 0,
        })
    }
}
