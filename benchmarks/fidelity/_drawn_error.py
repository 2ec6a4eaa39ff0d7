"""The simulator's error, learnt from a drawn set: spreads by kind of network, and what they are worth.

Not a benchmark. `mptune.decision.model_error` has the formula that is learnt here: the logarithm of kernel
mean / simulated mean has a spread, which is a product of a factor for each regime. All factors are fitted
together, the likeliest ones under Student's t, so that a few very large errors do not decide everything. A
regime with few cases keeps to the whole: the logarithms of the factors have a normal prior around 0. Which
factors there are, and how wide their priors, is one of a few `CANDIDATES`, the one whose intervals are the
best for networks that were left out. How many spreads the ends of an interval are from its centre is the
quantile of the errors themselves, each from a fit without its network, and no distribution's.
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import mptune
from benchmarks.fidelity._drawn import RATE_BPS, RTT_NS, TRANSFER_BYTES, Case
from mptune.decision.kinds import BOUNDS, Compared, factors, products, total_bps
from mptune.decision.model_error import SCHEMA, ModelError, OnKernel, Scale, Validated, gain
from mptune.statistics import CONFIDENCE, half_width, log_mean_variance, quantile
from mptune.trial.stacks import DEFAULT_STACK, LINUX_VERSION, STACKS

Floats = NDArray[np.float64]

#: Degrees of freedom: fewer would fit the many small errors alone, more only the few large ones.
FREEDOM = 10.0
#: Factors with the standard deviations of the logarithms of theirs, before anything was learnt.
Strengths = dict[str, float]
NARROW, WIDE = 0.25, 1.0
_FACTORS = "subflows", "buffer", "loss", "congestion control", "buffer mode", "sent"
#: Candidates, the simplest first: one spread for all, one factor, all of them, subflows more than others.
CANDIDATES: tuple[Strengths, ...] = (
    {},
    *({name: NARROW} for name in _FACTORS),
    {"subflows": WIDE},
    dict.fromkeys(_FACTORS, NARROW),
    dict.fromkeys(_FACTORS, NARROW) | {"subflows": WIDE},
)
#: A later one has to be better by this share: among so many, one is better by luck.
WORTH = 0.03
#: Fewest simulated runs with a number: fewer show no scatter.
LEAST_RUNS = 2
#: Fewest configurations and networks that anything is learnt from.
LEAST = 40, 4
#: Smallest spread: less than that is what the kernel differs by from itself.
LEAST_SPREAD = 1e-3
_DIGITS = 4


class Error(NamedTuple):
    """A configuration with numbers on both sides.

    Attributes
    ----------
    log : of kernel mean / simulated mean.
    variance : of that, by the scatter of the runs (`log_mean_variance`).
    simulated, kernel : means, Mbit/s.
    """

    network: str
    kind: dict[str, str]
    log: float
    variance: float
    simulated: float
    kernel: float


class Fitted(NamedTuple):
    """Spreads that were fitted: of no effect, and of each regime, as logarithms."""

    base: float
    effects: dict[str, dict[str, float]]

    def spread(self, kind: dict[str, str]) -> float:
        """Of a kind."""
        return math.exp(
            self.base + math.fsum(self.effects[name].get(kind[name], 0.0) for name in self.effects)
        )

    def standardised(self, error: Error) -> float:
        """An error in spreads."""
        return error.log / math.hypot(self.spread(error.kind), math.sqrt(error.variance))


class Checked(NamedTuple):
    """The interval of a configuration in a network that nothing was learnt from.

    Attributes
    ----------
    low, high : Mbit/s.
    """

    error: Error
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """True if the kernel's mean is inside."""
        return self.low <= self.error.kernel <= self.high


class Learnt(NamedTuple):
    """The error model of a drawn set.

    Attributes
    ----------
    strengths : the best of the candidates; `scores` has those of all.
    checked : intervals of networks left out.
    """

    scale: Scale
    strengths: Strengths
    scores: tuple[float, ...]
    checked: tuple[Checked, ...]


def errors_of(cases: Sequence[Case], sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[Error]:
    """Of every case with numbers on both sides: simulated and kernel runs that gave one, Mbit/s."""
    errors = []
    for case, (simulated, kernel) in zip(cases, sides, strict=True):
        if len(simulated) < LEAST_RUNS or not kernel:
            continue
        means = math.fsum(simulated) / len(simulated), math.fsum(kernel) / len(kernel)
        if min(means) > 0:
            variance = log_mean_variance(simulated, len(kernel))
            log = math.log(means[1] / means[0])
            errors.append(Error(case.network, factors(case.trial), log, variance, *means))
    return errors


def fit(errors: Sequence[Error], strengths: Strengths) -> Fitted:
    """The likeliest spreads."""
    from scipy.optimize import minimize

    places = [
        (name, regime) for name in strengths for regime in sorted({error.kind[name] for error in errors})
    ]
    has = np.array([[float(error.kind[name] == regime) for name, regime in places] for error in errors])
    has = has.reshape(len(errors), len(places))
    squares = np.array([error.log**2 for error in errors])
    scatter = np.array([error.variance for error in errors]) + LEAST_SPREAD**2
    strict = np.array([strengths[name] ** -2 for name, _ in places])

    def unlikely(values: Floats) -> tuple[float, Floats]:
        """Negative log-likelihood with the prior, but for a constant, and its gradient."""
        own = np.exp(2 * (values[0] + has @ values[1:]))
        variance = own + scatter
        far = squares / variance
        likely = -np.log(variance) / 2 - (FREEDOM + 1) / 2 * np.log1p(far / FREEDOM)
        slope = own / variance * ((FREEDOM + 1) * far / (FREEDOM + far) - 1)
        pull = strict * values[1:]
        value = -likely.sum() + (pull * values[1:]).sum() / 2
        return float(value), np.concatenate([[-slope.sum()], pull - has.T @ slope])

    start = np.zeros(len(places) + 1)
    start[0] = math.log(max(float(np.sqrt(np.median(squares))), LEAST_SPREAD))
    # Below the smallest spread nothing changes any more.
    bounds = [(math.log(LEAST_SPREAD), math.log(10.0)), *[(-5.0, 5.0)] * len(places)]
    likeliest = minimize(unlikely, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    effects: dict[str, dict[str, float]] = {name: {} for name in strengths}
    for (name, regime), value in zip(places, likeliest[1:], strict=True):
        effects[name][regime] = float(value)
    return Fitted(float(likeliest[0]), effects)


def left_out(errors: Sequence[Error]) -> list[tuple[list[Error], list[Error]]]:
    """Every network by itself, and the errors of all others before it."""
    names = sorted({error.network for error in errors})
    return [
        (
            [error for error in errors if error.network != name],
            [error for error in errors if error.network == name],
        )
        for name in names
    ]


class Apart(NamedTuple):
    """An error, and the spreads fitted to all networks but its own.

    Attributes
    ----------
    far : the error in spreads.
    """

    error: Error
    fitted: Fitted
    far: float


def apart(errors: Sequence[Error], strengths: Strengths) -> list[Apart]:
    """Every error, judged by what the other networks teach."""
    parts = []
    for others, own in left_out(errors):
        fitted = fit(others, strengths)
        parts += [Apart(error, fitted, fitted.standardised(error)) for error in own]
    return parts


def check(parts: Sequence[Apart]) -> list[Checked]:
    """The interval of each error: spreads fitted without its network, quantiles without its network's."""
    checked = []
    for name in sorted({part.error.network for part in parts}):
        own = [part for part in parts if part.error.network == name]
        scale = scaled(own[0].fitted, [part for part in parts if part.error.network != name])
        for error in (each.error for each in own):
            checked.append(Checked(error, *scale.interval(error.simulated, error.kind, error.variance)))
    return checked


def score(checked: Sequence[Checked]) -> float:
    """Mean interval score of the logarithms, the less the better: the width, and 2 / 5 % of what is missed.

    T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and estimation", Journal of the
    American Statistical Association 102, 2007, section 6.2.
    """
    total = 0.0
    for check in checked:
        missed = max(0.0, math.log(check.low / check.error.kernel), math.log(check.error.kernel / check.high))
        total += math.log(check.high / check.low) + 2 / (1 - CONFIDENCE) * missed
    return total / len(checked)


def scaled(fitted: Fitted, errors: Sequence[Apart]) -> Scale:
    """Spreads, with the quantiles of errors in spreads of their own."""
    centre = _centre(errors)
    away = sorted(abs(error.far - centre) for error in errors)
    return Scale(
        spread=_short(math.exp(fitted.base)),
        effects={
            name: {regime: _short(value) for regime, value in regimes.items()}
            for name, regimes in fitted.effects.items()
        },
        centre=_short(centre),
        half=_short(quantile(away, 0.5)),
        nine_tenths=_short(quantile(away, 0.9)),
        ends=_short(quantile(away, CONFIDENCE)),
    )


def _centre(errors: Sequence[Apart]) -> float:
    """The median error, if the networks' own medians prove that it is not 0."""
    by_network: dict[str, list[float]] = {}
    for error in errors:
        by_network.setdefault(error.error.network, []).append(error.far)
    medians = [quantile(sorted(values), 0.5) for values in by_network.values()]
    half = half_width(medians)
    if half is None or abs(math.fsum(medians) / len(medians)) <= half:
        return 0.0
    return quantile(sorted(error.far for error in errors), 0.5)


def learn(errors: Sequence[Error], progress: Callable[[int, int], None] | None = None) -> Learnt:
    """The error of a drawn set, and the interval of each network by what the others teach.

    The spreads of a network's interval are fitted without it, and its errors do not count in the quantiles;
    the candidate alone is chosen by all networks.

    Raises
    ------
    SystemExit : there are too few.
    """
    networks = len({error.network for error in errors})
    if len(errors) < LEAST[0] or networks < LEAST[1]:
        raise SystemExit(
            f"expected at least {LEAST[0]} configurations of {LEAST[1]} networks to learn the simulator's "
            f"error from, found {len(errors)} of {networks}"
        )
    best: tuple[float, Strengths, list[Apart], list[Checked]] | None = None
    scores = []
    for number, strengths in enumerate(CANDIDATES):
        parts = apart(errors, strengths)
        checked = check(parts)
        scores.append(score(checked))
        if best is None or scores[-1] < (1 - WORTH) * best[0]:
            best = scores[-1], strengths, parts, checked
        if progress is not None:
            progress(number + 1, len(CANDIDATES))
    assert best is not None
    _, strengths, parts, checked = best
    return Learnt(scaled(fit(errors, strengths), parts), strengths, tuple(scores), tuple(checked))


def gains(checked: Sequence[Checked]) -> tuple[float, int]:
    """Number of pairs of a network's configurations with the kernel's gain inside, and of all pairs."""
    held = []
    for place, check in enumerate(checked):
        for other in checked[:place]:
            if check.error.network == other.error.network:
                low, high = gain(*(OnKernel(c.error.simulated, c.low, c.high) for c in (check, other))).ends
                held.append(low <= check.error.kernel - other.error.kernel <= high)
    return (sum(held) / len(held) if held else 0.0), len(held)


def document(
    learnt: Learnt,
    cases: Sequence[Case],
    *,
    kernel: str,
    seed: int,
    runs: int,
    duration_ns: int,
) -> ModelError:
    """The shipped model.

    Parameters
    ----------
    cases : those with numbers on both sides.
    """
    widths = sorted(checked.high / checked.low - 1 for checked in learnt.checked)
    inside = sum(checked.inside for checked in learnt.checked) / len(learnt.checked)
    return ModelError(
        schema=SCHEMA,
        kernel=f"Linux {kernel}",
        stack=msgspec.structs.asdict(STACKS[DEFAULT_STACK]),
        release=LINUX_VERSION,
        mptune=mptune.__version__,
        simulated=digest([checked.error.simulated for checked in learnt.checked]),
        draw=seed,
        networks=len({checked.error.network for checked in learnt.checked}),
        configurations=len(learnt.checked),
        runs=runs,
        scale=learnt.scale,
        compared=compared(cases, duration_ns),
        validated=Validated(coverage=_short(inside), width=_short(quantile(widths, 0.5))),
    )


def compared(cases: Sequence[Case], duration_ns: int) -> Compared:
    """Names that have results, and ranges: what is drawn from, and what scaled rates add to it."""
    trials = [case.trial for case in cases]
    topologies = list({case.network: case.trial.topology for case in cases}.values())
    paths = [path for topology in topologies for path in topology.paths]

    def around(values: Sequence[float], *drawn: float) -> tuple[float, float]:
        return float(min(*values, *drawn)), float(max(*values, *drawn))

    return Compared(
        congestion_controls=tuple(sorted({trial.cc for trial in trials})),
        path_managers=tuple(sorted({trial.pm for trial in trials})),
        buffer_modes=tuple(sorted({trial.sized for trial in trials})),
        paths=around([len(topology.paths) for topology in topologies], 2),
        path_bps=around([path.rate_bps for path in paths], *RATE_BPS),
        total_bps=around([total_bps(topology) for topology in topologies], total_bps(topologies[0])),
        rtt_ns=around([path.base_rtt_ns for path in paths], *RTT_NS),
        loss_ppb=around([path.loss_ppb for path in paths], 0),
        products=around([products(trial) for trial in trials], float(BOUNDS[0]), float(BOUNDS[-1])),
        transfer_bytes=around(TRANSFER_BYTES),
        duration_ns=duration_ns,
    )


def digest(means: Sequence[float]) -> str:
    """Of the simulator's means."""
    text = " ".join(f"{mean:.6g}" for mean in means)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def by_regime(checked: Sequence[Checked]) -> list[tuple[str, str, int, float, float]]:
    """Factor, regime, how many, share inside, and median width of the intervals of networks left out."""
    rows: list[tuple[str, str, int, float, float]] = []
    groups: dict[tuple[str, str], list[Checked]] = {("", "all"): list(checked)}
    for name in checked[0].error.kind:
        for regime in sorted({check.error.kind[name] for check in checked}):
            groups[name, regime] = [check for check in checked if check.error.kind[name] == regime]
    for (name, regime), ones in groups.items():
        widths = sorted(check.high / check.low - 1 for check in ones)
        inside = sum(check.inside for check in ones) / len(ones)
        rows.append((name, regime, len(ones), inside, quantile(widths, 0.5)))
    return rows


def written(model: ModelError) -> bytes:
    """The file."""
    plain: Any = msgspec.to_builtins(model)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
