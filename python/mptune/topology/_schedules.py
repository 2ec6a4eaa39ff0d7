"""Schedules of a topology file: steps at which rates, delays and losses change, once or repeatedly.

A step has the keys of its table (`up`, `down`, `delay`, `loss` of an interface; `rate`, `delay`, `loss` of a
core segment) and sets them from then on. A link that would let nothing through for ever is refused: a trial's
script cuts paths for good, not its network.
"""

from __future__ import annotations

from mptune import units
from mptune.errors import InputError
from mptune.tables import inside
from mptune.topology._effects import Schedule, Step
from mptune.topology._groups import Group
from mptune.topology._kinds import CHANCE, MIN_RATE_BPS, MOMENT, PERIOD, STEP_RATE, TIME
from mptune.topology._schema import InterfaceStepTable, InterfaceTable, SegmentStepTable, SegmentValues
from mptune.topology._values import Ledger, Origin

_KINDS = {"up": STEP_RATE, "down": STEP_RATE, "rate": STEP_RATE, "delay": TIME, "loss": CHANCE}
_WHOLE = units.FRACTIONS[""]


def read_steps(
    ledger: Ledger,
    key: str,
    table: InterfaceTable | SegmentValues,
    origin: Origin,
    rates: dict[str, bool],
) -> Steps | None:
    """Steps of the `schedule` in the table at `key`, if any.

    Parameters
    ----------
    origin : origin of the table's plain values.
    rates : key of a step's rate -> whether steps can change the link's rate.

    Raises
    ------
    InputError : anything that is not as expected.
    """
    if table.schedule is not None:
        return Steps(ledger, key, table, origin, rates)
    if table.schedule_period is not None:
        where = inside(key, "schedule_period")
        raise InputError(ledger.where, where, "expected a schedule beside it, but missing")
    return None


class Steps:
    """All steps of one table's schedule, before they are divided between its links."""

    def __init__(
        self,
        ledger: Ledger,
        key: str,
        table: InterfaceTable | SegmentValues,
        origin: Origin,
        rates: dict[str, bool],
    ) -> None:
        self._where, self._key = ledger.where, inside(key, "schedule")
        if not table.schedule:
            raise InputError(self._where, self._key, "expected at least one step, found none")
        row_table = InterfaceStepTable if isinstance(table, InterfaceTable) else SegmentStepTable
        self._names = (*rates, "delay", "loss")
        self._rows: list[tuple[str, int, dict[str, int]]] = []
        for number, raw in enumerate(table.schedule):
            group = Group(ledger, f"{self._key}[{number}]", raw, row_table, origin)
            self._rows.append((group.key, *self._row(group, rates)))
        self._period_ns = self._period(ledger, inside(key, "schedule_period"), table.schedule_period, origin)

    def _row(self, group: Group, rates: dict[str, bool]) -> tuple[int, dict[str, int]]:
        at = group.value("at", MOMENT)
        if self._rows and at <= self._rows[-1][1]:
            before, found = units.format_time(self._rows[-1][1]), units.format_time(at)
            raise group.refuse("at", f"expected more than {before}, the step before, found {found}")
        values = {name: group.value(name, _KINDS[name]) for name in self._names if group.has(name)}
        if not values:
            raise group.refuse("at", f"expected one of {', '.join(self._names)} beside it, found none")
        for name, has_rate in rates.items():
            if name in values and not has_rate:
                raise group.refuse(name, "expected a link with a fixed rate, which this is not")
        return at, values

    def _period(self, ledger: Ledger, key: str, raw: object, origin: Origin) -> int | None:
        if raw is None:
            return None
        period, last = ledger.read(key, raw, PERIOD, origin), self._rows[-1][1]
        if period <= last:
            expected = f"expected more than the {units.format_time(last)} of the last step"
            raise InputError(self._where, key, f"{expected}, found {units.format_time(period)}")
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
