"""Course of an adaptive strategy: its beliefs after each batch of trials.

`learning` notes it, `mptune.result` writes it, and an interrupted run ends with its last belief.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from mptune._text import digits
from mptune.errors import Interrupted, LimitReached
from mptune.trial import Combination
from mptune.units import format_size


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Beliefs after some trials.

    Attributes
    ----------
    trials, seconds : of the sweep until then, and on the testbed.
    value, unit : of the best answer so far.
    certainty, room : probability that the best answer so far misses what the sacrifice allows by this share
        at most.
    more_s : seconds on the testbed after which it is expected to be certain; 0 if it is, None if that is not
        in sight.
    prior : whether the simulator's prediction is "followed" or was "dropped", or what was learnt from it is
        ("learnt, followed"); empty without one.
    drift : change of the network's throughput while it was measured, as a share; None without one.
    contenders : combinations that may still hold the best answer, the likeliest first.
    among : number of combinations that competed.
    aim : what it is certain to be near, as the end of a sentence: "what ...".
    buffers : smallest and largest buffer that may still be the answer, bytes.
    """

    trials: int
    seconds: float
    combination: Combination
    buffer_bytes: int
    value: float
    unit: str
    aim: str
    certainty: float
    room: float
    contenders: tuple[Combination, ...]
    among: int
    buffers: tuple[int, int]
    more_s: float | None = None
    prior: str = ""
    drift: float | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Course of the decision.

    Attributes
    ----------
    strategy : name in `mptune.strategy.STRATEGIES`.
    wanted : the certainty that was asked for.
    budget_s : seconds on the testbed, for everything; None for as many as the certainty needs.
    spent_s : seconds of impact factors and sweep together.
    ended : "certain"; "budget"; or "everything", where all runs that could change the answer were measured.
    steps : after every batch of trials.
    """

    strategy: str
    wanted: float
    budget_s: float | None
    spent_s: float
    ended: str
    steps: tuple[Step, ...]


@contextmanager
def telling(steps: Sequence[Step]) -> Iterator[None]:
    """Ctrl-C, or a limit of the user's, ends what is inside with the best answer of the last step."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(so_far(steps), error) from None
    except LimitReached as error:
        error.so_far = so_far(steps)
        raise


def so_far(steps: Sequence[Step]) -> str:
    """The best answer after some trials, as a sentence; empty where there is none."""
    if not steps:
        return ""
    last = steps[-1]
    name = last.combination
    return (
        f"best answer after {last.trials} trials: {name.manager} with {name.cc} and "
        f"{format_size(last.buffer_bytes, 3)}, some {digits(last.value, 3)} {last.unit} "
        f"({percent_certain(last.certainty)} certain that this is within {100 * last.room:.2g} % of what "
        f"{last.aim})"
    )


def percent_certain(certainty: float) -> str:
    """A certainty for people: nothing that was measured is certain."""
    return f"{min(100 * certainty, 99.9):.3g} %"
