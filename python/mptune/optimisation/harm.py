"""Loss of another TCP connection beside a configuration: RFC 6356, section 2.1, goal 2, "do no harm".

The other one is a saturated plain TCP connection on a path, of a machine with Linux's defaults. Its loss is
against what it has beside plain TCP in our place: the same workload on the same path with the same defaults.
It is the difference run by run, with the same seeds, as a share of that mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mptune.decision.robustness import FAMILIAR_CC
from mptune.optimisation.job import Job
from mptune.optimisation.rules import MARGIN, shared
from mptune.statistics import Summary, summary_of
from mptune.topology import TcpBackground, Topology
from mptune.trial import Bulk, Combination, Configuration, Mix, Part, Record

#: A loss up to this is none, percent: the margin of the rules.
HARMLESS = 100 * MARGIN


@dataclass(frozen=True)
class Losses:
    """Loss of a rival on one path beside each configuration, by run, percent; nothing of failed runs."""

    path: str
    by_configuration: tuple[dict[int, float], ...]

    def summary(self, number: int) -> Summary | None:
        """Over the runs of the configuration with this number; None without any."""
        return summary_of(self.by_configuration[number].values())

    def harms(self, number: int) -> float:
        """The mean loss where it is more than none for sure, percent; 0 otherwise."""
        summary = self.summary(number)
        if summary is None:
            return 0.0
        low = summary.mean if summary.low is None else summary.low
        return summary.mean if low > HARMLESS else 0.0


def rivals(topology: Topology) -> tuple[str, ...]:
    """Paths on which another connection shares a link with several of ours; without any, the fastest path."""
    fastest = max(topology.paths, key=lambda path: path.rate_bps).label
    return tuple(dict.fromkeys(shared(topology).values())) or (fastest,)


def beside(topology: Topology, path: str) -> Topology:
    """The network with another TCP connection on a path, for as long as a trial lasts."""
    rival = TcpBackground(path=path, cc=FAMILIAR_CC)
    return msgspec.structs.replace(topology, background=(*topology.background, rival))


def check(job: Job) -> None:
    """Refuse networks that cannot have another connection, before anything is measured.

    Raises
    ------
    InputError : the testbed has none.
    """
    for path in rivals(job.topology):
        job.runner.testbed.check_network(beside(job.topology, path))


def measure(
    job: Job, configurations: Sequence[Configuration], runs: int, name: str
) -> tuple[list[Losses], list[Record]]:
    """Losses of the rival on each path, and all trials."""
    found, every = [], []
    for path in rivals(job.topology):
        ours = job.configuration(Combination.plain_tcp(path, FAMILIAR_CC), max(job.options.buffers))
        records = job.measure(
            [ours, *configurations],
            "vary",
            runs,
            f"{name} on {path}",
            topology=beside(job.topology, path),
            workload=_workload(job),
        )
        each = [_rates(records[start : start + runs]) for start in range(0, len(records), runs)]
        plain, *mine = each
        mean = sum(plain.values()) / max(1, len(plain))
        losses = tuple(
            {run: 100 * (plain[run] - rate) / mean for run, rate in rates.items() if mean and run in plain}
            for rates in mine
        )
        found.append(Losses(path=path, by_configuration=losses))
        every += records
    return found, every


def _workload(job: Job) -> Mix | None:
    """A saturated sender as a mix of one, whose records have what others got; None for what has it anyway."""
    sent = job.options.sent
    return Mix(parts=(Part(workload=sent),)) if isinstance(sent, Bulk) else None


def _rates(records: Sequence[Record]) -> dict[int, float]:
    """Throughput of the rival by run, Mbit/s."""
    return {
        record.run: record.others_mbps[-1]
        for record in records
        if record.failed is None and record.others_mbps
    }
