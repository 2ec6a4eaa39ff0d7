"""A finished run as data for a report: its documents and trials, without figures or sentences.

`mptune.result.reading` reads it from a run directory, and `mptune.report.sections` chooses what is shown. A
run decided from measurements made elsewhere has no trials, and a sweep has no answer.
"""

from typing import Any

import msgspec

from mptune._text import on_subflows
from mptune.errors import Failure
from mptune.result.answer import (
    Answer,
    ImpactSets,
    ObjectiveAnswer,
    SizesAnswer,
    beginning,
    chosen,
    last_answering,
)
from mptune.routes.followed import Followed
from mptune.store.round_trips import PathRtt
from mptune.topology import Topology
from mptune.trial import PLAIN_TCP, Observation


class Config(msgspec.Struct, frozen=True):
    """`config.json`: what was requested, on what, with which software, and when."""

    time: str
    versions: dict[str, str]
    platform: str
    options: dict[str, Any]


class ConfigFile(Config, frozen=True, kw_only=True):
    """All of it, with what makes it that of a run, and the network as it was used."""

    kind: str
    topology: dict[str, Any]


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a campaign, without its series.

    Attributes
    ----------
    pm : the path manager; of plain TCP `mptune.trial.PLAIN_TCP`.
    manager : the path manager with its subflows, if those were chosen, and with the stack and the mode of the
        buffers if not all trials have the same; of plain TCP, that and its path.
    stack : the MPTCP implementation in words, with "over IPv6" if so.
    started : seconds since 1970.
    initial_path : None leaves it to the topology, or it is the path of plain TCP.
    subflows : those that carry data, where they are chosen and not left to the path manager.
    transfer_bytes : of a transfer.
    workload : of messages, requests and so on, as stored; of a mix its first part; None of a saturated
        sender and of a transfer.
    p99_ms : 99th percentile of the delay of messages, or of the time of responses; None without.
    failed : the reason, if it gave no result.
    """

    key: bytes
    testbed: str
    purpose: str
    round: int
    run: int
    pm: str
    manager: str
    stack: str
    buffer_mode: str
    cc: str
    buffer_bytes: int
    buffer_mib: float
    started: float
    initial_path: str | None
    transfer_bytes: int | None
    failed: Failure | None
    throughput_mbps: float | None
    completion_s: float | None
    subflows: tuple[str, ...] = ()
    workload: dict[str, Any] | None = None
    p99_ms: float | None = None

    @property
    def is_saturated(self) -> bool:
        """True if the sender always had more."""
        return self.transfer_bytes is None and self.workload is None

    @property
    def name(self) -> tuple[str, str]:
        """Path manager, with the initial path if that was chosen, and congestion control: as of a curve."""
        return beginning(self.manager, self.initial_path), self.cc


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted curve at one buffer; its 95 % interval is None where the model has none.

    Attributes
    ----------
    pm : with its subflows and its initial path, if those were chosen (`beginning`).
    """

    pm: str
    cc: str
    buffer_mib: float
    predicted_mbps: float
    low_mbps: float | None
    high_mbps: float | None


class ComparedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that was compared by an objective, as in `compared.csv`.

    Attributes
    ----------
    active : labels of chosen subflows between blanks.
    objective, unit : name of the metric, and its unit.
    mean, low, high, runs : of the objective, in its unit, with its 95 % interval.
    second, second_unit, second_mean, second_low, second_high : the same of a second objective.
    """

    pm: str
    cc: str
    active: str | None = None
    initial_path: str | None = None
    buffer_bytes: int
    objective: str
    unit: str
    mean: float | None
    low: float | None
    high: float | None
    runs: int = 0
    second: str | None = None
    second_unit: str | None = None
    second_mean: float | None = None
    second_low: float | None = None
    second_high: float | None = None
    failed: int
    within_limits: bool
    chosen: bool


class TimeStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a subflow over time, as in `round_trips.csv`.

    Attributes
    ----------
    role : what the configuration was confirmed as.
    t_s, step_s : its start and its length, seconds.
    rtt_ms, min_rtt_ms, max_rtt_ms : smoothed RTT.
    retransmitted : segments.
    """

    role: str
    subflow: str
    t_s: float
    step_s: float
    rtt_ms: float
    min_rtt_ms: float
    max_rtt_ms: float
    retransmitted: int


class RoundFlow(msgspec.Struct, frozen=True, kw_only=True):
    """Load of the paths in a round of a repeated campaign.

    Attributes
    ----------
    at_s : since the first round.
    manager, cc : of the configuration: the round's answer or, of a sweep, the best of the first round.
    mbps : payload that each path delivered first, by its label, Mbit/s: the mean of the round's trials.
    """

    round: int
    at_s: float
    manager: str
    cc: str
    mbps: dict[str, float]


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows of one run.

    Attributes
    ----------
    label : its name when several runs are shown.
    answer : None for a sweep, and for an answer by size.
    by_size : the answer by size of transfer, if that was asked for.
    by_objective : the answer by an objective of the workload, if that was asked for.
    compared : what it was compared with.
    topology : None if only measurements were given.
    trials : in the order in which they were requested, without those of other campaigns in the store.
    foreign : number of those.
    routes : traced over time; None if they were not.
    steps : round trips and retransmissions over time; none where trials cannot be repeated.
    by_round : of a repeated campaign what the paths carried in each round; none otherwise.
    shown : trials drawn over time in one figure; their series are in `observations`.
    panorama : trials drawn over time in one panel per congestion control.
    delayed : trials whose messages or responses are drawn: those that confirm, or of a sweep the best.
    observations : results of the trials of these three, by their key.
    """

    label: str
    name: str
    config: Config
    answer: Answer | None
    by_size: SizesAnswer | None = None
    by_objective: ObjectiveAnswer | None = None
    compared: tuple[ComparedRow, ...] = ()
    impact: tuple[ImpactSets, ...]
    topology: Topology | None
    trials: tuple[TrialRow, ...]
    foreign: int
    curves: tuple[CurvePoint, ...]
    steps: tuple[TimeStep, ...] = ()
    rtts: tuple[PathRtt, ...] = ()
    routes: Followed | None = None
    by_round: tuple[RoundFlow, ...] = ()
    shown: tuple[TrialRow, ...]
    panorama: tuple[TrialRow, ...]
    delayed: tuple[TrialRow, ...] = ()
    observations: dict[bytes, Observation]

    @property
    def ever_swept(self) -> list[TrialRow]:
        """Trials of the sweep with a saturated sender that gave a throughput, of all rounds."""
        return [
            trial
            for trial in self.trials
            if trial.purpose == "sweep" and trial.failed is None and trial.is_saturated
        ]

    @property
    def swept(self) -> list[TrialRow]:
        """Those that belong to the answer: of its round, or of all rounds where there is no answer."""
        answering = self.answering_round
        return [trial for trial in self.ever_swept if answering in (None, trial.round)]

    @property
    def answering(self) -> tuple[str, str]:
        """Path manager of the answer, with subflows and initial path if chosen, and congestion control."""
        answer = self.answer
        if answer is None:
            raise ValueError("there is no answer")
        own = next((impact.optional for impact in self.impact if impact.cc == answer.occ), None)
        subflows = chosen(answer.opm, answer.subflows, own)
        return beginning(on_subflows(answer.opm, subflows), answer.initial_path), answer.occ

    @property
    def answering_round(self) -> int | None:
        """The round whose answer is shown; None if there is only one, or no answer."""
        return None if self.answer is None else last_answering(self.answer)

    @property
    def failures(self) -> list[TrialRow]:
        """Trials that gave no result."""
        return [trial for trial in self.trials if trial.failed is not None]

    @property
    def many_paths(self) -> bool:
        """True if the initial path is a factor of the sweep; that of plain TCP is its only one."""
        swept = [trial for trial in self.trials if trial.purpose == "sweep" and trial.pm != PLAIN_TCP]
        return self.by_objective is None and len({trial.initial_path for trial in swept}) > 1
