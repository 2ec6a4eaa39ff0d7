"""The kernel's results in drawn networks: stored in a small committed file, and measured where missing.

Not a benchmark. The file has a line of JSON for each environment (kernel, sysctls, versions) and for each
configuration: its mean, and every run with its seed, its throughput or why it has none, and what each path
carried. A configuration is found by a digest of everything that makes its results: the network and the
trial's settings, the release of the kernel, the sysctls in its namespaces, and `BEHAVIOUR`; not by the
version of the agent, most of which are no reason to measure again. The file is written anew after every
trial, so an interrupted measurement continues.
"""

import json
import os
import platform
import threading
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import msgspec

from benchmarks.fidelity._drawn import DEADLINE_NS, Case
from benchmarks.shared.measure import machine
from mptune.decision.agreement import is_stalled
from mptune.linux import agent
from mptune.linux.sandbox.namespaces import Sites
from mptune.runner.progress import Reporter
from mptune.runner.running import reduce_trials
from mptune.testbeds import Testbed, overloaded
from mptune.testbeds.namespaces import stall_ns
from mptune.trial import Observation, Ran, Trial
from mptune.trial.records import settings_of

#: Raise it when emulator, meter or path managers change what a trial on the kernel gives: what was measured
#: before is then measured anew.
BEHAVIOUR = 1

#: Stands in digests where the version of the agent was when the first results were kept.
_AGENT_OF_THE_FIRST = "0.1.0"

#: Attempts at a trial on a machine that was too busy, beside the testbed's repetitions.
ATTEMPTS = 3

#: Failures of this machine rather than of its kernel.
_OF_NO_MEANING = ("died", "refused")

#: Settings that depend on the machine's memory, and concern no trial this small.
_OF_THE_MACHINE = ("net.ipv4.tcp_mem",)
#: Settings that the first results have no record of, with the kernel's own values, which they had.
_UNSAID = {"net.ipv4.tcp_rto_min_us": "200000", "net.ipv4.tcp_rto_max_ms": "120000"}
#: Fields of a trial beside its network, its settings and its seed.
_NOT_SETTINGS = frozenset({"topology", "seed"})
_KEY_BYTES = 12


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a configuration, on either testbed.

    Attributes
    ----------
    mbps : None if it gave no number.
    failed : then the kind of its failure; one that came to a halt is "stalled".
    reason : the testbed's message, of other failures.
    paths : what each path delivered first, Mbit/s.
    retransmitted, timeouts : of all subflows.
    late_ms : 1 % of the emulator's packets were so late or more.
    waited_s : how long was waited for a quiet machine, if it was not.
    """

    seed: int
    mbps: float | None
    failed: str | None = None
    reason: str | None = None
    paths: dict[str, float] = {}
    retransmitted: int = 0
    timeouts: int = 0
    late_ms: float | None = None
    waited_s: float | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of results beside network and trial; `agent`, `processor` and `cores` are for information.

    `agent` is the version that measured last: what an agent does differently is in `behaviour`.
    """

    kernel: str
    machine: str
    sysctls: dict[str, str]
    agent: str
    behaviour: int
    processor: str
    cores: int

    @classmethod
    def here(cls) -> Self:
        """That of this machine."""
        with Sites() as sites:
            settings = dict(sites.settings)
        return cls._of(platform.release(), settings)

    @classmethod
    def of_guest(cls, version: str) -> Self:
        """That of a guest's kernel, whose settings are its release's."""
        return cls._of(f"{version} in virtual time", {})

    @classmethod
    def _of(cls, kernel: str, sysctls: dict[str, str]) -> Self:
        about = machine()
        return cls(
            kernel=kernel,
            machine=platform.machine(),
            sysctls=sysctls,
            agent=agent.version(),
            behaviour=BEHAVIOUR,
            processor=str(about["processor"]),
            cores=int(about["cores"]),
        )

    @property
    def id(self) -> str:
        """Digest of what results depend on."""
        given = msgspec.structs.asdict(self)
        del given["processor"], given["cores"]
        given["agent"] = _AGENT_OF_THE_FIRST
        given["sysctls"] = {
            name: value
            for name, value in self.sysctls.items()
            if name not in _OF_THE_MACHINE and _UNSAID.get(name) != value
        }
        return _digest(given)


class Kept(msgspec.Struct, kw_only=True):
    """A configuration's line in the file."""

    key: str
    environment: str
    name: str
    settings: dict[str, Any]
    runs: list[Run] = []


class Results:
    """The file of one draw.

    Parameters
    ----------
    purpose : what the draw is for: "working" or "report".

    Raises
    ------
    SystemExit : the file is of another draw, or the draw was worked with and is now to be reported.
    """

    def __init__(self, path: Path, seed: int, purpose: str) -> None:
        self._path, self._seed, self._lock = path, seed, threading.Lock()
        self.purpose = purpose
        self.environments: dict[str, Environment] = {}
        self._kept: dict[str, Kept] = {}
        if path.exists():
            self._read(path.read_text(encoding="utf-8").splitlines())

    def _read(self, lines: Sequence[str]) -> None:
        head = json.loads(lines[0]) if lines else {}
        if head.get("draw") != self._seed:
            raise SystemExit(f"{self._path}: expected the draw {self._seed}, found {head.get('draw')}")
        if (before := head["purpose"]) == "working" and self.purpose == "report":
            raise SystemExit(
                f"--report-seed: expected a draw that nobody worked with, found {self._seed}, "
                f"which {self._path} has as a working draw"
            )
        for line in lines[1:]:
            entry = json.loads(line)
            if "kernel" in entry:
                name = entry.pop("id")
                self.environments[name] = msgspec.convert(entry, Environment)
            else:
                entry.pop("mean_mbps", None)
                kept = msgspec.convert(entry, Kept)
                self._kept[kept.key] = kept
        if before == "report" and self.purpose == "working":
            print(f"The draw {self._seed} was reported; from now on it is a working draw.")
            self._write()

    def runs(self, case: Case, environment: Environment, trials: Sequence[Trial]) -> list[Run | None]:
        """The run of each trial of a case, where it was measured."""
        kept = self._kept.get(key(case, environment))
        by_seed = {} if kept is None else {run.seed: run for run in kept.runs}
        return [by_seed.get(trial.seed) for trial in trials]

    def add(self, case: Case, environment: Environment, run: Run) -> None:
        """Keep a run, also across a kill."""
        digest = key(case, environment)
        with self._lock:
            self.environments[environment.id] = environment
            kept = self._kept.setdefault(
                digest,
                Kept(key=digest, environment=environment.id, name=case.name, settings=settings(case.trial)),
            )
            kept.runs = sorted(
                [*(earlier for earlier in kept.runs if earlier.seed != run.seed), run], key=lambda r: r.seed
            )
            self._write()

    def _write(self) -> None:
        lines: list[dict[str, Any]] = [{"draw": self._seed, "purpose": self.purpose}]
        lines += [
            {"id": name, **msgspec.to_builtins(environment)}
            for name, environment in self.environments.items()
        ]
        for kept in self._kept.values():
            line = msgspec.to_builtins(kept)
            runs = line.pop("runs")
            lines.append({**line, "mean_mbps": mean(kept.runs), "runs": runs})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        fresh.replace(self._path)


def mean(runs: Sequence[Run]) -> float | None:
    """Of the runs that gave a number."""
    numbers = [run.mbps for run in runs if run.mbps is not None]
    return round(sum(numbers) / len(numbers), 3) if numbers else None


def settings(trial: Trial) -> dict[str, Any]:
    """A trial's fields beside its network and its seed, as JSON, without defaults.

    Every kept trial has the deadline, as it had when saturated trials had one too.
    """
    return settings_of(trial, _NOT_SETTINGS) | {"deadline_ns": DEADLINE_NS}


def key(case: Case, environment: Environment) -> str:
    """Digest of everything that makes the results of a configuration."""
    network = case.trial.topology.network()
    return _digest({"network": network, "settings": settings(case.trial), "environment": environment.id})


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_KEY_BYTES).hexdigest()


def condensed(trial: Trial, observation: Observation) -> Run:
    """The stored part of an observation."""
    failed = observation.failed
    kind = "stalled" if is_stalled(observation, stall_ns(trial)) else None if failed is None else failed.kind
    lasted = max(observation.duration_ns, 1)
    late = observation.metadata.get("emulator_late_p99_ms")
    waited = observation.metadata.get("waited_for_quiet_s")
    return Run(
        seed=trial.seed,
        mbps=None if kind else round(observation.throughput_bps / 1e6, 4),
        failed=kind,
        reason=str(failed) if failed is not None and kind != "stalled" else None,
        paths=_by_path(observation, lasted),
        retransmitted=sum(subflow.retransmitted for subflow in observation.subflows),
        timeouts=sum(subflow.timeouts for subflow in observation.subflows),
        late_ms=None if late is None else round(float(late), 3),
        waited_s=None if waited is None else round(float(waited), 1),
    )


def _by_path(observation: Observation, lasted_ns: int) -> dict[str, float]:
    carried: dict[str, float] = {}
    for used in (subflow for subflow in observation.subflows if subflow.bytes):
        carried[used.path] = round(carried.get(used.path, 0.0) + used.bytes * 8e3 / lasted_ns, 3)
    return carried


def measure(
    testbed: Testbed,
    results: Results,
    environment: Environment,
    planned: Sequence[tuple[Case, Sequence[Trial]]],
    reporter: Reporter,
) -> int:
    """Measure what the file lacks, first runs first; how many trials could not be measured in the end.

    A machine that becomes slower for a while is then slower for all configurations.
    """
    missing: list[tuple[Case, Trial]] = []
    for attempt in range(ATTEMPTS):
        missing = _missing(results, environment, planned)
        if not missing:
            break
        name = "kernel" if attempt == 0 else "kernel, again"

        def keep(
            index: int, _: Ran, observation: Observation, missing: Sequence[tuple[Case, Trial]] = missing
        ) -> None:
            case, trial = missing[index]
            run = condensed(trial, observation)
            if not overloaded(observation) and run.failed not in _OF_NO_MEANING:
                results.add(case, environment, run)

        with reporter.phase(name) as progress:
            reduce_trials(testbed, [trial for _, trial in missing], keep, progress=progress)
    return len(_missing(results, environment, planned)) if missing else 0


def _missing(
    results: Results, environment: Environment, planned: Sequence[tuple[Case, Sequence[Trial]]]
) -> list[tuple[Case, Trial]]:
    """Trials without a run, first runs of all cases before all second ones."""
    missing = [
        (number, case, trial)
        for case, trials in planned
        for number, (trial, run) in enumerate(
            zip(trials, results.runs(case, environment, trials), strict=True)
        )
        if run is None
    ]
    missing.sort(key=lambda item: item[0])
    return [(case, trial) for _, case, trial in missing]


def simulate(
    testbed: Testbed, cases: Sequence[tuple[Case, Sequence[Trial]]], reporter: Reporter
) -> list[list[Run]]:
    """The simulator's runs of each case."""
    flat = [trial for _, trials in cases for trial in trials]
    with reporter.phase("simulated") as progress:
        reduced = reduce_trials(
            testbed,
            flat,
            lambda index, _, observation: condensed(flat[index], observation),
            workers=len(os.sched_getaffinity(0)),
            progress=progress,
        )
    rest = iter(reduced)
    return [[next(rest) for _ in trials] for _, trials in cases]
