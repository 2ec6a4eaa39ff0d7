"""`mptune optimise`: the main job on the command line.

`_answers` prints the answer: as `mptune.result.screen` words it, with `--details` as `_result_tables` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.campaign.definition import Definition
from mptune.cli._common import (
    DetailsOption,
    ForceOption,
    JsonOption,
    OutOption,
    QuietOption,
    add,
    complete_scenarios,
    load_topology,
)
from mptune.cli._measurement_file import BufferUnitOption, ColumnOption, ThroughputUnitOption, named, reading
from mptune.decision import DecisionOptions
from mptune.errors import InputError
from mptune.optimisation.main_job import Result
from mptune.optimisation.mpcoa import MpcoaOptions
from mptune.optimisation.options import OptimiseOptions
from mptune.options import Given, Options
from mptune.options.trials import MeasuringOptions
from mptune.runner.executors import Executor, ExecutorOptions

if TYPE_CHECKING:
    from mptune.optimisation.outcomes import Outcome
    from mptune.runner.progress import Reporter
    from mptune.table import Measurements, ReadOptions
    from mptune.topology import Topology


_AS_PAPERS = (
    "MPCOA's Algorithm 1, with its own stop rule. Other defaults: --strategy grid --impact eq5 --sets signs "
    "--model quadratic --selection global --off-by 0 --no-tcp --no-extend; any of them may be given."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        optimise,
        "mptune optimise CLOUD-HOME.hybrid                                 # a home with ADSL and LTE",
        "mptune optimise my-sites.toml --cc cubic,olia --sacrifice 2% --out runs/mine",
        "mptune optimise UNIS-HiN --testbed namespaces --budget 30min      # on this machine's kernel",
        "mptune optimise UNIS-HiN --as-papers --stack v0.9x                # MPCOA's Algorithm 1, its kernel",
        "mptune optimise my-sites.toml --as-papers --cc cubic,olia         # the same, with two CCs",
        "mptune optimise UNIS-HiN --strategy grid                          # everything is measured",
        "mptune optimise my-sites.toml --no-tcp                            # MPTCP, even if TCP is faster",
        "mptune optimise SRL-HU --model quadratic                          # the paper's model",
        "mptune optimise UiB-UNIS --transfer 64KiB,512KiB,4MiB             # completion times, by size",
        "mptune optimise UiB-UNIS --transfer 4MiB --no-size-known          # of unknown size",
        "mptune optimise CLOUD-HOME.hybrid --workload messages:200B/100ms  # delays of calls and games",
        "mptune optimise KU-HiG.buffersizes --initial-path K-U,K-P         # where to begin, too",
        "mptune optimise CLOUD-HOME.day --every 2h --for 24h               # again every two hours",
        "mptune optimise --from data.csv --sacrifice 10%                   # measured elsewhere",
        "mptune optimise UiT-HAW --selection literal --json --quiet",
    )


def optimise(
    options: Given[OptimiseOptions],
    measuring: Given[MeasuringOptions],
    where: Given[ExecutorOptions],
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPOLOGY",
            help="A topology file, or the name of a shipped scenario.",
            autocompletion=complete_scenarios,
        ),
    ] = None,
    as_papers: Annotated[bool, typer.Option("--as-papers", help=_AS_PAPERS)] = False,
    data: Annotated[
        str | None,
        typer.Option("--from", metavar="DATA.csv", help="Use these measurements; measure nothing."),
    ] = None,
    throughput_unit: ThroughputUnitOption = None,
    buffer_unit: BufferUnitOption = None,
    column: ColumnOption = None,
    out: OutOption = None,
    force: ForceOption = False,
    details: DetailsOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the best subflows, congestion control and buffer.

    It measures whatever may still change the answer, and ends when that is certain or the budget is used up.
    The answer has the smallest buffer within the accepted sacrifice of throughput, and is measured again
    beside the plain default. Plain TCP is the answer where it is clearly faster. Ctrl-C prints the best
    answer so far; mptune campaign resume continues.

    First come the impact factors of all subflows; then path managers, sets of subflows, congestion controls
    and buffers compete. The plain default is fullmesh, cubic and the largest buffer, and confirmation has new
    seeds. All observations, the result and a report are in the run directory; mptune report writes every
    figure as a file.

    With --as-papers it is Algorithm 1 of the MPCOA paper: impact factors (Eq. 5), the set SP* by their signs
    (Eq. 6), every combination with every buffer, a quadratic response model of the means for each path
    manager (Eq. 8), further runs until its R-square is 0.90 or more and its p 0.05 or less (step 6; three
    times --runs at most), the smallest buffer within the sacrifice (Eq. 9 to 12), and the traditional buffer
    of Table 5 by the measured RTTs and timeouts. The answer lists the steps. --stack v0.9x is the MPTCP of
    the paper.

    With --transfer the answer is for transfers of these sizes instead: for each size the configuration with
    the smallest completion time, and the smallest buffer that is not slower.

    With --workload it is for what programs do: the configuration with the best --objective, such as the 99th
    percentile of the delay, within --at-most-delay and --at-most-gap, and the smallest buffer that is not
    worse. Its throughput, and what an outage costs, are shown beside it.

    With --from the measurements come from a CSV file (columns and units as for mptune fit), and nothing is
    measured: no impact factors, no confirmation. A topology adds the traditional buffers.
    """
    from mptune.cli import _answers
    from mptune.runner.progress import Reporter
    from mptune.store.directory import default_directory

    given = measuring.build()
    loaded = None if topology is None else load_topology(topology, reverse=given.reverse)
    name = Path(data or "").stem if loaded is None else loaded.name
    directory = Path(out) if out is not None else default_directory(name, datetime.now().astimezone())
    reporter = Reporter(quiet=quiet)
    result: Outcome
    if data is not None:
        _refuse(
            [
                *(["--as-papers"] if as_papers else []),
                *options.beyond(_Reading),
                *measuring.beyond(Options),
                *where.beyond(Options),
            ],
            "with",
        )
        columns = partial(reading, throughput_unit, buffer_unit, column, None)
        result = _read(data, loaded, options, columns, directory, reporter, force=force)
    else:
        if loaded is None:
            raise InputError("TOPOLOGY", "", "expected a topology or --from, found neither")
        columns_given = {
            "--throughput-unit": throughput_unit,
            "--buffer-unit": buffer_unit,
            "--column": column,
        }
        _refuse([flag for flag, value in columns_given.items() if value is not None], "without")
        definition = Definition(
            name=loaded.name,
            topology=loaded,
            testbed=given.testbed,
            options=options.build(MpcoaOptions if as_papers else None),
        )
        executor = where.build().create(given.jobs)
        result = _measure(definition, directory, given.jobs, executor, reporter, force=force)
    _answers.show(result, directory, as_json, details=details)


class _Reading(DecisionOptions, frozen=True, kw_only=True):
    """Options that apply with --from: how to decide, and which rows of the file to use."""

    pms: tuple[str, ...] = ()
    ccs: tuple[str, ...] = ()


def _refuse(flags: Sequence[str], how: str) -> None:
    """Refuse flags that do not apply with (or without) --from."""
    if flags:
        raise InputError(flags[0], "", f"must not be given {how} --from")


def _measure(
    definition: Definition,
    directory: Path,
    jobs: int | None,
    executor: Executor,
    reporter: Reporter,
    *,
    force: bool,
) -> Outcome:
    """The main job as a campaign."""
    from mptune.campaign.execution import start
    from mptune.cli._run_directory import keeping

    with keeping(directory):
        outcome = start(
            definition, directory, force=force, workers=jobs, executor=executor, reporter=reporter
        )
    assert outcome is not None  # the main job has a result
    return outcome


def _read(
    data: str,
    topology: Topology | None,
    options: Given[OptimiseOptions],
    columns: Callable[..., ReadOptions],
    directory: Path,
    reporter: Reporter,
    *,
    force: bool,
) -> Result:
    """The decision on measurements made elsewhere, in a run directory."""
    from mptune.files import name_of
    from mptune.optimisation.measurements import optimise_from
    from mptune.report.files import write_page
    from mptune.result.making import write_result
    from mptune.result.reading import read_run
    from mptune.store.directory import check_writable, run_directory
    from mptune.table import read_measurements

    check_writable(directory, force=force)
    ccs = named("--cc", [options.text("ccs") or ""])
    pms = named("--pm", [options.text("pms") or ""])
    how = columns(ccs=ccs, pms=pms)
    measured = read_measurements(data, how)
    decision = options.build(DecisionOptions)
    result = optimise_from(
        measured, decision, topology=topology, reporter=reporter, **_stated_pm(measured, pms)
    )
    asked = {"from": data, "sha256": _digest(data), **_asked(how), **_asked(decision)}
    with run_directory(directory, force=force) as files:
        write_result(files, result, asked, datetime.now().astimezone())
        write_page(read_run(files, name_of(directory)), files)
    return result


def _stated_pm(measured: Measurements, pms: tuple[str, ...]) -> dict[str, str]:
    """Path manager from --pm, for a file that has no such column."""
    if "pm" in measured.factors or not pms:
        return {}
    if len(pms) > 1:
        raise InputError(
            "--pm", "", f"expected one path manager, as {measured.path} has no such column, found {len(pms)}"
        )
    return {"pm": pms[0]}


def _digest(data: str) -> str:
    """SHA-256 of the file of measurements."""
    from hashlib import sha256

    from mptune.files import TABLE_LIMIT, read_bytes

    return sha256(read_bytes(Path(data), limit=TABLE_LIMIT)).hexdigest()


def _asked(options: object) -> dict[str, Any]:
    """Options as stored in `config.json`."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(options)
    return built
