"""Networks of which others published what they reached: their results, what hosts do, what an answer gives.

- `mqvpn`: 300 and 80 Mbit/s between network namespaces, a VPN over Multipath QUIC (its repository's report).
  The goal is 90 % of the sum of the rates with one connection; the VPN has 67 % with one, 84 % with 16.
- `starlink-att`, `starlink-verizon`: a vehicle with Starlink and a cellular network, MPTCP as it comes, and
  tuned (Hu et al., CoNEXT 2023, figures 10 and 11). A rate every second for 300 s, that of the authors' TCP
  on each path alone, from a checkout of their repository (`--conext23 DIR`; it has no licence, and nothing of
  it is part of mptune). Their links carry more than their TCP reached, so the sum is that of TCP on each
  path, here as there. RTTs and queues are not published: what is assumed is in the file that is written. The
  goal is 90 % of the sum.

The answer is that of the main job in the simulator, as `mptune optimise NETWORK --duration` gives it, with
trials of the authors' duration. It is measured with other seeds beside TCP on each path, today's hosts,
endpoints by hand, and these with each congestion control, or path policy, of `--enter`: to enter one of your
own, add it, and name it there.

Not here: the 29 scenarios of arXiv 2511.14550, whose tables could not be had.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.decision import recommendations
from benchmarks.decision.recommendations import Given
from benchmarks.shared import docs
from benchmarks.shared.measure import RESULTS, machine, write
from mptune._text import digits
from mptune.errors import MptuneError
from mptune.runner.progress import Reporter
from mptune.topology import Topology, load
from mptune.trial import PLAIN_TCP, Bulk, Configuration

#: Of the table's markers in the docs.
NAME = "published networks"

DOCS = recommendations.DOCS
NETWORKS = Path(__file__).parents[1] / "networks" / "published"

#: Of the sum of the paths.
GOAL = 0.9
SECOND = 1_000_000_000

#: A line of an interval of iperf3's text: begin, end (s), rate, unit.
_INTERVAL = re.compile(r"\]\s+([0-9.]+)-([0-9.]+)\s+sec\s+[0-9.]+ \S+\s+([0-9.]+) ([KMG]?)bits/sec")
_UNITS = {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3}


class Published(NamedTuple):
    """A network, and what its authors report.

    Attributes
    ----------
    results : Mbit/s by what reached them, the best of one connection last.
    sum_mbps : of the paths: their rates, or of their TCP on each.
    of_rates : the sum is that of the rates.
    seconds : duration of a trial.
    """

    results: Mapping[str, float]
    sum_mbps: float
    of_rates: bool
    seconds: int


class Drive(NamedTuple):
    """Files of figure 11 with the authors' TCP on each path alone, and the other network's name."""

    starlink: str
    other: str
    name: str


PUBLISHED = {
    "mqvpn": Published({"VPN, 16 connections": 319, "VPN": 256}, 380, of_rates=True, seconds=30),
    "starlink-att": Published(
        {"MPTCP": 178.4886667, "MPTCP, tuned": 229.0043333},
        106.763 + 176.8111333,
        of_rates=False,
        seconds=300,
    ),
    "starlink-verizon": Published(
        {"MPTCP": 196.9, "MPTCP, tuned": 289.367}, 174.658 + 176.8111333, of_rates=False, seconds=300
    ),
}
DRIVES = {
    "starlink-att": Drive("mob_att_sp_mob.txt", "mob_att_sp_att.txt", "AT&T"),
    "starlink-verizon": Drive("mob_vz_sp_mob.txt", "mob_vz_sp_vz.txt", "Verizon"),
}
#: The authors' repository, and the folder of these files.
REPOSITORY = "Starlink-Project/Satellite-vs-Cellular"
FOLDER = "11-MPTCP-Thrpt"

_TOPOLOGY = """\
name = "{name}"
description = "A server to a vehicle with Starlink and {other}, a rate every second"
source = "Hu et al., LEO Satellite vs. Cellular Networks (CoNEXT 2023), figure 11"
sender = "SERVER"
receiver = "VEHICLE"

[sites.SERVER]
name = "Server"

[[sites.SERVER.interfaces]]
isp = "Transit"
abbr = "T"
up = "10 Gbit/s"
down = "10 Gbit/s"
delay = "0.1 ms"

[sites.VEHICLE]
name = "Vehicle"

[[sites.VEHICLE.interfaces]]
isp = "Starlink"
abbr = "S"
assumed = "an RTT of 60 ms, 10 Mbit/s up, and a queue of 0.2 s at the mean rate: not published"
up = "10 Mbit/s"
trace_down = "{starlink}.csv"
delay = "25 ms"
queue = "4 MiB"

[[sites.VEHICLE.interfaces]]
isp = "{other}"
abbr = "C"
assumed = "an RTT of 60 ms, 10 Mbit/s up, and a queue of 0.2 s at a rate of 170 Mbit/s: not published"
up = "10 Mbit/s"
trace_down = "{cellular}.csv"
delay = "25 ms"
queue = "4 MiB"

[core]
delay = "4.9 ms"
"""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A network's answer, and what it and the others gave by name.

    Attributes
    ----------
    answer, buffers : in words.
    simulated, kernel : the second is empty if no kernel was asked.
    """

    network: str
    answer: str
    buffers: str
    simulated: dict[str, Given]
    kernel: dict[str, Given]

    @property
    def given(self) -> dict[str, Given]:
        """On the kernel, if it was asked."""
        return self.kernel or self.simulated

    @property
    def sum_mbps(self) -> float:
        """Of the paths."""
        published = PUBLISHED[self.network]
        if published.of_rates:
            return published.sum_mbps
        return sum(given.mbps or 0 for name, given in self.given.items() if name.startswith("TCP on "))

    def share(self, name: str) -> float | None:
        """Of the sum of the paths."""
        mbps = self.given[name].mbps
        return None if mbps is None or not self.sum_mbps else mbps / self.sum_mbps


def rates(text: str) -> Iterator[tuple[float, float]]:
    """Begin (s) and Mbit/s of each interval of iperf3's text, its total aside."""
    for begin, end, rate, unit in _INTERVAL.findall(text):
        if float(end) - float(begin) < 2:
            yield float(begin), float(rate) * _UNITS[unit]


def written(drive: Drive, name: str, checkout: Path, directory: Path) -> Path:
    """Writes the network of a drive, and its two traces: the network's file.

    Raises
    ------
    SystemExit : the checkout has no such file, or one without intervals.
    """
    directory.mkdir(parents=True, exist_ok=True)
    stems = [Path(file).stem for file in (drive.starlink, drive.other)]
    for stem in stems:
        source = checkout / FOLDER / f"{stem}.txt"
        try:
            lines = [f"{begin:g},{rate:g}" for begin, rate in rates(source.read_text(encoding="utf-8"))]
        except OSError as error:
            raise SystemExit(f"{source}: {error.strerror}; expected a checkout of {REPOSITORY}") from None
        if not lines:
            raise SystemExit(f"{source}: expected the text of iperf3, found no interval")
        table = "\n".join(["time (s),rate (Mbit/s)", *lines, ""])
        (directory / f"{stem}.csv").write_text(table, encoding="utf-8")
    file = directory / f"{name}.toml"
    text = _TOPOLOGY.format(name=name, other=drive.name, starlink=stems[0], cellular=stems[1])
    file.write_text(text, encoding="utf-8")
    return file


def networks(checkout: Path | None) -> Iterator[Topology]:
    """Those that can be had, in their order."""
    for name in PUBLISHED:
        if name not in DRIVES:
            yield load(str(NETWORKS / f"{name}.toml"))
        elif checkout is not None:
            yield load(str(written(DRIVES[name], name, checkout, RESULTS / "published_networks")))


def entries(
    compared: Mapping[str, Configuration], topology: Topology, entered: Iterable[str]
) -> dict[str, Configuration]:
    """The configurations that are measured, by name."""
    now, by_hand = compared["now"], compared["by_hand"]
    alone = {
        f"TCP on {path.label}": msgspec.structs.replace(now, protocol=PLAIN_TCP, initial_path=path.label)
        for path in topology.paths
    }
    by_hand_with = {f"by hand, {cc}": msgspec.structs.replace(by_hand, cc=cc) for cc in entered}
    return alone | {"today": now, "by hand": by_hand} | by_hand_with | {"answer": compared["answer"]}


def outcome(topology: Topology, asked: argparse.Namespace, reporter: Reporter) -> Outcome:
    """Run the main job, and measure."""
    workload = Bulk(duration_ns=PUBLISHED[topology.name].seconds * SECOND)
    result = recommendations.recommend(topology, asked.stack, asked, reporter, workload.duration_ns)
    compared = recommendations.compared(result)
    measured = {
        entry: configuration.under(workload)
        for entry, configuration in entries(compared, topology, asked.enter).items()
    }
    ours = compared["answer"]
    on_kernel = asked.testbed != "simulated"
    return Outcome(
        network=topology.name,
        answer=f"{ours.manager}, {ours.cc}",
        buffers=recommendations.buffers(ours),
        simulated=recommendations.measure("simulated", topology, measured, asked, reporter),
        kernel=recommendations.measure(asked.testbed, topology, measured, asked, reporter)
        if on_kernel
        else {},
    )


def rows(measured: Outcome) -> Iterator[tuple[str, ...]]:
    """Rows of the table: of the authors' results, then of ours."""
    published = PUBLISHED[measured.network]
    for name, mbps in published.results.items():
        yield measured.network, f"published: {name}", digits(mbps, 3), _percent(mbps / published.sum_mbps), ""
    for name, given in measured.given.items():
        words = f"**answer**: {measured.answer}, {measured.buffers}" if name == "answer" else name
        simulated = measured.simulated[name].text if measured.kernel else ""
        yield measured.network, words, given.text, _percent(measured.share(name)), simulated


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


HEAD = ("network", "with", "Mbit/s, queueing delay", "of the sum", "simulated")


def summary(outcomes: Iterable[Outcome], testbed: str) -> str:
    """The answer of each network beside the goal and the authors' best."""
    sentences = []
    for measured in outcomes:
        published = PUBLISHED[measured.network]
        theirs = list(published.results.values())[-1] / published.sum_mbps
        ours = measured.share("answer")
        met = ours is not None and ours >= GOAL
        sentences.append(
            f"{measured.network}: the answer gives {_percent(ours)} of the sum, its authors' best"
            f" {_percent(theirs)}; the goal of {_percent(GOAL)} is {'met' if met else 'missed'}."
        )
    return f"On {testbed}: " + " ".join(sentences)


def arguments() -> argparse.Namespace:
    """The scope of the measurement; the testbed may be "simulated" too."""
    parser = recommendations.options(__doc__)
    parser.add_argument("--stack", default="linux-7.3", help="of the simulator")
    parser.add_argument("--only", action="append", choices=PUBLISHED, help="only this network; repeat")
    parser.add_argument("--enter", action="append", default=["cubic+hold"], metavar="CC")
    parser.add_argument("--conext23", type=Path, metavar="DIR", help="checkout with the drives")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; exit status 1 if it was stopped or failed."""
    asked, reporter = arguments(), Reporter()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    outcomes: list[Outcome] = []
    try:
        for topology in networks(asked.conext23):
            if not asked.only or topology.name in asked.only:
                outcomes.append(outcome(topology, asked, reporter))
    except KeyboardInterrupt:
        return 1
    except MptuneError as error:
        print(error, file=sys.stderr)
        return 1
    lines = [row for measured in outcomes for row in rows(measured)]
    table = Table(*HEAD)
    for line in lines:
        table.add_row(*line)
    Console(width=160).print(table)
    print(summary(outcomes, asked.testbed))
    write("published_networks", [msgspec.to_builtins(measured) for measured in outcomes])
    if asked.write_docs:
        about = f"{summary(outcomes, asked.testbed)} Measured with mptune {machine()['mptune']}."
        docs.replace(DOCS, NAME, "\n".join([*docs.table([HEAD, *lines]), "", about]))
        print(f"written to {DOCS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
