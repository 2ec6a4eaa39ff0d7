"""Output of an answer by size of transfer: the choice for each size, and the times behind it.

It formats a `SizesResult` and computes nothing. Throughput is shown by `_result_tables`.
"""

from pathlib import Path

from rich.console import Console

from mptune._text import digits
from mptune.cli._result_tables import impact_factors, where_it_is
from mptune.cli._tables import section, table
from mptune.optimisation.by_size import SizesResult, Times
from mptune.result import wording
from mptune.trial import Configuration
from mptune.units import format_size


def show(out: Console, result: SizesResult, directory: Path) -> None:
    """Print the answer for each size, the evidence, and where the files are."""
    for number, sentence in enumerate(wording.sizes_answer(result)):
        out.print(sentence, style=None if number % 2 else "bold", markup=False)
    _confirmed(out, result)
    _compared(out, result)
    if result.impacts:
        impact_factors(out, result.impacts)
    where_it_is(out, result.warnings, directory)


def _confirmed(out: Console, result: SizesResult) -> None:
    """Answer and default side by side, for each size."""
    listing = table(
        *("| transfer", "", "path manager", "CC", "initial path", "| buffer"),
        *("| mean (s)", "95 % interval", "| 95th percentile (s)", "| runs"),
    )
    for answer in result.answers:
        for name, configuration, times in (
            ("answer", answer.recommended, answer.confirmed),
            ("default", answer.default, answer.baseline),
        ):
            size = format_size(answer.transfer_bytes) if name == "answer" else ""
            listing.add_row(size, name, *_configuration(configuration), *_times(times))
    section(out, "Completion times with new seeds", listing)


def _configuration(configuration: Configuration) -> list[str]:
    return [
        configuration.pm,
        configuration.cc,
        configuration.initial_path or "-",
        format_size(configuration.buffer_bytes),
    ]


def _times(times: Times) -> list[str]:
    summary = times.summary
    if summary is None or times.percentile is None:
        return ["-", "-", "-", "0"]
    interval = wording.interval(summary).strip(" ()") or "-"
    return [digits(summary.mean), interval, digits(times.percentile), str(summary.n)]


def _compared(out: Console, result: SizesResult) -> None:
    """Print how clear each choice was."""
    listing = table("| transfer", "| compared", "| like the fastest", "fastest", "| buffer", "| mean (s)")
    for answer in result.answers:
        best = answer.fastest
        listing.add_row(
            format_size(answer.transfer_bytes),
            str(len(answer.points)),
            str(answer.alike),
            f"{best.combination.manager}, {best.combination.cc}",
            format_size(best.buffer_bytes),
            _times(best.times)[0],
        )
    section(
        out, "Choices (like the fastest: within 1 %, or not slower with 95 % confidence, run by run)", listing
    )
