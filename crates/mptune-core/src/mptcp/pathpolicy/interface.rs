//! The trait of path policies, and its input.

use crate::congestion::Peer;
use crate::units::Nanos;

/// The connection at an ACK of a subflow.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Every subflow of the connection, and the number of the one whose ACK arrived.
    pub subflows: &'a [Peer],
    /// Its number.
    pub own: usize,
    /// Its delivery rate (Linux `rate_delivered`, `rate_interval_us`), segments per ns; none before a sample.
    pub delivers: Option<f64>,
    /// Segments that the connection may have under way: the smaller of the peer's window and the send buffer.
    pub window: f64,
    /// The current time.
    pub now: Nanos,
}

/// A path policy of one connection.
pub trait PathPolicy {
    /// The pacing rate of the subflow from now on, segments per ns; 0 if it takes no new data.
    fn rate(&mut self, view: View<'_>) -> f64;

    /// A subflow starts, or starts again.
    fn reset(&mut self, subflow: usize);
}
