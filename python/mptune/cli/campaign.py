"""`mptune campaign`: run, resume, look at, export and merge campaigns that outlive any interruption."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, console, emit_json, examples
from mptune.errors import InputError

if TYPE_CHECKING:
    from mptune.optimise import Result

QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
DirectoryArgument = Annotated[str, typer.Argument(metavar="DIR", help="A run directory.")]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="Campaigns that survive any interruption."
    )
    commands = (
        (
            run,
            "mptune campaign run campaign.toml                      # into runs/<name>-<time>",
            "mptune campaign run campaign.toml --every 1h --for 3d  # a sweep, again each hour",
        ),
        (resume, "mptune campaign resume runs/UNIS-HiN-20240517-123000"),
        (status, "mptune campaign status runs/mine", "mptune campaign status runs/mine --json"),
        (
            export,
            "mptune campaign export runs/mine                       # CSV files beside the store",
            "mptune campaign export runs/mine --format parquet --out tables",
        ),
        (merge, "mptune campaign import runs/mine --from runs/other-host"),
    )
    for command, *lines in commands:
        name = "import" if command is merge else None
        group.command(name, epilog=examples(*lines))(command)
    app.add_typer(group, name="campaign")


def run(
    file: Annotated[str, typer.Argument(metavar="FILE.toml", help="What to measure; see the docs.")],
    every: Annotated[str | None, typer.Option(help="Repeat a sweep so often, for the time of --for.")] = None,
    lasting: Annotated[str | None, typer.Option("--for", help="Repeat a sweep for so long.")] = None,
    out: Annotated[str | None, typer.Option(help="Run directory; runs/<name>-<time> by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    jobs: _options.JobsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the campaign a file describes."""
    from datetime import datetime

    import msgspec

    from mptune.campaign.directory import default_directory
    from mptune.campaign.progress import Reporter
    from mptune.cli._campaign import keeping
    from mptune.definition import SweepOptions, check_repeat, read_definition
    from mptune.execution import start

    definition = read_definition(file)
    if every is not None or lasting is not None:
        if every is None or lasting is None:
            raise InputError("--every" if every is None else "--for", "", "expected together with the other")
        if not isinstance(definition.options, SweepOptions):
            raise InputError("--every", "", 'expected only for a campaign of kind = "sweep"')
        times = _options.duration_ns("--every", every), _options.duration_ns("--for", lasting)
        check_repeat(*times, "--every")
        options = msgspec.structs.replace(definition.options, every_ns=times[0], for_ns=times[1])
        definition = msgspec.structs.replace(definition, options=options)
    now = datetime.now().astimezone()
    directory = default_directory(definition.name, now) if out is None else Path(out)
    workers = _options.jobs(jobs)
    with keeping(directory):
        result = start(definition, directory, force=force, workers=workers, reporter=Reporter(quiet=quiet))
    _show(result, directory, as_json)


def resume(
    directory: DirectoryArgument,
    jobs: _options.JobsOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with an interrupted campaign: only what is missing is run."""
    from mptune.campaign.progress import Reporter
    from mptune.cli._campaign import keeping
    from mptune.execution import resume as go_on

    workers = _options.jobs(jobs)
    with keeping(Path(directory)):
        result = go_on(Path(directory), workers=workers, reporter=Reporter(quiet=quiet))
    _show(result, Path(directory), as_json)


def status(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show how far a campaign is; it may be running."""
    from rich.table import Table

    from mptune.campaign.directory import STORE, is_unfinished
    from mptune.campaign.store import open_store

    path = Path(directory)
    with open_store(path / STORE, write=False) as store:
        campaign, phases, failures = store.campaign(), store.progress(), store.failures()
    complete = not is_unfinished(path)
    if as_json:
        emit_json(
            {
                "name": campaign.name,
                "created": campaign.created,
                "complete": complete,
                "phases": [one._asdict() for one in phases],
                "failures": [{"reason": reason, "trials": trials} for reason, trials in failures],
            }
        )
        return
    out = console()
    state = "complete" if complete else "not complete (mptune campaign resume goes on)"
    out.print(f"{campaign.name}, begun {campaign.created}: {state}.", style="bold")
    table = Table("phase", "round", "planned", "done", "failed")
    for one in phases:
        table.add_row(one.purpose, *(f"{number}" for number in one[1:]))
    out.print(table)
    for reason, trials in failures:
        out.print(f"{trials} failed: {reason}", markup=False)


def export(
    directory: DirectoryArgument,
    kind: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    out: Annotated[str | None, typer.Option(help="Where to; DIR/export by default.")] = None,
    series: Annotated[bool, typer.Option("--series", help="Also the throughput over time.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write trials, subflows and series as tables, with units in the names of the columns."""
    from mptune.campaign.directory import STORE
    from mptune.campaign.export import FORMATS
    from mptune.campaign.export import export as write
    from mptune.campaign.store import open_store

    _options.check_choice("--format", kind, tuple(FORMATS))
    target = Path(directory) / "export" if out is None else Path(out)
    with open_store(Path(directory) / STORE, write=False) as store:
        files = write(store, target, kind, series=series)
    if as_json:
        emit_json({"files": [str(file) for file in files]})
    else:
        for file in files:
            console().print(str(file), markup=False)


def merge(
    directory: DirectoryArgument,
    source: Annotated[list[str], typer.Option("--from", help="Another run directory; repeat.")],
    as_json: JsonOption = False,
) -> None:
    """Add the trials of other campaigns to this one; what it has already stays as it is."""
    from mptune.campaign.directory import STORE
    from mptune.campaign.store import open_store

    with open_store(Path(directory) / STORE) as store:
        added = {one: store.merge(Path(one) / STORE) for one in source}
    if as_json:
        emit_json({"added": added})
    else:
        for one, number in added.items():
            console().print(f"{number} trials added from {one}", markup=False)


def _show(result: Result | None, directory: Path, as_json: bool) -> None:
    """The answer of the main job, or where the observations of a sweep are."""
    from mptune.cli import _answer
    from mptune.report.documents import result_document
    from mptune.report.files import PAGE

    if as_json:
        document = {} if result is None else result_document(result)
        emit_json({**document, "directory": str(directory), "report": str(directory / PAGE)})
    elif result is None:
        console().print(f"All trials are done. Observations: {directory}", markup=False)
        console().print(f"Report: {directory / PAGE}", markup=False)
    else:
        _answer.show(console(), result, directory)
