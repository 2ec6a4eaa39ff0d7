"""Options of impact factors: which design measures them, for how long, and how often.

It measures nothing; a design is in a module of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

import msgspec

from mptune import units
from mptune.options import Option, Options, choice, count, time
from mptune.options.buffers import BUFFER
from mptune.options.trials import BufferMode, Family, Seed
from mptune.trial import BIN_NS, DEFAULT_FAMILY, FIXED

#: Windows with and without a subflow in turn, and the papers' formula.
DESIGNS = ("paired", "eq5")

#: Set of a subflow whose mean impact factor is exactly 0.
ZERO_RULES = ("standby", "optional")

#: T of each design, nanoseconds. 30 s is the duration of MPCOA's trials; a paired trial has many windows.
_WINDOW_NS = {"paired": 10_000_000_000, "eq5": 30_000_000_000}

#: Runs of each design: a limit for "paired", which stops as soon as everything is decided.
_RUNS = {"paired": 32, "eq5": 10}


class ImpactOptions(Options, frozen=True, kw_only=True):
    """Options of measuring impact factors.

    Attributes
    ----------
    design : one of `DESIGNS`.
    runs : trials of each subflow, at most so many with the design "paired", and at most so many of sets that
        compete; None is the design's default.
    window_ns : T, nanoseconds: how long a window with all subflows lasts, and one without a subflow. The
        papers leave it open. None is the design's default.
    buffer_bytes : large enough not to limit; 16 MiB is PCDC's setting.
    buffer_mode, family : as in `Trial`.
    settle_ns : left out at the beginning of every window; None is 0 with "eq5", which is the papers'
        formula, and follows from the RTTs with "paired".
    zero : one of `ZERO_RULES`, for "eq5"; the papers have both (errata E5, E26).
    """

    design: Annotated[
        str,
        Option(
            choice(lambda: DESIGNS),
            "Method for impact factors: with and without each subflow in turn, or the papers' Eq. 5.",
            key="impact.design",
            flag="--impact",
        ),
    ] = "paired"
    runs: Annotated[
        int | None,
        Option(
            count(1),
            "Runs per subflow for its impact factor, each with its own seed; with paired at most this many, "
            "and as many of sets that compete.",
            key="impact.runs",
            nested="--impact-runs",
            rare=True,
            unset="32 with paired, 10 with eq5",
        ),
    ] = None
    window_ns: Annotated[
        int | None,
        Option(
            time(step_ns=BIN_NS),
            "T of the impact factors: this long with all subflows, then as long without one.",
            key="impact.duration",
            nested="--impact-duration",
            rare=True,
            unset="10 s with paired, 30 s with eq5",
        ),
    ] = None
    buffer_bytes: Annotated[
        int,
        Option(
            BUFFER,
            "Send and receive buffer of the connection; a bare number is MiB.",
            key="impact.buffer",
            rare=True,
            alone=True,
        ),
    ] = 16 * 1024 * 1024
    buffer_mode: BufferMode = FIXED
    family: Family = DEFAULT_FAMILY
    settle_ns: Annotated[
        int | None,
        Option(
            time(),
            "Leave out this much at the start of every T.",
            key="impact.settle",
            rare=True,
            unset="10 RTTs of the slowest path with paired, 2 s to half of T; nothing with eq5",
        ),
    ] = None
    zero: Annotated[
        str,
        Option(
            choice(lambda: ZERO_RULES),
            "Set of a subflow whose impact factor is exactly 0 with eq5.",
            key="impact.zero",
            rare=True,
        ),
    ] = "standby"
    seed: Seed = 1

    @property
    def most_runs(self) -> int:
        """Runs to do, or the limit for "paired"."""
        return _RUNS[self.design] if self.runs is None else self.runs

    @property
    def length_ns(self) -> int:
        """T, nanoseconds."""
        return _WINDOW_NS[self.design] if self.window_ns is None else self.window_ns

    def beside(self, buffers: Sequence[int], mode: str, family: str, seed: int) -> Self:
        """The same before a sweep: with its largest buffer, and its mode, family and seed."""
        largest = max(buffers, default=self.buffer_bytes)
        return msgspec.structs.replace(self, buffer_bytes=largest, buffer_mode=mode, family=family, seed=seed)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """The windows must not be empty."""
        if self.settle_ns is not None and self.settle_ns >= self.length_ns:
            yield "settle_ns", f"expected less than T, found {units.format_time(self.settle_ns)}"
