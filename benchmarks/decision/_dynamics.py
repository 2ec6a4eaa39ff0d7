"""Random dynamics: a network that changes while a connection uses it; a seed gives the same on every machine.

Not a benchmark. Two to four paths, each with a bottleneck of its own, and what happens to them: rates, delays
and losses that step or drift, paths that die and return, other traffic that comes and goes. Buffers are of a
fixed size. Two other draws: `of_hosts`, with up to six paths and buffers that grow, and `small`, which two
processors can emulate in real time.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count, islice
from typing import Literal, NamedTuple

import msgspec

from benchmarks.shared.random_networks import LEAST_QUEUE, Draw, wide_site
from mptune.topology import (
    Background,
    CoreSegment,
    Effects,
    Path,
    Schedule,
    Step,
    TcpBackground,
    Topology,
    UdpBackground,
)
from mptune.trial import Bulk, ScriptedAction, Trial

#: Numbers of local and remote interfaces; the first ones are drawn more often.
SHAPES = (*3 * ((2, 1),), *2 * ((3, 1),), (1, 2), (1, 3), (4, 1), (2, 2))
#: The same for hosts as they are, and the limit of their buffers: Linux' default of `tcp_wmem`, bytes.
HOST_SHAPES = ((2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (1, 2), (2, 2), (3, 2), (2, 3))
HOST_BUFFER_BYTES = 4 * 2**20
#: bit/s of a bottleneck, ns of a path's RTT, ppb of a lossy path (0.01 % to 1 %; half of the paths lose
#: none): log-uniform, as everything here.
RATE_BPS = (3_000_000, 150_000_000)
RTT_NS = (6_000_000, 200_000_000)
LOSS_PPB = (100_000, 10_000_000)
#: Queue of a bottleneck in products of its rate and RTT, and buffer in products of the sum of all rates and
#: the largest RTT (RFC 6182 section 5.3).
QUEUE_BDPS = (Decimal("0.5"), Decimal(4))
BUFFER_BDPS = (Decimal("0.1"), Decimal(4))
LEAST_BUFFER = 64 * 1024
#: Congestion controls; the first one is drawn more often.
CCS = (*3 * ("cubic",), "reno", "olia")
#: s of a dynamic, and when events may happen: not before the first, not later than that before the end.
DURATION_S = (60, 120)
QUIET_S = (5, 10)
MOST_EVENTS = 3
#: Factors of an event for a rate and an RTT, or the inverse; limits of the result.
RATE_FACTOR = (Decimal(2), Decimal(10))
RTT_FACTOR = (Decimal(2), Decimal(8))
RATE_LIMITS = (1_000_000, 200_000_000)
RTT_LIMITS = (4_000_000, 600_000_000)
#: ppb to which an event raises the loss; s of an outage and of a ramp; steps of a ramp.
NEW_LOSS_PPB = (1_000_000, 30_000_000)
OUTAGE_S = (2, 20)
RAMP_S = (3, 20)
RAMP_STEPS = 10
#: Of `small` ones: paths; bit/s of one path, and of all together; s, to which the duration is compressed.
SMALL_PATHS = (2, 3)
SMALL_RATE_BPS = (1_000_000, 40_000_000)
SMALL_WHOLE_BPS = 80_000_000
SMALL_DURATION_S = (40, 60)

_SECOND = 10**9
_BIT_NS_PER_BYTE = 8 * 10**9


class Event(NamedTuple):
    """An event: its time (ns), its path, and a description."""

    at_ns: int
    path: int
    words: str


class Dynamic(NamedTuple):
    """A changing network, and the connection that uses it."""

    topology: Topology
    script: tuple[ScriptedAction, ...]
    cc: str
    buffer_bytes: int
    duration_ns: int
    seed: int
    events: tuple[Event, ...]
    description: str
    buffer_mode: Literal["fixed", "auto"] = "fixed"

    def trial(self, pm: str, path: str | None = None) -> Trial:
        """Saturated for the whole of it, over the paths of a path manager; `path` is the initial one."""
        return Trial(
            topology=self.topology,
            pm=pm,
            cc=self.cc,
            buffer_mode=self.buffer_mode,
            buffer_bytes=self.buffer_bytes,
            seed=self.seed,
            workload=Bulk(duration_ns=self.duration_ns),
            initial_path=path,
            script=self.script,
        )

    def mbps(self, in_order_bytes: int) -> float:
        """Throughput over the whole of it, Mbit/s: nothing arrives any more once a trial has stalled."""
        return in_order_bytes * 8e3 / self.duration_ns


class _Wire:
    """A path as it is drawn, and what happens to it."""

    def __init__(self, draw: Draw) -> None:
        self.rate_bps = int(draw.uniform(*RATE_BPS))
        self.rtt_ns = int(draw.uniform(*RTT_NS))
        self.loss_ppb = int(draw.uniform(*LOSS_PPB)) if draw.below(2) else 0
        product = Decimal(self.rate_bps) * self.rtt_ns / _BIT_NS_PER_BYTE
        self.queue_bytes = max(int(draw.uniform(*QUEUE_BDPS) * product), LEAST_QUEUE)
        self.now_bps, self.now_ns = self.rate_bps, self.rtt_ns
        self.steps: dict[int, dict[str, int]] = {}

    def core(self) -> CoreSegment:
        """The data direction changes; ACKs go back as they always do."""
        steps = tuple(Step(at_ns=at_ns, **values) for at_ns, values in sorted(self.steps.items()))
        effects = Effects(schedule=Schedule(steps=steps)) if steps else Effects()
        return CoreSegment(
            forward_ns=self.rtt_ns // 2,
            reverse_ns=self.back_ns,
            jitter_ns=0,
            loss_ppb=self.loss_ppb,
            rate_bps=self.rate_bps,
            queue_bytes=self.queue_bytes,
            forward_effects=effects,
        )

    @property
    def back_ns(self) -> int:
        return self.rtt_ns - self.rtt_ns // 2

    def step(self, at_ns: int, **values: int) -> None:
        """From a time on it is different."""
        self.steps.setdefault(at_ns, {}).update(values)


class _Story:
    """The events of a dynamic, as they are drawn."""

    def __init__(self, draw: Draw, labels: list[str], wires: list[_Wire], duration_ns: int) -> None:
        self._draw, self._labels, self._wires, self._duration_ns = draw, labels, wires, duration_ns
        self.script: list[ScriptedAction] = []
        self.background: list[Background] = []
        self.events: list[Event] = []
        kinds = (self._rate, self._rtt, self._loss, self._ramp, self._outage, self._traffic)
        last_ns = duration_ns - QUIET_S[1] * _SECOND
        span_ns = last_ns - QUIET_S[0] * _SECOND
        times = sorted(QUIET_S[0] * _SECOND + draw.below(span_ns) for _ in range(draw.below(MOST_EVENTS + 1)))
        for at_ns in times:
            self._happen(kinds[draw.below(len(kinds))], at_ns)

    def _happen(self, kind: Callable[[int, int], str], at_ns: int) -> None:
        path = self._draw.below(len(self._wires))
        self.events.append(Event(at_ns, path, f"{self._labels[path]} {kind(at_ns, path)}"))

    def _span(self, limits: tuple[int, int]) -> int:
        return int(self._draw.uniform(*limits) * _SECOND)

    def _factor(self, limits: tuple[Decimal, Decimal]) -> Decimal:
        factor = self._draw.uniform(*limits)
        return 1 / factor if self._draw.below(2) else factor

    def _new_rate(self, wire: _Wire) -> int:
        rate = int(wire.now_bps * self._factor(RATE_FACTOR))
        return min(max(rate, RATE_LIMITS[0]), RATE_LIMITS[1])

    def _new_rtt(self, wire: _Wire) -> int:
        rtt = int(wire.now_ns * self._factor(RTT_FACTOR))
        return min(max(rtt, RTT_LIMITS[0], wire.back_ns + 100_000), RTT_LIMITS[1])

    def _rate(self, at_ns: int, path: int) -> str:
        wire = self._wires[path]
        wire.now_bps = self._new_rate(wire)
        wire.step(at_ns, rate_bps=wire.now_bps)
        return f"rate {wire.now_bps / 1e6:.1f} Mbit/s"

    def _rtt(self, at_ns: int, path: int) -> str:
        wire = self._wires[path]
        wire.now_ns = self._new_rtt(wire)
        wire.step(at_ns, delay_ns=wire.now_ns - wire.back_ns)
        return f"RTT {wire.now_ns / 1e6:.0f} ms"

    def _loss(self, at_ns: int, path: int) -> str:
        loss_ppb = int(self._draw.uniform(*NEW_LOSS_PPB))
        self._wires[path].step(at_ns, loss_ppb=loss_ppb)
        return f"loss {loss_ppb / 1e7:.2f} %"

    def _ramp(self, at_ns: int, path: int) -> str:
        wire, span_ns = self._wires[path], self._span(RAMP_S)
        of_rate = self._draw.below(2) == 0
        first, last = (wire.now_bps, self._new_rate(wire)) if of_rate else (wire.now_ns, self._new_rtt(wire))
        for number in range(1, RAMP_STEPS + 1):
            value, at = first + (last - first) * number // RAMP_STEPS, at_ns + span_ns * number // RAMP_STEPS
            if of_rate:
                wire.step(at, rate_bps=value)
            else:
                wire.step(at, delay_ns=max(value - wire.back_ns, 0))
        if of_rate:
            wire.now_bps = last
            return f"rate drifts to {last / 1e6:.1f} Mbit/s"
        wire.now_ns = last
        return f"RTT drifts to {last / 1e6:.0f} ms"

    def _outage(self, at_ns: int, path: int) -> str:
        span_ns = self._span(OUTAGE_S)
        label = self._labels[path]
        self.script += [
            ScriptedAction(at_ns=at_ns, path=label, action="down"),
            ScriptedAction(at_ns=at_ns + span_ns, path=label, action="up"),
        ]
        return f"dies for {span_ns / _SECOND:.1f} s"

    def _traffic(self, at_ns: int, path: int) -> str:
        stop_ns = at_ns + self._span((5, 60))
        label = self._labels[path]
        if self._draw.below(2):
            cc = CCS[self._draw.below(len(CCS) - 1)]
            self.background.append(TcpBackground(path=label, cc=cc, start_ns=at_ns, stop_ns=stop_ns))
            return f"shared with a {cc} connection for {(stop_ns - at_ns) / _SECOND:.0f} s"
        rate = max(
            int(self._wires[path].now_bps * self._draw.uniform(Decimal("0.2"), Decimal("0.9"))), 100_000
        )
        flow = UdpBackground(
            link=f"{label} forward", rate_bps=rate, packet_bytes=1500, start_ns=at_ns, stop_ns=stop_ns
        )
        self.background.append(flow)
        return f"shared with {rate / 1e6:.1f} Mbit/s of UDP for {(stop_ns - at_ns) / _SECOND:.0f} s"


def random_dynamic(seed: int, *, of_hosts: bool = False) -> Dynamic:
    """A connection on two to four paths with up to three events; `of_hosts`: up to six, buffers that grow."""
    draw = Draw(seed)
    shapes = HOST_SHAPES if of_hosts else SHAPES
    locals_, remotes = shapes[draw.below(len(shapes))]
    sender, receiver = wide_site("S", "ABCDEF"[:locals_]), wide_site("R", "XYZW"[:remotes])
    ends = [(local, remote) for local in range(locals_) for remote in range(remotes)]
    labels = [f"{sender.interfaces[local].abbr}-{receiver.interfaces[remote].abbr}" for local, remote in ends]
    wires = [_Wire(draw) for _ in ends]
    duration_ns = (DURATION_S[0] + draw.below(DURATION_S[1] - DURATION_S[0] + 1)) * _SECOND
    cc = CCS[draw.below(len(CCS))]
    products = draw.uniform(*BUFFER_BDPS)
    whole = Decimal(sum(one.rate_bps for one in wires)) * max(one.rtt_ns for one in wires) / _BIT_NS_PER_BYTE
    buffer_bytes = max(int(products * whole), LEAST_BUFFER)
    story = _Story(draw, labels, wires, duration_ns)
    paths = tuple(
        Path(
            label=label,
            local_index=local,
            remote_index=remote,
            local=sender.interfaces[local],
            remote=receiver.interfaces[remote],
            core=wire.core(),
        )
        for label, (local, remote), wire in zip(labels, ends, wires, strict=True)
    )
    lines = [
        f"{label} {wire.rate_bps / 1e6:.1f} Mbit/s {wire.rtt_ns / 1e6:.0f} ms {wire.loss_ppb / 1e7:.2f} % "
        f"queue {wire.queue_bytes // 1000} kB"
        for label, wire in zip(labels, wires, strict=True)
    ]
    events = [f"{event.at_ns / _SECOND:.1f} s: {event.words}" for event in story.events]
    topology = Topology(
        name=f"dynamic-{seed}",
        description=f"{locals_} x {remotes} interfaces, a bottleneck for each path",
        sender=sender,
        receiver=receiver,
        paths=paths,
        initial_path=labels[0],
        lsrr_honoured=False,
        provenance={},
        file="",
        background=tuple(story.background),
    )
    size = "buffers that grow" if of_hosts else f"{buffer_bytes // 1024} KiB ({products:.2f} products)"
    about = f"{cc}, {size}"
    return Dynamic(
        topology=topology,
        script=tuple(story.script),
        cc=cc,
        buffer_bytes=HOST_BUFFER_BYTES if of_hosts else buffer_bytes,
        duration_ns=duration_ns,
        seed=seed,
        events=tuple(story.events),
        description="; ".join([*lines, about, *events]),
        buffer_mode="auto" if of_hosts else "fixed",
    )


def _fits(dynamic: Dynamic) -> bool:
    """A small machine can emulate it in real time."""
    topology = dynamic.topology
    if len(topology.paths) not in SMALL_PATHS or any(not _is_udp(flow) for flow in topology.background):
        return False
    most = []
    for path in topology.paths:
        schedule = path.core.forward_effects.schedule
        rates = [path.core.rate_bps, *(step.rate_bps for step in (schedule.steps if schedule else ()))]
        known = [rate for rate in rates if rate is not None]
        if min(known) < SMALL_RATE_BPS[0] or max(known) > SMALL_RATE_BPS[1]:
            return False
        most.append(max(known))
    return sum(most) <= SMALL_WHOLE_BPS


def _is_udp(background: object) -> bool:
    return isinstance(background, UdpBackground)


def _compressed(dynamic: Dynamic) -> Dynamic:
    """The same in less time: everything happens earlier by the same factor."""
    drawn_s = dynamic.duration_ns / _SECOND
    span_s = SMALL_DURATION_S[0] + (drawn_s - DURATION_S[0]) * (SMALL_DURATION_S[1] - SMALL_DURATION_S[0]) / (
        DURATION_S[1] - DURATION_S[0]
    )
    duration_ns = round(span_s) * _SECOND

    def at(time_ns: int) -> int:
        return time_ns * duration_ns // dynamic.duration_ns

    def step(change: Step) -> Step:
        return msgspec.structs.replace(change, at_ns=at(change.at_ns))

    replace = msgspec.structs.replace
    paths = []
    for path in dynamic.topology.paths:
        effects = path.core.forward_effects
        if effects.schedule is not None:
            steps = Schedule(steps=tuple(step(change) for change in effects.schedule.steps))
            core = replace(path.core, forward_effects=replace(effects, schedule=steps))
            path = replace(path, core=core)
        paths.append(path)
    background = tuple(
        replace(flow, start_ns=at(flow.start_ns), stop_ns=None if flow.stop_ns is None else at(flow.stop_ns))
        for flow in dynamic.topology.background
    )
    return dynamic._replace(
        topology=replace(dynamic.topology, paths=tuple(paths), background=background),
        script=tuple(replace(event, at_ns=at(event.at_ns)) for event in dynamic.script),
        duration_ns=duration_ns,
        events=tuple(event._replace(at_ns=at(event.at_ns)) for event in dynamic.events),
        description=f"{dynamic.description}; all times by {duration_ns / dynamic.duration_ns:.2f}",
    )


def small(first_seed: int) -> Iterator[Dynamic]:
    """Those that a small machine can emulate, compressed, without end; none without an event."""
    drawn = map(random_dynamic, count(first_seed))
    return (_compressed(dynamic) for dynamic in drawn if dynamic.events and _fits(dynamic))


#: The draws by name: the dynamics from a seed on, without end.
DRAWS: dict[str, Callable[[int], Iterator[Dynamic]]] = {
    "any": lambda first: map(random_dynamic, count(first)),
    "hosts": lambda first: (random_dynamic(seed, of_hosts=True) for seed in count(first)),
    "small": small,
}


def drawn(draw: str, first_seed: int, number: int) -> list[Dynamic]:
    """So many of a draw."""
    return list(islice(DRAWS[draw](first_seed), number))
