//! Statistics for path managers that take samples: only what the ends of a real connection know as well.

use super::Connection;
use crate::mptcp::io::Io;
use crate::pathmanager::{ConnectionStatistics, Report, SubflowId, SubflowStatistics};
use crate::units::{Bytes, SECOND};

impl Connection {
    /// A sample is due.
    pub(super) fn sample(&mut self, io: &mut Io) {
        for id in 0..self.subflows.len() {
            self.driver.set_statistics(id, self.statistics(id));
        }
        let buffer = self.sender.buffer();
        let statistics = ConnectionStatistics {
            sent: buffer.sent_bytes(),
            acked: buffer.acked_bytes(),
            // Forecasts know what it was given.
            buffer: 0,
        };
        let before = self.changes.len();
        self.report(io, Report::Sample { now: io.now, statistics });
        if self.changes.len() > before {
            self.pump(io);
        }
        self.sample_later(io);
    }

    /// Schedules the next sample, if the path manager takes any.
    pub(super) fn sample_later(&mut self, io: &mut Io) {
        if let (Some(timer), Some(interval)) = (self.sampling, self.driver.sampling()) {
            io.queue.set(timer, io.now + interval);
        }
    }

    fn statistics(&self, id: SubflowId) -> SubflowStatistics {
        let (subflow, full) = (&self.subflows[id], Bytes::from(self.sender.buffer().full()));
        let totals = subflow.totals();
        SubflowStatistics {
            delivered: subflow.sender.delivered() * full,
            retransmitted: totals.retransmitted * full,
            timeouts: totals.timeouts,
            srtt: subflow.sender.rtt.srtt,
            // Saturates; the window is never NaN.
            window: subflow.sender.window.cwnd as Bytes * full,
            // Segments per ns.
            rate: (subflow.sender.delivery_rate().unwrap_or(0.0) * full as f64 * SECOND as f64)
                as Bytes,
        }
    }
}
