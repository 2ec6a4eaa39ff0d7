"""Scenarios calibrated on what the papers publish of them, apart from the claims that judge the result.

The rows are those of `mptune.papers.measure.fitting`, under the papers' stack. Curves that a model prints at
eight buffers are thinned. Writes SCENARIO.calibrated.toml into a folder, and prints what was inferred.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from mptune.calibration import CalibrationOptions, calibrated_text
from mptune.calibration.job import calibrate
from mptune.calibration.parameters import KINDS
from mptune.calibration.result import off
from mptune.papers.measure.fitting import rows
from mptune.runner.progress import Reporter
from mptune.table.configured import Measured
from mptune.topology import load
from mptune.units import MIB

#: Of models over the buffer, the sizes that are used, bytes.
SIZES = (MIB // 2, 9 * MIB, 30 * MIB)

#: What calibrated files name as their data.
DATA = "the throughputs and impact factors that the papers print"


def main() -> int:
    """Calibrate, write, print."""
    asked = arguments()
    console = Console(width=130)
    for name in asked.scenarios:
        options = CalibrationOptions(
            budget=asked.budget,
            longest_ns=asked.longest * 10**9,
            discrepancy=asked.discrepancy,
            values=tuple(asked.values.split(",")),
            jobs=asked.jobs,
        )
        result = calibrate(load(name), thinned(rows(name)), options, data=DATA, reporter=Reporter())
        target = Path(asked.out) / f"{name}.calibrated.toml"
        target.write_text(calibrated_text(result, name, name=f"{name}.calibrated", folder=target.parent))
        console.print(
            f"{name}: {len(result.fitted)} rows, off by {off(result.error)}, "
            f"before {off(result.nominal_error)} (misfit {result.misfit:.2f}, "
            f"before {result.nominal_misfit:.2f}); {target}"
        )
        for parameter in result.inferred:
            console.print(
                f"  {parameter.key}: {parameter.stated} -> {parameter.value} "
                f"({parameter.low} to {parameter.high}, {parameter.determined})"
            )
        for row in result.fitted:
            numbers = " ".join(f"{number:8.3g}" for number in (row.measured, row.nominal, row.simulated))
            console.print(f"  {numbers}  {row.configuration}")
    return 0


def thinned(measured: list[Measured]) -> list[Measured]:
    """Rows without some buffers of the models' curves."""
    curves = {row.configuration.buffer_bytes for row in measured}
    if len(curves) <= len(SIZES):
        return measured
    return [row for row in measured if row.configuration.buffer_bytes in SIZES]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    parser.add_argument("--budget", type=int, default=400, help="networks simulated for each")
    parser.add_argument("--longest", type=int, default=30, help="seconds of a trial at most")
    parser.add_argument("--discrepancy", type=float, default=0.15)
    parser.add_argument("--values", default=",".join(KINDS), help="kinds of values to infer")
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--out", default="target/benchmarks", help="folder of the files")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
