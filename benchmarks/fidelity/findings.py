"""The findings of docs/explanation/kernel-findings.md in virtual time: each one a case, by its seed.

Runs the programs of benchmarks/findings in guests, with one seed after another until a finding shows. The
same kernel shows the same with the same seed. `--write` keeps what they printed in
benchmarks/findings/cases.json, and writes the table of all releases that are kept there into the page.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.shared import docs
from benchmarks.shared.findings import FINDINGS, PROGRAMS, Finding, in_guest
from mptune.guest import kernels, machine

KEPT = PROGRAMS / "cases.json"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "kernel-findings.md"


class Case(msgspec.Struct, frozen=True):
    """A finding on a release: the first seed that showed it, or the last one asked.

    Attributes
    ----------
    kernel : its version.
    what : in words.
    output : of the program.
    """

    kernel: str
    seen: bool
    seed: int
    what: str
    output: str


def case(kernel: kernels.Kernel, finding: Finding, seeds: Sequence[int]) -> Case:
    """Run a finding with one seed after another until it shows."""
    for seed in seeds:
        with machine.Processors().taken() as cpu:
            output = in_guest(kernel, finding.program, seed, cpu)
        seen, what = finding.read(output)
        if seen:
            break
    return Case(kernel=kernel.version, seen=seen, seed=seed, what=what, output=output)


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("findings", nargs="*", metavar="FINDING", help=f"of {', '.join(FINDINGS)}; all")
    parser.add_argument("--testbed", action="append", help="virtual[:RELEASE]; repeat")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=20, help="most to try for a finding")
    parser.add_argument("--write", action="store_true", help="keep the results, and write the page's table")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.findings) - set(FINDINGS)):
        parser.error(f"expected findings of {', '.join(FINDINGS)}, found {', '.join(unknown)}")
    seeds = range(asked.seed, asked.seed + asked.seeds)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for bed in asked.testbed or ["virtual"]:
        kernel = kernels.find(bed.partition(":")[2])
        for name in asked.findings or FINDINGS:
            result = case(kernel, FINDINGS[name], seeds)
            print(f"{name} on Linux {result.kernel}: {_cell(result)}\n{result.output}", flush=True)
            kept.setdefault(kernel.release, {})[name] = msgspec.to_builtins(result)
            if asked.write:
                _write({release: kept[release] for release in sorted(kept, key=kernels.numbers)})


def _write(kept: dict[str, Any]) -> None:
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    docs.replace(PAGE, "cases", "\n".join(docs.table(_rows(kept))))


def _rows(kept: dict[str, Any]) -> list[list[str]]:
    """A line for each finding, a column for each release."""
    rows = [["finding", *kept]]
    for name, finding in FINDINGS.items():
        found = [cases.get(name) for cases in kept.values()]
        cells = ["not asked" if one is None else _cell(msgspec.convert(one, Case)) for one in found]
        rows.append([finding.title, *cells])
    versions = [", ".join(sorted({one["kernel"] for one in cases.values()})) for cases in kept.values()]
    return [*rows, ["version", *versions]]


def _cell(one: Case) -> str:
    if one.seen:
        return f"**seen**, seed {one.seed}: {one.what}"
    return f"not seen, seeds to {one.seed}: {one.what}"


if __name__ == "__main__":
    main()
