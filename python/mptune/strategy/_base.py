"""The interface of a strategy: from the question and the observations so far, what to measure next.

Ask and tell. A strategy is pure: no clock, no testbed, no hidden randomness. The same observations always
lead to the same next trial, so a campaign that was killed continues where it stopped. A new
strategy is one file beside this one and one line in `mptune.strategy`.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from mptune.response import Arm

#: An answer is certain if it misses what the sacrifice allows by this share of the throughput at most.
ROOM = 0.02


class Ask(NamedTuple):
    """A trial to do.

    Attributes
    ----------
    arm : index into the question's arms.
    size : index into the question's buffers.
    run : of this configuration, from 0.
    """

    arm: int
    size: int
    run: int


class Told(NamedTuple):
    """Result of a trial.

    Attributes
    ----------
    value : throughput, Mbit/s, or the worth of another metric (`mptune.trial.metrics`); 0 for a connection
        that stalled, which is a result; None where the testbed failed, which is no evidence about the
        configuration.
    seconds : that it took on the testbed, with its set-up; None for the question's `trial_s`.
    at_s : when it ended, in seconds since any moment that is the same for all; None where it is not known.
    """

    ask: Ask
    value: float | None
    seconds: float | None = None
    at_s: float | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The decision to make, and its budget.

    Attributes
    ----------
    arms : the order means nothing.
    buffers : bytes, ascending; an answer has one of them.
    sacrifice : delta of MPCOA Eq. 10, in [0, 1).
    runs : of each configuration, at most; `grid` does exactly this many.
    certainty : probability with which the answer has to hold, in (0.5, 1).
    batch : trials that are asked for together, because the testbed runs several at once.
    trial_s : seconds that a trial is expected to take on the testbed, with its set-up.
    budget_s : seconds in all; None for as many as the certainty needs. No trial is begun that is not expected
        to end within it.
    seed : of the strategy's own draws.
    prior : predicted throughputs, Mbit/s: a row per arm with a value per buffer; empty for none. Their ranks
        and shapes matter, not their level.
    prior_error : how far the truth is from the prior, as shares of the throughput: a half and nine tenths
        of its errors lie within these; None where that is not known.
    """

    arms: tuple[Arm, ...]
    buffers: tuple[int, ...]
    sacrifice: float
    runs: int
    certainty: float = 0.95
    batch: int = 1
    trial_s: float = 1.0
    budget_s: float | None = None
    seed: int = 1
    prior: tuple[tuple[float, ...], ...] = ()
    prior_error: tuple[float, float] | None = None

    def left(self, spent_s: float) -> int:
        """Number of trials that may still be asked for together, after this many seconds."""
        if self.budget_s is None:
            return self.batch
        # A little more: sums of many durations are not exact.
        return max(0, min(self.batch, int((self.budget_s - spent_s) / self.trial_s + 1e-6)))

    def cost(self, trial: Told) -> float:
        """Seconds that a trial took."""
        return self.trial_s if trial.seconds is None else trial.seconds


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the network while it was measured.

    Attributes
    ----------
    change : of the throughput, as a share: -0.2 for a fifth less than before.
    at_s : after which moment, as in `Told`.
    """

    change: float
    at_s: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The best answer so far.

    Attributes
    ----------
    arm, size : indices as in `Ask`.
    value, interval : what to expect there, and its 95 % interval.
    certainty : probability that its throughput is at most `room` below what the sacrifice allows.
    room : share of the throughput: 0.02, or what the certainty asked for allows.
    contenders, shares : arms that may still hold the best answer, the likeliest first, and how likely each
        is.
    sizes : smallest and largest index of a buffer that may still be the answer.
    scatter : standard deviation of its value between runs.
    more_s : seconds on the testbed after which it is expected to be certain: 0 if it is, None if that is not
        in sight.
    prior : whether the question's prior is "followed" or was "dropped"; empty without one.
    drift : set if the network changed; old trials count less then, and the answer is of the network as it was
        on average.
    """

    arm: int
    size: int
    value: float
    interval: tuple[float, float]
    certainty: float
    room: float
    contenders: tuple[int, ...]
    shares: tuple[float, ...]
    sizes: tuple[int, int]
    scatter: float = 0.0
    more_s: float | None = None
    prior: str = ""
    drift: Drift | None = None


class Odds(NamedTuple):
    """Beliefs about every configuration; each a row per arm with a value per buffer.

    Attributes
    ----------
    suffices : probability that its throughput is what the sacrifice allows, or more.
    expected : its throughput, or worth.
    behind : share of the best one that it misses at most, with the certainty asked for.
    """

    suffices: tuple[tuple[float, ...], ...]
    expected: tuple[tuple[float, ...], ...]
    behind: tuple[tuple[float, ...], ...]


class Strategy(Protocol):
    """Ask until nothing is asked; tell everything that was asked for, in any order."""

    def ask(self) -> Sequence[Ask]:
        """Trials to do next, at most the question's batch; empty at the end."""
        ...

    def foreseen(self, asked: Sequence[Ask], most: int) -> Sequence[Ask]:
        """Trials that it is likely to ask for after these, the likeliest first, so many at most: a guess."""
        ...

    def tell(self, observations: Sequence[Told]) -> None:
        """Receive results of trials; also those of an earlier, interrupted run."""
        ...

    def verdict(self) -> Verdict | None:
        """The best answer so far; None before any observation, or if the strategy has none of its own."""
        ...

    def odds(self) -> Odds | None:
        """Beliefs about every configuration; None before any observation, or without beliefs."""
        ...
