"""The positions of a report's slider: the answer, and what other sacrifices would have given.

The sentences are made here, in the same words as the answer; the page only shows them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mptune._text import digits
from mptune.decision.selection import whole_buffer
from mptune.result import wording
from mptune.result.answer import Answer, FrontRow
from mptune.result.run_data import RunData

#: Alignment of the ring's label in each part of the axis.
_SIDES = ("left", "center", "right")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One position of the slider.

    Attributes
    ----------
    pm : with its subflows and its initial path, if those were chosen.
    sentence : what to set; `sacrifice` : what is given up for it; `prediction` : what to expect from it, None
    for the answer, which has sentences of its own.
    """

    pm: str
    cc: str
    buffer_mib: float
    throughput_mbps: float
    sacrifice: str
    sentence: str
    prediction: str | None = None


class Choices(msgspec.Struct, frozen=True):
    """Every position of the slider by rising sacrifice, and the index of the answer."""

    all: tuple[Choice, ...] = ()
    answer: int = 0

    def marks(self, along: Callable[[float], float], pm: str | None = None) -> list[dict[str, Any]]:
        """Rows for the ring of a chart, optionally for one path manager only.

        Parameters
        ----------
        along : where a buffer (MiB) lies on its axis, from 0 to 1: the label goes on the side with room.
        """
        return [
            {
                "choice": index,
                "buffer_mib": choice.buffer_mib,
                "throughput_mbps": choice.throughput_mbps,
                "label": f"{choice.cc}, {choice.buffer_mib:.2f} MiB\n{digits(choice.throughput_mbps)} Mbit/s",
                "side": _SIDES[min(int(len(_SIDES) * along(choice.buffer_mib)), len(_SIDES) - 1)],
            }
            for index, choice in enumerate(self.all)
            if pm in (None, choice.pm)
        ]


def logarithmic(sizes: Sequence[float]) -> Callable[[float], float]:
    """Position of a size on a logarithmic axis over these sizes, from 0 to 1; 0.5 of a single one."""
    low, high = math.log(min(sizes)), math.log(max(sizes))
    if low == high:
        return lambda size: 0.5
    return lambda size: min(max((math.log(size) - low) / (high - low), 0.0), 1.0)


def choices(run: RunData) -> Choices:
    """Positions of the slider; none for a run without an answer.

    The answer by a reading other than the global one need not be on the front: it has a position of its own.
    """
    answer = run.answer
    if answer is None:
        return Choices()
    behind = [row for row in answer.pareto if row.sacrifice <= answer.sacrifice]
    others = [row for row in answer.pareto if row.sacrifice > answer.sacrifice]
    reached = (*run.answering, answer.obs_mib)
    if behind and (behind[-1].manager, behind[-1].cc, behind[-1].buffer_mib) == reached:
        behind.pop()
    made = [*(_other(run, answer, row) for row in behind), _answer(run, answer)]
    return Choices((*made, *(_other(run, answer, row) for row in others)), len(behind))


def _answer(run: RunData, answer: Answer) -> Choice:
    pm, cc = run.answering
    return Choice(
        pm=pm,
        cc=cc,
        buffer_mib=answer.obs_mib,
        throughput_mbps=answer.otp_mbps,
        sacrifice=f"up to {_percent(answer.sacrifice)}, as requested: the recommended choice",
        sentence=answer.answer[0],
    )


def _other(run: RunData, answer: Answer, row: FrontRow) -> Choice:
    interval = _interval(row.throughput_mbps_low, row.throughput_mbps_high)
    needed = ""
    if row.buffer_mib_low is not None and row.buffer_mib_high is not None:
        ends = wording.ends(row.buffer_mib_low, row.buffer_mib_high, 3)
        needed = f" In 95 % of the resamples it needed {ends} MiB."
    predicted = f"The {answer.model} model predicts {digits(row.throughput_mbps)} Mbit/s{interval}."
    unconfirmed = " It was not confirmed; the recommended choice was." if answer.confirmed.runs else ""
    subflows, standby = (row.subflows.split(), ()) if row.subflows else _subflows(run, row.pm, row.cc)
    buffer_bytes = whole_buffer(row.buffer_mib)
    return Choice(
        pm=row.manager,
        cc=row.cc,
        buffer_mib=row.buffer_mib,
        throughput_mbps=row.throughput_mbps,
        sacrifice=_percent(row.sacrifice),
        sentence=wording.instruction(
            run.name,
            row.pm,
            row.cc,
            buffer_bytes,
            subflows,
            standby,
            stack=answer.stack or "",
            mode=answer.buffer_mode or "",
            receive_bytes=answer.receive_bytes,
            family=answer.family or "",
            initial_path=row.initial_path or "",
        ),
        prediction=f"{predicted}{needed}{unconfirmed}",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({wording.ends(low, high)})"


def _subflows(run: RunData, pm: str, cc: str) -> tuple[Sequence[str], Sequence[str]]:
    """Subflows that carry data and those that stand by; empty where the path manager decides."""
    if pm == "pcdc":
        return next(((impact.optional, impact.standby) for impact in run.impact if impact.cc == cc), ((), ()))
    if pm == "fullmesh" and run.topology is not None:
        return tuple(path.label for path in run.topology.paths), ()
    return (), ()
