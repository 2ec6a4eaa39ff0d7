//! A video player: what it plays, when it stalls, and the bitrate that it asks for next.
//!
//! Bitrates are chosen by BOLA-BASIC (K. Spiteri, R. Urgaonkar, R. Sitaraman, "BOLA: Near-Optimal Bitrate Adaptation for
//! Online Videos", INFOCOM 2016 and IEEE/ACM Transactions on Networking 28(4), 2020): with `Q` seconds in the buffer it asks for
//! the bitrate `m` with the largest `(V (u_m + g) - Q) / S_m`, where `S_m` is the size of a segment and `u_m = ln(S_m / S_1)`
//! its utility, and for none while all of them are negative. `g` is the paper's product of gamma and the length of a
//! segment; it, `V` and `Q` are in seconds here, in segments there. The paper leaves `V` and `g` to two wishes about the
//! buffer, which are these:
//!
//! - the player pauses when a further segment would not fit: `V (u_M + g) = buffer - segment`;
//! - below a third of the buffer it asks for the lowest bitrate: there the scores of the lowest two are equal.
//!
//! Not here: the paper's variants against oscillation (BOLA-O, BOLA-U), and an estimate of the throughput, which it has none of.

use crate::units::{Bytes, Nanos, SECOND};
use serde::Serialize;

/// The part of the buffer below which it asks for the lowest bitrate.
const LOW: f64 = 1.0 / 3.0;

/// Record of a piece of a workload beside the time that it took. Times count from the establishment of the
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// It was asked for, or due.
    pub at_ns: Nanos,
    /// Its payload.
    pub bytes: Bytes,
    /// The player stood still before it arrived for this long.
    pub stalled_ns: Nanos,
}

/// The player.
#[derive(Debug, Clone)]
pub struct Player {
    /// Bitrates, ascending, bit/s; at least one.
    ladder_bps: Vec<u64>,
    /// Playing time of a segment, and the most that it keeps.
    segment_ns: Nanos,
    buffer_ns: Nanos,
    /// V and g of BOLA, seconds.
    v: f64,
    g: f64,
    /// End of what is in the buffer if nothing else arrives; none before playing begins.
    lasts_until: Option<Nanos>,
    /// Time at which the connection was established.
    begun_at: Nanos,
    pieces: Vec<Piece>,
}

fn seconds(span: Nanos) -> f64 {
    span as f64 / SECOND as f64
}

impl Player {
    /// Before it has asked for anything: of a video with these bitrates (ascending, at least one), in segments of
    /// `segment_ns`, of which at most `buffer_ns` are kept.
    pub fn new(ladder_bps: Vec<u64>, segment_ns: Nanos, buffer_ns: Nanos) -> Self {
        let (full, low) = (seconds(buffer_ns - segment_ns), seconds(buffer_ns) * LOW);
        let highest = utility(&ladder_bps, ladder_bps.len() - 1);
        // Equal scores of the lowest two: V (g - a) = Q.
        let a = match ladder_bps[..] {
            [first, second, ..] => {
                first as f64 * utility(&ladder_bps, 1) / (second as f64 - first as f64)
            }
            _ => 1.0, // with one bitrate only V (u + g) counts
        };
        let v = (full - low) / (highest + a);
        let (lasts_until, begun_at, pieces) = (None, 0, Vec::new());
        Self { v, g: low / v + a, ladder_bps, segment_ns, buffer_ns, lasts_until, begun_at, pieces }
    }

    /// The connection is established.
    pub fn begin(&mut self, now: Nanos) {
        self.begun_at = now;
    }

    /// Time and bitrate of the next request, at `now` or after a pause.
    pub fn next(&self, now: Nanos) -> (Nanos, usize) {
        let level = self.lasts_until.map_or(0, |until| until.saturating_sub(now));
        let pause = level.saturating_sub(self.buffer_ns - self.segment_ns);
        (now + pause, self.rung(seconds(level - pause)))
    }

    /// The bitrate for a buffer, seconds.
    fn rung(&self, level: f64) -> usize {
        let score = |rung| {
            (self.v * (utility(&self.ladder_bps, rung) + self.g) - level)
                / self.ladder_bps[rung] as f64
        };
        let rungs = 1..self.ladder_bps.len();
        rungs.fold(0, |best, rung| if score(rung) > score(best) { rung } else { best })
    }

    /// A segment of this size arrived, which was asked for at `asked`. Playing begins with the first.
    pub fn on_segment(&mut self, now: Nanos, asked: Nanos, bytes: Bytes) {
        let until = self.lasts_until.unwrap_or(now);
        let stalled_ns = now.saturating_sub(until);
        self.lasts_until = Some(until.max(now) + self.segment_ns);
        self.pieces.push(Piece { at_ns: asked - self.begun_at, bytes, stalled_ns });
    }

    /// The segments that arrived.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Utility of a bitrate: sizes of segments are as their bitrates.
fn utility(ladder_bps: &[u64], rung: usize) -> f64 {
    libm::log(ladder_bps[rung] as f64 / ladder_bps[0] as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(ladder_bps: &[u64]) -> Player {
        Player::new(ladder_bps.to_vec(), 4 * SECOND, 30 * SECOND)
    }

    const LADDER: [u64; 4] = [1_000_000, 2_500_000, 5_000_000, 8_000_000];

    /// Plays over an idle path of a rate, bit/s, and returns what it played and the largest buffer.
    fn play(player: &mut Player, rate_bps: u64, segments: usize) -> (Vec<u64>, Nanos) {
        let (mut now, mut most) = (0, 0);
        let mut bitrates = Vec::new();
        for _ in 0..segments {
            let (at, rung) = player.next(now);
            let bytes = player.ladder_bps[rung] * 4 / 8;
            now = at + bytes * 8 * SECOND / rate_bps;
            player.on_segment(now, at, bytes);
            bitrates.push(player.ladder_bps[rung]);
            most = most.max(player.lasts_until.unwrap() - now);
        }
        (bitrates, most)
    }

    #[test]
    fn the_buffer_chooses_the_bitrate() {
        let player = player(&LADDER);
        let rungs: Vec<_> = (0..=26).map(|level| player.rung(f64::from(level))).collect();
        assert!(rungs.is_sorted() && rungs[0] == 0 && rungs[26] == 3, "{rungs:?}");
        let low = |level| player.rung(level);
        assert_eq!((low(9.99), low(10.01)), (0, 1));
        // At the pause the score of the highest is 0, and that of all others negative.
        assert!((player.v * (libm::log(8.0) + player.g) - 26.0).abs() < 1e-9);
    }

    #[test]
    fn a_fast_path_fills_the_buffer_with_the_highest_bitrate_and_no_further() {
        let mut player = player(&LADDER);
        let (bitrates, most) = play(&mut player, 100_000_000, 60);
        assert!(bitrates[10..].iter().all(|&bps| bps == 8_000_000), "{bitrates:?}");
        assert!(most <= 30 * SECOND && most > 29 * SECOND);
        assert!(player.pieces().iter().all(|piece| piece.stalled_ns == 0));
    }

    #[test]
    fn between_two_bitrates_it_plays_these_two_as_often_as_the_path_allows() {
        for rate_bps in [1_500_000, 3_000_000, 6_000_000] {
            let mut player = player(&LADDER);
            let (bitrates, _) = play(&mut player, rate_bps, 400);
            let steady = &bitrates[100..];
            let above = LADDER.iter().position(|&bps| bps > rate_bps).unwrap();
            let two = &LADDER[above - 1..=above];
            assert!(steady.iter().all(|bps| two.contains(bps)), "{rate_bps}: {steady:?}");
            let mean = steady.iter().sum::<u64>() as f64 / steady.len() as f64;
            assert!((mean / rate_bps as f64 - 1.0).abs() < 0.02, "{rate_bps}: {mean}");
            assert!(player.pieces().iter().all(|piece| piece.stalled_ns == 0), "{rate_bps}");
        }
    }

    #[test]
    fn a_path_below_the_lowest_bitrate_stalls_for_what_is_missing() {
        let mut player = player(&LADDER);
        let (bitrates, _) = play(&mut player, 600_000, 50);
        assert!(bitrates.iter().all(|&bps| bps == 1_000_000));
        let pieces = player.pieces();
        let stalled: u64 = pieces.iter().map(|piece| piece.stalled_ns).sum();
        let end = player.lasts_until.unwrap() - 4 * SECOND;
        let first = 4_000_000 * SECOND / 600_000;
        let share = stalled as f64 / (end - first) as f64;
        assert!((share - 0.4).abs() < 1e-6, "{share}");
        assert_eq!((pieces[0].at_ns, pieces[0].stalled_ns, pieces[1].at_ns), (0, 0, first));
    }

    #[test]
    fn one_bitrate_is_played_as_long_as_there_is_room() {
        let mut player = player(&[3_000_000]);
        let (bitrates, most) = play(&mut player, 100_000_000, 30);
        assert!(bitrates.iter().all(|&bps| bps == 3_000_000) && most <= 30 * SECOND);
    }
}
