"""The papers' throughputs over the buffer, simulated under their kernels' stack and set beside theirs.

Every pair of sites for which a paper prints a throughput or a sufficient size of the buffer: the buffer-size
study, MPCOA (Fig. 6 to 8) and PCDC (Fig. 6, 8 and 10), in trials as long as theirs. The simulated curve has
the scenario made from the papers' tables. Where rates or losses are not published the scenarios derive them
from throughputs of single paths, and for UNIS-HiN, SRL-HU and UiB-HU from some of the very numbers compared
here (the files say which). From each curve come its plateau (largest mean), the buffers at which it first has
half and 95 % of that and from which it keeps 95 %, and what the largest buffer leaves of it. The papers print
no curve in numbers: only the level can be compared, and for the buffer-size study the size that they found
sufficient, by eye. Trials are kept under
target/benchmarks. Prints a table, or rows for the docs (`--markdown`), and writes JSON.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.shared.kept import kept
from benchmarks.shared.measure import write
from mptune.optimisation.papers import PMS
from mptune.papers.published import rows as published
from mptune.runner.planning import plan_trials
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.testbeds import create as testbed
from mptune.topology import Topology, load
from mptune.trial import Bulk, Configuration
from mptune.trial.metrics import THROUGHPUT
from mptune.trial.stacks import STACKS
from mptune.units import MIB, format_size

#: Whose kernels the papers measured.
STACK = "v0.9x"

#: Buffers of the limits of the studies, bytes (`all_measurement_settings.csv`).
BUFFERSIZES_LIMIT = PCDC_LIMIT = 16 * MIB

#: Smallest simulated buffer, bytes, and the steps of an octave up to the limit: finer where a size is
#: published.
SMALLEST, STEPS, FINE_STEPS = 128 * 1024, 1, 2

#: Shares of the plateau at which a curve is described.
HALF, FULL = 0.5, 0.95

#: The buffer-size study's pairs; the others' names are those of scenarios.
SCENARIOS = {
    "UDE-HU": "UDE-HU.buffersizes",
    "KU-HiG": "KU-HiG.buffersizes",
    "NTNU-HiN": "NTNU-HiN.buffersizes",
}


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One published pair; throughput in Mbit/s, sizes in bytes, None for what is not printed.

    Attributes
    ----------
    seconds : duration of the paper's trials.
    pm : fullmesh or pcdc; `active` is the set that the paper found for it.
    buffer_bytes : of the throughput.
    sufficient_bytes : size at which the paper sees the full throughput.
    """

    paper: str
    pair: str
    cc: str
    pm: str
    active: tuple[str, ...] = ()
    seconds: int
    buffer_bytes: int
    mbps: float | None
    sufficient_bytes: int | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated curve beside what is published of it.

    Attributes
    ----------
    mbps : buffer (bytes) -> throughput of each run.
    """

    published: Published
    mbps: dict[int, list[float]]

    @property
    def means(self) -> dict[int, float]:
        """Mean throughput by buffer."""
        return {size: sum(values) / max(len(values), 1) for size, values in sorted(self.mbps.items())}

    @property
    def plateau(self) -> float:
        """Largest mean throughput, Mbit/s."""
        return max(self.means.values())

    @property
    def tail(self) -> float:
        """What the largest buffer leaves of the plateau, as a share."""
        return list(self.means.values())[-1] / self.plateau

    def size_at(self, share: float) -> int:
        """Smallest simulated buffer with this share of the plateau, bytes."""
        return next(size for size, mean in self.means.items() if mean >= share * self.plateau)

    def stays_from(self, share: float) -> int | None:
        """Smallest simulated buffer from which no larger one has less than this share; None if none."""
        found = None
        for size, mean in reversed(self.means.items()):
            if mean < share * self.plateau:
                break
            found = size
        return found


def topology_of(pair: str) -> Topology:
    """The scenario of a pair, or of its reverse."""
    if pair == "HU-UDE":
        return load(SCENARIOS["UDE-HU"]).reversed()
    return load(SCENARIOS.get(pair, pair))


def buffersizes() -> Iterator[Published]:
    """The buffer-size study: sufficient sizes in the prose, and throughputs where they are printed."""
    prose = {
        row["scenario"]: float(row["value"])
        for row in published("buffersizes_prose_throughput")
        if (row["protocol"], row["quantity"]) == ("MPTCP", "throughput")
    }
    for row in published("buffersizes_table3_sizes"):
        size = round(float(row["practical_KiB_prose"]) * 1024)
        yield Published(
            paper="buffer sizes",
            seconds=60,
            pair=row["scenario"],
            cc="cubic",
            pm="fullmesh",
            buffer_bytes=size,
            mbps=prose.get(row["scenario"]),
            sufficient_bytes=size,
        )


def mpcoa() -> Iterator[Published]:
    """MPCOA, Fig. 6 to 8, with the optional sets of its Table 3."""
    sets = {
        (row["scenario"], row["cc"]): tuple(row["optional_subflows_space_separated"].split())
        for row in published("mpcoa_table3_optional_subflows")
    }
    for row in published("mpcoa_fig6_7_8_throughput"):
        pm = row["pm"].lower()
        yield Published(
            paper="MPCOA",
            seconds=30,
            pair=row["scenario"],
            cc=row["cc"].lower(),
            pm=pm,
            active=sets[row["scenario"], row["cc"]] if pm == "pcdc" else (),
            buffer_bytes=round(float(row["buffer_MiB"]) * MIB),
            mbps=float(row["mean_throughput_Mbit_s"]),
        )


def pcdc() -> Iterator[Published]:
    """PCDC, Fig. 6, 8 and 10, with the sets that its prose names."""
    sets = {
        (row["scenario"], row["cc"]): row["subset_per_prose_space_separated"].split()
        for row in published("pcdc_chosen_subsets")
    }
    for row in published("pcdc_fig6_8_10_throughput"):
        labels = {f"{p.local.isp}-{p.remote.isp}": p.label for p in topology_of(row["scenario"]).paths}
        labels |= {label.replace("China Unicom", "CnUnicom"): short for label, short in labels.items()}
        pm = row["pm"].lower()
        chosen = sets[row["scenario"], row["cc"]] if pm == "pcdc" else []
        yield Published(
            paper="PCDC",
            seconds=120,
            pair=row["scenario"],
            cc=row["cc"].lower(),
            pm=pm,
            active=tuple(labels[name] for name in chosen),
            buffer_bytes=PCDC_LIMIT,
            mbps=float(row["mean_throughput_Mbit_s"]),
        )


def buffers(one: Published) -> list[int]:
    """Simulated buffers: geometric up to the study's limit, and the published one."""
    steps = STEPS if one.sufficient_bytes is None else FINE_STEPS
    limit = max(one.buffer_bytes, BUFFERSIZES_LIMIT)
    octaves = (limit // SMALLEST).bit_length()
    sizes = {round(SMALLEST * 2 ** (number / steps)) for number in range(octaves * steps)}
    return sorted({size for size in sizes if size <= limit} | {one.buffer_bytes, limit})


def simulate(
    known: Sequence[Published], runner: TrialRunner, asked: argparse.Namespace, reporter: Reporter
) -> list[Curve]:
    """Every curve, with the same seeds."""
    runs = asked.runs
    planned, sizes = [], [buffers(one) for one in known]
    for one, ones in zip(known, sizes, strict=True):
        topology = topology_of(one.pair)
        standby = tuple(path.label for path in topology.paths if path.label not in one.active)
        options = {"active": one.active, "standby_order": standby} if one.active else {}
        assert one.pm in PMS
        workload = Bulk(duration_ns=(asked.duration or one.seconds) * 10**9)
        planned += plan_trials(
            topology,
            [
                Configuration(
                    pm=one.pm,
                    cc=one.cc,
                    buffer_bytes=size,
                    workload=workload,
                    pm_options=options,
                    stack=STACKS[STACK],
                )
                for size in ones
            ],
            purpose="sweep",
            runs=runs,
            base_seed=asked.seed,
        )
    with reporter.phase("curves") as progress:
        records = iter(runner.measure(planned, progress=progress))
    return [
        Curve(
            published=one,
            mbps={size: THROUGHPUT.values(list(itertools.islice(records, runs))) for size in ones},
        )
        for one, ones in zip(known, sizes, strict=True)
    ]


COLUMNS = (
    *("paper", "pair", "CC", "PM", "buffer", "published (Mbit/s)", "simulated", "difference"),
    *("plateau", "half at", "95 % at", "95 % from", "sufficient (published)", "left at the largest"),
)


def cells(curve: Curve) -> list[str]:
    """A row of the table."""
    one, here = curve.published, curve.mbps[curve.published.buffer_bytes]
    mean = curve.means[one.buffer_bytes]
    names = {"fullmesh": "FullMesh", "pcdc": "PCDC"}
    return [
        *(one.paper, one.pair, one.cc, names[one.pm], format_size(one.buffer_bytes, 3)),
        "-" if one.mbps is None else f"{one.mbps:g}",
        f"{mean:.3g} ({min(here):.3g}-{max(here):.3g})" if here else "failed",
        "-" if one.mbps is None else f"{100 * (mean / one.mbps - 1):+.0f} %",
        f"{curve.plateau:.3g}",
        *(format_size(curve.size_at(share), 3) for share in (HALF, FULL)),
        "-" if (stays := curve.stays_from(FULL)) is None else format_size(stays, 3),
        "-" if one.sufficient_bytes is None else format_size(one.sufficient_bytes, 3),
        f"{100 * curve.tail:.0f} %",
    ]


def main() -> None:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--duration", type=int, help="seconds of a trial, if not the paper's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="only pairs with this name; repeat")
    parser.add_argument("--fresh", action="store_true", help="simulate everything again")
    parser.add_argument("--markdown", action="store_true", help="print rows for the docs")
    asked = parser.parse_args()
    known = [*buffersizes(), *mpcoa(), *pcdc()]
    known = [one for one in known if not asked.only or one.pair in asked.only]
    with kept("published_curves", "trials", fresh=asked.fresh) as store:
        curves = simulate(known, TrialRunner(testbed("simulated"), None, store), asked, Reporter())
    if asked.markdown:
        print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
        for curve in curves:
            print("| " + " | ".join(cells(curve)) + " |")
    else:
        table = Table(*COLUMNS, title=f"Published and simulated under {STACK}", title_justify="left")
        for curve in curves:
            table.add_row(*cells(curve))
        Console(width=200).print(table)
    write("published_curves", [msgspec.to_builtins(curve) for curve in curves])


if __name__ == "__main__":
    main()
