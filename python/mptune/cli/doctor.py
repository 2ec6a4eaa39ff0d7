"""`mptune doctor`: what this machine can do, and how to fix the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mptune.cli._common import JsonOption, console, emit_json, examples

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.linux.doctor import Finding


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "mptune doctor          # what works here, and how to fix the rest", "mptune doctor --json"
        )
    )(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine can do, and how to fix the rest.

    The exit code is 0 if trials can run on this machine's own MPTCP (--testbed namespaces), otherwise 1.
    Changes nothing.
    """
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
    from rich.padding import Padding

    from mptune.cli._tables import table

    verdict = "can" if able else "cannot"
    out.print(f"Trials {verdict} run on this machine's own MPTCP (--testbed namespaces).\n", style="bold")
    shown = table("", "state", "found")
    for finding in findings:
        needed = " *" if finding.required else ""
        shown.add_row(f"{finding.name}{needed}", finding.state, finding.found)
    out.print(shown)
    out.print("* required", style="dim")
    advice = [finding for finding in findings if finding.remedy is not None]
    if advice:
        out.print("\nWhat to do", style="bold")
    for finding in advice:
        out.print(finding.name, markup=False)
        out.print(Padding(finding.remedy or "", (0, 0, 0, 4), expand=False), markup=False)
