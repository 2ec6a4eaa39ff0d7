"""`mptune optimise`: the main job on the command line. What it shows is in `_answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli import _options
from mptune.cli._common import JsonOption, TopologyArgument, console, emit_json, examples

if TYPE_CHECKING:
    from mptune.optimise import OptimiseOptions

#: The papers' path managers and congestion controls (MPCOA section 3).
_PMS = ["fullmesh", "pcdc"]
_CCS = ["cubic", "olia", "hybla", "reno", "scalable", "vegas"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune optimise UNIS-HiN                                          # as the paper: 6480 trials",
            "mptune optimise UNIS-HiN --buffers 0.5:30:2.5 --runs 3            # coarser, and soon done",
            "mptune optimise my-sites.toml --cc cubic,olia --sacrifice 2% --out runs/mine",
            "mptune optimise UiT-HAW --selection literal --json --quiet",
        )
    )(optimise)


def optimise(
    topology: TopologyArgument,
    cc: Annotated[list[str], typer.Option(help="Congestion controls; repeat, or use commas.")] = _CCS,
    pm: Annotated[list[str], typer.Option(help="Path managers; repeat, or use commas.")] = _PMS,
    buffers: Annotated[str, typer.Option(help="MiB, as low:high:step or a,b,c.")] = "0.5:30:0.5",
    runs: Annotated[int, typer.Option(help="Runs of each configuration of the sweep.")] = 9,
    duration: Annotated[str, typer.Option(help="Of each trial of sweep and confirmation.")] = "30s",
    sacrifice: Annotated[str, typer.Option(help="Throughput given up for a smaller buffer.")] = "7%",
    selection: Annotated[
        str,
        typer.Option(help="global: within the sacrifice of the best of all; literal: of its own maximum."),
    ] = "global",
    on_grid: Annotated[bool, typer.Option("--on-grid", help="Recommend a swept buffer size only.")] = False,
    model: Annotated[str, typer.Option(help="Response model.")] = "quadratic",
    impact_runs: Annotated[int, typer.Option(help="Runs per subflow for its impact factor.")] = 10,
    impact_duration: Annotated[str, typer.Option(help="T of the impact factors.")] = "30s",
    settle: Annotated[str, typer.Option(help="Leave out so much at the start of T (see impact).")] = "0s",
    zero: Annotated[
        str, typer.Option(help="Set of a subflow at exactly 0: standby or optional.")
    ] = "standby",
    confirm_runs: Annotated[int, typer.Option(help="Fresh runs of the answer and of the default.")] = 9,
    out: Annotated[str | None, typer.Option(help="Run directory; runs/<topology>-<time> by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run in --out.")] = False,
    seed: Annotated[int, typer.Option(help="Base of all seeds; the same one gives the same files.")] = 1,
    testbed: Annotated[str, typer.Option(help="Where to measure.")] = "simulated",
    jobs: Annotated[int | None, typer.Option(help="Trials side by side; one per core by default.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the best configuration: subflows, congestion control, smallest buffer, throughput.

    Measures the impact factor of every subflow, sweeps path managers, congestion controls and buffers,
    fits a response model, selects the smallest buffer within the sacrifice of the best throughput, and
    measures that configuration and the plain default (fullmesh, cubic, largest buffer) afresh. All
    observations, the result and the figures are written to the run directory.
    """
    from datetime import datetime
    from pathlib import Path

    from mptune import testbeds
    from mptune.campaign.directory import check_writable, default_directory
    from mptune.campaign.grid import parse_buffers
    from mptune.campaign.progress import Reporter
    from mptune.cli import _answer
    from mptune.impact import ImpactOptions
    from mptune.optimise import OptimiseOptions
    from mptune.optimise import optimise as run
    from mptune.report.documents import result_document, write_run
    from mptune.topology import load

    loaded = load(topology)
    sizes = parse_buffers(buffers)
    options = OptimiseOptions(
        pms=_options.names(pm),
        ccs=_options.names(cc),
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
        sacrifice=_options.share("--sacrifice", sacrifice),
        selection=selection,
        model=model,
        on_grid=on_grid,
        seed=seed,
    )
    now = datetime.now().astimezone()
    directory = Path(out) if out is not None else default_directory(loaded.name, now)
    check_writable(directory, force=force)
    result = run(
        loaded,
        testbeds.create(testbed),
        options,
        workers=_options.jobs(jobs),
        reporter=Reporter(quiet=quiet),
    )
    write_run(directory, result, {"testbed": testbed, **_asked(options)}, now, force=force)
    if as_json:
        emit_json({**result_document(result), "directory": str(directory)})
    else:
        _answer.show(console(), result, directory)


def _asked(options: OptimiseOptions) -> dict[str, Any]:
    """Options as `config.json` keeps them."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(options)
    return built
