"""`mptune apply`: make settings on machines, all or none, and confirm that they may stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune.cli._common import JsonOption, add, console, emit_json
from mptune.errors import InputError
from mptune.options import Option, Options, texts, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.apply.apply import Wanted

RunArgument = Annotated[
    Path | None, typer.Argument(metavar="RUN", help="Directory of a run whose answer is applied.")
]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="Only this machine: a site of RUN, or as ssh knows it; can be repeated.  [default: all of RUN, "
        "otherwise this machine]",
    ),
]

_SECOND_NS = 1_000_000_000


class ApplyOptions(Options, frozen=True, kw_only=True):
    """How settings are applied."""

    confirm_within: Annotated[
        int | None,
        Option(
            time(step_ns=_SECOND_NS),
            "Put everything back after this time unless `mptune apply --confirm` comes first.",
            flag="--confirm-within",
            unset="they stay",
        ),
    ] = None
    despite: Annotated[
        tuple[str, ...],
        Option(
            texts("NAME,..."),
            "Programs that manage the same settings and may lose: NetworkManager, mptcpd, TuneD, bpftune.",
            flag="--despite",
            unset="none",
        ),
    ] = ()


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        apply,
        "mptune apply runs/my-sites --confirm-within 10min",
        "mptune apply runs/my-sites --confirm          # you are still there: the settings stay",
        "mptune apply runs/my-sites --host alice       # one of its machines only",
        "mptune apply --settings settings.json         # your own, on this machine",
        "mptune apply --settings settings.json --host root@server.example",
    )


def apply(
    options: ApplyOptions,
    run: RunArgument = None,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="Settings as JSON, instead of a run's answer."),
    ] = None,
    host: HostOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Nothing new: keep what --confirm-within would put back.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what somebody else changed since the last apply.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the settings of a run's answer on its machines: all of them or none. Needs root there.

    What was there before is noted first, and `mptune rollback` returns to it, also after several applies: a
    new one replaces the last. A machine that restarts begins without them. With --confirm-within everything
    is put back unless you confirm, whatever becomes of this terminal, the connection or mptune.
    """
    hosts = host or ()
    if confirm:
        _check_confirm(options, settings, force=force)
        _confirm(run, hosts, as_json=as_json)
        return
    from mptune.apply import apply as applying

    within = options.confirm_within
    done = applying.apply(
        _wanted(run, settings, hosts),
        run=str(run or settings),
        confirm_within_s=None if within is None else within // _SECOND_NS,
        despite=options.despite,
        force=force,
    )
    if as_json:
        emit_json(dict(done))
        return
    from mptune.cli._settings_tables import show_applied, show_waiting

    out = console()
    for machine, applied in done:
        show_applied(out, machine, applied)
    waiting = [applied.confirm for _, applied in done if applied.confirm is not None]
    if waiting:
        show_waiting(out, min(waiting, key=lambda one: one.left_s), confirming(run, hosts))
    else:
        out.print("mptune rollback puts everything back.")


def confirming(run: Path | None, hosts: Sequence[str]) -> str:
    """The command that confirms."""
    words = ["mptune apply", *([] if run is None else [str(run)]), *(f"--host {name}" for name in hosts)]
    return " ".join([*words, "--confirm"])


def _wanted(run: Path | None, settings: Path | None, hosts: Sequence[str]) -> list[Wanted]:
    from mptune.apply import source

    if (run is None) == (settings is None):
        raise InputError("RUN", "", "expected a run, or --settings FILE")
    return source.from_run(run, hosts) if run is not None else source.from_file(settings or Path(), hosts)


def _check_confirm(options: ApplyOptions, settings: Path | None, *, force: bool) -> None:
    given = (
        (options.confirm_within, "--confirm-within"),
        (options.despite, "--despite"),
        (settings, "--settings"),
        (force, "--force"),
    )
    for value, flag in given:
        if value:
            raise InputError("--confirm", "", f"expected nothing to apply with it, found {flag}")


def _confirm(run: Path | None, hosts: Sequence[str], *, as_json: bool) -> None:
    from mptune.apply import apply as applying
    from mptune.apply import source

    done = applying.confirm(source.machines(run, hosts))
    if as_json:
        emit_json(dict(done))
        return
    for machine, confirmed in done:
        stay = "the settings stay" if confirmed.waited else "the settings stay; nobody had to confirm them"
        typer.echo(f"{machine}: {stay}")
