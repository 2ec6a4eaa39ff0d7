//! Video: a player asks for one segment after the other, each at the bitrate that its buffer allows, and plays them.
//! Measured by its start, its stalls and its bitrates.

use super::player::Player;
use super::{Kind, Purpose, span};
use crate::error::SpecError;
use crate::units::{Bytes, Nanos, SECOND};
use serde::Deserialize;
use std::sync::Arc;

/// Most bitrates: a request names one by a byte.
const MOST_BITRATES: usize = 256;

/// Segments of a video on one connection, asked for one at a time. The data receiver is the player
/// ([`super::player`]); all segments of a bitrate have one size.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Payload of a request.
    pub request_bytes: Bytes,
    /// Bitrates of the video, ascending, bit/s.
    pub ladder_bps: Vec<u64>,
    /// Playing time of a segment.
    pub segment_ns: Nanos,
    /// Most playing time that the player keeps.
    pub buffer_ns: Nanos,
    /// The player asks for segments for this long.
    pub duration_ns: Nanos,
    /// Time after `duration_ns` within which the last segment is to arrive.
    pub patience_ns: Nanos,
}

impl Video {
    /// Payload of a segment at a bitrate, by its place in the ladder.
    pub fn segment_bytes(&self, rung: usize) -> Bytes {
        let bits = u128::from(self.ladder_bps[rung]) * u128::from(self.segment_ns);
        Bytes::try_from(bits.div_ceil(8 * u128::from(SECOND))).unwrap_or(Bytes::MAX)
    }
}

impl Kind for Video {
    fn limit(&self) -> Nanos {
        self.duration_ns + self.patience_ns
    }

    fn purpose(&self) -> Option<Arc<dyn Purpose>> {
        Some(Arc::new(self.clone()))
    }

    /// Each request and each segment of the video is to have less than 2^24 segments of TCP.
    fn validate(&self, segment: u32) -> Result<(), SpecError> {
        span::check_payload("request_bytes", self.request_bytes, segment)?;
        let wrong = |key: &str, expected: &str| Err(SpecError::new(key, expected));
        if self.ladder_bps.is_empty() || self.ladder_bps.len() > MOST_BITRATES {
            let expected = format!("expected 1 to {MOST_BITRATES} bitrates");
            return wrong("ladder_bps", &expected);
        }
        span::check("segment_ns", self.segment_ns)?;
        span::check("buffer_ns", self.buffer_ns)?;
        let sizes: Vec<_> =
            (0..self.ladder_bps.len()).map(|rung| self.segment_bytes(rung)).collect();
        if !sizes.is_sorted_by(|lower, higher| lower < higher) {
            return wrong("ladder_bps", "expected bitrates that rise, each with a larger segment");
        }
        for bytes in [sizes[0], sizes[sizes.len() - 1]] {
            span::check_payload("ladder_bps", bytes, segment)?;
        }
        if self.buffer_ns / 2 < self.segment_ns {
            return wrong("buffer_ns", "expected at least two segments");
        }
        span::check_client(self.duration_ns, self.patience_ns, 0)
    }
}

impl Purpose for Video {
    fn request_bytes(&self) -> Bytes {
        self.request_bytes
    }

    fn choices(&self) -> usize {
        self.ladder_bps.len()
    }

    fn response_bytes(&self, _number: u64, choice: u8) -> Bytes {
        self.segment_bytes(choice.into())
    }

    fn duration(&self) -> Nanos {
        self.duration_ns
    }

    fn player(&self) -> Option<Player> {
        Some(Player::new(self.ladder_bps.clone(), self.segment_ns, self.buffer_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_player_can_play_is_refused() {
        let video = Video {
            request_bytes: 400,
            ladder_bps: vec![1_000_000, 2_500_000],
            segment_ns: 4 * SECOND,
            buffer_ns: 30 * SECOND,
            duration_ns: 60 * SECOND,
            patience_ns: SECOND,
        };
        let key = |video: &Video| video.validate(1448).map_err(|error| error.key);
        assert_eq!((key(&video), video.limit()), (Ok(()), 61 * SECOND));
        assert_eq!((video.segment_bytes(0), video.segment_bytes(1)), (500_000, 1_250_000));
        let ladder = |ladder_bps: &[u64]| Video { ladder_bps: ladder_bps.into(), ..video.clone() };
        for (wrong, name) in [
            (Video { request_bytes: 0, ..video.clone() }, "request_bytes"),
            (ladder(&[]), "ladder_bps"),
            (ladder(&[0]), "ladder_bps"),
            (ladder(&[2, 1]), "ladder_bps"),
            (ladder(&[1_000_000, 1_000_000]), "ladder_bps"),
            (ladder(&[1_000_000, 1 << 60]), "ladder_bps"),
            (ladder(&(1..300).map(|rung| rung * 1_000).collect::<Vec<_>>()), "ladder_bps"),
            (Video { segment_ns: 0, ..video.clone() }, "segment_ns"),
            (Video { buffer_ns: 7 * SECOND, ..video.clone() }, "buffer_ns"),
            (Video { duration_ns: 0, ..video.clone() }, "duration_ns"),
            (Video { patience_ns: 0, ..video.clone() }, "patience_ns"),
        ] {
            assert_eq!(key(&wrong), Err(name.into()), "{wrong:?}");
        }
    }
}
