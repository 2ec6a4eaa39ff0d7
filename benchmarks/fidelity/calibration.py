"""Recovery of networks that are known: how often calibration's intervals hold the truth, and what they gain.

Random slow networks are the stated ones, with every value assumed. For each, a true network is drawn from the
priors, measured in the simulator with other seeds, and every measurement gets an error of `NOISE`, so that
the likelihood is the right one. Calibrated from the stated network, the intervals should hold 80 % of the
true values; configurations that were held out should be predicted better than by the stated network.

Prints a table and writes JSON.
"""

import argparse
import sys
from collections.abc import Iterator

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.shared.measure import machine, write
from benchmarks.shared.random_networks import random_network
from mptune.calibration import CalibrationOptions
from mptune.calibration.job import calibrate
from mptune.calibration.likelihood import Simulated, errors, simulated, trials
from mptune.calibration.parameters import Parameter, parameters, with_values
from mptune.table.configured import Measured
from mptune.testbeds import create
from mptune.topology import Provenance, Topology
from mptune.trial import Bulk, Configuration
from mptune.trial.stacks import STACKS, of_tcp
from mptune.units import MIB

#: Networks with no more than this, so that a trial takes milliseconds.
MOST_BPS, MOST_PATHS = 40_000_000, 4

#: Standard deviation of the logarithm of a measurement's error; the discrepancy that calibration assumes.
NOISE = 0.1

#: Of every trial.
SECONDS = 10


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One network: intervals that hold the truth, and mean errors on held-out configurations."""

    seed: int
    values: int
    held: int
    determined: int
    held_determined: int
    stated_error: float
    calibrated_error: float
    misfit: float


def networks() -> Iterator[tuple[int, Topology]]:
    """Slow random networks of which every value is assumed."""
    seed = 0
    while True:
        seed += 1
        topology = random_network(seed)
        paths = topology.paths
        if len(paths) <= MOST_PATHS and sum(path.rate_bps for path in paths) <= MOST_BPS:
            yield seed, assumed(topology)


def assumed(topology: Topology) -> Topology:
    """The topology with every value that calibration could infer assumed."""
    origin = Provenance(value="", assumed="drawn")
    keys = [
        f"sites.{site.abbr}.interfaces.{interface.abbr}.{name}"
        for site in (topology.sender, topology.receiver)
        for interface in site.interfaces
        for name in ("up", "down", "queue_up", "queue_down")
    ]
    keys += [
        f"core.segments.{path.label}.{name}"
        for path in topology.paths
        for name in ("rtt", "rate", "queue", "loss")
    ]
    return msgspec.structs.replace(topology, provenance=dict.fromkeys(keys, origin))


def configurations(topology: Topology) -> tuple[list[Configuration], list[Configuration]]:
    """Configurations to fit, and those held out."""
    workload = Bulk(duration_ns=SECONDS * 10**9)
    stack = STACKS["linux"]
    paths = [path.label for path in topology.paths]

    def mesh(cc: str, buffer: int) -> Configuration:
        return Configuration(pm="fullmesh", cc=cc, buffer_bytes=buffer, workload=workload, stack=stack)

    alone = [
        Configuration(
            pm="default",
            protocol="tcp",
            cc="cubic",
            buffer_bytes=4 * MIB,
            workload=workload,
            initial_path=path,
            stack=of_tcp(stack),
        )
        for path in paths
    ]
    without = [
        Configuration(
            pm="pcdc",
            pm_options={"active": tuple(label for label in paths if label != path)},
            cc="cubic",
            buffer_bytes=4 * MIB,
            workload=workload,
            initial_path=next(label for label in paths if label != path),
            stack=stack,
        )
        for path in paths
        if len(paths) > 1
    ]
    measured = [*alone, mesh("cubic", 4 * MIB), mesh("olia", 4 * MIB), mesh("cubic", MIB // 4)]
    return measured, [mesh("reno", 4 * MIB), mesh("cubic", MIB), mesh("bbr", 4 * MIB), *without]


def measure(topology: Topology, chosen: list[Configuration], seed: int) -> list[Measured]:
    """Values of configurations on a network."""
    rows = [
        Measured(rows=(number,), configuration=configuration, metric="throughput", value=1.0)
        for number, configuration in enumerate(chosen, 2)
    ]
    testbed = create("simulated")
    return [
        msgspec.structs.replace(row, value=max(0.001, simulated(row, testbed.run(trial)).value))
        for row, trial in zip(rows, trials(topology, rows, SECONDS * 10**9, seed), strict=True)
    ]


def recovered(seed: int, stated: Topology, budget: int) -> Row:
    """One network, drawn, measured and calibrated."""
    rng = np.random.default_rng(seed)
    drawn: dict[Parameter, int] = {
        parameter: parameter.value(float(rng.standard_normal())) for parameter in parameters(stated)
    }
    truth = with_values(stated, drawn)
    measured, held_out = configurations(stated)
    exact = measure(truth, measured, 1000 + seed)
    noisy = [
        msgspec.structs.replace(row, value=row.value * float(np.exp(NOISE * rng.standard_normal())))
        for row in exact
    ]
    options = CalibrationOptions(budget=budget, discrepancy=NOISE, longest_ns=SECONDS * 10**9, seed=seed)
    result = calibrate(stated, noisy, options)
    holds = [
        inferred.low_number <= drawn[parameter] <= inferred.high_number
        for parameter, inferred in zip(drawn, result.inferred, strict=True)
    ]
    determined = [inferred.determined != "not" for inferred in result.inferred]
    return Row(
        seed=seed,
        values=len(holds),
        held=sum(holds),
        determined=sum(determined),
        held_determined=sum(a and b for a, b in zip(holds, determined, strict=True)),
        stated_error=error(truth, stated, held_out, seed),
        calibrated_error=error(truth, result.topology, held_out, seed),
        misfit=result.misfit,
    )


def error(truth: Topology, network: Topology, held_out: list[Configuration], seed: int) -> float:
    """Mean absolute logarithm of predicted over true throughput."""
    right, predicted = (measure(topology, held_out, 2000 + seed) for topology in (truth, network))
    logarithms = errors(right, [Simulated(row.value, {}) for row in predicted])
    return float(np.abs(logarithms).mean())


def main() -> int:
    """Draw, calibrate, print."""
    asked = arguments()
    drawn = networks()
    rows = [
        recovered(seed, topology, asked.budget)
        for _, (seed, topology) in zip(
            track(range(asked.networks), "networks", transient=True), drawn, strict=False
        )
    ]
    console = Console(width=120)
    console.print(machine(), f"{len(rows)} networks, {asked.budget} simulated for each")
    console.print(table(rows))
    write(asked.out, [msgspec.structs.asdict(row) for row in rows])
    return 0


def table(rows: list[Row]) -> Table:
    """A line per network, and all of them."""
    heads = (
        "network",
        "values",
        "interval holds",
        "of determined",
        "held out: stated",
        "calibrated",
        "misfit",
    )
    printed = Table(*heads)
    for row in rows:
        printed.add_row(
            str(row.seed),
            str(row.values),
            f"{row.held / row.values:.0%}",
            f"{row.held_determined}/{row.determined}",
            f"{row.stated_error:.1%}",
            f"{row.calibrated_error:.1%}",
            f"{row.misfit:.2f}",
        )
    values, held = sum(row.values for row in rows), sum(row.held for row in rows)
    determined, both = sum(row.determined for row in rows), sum(row.held_determined for row in rows)
    printed.add_section()
    printed.add_row(
        "all",
        str(values),
        f"{held / values:.1%}",
        f"{both}/{determined} ({both / max(determined, 1):.1%})",
        f"{np.mean([row.stated_error for row in rows]):.1%}",
        f"{np.mean([row.calibrated_error for row in rows]):.1%}",
        f"{np.mean([row.misfit for row in rows]):.2f}",
    )
    return printed


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--budget", type=int, default=400, help="networks simulated for each calibration")
    parser.add_argument("--out", default="calibration", help="name of the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
