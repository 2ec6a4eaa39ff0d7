"""Strategies asked about a network whose grid is known: worlds, clocks, and what is recommended when.

Not a benchmark. A world answers with the runs of a grid, in an order drawn anew for each replay, and counts
the seconds that a testbed would have needed. What a strategy recommends is noted whenever the time passes a
mark, so one replay shows the fall of regret over time.
"""

import importlib
import importlib.util
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from benchmarks.decision._corpus import Grid
from mptune.decision.selection import SACRIFICE
from mptune.decision.selection import held as robustly
from mptune.strategy import Ask, Question, Strategy, Told, create
from mptune.trial import BIN_NS

#: Seconds that a trial needs beside its duration: namespaces, connection, last data.
SET_UP_S = 1.0

#: Larger buffers may give this much less than what the sacrifice allows.
COLLAPSE = 0.1

#: A throughput that misses what is allowed by this share is as bad as a buffer this many times too large.
ROOM, LARGER = 0.02, 1.25

#: Runs by (arm, buffer) index, Mbit/s.
Seen = Mapping[tuple[int, int], Sequence[float]]

#: Of a trial's bins of 100 ms, bytes: its throughput, Mbit/s, and its seconds, if it is ended early.
Ending = Callable[[np.ndarray], tuple[float, float]]


def lasting(bins: np.ndarray) -> tuple[float, float]:
    """A trial that is not ended early."""
    return float(bins.sum()) * 8e3 / (len(bins) * BIN_NS), len(bins) * BIN_NS / 1e9


def ending() -> Ending | None:
    """The rule by which testbeds end trials early, on series of whole trials; None where they have none."""
    if importlib.util.find_spec("mptune.testbeds.early_end") is None:
        return None
    rule = importlib.import_module("mptune.testbeds.early_end").replayed

    def ended(bins: np.ndarray) -> tuple[float, float]:
        duration_ns = len(bins) * BIN_NS
        ended = rule(map(int, bins), duration_ns)
        if ended is None:
            return lasting(bins)
        return ended.expected_bps / 1e6, ended.duration_ns / 1e9

    return ended


class Truth(NamedTuple):
    """The result of the whole grid.

    Attributes
    ----------
    means : Mbit/s, shape (arms, buffers).
    allowed : the best less the sacrifice, Mbit/s.
    size : index of the smallest buffer that does it.
    arm : the fastest of the arms that do it with that buffer.
    """

    means: np.ndarray
    allowed: float
    size: int
    arm: int

    @classmethod
    def of(cls, known: Grid, sacrifice: float) -> "Truth":
        """The means over all runs; with larger buffers, or up to twice, throughput must not collapse."""
        means = known.mbps.mean(axis=2)
        allowed = (1 - sacrifice) * float(means.max())
        for reach in (math.inf, 2.0, 1.0):
            held = np.array([robustly(known.buffers, list(row), reach) for row in means])
            enough = (means >= allowed) & (held >= (1 - COLLAPSE) * allowed)
            if enough.any():
                break
        size = int(enough.any(axis=0).argmax())
        return cls(means, allowed, size, int(np.where(enough[:, size], means[:, size], -1.0).argmax()))

    @property
    def best_two(self) -> tuple[int, int]:
        """The arm of the best answer, and the one with the highest throughput, or else the next highest."""
        top = self.means.max(axis=1)
        other = max((arm for arm in range(len(top)) if arm != self.arm), key=lambda arm: (top[arm], -arm))
        return self.arm, other

    def regret(self, arm: int, size: int) -> float:
        """The share by which a throughput misses what the sacrifice allows."""
        missed: float = 1 - float(self.means[arm, size]) / self.allowed if self.allowed else 0.0
        return max(0.0, missed)


class Prior(NamedTuple):
    """Expected throughput, Mbit/s, shape (arms, buffers), if there is a prior, and its error if known."""

    rows: np.ndarray | None = None
    error: tuple[float, float] | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The knowledge of every strategy in advance.

    Attributes
    ----------
    horizon_s : seconds that it has.
    short : share of its duration that a short trial lasts; 1 without short ones.
    prior : for those that use one.
    """

    known: Grid
    horizon_s: float
    seed: int
    sacrifice: float = SACRIFICE
    short: float = 1.0
    prior: Prior = Prior()

    @property
    def trial_s(self) -> float:
        """Seconds that a whole trial takes, with its set-up."""
        return self.known.seconds + SET_UP_S

    @property
    def trials(self) -> int:
        """Whole trials that fit."""
        return int(self.horizon_s / self.trial_s + 1e-6)


class Answer(NamedTuple):
    """A recommendation; `certainty` that it misses by `room` at most is None where none is claimed.

    `more_s` is how much longer it would take to be certain, if stated.
    """

    arm: int
    size: int
    certainty: float | None = None
    room: float = ROOM
    more_s: float | None = None


class Player(Protocol):
    """A strategy under test."""

    def ask(self) -> Ask | None:
        """The next trial; None at the end. `run` counts by configuration."""
        ...

    def tell(self, result: Told) -> None:
        """Its result."""
        ...

    def answer(self) -> Answer | None:
        """The recommendation now; None before any observation."""
        ...


class World:
    """A testbed that knows everything already.

    Parameters
    ----------
    seed : of the order in which the runs of a configuration come.
    ending : first trials of configurations are ended by it.
    """

    def __init__(self, known: Grid, seed: int, ending: Ending | None = None) -> None:
        self._known, self._ending, self._mbps = known, ending, known.mbps
        runs = known.payload.shape[2]
        self._order = np.random.default_rng(seed).permuted(
            np.broadcast_to(np.arange(runs), self._mbps.shape), axis=2
        )

    def measure(self, ask: Ask) -> Told:
        """A trial, or a part of one; who asks for more runs than there are gets the first ones again."""
        place = ask.arm, ask.size
        run = self._order[*place, ask.run % self._order.shape[2]]
        part = float(getattr(ask, "part", 1.0))
        ending = self._ending if ask.run == 0 else None
        if ending is None and part == 1:
            return Told(ask, float(self._mbps[*place, run]))
        whole = self._known.payload[*place, run]
        bins = whole[: max(1, round(part * len(whole)))]
        mbps, seconds = (ending or lasting)(bins)
        return Told(ask, mbps, seconds + SET_UP_S)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """One replay.

    Attributes
    ----------
    answers : by mark, what was recommended then; None before any trial was over.
    spent_s : of the testbed's time in the end.
    thinking_s : of the strategy's own, in all.
    """

    answers: list[Answer | None]
    trials: int
    spent_s: float
    thinking_s: float


def course(player: Player, world: World, trial_s: float, horizon_s: float, marks: Sequence[float]) -> Course:
    """Let a strategy measure until it ends or the time does; marks ascend and are at most the horizon."""
    answers: list[Answer | None] = []
    spent, trials, begun = 0.0, 0, time.perf_counter()
    while asked := player.ask():
        result = world.measure(asked)
        taken = trial_s if result.seconds is None else result.seconds
        # The result of a trial that is not over yet is unknown at the mark. Sums are not exact.
        while len(answers) < len(marks) and spent + taken > marks[len(answers)] + 1e-6:
            answers.append(player.answer())
        if spent + taken > horizon_s + 1e-6:
            break
        player.tell(result)
        spent, trials = spent + taken, trials + 1
    answers += [player.answer()] * (len(marks) - len(answers))
    thinking = time.perf_counter() - begun
    return Course(answers=answers, trials=trials, spent_s=spent, thinking_s=thinking)


class Asking:
    """A strategy of the package, about all arms or about some of them."""

    def __init__(self, setting: Setting, name: str = "adaptive", arms: Sequence[int] | None = None) -> None:
        known = setting.known
        self._arms = list(range(len(known.arms)) if arms is None else arms)
        self.strategy: Strategy = create(name, question(setting, self._arms))

    def ask(self) -> Ask | None:
        """One trial at a time, as a real line can do no more."""
        asked = self.strategy.ask()
        return asked[0]._replace(arm=self._arms[asked[0].arm]) if asked else None

    def tell(self, result: Told) -> None:
        """With the indices of its own arms."""
        own = result.ask._replace(arm=self._arms.index(result.ask.arm))
        self.strategy.tell([result._replace(ask=own)])

    def answer(self) -> Answer | None:
        """Its verdict, with its claim."""
        verdict = self.strategy.verdict()
        if verdict is None:
            return None
        return Answer(self._arms[verdict.arm], verdict.size, verdict.certainty, verdict.room, verdict.more_s)


def has_priors() -> bool:
    """True if a question can have a prior."""
    return "prior" in Question.__struct_fields__


def question(setting: Setting, arms: Sequence[int]) -> Question:
    """The question about these arms."""
    known, prior = setting.known, setting.prior
    plain = Question(
        arms=tuple(known.arms[arm] for arm in arms),
        buffers=known.buffers,
        sacrifice=setting.sacrifice,
        runs=known.payload.shape[2],
        trial_s=setting.trial_s,
        budget_s=None if math.isinf(setting.horizon_s) else setting.horizon_s,
        seed=setting.seed,
    )
    more: dict[str, object] = {}
    if prior.rows is not None:
        more["prior"] = tuple(tuple(map(float, prior.rows[arm])) for arm in arms)
        more["prior_error"] = prior.error
    if "set_up_s" in Question.__struct_fields__:
        more |= {"set_up_s": SET_UP_S, "short": setting.short}
    return msgspec.structs.replace(plain, **more)


#: A strategy without a belief of its own: it yields (arm, buffer) and is sent Mbit/s.
Plan = Generator[tuple[int, int], float, None]

#: The rule that reads an answer from observations.
Reading = Callable[[Seen, Setting], Answer]


def by_means(seen: Seen, setting: Setting) -> Answer:
    """The smallest buffer whose mean comes within the sacrifice of the best, and the faster of equals."""
    means = {place: math.fsum(values) / len(values) for place, values in seen.items()}
    allowed = (1 - setting.sacrifice) * max(means.values())
    enough = (place for place in means if means[place] >= allowed)
    return Answer(*min(enough, key=lambda item: (item[1], -means[item], item[0])))


def by_belief(seen: Seen, setting: Setting) -> Answer:
    """The adaptive strategy's recommendation for these observations, without a claim."""
    everything = msgspec.structs.replace(setting, horizon_s=math.inf, prior=Prior())
    reader = create("adaptive", question(everything, range(len(setting.known.arms))))
    reader.tell(
        [
            Told(Ask(*place, run), value)
            for place, values in sorted(seen.items())
            for run, value in enumerate(values)
        ]
    )
    verdict = reader.verdict()
    assert verdict is not None
    return Answer(verdict.arm, verdict.size)


class Planned:
    """A plan, and a reading of what it saw."""

    def __init__(self, setting: Setting, plan: Plan, reading: Reading) -> None:
        self._setting, self._plan, self._reading = setting, plan, reading
        self._seen: dict[tuple[int, int], list[float]] = {}
        self._next = next(plan, None)

    def ask(self) -> Ask | None:
        """The plan's trials."""
        if self._next is None:
            return None
        return Ask(*self._next, len(self._seen.get(self._next, ())))

    def tell(self, result: Told) -> None:
        """Goes to the plan."""
        value = result.value or 0.0
        self._seen.setdefault((result.ask.arm, result.ask.size), []).append(value)
        try:
            self._next = self._plan.send(value)
        except StopIteration:
            self._next = None

    def answer(self) -> Answer | None:
        """By its reading."""
        return self._reading(self._seen, self._setting) if self._seen else None


def spread(setting: Setting) -> Plan:
    """The papers' sweep, as far as the time goes: every arm, buffers evenly, the largest included.

    Where there is no time for one trial of each, as many arms as there is time for, drawn at random.
    """
    arms, sizes, runs = setting.known.mbps.shape
    each = max(1, min(sizes * runs, setting.trials // arms))
    some = min(sizes, each)
    chosen = sorted({sizes - 1 - round(i * (sizes - 1) / max(1, some - 1)) for i in range(some)})
    order = np.random.default_rng(setting.seed).permutation(arms)
    for _ in range(max(1, each // some)):
        for arm in map(int, order):
            for size in chosen:
                yield arm, size


def at_random(setting: Setting) -> Plan:
    """Trials drawn evenly from the grid, none twice."""
    arms, sizes, runs = setting.known.mbps.shape
    for number in map(int, np.random.default_rng(setting.seed).permutation(arms * sizes * runs)):
        yield number // (sizes * runs), number // runs % sizes


def halving(setting: Setting) -> Plan:
    """Successive halving of the arms (Karnin, Koren and Somekh, ICML 2013), then bisection of the buffer.

    The arms are judged by their largest buffers. Half of the trials halve the arms until three are left; the
    others look for the smallest buffers of these.
    """
    arms, sizes, runs = setting.known.mbps.shape
    seen: dict[tuple[int, int], list[float]] = {}

    def ask(arm: int, size: int) -> Generator[tuple[int, int], float, float]:
        values = seen.setdefault((arm, size), [])
        if len(values) < runs:
            values.append((yield arm, size))
        return math.fsum(values) / len(values)

    left = [int(arm) for arm in np.random.default_rng(setting.seed).permutation(arms)]
    rounds = max(1, math.ceil(math.log2(max(2, len(left) / 3))))
    for _ in range(rounds):
        each = max(1, setting.trials // 2 // rounds // len(left))
        means = {}
        for arm in left:
            samples = []
            for turn in range(each):
                samples.append((yield from ask(arm, max(0, sizes - 1 - 3 * (turn % 3)))))
            means[arm] = max(samples)
        left = sorted(left, key=lambda arm: (-means[arm], arm))[: max(3, len(left) // 2)]
    best = max(float(np.mean(values)) for values in seen.values())
    while any(len(seen.get((arm, size), ())) < runs for arm in left for size in range(sizes)):
        before = sum(map(len, seen.values()))
        for arm in left:
            low, high = 0, sizes - 1
            while low < high:
                middle, samples = (low + high) // 2, []
                for _ in range(3):
                    samples.append((yield from ask(arm, middle)))
                enough = samples[-1] >= (1 - setting.sacrifice) * best
                low, high = (low, middle) if enough else (middle + 1, high)
        if sum(map(len, seen.values())) == before:
            break


def misjudged(means: np.ndarray, known: Grid, seed: int) -> np.ndarray:
    """A prior as a simulator would give it: the truth times errors like the simulator's against kernels.

    Half of the variance of an error's logarithm is the congestion control's, half the arm's own; each is a
    curve that bends over two octaves of the buffer. Its median is 10 %, its 90th percentile about 30 %, which
    is heavier than normal: Student's t with 3.5 degrees of freedom, scaled.
    """
    random = np.random.default_rng([seed, 14])
    octaves = np.log2(np.array(known.buffers, dtype=float))
    apart = (octaves[:, None] - octaves) / BENDS_OVER
    root = np.linalg.cholesky(0.5 + 0.5 * np.exp(-(apart**2) / 2) + 1e-9 * np.eye(len(octaves)))
    controls = sorted({arm.combination.cc for arm in known.arms})
    shared = random.standard_normal((len(controls), len(octaves))) @ root.T
    own = random.standard_normal(means.shape) @ root.T
    which = [controls.index(arm.combination.cc) for arm in known.arms]
    heavy = np.sqrt(FREEDOM / random.chisquare(FREEDOM, (len(means), 1)))
    errors = ERROR * heavy * (shared[which] + own) / math.sqrt(2)
    wrong: np.ndarray = means * np.exp(np.clip(errors, -1.5, 1.5))
    return wrong


#: Octaves over which errors of a prior bend; degrees of freedom and scale of Student's t.
BENDS_OVER, FREEDOM, ERROR = 2.0, 3.5, 0.134

#: Half and nine tenths of these errors, as shares of the throughput.
MISJUDGED = 0.1, 0.3


def reversed_ranks(prior: np.ndarray) -> np.ndarray:
    """The same rows, the one of the best arm for the worst, and so on."""
    ranked = np.argsort(prior.max(axis=1), kind="stable")
    wrong = np.empty_like(prior)
    wrong[ranked] = prior[ranked[::-1]]
    return wrong
