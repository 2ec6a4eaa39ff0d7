"""A finished run as data for a report: what its documents and trials say, without figures or sentences.

`mptune.report.read_runs` reads it from a run directory, and `mptune.report.sections` chooses what is shown. A
run decided from measurements made elsewhere has no trials, and a sweep has no answer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from mptune._text import on_subflows, plain_tcp
from mptune.campaign.sensitivity import Sensitivity
from mptune.errors import Failure
from mptune.response import BELIEF
from mptune.topology import Topology
from mptune.trial import PLAIN_TCP, Observation


class Interval(msgspec.Struct, frozen=True):
    """A mean and its 95 % interval; None where there is none."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0


class Baseline(Interval, frozen=True, kw_only=True):
    """A configuration that was measured beside the answer, and what it gave, Mbit/s.

    Attributes
    ----------
    subflows : those that carry data, where they are chosen and not left to the path manager.
    """

    pm: str
    cc: str
    buffer_mib: float
    subflows: tuple[str, ...] = ()

    @property
    def manager(self) -> str:
        """The path manager with its subflows."""
        return on_subflows(self.pm, self.subflows)


class TcpBaseline(Interval, frozen=True, kw_only=True):
    """Plain TCP on a path, and what it gave, Mbit/s."""

    path: str
    cc: str
    buffer_mib: float

    @property
    def manager(self) -> str:
        """What stands in the place of a path manager, with the path."""
        return plain_tcp(self.path)


class AgainstTcp(msgspec.Struct, frozen=True):
    """What the best MPTCP and the best plain TCP gave with the same buffer, Mbit/s."""

    mptcp: Baseline
    tcp: TcpBaseline


class OnKernel(msgspec.Struct, frozen=True, kw_only=True):
    """What a kernel is expected to give, or to gain, where it was simulated: a 95 % interval, Mbit/s.

    None, with the reason, where the simulator's error is not known (`mptune.decision.model_error`).
    """

    low_mbps: float | None = None
    high_mbps: float | None = None
    unknown: str | None = None
    runs: int = 0


class Gain(Interval, frozen=True, kw_only=True):
    """A gain over something, Mbit/s; `share` is its mean as a share of the mean of that."""

    share: float | None = None


class FinalistRow(Interval, frozen=True, kw_only=True):
    """A configuration of the shortlist, Mbit/s; `worst` and `average` are shares of the best."""

    pm: str
    cc: str
    subflows: tuple[str, ...]
    initial_path: str | None
    buffer_mib: float
    worst: float | None
    average: float | None


class FrontRow(msgspec.Struct, frozen=True):
    """A point of the trade-off: what a sacrifice buys; MiB and Mbit/s, intervals None without resampling.

    Attributes
    ----------
    subflows : labels between blanks, where they are chosen and not left to the path manager.
    """

    sacrifice: float
    pm: str
    cc: str
    buffer_mib: float
    buffer_mib_low: float | None
    buffer_mib_high: float | None
    throughput_mbps: float
    throughput_mbps_low: float | None
    throughput_mbps_high: float | None
    initial_path: str | None = None
    subflows: str = ""

    @property
    def manager(self) -> str:
        """The path manager with its subflows and its initial path, where they were chosen."""
        return beginning(on_subflows(self.pm, self.subflows.split()), self.initial_path)


class Fit(msgspec.Struct, frozen=True):
    """How well the model fits the observations of one path manager; None where they do not vary."""

    pm: str
    r_squared: float | None
    p_values: dict[str, float | None]
    n: int


class RoundAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a round of a repeated campaign answered, Mbit/s; impact factors and sets by congestion control."""

    opm: str
    occ: str
    initial_path: str | None
    subflows: tuple[str, ...]
    obs_bytes: int
    confirmed: Interval
    gain: Interval
    omega: dict[str, dict[str, float | None]]
    optional: dict[str, tuple[str, ...]]


class RoundRow(msgspec.Struct, frozen=True, kw_only=True):
    """A round of a repeated campaign; `answer` is None if there was none, for the reason in `failed`."""

    round: int
    at_s: float
    failed: str | None
    changes: tuple[str, ...]
    answer: RoundAnswer | None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A combination that competed; its subflows and its initial path where they were chosen."""

    pm: str
    cc: str
    subflows: tuple[str, ...] = ()
    initial_path: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Path manager and congestion control, as a trial's (`TrialRow.name`)."""
        return beginning(on_subflows(self.pm, self.subflows), self.initial_path), self.cc


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What was believed after some trials (`mptune.campaign.learning.Step`).

    Attributes
    ----------
    candidate, contenders : indices of candidates.
    buffers : smallest and largest that may still be the answer, bytes.
    prior : what became of the prediction, as in `mptune.campaign.wording.PREDICTION`; None without one.
    """

    trials: int
    seconds: float
    candidate: int
    buffer_bytes: int
    certainty: float
    room: float
    among: int
    contenders: tuple[int, ...]
    buffers: tuple[int, int]
    prior: str | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How a strategy that learns reached the decision (`mptune.campaign.learning.Reached`)."""

    certainty_asked: float
    budget_s: float | None
    spent_s: float
    ended: str
    candidates: tuple[Candidate, ...]
    steps: tuple[Step, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`result.json` (`mptune.campaign.documents.result_document` writes it).

    What an older version did not write has a default. MiB, Mbit/s, bytes, s; intervals of 95 %.
    """

    version: int = 0
    topology: str | None = None
    predicted: Interval = Interval()
    gain: Gain | None = None
    finalists: tuple[FinalistRow, ...] = ()
    uncertainty: dict[str, Any] | None = None
    r_squared: float | None = None
    traditional_mib: float | None = None
    share_of_traditional: float | None = None
    selection: str = ""
    model_asked: str = ""
    trials: dict[str, int] = {}
    stack: str | None = None
    buffer_mode: str | None = None
    family: str | None = None
    protocol: str = "mptcp"
    initial_path: str | None = None
    opm: str
    occ: str
    obs_mib: float
    obs_bytes: int
    otp_mbps: float
    subflows: tuple[str, ...]
    standby: tuple[str, ...]
    confirmed: Interval
    default: Baseline | None
    against_tcp: AgainstTcp | None = None
    models: tuple[dict[str, Any], ...]
    fits: tuple[Fit, ...]
    comparison: tuple[dict[str, Any], ...]
    pareto: tuple[FrontRow, ...]
    traditional: dict[str, dict[str, float]]
    sacrifice: float
    model: str
    answer: tuple[str, ...]
    warnings: tuple[str, ...]
    on_kernel: OnKernel | None = None
    gain_on_kernel: OnKernel | None = None
    rounds: tuple[RoundRow, ...] = ()
    sensitivity: Sensitivity | None = None
    reached: Reached | None = None

    @property
    def is_belief(self) -> bool:
        """Whether the curves are a belief: all combinations together, many of them from few observations."""
        return self.model == BELIEF

    @property
    def manager(self) -> str:
        """The path manager of the answer, or plain TCP with its path."""
        return plain_tcp(*self.subflows) if self.protocol == PLAIN_TCP else self.opm

    def confirmed_ones(self) -> Iterator[tuple[str, str, str, float, Interval]]:
        """What was confirmed with new seeds: name, path manager, congestion control, MiB, Mbit/s."""
        yield "recommended", self.manager, self.occ, self.obs_mib, self.confirmed
        found: list[tuple[str, Baseline | TcpBaseline]] = []
        if self.default is not None:
            found.append(("default", self.default))
        if self.against_tcp is not None:
            if self.protocol == PLAIN_TCP:
                found.append(("best MPTCP", self.against_tcp.mptcp))
            else:
                found.append(("best TCP", self.against_tcp.tcp))
        for name, one in found:
            yield name, one.manager, one.cc, one.buffer_mib, one


class SizeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Completion times of a configuration, seconds; None where no run completed."""

    pm: str
    cc: str
    buffer_bytes: int
    mean_s: float | None
    low_s: float | None
    high_s: float | None
    percentile_95_s: float | None


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Time saved against the default, run by run, with its 95 % interval; seconds."""

    mean_s: float | None
    low_s: float | None
    high_s: float | None
    share: float | None


class SizeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one size of transfer, as in `result.json`."""

    transfer_bytes: int
    pm: str
    cc: str
    initial_path: str | None
    buffer_bytes: int
    subflows: tuple[str, ...]
    confirmed: dict[str, float | int | None]
    default: SizeTimes
    gain: Saved
    compared: int
    alike: int


class SizesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`result.json` of an answer by size (`mptune.campaign.size_documents` writes it)."""

    version: int = 0
    topology: str | None = None
    stack: str | None = None
    buffer_mode: str | None = None
    family: str | None = None
    trials: dict[str, int] = {}
    sizes: tuple[SizeChoice, ...]
    answer: tuple[str, ...]
    warnings: tuple[str, ...]


class ImpactSets(msgspec.Struct, frozen=True):
    """Impact factors and sets of one congestion control, as in `impact.json`."""

    cc: str
    omega: dict[str, dict[str, float | None]]
    optional: tuple[str, ...]
    standby: tuple[str, ...]
    fallback: bool


class Config(msgspec.Struct, frozen=True):
    """`config.json`: what was requested, on what, with which software, and when."""

    time: str
    versions: dict[str, str]
    platform: str
    options: dict[str, Any]


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a campaign, without its series.

    Attributes
    ----------
    pm : the path manager; of plain TCP `mptune.trial.PLAIN_TCP`.
    manager : the path manager with its subflows, if those were chosen, and with the stack and the mode of the
        buffers if not all trials have the same; of plain TCP, that and its path.
    stack : whose MPTCP it was, as a sentence says it, over IPv6 if it was.
    started : seconds since 1970.
    initial_path : None leaves it to the topology, or it is the path of plain TCP.
    subflows : those that carry data, where they are chosen and not left to the path manager.
    transfer_bytes : None is a saturated sender.
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

    @property
    def name(self) -> tuple[str, str]:
        """Path manager, with the initial path if that was chosen, and congestion control: as of a curve."""
        return beginning(self.manager, self.initial_path), self.cc


def beginning(pm: str, initial_path: str | None) -> str:
    """A path manager with its initial path, if that was chosen: the name of a panel."""
    return f"{pm}, from {initial_path}" if initial_path else pm


def chosen(pm: str, active: Sequence[str], own: Sequence[str] | None) -> tuple[str, ...]:
    """Subflows that were chosen: those that carry data, unless PCDC has them of itself.

    Parameters
    ----------
    own : PCDC's own set, from the signs of the impact factors; None if it is unknown.
    """
    return () if pm != "pcdc" or own is None or tuple(active) == tuple(own) else tuple(active)


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


def last_answering(answer: Answer) -> int | None:
    """The round that an answer is of; None without rounds."""
    return max((one.round for one in answer.rounds if one.answer is not None), default=None)


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report shows of one run.

    Attributes
    ----------
    label : its name when several runs are shown.
    answer : None for a sweep, and for an answer by size.
    by_size : the answer by size of transfer, if that was asked for.
    topology : None if only measurements were given.
    trials : in the order in which they were requested, without those of other campaigns in the store.
    foreign : number of those.
    steps : round trips and retransmissions over time; none where trials cannot be repeated.
    shown : trials drawn over time in one figure; their series are in `observations`.
    panorama : trials drawn over time in one panel per congestion control.
    observations : results of the trials of both, by their key.
    """

    label: str
    name: str
    config: Config
    answer: Answer | None
    by_size: SizesAnswer | None = None
    impact: tuple[ImpactSets, ...]
    topology: Topology | None
    trials: tuple[TrialRow, ...]
    foreign: int
    curves: tuple[CurvePoint, ...]
    steps: tuple[TimeStep, ...] = ()
    shown: tuple[TrialRow, ...]
    panorama: tuple[TrialRow, ...]
    observations: dict[bytes, Observation]

    @property
    def ever_swept(self) -> list[TrialRow]:
        """Trials of the sweep with a saturated sender that gave a throughput, of all rounds."""
        return [
            one
            for one in self.trials
            if one.purpose == "sweep" and one.failed is None and one.transfer_bytes is None
        ]

    @property
    def swept(self) -> list[TrialRow]:
        """Those that belong to the answer: of its round, or of all rounds where there is no answer."""
        answering = self.answering_round
        return [one for one in self.ever_swept if answering in (None, one.round)]

    @property
    def answering(self) -> tuple[str, str]:
        """Path manager of the answer, with subflows and initial path if chosen, and congestion control."""
        answer = self.answer
        if answer is None:
            raise ValueError("there is no answer")
        own = next((one.optional for one in self.impact if one.cc == answer.occ), None)
        subflows = chosen(answer.opm, answer.subflows, own)
        return beginning(on_subflows(answer.opm, subflows), answer.initial_path), answer.occ

    @property
    def answering_round(self) -> int | None:
        """The round whose answer is shown; None if there is only one, or no answer."""
        return None if self.answer is None else last_answering(self.answer)

    @property
    def failures(self) -> list[TrialRow]:
        """Trials that gave no result."""
        return [one for one in self.trials if one.failed is not None]

    @property
    def many_paths(self) -> bool:
        """Whether the initial path is a factor of the sweep."""
        return len({one.initial_path for one in self.trials if one.purpose == "sweep"}) > 1
