"""The answer of `mptune why` on a screen of 24 lines and 100 columns, and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from mptune import units
from mptune._text import bounded
from mptune.diagnosis import rfc6349

if TYPE_CHECKING:
    from rich.console import Console

    from mptune.diagnosis.causes.finding import Finding
    from mptune.diagnosis.diagnose import Diagnosis, PathRow
    from mptune.diagnosis.evidence import Evidence, Figures
    from mptune.diagnosis.measuring import Direction, Why

_COLUMNS, _LINES = 100, 24
#: Characters of a trial that failed and its reason.
_REASON = 160
#: Causes in full, and paths, by direction: the first that fit the screen.
_DETAIL = ((4, 6), (3, 4), (2, 4), (2, 3), (2, 2), (1, 3), (1, 2), (1, 1))


def show(out: Console, found: Why) -> None:
    """Print every direction and what it cost, in as much detail as fits the screen."""
    for causes, paths in _DETAIL:
        lines = list(_lines(found, causes, paths))
        if len(lines) <= _LINES:
            break
    for line, style in lines:
        out.print(line, style=style or None, markup=False, soft_wrap=True)


#: A line with its style.
_Line = tuple[str, str]


def _lines(found: Why, causes: int, paths: int) -> Iterator[_Line]:
    for direction in found.directions:
        yield from _of_direction(direction, causes, paths)
    cost = f"{found.name}, {found.testbed}: {found.seconds:.0f} s of trials"
    yield from _wrapped(f"{cost}, {units.format_size(found.bytes, 3)} of payload.")


def _wrapped(text: str, first: str = "", then: str = "", style: str = "") -> Iterator[_Line]:
    """Text within the screen's width."""
    for line in textwrap.wrap(
        text, _COLUMNS, initial_indent=first, subsequent_indent=then or first, break_on_hyphens=False
    ):
        yield line, style


def _of_direction(direction: Direction, causes: int, paths: int) -> Iterator[_Line]:
    diagnosis = direction.diagnosis
    yield from _wrapped(headline(direction), style="bold")
    yield from _failures(direction.evidence)
    if diagnosis.is_healthy:
        return
    for row in _table(diagnosis, paths):
        yield row, ""
    for finding in diagnosis.findings[:causes]:
        yield from _wrapped(f"{_title(finding)}: {finding.because}.", "- ", "  ")
        yield from _wrapped(f"{finding.remedy}.", "  Remedy: ", "  ")
    if rest := [_title(finding) for finding in diagnosis.findings[causes:]]:
        yield from _wrapped(f"Less: {'; '.join(rest)} (--json has their evidence).", "- ", "  ")
    if direction.left_out:
        left = f"The budget ended before {len(direction.left_out)} further comparisons: --budget 5min."
        yield from _wrapped(left, "- ", "  ")


def _failures(evidence: Evidence) -> Iterator[_Line]:
    """Trials that gave no number: a cause that would be told by them may be missed, or another one named."""
    failed = [(one.words, figures.failed) for one, figures in evidence.trials.items() if figures.failed]
    if failed:
        (words, reason), number = failed[0], len(failed)
        trials = "A trial has" if number == 1 else f"{number} trials have"
        first = bounded(f"{words}: {reason}", _REASON)
        yield from _wrapped(f"{trials} failed, so causes may be missing or wrong ({first}).", "! ", "  ")


def headline(direction: Direction) -> str:
    """The account in a sentence."""
    diagnosis = direction.diagnosis
    ways = f"{direction.sender} to {direction.receiver}"
    together, potential = _mbps(diagnosis.together_mbps), _mbps(diagnosis.potential_mbps)
    if diagnosis.is_healthy:
        return (
            f"{ways}: nothing is missing, together {together} of {potential} Mbit/s that the paths can give."
        )
    parts = [_share(finding) for finding in diagnosis.findings]
    if diagnosis.unexplained_mbps >= _SMALL * diagnosis.potential_mbps or not parts:
        parts.append(f"{_mbps(diagnosis.unexplained_mbps)} unexplained")
    missing = f"{_mbps(diagnosis.missing_mbps)} are missing: {', '.join(parts)}"
    return f"{ways}: together {together} of {potential} Mbit/s that the paths can give; {missing}."


#: A rest that is not worth a word.
_SMALL = 0.02
#: Mbit/s that are none.
_NOTHING = 0.05


def _share(finding: Finding) -> str:
    """A cause in the headline; one that takes nothing as long as the others are there, by its word alone."""
    return finding.kind if finding.mbps < _NOTHING else f"{_mbps(finding.mbps)} {finding.kind}"


def _title(finding: Finding) -> str:
    if finding.mbps < _NOTHING:
        return f"{finding.kind}, which takes its share when the rest is removed"
    return f"{finding.kind}, {_mbps(finding.mbps)} Mbit/s"


def _table(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Rows of the paths, and of all together."""
    names = ["path", "can give", "alone", "together", "efficiency", "buffer delay", "time/ideal", "lost"]
    rows = [names, *(_row(path) for path in diagnosis.paths[:most])]
    if len(diagnosis.paths) > most:
        rows.append([f"{len(diagnosis.paths) - most} more", *[""] * 7])
    rows.append(_together(diagnosis))
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        yield "  " + "  ".join(cells).rstrip()


def _row(path: PathRow) -> list[str]:
    figures = path.alone
    flow = figures.flows.get(path.label)
    delay = "-"
    if flow is not None and flow.min_rtt_ms:
        delay = f"{rfc6349.buffer_delay_percent(flow.rtt_ms, flow.min_rtt_ms):.0f} %"
    return [
        path.label,
        _mbps(path.potential_mbps),
        "failed" if figures.failed else _mbps(figures.mbps),
        "no subflow" if path.together_mbps is None else _mbps(path.together_mbps),
        _efficiency(figures),
        delay,
        _ratio(path.potential_mbps, figures.mbps),
        "-" if flow is None else f"{flow.lost:.2%}",
    ]


def _together(diagnosis: Diagnosis) -> list[str]:
    figures = diagnosis.together
    return [
        "all",
        _mbps(diagnosis.potential_mbps),
        _mbps(diagnosis.alone_mbps),
        _mbps(figures.mbps),
        _efficiency(figures),
        "",
        _ratio(diagnosis.potential_mbps, figures.mbps),
        "",
    ]


def _efficiency(figures: Figures) -> str:
    return f"{figures.efficiency_percent:.1f} %" if any(flow.sent for flow in figures.flows.values()) else "-"


def _ratio(ideal_mbps: float, actual_mbps: float) -> str:
    """Times of the same transfer are as the inverse of the throughputs."""
    if not actual_mbps or not ideal_mbps:
        return "-"
    return f"{rfc6349.transfer_time_ratio(1 / actual_mbps, 1 / ideal_mbps):.2f}"


def _mbps(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def document(found: Why) -> dict[str, Any]:
    """`--json`: Mbit/s, ms, percent, by the names."""
    return {
        "topology": found.name,
        "testbed": found.testbed,
        "seconds": found.seconds,
        "bytes": found.bytes,
        "directions": [_direction(direction) for direction in found.directions],
    }


def _direction(direction: Direction) -> dict[str, Any]:
    diagnosis = direction.diagnosis
    return {
        "sender": direction.sender,
        "receiver": direction.receiver,
        "sentence": headline(direction),
        "healthy": diagnosis.is_healthy,
        "potential_mbps": diagnosis.potential_mbps,
        "alone_mbps": diagnosis.alone_mbps,
        "together_mbps": diagnosis.together_mbps,
        "missing_mbps": diagnosis.missing_mbps,
        "unexplained_mbps": diagnosis.unexplained_mbps,
        "settings": direction.evidence.settings,
        "paths": [
            {
                "path": path.label,
                "rate_mbps": path.rate_mbps,
                "potential_mbps": path.potential_mbps,
                "together_mbps": path.together_mbps,
                "alone": path.alone,
            }
            for path in diagnosis.paths
        ],
        "causes": [
            {
                name: value
                for name, value in msgspec.structs.asdict(finding).items()
                if name not in ("part", "always")
            }
            for finding in diagnosis.findings
        ],
        "trials": [
            {"experiment": experiment.words, **msgspec.structs.asdict(figures)}
            for experiment, figures in direction.evidence.trials.items()
        ],
        "not_measured": direction.left_out,
    }
