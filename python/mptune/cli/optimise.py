"""`mptune optimise`: the main job on the command line. What it shows is in `_answer`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, console, emit_json, examples
from mptune.cli._reading import BufferUnitOption, ColumnOption, ThroughputUnitOption, reading
from mptune.errors import InputError
from mptune.papers import CCS, PMS

if TYPE_CHECKING:
    from mptune.measurements import Measurements

#: Options that say how to measure, and those that say how to read: one kind excludes the other.
_MEASURING = (
    *("buffers", "runs", "duration", "impact_runs", "impact_duration", "settle", "zero", "confirm_runs"),
    *("testbed", "jobs"),
)
_READING = ("throughput_unit", "buffer_unit", "column")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune optimise UNIS-HiN                                          # as the paper: 6480 trials",
            "mptune optimise UNIS-HiN --buffers 0.5:30:2.5 --runs 3            # coarser, and soon done",
            "mptune optimise my-sites.toml --cc cubic,olia --sacrifice 2% --out runs/mine",
            "mptune optimise SRL-HU --model quadratic                          # the paper's model",
            "mptune optimise --from data.csv --sacrifice 10%                   # measured elsewhere",
            "mptune optimise UiT-HAW --selection literal --json --quiet",
        )
    )(optimise)


def optimise(
    ctx: typer.Context,
    topology: Annotated[
        str | None,
        typer.Argument(metavar="TOPOLOGY", help="A topology file, or the name of a shipped scenario."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--from", metavar="DATA.csv", help="Decide from these measurements; measure nothing."),
    ] = None,
    cc: Annotated[
        list[str] | None,
        typer.Option(help=f"Congestion controls; repeat, or use commas.  [default: {','.join(CCS)}]"),
    ] = None,
    pm: Annotated[
        list[str] | None,
        typer.Option(help=f"Path managers; repeat, or use commas.  [default: {','.join(PMS)}]"),
    ] = None,
    buffers: Annotated[str, typer.Option(help="MiB, as low:high:step or a,b,c.")] = "0.5:30:0.5",
    runs: Annotated[int, typer.Option(help="Runs of each configuration of the sweep.")] = 9,
    duration: Annotated[str, typer.Option(help="Of each trial of sweep and confirmation.")] = "30s",
    sacrifice: Annotated[str, typer.Option(help="Throughput given up for a smaller buffer.")] = "7%",
    selection: Annotated[
        str,
        typer.Option(help="global: within the sacrifice of the best of all; literal: of its own maximum."),
    ] = "global",
    on_grid: Annotated[
        bool, typer.Option("--on-grid", help="Recommend a measured buffer size only.")
    ] = False,
    model: Annotated[
        str,
        typer.Option(
            help="quadratic (the paper's), saturating, monotone, smooth; auto: the one that predicts best."
        ),
    ] = "auto",
    resamples: Annotated[
        int, typer.Option(help="Resamples of the runs for the intervals of the answer; 0: none.")
    ] = 200,
    impact_runs: Annotated[int, typer.Option(help="Runs per subflow for its impact factor.")] = 10,
    impact_duration: Annotated[str, typer.Option(help="T of the impact factors.")] = "30s",
    settle: Annotated[str, typer.Option(help="Leave out so much at the start of T (see impact).")] = "0s",
    zero: Annotated[
        str, typer.Option(help="Set of a subflow at exactly 0: standby or optional.")
    ] = "standby",
    confirm_runs: Annotated[int, typer.Option(help="Fresh runs of the answer and of the default.")] = 9,
    throughput_unit: ThroughputUnitOption = None,
    buffer_unit: BufferUnitOption = None,
    column: ColumnOption = None,
    out: Annotated[str | None, typer.Option(help="Run directory; runs/<name>-<time> by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    seed: Annotated[int, typer.Option(help="Base of all seeds; the same one gives the same files.")] = 1,
    testbed: Annotated[str, typer.Option(help="Where to measure.")] = "simulated",
    jobs: _options.JobsOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the best configuration: subflows, congestion control, smallest buffer, throughput.

    Measures the impact factor of every subflow, sweeps path managers, congestion controls and buffers,
    fits a response model, selects the smallest buffer within the sacrifice of the best throughput, tells
    how sure that is, and measures that configuration and the plain default (fullmesh, cubic, largest
    buffer) afresh. All observations, the result and its report are written to the run directory; a run that
    was interrupted goes on with mptune campaign resume. mptune report draws every figure as a file.

    With --from the measurements come from a CSV file (columns and units as for mptune fit). Nothing is
    measured then: no impact factors, no confirmation; a topology adds the traditional buffers.
    """
    from datetime import datetime

    from mptune.campaign.directory import check_writable, default_directory, run_directory
    from mptune.campaign.grid import parse_buffers
    from mptune.campaign.progress import Reporter
    from mptune.cli import _answer
    from mptune.cli._campaign import keeping
    from mptune.decision import DecisionOptions
    from mptune.definition import Definition
    from mptune.execution import start
    from mptune.impact import ImpactOptions
    from mptune.measurements import read_measurements
    from mptune.optimise import OptimiseOptions
    from mptune.optimise_from import optimise_from
    from mptune.report.documents import result_document, write_result
    from mptune.report.files import PAGE, write_page
    from mptune.report.reading import read_run
    from mptune.topology import load

    _check_source(ctx, topology, data)
    loaded = None if topology is None else load(topology)
    deciding: dict[str, Any] = {
        "sacrifice": _options.share("--sacrifice", sacrifice),
        "selection": selection,
        "model": model,
        "on_grid": on_grid,
        "resamples": resamples,
        "seed": seed,
    }
    reporter = Reporter(quiet=quiet)
    now = datetime.now().astimezone()
    name = Path(data or "").stem if loaded is None else loaded.name
    directory = Path(out) if out is not None else default_directory(name, now)
    check_writable(directory, force=force)
    if data is not None:
        ccs, pms = _options.names(cc or ()), _options.names(pm or ())
        how = reading(throughput_unit, buffer_unit, column, None, ccs=ccs, pms=pms)
        measured = read_measurements(data, how)
        decision = DecisionOptions(**deciding)
        result = optimise_from(
            measured, decision, topology=loaded, reporter=reporter, **_stated_pm(measured, pms)
        )
        asked = {"from": data, "sha256": _digest(data), **_asked(how), **_asked(decision)}
        with run_directory(directory, force=force) as files:
            write_result(files, result, asked, now)
            write_page(read_run(files, directory.resolve().name), files)
    else:
        assert loaded is not None  # one of them is given
        sizes = parse_buffers(buffers)
        options = OptimiseOptions(
            pms=_options.names(pm or PMS),
            ccs=_options.names(cc or CCS),
            buffers=sizes,
            runs=runs,
            duration_ns=_options.duration_ns("--duration", duration),
            impact=ImpactOptions(
                runs=impact_runs,
                window_ns=_options.duration_ns("--impact-duration", impact_duration),
                buffer_bytes=sizes[-1],
                settle_ns=_options.duration_ns("--settle", settle),
                zero=zero,
                seed=seed,
            ),
            confirm_runs=confirm_runs,
            **deciding,
        )
        definition = Definition(name=loaded.name, topology=loaded, testbed=testbed, options=options)
        workers = _options.jobs(jobs)
        with keeping(directory):
            found = start(definition, directory, force=force, workers=workers, reporter=reporter)
        assert found is not None  # the main job has a result
        result = found
    if as_json:
        emit_json({**result_document(result), "directory": str(directory), "report": str(directory / PAGE)})
    else:
        _answer.show(console(), result, directory)


def _check_source(ctx: typer.Context, topology: str | None, data: str | None) -> None:
    """Measure or read: what the one needs, the other refuses."""
    if topology is None and data is None:
        raise InputError("TOPOLOGY", "", "expected a topology, or measurements by --from, found neither")
    needless, why = (_READING, "without") if data is None else (_MEASURING, "with")
    for name in needless:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise InputError(option, "", f"expected it not to be given {why} --from")


def _stated_pm(measured: Measurements, pms: tuple[str, ...]) -> dict[str, str]:
    """Path manager of a file that has no such column, if --pm says it."""
    if "pm" in measured.factors or not pms:
        return {}
    if len(pms) > 1:
        raise InputError(
            "--pm", "", f"expected one path manager, as {measured.path} has no such column, found {len(pms)}"
        )
    return {"pm": pms[0]}


def _digest(data: str) -> str:
    """SHA-256 of the file the decision came from."""
    from hashlib import sha256

    return sha256(Path(data).read_bytes()).hexdigest()


def _asked(options: object) -> dict[str, Any]:
    """Options as `config.json` keeps them."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(options)
    return built
