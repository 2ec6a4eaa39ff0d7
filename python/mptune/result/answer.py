"""The answer as a document: what `result.json` has, for everything that makes, writes or reads one.

`mptune.result.making`, `making_by_size` and `making_by_objective` make it, `mptune.result.schema` derives the
schema of it. What an older version did not write has a default.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from mptune._text import on_subflows, plain_tcp
from mptune.decision.model_error import GainOnKernel, OnKernel
from mptune.optimisation.sensitivity import Sensitivity
from mptune.response import BELIEF, FitQuality, ModelError
from mptune.result.values import (
    Baseline,
    Baselines,
    Front,
    Gain,
    Interval,
    NearlyAlways,
    Setting,
    TcpBaseline,
)
from mptune.trial import FIXED, PLAIN_TCP
from mptune.units import MIB

#: Version of the shape of `result.json` (`mptune.result.schema`).
RESULT_VERSION = 1


#: Names for people of what is confirmed beside an answer.
NAMES = {"default": "papers' default", "best TCP": "best plain TCP"}


class AgainstTcp(msgspec.Struct, frozen=True):
    """The best MPTCP and the best plain TCP with the same buffer, Mbit/s, and what MPTCP gains."""

    mptcp: Baseline
    tcp: TcpBaseline
    gain: Gain = Gain()


class FinalistRow(Interval, frozen=True, kw_only=True):
    """A configuration of the shortlist, Mbit/s; `worst` and `average` are shares of the best."""

    pm: str
    cc: str
    subflows: tuple[str, ...]
    initial_path: str | None
    buffer_mib: float
    worst: float | None
    average: float | None


class FrontRow(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the trade-off: what a sacrifice buys; MiB and Mbit/s, intervals None without resampling.

    Attributes
    ----------
    subflows : labels between blanks, where they are chosen and not left to the path manager.
    """

    sacrifice: float
    pm: str
    cc: str
    subflows: str = ""
    initial_path: str | None = None
    buffer_mib: float
    buffer_mib_low: float | None
    buffer_mib_high: float | None
    throughput_mbps: float
    throughput_mbps_low: float | None
    throughput_mbps_high: float | None

    @property
    def manager(self) -> str:
        """The path manager with its subflows and its initial path, where they were chosen."""
        return beginning(on_subflows(self.pm, self.subflows.split()), self.initial_path)


class RoundAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a round of a repeated campaign, Mbit/s; impact factors and sets by congestion control."""

    opm: str
    occ: str
    initial_path: str | None
    subflows: tuple[str, ...]
    obs_bytes: int
    otp_mbps: float | None = None
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
    """A combination; its subflows and its initial path where they were chosen."""

    pm: str
    cc: str
    subflows: tuple[str, ...] = ()
    initial_path: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Path manager and congestion control, as a trial's (`TrialRow.name`)."""
        return beginning(on_subflows(self.pm, self.subflows), self.initial_path), self.cc


class ModelRow(Candidate, frozen=True, kw_only=True):
    """A fitted curve: its formula, and its maximum within the measured buffers (MPCOA Table 4)."""

    formula: str
    max_mbps: float
    buffer_at_max_mib: float


class Win(Candidate, frozen=True, kw_only=True):
    """The share of the resamples in which a combination was chosen."""

    share: float


class Ends(msgspec.Struct, frozen=True):
    """A 95 % interval."""

    low: float
    high: float


class UncertaintyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Dependence of the choice on the luck of the runs (`mptune.decision.uncertainty.Uncertainty`)."""

    resamples: int
    single_runs: bool
    obs_mib: Ends
    otp_mbps: Ends
    wins: tuple[Win, ...]


class TraditionalSize(msgspec.Struct, frozen=True):
    """A traditional buffer, and the recommended one as a share of it."""

    mib: float
    share: float


class AlgorithmStep(msgspec.Struct, frozen=True):
    """A step of MPCOA's Algorithm 1: its number in the paper, its equation, and its outcome as a phrase."""

    step: int
    equation: str
    outcome: str


class TrialCounts(msgspec.Struct, frozen=True):
    """Trials of a run."""

    run: int = 0
    failed: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Belief after some trials (`mptune.optimisation.reached.Step`).

    Attributes
    ----------
    candidate, contenders : indices of candidates.
    throughput_mbps : of the best answer so far, where that is what was asked for; documents of older versions
        lack it.
    value : the same of an objective, in its unit; of what violates limits by how much it does, percent.
    buffers : smallest and largest that may still be the answer, bytes.
    more_s, drift : as in `mptune.optimisation.reached.Step`.
    prior : what became of the prediction, as in `mptune.result.wording.PREDICTION`; None without one.
    """

    trials: int
    seconds: float
    candidate: int
    buffer_bytes: int
    throughput_mbps: float | None = None
    value: float | msgspec.UnsetType = msgspec.UNSET
    certainty: float
    room: float
    among: int
    contenders: tuple[int, ...]
    buffers: tuple[int, int]
    more_s: float | None = None
    prior: str | None = None
    drift: float | None = None


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """Course of an adaptive strategy's decision (`mptune.optimisation.reached.Reached`)."""

    strategy: str = ""
    certainty_asked: float
    budget_s: float | None
    spent_s: float
    ended: str
    candidates: tuple[Candidate, ...]
    steps: tuple[Step, ...]


class ConfirmedOnKernel(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a kernel with a simulated answer (`mptune.optimisation.on_kernel`), Mbit/s.

    Attributes
    ----------
    testbed, kernel : "virtual:7.3", "Linux 7.3".
    duration_s : of each run.
    gain : over the default, there.
    runner_up : the finalist that comes nearest; None where none comes near.
    finalists : those that were decided there; empty where the simulator decided.
    """

    testbed: str
    kernel: str
    duration_s: float
    confirmed: Interval
    default: Baseline
    gain: Gain
    runner_up: FinalistRow | None = None
    finalists: tuple[FinalistRow, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`result.json` (`mptune.result.making` makes it).

    What an older version did not write has a default. `receive_bytes` is the limit of the receiver's buffer
    where only the sender's was searched, and None where both have `obs_bytes`. `sysctls` are settings of
    both hosts that are not the kernel's usual ones, `heed` the warnings that ask for something, the most
    urgent first; `nearly_always` is of networks that vary. MiB, Mbit/s, bytes, s; intervals of 95 %.
    """

    version: int = 0
    topology: str | None = None
    stack: str | None = None
    buffer_mode: str | None = None
    receive_bytes: int | None = None
    family: str | None = None
    protocol: str = "mptcp"
    opm: str
    occ: str
    initial_path: str | None = None
    obs_mib: float
    otp_mbps: float
    subflows: tuple[str, ...]
    standby: tuple[str, ...]
    sysctls: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    obs_bytes: Annotated[int, msgspec.Meta(ge=1)]
    predicted: Interval = Interval()
    confirmed: Interval
    default: Baseline | None
    gain: Gain | None = None
    against_tcp: AgainstTcp | None = None
    finalists: tuple[FinalistRow, ...] = ()
    on_kernel: OnKernel | None = None
    gain_on_kernel: GainOnKernel | None = None
    confirmed_on_kernel: ConfirmedOnKernel | None = None
    uncertainty: UncertaintyRow | None = None
    reached: Reached | None = None
    models: tuple[ModelRow, ...]
    r_squared: float | None = None
    fits: tuple[FitQuality, ...]
    comparison: tuple[ModelError, ...]
    pareto: tuple[FrontRow, ...]
    traditional_mib: float | None = None
    share_of_traditional: float | None = None
    traditional: dict[str, TraditionalSize]
    sacrifice: float
    selection: str = ""
    model: str
    model_asked: str = ""
    trials: TrialCounts = TrialCounts()
    answer: tuple[str, ...]
    warnings: tuple[str, ...]
    sensitivity: Sensitivity | None = None
    rounds: tuple[RoundRow, ...] = ()
    algorithm: tuple[AlgorithmStep, ...] = ()
    baselines: Baselines | None = None
    heed: tuple[str, ...] = ()
    nearly_always: NearlyAlways | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_belief(self) -> bool:
        """True if the curves are a belief: all combinations together, many of them from few observations."""
        return self.model == BELIEF

    @property
    def is_tcp(self) -> bool:
        """True if plain TCP is the answer."""
        return self.protocol == PLAIN_TCP

    @property
    def is_fixed(self) -> bool:
        """True if the buffer is one that programs set, and not a limit of autotuning."""
        return self.buffer_mode in (None, FIXED)

    @property
    def manager(self) -> str:
        """The path manager of the answer, or plain TCP with its path."""
        return plain_tcp(*self.subflows) if self.is_tcp else self.opm

    def confirmed_ones(self) -> Iterator[tuple[str, str, str, float, Interval]]:
        """Configurations confirmed with new seeds: name, path manager, congestion control, MiB, Mbit/s."""
        yield "recommended", self.manager, self.occ, self.obs_mib, self.confirmed
        rows: list[tuple[str, Baseline | TcpBaseline]] = []
        if self.default is not None:
            rows.append(("default", self.default))
        if self.against_tcp is not None:
            if self.is_tcp:
                rows.append(("best MPTCP", self.against_tcp.mptcp))
            else:
                rows.append(("best TCP", self.against_tcp.tcp))
        for name, pair in rows:
            yield name, pair.manager, pair.cc, pair.buffer_mib, pair

    def shown(self) -> Iterator[tuple[str, Baseline | TcpBaseline, Interval]]:
        """Rows of the answer's table: name, configuration with Mbit/s, delay under load; ours last."""
        beside = self.baselines or Baselines()
        for name, baseline in (("now", beside.now), ("by hand", beside.by_hand)):
            if baseline is not None:
                yield name, baseline, baseline.queueing
        pairs: dict[str, Baseline | TcpBaseline | None] = {"default": self.default}
        if self.against_tcp is not None:
            against = self.against_tcp
            pairs |= {"best MPTCP": against.mptcp} if self.is_tcp else {"best TCP": against.tcp}
        # Of plain TCP the manager has the path already.
        own = () if self.is_tcp or self.opm == "fullmesh" else self.subflows
        fields = msgspec.structs.asdict(self.confirmed)
        ours = Baseline(
            **fields,
            pm=self.manager,
            cc=self.occ,
            buffer_mib=self.obs_mib,
            receive_mib=None if self.receive_bytes is None else self.receive_bytes / MIB,
            subflows=own,
        )
        pairs["recommended"] = ours
        for name, pair in pairs.items():
            if pair is not None:
                yield NAMES.get(name, name), pair, beside.queueing.get(name, Interval())


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Completion times, seconds; None where no run completed."""

    mean_s: float | None
    low_s: float | None
    high_s: float | None
    percentile_95_s: float | None
    runs: int = 0
    failed: int = 0


class SizeTimes(Times, frozen=True, kw_only=True):
    """Completion times of a configuration."""

    pm: str
    cc: str
    buffer_bytes: int


class FastestTimes(SizeTimes, frozen=True, kw_only=True):
    """Completion times of the fastest configuration; `active` are labels between blanks."""

    transfer_bytes: int
    active: str = ""
    initial_path: str | None = None


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Time saved against the default, run by run, with its 95 % interval; seconds."""

    mean_s: float | None
    low_s: float | None
    high_s: float | None
    runs: int = 0
    share: float | None


class SizeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one size of transfer; `active` are labels of chosen subflows between blanks.

    Values of `baselines` are seconds.
    """

    transfer_bytes: int
    pm: str
    cc: str
    initial_path: str | None
    buffer_bytes: int
    active: str = ""
    subflows: tuple[str, ...]
    standby: tuple[str, ...] = ()
    confirmed: Times
    default: SizeTimes
    gain: Saved
    fastest: FastestTimes | None = None
    baselines: Baselines | None = None
    compared: int
    alike: int


class SizesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`result.json` of an answer by size (`mptune.result.making_by_size` makes it)."""

    version: int = 0
    topology: str | None = None
    stack: str | None = None
    buffer_mode: str | None = None
    receive_bytes: int | None = None
    family: str | None = None
    trials: TrialCounts = TrialCounts()
    sizes: tuple[SizeChoice, ...]
    answer: tuple[str, ...]
    warnings: tuple[str, ...]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of the recommendation and of the default; the gain is positive where ours is better."""

    name: str
    unit: str
    recommended: Interval
    default: Interval
    gain: Interval


class OutageFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The longest gap where the path that carries most is cut halfway."""

    path: str
    gap: Figure


class FailoverFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a dead path in 95 % of the cases, ms; null where too many never went on.

    Attributes
    ----------
    metric : what was measured through the outage.
    limit_ms : what was asked for.
    kept : the recommendation is within it.
    path, default_path : whose death costs most.
    recommended, default : of the configurations.
    tried : sysctls that were tried, the mildest first, each with what a dead path costs.
    """

    metric: str
    limit_ms: float
    kept: bool
    path: str
    recommended: float | None
    default_path: str
    default: float | None
    tried: tuple[tuple[dict[str, str], float | None], ...]


class ObjectiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`result.json` of an answer by an objective (`mptune.result.making_by_objective` makes it).

    Attributes
    ----------
    workload : its settings, as in `mptune.trial.Messages`, `Mix` and `Programs`.
    figures : the objective first.
    throughput : of a saturated sender with the same configurations, Mbit/s.
    harm : what another TCP connection loses, percent, where that was asked for.
    sent : the workload in words.
    baselines : by the objective, in its unit.
    alike : how many of those compared may be as good as the best.
    room : how much better than the answer any of them is at most, in the unit, with 95 % confidence; null
        with single runs, and in results of version 0.2.
    front : of two objectives; null where there is one.
    reached : the course of a strategy that learns; null for a grid, and in results of version 0.2.
    """

    version: int = 0
    topology: str | None = None
    stack: str | None = None
    buffer_mode: str | None = None
    receive_bytes: int | None = None
    family: str | None = None
    trials: TrialCounts = TrialCounts()
    workload: dict[str, str | int | list[Any]]
    objective: str
    unit: str
    limits: tuple[str, ...] = ()
    recommended: Setting
    default: Setting
    figures: tuple[Figure, ...]
    throughput: Figure
    outage: OutageFigure | None = None
    failover: FailoverFigure | None = None
    harm: tuple[Figure, ...] = ()
    sent: str = "what programs send"
    baselines: Baselines | None = None
    compared: int
    alike: int
    room: float | None = None
    front: Front | None = None
    reached: Reached | None = None
    answer: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def is_throughput(self) -> bool:
        """True if a saturated sender's throughput is the objective."""
        return self.objective == self.throughput.name

    @property
    def table(self) -> tuple[Figure, ...]:
        """Figures for a table, throughput once."""
        return self.figures if self.is_throughput else (*self.figures, self.throughput)


def settings_of(answer: ObjectiveAnswer) -> Answer:
    """An answer by an objective for who sets what it recommends; its throughputs are a saturated sender's."""
    ours, throughput = answer.recommended, answer.throughput
    mean, over = throughput.gain.mean, throughput.default.mean
    return Answer(
        version=answer.version,
        topology=answer.topology,
        stack=answer.stack,
        buffer_mode=answer.buffer_mode,
        receive_bytes=answer.receive_bytes,
        family=answer.family,
        protocol=ours.protocol,
        opm=ours.pm,
        occ=ours.cc,
        initial_path=ours.initial_path,
        obs_mib=ours.buffer_bytes / MIB,
        otp_mbps=throughput.recommended.mean or 0.0,
        subflows=ours.subflows,
        standby=ours.standby,
        sysctls=ours.sysctls or msgspec.UNSET,
        obs_bytes=ours.buffer_bytes,
        confirmed=throughput.recommended,
        default=Baseline(
            **msgspec.structs.asdict(throughput.default),
            pm=answer.default.pm,
            cc=answer.default.cc,
            buffer_mib=answer.default.buffer_bytes / MIB,
        ),
        gain=Gain(
            **msgspec.structs.asdict(throughput.gain),
            share=mean / over if mean is not None and over else None,
        ),
        models=(),
        fits=(),
        comparison=(),
        pareto=(),
        traditional={},
        sacrifice=0.0,
        model="",
        trials=answer.trials,
        answer=answer.answer,
        warnings=answer.warnings,
    )


class ImpactSets(msgspec.Struct, frozen=True):
    """Impact factors and sets of one congestion control, as in `impact.json`."""

    cc: str
    omega: dict[str, dict[str, float | None]]
    optional: tuple[str, ...]
    standby: tuple[str, ...]
    fallback: bool


def last_answering(answer: Answer) -> int | None:
    """The round that an answer is of; None without rounds."""
    return max((row.round for row in answer.rounds if row.answer is not None), default=None)


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
