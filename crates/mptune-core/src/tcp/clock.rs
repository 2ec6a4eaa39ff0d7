//! The clock of a kernel's timers: ticks, and the timer wheel (Linux `kernel/time/timer.c`, `calc_wheel_index`).
//!
//! A timer expires at a tick after its time, one that waits long at a coarser multiple. Not here: pacing and compressed
//! ACKs, whose timers are exact (hrtimers).

use crate::units::Nanos;

/// Ticks of the first level of the wheel; each further level is [`COARSER`] times as coarse and long.
const LEVEL: u64 = 63;
const COARSER: u32 = 3;
/// Levels beyond the first.
const LEVELS: u32 = 7;
/// Ticks before those counted here, as far as the coarser levels notice them: a kernel's count begins five minutes before
/// zero (Linux `INITIAL_JIFFIES`), and a guest has 10 s before a trial.
const BEFORE: u64 = 816;

/// A clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Length of a tick, 0 if timers are exact.
    tick: Nanos,
    /// 2^64 divided by `tick`, rounded up.
    reciprocal: u64,
    /// Time of the clock at the start of a trial.
    phase: Nanos,
}

impl Clock {
    /// Timers expire exactly when they are due.
    pub const EXACT: Self = Self { tick: 0, reciprocal: 0, phase: 0 };

    /// A clock with ticks of at least 2 ns that has ticked for `phase` when a trial starts.
    pub const fn new(tick: Nanos, phase: Nanos) -> Self {
        Self { tick, reciprocal: u64::MAX / tick + 1, phase }
    }

    /// Whole ticks in a time. Each ACK asks several times: a product, at most 1 too large, takes a third of a division.
    #[inline]
    fn whole_ticks(self, time: Nanos) -> u64 {
        if self.is_exact() {
            return time;
        }
        let product = u128::from(time) * u128::from(self.reciprocal);
        let ticks = (product >> u64::BITS) as u64;
        ticks - u64::from(ticks * self.tick > time)
    }

    /// Timers expire exactly when they are due.
    #[inline]
    pub fn is_exact(self) -> bool {
        self.tick == 0
    }

    /// The time that it shows.
    #[inline]
    pub fn time(self, now: Nanos) -> Nanos {
        now + self.phase
    }

    /// Ticks so far (Linux `jiffies`).
    #[inline]
    pub fn ticks(self, now: Nanos) -> u64 {
        BEFORE + self.whole_ticks(now + self.phase)
    }

    /// A time in ticks, rounded up (Linux `usecs_to_jiffies`).
    #[inline]
    pub fn in_ticks(self, time: Nanos) -> u64 {
        let ticks = self.whole_ticks(time);
        ticks + u64::from(ticks * self.tick.max(1) < time)
    }

    /// The time between two moments, in whole ticks.
    #[inline]
    pub fn between(self, earlier: Nanos, later: Nanos) -> Nanos {
        if self.is_exact() {
            later.saturating_sub(earlier)
        } else {
            (self.ticks(later) - self.ticks(earlier)) * self.tick
        }
    }

    /// A time, rounded up to whole ticks.
    #[inline]
    pub fn rounded_up(self, time: Nanos) -> Nanos {
        if self.is_exact() { time } else { self.in_ticks(time) * self.tick }
    }

    /// Number of times that cwnd is halved after an idle time of more than a timeout: not for one that is just as long (Linux
    /// `tcp_cwnd_restart`).
    pub fn halvings(self, idle: Nanos, timeout: Nanos) -> Nanos {
        let exact = u64::from(!self.is_exact());
        ((idle - exact) / timeout).min(32)
    }

    /// When a timer expires that is set now for this long.
    #[inline]
    pub fn after(self, now: Nanos, wait: Nanos) -> Nanos {
        if self.is_exact() {
            now + wait
        } else {
            self.after_tick(self.ticks(now), self.in_ticks(wait))
        }
    }

    /// When a timer expires that is set at a tick for so many.
    pub fn after_tick(self, tick: u64, ticks: u64) -> Nanos {
        let expires = tick + ticks;
        let (mut shift, mut level) = (0, LEVEL);
        while ticks >= level && shift < LEVELS * COARSER {
            (shift, level) = (shift + COARSER, level << COARSER);
        }
        let bucket = ((expires >> shift) + 1) << shift;
        // Later than the phase, as `expires` is.
        (bucket - BEFORE) * self.tick - self.phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MILLISECOND;
    use proptest::prelude::*;

    #[test]
    fn a_timer_expires_at_the_tick_after_its_time() {
        let clock = Clock::new(4 * MILLISECOND, MILLISECOND);
        // Ticks are at 3, 7, 11 ms and so on.
        assert_eq!(clock.after(0, 40 * MILLISECOND), 43 * MILLISECOND);
        assert_eq!(clock.after(3 * MILLISECOND, 40 * MILLISECOND), 47 * MILLISECOND);
        assert_eq!(clock.after(2 * MILLISECOND, 1), 7 * MILLISECOND);
        assert_eq!(Clock::EXACT.after(5, 6), 11);
    }

    #[test]
    fn longer_timers_are_coarser() {
        let clock = Clock::new(MILLISECOND, 0);
        assert_eq!(clock.after(0, 62 * MILLISECOND), 63 * MILLISECOND);
        assert_eq!(clock.after(0, 63 * MILLISECOND), 64 * MILLISECOND);
        assert_eq!(clock.after(0, 64 * MILLISECOND), 72 * MILLISECOND);
        assert_eq!(clock.after(0, 200 * MILLISECOND), 208 * MILLISECOND);
        // 816 and 504 ticks: the level of 64.
        assert_eq!(clock.after(0, 504 * MILLISECOND), (1344 - 816) * MILLISECOND);
    }

    proptest! {
        #[test]
        fn ticks_are_those_of_a_division(tick in 2u64..20_000_000, time in 0u64..1 << 62, near in 0u64..1 << 38) {
            let clock = Clock::new(tick, 0);
            for time in [time, near * tick, (near * tick).saturating_sub(1)] {
                prop_assert_eq!(clock.ticks(time), BEFORE + time / tick);
                prop_assert_eq!(clock.in_ticks(time), time.div_ceil(tick));
            }
        }

        #[test]
        fn no_timer_is_early_and_none_is_later_than_an_eighth(
            tick in 1u64..5, phase in 0u64..10_000_000_000, now in 0u64..1 << 40, wait in 1u64..1 << 36,
        ) {
            let clock = Clock::new(tick * MILLISECOND, phase);
            let late = clock.after(now, wait) - now - wait;
            prop_assert!(late <= wait / 7 + 2 * tick * MILLISECOND, "{}", late);
        }
    }
}
