"""Scenarios calibrated on what the papers publish of them, and whether each is worth shipping.

The rows are those of `mptune.papers.measure.fitting`, under the papers' stack: no claim that judges the
result is among them. One rule for every pair, which looks at these rows alone:

- used: at most 24 rows; where there are 6 or more, every third is held out, and what is above 24
- inferred: every kind of value, a bottleneck in the core only where an RTT is 100 ms or more; of fewer than 6
  rows only the losses, and that bottleneck or the rates, since no more can be told apart, from four times as
  many networks
- compared: scenario and calibrated network, by these rows and by the claims of the part "fit", in trials of
  the printed duration with seeds of their own
- shipped: if the network explains the used rows, their mean error falls by 0.05 of the logarithm or more
  (about 5 %), that of the rows held out does not rise, and the score of the fitted claims does not fall

Writes SCENARIO.calibrated.toml and the decision as JSON into a folder, and prints both. With --decide it
takes the files that are there; with --write-docs the decisions of the folder are put into the docs too.
"""

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.fidelity.measured import PAGE, markdown
from benchmarks.shared import docs
from mptune.calibration import CalibrationOptions, calibrated_text
from mptune.calibration.job import calibrate
from mptune.calibration.likelihood import simulated, trials
from mptune.calibration.parameters import KINDS, USUAL
from mptune.calibration.result import MOST_MISFIT, off
from mptune.errors import InputError
from mptune.papers.measure.claims import CALIBRATED, claims, on_network
from mptune.papers.measure.fitting import rows
from mptune.papers.measure.rule import SCORES
from mptune.papers.measure.running import MeasureOptions, measure
from mptune.runner.progress import Reporter
from mptune.runner.runner import TrialRunner
from mptune.table.configured import Measured
from mptune.testbeds import create
from mptune.topology import Topology, load

#: Rows that are used at most; fewest rows of which some are held out, and which.
MOST, FEWEST, EVERY = 24, 6, 3

#: RTT from which the core may have a bottleneck of its own, ns.
LONG_NS = 100_000_000

#: How much the mean error of the used rows has to fall, of the logarithm.
WORTH = 0.05

#: Seeds of the trials that decide; the calibration has others.
SEEDS = (1001, 1002)

#: What calibrated files name as their data.
DATA = "the throughputs and impact factors that the papers print"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision to ship a calibrated scenario, with its reason.

    Attributes
    ----------
    used, held_out : number of rows.
    errors : mean absolute logarithm of simulated over printed: of the used rows on the scenario and on the
        calibrated network, then of those held out.
    scores : mean score of the fitted claims' statements, 1 for one that agrees, on both networks.
    misfit : of the used rows, root mean square in scales of the likelihood; None where a file was there.
    """

    scenario: str
    used: int
    held_out: int
    errors: tuple[float, float, float, float]
    scores: tuple[float, float]
    misfit: float | None = None

    @property
    def shipped(self) -> bool:
        """The rule."""
        before, after, held_before, held_after = self.errors
        explained = self.misfit is None or self.misfit <= MOST_MISFIT
        kept = held_after <= held_before and self.scores[1] >= self.scores[0]
        return explained and before - after >= WORTH and kept


def split(measured: Sequence[Measured]) -> tuple[list[Measured], list[Measured]]:
    """Rows that are used, and those that are held out."""
    if len(measured) < FEWEST:
        return list(measured), []
    used = [row for number, row in enumerate(measured) if number % EVERY != EVERY - 1]
    if len(used) > MOST:
        used = [used[number * len(used) // MOST] for number in range(MOST)]
    chosen = {row.rows for row in used}
    return used, [row for row in measured if row.rows not in chosen]


def inferred_kinds(topology: Topology, used: int) -> tuple[str, ...]:
    """Kinds of values to infer from a number of rows."""
    long = any(path.base_rtt_ns >= LONG_NS for path in topology.paths)
    if used < FEWEST:
        return ("core", "loss") if long else ("rate", "loss")
    return KINDS if long else USUAL


def calibrated(name: str, asked: argparse.Namespace, console: Console) -> float:
    """Calibrate a scenario, write it, and return the misfit."""
    nominal = load(name)
    used, _ = split(rows(name))
    options = CalibrationOptions(
        budget=asked.budget * (4 if len(used) < FEWEST else 1),
        longest_ns=asked.longest * 10**9,
        discrepancy=asked.discrepancy,
        values=inferred_kinds(nominal, len(used)),
        jobs=asked.jobs,
    )
    result = calibrate(nominal, used, options, data=DATA, reporter=Reporter())
    target = file_of(name, asked)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(calibrated_text(result, name, name=f"{name}{CALIBRATED}", folder=target.parent))
    for value in result.inferred:
        interval = f"{value.low} to {value.high}, {value.determined}"
        console.print(f"  {value.key}: {value.stated} -> {value.value} ({interval})")
    for row in result.fitted:
        numbers = " ".join(f"{number:8.3g}" for number in (row.measured, row.nominal, row.simulated))
        console.print(f"  {numbers}  {row.configuration}")
    return result.misfit


def file_of(name: str, asked: argparse.Namespace) -> Path:
    """The calibrated scenario."""
    return Path(asked.out) / f"{name}{CALIBRATED}.toml"


def decided(name: str, misfit: float | None, asked: argparse.Namespace) -> Decision:
    """Compare a calibrated scenario with the scenario, by what may be fitted."""
    used, held_out = split(rows(name))
    networks = name, str(file_of(name, asked))
    errors = [error_of(load(network), some) for some in (used, held_out) for network in networks]
    before, after = (score_of(name, network, asked.jobs) for network in networks)
    return Decision(
        scenario=name,
        used=len(used),
        held_out=len(held_out),
        errors=(errors[0], errors[1], errors[2], errors[3]),
        scores=(before, after),
        misfit=misfit,
    )


def score_of(name: str, network: str, jobs: int | None) -> float:
    """Mean score of the statements of a scenario's fitted claims, measured on a network."""
    mine = [claim for claim in claims() if claim.part == "fit" and name in claim.scenarios]
    runner = TrialRunner(create("simulated"), jobs)
    options = MeasureOptions(runs=len(SEEDS), seed=SEEDS[0])
    measured = measure([on_network(claim, network) for claim in mine], runner, options)
    statements = [statement for again in measured for statement in again.judgement.statements]
    return statistics.fmean(SCORES[statement.verdict] for statement in statements)


def error_of(network: Topology, measured: Sequence[Measured]) -> float:
    """Mean absolute logarithm of simulated over printed throughput, in trials of the printed duration."""
    testbed = create("simulated")
    longest = 10**15
    runs = [[testbed.run(trial) for trial in trials(network, measured, longest, seed)] for seed in SEEDS]
    errors = []
    for row, observations in zip(measured, zip(*runs, strict=True), strict=True):
        mean = statistics.fmean(simulated(row, observation).value for observation in observations)
        errors.append(abs(math.log(max(mean, 1e-3) / row.value)))
    return statistics.fmean(errors) if errors else 0.0


def write_docs(folder: Path) -> None:
    """Put the decisions of a folder into the page, in the order of the claims."""
    listed = []
    for name in scenarios():
        path = folder / f"{name}.decision.json"
        if not path.is_file():
            listed.append([name, str(len(split(rows(name))[0])), "", "", "", "not calibrated"])
            continue
        decision = msgspec.json.decode(path.read_bytes())
        before, after, held_before, held_after = map(off, decision["errors"])
        held = f"{held_before} to {held_after} ({decision['held_out']})" if decision["held_out"] else "none"
        scores = " to ".join(f"{score:.2f}" for score in decision["scores"])
        kept = "**shipped**" if decision["shipped"] else "not shipped"
        listed.append([name, str(decision["used"]), f"{before} to {after}", held, scores, kept])
    head = ("pair", "rows", "off by", "rows held out", "score of the fitted claims", "")
    docs.replace(PAGE, "decisions", markdown(head, listed))


def scenarios() -> list[str]:
    """Every scenario of which the papers publish numbers to fit."""
    return list(dict.fromkeys(name for claim in claims() if claim.part == "fit" for name in claim.scenarios))


def main() -> int:
    """Every pair that was asked for."""
    asked = arguments()
    console = Console(width=130)
    for name in asked.scenarios or ([] if asked.write_docs else scenarios()):
        try:
            misfit = None if asked.decide else calibrated(name, asked, console)
        except InputError as error:
            console.print(f"{name}: {error}")
            continue
        decision = decided(name, misfit, asked)
        before, after, held_before, held_after = map(off, decision.errors)
        console.print(
            f"{name}: {decision.used} rows off by {after}, before {before}; {decision.held_out} held out by "
            f"{held_after}, before {held_before}; score of the fitted claims {decision.scores[1]:.2f}, "
            f"before {decision.scores[0]:.2f}: {'shipped' if decision.shipped else 'not shipped'}"
        )
        document = {**msgspec.to_builtins(decision), "shipped": decision.shipped}
        Path(asked.out, f"{name}.decision.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(document))
        )
    if asked.write_docs:
        write_docs(Path(asked.out))
    return 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="all with published numbers to fit")
    parser.add_argument("--budget", type=int, default=150, help="networks simulated for each")
    parser.add_argument("--longest", type=int, default=60, help="seconds of a trial at most")
    parser.add_argument("--discrepancy", type=float, default=0.15)
    parser.add_argument("--write-docs", action="store_true", help="put the decisions into the docs too")
    parser.add_argument("--decide", action="store_true", help="decide on files made before")
    parser.add_argument("--jobs", type=int, help="simulated trials in parallel; one per core")
    parser.add_argument("--out", default="target/benchmarks", help="folder of the files")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
