"""The rule that ends a trial early (`Trial.ends_early`), on a series that was measured before.

Testbeds do not use this module: in them the same rule, which is in the core, ends the trial itself.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mptune import _core
from mptune.trial import BIN_NS, bits_per_second


class EarlyEnd(NamedTuple):
    """A trial ended early, as replayed from a full one: its duration and throughput.

    Attributes
    ----------
    expected_bps : as in `Observation`.
    """

    duration_ns: int
    expected_bps: float


def replayed(bins: Iterable[int], duration_ns: int) -> EarlyEnd | None:
    """Replay a trial up to its early end; None if it would have lasted for the whole duration.

    Parameters
    ----------
    bins : payload bytes in order per `BIN_NS`, from the first SYN, for as long as the trial lasted.
    duration_ns : what was asked for.
    """
    ended = _core.early_end([int(number) for number in bins], duration_ns, BIN_NS)
    return None if ended is None else EarlyEnd(ended[0], bits_per_second(ended[1], duration_ns))
