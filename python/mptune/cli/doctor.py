"""`mptune doctor`: what this machine, or two hosts, can do, and how to fix the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from mptune._text import number_of
from mptune.cli._common import JsonOption, QuietOption, add, console, emit_json, load_topology
from mptune.errors import InputError
from mptune.options import Option, Options, count, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mptune.linux.doctor import Finding
    from mptune.linux.integrity import Integrity, Wrong
    from mptune.testbeds.host_doctor import HostFindings
    from mptune.testbeds.host_subflows import Between, PathSubflow
    from mptune.topology import Topology


_UNKNOWN = "Subflows without trials: unknown, as endpoints and limits of a host could not be read (root can)."
#: Transfers with wrong payload that are shown.
_SHOWN = 5


class IntegrityOptions(Options, frozen=True, kw_only=True):
    """Amount of transfers of `--integrity`."""

    transfers: Annotated[
        int,
        Option(
            count(1, 10_000_000), "With --integrity: transfers, three for each one in N.", flag="--transfers"
        ),
    ] = 3000
    within: Annotated[
        int | None,
        Option(
            time(positive=True), "With --integrity: stop after this time.", flag="--within", unset="no limit"
        ),
    ] = None


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        doctor,
        "mptune doctor          # what works here, and how to fix the rest",
        "mptune doctor --json",
        "mptune doctor --installed             # whether every part of the package is there and works",
        "mptune doctor --hosts my-sites.toml   # two hosts over ssh, and the subflows between them",
        "mptune doctor --integrity             # whether this kernel delivers what was sent",
        "mptune doctor --integrity --transfers 30000 --within 30min",
    )


def doctor(
    options: IntegrityOptions,
    hosts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Check the hosts of this topology file instead.")
    ] = None,
    installed: Annotated[
        bool,
        typer.Option("--installed", help="Instead, try every part of the package; takes seconds, no root."),
    ] = False,
    integrity: Annotated[
        bool,
        typer.Option(
            "--integrity",
            help="Instead, compare the payload of many MPTCP transfers in separate namespaces.",
        ),
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check whether a machine can run trials, and how to fix it.

    It looks at this machine, or at two hosts. The exit code is 0 if trials can run on this machine's own
    MPTCP (--testbed namespaces), or between the hosts (--testbed hosts), otherwise 1; with --integrity it is
    1 if any transfer delivered wrong payload, with --installed if a part of the package is missing or does
    not work. Nothing is changed.
    """
    if options != IntegrityOptions() and not integrity:
        raise InputError("--integrity", "", "expected with --transfers and --within")
    if installed:
        if hosts is not None or integrity:
            other = "--hosts" if hosts is not None else "--integrity"
            raise InputError("--installed", "", f"expected without {other}, found both")
        _doctor_installed(as_json=as_json)
        return
    if integrity:
        if hosts is not None:
            raise InputError("--hosts", "", "expected nothing with --integrity, which looks at this machine")
        _doctor_integrity(options, quiet=quiet, as_json=as_json)
        return
    if hosts is not None:
        _doctor_hosts(load_topology(hosts, reverse=False), as_json=as_json)
        return
    from mptune.guest import doctor as guests
    from mptune.linux.doctor import examine, ready

    findings = [*examine(), guests.examine()]
    able = ready(findings)
    if as_json:
        emit_json({"ready": able, "checks": [_check(finding) for finding in findings]})
    else:
        _show(console(), findings, able)
    if not able:
        raise typer.Exit(1)


def _doctor_installed(*, as_json: bool) -> None:
    """A line for every part of the package."""
    from mptune.cli import _installed
    from mptune.linux.doctor import ready

    findings = _installed.examine()
    if as_json:
        emit_json({"ready": ready(findings), "checks": [_check(finding) for finding in findings]})
    else:
        for finding in findings:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            line = f"{finding.state:<8} {finding.name:<18} {finding.found}{remedy}"
            console().print(line, markup=False, soft_wrap=True)
    if not ready(findings):
        raise typer.Exit(1)


def _doctor_integrity(options: IntegrityOptions, *, quiet: bool, as_json: bool) -> None:
    """Many transfers, and the verdict on this kernel."""
    from mptune.linux.integrity import examine
    from mptune.runner.progress import Reporter

    limit_s = None if options.within is None else options.within / 1e9
    with Reporter(quiet=quiet).phase("integrity", "transfers") as advance:
        integrity = examine(options.transfers, limit_s, advance)
    if as_json:
        emit_json(
            {
                "intact": not integrity.wrong,
                "fewer_than_one_in": integrity.fewer_than_one_in,
                **msgspec.to_builtins(integrity),
            }
        )
    else:
        for line in _integrity_lines(integrity):
            console().print(line, markup=False, soft_wrap=True)
    if integrity.wrong:
        raise typer.Exit(1)


def _integrity_lines(integrity: Integrity) -> list[str]:
    """The findings as text."""
    from mptune.linux.integrity import PAGE, PROVOKED

    mib = integrity.transferred_bytes / 2**20
    done = f"{number_of(integrity.transfers, 'transfer')}, {mib:.0f} MiB in {integrity.seconds:.0f} s"
    lines = [f"Linux {integrity.kernel}, MPTCP over two subflows between namespaces: {done}."]
    if integrity.fewer_than_one_in is not None:
        lines.append(
            f"No wrong payload: fewer than 1 in {integrity.fewer_than_one_in} such transfers "
            "(95 % confidence)."
        )
    elif integrity.plain_wrong:
        often = integrity.transfers / integrity.plain_wrong
        lines.append(f"WRONG PAYLOAD in {integrity.plain_wrong} of them: about 1 in {often:.0f}.")
    else:
        lines.append("Too few to judge.")
    if integrity.not_provoked is not None:
        lines.append(f"The known fault was not provoked: {integrity.not_provoked}.")
    else:
        was = (
            f"WRONG PAYLOAD in {integrity.provoked_wrong}" if integrity.provoked_wrong else "no wrong payload"
        )
        lines.append(
            f"{PROVOKED} transfers in which a subflow joins while the receiver's socket is in use: {was}."
        )
    lines += [f"  {_wrong_line(wrong)}" for wrong in integrity.wrong[:_SHOWN]]
    if len(integrity.wrong) > _SHOWN:
        lines.append(f"  and {len(integrity.wrong) - _SHOWN} more (--json shows all)")
    if integrity.wrong:
        lines.append(f"What is known about it, and what to do: {PAGE}")
    return lines


def _wrong_line(wrong: Wrong) -> str:
    kind = "provoked, " if wrong.provoked else ""
    parts = [] if wrong.at is None else [f"{wrong.wrong_bytes} bytes wrong from byte {wrong.at}"]
    if wrong.missing:
        parts.append(f"{wrong.missing} bytes missing")
    return f"{kind}{wrong.size} bytes: {', '.join(parts)}"


def _check(finding: Finding) -> dict[str, Any]:
    """`--json`."""
    return {
        "name": finding.name,
        "state": finding.state,
        "found": finding.found,
        "remedy": finding.remedy,
        "required": finding.required,
    }


def _show(out: Console, findings: list[Finding], able: bool) -> None:
    from mptune.cli._tables import table

    verdict = "can" if able else "cannot"
    out.print(f"Trials {verdict} run on this machine's own MPTCP (--testbed namespaces).\n", style="bold")
    listing = table("", "state", "found")
    for finding in findings:
        needed = " *" if finding.required else ""
        listing.add_row(f"{finding.name}{needed}", finding.state, finding.found)
    out.print(listing)
    out.print("* required", style="dim")
    _advise(out, [("", findings)])


#: Begins the name of what is found out about a congestion control.
_CC = "congestion control "


def _advise(out: Console, groups: Sequence[tuple[str, Sequence[Finding]]]) -> None:
    """Print remedies, each once for all findings that it concerns.

    Parameters
    ----------
    groups : by host; an empty name is this machine.
    """
    from rich.padding import Padding

    concerned: dict[str, dict[str, list[str]]] = {}
    for host, findings in groups:
        for finding in findings:
            if finding.remedy is not None:
                names = concerned.setdefault(_without_name(finding), {}).setdefault(host, [])
                names.append(finding.name)
    if concerned:
        out.print("\nWhat to do", style="bold")
    for remedy, by_host in concerned.items():
        out.print(_concerned(by_host), markup=False)
        if "\n" in remedy:  # lines to paste
            for line in remedy.splitlines():
                out.print(f"    {line}", markup=False, soft_wrap=True)
        else:
            out.print(Padding(remedy, (0, 0, 0, 4), expand=False), markup=False)


def _without_name(finding: Finding) -> str:
    """Advice in which the module of a congestion control has no name, as others have the same."""
    assert finding.remedy is not None
    if not finding.name.startswith(_CC):
        return finding.remedy
    return finding.remedy.replace(f"tcp_{finding.name.removeprefix(_CC)}", "tcp_NAME")


def _concerned(by_host: dict[str, list[str]]) -> str:
    """Names of findings: "congestion control olia, vegas of alice and bob; interface A of carol"."""
    alike: dict[str, list[str]] = {}
    for host, names in by_host.items():
        first, *more = names
        affected = ", ".join(
            [first, *(name.removeprefix(_CC) if first.startswith(_CC) else name for name in more)]
        )
        alike.setdefault(affected, []).append(host)
    return "; ".join(
        f"{affected} of {' and '.join(hosts)}" if any(hosts) else affected
        for affected, hosts in alike.items()
    )


def _doctor_hosts(topology: Topology, *, as_json: bool) -> None:
    """Both hosts of a topology."""
    from mptune.testbeds.host_doctor import examine, ready

    examined = examine(topology)
    hosts = examined.hosts
    able = ready(hosts)
    if as_json:
        emit_json(
            {
                "ready": able,
                "hosts": [
                    {
                        "site": host.site,
                        "name": host.name,
                        "ssh": host.ssh,
                        "checks": [_check(finding) for finding in host.findings],
                    }
                    for host in hosts
                ],
                "subflows": msgspec.to_builtins(examined.subflows),
            }
        )
    else:
        _show_hosts(console(), hosts, able)
        _show_subflows(console(), examined.subflows)
    if not able:
        raise typer.Exit(1)


def _show_hosts(out: Console, hosts: Sequence[HostFindings], able: bool) -> None:
    """Side by side."""
    from mptune.cli._tables import table

    verdict = "can" if able else "cannot"
    pair = " and ".join(host.name for host in hosts)
    out.print(f"Trials {verdict} run between {pair} (--testbed hosts).\n", style="bold", markup=False)
    listing = table("", *(host.name for host in hosts))
    by_name = [{finding.name: finding for finding in host.findings} for host in hosts]
    for name in dict.fromkeys(name for row in by_name for name in row):
        listing.add_row(name, *("" if name not in row else _cell(row[name]) for row in by_name))
    out.print(listing)
    _advise(out, [(host.name, host.findings) for host in hosts])


def _show_subflows(out: Console, between: Between | None) -> None:
    """Print the subflows of programs outside of trials, path by path, and the lines for more."""
    from mptune.cli._tables import table

    if between is None:
        out.print(f"\n{_UNKNOWN}", style="dim", markup=False)
        return
    surely = sum(path.comes_up is True for path in between.paths)
    paths = number_of(len(between.paths), "path")
    opened = f"that {between.client} (client) opens to {between.server} (server), without trials"
    out.print(f"\nSubflows of a connection {opened}: {surely} of {paths}", style="bold", markup=False)
    listing = table("", "from", "to", "comes up")
    for path in between.paths:
        listing.add_row(path.path, path.client, path.server, _comes_up(path))
    out.print(listing)
    if not any(between.lines.values()):
        return
    reach = f"{between.with_lines} of {paths}, if packets leave by their own interfaces"
    out.print(f"Lines for {reach}", style="bold", markup=False)
    for host, lines in between.lines.items():
        if lines:
            out.print(host, markup=False)
        for line in lines:
            out.print(f"    {line}", markup=False, soft_wrap=True)


def _comes_up(path: PathSubflow) -> str:
    word = {True: "yes", None: "perhaps", False: "no"}[path.comes_up]
    more = [*(["the first one"] if path.first else []), *(["standby"] if path.standby else [])]
    return ": ".join(filter(None, [", ".join([word, *more]), path.because]))


def _cell(finding: Finding) -> str:
    return finding.found if finding.state == "ok" else f"{finding.state}: {finding.found}"
