//! The seam between a workload and whoever runs it: the simulator, and the two halves of the agent.

use super::client::Purpose;
use super::player::Piece;
use super::schedule::Schedule;
use crate::error::SpecError;
use crate::units::{Bytes, Nanos};
use std::sync::Arc;

/// A kind of workload. A program sends for a time, or a number of bytes, at once or piece by piece; or it answers a
/// client. The defaults are those of one that does nothing of this.
pub trait Kind {
    /// Checks everything that a simulation or a measurement relies on.
    ///
    /// `segment`: payload bytes of a full segment, or the least that they can be.
    ///
    /// # Errors
    /// The first key that is wrong.
    fn validate(&self, segment: u32) -> Result<(), SpecError>;

    /// Latest end of the trial, from the first SYN.
    fn limit(&self) -> Nanos;

    /// Sending time, if a time ends it, and not its last byte.
    fn duration(&self) -> Option<Nanos> {
        None
    }

    /// Total payload bytes, if they end it.
    fn length(&self) -> Option<Bytes> {
        None
    }

    /// An informed path manager knows these beforehand.
    fn is_foreseen(&self) -> bool {
        true
    }

    /// The trial ends as soon as its throughput is known well enough ([`crate::early_end`]).
    fn ends_early(&self) -> bool {
        false
    }

    /// The same with what is drawn in it, by a seed.
    #[must_use]
    fn drawn(&self, _seed: u64) -> Self
    where
        Self: Sized + Clone,
    {
        self.clone()
    }

    /// The receiver sends the same to the sender, at the same time.
    fn both_ways(&self) -> bool {
        false
    }

    /// Its pieces, if it is a series of them that are due at times of their own.
    fn schedule(&self) -> Option<Schedule> {
        None
    }

    /// Records of the first pieces beside their times, if there are any.
    fn pieces(&self, _number: usize) -> Vec<Piece> {
        Vec::new()
    }

    /// Purpose of its client, if there is one.
    fn purpose(&self) -> Option<Arc<dyn Purpose>> {
        None
    }
}
