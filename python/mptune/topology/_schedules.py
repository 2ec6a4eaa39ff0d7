"""Schedules of a topology file: steps at which rates, delays and losses change, once or repeatedly.

A step has the keys of its table (`up`, `down`, `delay`, `loss` of an interface; `rate`, `delay`, `loss` of a
core segment) and sets them from then on. A link that would let nothing through for ever is refused: a trial's
script cuts paths for good, not its network.
"""

from __future__ import annotations

from typing import Any

from mptune import units
from mptune.errors import InputError
from mptune.tables import inside
from mptune.topology._effects import Schedule, Step
from mptune.topology._kinds import CHANCE, MIN_RATE_BPS, MOMENT, PERIOD, STEP_RATE, TIME
from mptune.topology._values import Table

_KINDS = {"up": STEP_RATE, "down": STEP_RATE, "rate": STEP_RATE, "delay": TIME, "loss": CHANCE}
_WHOLE = units.FRACTIONS[""]


def read_steps(table: Table[Any], rates: dict[str, bool]) -> Steps | None:
    """Steps of the `schedule` of an interface or a segment, if any.

    Parameters
    ----------
    rates : key of a step's rate -> whether steps can change the link's rate.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    if table.has("schedule"):
        return Steps(table, rates)
    if table.has("schedule_period"):
        raise table.refuse("schedule_period", "expected a schedule beside it, but missing")
    return None


class Steps:
    """All steps of one table's schedule, before they are divided between its links."""

    def __init__(self, table: Table[Any], rates: dict[str, bool]) -> None:
        self._where = table.ledger.where
        if not table.raw("schedule"):
            raise table.refuse("schedule", "expected at least one step, found none")
        self._names = (*rates, "delay", "loss")
        self._rows: list[tuple[str, int, dict[str, int]]] = []
        for row in table.rows("schedule"):
            self._rows.append((row.key, *self._row(row, rates)))
        self._period_ns = self._period(table)

    def _row(self, row: Table[Any], rates: dict[str, bool]) -> tuple[int, dict[str, int]]:
        at = row.value("at", MOMENT)
        if self._rows and at <= self._rows[-1][1]:
            before, found = units.format_time(self._rows[-1][1]), units.format_time(at)
            raise row.refuse("at", f"expected more than {before}, the step before, found {found}")
        values = {name: row.value(name, _KINDS[name]) for name in self._names if row.has(name)}
        if not values:
            raise row.refuse("at", f"expected one of {', '.join(self._names)} beside it, found none")
        for name, has_rate in rates.items():
            if name in values and not has_rate:
                raise row.refuse(name, "expected a link with a fixed rate, which this is not")
        return at, values

    def _period(self, table: Table[Any]) -> int | None:
        period, last = table.optional("schedule_period", PERIOD), self._rows[-1][1]
        if period is not None and period <= last:
            expected = f"expected more than the {units.format_time(last)} of the last step"
            raise table.refuse("schedule_period", f"{expected}, found {units.format_time(period)}")
        return period

    def of_link(self, rate: str, base_bps: int | None, *, lossy: bool = True) -> Schedule | None:
        """Schedule of one link; None if no step affects it.

        Parameters
        ----------
        rate : key of its rate.
        base_bps : its rate before the first step.
        lossy : losses apply to this link too.

        Raises
        ------
        InputError : nothing gets through in the long run.
        """
        names = {"rate_bps": rate, "delay_ns": "delay"} | ({"loss_ppb": "loss"} if lossy else {})
        steps = []
        for _, at, values in self._rows:
            own = {field: values[name] for field, name in names.items() if name in values}
            if own:
                steps.append(Step(at_ns=at, **own))
        if not steps:
            return None
        schedule = Schedule(steps=tuple(steps), period_ns=self._period_ns)
        self._check(schedule, rate, base_bps)
        return schedule

    def _check(self, schedule: Schedule, rate: str, base_bps: int | None) -> None:
        if base_bps is not None:
            mean = schedule.mean(base_bps, lambda step: step.rate_bps)
            if mean < MIN_RATE_BPS:
                least = f"expected at least {MIN_RATE_BPS} bit/s in the long run"
                expected = f"{least}: a later step or a schedule_period"
                found = f"{units.format_rate(mean)}{'' if self._period_ns else ' for ever'}"
                raise InputError(self._where, self._last(rate), f"{expected}, found {found}")
        if schedule.mean(0, lambda step: step.loss_ppb) == _WHOLE:
            expected = "expected less than 100 % in the long run: a later step or a schedule_period"
            raise InputError(self._where, self._last("loss"), f"{expected}, found 100 % for ever")

    def _last(self, name: str) -> str:
        return next(inside(key, name) for key, _, values in reversed(self._rows) if name in values)
