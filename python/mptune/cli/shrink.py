"""`mptune shrink`: a failing trial, reduced to the smallest network on which it still fails.

It reads, prints and writes; the steps are in `mptune.runner.shrinking`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import JsonOption, QuietOption, TopologyArgument, add, console, emit_json
from mptune.errors import Interrupted
from mptune.options.trials import Reverse, Testbed
from mptune.runner.shrinking import ShrinkOptions

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.runner.shrinking import Shrunk

#: Added to the name of a topology where no file is named.
_ENDING = "-shrunk.toml"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        shrink,
        "mptune shrink my-network.toml --testbed virtual:7.3 --cc lia --buffer 64KiB --seed 3",
        "mptune shrink my-network.toml --testbed virtual --at 2s:down:A-X --transfer 4MiB --out small.toml",
        "mptune shrink my-network.toml --testbed virtual --budget 10min --json",
    )


def shrink(
    topology: TopologyArgument,
    options: ShrinkOptions,
    testbed: Testbed = "simulated",
    reverse: Reverse = False,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE.toml", help=f"Write the network to this file.  [default: NAME{_ENDING}]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Reduce a failing trial to the smallest network that fails.

    It fails there in the same way. It takes the options of `mptune run`. Interfaces, traffic of others,
    effects of links, actions of the script and options are left out, and numbers rounded, as long as the
    trial still fails with the same kind: stalled, corrupt, died and so on; or `join`, if a subflow did not
    come about. The network is written to a file, with the command that shows the failure. This takes a
    testbed on which trials repeat exactly: simulated, or virtual. Ctrl-C ends it with the smallest network
    so far.
    """
    from mptune.calibration.written import new_file, write_file
    from mptune.runner.progress import Reporter
    from mptune.runner.shrinking import command
    from mptune.runner.shrinking import shrink as reduce
    from mptune.topology import file_of

    file = file_of(topology)
    target = new_file(out or f"{file.stem}{_ENDING}", force=force)
    shrunk = reduce(
        file,
        options,
        testbed=testbed,
        reverse=reverse,
        folder=target.parent,
        name=target.stem,
        seeds=options.seeds,
        budget_ns=options.budget_ns,
        reporter=Reporter(quiet=quiet),
    )
    write_file(target, shrunk.text)
    shown = command("run", str(target), shrunk.options, testbed=testbed, reverse=reverse)
    if as_json:
        emit_json(_document(shrunk, target, shown))
    else:
        _show(console(), shrunk, target, shown)
    if shrunk.interrupted:
        raise Interrupted(f"smallest of {shrunk.trials} trials so far, in {target}")


def _document(shrunk: Shrunk, target: Path, shown: str) -> dict[str, Any]:
    """`--json`."""
    return {
        "kind": shrunk.kind,
        "reason": shrunk.reason,
        "paths": [path.label for path in shrunk.topology.paths],
        "paths_before": shrunk.paths_before,
        "trials": shrunk.trials,
        "complete": shrunk.complete,
        "command": shown,
        "out": str(target),
    }


def _show(out: Console, shrunk: Shrunk, target: Path, shown: str) -> None:
    paths = len(shrunk.topology.paths)
    out.print(f"{shrunk.kind}: {shrunk.reason}", style="bold", markup=False)
    out.print(
        f"{paths} of {shrunk.paths_before} paths are left after {shrunk.trials} trials"
        f"{'' if shrunk.complete else ', and more steps were possible'}. Written to {target}:",
        markup=False,
    )
    out.print(shown, markup=False, soft_wrap=True, highlight=False)
