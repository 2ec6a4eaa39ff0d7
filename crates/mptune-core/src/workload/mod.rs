//! Workloads: the data that the program offers to the connection, one file per kind. Not here: the rule that ends
//! a trial early ([`crate::early_end`]).

mod bulk;
mod client;
mod kind;
mod messages;
mod onoff;
mod page;
mod player;
mod requests;
mod schedule;
mod span;
mod transfer;
mod video;

pub use bulk::Bulk;
pub use client::{Ask, Client, Ends, Purpose};
pub use kind::Kind;
pub use messages::Messages;
pub use onoff::OnOff;
pub use page::Page;
pub use player::Piece;
pub use requests::Requests;
pub use schedule::{Delays, Schedule};
pub use transfer::Transfer;
pub use video::Video;

use crate::error::SpecError;
use crate::pathmanager::TransferSize;
use crate::units::{Bytes, NEVER, Nanos};
use serde::Deserialize;
use std::sync::Arc;

/// Builds the list of workloads: each is its word and its type, which implements [`Kind`].
macro_rules! workloads {
    ($($name:literal => $kind:ident),+ $(,)?) => {
        /// The workload of a connection.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Workload {
            $(#[allow(missing_docs)] #[serde(rename = $name)] $kind($kind)),+
        }

        impl Workload {
            /// Common interface of all kinds. Dispatch is dynamic: nothing here is asked for each packet of a simulation.
            fn kind(&self) -> &dyn Kind {
                match self { $(Self::$kind(kind) => kind),+ }
            }

            /// The same with what is drawn in it, by a seed: of many connections each has the trial's plus its number.
            #[must_use]
            pub fn drawn(&self, seed: u64) -> Self {
                match self { $(Self::$kind(kind) => Self::$kind(kind.drawn(seed))),+ }
            }
        }
    };
}

workloads! {
    "bulk" => Bulk,
    "transfer" => Transfer,
    "messages" => Messages,
    "on-off" => OnOff,
    "requests" => Requests,
    "page" => Page,
    "video" => Video,
}

/// Bytes that a program writes at once; those of a longer piece follow as soon as these are queued.
pub const WRITE_BYTES: Bytes = 256 * 1024;

impl Workload {
    /// As much as the connection takes, without an end.
    pub const ENDLESS: Self = Self::Bulk(Bulk { duration_ns: NEVER, ends_early: false });

    /// Total payload bytes, [`Bytes::MAX`] without an end.
    pub fn bytes(&self) -> Bytes {
        self.length().unwrap_or(Bytes::MAX)
    }

    /// Its size, as an informed path manager knows it.
    pub fn size(&self) -> TransferSize {
        match self.length().filter(|_| self.kind().is_foreseen()) {
            Some(bytes) => TransferSize::Known(bytes),
            None => TransferSize::Unlimited,
        }
    }

    /// [`Kind::duration`].
    pub fn duration(&self) -> Option<Nanos> {
        self.kind().duration()
    }

    /// [`Kind::length`].
    pub fn length(&self) -> Option<Bytes> {
        self.kind().length()
    }

    /// [`Kind::limit`].
    pub fn limit(&self) -> Nanos {
        self.kind().limit()
    }

    /// It ends with its last byte, and fails if that is later than its limit.
    pub fn completes(&self) -> bool {
        self.duration().is_none()
    }

    /// [`Kind::ends_early`].
    pub fn ends_early(&self) -> bool {
        self.kind().ends_early()
    }

    /// [`Kind::both_ways`].
    pub fn both_ways(&self) -> bool {
        self.kind().both_ways()
    }

    /// [`Kind::schedule`].
    pub fn schedule(&self) -> Option<Schedule> {
        self.kind().schedule()
    }

    /// [`Kind::pieces`].
    pub fn pieces(&self, number: usize) -> Vec<Piece> {
        self.kind().pieces(number)
    }

    /// [`Kind::purpose`].
    pub fn purpose(&self) -> Option<Arc<dyn Purpose>> {
        self.kind().purpose()
    }

    /// The program offers data in pieces, and sets TCP_NODELAY; others always have more, or all of it at once.
    pub fn offers_pieces(&self) -> bool {
        self.schedule().is_some() || self.purpose().is_some()
    }

    /// Checks everything that a simulation or a measurement relies on.
    ///
    /// `segment`: payload bytes of a full segment, or the least that they can be.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn validate(&self, segment: u32) -> Result<(), SpecError> {
        self.kind()
            .validate(segment)
            .map_err(|error| SpecError::new(format!("workload.{}", error.key), error.expected))
    }
}
