"""`mptune apply`: make settings on machines, all or none, and confirm that they may stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import JsonOption, add, console, echo, emit_json
from mptune.errors import InputError
from mptune.options import Option, Options, count, size, texts, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.apply.apply import Wanted
    from mptune.apply.records import Applied
    from mptune.apply.verify import How, Verified

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
    """Options of applying settings."""

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
    runs: Annotated[
        int | None,
        Option(
            count(2, 100), "With --verify: transfers before, and as many after.", flag="--runs", unset="5"
        ),
    ] = None
    seconds: Annotated[
        int | None,
        Option(
            count(1, 3600),
            "With --verify: how long each takes.",
            flag="--seconds",
            unset="5, or as long as the run's workload",
        ),
    ] = None
    max_data: Annotated[
        int | None,
        Option(
            size(),
            "With --verify: most payload of all transfers together.",
            flag="--max-data",
            unset="as much as passes",
        ),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        apply,
        "mptune apply runs/my-sites --confirm-within 10min",
        "mptune apply runs/my-sites --confirm          # you are still there: the settings stay",
        "mptune apply runs/my-sites --verify           # measure before and after; no gain, no settings",
        "mptune apply runs/my-sites --daemon           # a policy of mptune's daemon instead of endpoints",
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
    daemon: Annotated[
        bool,
        typer.Option(
            "--daemon", help="Give the sender a policy of mptune's daemon instead of endpoints and limits."
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Measure what programs get before and after; roll back if the gain is not there."
        ),
    ] = False,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Apply nothing new; keep what --confirm-within would put back.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite what others have changed since the last apply.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the settings of an answer on its machines; needs root.

    All of them are made, or none. What was there before is noted first, and `mptune rollback` returns to it,
    also after several applies: a new one replaces the last. A machine that restarts begins without them.
    With --confirm-within everything is put back unless you confirm, whatever becomes of this terminal, the
    connection or mptune.

    With --verify transfers between the two machines, which set nothing themselves, are measured before and
    after. The settings stay if the gain is more than half of what the run promises, with 95 % confidence;
    otherwise, at Ctrl-C, or if a transfer fails, everything is put back; exit code 1 (130 at Ctrl-C).
    """
    hosts = host or ()
    if confirm:
        _check_confirm(options, settings, force=force, daemon=daemon, verify=verify)
        _confirm(run, hosts, as_json=as_json)
        return
    from mptune.apply import apply as applying

    within = options.confirm_within
    order = {
        "run": str(run or settings),
        "confirm_within_s": None if within is None else within // _SECOND_NS,
        "despite": options.despite,
        "force": force,
    }
    if verify:
        verified = _verified(run, hosts, _parameters(options), order, quiet=as_json, daemon=daemon)
        _show_verified(run, verified, as_json=as_json)
        return
    _refuse_without_verify(options)
    done = applying.apply(_requests(run, settings, hosts, daemon=daemon), **order)  # type: ignore[arg-type]
    if as_json:
        emit_json(dict(done))
    else:
        _show(run, hosts, done)


def _show(run: Path | None, hosts: Sequence[str], done: Sequence[tuple[str, Applied]]) -> None:
    """Print the settings made, and how to keep them or go back."""
    from mptune.cli._settings_tables import show_applied, show_waiting

    out = console()
    for machine, applied in done:
        show_applied(out, machine, applied)
    waiting = [applied.confirm for _, applied in done if applied.confirm is not None]
    if waiting:
        show_waiting(out, min(waiting, key=lambda confirm: confirm.left_s), confirming(run, hosts))
    else:
        back = " ".join(["mptune rollback", *([] if run is None else [str(run)])])
        out.print(f"{back} puts everything back.", markup=False)


def _parameters(options: ApplyOptions) -> How:
    from mptune.apply.verify import How

    usual = How()
    return How(
        runs=options.runs or usual.runs,
        seconds=options.seconds,
        max_data_bytes=options.max_data,
    )


def _refuse_without_verify(options: ApplyOptions) -> None:
    for value, flag in (
        (options.runs, "--runs"),
        (options.seconds, "--seconds"),
        (options.max_data, "--max-data"),
    ):
        if value is not None:
            raise InputError(flag, "", "expected with --verify only")


def _verified(
    run: Path | None, hosts: Sequence[str], how: How, order: dict[str, Any], *, quiet: bool, daemon: bool
) -> Verified:
    from mptune.apply import kernels, verify
    from mptune.runner.progress import Reporter

    if run is None:
        raise InputError("--verify", "", "expected RUN, whose promise is verified, found --settings")
    outline = kernels.planned(run, daemon=daemon)
    verify.check(outline, hosts, how, order["confirm_within_s"])
    requests = _requests(run, None, hosts, daemon=daemon)
    reporter = Reporter(quiet=quiet)
    reporter.notice(verify.notice(outline, how))

    def progress(phase: str, done: int, total: int) -> None:
        reporter.notice(f"{phase}: {done} of {total} transfers")

    return verify.apply(outline, requests, how, progress=progress, **order)


def _show_verified(run: Path | None, verified: Verified, *, as_json: bool) -> None:
    if as_json:
        emit_json(verified)
    else:
        from mptune.cli._settings_tables import show_verdict

        show_verdict(console(), verified)
        if verified.verdict.kept:
            # Last what is still to be done.
            _show(run, (), list(verified.applied.items()))
    if not verified.verdict.kept:
        raise typer.Exit(1)


def confirming(run: Path | None, hosts: Sequence[str]) -> str:
    """The command that confirms."""
    words = ["mptune apply", *([] if run is None else [str(run)]), *(f"--host {name}" for name in hosts)]
    return " ".join([*words, "--confirm"])


def _requests(run: Path | None, settings: Path | None, hosts: Sequence[str], *, daemon: bool) -> list[Wanted]:
    from mptune.apply import source

    if (run is None) == (settings is None):
        raise InputError("RUN", "", "expected a run, or --settings FILE")
    if daemon and run is None:
        raise InputError("--daemon", "", "expected RUN, which becomes the policy, found --settings")
    return (
        source.from_run(run, hosts, daemon=daemon)
        if run is not None
        else source.from_file(settings or Path(), hosts)
    )


def _check_confirm(
    options: ApplyOptions, settings: Path | None, *, force: bool, daemon: bool, verify: bool
) -> None:
    given = (
        (options.confirm_within, "--confirm-within"),
        (options.despite, "--despite"),
        (settings, "--settings"),
        (force, "--force"),
        (daemon, "--daemon"),
        (verify, "--verify"),
        (options.runs, "--runs"),
        (options.seconds, "--seconds"),
        (options.max_data, "--max-data"),
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
        echo(f"{machine}: {stay}")
