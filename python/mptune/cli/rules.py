"""`mptune rules`: whether MPTCP keeps the three rules of multipath congestion control on a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mptune._text import digits
from mptune.cli._common import (
    JsonOption,
    QuietOption,
    TopologyArgument,
    add,
    console,
    emit_json,
    load_topology,
)
from mptune.errors import InputError
from mptune.optimisation.rules import RulesOptions
from mptune.options.trials import Reverse
from mptune.runner.executors import ExecutorOptions

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.optimisation.rules import Finding, Rules

#: Rule -> name, and what its ratio compares.
_RULES = {
    1: ("improve throughput", "MPTCP over plain TCP on the best path"),
    2: ("do no harm", "a TCP connection beside MPTCP over the same beside plain TCP"),
    3: ("balance congestion", "MPTCP over plain TCP on the best path, beside a TCP connection there"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        rules,
        "mptune rules UNIS-HiN                                      # Cubic and OLIA, as in the study",
        "mptune rules my-sites.toml --cc lia,balia,cubic --runs 10",
        "mptune rules KU-HiG.pathmgmt --stack v0.9x --buffer 4MiB --json",
    )


def rules(
    topology: TopologyArgument,
    options: RulesOptions,
    where: ExecutorOptions,
    reverse: Reverse = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure whether MPTCP gains, does no harm, and balances.

    These are the three rules of multipath congestion control (RFC 6356). It is done in the simulator. Rule
    1, improve throughput: as fast as plain TCP on the best path, or faster. Rule 2, do no harm: on an access
    link that several paths share, a competing TCP connection is left as much as plain TCP would leave it.
    Rule 3, balance congestion: on the best path, which a competing TCP connection congests, MPTCP sends less
    than plain TCP would there (RFC 6356, section 2; path-management study, section III). Plain TCP has the
    same congestion control, or the one to which a coupled one reduces on a single flow. Ratios are taken run
    by run; a rule is kept or broken if their 95 % interval lies on one side of 0.95, otherwise undecided.
    """
    from mptune import testbeds
    from mptune.optimisation.rules import measure_rules
    from mptune.runner.progress import Reporter

    loaded = load_topology(topology, reverse=reverse)
    if len(loaded.paths) < 2:
        raise InputError(loaded.file, "", "expected two paths at least: one is compared with all")
    testbed = testbeds.create("simulated")
    testbed.check_network(loaded)
    measured = measure_rules(
        loaded, testbed, options, executor=where.create(None), reporter=Reporter(quiet=quiet)
    )
    if as_json:
        emit_json(_document(loaded.name, measured))
    else:
        _show(console(), loaded.name, measured)


def _document(name: str, measured: Rules) -> dict[str, Any]:
    """`--json`: ratios without a unit."""
    return {
        "topology": name,
        "rules": [
            {
                "rule": finding.rule,
                "name": _RULES[finding.rule][0],
                "cc": finding.cc,
                "where": finding.where,
                "ratio": finding.ratio.mean,
                "low": finding.ratio.low,
                "high": finding.ratio.high,
                "runs": finding.ratio.n,
                "verdict": finding.verdict,
            }
            for finding in measured.findings
        ],
        "failed_trials": measured.failed,
    }


def _show(out: Console, name: str, measured: Rules) -> None:
    """A table for each rule."""
    from mptune.cli._tables import section, table

    out.print(f"{name}: the rules of multipath congestion control", style="bold", markup=False)
    for rule, (title, compared) in _RULES.items():
        found = [finding for finding in measured.findings if finding.rule == rule]
        if not found:
            out.print(f"\nRule {rule}, {title}: no access link is shared by several paths", markup=False)
            continue
        listing = table("CC", "link" if rule == 2 else "path", "| ratio", "95 % interval", "verdict")
        for finding in found:
            listing.add_row(
                finding.cc, finding.where, digits(finding.ratio.mean, 3), _interval(finding), finding.verdict
            )
        section(out, f"Rule {rule}, {title} ({compared})", listing)
    if measured.failed:
        out.print(f"\n! {measured.failed} trials failed and are left out.", markup=False)


def _interval(finding: Finding) -> str:
    low, high = finding.ratio.low, finding.ratio.high
    return "-" if low is None or high is None else f"{digits(low, 3)} to {digits(high, 3)}"
