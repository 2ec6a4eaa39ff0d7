"""Error of the simulator against a kernel: learnt from drawn networks, and stated with an answer.

The simulator was compared with a kernel on random networks (benchmarks/fidelity/throughput.py); the result is
`model_error.json`, which that command writes. This module reads it and applies it. How it is learnt
is in benchmarks/fidelity/_drawn_error.py; docs/reference/fidelity.md explains both.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from mptune._text import digits, quoted
from mptune.decision.kinds import Compared, factors, outside
from mptune.errors import InputError
from mptune.files import read_json
from mptune.statistics import CONFIDENCE, log_mean_variance
from mptune.trial import Trial
from mptune.trial.stacks import DEFAULT_STACK, LINUX_VERSION, STACKS, Stack
from mptune.units import format_time

#: The shipped error model.
SHIPPED = Path(__file__).with_name("model_error.json")
#: The form of the file.
SCHEMA = 1

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Validated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Coverage of the intervals on networks that they were not learnt from.

    Attributes
    ----------
    coverage : share of the kernel's means inside, each network left out once.
    width : median of their widths, high / low - 1.
    """

    coverage: _Share
    width: _Positive


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Spread and distribution of log(kernel mean / simulated mean).

    Attributes
    ----------
    spread : of a kind without any effect.
    effects : factor -> regime -> logarithm of what its spread is multiplied by; a regime that is not named
        has none.
    centre : median of the errors, in spreads; 0 unless it clearly is not.
    half, nine_tenths, ends : spreads around the centre within which a half, nine tenths and 95 % of the
        errors lie.
    """

    spread: _Positive
    effects: dict[str, dict[str, float]]
    centre: float
    half: _Positive
    nine_tenths: _Positive
    ends: _Positive

    def of(self, kind: Mapping[str, str]) -> float:
        """The spread of a kind (`mptune.decision.kinds.factors`)."""
        effects = [self.effects.get(factor, {}).get(regime, 0.0) for factor, regime in kind.items()]
        return self.spread * math.exp(math.fsum(effects))

    def interval(self, mean: float, kind: Mapping[str, str], variance: float) -> tuple[float, float]:
        """95 % interval for the kernel's mean: the only place where the formula stands.

            mean exp(s (centre - ends)) to mean exp(s (centre + ends)),   s = sqrt(spread(kind)^2 + variance)

        Parameters
        ----------
        mean : of the simulated runs, above 0.
        variance : of the logarithm of mean / kernel mean by the scatter of runs alone, on both sides.
        """
        scale = math.hypot(self.of(kind), math.sqrt(variance))
        return mean * math.exp(scale * (self.centre - self.ends)), mean * math.exp(
            scale * (self.centre + self.ends)
        )


class ModelError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The learnt error, and the data behind it.

    Attributes
    ----------
    kernel : release of the kernel.
    stack, release : members of the stack that was simulated, and the Linux that it follows.
    mptune : version.
    simulated : digest of the simulated means; another one means that the simulator has changed since.
    draw : seed of the draw.
    networks, configurations : how many had results.
    runs : of each configuration on the kernel; an interval is one for the mean of so many.
    """

    schema: int
    kernel: str
    stack: dict[str, Any]
    release: str
    mptune: str
    simulated: str
    draw: int
    networks: int
    configurations: int
    runs: Annotated[int, msgspec.Meta(ge=1)]
    scale: Scale
    compared: Compared
    validated: Validated

    def unknown(self, trial: Trial) -> str:
        """Why nothing is known of the error of a trial, as a part of a sentence; empty if it is."""
        # Members that there were not yet had the values that are the defaults now.
        if (msgspec.convert(self.stack, Stack), self.release) != (STACKS[DEFAULT_STACK], LINUX_VERSION):
            return "another version of the simulator was validated"
        return outside(trial, self.compared)

    def expected(self, trial: Trial, simulated: Sequence[float]) -> "OnKernel":
        """Expected throughput on a kernel for a simulated one.

        Parameters
        ----------
        trial : any run of the configuration.
        simulated : throughputs of its runs, Mbit/s.
        """
        mean = math.fsum(simulated) / len(simulated) if simulated else 0.0
        reason = self.unknown(trial)
        if not reason and mean <= 0:
            reason = "no simulated run gave a throughput"
        if not reason and len(simulated) < 2:
            reason = "a single simulated run does not show how much runs scatter"
        if reason:
            return OnKernel(mean_mbps=mean, unknown=reason)
        low, high = self.scale.interval(mean, factors(trial), log_mean_variance(simulated, self.runs))
        return OnKernel(
            mean_mbps=mean,
            low_mbps=low,
            high_mbps=high,
            kernel=self.kernel,
            runs=self.runs,
            duration_ns=self.compared.duration_ns,
            networks=self.networks,
            configurations=self.configurations,
        )


class OnKernel(msgspec.Struct, frozen=True):
    """Expected throughput on a kernel where the simulator gave `mean_mbps`.

    Attributes
    ----------
    mean_mbps : the simulator's.
    low_mbps, high_mbps : 95 % interval of the mean of `runs` runs on a kernel; None if it is not known.
    kernel, duration_ns, networks, configurations : what it was learnt from.
    unknown : why it is not known, as a part of a sentence; None if it is.
    """

    mean_mbps: float
    low_mbps: float | None = None
    high_mbps: float | None = None
    kernel: str = ""
    runs: int = 0
    duration_ns: int = 0
    networks: int = 0
    configurations: int = 0
    unknown: str | None = None

    @property
    def sentence(self) -> str:
        """The expectation on a kernel as a sentence, or the reason why there is none."""
        if self.low_mbps is None or self.high_mbps is None:
            return f"No kernel error estimate: {self.unknown}."
        return (
            f"On a Linux kernel expect {digits(self.low_mbps)} to {digits(self.high_mbps)} Mbit/s "
            f"({CONFIDENCE:.0%} interval for the mean of {self.runs} runs, learnt from "
            f"{self.configurations} configurations in {self.networks} drawn networks on {self.kernel}, "
            f"{format_time(self.duration_ns)} each)."
        )


class GainOnKernel(msgspec.Struct, frozen=True, kw_only=True):
    """The 95 % interval of a gain on a kernel, Mbit/s; None, with the reason, if it is not known."""

    low_mbps: float | None = None
    high_mbps: float | None = None
    unknown: str | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Its ends, of one that is known."""
        if self.low_mbps is None or self.high_mbps is None:
            raise ValueError(self.unknown)
        return self.low_mbps, self.high_mbps

    @property
    def sentence(self) -> str:
        """The gain to expect, or why that is not known."""
        if self.low_mbps is None or self.high_mbps is None:
            return f"No kernel error estimate of the gain: {self.unknown}."
        low, high = digits(self.low_mbps, 3, "+"), digits(self.high_mbps, 3, "+")
        doubt = "; the simulator cannot tell its sign" if self.low_mbps < 0 < self.high_mbps else ""
        return f"On a Linux kernel the gain is {low} to {high} Mbit/s ({CONFIDENCE:.0%} interval){doubt}."


def gain(ours: OnKernel, theirs: OnKernel) -> GainOnKernel:
    """Gain of one configuration over another on a kernel.

    From the two intervals, as if their errors were independent (MOVER: Zou and Donner, Statistics in Medicine
    27, 2008). Errors in one network have much in common, which makes it too wide rather than too narrow.
    """
    ends = ours.low_mbps, ours.high_mbps, theirs.low_mbps, theirs.high_mbps
    low, high, their_low, their_high = ends
    if low is None or high is None or their_low is None or their_high is None:
        reason = ours.unknown or f"for the default, {theirs.unknown}"
        return GainOnKernel(unknown=reason)
    middle = ours.mean_mbps - theirs.mean_mbps
    return GainOnKernel(
        low_mbps=middle - math.hypot(ours.mean_mbps - low, their_high - theirs.mean_mbps),
        high_mbps=middle + math.hypot(high - ours.mean_mbps, theirs.mean_mbps - their_low),
    )


@cache
def shipped() -> ModelError:
    """The model error shipped with this version.

    Raises
    ------
    InputError : the file is damaged.
    """
    return read(SHIPPED)


def read(path: Path) -> ModelError:
    """Read a file of what was learnt.

    Raises
    ------
    InputError : there is none, or it is not what `benchmarks/fidelity/throughput.py --write-error` writes.
    """
    where = str(path)
    try:
        document = read_json(path)
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise InputError(where, "schema", f"expected {SCHEMA}, found {quoted(schema)}")
        return msgspec.convert(document, ModelError)
    except (OSError, ValueError) as error:
        raise InputError(where, "", f"expected what the simulator's error was learnt as: {error}") from None
