"""The answer against its rivals: fresh trials of some combinations with one buffer, and what they change.

`shortlist`, `plain_tcp` and `confirming` measure and put together; here are the outcome, and the trials that
all of them compare.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mptune.decision import Decision
from mptune.decision.revision import moved
from mptune.decision.robustness import Finalist, finalists, is_beaten, without_mptcp
from mptune.optimisation.job import Job
from mptune.topology import perturbed
from mptune.trial import Combination, Record

#: Networks that are not quite as stated.
OTHER_NETWORKS = 8

#: Throughputs of combinations, Mbit/s, in the same order in all of them; 0 for a failed trial.
Throughputs = Mapping[Combination, Sequence[float]]


@dataclass(frozen=True)
class Compared:
    """Throughputs with the same seeds for all; `others` are networks off in everything at once."""

    stated: Throughputs = field(default_factory=dict)
    others: Throughputs = field(default_factory=dict)
    records: tuple[Record, ...] = ()

    def finalists(self, buffer_bytes: int) -> tuple[Finalist, ...]:
        """Observations of each combination with this buffer (bytes)."""
        return finalists(buffer_bytes, self.stated, self.others)

    def beside(self, other: "Compared") -> "Compared":
        """Both together."""
        return Compared(
            {**self.stated, **other.stated},
            {**self.others, **other.others},
            (*self.records, *other.records),
        )


def compare(job: Job, combinations: Sequence[Combination], buffer_bytes: int) -> Compared:
    """Trials in the network as stated and in others, with a buffer of this size (bytes)."""
    options = job.options
    configurations = [job.configuration(combination, buffer_bytes) for combination in combinations]
    records = job.measure(configurations, "shortlist", options.fresh_runs, "shortlist")
    stated = by_combination(combinations, records)
    others: dict[Combination, list[float]] = {combination: [] for combination in combinations}
    if job.is_real:
        return Compared(stated, others, tuple(records))
    networks = [perturbed(job.topology, options.off_by, number) for number in range(OTHER_NETWORKS)]
    more = job.measure_in(networks, configurations, "shortlist", 1, f"{OTHER_NETWORKS} networks off by")
    for number in range(OTHER_NETWORKS):
        of_network = more[number * len(configurations) : (number + 1) * len(configurations)]
        for combination, values in by_combination(combinations, of_network).items():
            others[combination] += values
    return Compared(stated, others, (*records, *more))


def by_combination(
    combinations: Sequence[Combination], records: Sequence[Record]
) -> dict[Combination, list[float]]:
    """Throughputs in this order, equally many trials of each; 0 for a failed one, Mbit/s."""
    runs = len(records) // len(combinations)
    values = [record.throughput_mbps or 0.0 for record in records]
    return {combination: values[i * runs : (i + 1) * runs] for i, combination in enumerate(combinations)}


@dataclass(frozen=True)
class Contest:
    """Outcome of the contest: the decision, changed if another finalist was better, and why.

    Attributes
    ----------
    compared : what the finalists gave, in the last comparison.
    records : the trials of all comparisons, and of plain TCP.
    opponent : the best plain TCP, or the best MPTCP where plain TCP is the answer; None where none was tried.
    """

    decision: Decision
    finalists: tuple[Finalist, ...] = ()
    sentences: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    compared: Compared = field(default_factory=Compared)
    opponent: Combination | None = None

    def with_trials(self, records: Sequence[Record], *sentences: str) -> "Contest":
        """The contest after further trials, and the sentence about them."""
        return replace(self, records=(*self.records, *records), sentences=(*self.sentences, *sentences))

    def facing(self, tcp: Combination, compared: Compared, buffer_bytes: int, sacrifice: float) -> "Contest":
        """The outcome beside plain TCP, which is the answer where it is clearly faster than the best MPTCP.

        Parameters
        ----------
        compared : what both gave with the same buffer, `buffer_bytes`.
        """
        mptcp, found = self.decision.optimum.combination, compared.finalists(buffer_bytes)
        beside = replace(self, compared=compared, finalists=found, opponent=tcp)
        if not is_beaten(mptcp, tcp, compared.stated, found, sacrifice):
            return beside
        return replace(
            beside,
            decision=moved(self.decision, tcp, compared.stated[tcp]),
            sentences=(*self.sentences, without_mptcp(mptcp, tcp, found)),
            opponent=mptcp,
        )
