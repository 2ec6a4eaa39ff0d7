"""Experiments of a diagnosis as trials on a testbed, until the evidence is complete or the budget spent."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mptune import path_managers
from mptune.diagnosis.diagnose import Diagnosis, diagnose
from mptune.diagnosis.evidence import Evidence, Experiment, Figures, PathFacts, Settings, figures_of
from mptune.diagnosis.options import RECEIVE_BYTES, SEND_BYTES, WhyOptions
from mptune.diagnosis.plan import expected
from mptune.optimisation.plain_tcp import alone
from mptune.runner.executors import Executor
from mptune.runner.progress import Reporter
from mptune.runner.running import run_trials
from mptune.runner.seeds import seed_for
from mptune.testbeds import Testbed
from mptune.topology import Path, TcpBackground, Topology
from mptune.trial import PLAIN_TCP, Bulk, Trial
from mptune.units import MIB, format_size

#: A buffer that limits nothing, bytes.
LARGE_BYTES = 64 * MIB
#: Part of its rate for which a link that was measured may be taken.
_MEASURED = 0.98
#: Subflows on a path that may lose packets.
_FOUR = 4
#: Trials of a direction that are reckoned with: twice every path, and those of all together; and how long one
#: takes at least and at most, ns.
_OTHERS = 6
_LEAST_NS, _MOST_NS = 2_000_000_000, 8_000_000_000


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of two hosts as programs find them there.

    Attributes
    ----------
    buffers : largest send and receive buffer of the sender's host, and of the receiver's, bytes; None where
        they are a trial's.
    subflows : paths on which their own path managers open subflows; None where that is not known, or asked.
    lines : the commands that open the others, a sentence; empty if there are none.
    """

    buffers: tuple[tuple[int, int], tuple[int, int]] | None = None
    subflows: tuple[str, ...] | None = None
    lines: str = ""

    def back(self) -> "Own":
        """Those of the other direction, of connections that the same host opens."""
        subflows = None if self.subflows is None else tuple(map(_turned, self.subflows))
        buffers = None if self.buffers is None else (self.buffers[1], self.buffers[0])
        return Own(buffers=buffers, subflows=subflows, lines=self.lines)


class Direction(msgspec.Struct, frozen=True, kw_only=True):
    """A direction: its diagnosis, what it is made of, and what was left out for want of time or data."""

    sender: str
    receiver: str
    diagnosis: Diagnosis
    evidence: Evidence
    left_out: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Both directions, and what they cost."""

    name: str
    testbed: str
    directions: tuple[Direction, ...]
    seconds: float
    bytes: int


def ask(
    topology: Topology,
    testbed: Testbed,
    options: WhyOptions,
    *,
    directions: int = 2,
    own: Own | None = None,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
) -> Why:
    """Measure and diagnose.

    Parameters
    ----------
    directions : 1 for the topology's alone.
    own : settings of the hosts of now, where there are hosts.

    Raises
    ------
    InputError : an invalid option, or a network that the testbed refuses.
    MptuneError : everything failed that the rest is compared with.
    """
    options.check()
    spending = _Spending(options, length_ns(topology, testbed, options, directions), testbed.set_up_s)
    own = own or Own()
    ways = [(topology, options.initial_path, own)]
    if directions > 1:
        begins = options.initial_path and _turned(options.initial_path)
        ways.append((topology.reversed(), begins, own.back()))
    found = []
    for network, begins, hosts in ways:
        settings = settings_of(options, testbed.name, hosts)
        bench = _Bench(network, testbed, options, settings, begins, hosts.subflows)
        shown = reporter or Reporter(quiet=True)
        found.append(_direction(bench, spending, shown, executor))
    return Why(
        name=topology.name,
        testbed=testbed.name,
        directions=tuple(found),
        seconds=spending.spent_s,
        bytes=spending.bytes,
    )


def notice(topology: Topology, testbed: Testbed, options: WhyOptions, directions: int) -> str:
    """Cost of the trials, in a sentence; the data go by the rates as far as they are known."""
    seconds = length_ns(topology, testbed, options, directions) / 1e9
    rates = [0 if (rate := topology.known(path).rate_bps) is None else rate for path in topology.paths]
    most = f", at most {format_size(options.max_data, 3)}" if options.max_data is not None else ""
    trials = options.budget_ns / 1e9 / (seconds + testbed.set_up_s)
    about = f", about {format_size(round(trials * seconds * sum(rates) / 8 / 2), 2)}" if all(rates) else ""
    return f"Trials of {seconds:.1f} s, at most {options.budget_ns / 1e9:.0f} s in all{most or about}."


def _turned(label: str) -> str:
    """Label of a path in the other direction."""
    local, _, rest = label.partition("-")
    remote, slash, family = rest.partition("/")
    return f"{remote}-{local}{slash}{family}"


def length_ns(topology: Topology, testbed: Testbed, options: WhyOptions, directions: int) -> int:
    """Length of each trial, so that all that are usually needed fit the budget."""
    number = directions * (2 * len(topology.paths) + _OTHERS)
    fits = options.budget_ns // number - round(testbed.set_up_s * 1e9)
    return max(_LEAST_NS, min(_MOST_NS, fits))


def settings_of(options: WhyOptions, testbed: str, own: Own) -> Settings:
    """Settings of the connection now."""
    buffers = own.buffers or ((SEND_BYTES, 0), (0, RECEIVE_BYTES))
    send = options.buffer_bytes or buffers[0][0]
    receive = options.receive_bytes or options.buffer_bytes or buffers[1][1]
    return Settings(
        pm=options.manager if own.subflows is None else "the hosts' own path managers",
        opened_by=own.lines,
        cc=options.cc,
        send_bytes=send,
        receive_bytes=receive,
        autotuned=options.buffer_mode == "auto",
        hosts=testbed == "hosts",
    )


def facts_of(topology: Topology) -> tuple[PathFacts, ...]:
    """Facts of the topology about its paths; a token bucket does not count as the line's rate."""
    reasons = {text.removeprefix("On ").split()[0]: text for text in topology.ruled_out}
    found = []
    for path in topology.paths:
        ends = (
            (topology.sender.abbr, path.local.abbr, path.local.up_bps, "local_index"),
            (topology.receiver.abbr, path.remote.abbr, path.remote.down_bps, "remote_index"),
        )
        shared, wide = [segment.name for segment in path.shared], []
        for site, interface, rate_bps, index in ends:
            users = [other for other in topology.paths if getattr(other, index) == getattr(path, index)]
            if len(users) > 1:
                shared.append(f"{site}.{interface}")
                if _passes(topology, rate_bps, users):
                    wide.append(shared[-1])
        known = topology.known(path).rate_bps is not None
        found.append(
            PathFacts(
                label=path.label,
                rate_mbps=_line_bps(path) / 1e6 if known else None,
                stripped=reasons.get(path.label, "").rstrip("."),
                over=tuple(shared),
                wide=tuple(wide),
            )
        )
    return tuple(found)


def _passes(topology: Topology, rate_bps: int, users: Sequence[Path]) -> bool:
    """True if a link is known to carry what the paths over it can give together."""
    if any(topology.known(path).rate_bps is None for path in users):
        return False
    return rate_bps >= _MEASURED * sum(map(_line_bps, users))


def _line_bps(path: Path) -> int:
    """Rate of the slowest link, where none has a token bucket."""
    links = [
        (path.local.up_bps, path.local.up_effects),
        *((link.rate_bps, link.forward_effects) for link in (*path.shared, path.core)),
        (path.remote.down_bps, path.remote.down_effects),
    ]
    plain = ((rate, msgspec.structs.replace(effects, bucket=None)) for rate, effects in links)
    return min(bound for rate, effects in plain if (bound := effects.mean_rate_bps(rate)) is not None)


class _Spending:
    """Cost of the trials so far, by the testbed's clock."""

    def __init__(self, options: WhyOptions, length_ns: int, set_up_s: float) -> None:
        self._options, self.length_ns, self._set_up_s = options, length_ns, set_up_s
        self.spent_s, self.bytes = 0.0, 0

    def allows(self, expected_mbps: float, planned: int, planned_bytes: int) -> bool:
        """One more trial, behind so many that are planned."""
        each_s = self.length_ns / 1e9 + self._set_up_s
        bytes_ = self.bytes + planned_bytes + expected_mbps * 1e6 / 8 * self.length_ns / 1e9
        in_time = self.spent_s + (planned + 1) * each_s <= self._options.budget_ns / 1e9 * _LENIENT
        return in_time and (self._options.max_data is None or bytes_ <= self._options.max_data)

    def add(self, figures: Figures) -> None:
        """Count a trial."""
        self.spent_s += figures.seconds + self._set_up_s
        self.bytes += figures.bytes


#: The last trial may end a little late.
_LENIENT = 1.02


class _Bench:
    """One direction on a testbed: an experiment becomes a trial."""

    def __init__(
        self,
        topology: Topology,
        testbed: Testbed,
        options: WhyOptions,
        settings: Settings,
        initial_path: str | None,
        own: tuple[str, ...] | None,
    ) -> None:
        self.topology, self.testbed, self.settings = topology, testbed, settings
        self._options, self._initial_path, self._own = options, initial_path, own

    def trial(self, experiment: Experiment, length_ns: int) -> Trial:
        """The trial of an experiment."""
        options, topology = self._options, subset(self.topology, experiment.paths)
        send, receive = self._buffers(experiment)
        pm, pm_options = self._manager(experiment)
        tcp = experiment.tcp
        initial = experiment.paths[0] if tcp else self._initial_path
        return Trial(
            topology=topology,
            pm="default" if tcp else pm,
            cc=alone(options.cc) if tcp else options.cc,
            pm_options={} if tcp else pm_options,
            protocol=PLAIN_TCP if tcp else "mptcp",
            buffer_bytes=send,
            receive_buffer_bytes=None if receive == send else receive,
            buffer_mode=options.buffer_mode,
            initial_path=initial if initial in experiment.paths else None,
            workload=Bulk(duration_ns=length_ns),
            seed=seed_for(options.seed, "sweep", 0),
            **msgspec.structs.asdict(options.stack.chosen(protocol=PLAIN_TCP if tcp else "mptcp")),
        )

    def _buffers(self, experiment: Experiment) -> tuple[int, int]:
        """Send and receive buffer, bytes."""
        settings, which = self.settings, experiment.buffers
        large = max(LARGE_BYTES, settings.send_bytes, settings.receive_bytes)
        send = large if which in ("large", "send") else settings.send_bytes
        return send, large if which in ("large", "receive") else settings.receive_bytes

    def _manager(self, experiment: Experiment) -> tuple[str, dict[str, Any]]:
        """Path manager and its options, of which those for paths that are left out are none."""
        if experiment.subflows == "all":
            return "fullmesh", {}
        if experiment.subflows == "four":
            return "ndiffports", {"ndiffports": _FOUR}
        if self._own is not None:
            return _opening([label for label in experiment.paths if label in self._own], experiment.paths)
        pm = self._options.manager
        return pm, _about(pm, self._options.pm_options.of(pm), experiment.paths)


def _opening(wanted: Sequence[str], labels: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The path manager of trials, and its options, with which a connection has subflows on these paths."""
    if len(wanted) == len(labels):
        return "fullmesh", {}
    return ("pcdc", {"active": tuple(wanted)}) if len(wanted) > 1 else ("default", {})


def _about(pm: str, given: Mapping[str, Any], labels: tuple[str, ...]) -> dict[str, Any]:
    """Options of a path manager without paths that there are not."""
    kinds = {option.name: option.kind for option in path_managers.options().get(pm, ())}
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if kinds.get(name) == "paths":
            value = tuple(label for label in value if label in labels)
        elif kinds.get(name) == "path_times":
            value = {label: time for label, time in value.items() if label in labels}
        if value or kinds.get(name) not in ("paths", "path_times"):
            kept[name] = value
    return kept


def subset(topology: Topology, labels: tuple[str, ...]) -> Topology:
    """The network with some of its paths only."""
    paths = tuple(path for path in topology.paths if path.label in labels)
    if len(paths) == len(topology.paths):
        return topology
    usable = [path.label for path in paths if path.core.mptcp != "none"] or [paths[0].label]
    initial = topology.initial_path if topology.initial_path in usable else usable[0]
    background = tuple(
        flow for flow in topology.background if not isinstance(flow, TcpBackground) or flow.path in labels
    )
    return msgspec.structs.replace(topology, paths=paths, initial_path=initial, background=background)


def _direction(
    bench: _Bench, spending: _Spending, reporter: Reporter, executor: Executor | None
) -> Direction:
    """Experiments until there are none left, or no time or data for them."""
    topology = bench.topology
    evidence = Evidence(paths=facts_of(topology), settings=bench.settings)
    left_out: list[Experiment] = []
    ends = f"{topology.sender.abbr} to {topology.receiver.abbr}"
    while wanted := [one for one in expected(evidence) if one not in left_out]:
        chosen: list[Experiment] = []
        planned_bytes = 0
        for experiment in wanted:
            likely = sum(map(evidence.potential_mbps, experiment.paths))
            if chosen_fits := spending.allows(likely, len(chosen), planned_bytes):
                planned_bytes += round(likely * 1e6 / 8 * spending.length_ns / 1e9)
            (chosen if chosen_fits or not evidence.trials else left_out).append(experiment)
        if not chosen:
            break
        trials = [bench.trial(experiment, spending.length_ns) for experiment in chosen]
        with reporter.phase(ends) as progress:
            made = run_trials(bench.testbed, trials, progress=progress, executor=executor)
        figures = [figures_of(sample, trial.mss) for sample, trial in zip(made, trials, strict=True)]
        for one in figures:
            spending.add(one)
        known = {**evidence.trials, **dict(zip(chosen, figures, strict=True))}
        evidence = msgspec.structs.replace(evidence, trials=known)
    return Direction(
        sender=topology.sender.abbr,
        receiver=topology.receiver.abbr,
        diagnosis=diagnose(evidence),
        evidence=evidence,
        left_out=tuple(one.words for one in left_out),
    )
