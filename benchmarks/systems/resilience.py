"""Path managers under the loss of the path that carries most, on both testbeds.

A saturated sender for 15 s; at 5 s the path that carries most is cut, at 9 s it is restored. `default` has
only that path, `fullmesh` uses all, `pcdc` uses that path and has one more on standby. Which path carries
most is measured first, with fullmesh in the simulator; it is the initial path.

Per case: the time until data arrive in order again, the throughput before the cut, during it and in the last
3 s, and the payload repeated on other subflows. Prints the table that is in
docs/explanation/path-managers.md and writes JSON; a failed trial shows its kind. The kernel's trials take
16 s each and need an idle machine.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.shared.measure import write
from mptune.runner.running import run_trials
from mptune.testbeds import create
from mptune.topology import Topology, load
from mptune.trial import BIN_NS, Bulk, Observation, ScriptedAction, Trial

ROOT = Path(__file__).parents[1]
NETWORKS = ("UNIS-HiN", "UiB-HiN", str(ROOT / "networks" / "three-unequal.toml"))
BEDS = ("simulated", "namespaces")
SECOND = 1_000_000_000
CUT, RESTORED, END = 5, 9, 15
#: Seconds before the cut, during it, and at the end, whose throughputs are compared.
BEFORE, DURING, AFTER = (3, CUT), (CUT, RESTORED), (12, END)
BUFFER_BYTES = 4 << 20


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A path manager on a network; medians of the trials that did not fail.

    Attributes
    ----------
    before_mbps, during_mbps, after_mbps : throughput in the 2 s before the cut, during it, in the last 3 s.
    failed : kinds of the failures.
    """

    network: str
    testbed: str
    manager: str
    path: str
    runs: int
    takeover_ms: float | None
    before_mbps: float | None
    during_mbps: float | None
    after_mbps: float | None
    repeated_kib: float | None
    failed: tuple[str, ...]


def busiest(topology: Topology) -> str:
    """Label of the path that carries most with fullmesh, without a cut."""
    plain = Trial(
        topology=topology,
        pm="fullmesh",
        cc="cubic",
        buffer_bytes=BUFFER_BYTES,
        seed=1,
        workload=Bulk(duration_ns=10 * SECOND),
    )
    carried: dict[str, int] = {}
    for subflow in create("simulated").run(plain).subflows:
        carried[subflow.path] = carried.get(subflow.path, 0) + subflow.bytes
    return max(carried, key=lambda label: carried[label])


def managers(topology: Topology, path: str) -> dict[str, tuple[str, dict[str, object]]]:
    """Path managers with their options, by the name in the table."""
    standby = tuple(other.label for other in topology.paths if other.label != path)
    return {
        "default": ("default", {}),
        "fullmesh": ("fullmesh", {}),
        "pcdc": ("pcdc", {"active": (path,), "standby_order": standby[:1]}),
    }


def trials(topology: Topology, path: str, runs: int) -> dict[str, list[Trial]]:
    """Trials of every path manager."""
    script = (
        ScriptedAction(at_ns=CUT * SECOND, path=path, action="down"),
        ScriptedAction(at_ns=RESTORED * SECOND, path=path, action="up"),
    )
    return {
        name: [
            Trial(
                topology=topology,
                pm=pm,
                pm_options=options,
                cc="cubic",
                buffer_bytes=BUFFER_BYTES,
                seed=seed,
                workload=Bulk(duration_ns=END * SECOND),
                initial_path=path,
                script=script,
            )
            for seed in range(1, runs + 1)
        ]
        for name, (pm, options) in managers(topology, path).items()
    }


def mbps(observation: Observation, span: tuple[int, int]) -> float:
    """Throughput between two times, Mbit/s."""
    first, last = (at * SECOND // BIN_NS for at in span)
    return sum(observation.bins[first:last]) * 8e-6 / (span[1] - span[0])


def row(network: str, testbed: str, manager: str, path: str, observations: Sequence[Observation]) -> Row:
    """Medians of a case."""
    good = [observation for observation in observations if observation.failed is None]

    def median(values: list[float]) -> float | None:
        return round(statistics.median(values), 3) if values else None

    return Row(
        network=network,
        testbed=testbed,
        manager=manager,
        path=path,
        runs=len(good),
        takeover_ms=median([float(observation.metadata["takeover_ms"]) for observation in good]),
        before_mbps=median([mbps(observation, BEFORE) for observation in good]),
        during_mbps=median([mbps(observation, DURING) for observation in good]),
        after_mbps=median([mbps(observation, AFTER) for observation in good]),
        repeated_kib=median([float(observation.metadata["reinjected_bytes"]) / 1024 for observation in good]),
        failed=tuple(
            observation.failed.kind for observation in observations if observation.failed is not None
        ),
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table of the documentation."""

    def text(value: float | None, spec: str) -> str:
        return "-" if value is None else format(value, spec)

    lines = [
        "| network, path cut | testbed | path manager | before (Mbit/s) | during | at the end "
        "| take-over (ms) | repeated (KiB) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            f"{row.network}, {row.path}",
            row.testbed,
            row.manager + (f" (failed: {', '.join(row.failed)})" if row.failed else ""),
            text(row.before_mbps, ".1f"),
            text(row.during_mbps, ".1f"),
            text(row.after_mbps, ".1f"),
            text(row.takeover_ms, ".0f"),
            text(row.repeated_kib, ".0f"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testbed", action="append", choices=BEDS)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case on the kernel")
    parser.add_argument("--simulated-runs", type=int, default=9)
    asked = parser.parse_args()
    rows = []
    for testbed in asked.testbed or BEDS:
        runs = asked.simulated_runs if testbed == "simulated" else asked.runs
        for name in NETWORKS:
            topology = load(name)
            path = busiest(topology)
            cases = trials(topology, path, runs)
            observations = iter(
                run_trials(create(testbed), [trial for case in cases.values() for trial in case])
            )
            for manager, case in cases.items():
                rows.append(row(topology.name, testbed, manager, path, [next(observations) for _ in case]))
                print(markdown(rows[-1:]).splitlines()[-1], flush=True)
            write("resilience", [msgspec.to_builtins(row) for row in rows])
    rows.sort(key=lambda row: [load(name).name for name in NETWORKS].index(row.network))
    print(markdown(rows))


if __name__ == "__main__":
    main()
