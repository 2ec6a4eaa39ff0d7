"""The simulator's error, learnt from a drawn set: spreads by kind of network, and what they are worth.

Not a benchmark. `mptune.decision.model_error` has the formula that is learnt here: the logarithm of kernel
mean / simulated mean has a spread that is a product of a factor for each regime. The spreads are the likeliest
under Student's t with few degrees of freedom, so that a few very large errors do not widen everything; the
factors are drawn towards 1 (a normal prior on their logarithms, whose width is one of `STRENGTHS`), and a
factor is used only if it predicts networks that were left out better by at least `WORTH`. How many spreads the
ends of an interval are from its centre is the quantile of the errors themselves, of networks left out, and no
distribution's.
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

import mptune
from _drawn import RATE_BPS, RTT_NS, TRANSFER_BYTES, Case
from mptune.decision.kinds import BOUNDS, Compared, factors, products, total_bps
from mptune.decision.model_error import SCHEMA, ModelError, OnKernel, Scale, Validated, gain
from mptune.statistics import CONFIDENCE, half_width, log_mean_variance, quantile
from mptune.testbeds.stacks import DEFAULT_STACK, LINUX_VERSION, STACKS

Floats = NDArray[np.float64]

#: Degrees of freedom: the errors have tails about as heavy.
FREEDOM = 3.0
#: Standard deviations of the logarithm of a regime's factor, before anything was learnt.
STRENGTHS = (0.25, 0.5, 1.0)
#: By how much a factor has to make networks that were left out likelier, in logarithms.
WORTH = 2.0
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


#: Factors that are used, with the strength of each.
Chosen = dict[str, float]


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
        """Whether the kernel's mean is in it."""
        return self.low <= self.error.kernel <= self.high


class Learnt(NamedTuple):
    """What a drawn set teaches."""

    scale: Scale
    chosen: Chosen
    checked: tuple[Checked, ...]


def errors_of(cases: Sequence[Case], sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[Error]:
    """Of every case with numbers on both sides: simulated and kernel runs that gave one, Mbit/s."""
    found = []
    for case, (simulated, kernel) in zip(cases, sides, strict=True):
        if len(simulated) < LEAST_RUNS or not kernel:
            continue
        means = math.fsum(simulated) / len(simulated), math.fsum(kernel) / len(kernel)
        if min(means) > 0:
            variance = log_mean_variance(simulated, len(kernel))
            log = math.log(means[1] / means[0])
            found.append(Error(case.network, factors(case.trial), log, variance, *means))
    return found


def fit(errors: Sequence[Error], chosen: Chosen) -> Fitted:
    """The likeliest spreads."""
    from scipy.optimize import minimize

    places = [(name, regime) for name in chosen for regime in sorted({one.kind[name] for one in errors})]
    has = np.array([[float(one.kind[name] == regime) for name, regime in places] for one in errors])
    has = has.reshape(len(errors), len(places))
    squares = np.array([one.log**2 for one in errors])
    scatter = np.array([one.variance for one in errors]) + LEAST_SPREAD**2
    strict = np.array([chosen[name] ** -2 for name, _ in places])

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
    found = minimize(unlikely, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    effects: dict[str, dict[str, float]] = {name: {} for name in chosen}
    for (name, regime), value in zip(places, found[1:], strict=True):
        effects[name][regime] = float(value)
    return Fitted(float(found[0]), effects)


def left_out(errors: Sequence[Error]) -> list[tuple[list[Error], list[Error]]]:
    """Every network by itself, and the errors of all others before it."""
    names = sorted({one.network for one in errors})
    return [
        ([one for one in errors if one.network != name], [one for one in errors if one.network == name])
        for name in names
    ]


def likely(errors: Sequence[Error], chosen: Chosen) -> float:
    """Log-likelihood of networks that were left out."""
    from scipy.stats import t

    total = 0.0
    for others, own in left_out(errors):
        fitted = fit(others, chosen)
        for one in own:
            scale = math.sqrt(fitted.spread(one.kind) ** 2 + one.variance + LEAST_SPREAD**2)
            total += float(t.logpdf(one.log / scale, FREEDOM)) - math.log(scale)
    return total


def choose(errors: Sequence[Error]) -> Chosen:
    """Factors that are worth it, the one that tells most first, each with its strength."""
    chosen: Chosen = {}
    best = likely(errors, chosen)
    left = set(errors[0].kind)
    while left:
        tried = {
            (name, strength): likely(errors, chosen | {name: strength})
            for name in sorted(left)
            for strength in STRENGTHS
        }
        name, strength = max(tried, key=lambda one: round(tried[one], 6))
        if tried[name, strength] < best + WORTH:
            break
        best = tried[name, strength]
        chosen[name] = strength
        left.remove(name)
    return chosen


def scaled(errors: Sequence[Error], chosen: Chosen) -> Scale:
    """The spreads of all, and the quantiles of their errors where each network was left out."""
    fitted = fit(errors, chosen)
    apart = [
        (one.network, fit(others, chosen).standardised(one))
        for others, own in left_out(errors)
        for one in own
    ]
    centre = _centre(apart)
    away = sorted(abs(far - centre) for _, far in apart)
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


def _centre(apart: Sequence[tuple[str, float]]) -> float:
    """The median error, if the networks' own medians prove that it is not 0."""
    by_network: dict[str, list[float]] = {}
    for network, far in apart:
        by_network.setdefault(network, []).append(far)
    medians = [quantile(sorted(one), 0.5) for one in by_network.values()]
    half = half_width(medians)
    mean = math.fsum(medians) / len(medians)
    return quantile(sorted(far for _, far in apart), 0.5) if half is not None and abs(mean) > half else 0.0


def learn(errors: Sequence[Error], progress: Callable[[int, int], None] | None = None) -> Learnt:
    """The error of a drawn set, checked on each network with what the others teach: all of it, also which
    factors are worth it.

    Raises
    ------
    SystemExit : there are too few.
    """
    parts = left_out(errors)
    if len(errors) < LEAST[0] or len(parts) < LEAST[1]:
        raise SystemExit(
            f"expected at least {LEAST[0]} configurations of {LEAST[1]} networks to learn the simulator's "
            f"error from, found {len(errors)} of {len(parts)}"
        )
    checked = []
    for number, (others, own) in enumerate(parts):
        scale = scaled(others, choose(others))
        checked += [Checked(one, *scale.interval(one.simulated, one.kind, one.variance)) for one in own]
        if progress is not None:
            progress(number + 1, len(parts) + 1)
    chosen = choose(errors)
    return Learnt(scaled(errors, chosen), chosen, tuple(checked))


def gains(checked: Sequence[Checked]) -> tuple[float, int]:
    """How often the kernel's gain of one configuration over another of its network is inside, of how many."""
    held = []
    for place, one in enumerate(checked):
        for other in checked[:place]:
            if one.error.network == other.error.network:
                found = gain(
                    *(
                        OnKernel(mean_mbps=c.error.simulated, low_mbps=c.low, high_mbps=c.high)
                        for c in (one, other)
                    )
                )
                assert found.low_mbps is not None and found.high_mbps is not None
                held.append(found.low_mbps <= one.error.kernel - other.error.kernel <= found.high_mbps)
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
    """What is shipped.

    Parameters
    ----------
    cases : those with numbers on both sides.
    """
    widths = sorted(one.high / one.low - 1 for one in learnt.checked)
    inside = sum(one.inside for one in learnt.checked) / len(learnt.checked)
    return ModelError(
        schema=SCHEMA,
        kernel=f"Linux {kernel}",
        stack=msgspec.structs.asdict(STACKS[DEFAULT_STACK]),
        release=LINUX_VERSION,
        mptune=mptune.__version__,
        simulated=digest([one.error.simulated for one in learnt.checked]),
        draw=seed,
        networks=len({one.error.network for one in learnt.checked}),
        configurations=len(learnt.checked),
        runs=runs,
        scale=learnt.scale,
        compared=compared(cases, duration_ns),
        validated=Validated(coverage=_short(inside), width=_short(quantile(widths, 0.5))),
    )


def compared(cases: Sequence[Case], duration_ns: int) -> Compared:
    """Names that have results; ranges that are drawn from, and what is beyond them because rates are scaled."""
    trials = [case.trial for case in cases]
    topologies = list({case.network: case.trial.topology for case in cases}.values())
    paths = [path for one in topologies for path in one.paths]

    def around(values: Sequence[float], *drawn: float) -> tuple[float, float]:
        return float(min(*values, *drawn)), float(max(*values, *drawn))

    return Compared(
        congestion_controls=tuple(sorted({one.cc for one in trials})),
        path_managers=tuple(sorted({one.pm for one in trials})),
        buffer_modes=tuple(sorted({one.buffer_mode for one in trials})),
        paths=around([len(one.paths) for one in topologies], 2),
        path_bps=around([path.rate_bps for path in paths], *RATE_BPS),
        total_bps=around([total_bps(one) for one in topologies], total_bps(topologies[0])),
        rtt_ns=around([path.base_rtt_ns for path in paths], *RTT_NS),
        loss_ppb=around([path.loss_ppb for path in paths], 0),
        products=around([products(one) for one in trials], float(BOUNDS[0]), float(BOUNDS[-1])),
        transfer_bytes=tuple(map(float, TRANSFER_BYTES)),
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
        for regime in sorted({one.error.kind[name] for one in checked}):
            groups[name, regime] = [one for one in checked if one.error.kind[name] == regime]
    for (name, regime), ones in groups.items():
        widths = sorted(one.high / one.low - 1 for one in ones)
        inside = sum(one.inside for one in ones) / len(ones)
        rows.append((name, regime, len(ones), inside, quantile(widths, 0.5)))
    return rows


def written(found: ModelError) -> bytes:
    """The file."""
    plain: Any = msgspec.to_builtins(found)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n"


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
