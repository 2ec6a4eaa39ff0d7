"""Built causes, as `mptune why` names them: 30 alone, 20 mixtures, and 10 sound networks, drawn.

A network is right if the causes named are exactly those built; a sound one if none is named. Goal: 90 %, and
nothing named in the 10 sound ones. Prints the confusion and the misses one by one, and writes JSON; with
--write-docs (of the simulator) also docs/how-to/watch.md. Seeds 1 to 3, 5, 6, 11 to 14 and 9101 to 9130 were
used while rules were made; the page has others. `--testbed namespaces --every 5` takes every fifth network of
a kind, on this machine's kernel.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.decision._built_causes import HEALTHY, SINGLE, Case, cases
from benchmarks.shared import docs
from benchmarks.shared.measure import write
from mptune import testbeds
from mptune.diagnosis.measuring import Direction, ask
from mptune.errors import MptuneError

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "watch.md"
KINDS = tuple(SINGLE)
#: Of the page.
SEEDS = list(range(7701, 7711))


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, action="append", help="of the networks; repeat it for more")
    parser.add_argument("--testbed", default="simulated")
    parser.add_argument("--every", type=int, default=1, help="take only each n-th network of a kind")
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    seeds, began = arguments.seed or SEEDS, time.monotonic()
    testbed = testbeds.create(arguments.testbed)
    rows = []
    for seed in seeds:
        for case in _sampled(cases(seed), arguments.every):
            rows.append(_row(case, seed, testbed))
            print(
                _miss(rows[-1]) if not rows[-1]["right"] else f"seed {seed}, {case.name}: right", flush=True
            )
    summary = _summary(rows)
    for line in (*summary, *docs.table(_confusion(rows))):
        print(line)
    print(f"{time.monotonic() - began:.0f} s")
    suffix = "" if arguments.testbed == "simulated" else f"_{arguments.testbed}"
    write(f"causes{suffix}", {"seeds": seeds, "rows": rows})
    if arguments.write_docs and not suffix:
        docs.replace(PAGE, "causes", "\n".join(["", *summary, "", *docs.table(_confusion(rows)), ""]))


def _sampled(all_cases: list[Case], every: int) -> list[Case]:
    seen: Counter[frozenset[str]] = Counter()
    taken = []
    mixed = 0
    for case in all_cases:
        number = mixed if len(case.truth) > 1 else seen[case.truth]
        mixed += len(case.truth) > 1
        seen[case.truth] += 1
        if number % every == 0:
            taken.append(case)
    return taken


def _row(case: Case, seed: int, testbed: testbeds.Testbed) -> dict[str, Any]:
    try:
        why = ask(case.topology, testbed, case.options, directions=1)
    except MptuneError as error:
        return {"name": case.name, "seed": seed, "truth": sorted(case.truth), "named": [], "right": False,
                "failed": str(error)}  # fmt: skip
    (direction,) = why.directions
    named = sorted({finding.kind for finding in direction.diagnosis.findings})
    return {
        "name": case.name,
        "seed": seed,
        "truth": sorted(case.truth),
        "named": named,
        "right": set(named) == case.truth,
        "seconds": why.seconds,
        "bytes": why.bytes,
        **_numbers(direction),
    }


def _numbers(direction: Direction) -> dict[str, Any]:
    found = direction.diagnosis
    return {
        "potential_mbps": found.potential_mbps,
        "alone_mbps": found.alone_mbps,
        "together_mbps": found.together_mbps,
        "unexplained_mbps": found.unexplained_mbps,
        "findings": [f"{one.kind} {one.mbps:.1f}: {one.because}" for one in found.findings],
        "trials": {
            one.words: figures.failed or round(figures.mbps, 2)
            for one, figures in direction.evidence.trials.items()
        },
        "left_out": list(direction.left_out),
    }


def _miss(row: dict[str, Any]) -> str:
    found = ", ".join(row["named"]) or "nothing"
    lines = [f"seed {row['seed']}, {row['name']}: named {found}; {row.get('failed', '')}"]
    lines += [f"    {one}" for one in row.get("findings", [])]
    if "trials" in row:
        numbers = [
            f"{row[name + '_mbps']:.1f} {name}" for name in ("potential", "alone", "together", "unexplained")
        ]
        lines.append(f"    {', '.join(numbers)}; {row['trials']} {row['left_out'] or ''}")
    return "\n".join(lines)


def _summary(rows: list[dict[str, Any]]) -> list[str]:
    groups = {
        "causes alone": [row for row in rows if len(row["truth"]) == 1],
        "mixtures": [row for row in rows if len(row["truth"]) > 1],
        "sound networks": [row for row in rows if not row["truth"]],
    }
    built = [*groups["causes alone"], *groups["mixtures"]]
    lines = [
        f"- {name}: {sum(row['right'] for row in group)} of {len(group)} right"
        for name, group in groups.items()
    ]
    share = sum(row["right"] for row in built) / max(1, len(built))
    return [*lines, f"- built causes together: {share:.0%} (goal 90 %)"]


def _confusion(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Per cause: networks that have it, in how many it was named, and in how many others."""
    table = [["cause", "built", "named there", "named elsewhere"]]
    for kind in KINDS:
        has = [row for row in rows if kind in row["truth"]]
        others = [row for row in rows if kind not in row["truth"]]
        named = [sum(kind in row["named"] for row in group) for group in (has, others)]
        table.append([kind, str(len(has)), str(named[0]), f"{named[1]} of {len(others)}"])
    return table


if __name__ == "__main__":
    assert HEALTHY
    main()
