"""The three rules of multipath congestion control for a network and a congestion control.

Path-management study (Wang et al., AINA 2017), section III, after RFC 6356 section 2: (1) improve throughput,
(2) do no harm, (3) balance congestion. Each is measured against plain TCP of the same kind on one path; rules
2 and 3 with a competing TCP connection. It chooses no configuration (see `mptune.optimisation.main_job`).
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mptune.errors import MptuneError
from mptune.optimisation.options import DEFAULT_PM
from mptune.optimisation.plain_tcp import alone
from mptune.options import Options
from mptune.options.stacks import StackOptions
from mptune.options.trials import Buffer, Ccs, Duration, Pm, Runs, Seed
from mptune.runner.executors import Executor
from mptune.runner.planning import plan_run
from mptune.runner.progress import Reporter
from mptune.runner.running import run_trials
from mptune.statistics import Summary, summarise
from mptune.testbeds import Testbed
from mptune.topology import TcpBackground, Topology
from mptune.trial import PLAIN_TCP, Bulk, Configuration, Observation
from mptune.units import MIB

#: Ratios are judged at 1 with this margin: what trials of half a minute resolve.
MARGIN = 0.05

#: A rule is kept or broken where the 95 % interval of its ratio is on one side of the mark.
Verdict = Literal["kept", "broken", "undecided"]


class RulesOptions(Options, frozen=True, kw_only=True):
    """The measurement's plan; the congestion controls are the study's."""

    pm: Pm = None
    ccs: Ccs = ("cubic", "olia")
    buffer_bytes: Buffer = 16 * MIB
    runs: Runs = 5
    duration_ns: Duration = 30_000_000_000
    seed: Seed = 1
    stack: StackOptions = StackOptions()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, under one congestion control, at one place.

    Attributes
    ----------
    rule : 1, 2 or 3.
    where : the best path of rule 1, the shared link of rule 2, the congested path of rule 3.
    ratio : rule 1, throughput of MPTCP over that of plain TCP on the best path; rule 2, throughput of a
        competing TCP connection beside MPTCP over that beside plain TCP; rule 3, throughput of MPTCP on the
        congested path over that of plain TCP there.
    """

    rule: int
    cc: str
    where: str
    ratio: Summary
    verdict: Verdict


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The findings by congestion control and rule; `failed` trials were left out."""

    findings: tuple[Finding, ...]
    failed: int


def measure_rules(
    topology: Topology,
    testbed: Testbed,
    options: RulesOptions,
    *,
    executor: Executor | None = None,
    reporter: Reporter | None = None,
) -> Rules:
    """Measure the rules; runs with the same number have one seed, and ratios are taken run by run.

    Raises
    ------
    InputError : an invalid option.
    MptuneError : too few trials delivered anything.
    """
    options.check()
    measuring = _Measuring(topology, testbed, options, executor, reporter or Reporter(quiet=True))
    findings = [finding for cc in options.ccs for finding in measuring.findings(cc)]
    return Rules(findings=tuple(findings), failed=measuring.failed)


def shared(topology: Topology) -> dict[str, str]:
    """Links that several paths share, each with the fastest path over it.

    Access links are named by site and interface, shared segments that limit the rate by their names.
    """
    over: dict[str, list[tuple[int, str]]] = {}
    for path in topology.paths:
        for name in (
            f"{topology.sender.abbr}.{path.local.abbr}",
            f"{topology.receiver.abbr}.{path.remote.abbr}",
        ):
            over.setdefault(name, []).append((path.rate_bps, path.label))
        for segment in path.shared:
            if segment.queue_bytes is not None:
                over.setdefault(segment.name, []).append((path.rate_bps, path.label))
    # max() takes the first of equal ones, which is the topology's order.
    return {name: max(paths, key=lambda pair: pair[0])[1] for name, paths in over.items() if len(paths) > 1}


def verdict(rule: int, ratio: Summary) -> Verdict:
    """The rule's mark against the interval of the ratio; a single run has none, and decides by itself."""
    low = ratio.mean if ratio.low is None else ratio.low
    high = ratio.mean if ratio.high is None else ratio.high
    if rule == 3:  # less than plain TCP has moved away
        return "kept" if high < 1 - MARGIN else "broken" if low >= 1 - MARGIN else "undecided"
    return "kept" if low >= 1 - MARGIN else "broken" if high < 1 - MARGIN else "undecided"


class _Measuring:
    """The measurement, with the number of trials that failed."""

    def __init__(
        self,
        topology: Topology,
        testbed: Testbed,
        options: RulesOptions,
        executor: Executor | None,
        reporter: Reporter,
    ) -> None:
        self._topology, self._testbed, self._options = topology, testbed, options
        self._executor, self._reporter = executor, reporter
        self.failed = 0

    def findings(self, cc: str) -> list[Finding]:
        """Every rule under one congestion control."""
        topology = self._topology
        single = {path.label: self._runs(cc, path.label) for path in topology.paths}
        multi = self._runs(cc, None)
        best = max(single, key=lambda label: sum(map(_throughput, single[label])))
        found = [self._finding(1, cc, best, multi, single[best], _throughput)]
        places = {**shared(topology), "": best}
        # A link is loaded by a competitor on its fastest path; several links may have the same one.
        contests = {path: self._contest(cc, path) for path in dict.fromkeys(places.values())}
        for link, path in places.items():
            beside_multi, beside_single = contests[path]
            if link:
                found.append(self._finding(2, cc, link, beside_multi, beside_single, _competitor))
        if len(topology.paths) > 1:
            beside_multi, beside_single = contests[best]
            found.append(self._finding(3, cc, best, beside_multi, beside_single, _on(best)))
        return found

    def _contest(self, cc: str, path: str) -> tuple[list[Observation], list[Observation]]:
        """MPTCP, and plain TCP on the path, beside a competitor there."""
        return self._runs(cc, None, competing=path), self._runs(cc, path, competing=path)

    def _runs(self, cc: str, path: str | None, competing: str | None = None) -> list[Observation]:
        """Runs of plain TCP on a path, or of MPTCP over all."""
        options, topology = self._options, self._topology
        tcp = alone(cc)
        if competing is not None:
            rival = TcpBackground(path=competing, cc=tcp, start_ns=0, stop_ns=None)
            topology = msgspec.structs.replace(topology, background=(*topology.background, rival))
        workload = Bulk(duration_ns=options.duration_ns)
        buffer_bytes = options.buffer_bytes
        if path is None:
            asked = Configuration(
                pm=options.pm or DEFAULT_PM,
                cc=cc,
                buffer_bytes=buffer_bytes,
                workload=workload,
                stack=options.stack.chosen(),
            )
        else:
            asked = Configuration(
                pm="default",
                cc=tcp,
                buffer_bytes=buffer_bytes,
                workload=workload,
                initial_path=path,
                protocol="tcp",
                stack=options.stack.chosen(protocol=PLAIN_TCP),
            )
        trials = [
            plan_run(topology, asked, purpose="sweep", run=run, base_seed=options.seed).trial
            for run in range(options.runs)
        ]
        who = "MPTCP" if path is None else f"TCP on {path}"
        name = f"{who}, {cc}" if competing is None else f"{who}, {cc}, beside TCP on {competing}"
        with self._reporter.phase(name) as progress:
            made = run_trials(self._testbed, trials, progress=progress, executor=self._executor)
        self.failed += sum(observation.failed is not None for observation in made)
        return made

    def _finding(
        self,
        rule: int,
        cc: str,
        where: str,
        ours: Sequence[Observation],
        theirs: Sequence[Observation],
        value: Callable[[Observation], float],
    ) -> Finding:
        """A ratio run by run, and the verdict.

        Raises
        ------
        MptuneError : no run has one.
        """
        ratios = [
            value(mine) / value(other)
            for mine, other in zip(ours, theirs, strict=True)
            if mine.failed is None and other.failed is None and value(other) > 0
        ]
        if not ratios:
            raise MptuneError(f"rule {rule}, {cc}, {where}: no run delivered anything to compare")
        ratio = summarise(ratios)
        return Finding(rule=rule, cc=cc, where=where, ratio=ratio, verdict=verdict(rule, ratio))


def _throughput(observation: Observation) -> float:
    """Throughput of a trial, bit/s; 0 if it failed."""
    return 0.0 if observation.failed else observation.throughput_bps


def _competitor(observation: Observation) -> float:
    """Payload of the competing connection, bytes."""
    return float(observation.background[-1].bytes)


def _on(path: str) -> Callable[[Observation], float]:
    """Payload of the measured connection on a path, bytes."""
    return lambda observation: float(sum(flow.bytes for flow in observation.subflows if flow.path == path))
