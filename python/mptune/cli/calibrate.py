"""`mptune calibrate`: what of a network nobody measured, inferred from measured throughput.

It reads, prints and writes; the inference is in `mptune.calibration`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.calibration import CalibrationOptions
from mptune.cli._common import JsonOption, QuietOption, TopologyArgument, add, console, echo, emit_json
from mptune.errors import InputError, Interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.calibration import Calibration, Inferred

#: Degrees to which a value is determined, in words.
_DETERMINED = {"well": "well", "weakly": "weakly", "not": "not determined by these data"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        calibrate,
        "mptune calibrate my-sites.toml measured.csv --out calibrated.toml",
        "mptune calibrate UiB-HiN measured.csv --stack v0.9x --budget 2000",
        "mptune calibrate my-sites.toml measured.csv --values queue,loss --json",
    )


def calibrate(
    topology: TopologyArgument,
    data: Annotated[
        str, typer.Argument(metavar="DATA.csv", help="Measurements, each with its configuration.")
    ],
    options: CalibrationOptions,
    out: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help="Write the calibrated topology to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing --out.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Infer the unknown values of a network from measured throughput.

    What the topology file assumes is inferred: rates, RTTs, queues, random loss, and how many TCP connections
    of others use each link that can be the bottleneck. Published and measured values stay. Networks are drawn
    from what is plausible and simulated with every row; those that explain the data give an interval (80 %)
    for each value, and the likeliest one is written to --out.

    The file needs a header and the columns cc, a buffer (buffer_mib, "buffer [KiB]", ...) and throughput_mbps
    or completion_s; pm (tcp for plain TCP), subflows (labels that carry data, with spaces between them),
    initial_path, duration_s or transfer_kib, stack, family, spread_mbps, runs, and a column per subflow such
    as U-U_mbps are optional. Ctrl-C ends it with the best network so far.
    """
    from mptune.calibration.job import calibrate as infer
    from mptune.calibration.written import new_file, write_calibrated
    from mptune.runner.progress import Reporter
    from mptune.table.configured import read_configured
    from mptune.topology import load

    target = None if out is None else new_file(out, force=force)
    loaded = load(topology)
    rows = read_configured(data, [path.label for path in loaded.paths], options.stack)
    result = infer(loaded, rows, options, data=Path(data).name, reporter=Reporter(quiet=quiet))
    if result.complete and not result.explains:
        raise InputError(data, "", result.unexplained)
    if target is not None:
        write_calibrated(target, result, topology)
    if as_json:
        emit_json(_document(result, target))
    else:
        _show(console(), result, target)
    if not result.complete:
        raise Interrupted(f"best of {result.networks} networks so far")


def _document(result: Calibration, target: Path | None) -> dict[str, Any]:
    """`--json`: everything but the network itself."""
    left_out = ("topology", "values")
    document = {name: getattr(result, name) for name in result.__struct_fields__ if name not in left_out}
    return {**document, "explains": result.explains, "out": None if target is None else str(target)}


def _show(out: Console, result: Calibration, target: Path | None) -> None:
    """The error before and after, the values, and the rows."""
    from mptune.calibration.result import off
    from mptune.cli._tables import section, table

    counted = {word: sum(value.determined == word for value in result.inferred) for word in _DETERMINED}
    out.print(
        f"{result.name}: the simulated throughput is off by {off(result.error)} on average, "
        f"{off(result.nominal_error)} as the file has it",
        style="bold",
        markup=False,
    )
    out.print(
        f"Of {len(result.inferred)} values {counted['well']} are well determined, "
        f"{counted['weakly']} weakly, {counted['not']} not ({result.networks} networks).",
        markup=False,
    )
    values = table("value", "| stated", "| calibrated", "| 80 % from", "| to", "determined")
    for value in result.inferred:
        values.add_row(
            _name(value), value.stated, value.value, value.low, value.high, _DETERMINED[value.determined]
        )
    section(out, "Values", values)
    rows = table("row", "configuration", "| measured", "| as stated", "| calibrated", "unit")
    for row in result.fitted:
        numbers = ", ".join(map(str, row.rows))
        unit = "Mbit/s" if row.metric == "throughput" else "s"
        shown = (f"{number:.3g}" for number in (row.measured, row.nominal, row.simulated))
        rows.add_row(numbers, row.configuration, *shown, unit)
    section(out, "Measurements", rows)
    if target is not None:
        echo(f"\nWritten to {target}")


def _name(inferred: Inferred) -> str:
    """A value's name, shorter than its key."""
    if inferred.kind == "tcp":
        return f"TCP of others, {inferred.key.partition('.')[2]}"
    parts = inferred.key.split(".")
    return " ".join((*parts[1:2], *parts[3:])) if parts[0] == "sites" else " ".join(parts[2:])
