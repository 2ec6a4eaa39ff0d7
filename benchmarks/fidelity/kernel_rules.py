"""The three rules of multipath congestion control (RFC 6356 section 1), measured on the kernel.

Do no harm: two subflows through one bottleneck against one Reno flow; their share is 1/2 if they behave as
one flow, 2/3 if uncoupled. Balance congestion: two paths, one of them contended by three Reno flows; the
lower the share of the contended one the better, 1/4 if uncoupled. Improve throughput: on the same paths, the
total over what the free one gives alone. All are connections of this kernel over the emulated network: MPTCP
with the program of `bpf/congestion` against plain TCP with the kernel's Reno. Contests run side by side: at
20 or 40 Mbit/s each needs a small part of a processor. The simulator runs the same contests, with the
kernel's scheduler and with minRTT. With `--testbed virtual` each contest is in a guest, which neither other
programs nor other contests disturb. Prints a table and writes JSON.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared.contest import BUFFER_BYTES, Contest, contend, in_guest
from benchmarks.shared.measure import machine, write
from mptune.guest import kernels
from mptune.guest.machine import Processors
from mptune.linux import bpf
from mptune.linux.awake import Awake
from mptune.testbeds import create as testbed
from mptune.topology import TcpBackground, load
from mptune.trial import Bulk, Trial
from mptune.trial.congestion import PLUS

NETWORKS = Path(__file__).parents[1] / "networks" / "contended"
#: The coupled ones, and reno on every subflow for contrast.
CCS = ("reno", "lia", "olia", "balia")
#: Schedulers in the simulator: the kernel's, and the one without its bursts.
SCHEDULERS = ("kernel", "minrtt")
#: Runs in the simulator, where they are cheap.
SIMULATED_RUNS = 10
#: The contests of a run: network, paths of the multipath connection, and each rival's path. The last one is
#: for the third rule alone.
CONTESTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("one-bottleneck", ("A-X", "B-X"), ("C-X",)),
    ("two-bottlenecks", ("A-X", "B-Y"), ("C-Y",) * 3),
    ("two-bottlenecks", ("A-X",), ("C-Y",) * 3),
)

#: Estimates of the rules, one for each run.
Rules = dict[str, list[float]]


#: Holds a contest: network, congestion control, paths, each rival's path, seconds, seed.
Contend = Callable[[Path, str, Sequence[str], Sequence[str], float, int], Contest]


@contextmanager
def contests(bed: str, ccs: Sequence[str]) -> Iterator[Contend]:
    """The contest of a testbed, `namespaces` or `virtual[:RELEASE]`."""
    if bed != "namespaces":
        yield partial(in_guest, kernels.find(bed.partition(":")[2]), Processors())
        return
    with Awake(), bpf.loaded(ccs) as names:
        yield lambda network, cc, *others: contend(load(network), names[cc], *others)


def rules(ccs: Sequence[str], asked: argparse.Namespace) -> dict[str, Rules]:
    """Estimates of the three rules for each congestion control on the kernel, one for each run."""
    results: dict[str, list[list[Future[Contest]]]] = {cc: [] for cc in ccs}
    with contests(asked.testbed, ccs) as hold, ThreadPoolExecutor(asked.workers) as executor:
        for run in range(asked.runs):
            for cc in ccs:
                results[cc].append(
                    [
                        executor.submit(
                            hold,
                            NETWORKS / f"{network}.toml",
                            cc,
                            labels,
                            rivals,
                            asked.duration,
                            asked.seed + run,
                        )
                        for network, labels, rivals in (CONTESTS[:-1] if asked.without_gain else CONTESTS)
                    ]
                )
        return {
            cc: estimates([[future.result() for future in run] for run in runs])
            for cc, runs in results.items()
        }


def simulated_rules(cc: str, scheduler: str, asked: argparse.Namespace) -> Rules:
    """The same in the simulator."""
    return estimates(
        [
            [_simulate(*contest, cc, scheduler, asked, asked.seed + run) for contest in CONTESTS]
            for run in range(SIMULATED_RUNS)
        ]
    )


def _simulate(
    network: str,
    labels: tuple[str, ...],
    rivals: tuple[str, ...],
    cc: str,
    scheduler: str,
    asked: argparse.Namespace,
    seed: int,
) -> Contest:
    """One contest; pcdc keeps all but the wanted paths silent."""
    topology = load(NETWORKS / f"{network}.toml")
    others = tuple(TcpBackground(path=path, cc="reno") for path in rivals)
    trial = Trial(
        topology=msgspec.structs.replace(topology, background=others),
        pm="pcdc",
        pm_options={"active": labels},
        initial_path=labels[0],
        cc=cc,
        scheduler=scheduler,
        buffer_bytes=BUFFER_BYTES,
        seed=seed,
        workload=Bulk(duration_ns=round(asked.duration * 1e9)),
    )
    observation = testbed("simulated").run(trial)
    sent = {subflow.path: subflow.bytes for subflow in observation.subflows if subflow.path in labels}
    return Contest(sent, [flow.bytes for flow in observation.background])


def estimates(runs: Sequence[Sequence[Contest]]) -> Rules:
    """The rules from the contests of each run, in the order of `CONTESTS`; without the last no gain."""
    rules = {
        "share": [shared.total / (shared.total + shared.rivals[0]) for shared, *_ in runs],
        "on_contended": [both.paths["B-Y"] / (both.paths["B-Y"] + sum(both.rivals)) for _, both, *_ in runs],
    }
    if all(len(run) == len(CONTESTS) for run in runs):
        rules["gain"] = [both.total / alone.total for _, both, alone in runs]
    return rules


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=float, default=60.0, help="duration of a transfer, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", action="append", help="only these; repeat")
    parser.add_argument("--workers", type=int, help="contests at once; one a processor in guests, else two")
    parser.add_argument("--testbed", default="namespaces", help="namespaces, or virtual[:RELEASE]")
    parser.add_argument("--without-gain", action="store_true", help="with --json: leave the third rule out")
    parser.add_argument("--json", action="store_true", help="print the estimates and write nothing")
    asked = parser.parse_args()
    if asked.without_gain and not asked.json:
        parser.error("--without-gain: expected with --json")
    asked.workers = asked.workers or (os.cpu_count() or 1) * (2 if asked.testbed == "namespaces" else 1)
    result = rules(asked.cc or CCS, asked)
    if asked.json:
        print(json.dumps(result))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    everything = {
        cc: {"kernel": outcome}
        | {f"simulated, {name}": simulated_rules(cc, name, asked) for name in _schedulers(cc)}
        for cc, outcome in result.items()
    }
    columns = ("share against one Reno flow", "share of the contended path", "total over the free path alone")
    table = Table("CC", "where", *columns)
    for cc, beds in everything.items():
        for bed, outcome in beds.items():
            table.add_row(cc, bed, *(_shown(outcome[key]) for key in ("share", "on_contended", "gain")))
    Console(width=130).print(table)
    write("kernel_rules", everything)


def _schedulers(cc: str) -> Sequence[str]:
    """Those that the simulator can have: path policies need rates, by which only the kernel's goes."""
    return SCHEDULERS[:1] if PLUS in cc else SCHEDULERS


def _shown(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
