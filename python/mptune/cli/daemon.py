"""`mptune daemon`: every MPTCP connection of this machine under the policy of its destination."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptune._text import quoted
from mptune.cli._common import JsonOption, QuietOption, add, console, echo, emit_json
from mptune.errors import InputError, MptuneError
from mptune.files import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptune.daemon.remeasure import Done

PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="The policy file.  [default: $MPTUNE_POLICY, otherwise /etc/mptune/policy.toml]",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        daemon,
        "mptune daemon --check                      # is /etc/mptune/policy.toml right?",
        "mptune daemon                              # in this terminal, until Ctrl-C; as root",
        "mptune daemon --metrics 127.0.0.1:9464     # its metrics over HTTP, for Prometheus",
        "mptune daemon --unit /etc/systemd/system   # as a service; without a directory: print the units",
        "mptune daemon --dashboard > mptune.json    # a dashboard of these metrics, for Grafana",
        "mptune daemon --remeasure                  # what no longer holds; a timer does it at night",
        "mptune daemon --restore                    # after a daemon and its watchdog were killed",
    )


def daemon(
    policy: PolicyOption = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="ADDRESS",
            help="Metrics over HTTP at this IP address and port, or port of 127.0.0.1; also for --unit.  "
            "[default: daemon.metrics of the policy file, otherwise nowhere]",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check the policy file.")] = False,
    unit: Annotated[
        bool, typer.Option("--unit", help="Print the units for systemd; with a directory, write them there.")
    ] = False,
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="For --unit.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Print a dashboard of the metrics, to be imported in Grafana.")
    ] = False,
    remeasure: Annotated[
        bool,
        typer.Option(
            "--remeasure", help="Repeat measurements that no longer hold, within the limits of [remeasure]."
        ),
    ] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Put back what a killed daemon left behind.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep all connections under the policy of their destination.

    It concerns every MPTCP connection of this machine, and needs root. The policy file assigns the answer of
    a run, or a path manager, to destinations. New connections are steered from now on, opened or accepted,
    over IPv4 and IPv6; those that live when the daemon ends keep their subflows, and the kernel manages new
    ones again, however the daemon ended. `mptune status` shows what it does, --metrics is the same for
    Prometheus, `mptune watch` the connections and what it did to them.
    """
    chosen = [
        flag
        for flag, given in (
            ("--check", check),
            ("--unit", unit),
            ("--dashboard", dashboard),
            ("--remeasure", remeasure),
            ("--restore", restore),
        )
        if given
    ]
    if len(chosen) > 1:
        raise InputError(chosen[1], "", f"expected without {chosen[0]}, found both")
    if metrics is not None and chosen not in ([], ["--unit"]):
        raise InputError("--metrics", "", f"expected without {chosen[0]}, found both")
    if directory is not None and not unit:
        raise InputError("DIR", "", f"expected only with --unit, found {quoted(str(directory))}")
    if check:
        _check(policy, as_json=as_json)
    elif unit:
        _unit(policy, directory, metrics, as_json=as_json)
    elif dashboard:
        from mptune.daemon import dashboard as grafana

        echo(grafana.text(), nl=False)
    elif remeasure:
        _remeasure(policy, quiet=quiet, as_json=as_json)
    elif restore:
        _restore(as_json=as_json)
    elif as_json:
        raise InputError("--json", "", "expected with --check, --unit, --remeasure or --restore")
    else:
        from mptune.daemon import foreground

        foreground.run(policy, metrics, lambda line: None if quiet else echo(line, err=True))


def _check(policy: Path | None, *, as_json: bool) -> None:
    from mptune.cli._tables import table
    from mptune.daemon import policies
    from mptune.linux import daemon
    from mptune.units import format_size

    checked = daemon.check(policies.place(policy))
    if as_json:
        emit_json(checked)
        return
    listing = table("policy", "destinations", "path manager", "| expected Mbit/s", "run")
    for each_policy in checked["policies"]:
        expected = each_policy["expected_mbit_s"]
        listing.add_row(
            each_policy["name"],
            ", ".join(each_policy["to"]) or "all others",
            each_policy["pm"],
            "" if expected is None else f"{expected:.4g}",
            each_policy["run"] or "",
        )
    out = console()
    out.print(listing, markup=False)
    if (buffers := checked["buffers"]) is not None:
        bounds = f"{format_size(buffers['least_bytes'])} to {format_size(buffers['most_bytes'])}"
        curves = [policy["name"] for policy in checked["policies"] if policy["curve_points"]]
        known = f"with the curves of {', '.join(curves)}" if curves else "without a curve"
        out.print(f"Limits of the buffers: {bounds}, {known}.", markup=False)
    if checked["metrics"] is not None:
        out.print(f"Metrics at http://{checked['metrics']}/metrics.", markup=False)
    out.print(f"{checked['policy_file']} is right.", markup=False)


def _unit(policy: Path | None, directory: Path | None, metrics: str | None, *, as_json: bool) -> None:
    from mptune.daemon import policies, units
    from mptune.linux import agent, daemon

    file = policies.place(policy).absolute()
    begin = listens = None
    if file.exists():
        read = policies.read(file)
        begin, listens = None if read.remeasure is None else read.remeasure.begin, read.metrics
    if metrics is not None:
        listens = daemon.address(metrics)
    programs = units.Programs(agent=agent.program().absolute(), mptune=_mptune())
    texts = units.texts(programs, file, begin, listens, by_option=metrics is not None)
    if as_json:
        emit_json(texts)
    elif directory is None:
        echo("\n".join(f"# {name}\n{text}" for name, text in texts.items()), nl=False)
    else:
        _write(directory, texts)


def _write(directory: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        try:
            write(directory / name, text)
        except OSError as error:
            raise MptuneError(f"{directory / name}: {error.strerror or error}") from None
        echo(directory / name)
    timers = [name for name in texts if name.endswith(".timer")]
    names = " ".join(["mptune.service", *timers])
    echo(f"systemctl daemon-reload && systemctl enable --now {names}")


def _mptune() -> tuple[str, ...]:
    """The command line of mptune in a unit, which has no PATH of its own."""
    beside = Path(sys.executable).parent / "mptune"
    path = str(beside) if beside.exists() else shutil.which("mptune")
    return (path,) if path else (sys.executable, "-m", "mptune.cli")


def _remeasure(policy: Path | None, *, quiet: bool, as_json: bool) -> None:
    from mptune.daemon import policies
    from mptune.daemon import remeasure as measuring
    from mptune.runner.progress import Reporter

    done = measuring.remeasure(policies.read(policy), Reporter(quiet=quiet))
    if as_json:
        emit_json(done)
    else:
        _tell(done)
    failed = [outcome for outcome in done if not outcome.measured]
    if failed:
        names = ", ".join(outcome.policy for outcome in failed)
        raise MptuneError(f"not measured again: {names}; their answers are as before")


def _tell(done: Sequence[Done]) -> None:
    if not done:
        echo("No answer needs a new measurement.")
    for name in done:
        echo(f"{name.policy}: {'measured again' if name.measured else 'not measured again'}: {name.why}")


def _restore(*, as_json: bool) -> None:
    from mptune.linux import daemon

    restored = daemon.restore()
    if as_json:
        emit_json(restored)
    else:
        for name in restored["names"]:
            echo(f"{name}: as before")
        if not (restored["names"] or restored["kept"]):
            echo("Nothing was left to put back.")
    for name, reason in restored["kept"].items():
        raise MptuneError(f"{name}: {reason}")
