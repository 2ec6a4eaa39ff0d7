"""`mptune campaign`: run, resume, inspect, export and merge campaigns that survive any interruption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli import _answers
from mptune.cli._common import (
    DetailsOption,
    ForceOption,
    JsonOption,
    OutOption,
    QuietOption,
    add,
    console,
    emit_json,
    subcommands,
)
from mptune.errors import InputError
from mptune.options import Given, Option, Place, by_flag, choice, in_file
from mptune.options.repetition import Every, Lasting
from mptune.options.trials import Jobs
from mptune.runner.executors import ExecutorOptions
from mptune.store.export import FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.store.round_trips import PathRtt

#: Statistics of an RTT that are shown (buffer-size study, Table II).
_OF_RTT = ("min", "mean", "median", "max")

DirectoryArgument = Annotated[str, typer.Argument(metavar="DIR", help="A run directory.")]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = subcommands("Run any factors over days; survives every interruption.")
    commands = (
        (
            run,
            "mptune campaign run campaign.toml                      # into runs/<name>-<time>",
            "mptune campaign run campaign.toml --every 1h --for 3d  # everything again each hour",
            "mptune campaign run campaign.toml --jobs 4 --out runs/mine",
        ),
        (
            resume,
            "mptune campaign resume runs/UNIS-HiN-20240517-123000",
            "mptune campaign resume runs/mine --again               # finished: recompute the answer only",
            "mptune campaign resume runs/mine --json --quiet",
        ),
        (
            status,
            "mptune campaign status runs/mine",
            "mptune campaign status runs/mine --json",
        ),
        (
            export,
            "mptune campaign export runs/mine                       # CSV files beside the store",
            "mptune campaign export runs/mine --format parquet --out tables",
            "mptune campaign export runs/mine --format csv --out tables",
        ),
        (
            merge,
            "mptune campaign import runs/mine --from runs/other-host",
            "mptune campaign import runs/mine --from runs/b --from runs/c",
            "mptune campaign import runs/mine --from runs/other-host --json",
        ),
    )
    for command, *lines in commands:
        name = "import" if command is merge else None
        add(group, command, *lines, name=name)
    app.add_typer(group, name="campaign")


def run(
    file: Annotated[str, typer.Argument(metavar="FILE.toml", help="The campaign file.")],
    where: Given[ExecutorOptions],
    every: Every = None,
    lasting: Lasting = None,
    out: OutOption = None,
    force: ForceOption = False,
    jobs: Jobs = None,
    details: DetailsOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the campaign described in a file.

    How such a file is written: docs/how-to/campaigns.md.
    """
    from datetime import datetime

    import msgspec

    from mptune.campaign.definition import read_definition
    from mptune.campaign.execution import start
    from mptune.cli._run_directory import keeping
    from mptune.runner.progress import Reporter
    from mptune.store.directory import default_directory

    definition = read_definition(file)
    if every is not None or lasting is not None:
        if every is None or lasting is None:
            missing, given = ("--every", "--for") if every is None else ("--for", "--every")
            raise InputError(missing, "", f"expected together with {given}")
        options = msgspec.structs.replace(definition.options, every_ns=every, for_ns=lasting)
        options.check()
        definition = msgspec.structs.replace(definition, options=options)
    now = datetime.now().astimezone()
    directory = default_directory(definition.name, now) if out is None else Path(out)
    chosen = where.build() if where.given else definition.executor
    with keeping(directory):
        result = start(
            definition,
            directory,
            force=force,
            workers=jobs,
            executor=chosen.create(jobs),
            reporter=Reporter(quiet=quiet),
            place=_place(file, repeated=every is not None),
        )
    _answers.show(result, directory, as_json, details=details)


def _place(file: str, *, repeated: bool) -> Place:
    """Place of an option: the file, except for a repetition by flags."""
    here = in_file(file)
    return lambda declaration: (
        by_flag(declaration)
        if repeated and declaration.fields in (("every_ns",), ("for_ns",))
        else here(declaration)
    )


def resume(
    directory: DirectoryArgument,
    where: ExecutorOptions,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Recompute the answer of a finished campaign from its trials; rewrite its results.",
        ),
    ] = False,
    jobs: Jobs = None,
    details: DetailsOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the missing trials of an interrupted campaign.

    Of a finished one the answer is shown; --details shows all of its evidence, recomputed from the trials.
    """
    from mptune.campaign.execution import resume as go_on
    from mptune.cli._run_directory import keeping
    from mptune.report.files import PAGE
    from mptune.runner.progress import Reporter
    from mptune.store.directory import is_finished

    path = Path(directory)
    if is_finished(path) and not (again or details):
        with keeping(path, report=not (path / PAGE).exists()):
            _answers.recall(path, as_json)
        return
    with keeping(path):
        result = go_on(path, workers=jobs, executor=where.create(jobs), reporter=Reporter(quiet=quiet))
    _answers.show(result, path, as_json, details=details)


def status(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Show the progress of a campaign, also while it runs.

    The RTTs and routes of its paths are shown too.
    """
    from mptune._terminal import DataTable
    from mptune.cli._route_tables import as_json_of, show_routes
    from mptune.routes.followed import read_followed
    from mptune.store import open_store
    from mptune.store.directory import STORE, is_unfinished
    from mptune.store.round_trips import path_rtts

    path = Path(directory)
    with open_store(path / STORE, write=False) as store:
        campaign, phases, failures = store.campaign(), store.progress(), store.failures()
        rtts = path_rtts(store)
    followed = read_followed(path)
    complete = not is_unfinished(path)
    if as_json:
        emit_json(
            {
                "name": campaign.name,
                "created": campaign.created,
                "complete": complete,
                "phases": [phase._asdict() for phase in phases],
                "failures": [{"reason": reason, "trials": trials} for reason, trials in failures],
                "rtts_ms": [
                    {
                        "path": rtt.path,
                        "trials": rtt.idle.n,
                        "idle": {name: getattr(rtt.idle, name) for name in _OF_RTT},
                        "loaded": rtt.loaded and {name: getattr(rtt.loaded, name) for name in _OF_RTT},
                    }
                    for rtt in rtts
                ],
                "routes": None if followed is None else as_json_of(followed),
            }
        )
        return
    out = console()
    state = "complete" if complete else "not complete (mptune campaign resume continues it)"
    out.print(f"{campaign.name}, started {campaign.created}: {state}.", style="bold")
    table = DataTable("phase", "round", "planned", "done", "failed")
    for phase in phases:
        table.add_row(phase.purpose, *(f"{number}" for number in phase[1:]))
    out.print(table)
    if rtts:
        _show_rtts(out, rtts)
    if followed is not None:
        show_routes(out, followed)
    for reason, trials in failures:
        out.print(f"{trials} failed: {reason}", markup=False)


def _show_rtts(out: Console, rtts: Sequence[PathRtt]) -> None:
    """RTTs of the paths (buffer-size study, Table II)."""
    from mptune.cli._tables import section, table

    listing = table("path", *(f"| {name}" for name in _OF_RTT), *(f"| loaded {name}" for name in _OF_RTT))
    for rtt in rtts:
        both = (rtt.idle, rtt.loaded)
        cells = [
            "-" if summary is None else f"{getattr(summary, name):.1f}"
            for summary in both
            for name in _OF_RTT
        ]
        listing.add_row(rtt.path, *cells)
    section(out, "RTT of each path over all trials (ms): without load, then at their ends", listing)


def export(
    directory: DirectoryArgument,
    kind: Annotated[str, Option(choice(lambda: FORMATS), "Format of the tables.", flag="--format")] = "csv",
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where to write.  [default: DIR/export]")
    ] = None,
    series: Annotated[bool, typer.Option("--series", help="Also write the throughput over time.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write trials, subflows and series as tables.

    The names of the columns have the units.
    """
    from mptune.store import open_store
    from mptune.store.directory import STORE
    from mptune.store.export import export as write

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
    source: Annotated[
        list[str], typer.Option("--from", metavar="DIR", help="Another run directory; repeat for more.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Add the trials of other campaigns to this one.

    Trials that are there stay unchanged.
    """
    from mptune.store import open_store
    from mptune.store.directory import STORE

    with open_store(Path(directory) / STORE) as store:
        added = {name: store.merge(Path(name) / STORE) for name in source}
    if as_json:
        emit_json({"added": added})
    else:
        for name, number in added.items():
            console().print(f"{number} trials added from {name}", markup=False)
