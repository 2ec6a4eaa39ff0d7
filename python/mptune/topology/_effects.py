"""Link effects beyond a rate, a delay, a queue and a loss: one declaration for each effect.

A declaration (`_declared`) has the names of the core's description (`crates/mptune-core/src/network/`), which
documents what the effect does to packets. Rates are bit/s, times ns, sizes bytes, probabilities parts
per billion (ppb). A parameter that a file may leave out has a default with its reason; an effect that it does
not mention does nothing. Effects on the wire are declared by the core itself (`_wire_effects`). Traces and
schedules, which replace a link's own values, are read by `_trace` and `_schedules`.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from mptune import units
from mptune.topology import _over_time
from mptune.topology._declared import Ahead, Effect, On, Parameter, Values, declared
from mptune.topology._defaults import Assumption
from mptune.topology._kinds import (
    CHANCE,
    COUNT,
    QUANTUM,
    QUEUE,
    RATE,
    SIZE,
    SOME_CHANCE,
    SOME_TIME,
    SWITCH,
)
from mptune.topology._wire_effects import WIRE_EFFECTS
from mptune.topology._words import rate_in_words, share_in_words, size_in_words, time_in_words
from mptune.topology.models import Mobile5g, Starlink, Wifi

_PPB = 10**9
#: Steps of a value from which on it is described by figures.
_MANY = 10
_FULL_PACKET = 1500
_BIT_NS_PER_BYTE = 8 * 10**9


def _reaction(ecn: bool) -> str:
    return "marks ECN" if ecn else "drops"


class TokenBucket(Effect, frozen=True, kw_only=True):
    """Bursts pass at once, the long-term rate is bounded; full at the start."""

    rate_bps: Annotated[int, Parameter(RATE)]
    burst_bytes: Annotated[int, Parameter(QUEUE)]

    @property
    def rate_bound_bps(self) -> int | None:
        """The rate at which tokens come in."""
        return self.rate_bps

    @property
    def words(self) -> str:
        """Its rate and size."""
        return f"token bucket, {rate_in_words(self.rate_bps)} and {size_in_words(self.burst_bytes)}"


_TC_RED = "as iproute2's tc sets it (tc/q_red.c)"
_GENTLE = "not given: gentle, Floyd's recommendation of 2000 (Recommendation on using the gentle variant)"
_FLOYD_1997 = "Floyd's recommendation of 1997 (RED: Discussions of Setting Parameters)"


def _red_max(values: Values) -> Assumption[int]:
    low, queue_bytes = values.given("min"), values.ahead.queue_bytes
    if low is None:
        return Assumption(queue_bytes // 4, f"no max given: a quarter of the queue, {_TC_RED}")
    reason = f"no max given: three times min within the queue, {_FLOYD_1997}"
    return Assumption(min(3 * low, queue_bytes), reason)


def _red_min(values: Values) -> Assumption[int]:
    return Assumption(values["max"] // 3, f"no min given: a third of max, {_FLOYD_1997}")


class Red(Effect, frozen=True, kw_only=True, tag="red", tag_field="kind"):
    """Random early detection (Floyd and Jacobson 1993), with the gentle variant and ECN."""

    min_bytes: Annotated[int, Parameter(SIZE, _red_min)]
    max_bytes: Annotated[int, Parameter(SIZE, _red_max)]
    max_ppb: Annotated[
        int,
        Parameter(SOME_CHANCE, _PPB // 10, f"no probability given: 10 %, {_FLOYD_1997}", key="probability"),
    ]
    weight_ppb: Annotated[
        int,
        Parameter(SOME_CHANCE, _PPB // 500, "no weight given: 0.002, as in the paper's simulations (1993)"),
    ]
    gentle: Annotated[bool, Parameter(SWITCH, True, _GENTLE)]
    ecn: Annotated[bool, Parameter(SWITCH, False, "not given: drops, as Linux does by default (sch_red.c)")]

    def conflicts(self, ahead: Ahead) -> Iterator[tuple[str, str]]:
        """The thresholds are in order, and within the queue."""
        low, high, queue = (units.format_size(size) for size in (self.min_bytes, self.max_bytes, ahead[0]))
        if self.min_bytes >= self.max_bytes:
            yield "max", f"expected more than min, found min {low} and max {high}"
        if self.max_bytes > ahead.queue_bytes:
            yield "max", f"expected at most the queue's limit, found {high} and a queue of {queue}"

    @property
    def words(self) -> str:
        """Its thresholds."""
        return (
            f"RED, {size_in_words(self.min_bytes)} to {size_in_words(self.max_bytes)}, {_reaction(self.ecn)}"
        )


def _step_mark(values: Values) -> Assumption[int]:
    reason = "no mark given: 20 packets, DCTCP's for 1 Gbit/s (SIGCOMM 2010), within half the queue"
    return Assumption(min(20 * _FULL_PACKET, values.ahead.queue_bytes // 2), reason)


class StepMarking(Effect, frozen=True, kw_only=True, tag="step", tag_field="kind"):
    """Marks every ECN-capable packet that finds more than a threshold (RFC 8257 section 3.1)."""

    mark_bytes: Annotated[int, Parameter(SIZE, _step_mark)]

    def conflicts(self, ahead: Ahead) -> Iterator[tuple[str, str]]:
        """The threshold is within the queue."""
        if self.mark_bytes >= ahead.queue_bytes:
            mark, queue = units.format_size(self.mark_bytes), units.format_size(ahead.queue_bytes)
            yield "mark", f"expected less than the queue's limit, found {mark} and a queue of {queue}"

    @property
    def words(self) -> str:
        """Its threshold."""
        return f"ECN marks above {size_in_words(self.mark_bytes)}"


_TARGET_NS = 5_000_000
_INTERVAL_NS = 100_000_000
#: The core takes intervals of up to 100 s.
_MAX_TARGET_NS = 10**10


def _target(values: Values) -> Assumption[int]:
    packet_ns = min(_FULL_PACKET * 8 * 10**9 // values.ahead.rate_bps, _MAX_TARGET_NS)
    if packet_ns <= _TARGET_NS:
        return Assumption(_TARGET_NS, "no target given: 5 ms, the recommendation (RFC 8289, section 4)")
    reason = "no target given: the time of a full packet where that is more than 5 ms (RFC 8290, section 5.2)"
    return Assumption(packet_ns, reason)


def _interval(values: Values) -> Assumption[int]:
    target_ns = values["target"]
    if 10 * target_ns <= _INTERVAL_NS:
        reason = "no interval given: 100 ms, the recommendation (RFC 8289, section 4)"
        return Assumption(_INTERVAL_NS, reason)
    reason = "no interval given: ten times the target, which should be 5 to 10 % of it (RFC 8289, section 4)"
    return Assumption(10 * min(target_ns, _MAX_TARGET_NS), reason)


class _ControlledDelay(Effect, frozen=True, kw_only=True):
    """A discipline that keeps its queue short by itself, so that the limit hardly matters."""

    queue: ClassVar[Assumption[int] | None] = Assumption(
        10_240 * _FULL_PACKET,
        "no queue given: 10240 packets, out of CoDel's way, which keeps the queue short "
        "(RFC 8290, section 5.2)",
    )

    target_ns: Annotated[int, Parameter(SOME_TIME, _target)]
    interval_ns: Annotated[int, Parameter(SOME_TIME, _interval)]

    def conflicts(self, ahead: Ahead) -> Iterator[tuple[str, str]]:
        """The target must be exceeded for longer than itself."""
        if self.target_ns >= self.interval_ns:
            target, interval = units.format_time(self.target_ns), units.format_time(self.interval_ns)
            yield "interval", f"expected more than target, found target {target} and interval {interval}"

    def standing_bytes(self, queue_bytes: int, rate_bps: int) -> int:
        """Queue that the target allows."""
        return min(queue_bytes, max(_FULL_PACKET, self.target_ns * rate_bps // _BIT_NS_PER_BYTE))

    @property
    def _times(self) -> str:
        return f"{time_in_words(self.target_ns)} in {time_in_words(self.interval_ns)}"


class Codel(_ControlledDelay, frozen=True, kw_only=True, tag="codel", tag_field="kind"):
    """Controlled delay (RFC 8289)."""

    ecn: Annotated[bool, Parameter(SWITCH, False, "not given: drops, as Linux does by default (sch_codel.c)")]

    @property
    def words(self) -> str:
        """Its times."""
        return f"CoDel, {self._times}, {_reaction(self.ecn)}"


class FqCodel(_ControlledDelay, frozen=True, kw_only=True, tag="fq_codel", tag_field="kind"):
    """A controlled delay for each flow, flows taking turns (RFC 8290)."""

    ecn: Annotated[
        bool, Parameter(SWITCH, True, "not given: marks, as Linux does by default (sch_fq_codel.c)")
    ]
    queues: Annotated[
        int, Parameter(COUNT, 1024, "no queues given: 1024, the recommendation (RFC 8290, section 5.2)")
    ]
    quantum_bytes: Annotated[
        int,
        Parameter(QUANTUM, 1514, "no quantum given: 1514 bytes, an Ethernet frame (RFC 8290, section 5.2)"),
    ]

    @property
    def words(self) -> str:
        """Its times and queues."""
        return f"FQ-CoDel, {self._times}, {self.queues} queues, {_reaction(self.ecn)}"


#: A queue discipline with more than a limit.
Aqm = Red | Codel | FqCodel | StepMarking


#: A course that is drawn for every seed.
Model = Starlink | Mobile5g | Wifi


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change; what is None stays as it is."""

    at_ns: int
    rate_bps: int | None = None
    delay_ns: int | None = None
    loss_ppb: int | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rate, delay and loss over time; without a period the last values hold for ever.

    Attributes
    ----------
    anywhere : a trial begins at a moment of the period that its seed draws, not at its start.
    """

    steps: tuple[Step, ...]
    period_ns: int | None = None
    anywhere: bool = False

    def mean(self, base: int, value: Callable[[Step], int | None]) -> int:
        """Long-run mean of one of the values: over a period, or after the last step; rounded down.

        `base` is the link's own value, which applies if no step sets another.
        """
        steps = [(step.at_ns, found) for step in self.steps if (found := value(step)) is not None]
        if not steps:
            return base
        if self.period_ns is None:
            return steps[-1][1]
        end = (steps[0][0] + self.period_ns, 0)
        held = sum(found * (until - at) for (at, found), (until, _) in pairwise([*steps, end]))
        return held // self.period_ns

    def words(self, rate_bps: int | None) -> str:
        """Description: number of steps, period, and long-run rate."""
        count = len(self.steps)
        what = f"schedule of {count} step{'s' if count > 1 else ''}"
        if self.period_ns is not None:
            what += f" repeating every {time_in_words(self.period_ns)}"
        if rate_bps is not None and any(step.rate_bps is not None for step in self.steps):
            mean = self.mean(rate_bps, lambda step: step.rate_bps)
            what += f", {rate_in_words(mean)} in the long run"
        return what + "".join(f", {part}" for part in self._figures())

    def _figures(self) -> Iterator[str]:
        """Summary of values that change so often that nobody reads their steps."""
        for what, value, write in (
            ("rate", lambda step: step.rate_bps, rate_in_words),
            ("delay", lambda step: step.delay_ns, time_in_words),
        ):
            if values := self.held(value):
                low, high = (write(_over_time.quantile(values, share)) for share in (0.05, 0.95))
                yield f"{what} {low} to {high} in 90 % of the time"
        for value, nothing in ((lambda step: step.rate_bps, 0), (lambda step: step.loss_ppb, _PPB)):
            if values := self.held(value):
                count, time = _over_time.outages(values, nothing)
                if count:
                    yield f"{count} outage{'s' if count > 1 else ''} of {time_in_words(time)} in all"

    def held(self, value: Callable[[Step], int | None]) -> list[tuple[int, int]]:
        """One of the values with the times, ns, for which each holds; empty if it hardly ever changes."""
        changes = [(step.at_ns, found) for step in self.steps if (found := value(step)) is not None]
        varies = len(changes) >= _MANY and len({value for _, value in changes}) > 1
        return _over_time.held(changes, self.period_ns) if varies else []


class _Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    trace_ms: tuple[int, ...] | None = None
    schedule: Schedule | None = None
    bucket: Annotated[TokenBucket | None, On("rate", both=False)] = None
    aqm: Annotated[Aqm | None, On("queue", "discipline", plain="droptail")] = None
    model: Annotated[Model | None, On("queue", plain="steady")] = None


if TYPE_CHECKING:

    class _OnWire(_Given, frozen=True, kw_only=True): ...
else:
    #: With the fields of the effects on the wire, as the core declares them.
    _OnWire = msgspec.defstruct(
        "_OnWire",
        [(key, form, None) for key, form in WIRE_EFFECTS.items()],
        bases=(_Given,),
        frozen=True,
        kw_only=True,
        omit_defaults=True,
    )


class Effects(_OnWire, frozen=True, kw_only=True, omit_defaults=True):
    """All effects of one link; the default does nothing.

    Attributes
    ----------
    trace_ms : instead of a rate, the times at which 1500 bytes can leave, repeated (mahimahi's format).
    """

    duplicate_ppb: Annotated[
        int,
        On("wire", "duplicate", kind=CHANCE, words=lambda ppb: f"{share_in_words(ppb)} of the packets twice"),
    ] = 0

    @property
    def _tables(self) -> Iterator[Effect]:
        values = (getattr(self, name) for name in self.__struct_fields__)
        return (value for value in values if isinstance(value, Effect))

    def mean_rate_bps(self, rate_bps: int | None) -> int | None:
        """Long-run rate of a link whose own is `rate_bps`; for a trace its mean; None is unlimited."""
        bounds = [bound for effect in self._tables if (bound := effect.rate_bound_bps) is not None]
        if rate_bps is not None:
            schedule = self.schedule
            bounds.append(rate_bps if schedule is None else schedule.mean(rate_bps, lambda s: s.rate_bps))
        return min(bounds, default=None)

    def mean_loss_ppb(self, loss_ppb: int) -> int:
        """Long-run share of packets that the wire loses; `loss_ppb` is the link's own loss."""
        if self.schedule is not None:
            loss_ppb = self.schedule.mean(loss_ppb, lambda step: step.loss_ppb)
        kept = _PPB - loss_ppb
        for effect in self._tables:
            kept = round(kept * (_PPB - effect.mean_loss_ppb) / _PPB)
        return _PPB - kept

    @property
    def bursts(self) -> bool:
        """Some of its losses come in bursts."""
        return any(effect.bursts for effect in self._tables)

    def standing_bytes(self, queue_bytes: int, rate_bps: int) -> int:
        """Standing queue under sustained load: all of this size, or CoDel's target."""
        return min(
            (effect.standing_bytes(queue_bytes, rate_bps) for effect in self._tables), default=queue_bytes
        )

    def words(self, rate_bps: int | None) -> list[str]:
        """Each effect for people; `rate_bps` is the link's own rate, for a trace its mean."""
        found = []
        if self.trace_ms is not None and rate_bps is not None:
            period = time_in_words(self.trace_ms[-1] * 10**6)
            found.append(f"rate trace, {rate_in_words(rate_bps)} on average, repeating every {period}")
        if self.schedule is not None:
            found.append(self.schedule.words(rate_bps))
        given = ((effect, getattr(self, effect.field)) for effect in DECLARED)
        return found + [effect.on.words(value) for effect, value in given if value]


#: Keys of a link with tables or readers of their own.
DECLARED = declared(Effects)
