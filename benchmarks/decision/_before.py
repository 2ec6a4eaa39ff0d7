"""A changed rule beside the old one: the same cases and seeds, before and after.

Not a benchmark.
"""

import json
import math
from collections.abc import Mapping

from benchmarks.decision._ratios import over
from benchmarks.shared.measure import RESULTS, write
from mptune.statistics import summarise

#: As many cases are shown at either end.
SHOWN = 5
#: A case counts as changed if its throughput differs by more than this part.
NOTICED = 0.02


def keep(name: str, options: Mapping[str, object], cases: Mapping[str, float]) -> None:
    """Keep the throughputs of cases, Mbit/s, for a comparison after the change."""
    write(_name(name), {"options": dict(options), "cases": dict(cases)})


def kept(name: str, options: Mapping[str, object]) -> dict[str, float]:
    """The results that `keep` kept.

    Raises
    ------
    SystemExit : nothing, or what was measured with other options.
    """
    path = RESULTS / f"{_name(name)}.json"
    if not path.exists():
        raise SystemExit(f"{path}: expected what the same command keeps with --before, before the change")
    result = json.loads(path.read_text(encoding="utf-8"))["result"]
    for option, value in options.items():
        if result["options"].get(option) != value:
            found = result["options"].get(option)
            raise SystemExit(f"{path}: expected --{option} {value}, found {found}")
    return {str(case): float(mbps) for case, mbps in result["cases"].items()}


def _name(name: str) -> str:
    return f"{name}-before"


def table(before: Mapping[str, float], after: Mapping[str, float]) -> list[list[str]]:
    """The cases that differ most, the worst first."""
    ratios = {case: over(mbps, before[case]) for case, mbps in after.items()}
    worst_first = sorted(ratios, key=lambda case: ratios[case])
    ends = [case for case in worst_first[:SHOWN] if ratios[case] < 1 - NOTICED]
    ends += [case for case in worst_first[-SHOWN:] if ratios[case] > 1 + NOTICED]
    return [
        [f"differs by more than {100 * NOTICED:.0f} %", "before", "after", "after / before"],
        *([case, f"{before[case]:.1f}", f"{after[case]:.1f}", f"{ratios[case]:.2f}"] for case in ends),
    ]


def verdict(what: str, before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """A sentence on the mean, and one on single cases."""
    ratios = [max(over(mbps, before[case]), 1e-3) for case, mbps in after.items()]
    if set(ratios) == {1.0}:
        return [f"{what} gives exactly what it gave, in {len(ratios)} cases: is the change compiled?"]
    logs = summarise([math.log(ratio) for ratio in ratios])
    mean, low, high = (math.exp(value) for value in (logs.mean, logs.low or 0.0, logs.high or 0.0))
    word = "better" if low > 1 else "worse" if high < 1 else "neither better nor worse"
    better, worse = (sum(sign * (ratio - 1) > NOTICED for ratio in ratios) for sign in (1, -1))
    return [
        f"{what} is {word} in the mean: {mean:.3f} times the throughput of before "
        f"(95 %: {low:.3f} to {high:.3f}; {len(ratios)} cases).",
        f"Faster by more than {100 * NOTICED:.0f} % in {better}, slower in {worse}; "
        f"{min(ratios):.2f} to {max(ratios):.2f} times.",
    ]
