//! Workloads: the data that the program offers to the connection, one file per kind. Not here: the rule that ends
//! a trial early ([`crate::early_end`]).

mod bulk;
mod client;
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

/// The workload of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Workload {
    /// As much as the connection takes.
    Bulk(Bulk),
    /// A number of bytes.
    Transfer(Transfer),
    /// A message at fixed times.
    Messages(Messages),
    /// Bursts at drawn times.
    #[serde(rename = "on-off")]
    OnOff(OnOff),
    /// Requests and their responses.
    Requests(Requests),
    /// Pages with their objects.
    Page(Page),
    /// Segments of a video.
    Video(Video),
}

/// Bytes that a program writes at once; those of a longer piece follow as soon as these are queued.
pub const WRITE_BYTES: Bytes = 256 * 1024;

impl Workload {
    /// As much as the connection takes, without an end.
    pub const ENDLESS: Self = Self::Bulk(Bulk { duration_ns: NEVER, ends_early: false });

    /// Total payload bytes, [`Bytes::MAX`] without an end.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Bulk(_) | Self::Requests(_) | Self::Page(_) | Self::Video(_) => Bytes::MAX,
            Self::Transfer(transfer) => transfer.bytes,
            Self::Messages(messages) => messages.total(),
            Self::OnOff(bursts) => bursts.total(),
        }
    }

    /// Its size, as an informed path manager knows it.
    pub fn size(&self) -> TransferSize {
        match self {
            Self::Bulk(_) | Self::Requests(_) | Self::Page(_) | Self::Video(_) | Self::OnOff(_) => {
                TransferSize::Unlimited
            }
            Self::Transfer(transfer) => TransferSize::Known(transfer.bytes),
            Self::Messages(_) => TransferSize::Known(self.bytes()),
        }
    }

    /// Sending time, if a time ends it.
    pub fn duration(&self) -> Option<Nanos> {
        match self {
            Self::Bulk(bulk) => Some(bulk.duration_ns),
            _ => None,
        }
    }

    /// Total payload bytes, if they end it.
    pub fn length(&self) -> Option<Bytes> {
        match self {
            Self::Bulk(_) | Self::Requests(_) | Self::Page(_) | Self::Video(_) => None,
            Self::Transfer(_) | Self::Messages(_) | Self::OnOff(_) => Some(self.bytes()),
        }
    }

    /// Latest end of the trial.
    pub fn limit(&self) -> Nanos {
        match self {
            Self::Bulk(bulk) => bulk.duration_ns,
            Self::Transfer(transfer) => transfer.deadline_ns,
            Self::Messages(messages) => messages.limit(),
            Self::OnOff(bursts) => bursts.limit(),
            Self::Requests(requests) => requests.limit(),
            Self::Page(page) => page.limit(),
            Self::Video(video) => video.limit(),
        }
    }

    /// It ends with its last byte, and fails if that is later than its limit.
    pub fn completes(&self) -> bool {
        !matches!(self, Self::Bulk(_))
    }

    /// The trial ends as soon as its throughput is known well enough ([`crate::early_end`]).
    pub fn ends_early(&self) -> bool {
        matches!(self, Self::Bulk(Bulk { ends_early: true, .. }))
    }

    /// The same with what is drawn in it, by a seed: of many connections each has the trial's plus its number.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> Self {
        match self {
            Self::OnOff(bursts) => Self::OnOff(bursts.drawn(seed)),
            Self::Requests(requests) => Self::Requests(Requests { seed, ..requests.clone() }),
            _ => self.clone(),
        }
    }

    /// Its pieces, if it is a series of them that are due at times of their own.
    pub fn schedule(&self) -> Option<Schedule> {
        match self {
            Self::Messages(messages) => Some(Schedule::Regular(*messages)),
            Self::OnOff(bursts) => Some(bursts.schedule()),
            _ => None,
        }
    }

    /// What is known of the first bursts beside their times; empty of other workloads.
    pub fn pieces(&self, number: usize) -> Vec<Piece> {
        if let Self::OnOff(bursts) = self { bursts.pieces(number) } else { Vec::new() }
    }

    /// What a client asks for, if there is one.
    pub fn purpose(&self) -> Option<Purpose> {
        match self {
            Self::Requests(requests) => Some(Purpose::Requests(requests.clone())),
            Self::Page(page) => Some(Purpose::Page(*page)),
            Self::Video(video) => Some(Purpose::Video(video.clone())),
            Self::Bulk(_) | Self::Transfer(_) | Self::Messages(_) | Self::OnOff(_) => None,
        }
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
        match self {
            Self::Bulk(bulk) => bulk.validate(),
            Self::Transfer(transfer) => transfer.validate(segment),
            Self::Messages(messages) => messages.validate(segment),
            Self::OnOff(bursts) => bursts.validate(segment),
            Self::Requests(requests) => requests.validate(segment),
            Self::Page(page) => page.validate(segment),
            Self::Video(video) => video.validate(segment),
        }
        .map_err(|error| SpecError::new(format!("workload.{}", error.key), error.expected))
    }
}
