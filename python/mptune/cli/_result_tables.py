"""Output of `mptune optimise --details`: the answer in a sentence, then the evidence.

It formats a `Result` and computes nothing. Tables of the decision itself are in `_decision_tables`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from mptune._text import digits
from mptune.cli import _decision_tables
from mptune.cli._tables import section, table
from mptune.decision.confirmation import Confirmation
from mptune.decision.robustness import Finalist
from mptune.impact import Impact
from mptune.optimisation.main_job import Result
from mptune.optimisation.rounds import Round
from mptune.optimisation.sensitivity import Sensitivity
from mptune.report.files import PAGE
from mptune.result import algorithm, wording
from mptune.result.answer import AlgorithmStep
from mptune.statistics import Summary
from mptune.trial import Configuration
from mptune.units import MIB


def show(out: Console, result: Result, directory: Path) -> None:
    """Print the answer, the evidence, the warnings, and where the files are."""
    first, *more = wording.answer(result)
    out.print(first, style="bold", markup=False)
    for sentence in more:
        out.print(sentence, markup=False)
    if steps := algorithm.steps(result):
        _algorithm(out, steps)
    if result.rounds:
        _rounds(out, result.rounds)
    if result.confirmation is not None:
        _confirmation(out, result.confirmation)
    # Without other networks the confirmation has the same trials of answer and opponent.
    if any(finalist.worst is not None for finalist in result.finalists) or (
        result.finalists and not result.reached
    ):
        _finalists(out, result.finalists)
    if result.sensitivity is not None:
        _sensitivity(out, result.sensitivity)
    if result.traditional:
        _traditional(out, result)
    if result.impacts:
        impact_factors(out, result.impacts)
    _decision_tables.show(out, result.decision)
    warnings = (*algorithm.warnings(result), *result.warnings)
    where_it_is(out, warnings, directory, "Observations and result" if result.records else "Result")


def where_it_is(
    out: Console, warnings: Sequence[str], directory: Path, held: str = "Observations and result"
) -> None:
    """Print the warnings, and the paths of the files; `held` is a phrase for their contents."""
    if warnings:
        out.print("\nTake into account", style="bold")
        for warning in warnings:
            out.print(f"! {warning}", markup=False)
    out.print(f"\n{held}: {directory}", markup=False)
    out.print(f"Report: {directory / PAGE}", markup=False)


def _confirmation(out: Console, confirmation: Confirmation) -> None:
    """The configurations side by side."""
    listing = table("", "path manager", "CC", "| buffer (MiB)", "| mean (Mbit/s)", "95 % interval", "| runs")
    for name, configuration, summary in _measured(confirmation):
        listing.add_row(
            name,
            configuration.manager,
            configuration.cc,
            f"{configuration.buffer_bytes / MIB:.2f}",
            "-" if summary is None else digits(summary.mean),
            "-" if summary is None else wording.interval(summary).strip(" ()") or "-",
            "0" if summary is None else str(summary.n),
        )
    section(out, "Confirmed with new seeds", listing)


def _measured(confirmation: Confirmation) -> Iterator[tuple[str, Configuration, Summary | None]]:
    """The confirmed configurations, by name."""
    yield "recommended", confirmation.recommended, confirmation.confirmed
    yield "default", confirmation.default, confirmation.baseline
    against = confirmation.against_tcp
    if against is not None and against.tcp == confirmation.recommended:
        yield "best MPTCP", against.mptcp, against.with_mptcp
    elif against is not None:
        yield "best TCP", against.tcp, against.with_tcp


def _algorithm(out: Console, steps: Sequence[AlgorithmStep]) -> None:
    """The steps of MPCOA's Algorithm 1, each in lines of its own."""
    out.print("\nAlgorithm 1 (MPCOA, section 3)", style="bold")
    for step in steps:
        name = step.equation if step.equation.startswith("Table") else f"Eq. {step.equation}"
        out.print(f"{step.step}. {name}: {step.outcome}", markup=False)


def _sensitivity(out: Console, sensitivity: Sensitivity) -> None:
    """Values that would change the answer, and how many would not."""
    listing = table("value", "from", "to", "| then (Mbit/s)", "instead", "| gives (Mbit/s)")
    changing = 0
    for varied in sensitivity.values:
        ends = [end for end in varied.ends if end.instead is not None]
        changing += bool(ends)
        for end in ends:
            ours, theirs = digits(end.throughput_mbps), digits(end.best_mbps)
            listing.add_row(varied.key, varied.stated, end.value, ours, end.best, theirs)
    count = len(sensitivity.values)
    if not changing:
        out.print(f"\nNone of {count} uncertain values would change the answer, each varied alone.")
        return
    section(
        out, f"{changing} of {count} uncertain values would change the answer, each varied alone", listing
    )


def _rounds(out: Console, rounds: Sequence[Round]) -> None:
    """The answer of each round, and below it what changed and why; the answer above is that of the last."""
    listing = table(
        "| round", "| after", "path manager", "CC", "| buffer (MiB)", "| mean (Mbit/s)", "subflows"
    )
    for round_ in rounds:
        when = str(round_.number + 1), wording.hours(round_.at_ns)
        answered = round_.answered
        if answered is None:
            listing.add_row(*when, "-", "-", "-", "-", round_.failed)
            continue
        listing.add_row(
            *when,
            answered.optimum.pm,
            answered.optimum.cc,
            f"{answered.buffer_bytes / MIB:.2f}",
            "-" if answered.confirmed is None else digits(answered.confirmed.mean),
            ", ".join(answered.subflows),
        )
    section(out, "Rounds", listing)
    for round_ in rounds:
        if round_.changes:
            out.print(f"Round {round_.number + 1}: {' '.join(round_.changes)}", markup=False)


def _finalists(out: Console, finalists: Sequence[Finalist]) -> None:
    """The shortlist: throughput as stated, and the worst share of the best in networks that are off."""
    listing = table("path manager", "CC", "| mean (Mbit/s)", "95 % interval", "| worst case")
    for finalist in finalists:
        summary = finalist.throughput
        listing.add_row(
            finalist.combination.manager,
            finalist.combination.cc,
            "-" if summary is None else digits(summary.mean),
            "-" if summary is None else wording.interval(summary).strip(" ()") or "-",
            "-" if finalist.worst is None else f"{finalist.worst:.0%}",
        )
    buffer_mib = finalists[0].buffer_bytes / MIB
    section(
        out,
        f"Shortlist with {buffer_mib:.2f} MiB "
        "(worst case over the perturbed networks, as a share of the best)",
        listing,
    )


def _traditional(out: Console, result: Result) -> None:
    """Theoretical buffers, and the recommended one as a share of each."""
    names = {
        "eq1": "max RTT * sum of rates (Eq. 1)",
        "eq2": "with a fast retransmission (Eq. 2)",
        "eq3": "with a timer retransmission (Eq. 3)",
        "table5": "3 (max RTT + max RTO) * sum of access rates (MPCOA Table 5)",
    }
    buffer_bytes = result.buffer_bytes
    listing = table("traditional buffer", "| MiB", "| recommended is")
    for name, traditional in result.traditional.items():
        listing.add_row(
            names[name], digits(traditional / MIB), f"{digits(100 * buffer_bytes / traditional, 3)} %"
        )
    section(out, "Theory", listing)


def impact_factors(out: Console, impacts: Sequence[Impact]) -> None:
    """Mean impact factors; a star marks the optional set."""
    listing = table("path", *(f"| {impact.cc}" for impact in impacts))
    for index, first in enumerate(impacts[0].paths):
        cells = []
        for impact in impacts:
            omega = impact.paths[index].omega
            star = "*" if first.path in impact.sets.optional else " "
            cells.append(f"{'-' if omega is None else f'{omega.mean:.3f}'}{star}")
        listing.add_row(first.path, *cells)
    section(out, "Impact factors (mean; * carries data under pcdc)", listing)
