"""Results of a diagnosis's experiments as numbers: pure records, made of observations.

Throughputs are steady ones, Mbit/s: of the last two thirds of a trial, so that slow start weighs nothing.
"""

import statistics
from collections.abc import Mapping
from typing import Literal

import msgspec

from mptune.diagnosis import rfc6349
from mptune.trial import BIN_NS, Observation

#: Buffers of an experiment: as they are now, or one or both of them so large that they are no limit.
Buffers = Literal["now", "large", "send", "receive"]
#: Subflows of an experiment: those of the settings now, one on each path, or four on each path.
Subflows = Literal["now", "all", "four"]

#: RTTs under load that differ by this factor make the fast paths wait.
UNLIKE = 2.5

#: Bytes of TCP's options in a packet of data: timestamps (RFC 7323 section 3).
OPTIONS_BYTES = 12
_MTU = 1500
_SETTLED = 1 / 3


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison's one side.

    Attributes
    ----------
    paths : labels of the paths that there are; plain TCP has one.
    """

    tcp: bool = False
    paths: tuple[str, ...]
    buffers: Buffers = "now"
    subflows: Subflows = "now"

    @property
    def words(self) -> str:
        """The measured quantity, in words."""
        over = "+".join(self.paths)
        what = f"TCP on {over}" if self.tcp else f"MPTCP on {over}"
        if self.subflows != "now":
            what += {"all": ", a subflow on each", "four": ", four subflows"}[self.subflows]
        if self.buffers != "now":
            which = {"large": "large buffers", "send": "large send buffer", "receive": "large receive buffer"}
            what += f", {which[self.buffers]}"
        return what


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """One path in one trial.

    Attributes
    ----------
    mbps : its payload that was delivered, steady; `bytes` is all of it.
    sent : segments, about; 0 if there were none.
    retransmitted, timeouts : segments, and retransmission timeouts.
    rtt_ms, min_rtt_ms : the smoothed RTT at the end, and the smallest; 0 if not known.
    limited : share of the time for which the receive window or the send buffer held it up, by their names
        ("rwnd", "sndbuf"), as far as the testbed counts it.
    """

    mbps: float
    bytes: int = 0
    sent: int = 0
    retransmitted: int = 0
    timeouts: int = 0
    rtt_ms: float = 0.0
    min_rtt_ms: float = 0.0
    limited: Mapping[str, float] = {}

    @property
    def lost(self) -> float:
        """Share of the segments that were sent again."""
        return self.retransmitted / self.sent if self.sent else 0.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One trial.

    Attributes
    ----------
    mbps : payload in order, steady.
    flows : by path; those without a subflow are missing.
    reinjected_mbytes : sent again on another subflow.
    fallback : why the connection became plain TCP; empty if it did not.
    busy : share of a host's processors that was in use, by end.
    failed : why it gave no number; empty otherwise.
    stalled : how the connection ended up without progress, which is its result; empty otherwise.
    """

    mbps: float
    seconds: float
    bytes: int
    flows: Mapping[str, Flow] = {}
    reinjected_mbytes: float = 0.0
    fallback: str = ""
    busy: Mapping[str, float] = {}
    failed: str = ""
    stalled: str = ""

    @property
    def carrying(self) -> frozenset[str]:
        """Paths whose subflows delivered anything."""
        return frozenset(label for label, flow in self.flows.items() if flow.bytes > 0)

    @property
    def efficiency_percent(self) -> float:
        """RFC 6349's TCP efficiency, of all subflows together."""
        sent = sum(flow.sent for flow in self.flows.values())
        return (
            rfc6349.efficiency_percent(sent, sum(f.retransmitted for f in self.flows.values()))
            if sent
            else 0.0
        )


class PathFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Knowledge of a path before anything is measured.

    Attributes
    ----------
    rate_mbps : nominal rate of its slowest link; None if it is not known.
    stripped : why MPTCP, or a subflow that joins, does not pass; empty if it does.
    over : names of links that other paths use too.
    wide : those of them that are known to pass what all these paths can carry.
    """

    label: str
    rate_mbps: float | None = None
    stripped: str = ""
    over: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()

    @property
    def achievable_mbps(self) -> float | None:
        """Throughput that a TCP connection can achieve at its rate."""
        if self.rate_mbps is None:
            return None
        return rfc6349.achievable_bps(self.rate_mbps, _MTU, OPTIONS_BYTES)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the connection now; buffers in bytes.

    Attributes
    ----------
    pm : who opens subflows, in words.
    opened_by : the commands by which the hosts open a subflow on every path; empty if they are not known.
    """

    pm: str
    cc: str
    send_bytes: int
    receive_bytes: int
    autotuned: bool
    hosts: bool = False
    opened_by: str = ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one direction."""

    paths: tuple[PathFacts, ...]
    settings: Settings
    trials: Mapping[Experiment, Figures] = {}

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all paths."""
        return tuple(path.label for path in self.paths)

    def found(self, experiment: Experiment) -> Figures | None:
        """The trial, if it was made and gave a number."""
        figures = self.trials.get(experiment)
        return None if figures is None or figures.failed else figures

    def alone(self, label: str, buffers: Buffers = "now") -> Figures | None:
        """Plain TCP on a path."""
        return self.found(Experiment(tcp=True, paths=(label,), buffers=buffers))

    def together(self, buffers: Buffers = "now", subflows: Subflows = "now") -> Figures | None:
        """MPTCP on all paths."""
        return self.found(Experiment(paths=self.labels, buffers=buffers, subflows=subflows))

    def alone_mbps(self, label: str) -> float:
        """The most that plain TCP got of a path, whichever the buffers."""
        runs = (self.alone(label), self.alone(label, "large"))
        return max((figures.mbps for figures in runs if figures is not None), default=0.0)

    def potential_mbps(self, label: str) -> float:
        """Potential of the path: by its rate, or the highest throughput that was seen there."""
        (path,) = (path for path in self.paths if path.label == label)
        four = self.found(Experiment(paths=(label,), buffers="large", subflows="four"))
        seen = max(self.alone_mbps(label), 0.0 if four is None else four.mbps)
        return max(seen, path.achievable_mbps or 0.0)

    def passes(self, label: str) -> bool:
        """MPTCP can use the path."""
        return not any(path.stripped for path in self.paths if path.label == label)

    @property
    def absent(self) -> tuple[str, ...]:
        """Paths that MPTCP could use and has no subflow on, as things are."""
        together = self.together()
        carrying = frozenset(self.labels) if together is None else together.carrying
        return tuple(label for label in self.labels if self.passes(label) and label not in carrying)

    @property
    def base(self) -> Subflows:
        """Subflows of the experiments with buffers: as things are, or one on each path if some are absent."""
        return "all" if self.absent else "now"

    @property
    def basis(self) -> Figures | None:
        """All paths with the buffers of now: what experiments with other buffers are compared with."""
        return self.together(subflows=self.base) or self.together()

    @property
    def large(self) -> Figures | None:
        """The same with large buffers."""
        return self.together("large", self.base)

    @property
    def carrying(self) -> tuple[str, ...]:
        """Paths with data in that basis."""
        basis = self.basis
        return () if basis is None else tuple(label for label in self.labels if label in basis.carrying)

    @property
    def slow(self) -> tuple[str, ...]:
        """Carrying paths whose RTT under load is far above that of the fastest path; else the slowest one.

        None if there are not two paths.
        """
        if len(self.carrying) < 2:
            return ()
        fastest = max(self.carrying, key=self.alone_mbps)
        mark = UNLIKE * self.loaded_rtt_ms(fastest)
        slow = tuple(label for label in self.carrying if self.loaded_rtt_ms(label) >= mark)
        others = [label for label in self.carrying if label != fastest]
        return slow or (max(others, key=self.loaded_rtt_ms),)

    def is_far(self, label: str) -> bool:
        """Its RTT under load is far above that of the quickest carrying path."""
        quick_ms = min(filter(None, map(self.loaded_rtt_ms, self.carrying)), default=0.0)
        return self.loaded_rtt_ms(label) >= UNLIKE * quick_ms

    @property
    def without(self) -> Experiment:
        """MPTCP without its slow paths, as things are."""
        kept = tuple(label for label in self.labels if label not in self.slow)
        return Experiment(paths=kept, subflows=self.base)

    def loaded_rtt_ms(self, label: str) -> float:
        """RTT of a path under plain TCP, ms; 0 if not known."""
        figures = self.alone(label)
        return 0.0 if figures is None or label not in figures.flows else figures.flows[label].rtt_ms


def figures_of(observation: Observation, mss: int) -> Figures:
    """Numbers of an observation.

    Parameters
    ----------
    mss : payload of a full segment, bytes, where a testbed counts no segments.
    """
    metadata = observation.metadata
    # On one machine both ends, the emulator and everybody else are in one number.
    ends = _ENDS if observation.testbed == "hosts" else ()
    busy = {end: float(metadata[f"{end}_busy_share"]) for end in ends if f"{end}_busy_share" in metadata}
    flows: dict[str, Flow] = {}
    for subflow in observation.subflows:
        counters = subflow.counters
        sent = counters.get("sent", -(-subflow.bytes // mss) + subflow.retransmitted)
        busy_ns = counters.get("busy_ns", 0)
        one = Flow(
            mbps=steady_mbps(subflow.bins, observation.duration_ns),
            bytes=subflow.bytes,
            sent=sent,
            retransmitted=subflow.retransmitted,
            timeouts=subflow.timeouts,
            rtt_ms=subflow.srtt_ns / 1e6,
            min_rtt_ms=subflow.min_rtt_ns / 1e6,
            limited={
                name: counters[f"{name}_limited_ns"] / busy_ns
                for name in ("rwnd", "sndbuf")
                if busy_ns and f"{name}_limited_ns" in counters
            },
        )
        flows[subflow.path] = _joined(flows[subflow.path], one) if subflow.path in flows else one
    failure = observation.failed
    is_stalled = failure is not None and failure.kind == "stalled"
    # Between hosts a busy processor is a finding; where networks are emulated it spoils the emulation.
    is_result = is_stalled or (failure is not None and failure.kind == "overloaded" and bool(busy))
    reason = "" if failure is None else str(failure)
    return Figures(
        # A connection that stands still has what it got; how long it would have stood is not known.
        mbps=steady_mbps(observation.bins, observation.duration_ns)
        if not is_stalled
        else _mean_mbps(observation),
        seconds=observation.duration_ns / 1e9,
        bytes=sum(subflow.bytes for subflow in observation.subflows) or observation.in_order_bytes,
        flows=flows,
        reinjected_mbytes=float(metadata.get("reinjected_bytes") or 0) / 1e6,
        fallback=str(metadata["fallback"]) if metadata.get("fallback") else "",
        busy=busy,
        failed="" if is_result else reason,
        stalled=reason if is_stalled else "",
    )


_ENDS = ("sender", "receiver")


def _joined(one: Flow, other: Flow) -> Flow:
    """Two subflows of a path as one."""
    return Flow(
        mbps=one.mbps + other.mbps,
        bytes=one.bytes + other.bytes,
        sent=one.sent + other.sent,
        retransmitted=one.retransmitted + other.retransmitted,
        timeouts=one.timeouts + other.timeouts,
        rtt_ms=max(one.rtt_ms, other.rtt_ms),
        min_rtt_ms=min(one.min_rtt_ms, other.min_rtt_ms) or max(one.min_rtt_ms, other.min_rtt_ms),
        limited=one.limited,
    )


def _mean_mbps(observation: Observation) -> float:
    """Throughput over the whole trial."""
    return observation.in_order_bytes * 8e3 / max(observation.duration_ns, 1)


def steady_mbps(bins: list[int], duration_ns: int) -> float:
    """Throughput of the last two thirds of a trial; of all of it if it is shorter than three bins."""
    whole = min(len(bins), max(1, duration_ns // BIN_NS))
    settled = bins[int(whole * _SETTLED) : whole]
    return statistics.fmean(settled) * 8e3 / BIN_NS if settled else 0.0
