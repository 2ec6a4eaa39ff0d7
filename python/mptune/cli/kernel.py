"""`mptune kernel`: kernels for guests, on which `--testbed virtual` measures in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import JsonOption, QuietOption, add, console, echo, emit_json, subcommands

if TYPE_CHECKING:
    from mptune.guest.kernels import Kernel

ReleaseArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[RELEASE]", help='Release of Linux, such as "7.3".  [default: 7.3]', show_default=False
    ),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Archive of Linux's sources, in place of Debian's package: linux-7.3.4.tar.xz."
    ),
]
JobsOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Compilers at a time.  [default: one a processor]")
]
KeepOption = Annotated[
    bool,
    typer.Option(
        "--keep",
        help="Keep the sources and what was compiled (0.9 GB): the next build with --keep compiles only what "
        "changed, in seconds.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command and its subcommands."""
    group = subcommands("Kernels for --testbed virtual, which needs no root.")
    add(
        group,
        build,
        "mptune kernel build              # Linux 7.3 from Debian's source package, in about 5 minutes",
        "mptune kernel build --keep       # for those who change bpf/: the next build takes seconds",
        "mptune kernel build 6.12",
        "mptune kernel build --source linux-7.3.4.tar.xz",
    )
    add(
        group,
        list_all,
        "mptune kernel list               # those that are built",
        "mptune kernel list --json",
        name="list",
    )
    add(
        group,
        remove,
        "mptune kernel remove 6.12",
        "mptune kernel remove 7.3 --json",
    )
    app.add_typer(group, name="kernel")


def build(
    release: ReleaseArgument = None,
    source: SourceOption = None,
    jobs: JobsOption = None,
    keep: KeepOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build a kernel and keep it in the cache directory.

    It needs gcc, make, flex, bison, bc and patch, no root, and 2.5 GB of space while it runs. Nothing is
    installed.
    """
    import time

    from mptune.cli._steps import shown
    from mptune.guest import building

    began = time.monotonic()
    with shown(quiet=quiet) as progress:
        kernel = building.build(release, source=source, jobs=jobs, keep=keep, progress=progress)
    if as_json:
        emit_json(_document(kernel))
        return
    echo(
        f"Linux {kernel.version} from {kernel.source}: {kernel.size_bytes / 1e6:.1f} MB in "
        f"{kernel.program.parent}, built in {time.monotonic() - began:.0f} s"
    )
    echo(f"Next: mptune run UNIS-HiN --testbed virtual:{kernel.release}")


def list_all(as_json: JsonOption = False) -> None:
    """List the kernels that are built."""
    from mptune.cli._tables import table
    from mptune.guest import kernels
    from mptune.guest.building import is_current

    built = kernels.built()
    if as_json:
        emit_json([_document(kernel) for kernel in built])
        return
    if not built:
        echo(f"no kernel is built: mptune kernel build {kernels.DEFAULT}")
        return
    listing = table("release", "version", "from", "size", "state")
    for kernel in built:
        state = "ready" if is_current(kernel) else "of an earlier mptune: build it again"
        listing.add_row(
            kernel.release, kernel.version, kernel.source, f"{kernel.size_bytes / 1e6:.1f} MB", state
        )
    console().print(listing)


def remove(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="One of mptune kernel list.")],
) -> None:
    """Remove a kernel, and the sources that --keep has kept."""
    from mptune.guest import kernels, trees

    removed = kernels.remove(release) + trees.remove(release)
    echo(f"Linux {release}: removed, {removed / 1e6:.1f} MB")


def _document(kernel: Kernel) -> dict[str, Any]:
    import msgspec

    return {**msgspec.structs.asdict(kernel), "program": str(kernel.program), "size_bytes": kernel.size_bytes}
