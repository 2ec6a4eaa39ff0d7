//! The rule: from an interval's observations and the limit in force to the next limit.
//!
//! Equations, with the function that implements each. B is a limit, T the curve of a destination, r the throughput
//! of its connections together, p the share of the curve's maximum that is enough (95 %).
//!
//! 1. share of the time in which the buffer held a connection up: `s = limited / interval`; the kernel's own
//!    `tcpi_sndbuf_limited`, or the same seen at looks (`Destination::limited`)
//! 2. goal: `g = p max T(B)` over the bounds; enough is `r >= g` (`Rule::goal`)
//! 3. need by the curve, the inverse of the GLM study's Eq. 4 that its Eq. 5 is: `T⁻¹(min(r, g))`, the smallest
//!    buffer for the throughput that is seen (`Rule::need`)
//! 4. need by the network: `m r RTT`, with the smallest RTT of each path. m is 2 beside a curve, as a byte of
//!    payload takes about two of memory; without one it is 4, as a fast retransmission takes another round trip
//!    (the terms of the GLM study's Eq. 1 and 2 without their timeout) (`Rule::need`)
//! 5. rise: `B <- min(2 B, most)` if `s >= 1 - p` and r is not enough; to `T⁻¹(g)` if that lies between: a buffer
//!    that holds a connection up for a share s of the time costs no more than that share (`Rule::rise`)
//! 6. fall: `B <- max(needs, 7/8 B, least)` after six intervals in which every need was smaller, with the largest of
//!    these needs (`Rule::fall`)
//!
//! Below 1 - p, 5 %, and above two fifths of it nothing changes: that is the hysteresis. A limit that rose does not fall for 30 intervals. If
//! twice the limit left the throughput within 5 % at two intervals that were still limited, it is taken back, and
//! does not rise for 30 intervals: then something else is in the way, such as a queue that every window fills. Up to the
//! buffer that the curve wants for its goal a rise has nothing to prove: the run has shown what it brings, and single
//! intervals scatter.

use super::{Curve, size};
use crate::units::Bytes;
use std::collections::VecDeque;

/// Up to this part of 1 - p the buffer is not what limits.
const FREE: f64 = 0.4;
/// From this share of the time with more to send on a connection shows what the network gives.
const SATURATED: f64 = 0.5;
/// A limit falls to no less than this in one interval, as a fraction.
const FALL: (Bytes, Bytes) = (7, 8);
/// Intervals in which less was needed, before it falls.
const QUIET: usize = 6;
/// Intervals without a fall after a rise, and without a rise after one that brought nothing.
const REST: u32 = 30;
/// A rise brought something from this ratio of throughputs on.
const GAIN: f64 = 1.05;
/// Limited intervals without gain until a rise is taken back.
const FRUITLESS: u32 = 2;
/// Memory for a byte of payload: what `setsockopt(SO_SNDBUF)` reckons with too.
const MEMORY: f64 = 2.0;
/// Round trips that a buffer holds where no curve is known.
const ROUND_TRIPS: f64 = 2.0;
/// Limits are multiples of a page, bytes.
const PAGE: Bytes = 4096;

/// The buffer whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `tcp_wmem`.
    Send,
    /// `tcp_rmem`.
    Receive,
}

impl Side {
    /// Its name in a message.
    pub fn words(self) -> &'static str {
        match self {
            Self::Send => "send buffer",
            Self::Receive => "receive window",
        }
    }
}

/// Bounds of the rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// No limit is below.
    pub least: Bytes,
    /// No limit is above.
    pub most: Bytes,
    /// The share of a curve's maximum that is enough.
    pub target: f64,
}

/// A connection in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Seen {
    /// Payload per time, Mbit/s.
    pub mbit_s: f64,
    /// Rate times smallest RTT, the sum of its subflows: payload on the way without any queue, bytes.
    pub pipe_bytes: f64,
    /// Share of the interval in which it had more to send than its buffer took; of a receiver, in which its buffer
    /// had grown up to the limit.
    pub saturated: f64,
    /// Share of the interval in which a buffer at its limit held it up.
    pub limited: f64,
}

/// Destinations that have a curve in common, or none.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// Throughput over the limit, where a run has measured it.
    pub curve: Option<&'a Curve>,
    /// Its connections.
    pub seen: &'a [Seen],
}

impl Destination<'_> {
    /// Eq. 1, of the connection that is held up most.
    fn limited(&self) -> f64 {
        self.seen.iter().map(|seen| seen.limited).fold(0.0, f64::max)
    }

    fn saturated(&self) -> f64 {
        self.seen.iter().map(|seen| seen.saturated).fold(0.0, f64::max)
    }

    fn mbit_s(&self) -> f64 {
        self.seen.iter().map(|seen| seen.mbit_s).sum()
    }

    /// Of the connection with the longest pipe: limits are those of a connection.
    fn pipe_bytes(&self) -> f64 {
        self.seen.iter().map(|seen| seen.pipe_bytes).fold(0.0, f64::max)
    }
}

/// Decision after an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The limit from now on, bytes.
    pub limit: Bytes,
    /// The reason, in words.
    pub why: String,
    /// The place of the destination that decided; none if none did.
    pub destination: Option<usize>,
}

/// A rise that has to prove itself.
#[derive(Debug, Clone, Copy)]
struct Rise {
    from: Bytes,
    destination: usize,
    mbit_s: f64,
    fruitless: u32,
}

/// The rule of one side.
#[derive(Debug, Clone)]
pub struct Rule {
    side: Side,
    bounds: Bounds,
    limit: Bytes,
    /// Needs of the latest intervals in a row in which less was needed, at most `QUIET`.
    quiet: VecDeque<Bytes>,
    /// Intervals without a fall, and without a rise, that are left.
    no_fall: u32,
    no_rise: u32,
    rise: Option<Rise>,
}

impl Rule {
    /// With the limit that is in force, which is brought within the bounds.
    pub fn new(side: Side, bounds: Bounds, limit: Bytes) -> Self {
        let limit = limit.max(bounds.least).min(bounds.most);
        Self { side, bounds, limit, quiet: VecDeque::new(), no_fall: 0, no_rise: 0, rise: None }
    }

    /// The limit in force, bytes.
    pub fn limit(&self) -> Bytes {
        self.limit
    }

    /// An interval is over.
    pub fn step(&mut self, destinations: &[Destination<'_>]) -> Verdict {
        self.no_fall = self.no_fall.saturating_sub(1);
        self.no_rise = self.no_rise.saturating_sub(1);
        let all = || destinations.iter().enumerate();
        let held_up = all()
            .filter(|(_, seen)| seen.limited() >= 1.0 - self.bounds.target && !self.is_enough(seen))
            .max_by(|(_, left), (_, right)| left.limited().total_cmp(&right.limited()));
        if let Some((place, destination)) = held_up {
            self.quiet.clear();
            return self.rise(place, destination);
        }
        let busiest = all()
            .filter(|(_, seen)| self.shows(seen))
            .max_by(|(_, left), (_, right)| self.need(left).cmp(&self.need(right)));
        let Some((place, destination)) = busiest else {
            let limited = all().map(|(_, seen)| seen.limited()).fold(0.0, f64::max);
            let why = if limited > 0.0 {
                self.held_up(limited)
            } else {
                "no connection shows what it needs".to_owned()
            };
            return self.stays(why, None);
        };
        self.fall(place, destination, destinations)
    }

    /// Eq. 2; none without a curve.
    fn goal(&self, curve: Option<&Curve>) -> Option<f64> {
        let Bounds { least, most, target } = self.bounds;
        curve.map(|curve| target * curve.best(least, most))
    }

    fn is_enough(&self, destination: &Destination<'_>) -> bool {
        self.goal(destination.curve).is_some_and(|goal| destination.mbit_s() >= goal)
    }

    /// True if what the network gives, and not a program or the buffer, is what was seen.
    fn shows(&self, destination: &Destination<'_>) -> bool {
        destination.saturated() >= SATURATED
            && (destination.limited() <= FREE * (1.0 - self.bounds.target)
                || self.is_enough(destination))
    }

    /// Eq. 3 and 4.
    fn need(&self, destination: &Destination<'_>) -> Bytes {
        let pipe = MEMORY * destination.pipe_bytes();
        let Bounds { least, most, .. } = self.bounds;
        let need = match (destination.curve, self.goal(destination.curve)) {
            (Some(curve), Some(goal)) => {
                let by_curve = curve.smallest(destination.mbit_s().min(goal), least, most);
                by_curve.unwrap_or(most).max(pipe.ceil() as Bytes)
            }
            _ => (ROUND_TRIPS * pipe).ceil() as Bytes,
        };
        self.bounded(need.next_multiple_of(PAGE))
    }

    /// The buffer with which the curve reaches its goal.
    fn wanted(&self, curve: Option<&Curve>) -> Option<Bytes> {
        let Bounds { least, most, .. } = self.bounds;
        let wanted = curve?.smallest(self.goal(curve)?, least, most)?;
        Some(self.bounded(wanted.next_multiple_of(PAGE)))
    }

    /// Eq. 5.
    fn rise(&mut self, place: usize, destination: &Destination<'_>) -> Verdict {
        let mbit_s = destination.mbit_s();
        let limited = self.held_up(destination.limited());
        let wanted = self.wanted(destination.curve);
        let is_promised = wanted.is_some_and(|wanted| self.limit <= wanted);
        let to_prove = self.rise.as_mut().filter(|rise| rise.destination == place);
        if let Some(rise) = to_prove.filter(|_| !is_promised) {
            if mbit_s < GAIN * rise.mbit_s {
                rise.fruitless += 1;
                if rise.fruitless < FRUITLESS {
                    let why = format!("{limited}, and no faster yet than with {}", size(rise.from));
                    return self.stays(why, Some(place));
                }
                let Rise { from, mbit_s: before, .. } = *rise;
                let why = format!(
                    "{} instead of {} brought nothing: {} before, {} then",
                    size(self.limit),
                    size(from),
                    rate(before),
                    rate(mbit_s)
                );
                (self.limit, self.rise, self.no_rise) = (from, None, REST);
                return Verdict { limit: self.limit, why, destination: Some(place) };
            }
        }
        if self.limit >= self.bounds.most {
            return self.stays(format!("{limited}, at its most"), Some(place));
        }
        if self.no_rise > 0 && !is_promised {
            return self.stays(format!("{limited}, but more has brought nothing"), Some(place));
        }
        let twice = self.limit.saturating_mul(2);
        let wanted = wanted.filter(|&wanted| wanted > self.limit);
        self.rise = Some(Rise { from: self.limit, destination: place, mbit_s, fruitless: 0 });
        self.limit = self.bounded(wanted.map_or(twice, |wanted| wanted.min(twice)));
        self.no_fall = REST;
        let goal = self.goal(destination.curve);
        let of = goal.map_or(String::new(), |goal| format!(" of {}", rate(goal)));
        let why = format!("{limited}, {}{of}", rate(mbit_s));
        Verdict { limit: self.limit, why, destination: Some(place) }
    }

    /// Eq. 6. A destination with a curve keeps what that wants while nothing is seen of it.
    fn fall(
        &mut self,
        place: usize,
        destination: &Destination<'_>,
        all: &[Destination<'_>],
    ) -> Verdict {
        let needs = all.iter().map(|destination| match self.shows(destination) {
            true => self.need(destination),
            false => self.wanted(destination.curve).unwrap_or(0),
        });
        let need = self.bounded(needs.max().unwrap_or(0));
        let why = format!("{} needs {}", rate(destination.mbit_s()), size(self.need(destination)));
        self.rise = None;
        if need >= self.limit {
            self.quiet.clear();
            return self.stays(why, Some(place));
        }
        if self.quiet.len() == QUIET {
            self.quiet.pop_front();
        }
        self.quiet.push_back(need);
        if self.quiet.len() < QUIET || self.no_fall > 0 {
            return self.stays(why, Some(place));
        }
        let need = self.quiet.iter().copied().fold(need, Bytes::max);
        let (part, whole) = FALL;
        let slow = (self.limit / whole * part).next_multiple_of(PAGE);
        self.limit = self.bounded(need.max(slow)).min(self.limit);
        Verdict { limit: self.limit, why, destination: Some(place) }
    }

    fn stays(&self, why: String, destination: Option<usize>) -> Verdict {
        Verdict { limit: self.limit, why, destination }
    }

    fn held_up(&self, share: f64) -> String {
        format!("{} limited {:.0} % of the time", self.side.words(), share * 100.0)
    }

    fn bounded(&self, limit: Bytes) -> Bytes {
        limit.max(self.bounds.least).min(self.bounds.most)
    }
}

fn rate(mbit_s: f64) -> String {
    let digits = usize::from(mbit_s < 10.0);
    format!("{mbit_s:.digits$} Mbit/s")
}

#[cfg(test)]
mod tests;
