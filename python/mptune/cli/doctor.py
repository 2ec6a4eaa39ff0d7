"""`mptune doctor`: what this machine, or two hosts, can do, and how to fix the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptune.cli._common import JsonOption, console, emit_json, examples, load_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mptune.linux.doctor import Finding
    from mptune.testbeds.host_doctor import HostFindings
    from mptune.topology import Topology


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune doctor          # what works here, and how to fix the rest",
            "mptune doctor --json",
            "mptune doctor --hosts my-sites.toml   # what works on two hosts, over ssh",
        )
    )(doctor)


def doctor(
    hosts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Look at the hosts of this topology file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what this machine can do, or two hosts, and how to fix the rest.

    The exit code is 0 if trials can run on this machine's own MPTCP (--testbed namespaces), or between the
    hosts (--testbed hosts), otherwise 1. Changes nothing.
    """
    if hosts is not None:
        _doctor_hosts(load_topology(hosts, reverse=False), as_json=as_json)
        return
    from mptune.linux.doctor import examine, ready

    findings = examine()
    able = ready(findings)
    if as_json:
        emit_json({"ready": able, "checks": [_check(finding) for finding in findings]})
    else:
        _show(console(), findings, able)
    if not able:
        raise typer.Exit(1)


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
    shown = table("", "state", "found")
    for finding in findings:
        needed = " *" if finding.required else ""
        shown.add_row(f"{finding.name}{needed}", finding.state, finding.found)
    out.print(shown)
    out.print("* required", style="dim")
    _advise(out, {finding.name: finding.remedy for finding in findings if finding.remedy is not None})


def _advise(out: Console, remedies: dict[str, str]) -> None:
    from rich.padding import Padding

    if remedies:
        out.print("\nWhat to do", style="bold")
    for name, remedy in remedies.items():
        out.print(name, markup=False)
        if "\n" in remedy:  # lines to paste
            for line in remedy.splitlines():
                out.print(f"    {line}", markup=False, soft_wrap=True)
        else:
            out.print(Padding(remedy, (0, 0, 0, 4), expand=False), markup=False)


def _doctor_hosts(topology: Topology, *, as_json: bool) -> None:
    """Both hosts of a topology."""
    from mptune.testbeds.host_doctor import examine, ready

    hosts = examine(topology)
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
            }
        )
    else:
        _show_hosts(console(), hosts, able)
    if not able:
        raise typer.Exit(1)


def _show_hosts(out: Console, hosts: Sequence[HostFindings], able: bool) -> None:
    """Side by side."""
    from mptune.cli._tables import table

    verdict = "can" if able else "cannot"
    between = " and ".join(host.name for host in hosts)
    out.print(f"Trials {verdict} run between {between} (--testbed hosts).\n", style="bold", markup=False)
    shown = table("", *(host.name for host in hosts))
    found = [{finding.name: finding for finding in host.findings} for host in hosts]
    for name in dict.fromkeys(name for one in found for name in one):
        shown.add_row(name, *("" if name not in one else _cell(one[name]) for one in found))
    out.print(shown)
    remedies = {
        f"{finding.name} of {host.name}": finding.remedy
        for host in hosts
        for finding in host.findings
        if finding.remedy is not None
    }
    _advise(out, remedies)


def _cell(finding: Finding) -> str:
    return finding.found if finding.state == "ok" else f"{finding.state}: {finding.found}"
