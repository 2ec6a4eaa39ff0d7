//! The trait of path policies, and its input.

use crate::congestion::Peer;
use crate::units::Nanos;

/// Parameters of a path; each policy goes by one of them, or by none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Its place in the order of the paths, the first 0; [`u32::MAX`] behind those that have one.
    pub rank: u32,
    /// Its share, beside those of the others.
    pub weight: f64,
    /// The largest rate, segments per ns; infinite without one.
    pub cap: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { rank: u32::MAX, weight: 1.0, cap: f64::INFINITY }
    }
}

/// The connection at an ACK of a subflow.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Every subflow of the connection, and the number of the one whose ACK arrived.
    pub subflows: &'a [Peer],
    /// Its number.
    pub own: usize,
    /// Its delivery rate (Linux `rate_delivered`, `rate_interval_us`), segments per ns; none before a sample.
    pub delivers: Option<f64>,
    /// Segments that it has delivered so far.
    pub delivered: u64,
    /// Segments that the connection may have under way: the smaller of the peer's window and the send buffer.
    pub window: f64,
    /// The send buffer grows (Linux without `SOCK_SNDBUF_LOCK`).
    pub grows: bool,
    /// Segments that the program has offered and that are not acknowledged as data, whether they are sent or not.
    pub waiting: f64,
    /// The current time.
    pub now: Nanos,
}

/// A path policy of one connection.
pub trait PathPolicy {
    /// The pacing rate of the subflow from now on, segments per ns: its weight for the scheduler. 0 if it takes no new
    /// data; infinite if it keeps that of its window algorithm.
    fn rate(&mut self, view: View<'_>) -> f64;

    /// The rate above which it does not send, segments per ns, after [`Self::rate`]; none if it is not paced.
    fn limit(&self, _subflow: usize) -> Option<f64> {
        None
    }

    /// Segments that may wait unsent in the subflow's send queue until its next ACK, after [`Self::rate`]; infinite if
    /// it is the buffer's matter.
    fn unsent(&self, _view: View<'_>) -> f64 {
        f64::INFINITY
    }

    /// Segments for which its part of a send buffer that grows has room beside those of its window algorithm, until its
    /// next ACK, after [`Self::rate`].
    fn buffered(&self, _view: View<'_>) -> f64 {
        0.0
    }

    /// A subflow starts, or starts again, on a path with these parameters.
    fn reset(&mut self, subflow: usize, path: Parameters);
}
