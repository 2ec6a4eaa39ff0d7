"""HTML of the pages. All text of files, hosts and programs is escaped; runs are drawn by the report.

Each part of the first page is made anew for every look, and a script puts it in the place of the old one.
"""

from collections.abc import Sequence
from importlib.resources import files
from urllib.parse import quote, urlencode

from mptune._text import digits, escaped, number_of
from mptune.monitor.columns import COLUMNS
from mptune.report.markup import scrolled
from mptune.report.page import asset
from mptune.result.in_short import InShort
from mptune.result.values import Gain, Interval
from mptune.result.wording import ends, lasting
from mptune.ui.live import Line, Seen
from mptune.ui.runs import AtWork, Run

#: Of the pages that are made here. That of a report is the report's own.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: Addresses.
HOME, PARTS, REPORT, STYLE, SCRIPT = "/", "/parts", "/report", "/ui.css", "/ui.js"
#: Reports that are compared at most: more lines than there are colours for tell nothing.
MOST = 8
#: Reasons for failures that are shown.
_REASONS = 5


def style() -> str:
    """The style sheet: the report's, and what only these pages have."""
    return f"{asset('report.css')}\n{_asset('ui.css')}"


def script() -> str:
    """The script, which asks for the parts again."""
    return _asset("ui.js")


def _asset(name: str) -> str:
    return (files("mptune.ui") / "assets" / name).read_text(encoding="utf-8")


def address(*names: str) -> str:
    """Address of the report of runs, the first in full."""
    return f"{REPORT}?{urlencode([('run', key(name)) for name in names], safe='/')}"


def key(name: str) -> str:
    """By what a run is asked for: its name in ASCII, whatever letters and bytes that has."""
    return quote(name, safe="/", errors="surrogateescape")


def entrance() -> str:
    """The page that answers an address with a token: it leads on to an address without it.

    A page and no redirection, so that the request for the next one comes from this site: the cookie of a
    browser that was sent here by another site is not sent with that one's requests.
    """
    body = f'<main><p><a href="{HOME}">Continue</a></p></main>'
    return _page("mptune", body, f'<meta http-equiv="refresh" content="0;url={HOME}">')


def refusal(line: str, *, home: bool) -> str:
    """A page with one line, where there is nothing else to show.

    Parameters
    ----------
    home : whoever asks may see the others.
    """
    way = f'<p><a href="{HOME}">All runs</a></p>' if home else ""
    body = (
        '<header><p>mptune ui</p><h1>Nothing to show</h1></header><main><section class="warnings">'
        f'<p class="line">{escaped(line)}</p></section>{way}</main>'
    )
    return _page("mptune", body)


def overview(place: str, parts: dict[str, str]) -> str:
    """The first page.

    Parameters
    ----------
    place : the directory.
    parts : of `parts`.
    """
    sections = "".join(f'<div id="{name}" class="part">{text}</div>' for name, text in parts.items())
    body = (
        '<a class="skip" href="#runs">Skip to the runs</a>'
        f"<header><p>mptune ui</p><h1>{escaped(place)}</h1></header>"
        f'<main data-parts="{PARTS}">{sections}</main>'
        '<footer><p id="fresh" role="status"></p><p>Served from this machine to this machine. Nothing is '
        "written, and nothing is loaded from elsewhere.</p></footer>"
        f'<script src="{SCRIPT}"></script>'
    )
    without = '<noscript><meta http-equiv="refresh" content="5"></noscript>'
    return _page(f"{place}: mptune", body, without)


def parts(runs: Sequence[Run], seen: Seen) -> dict[str, str]:
    """The parts of the first page by their ids."""
    at_work = [run for run in runs if run.at_work is not None]
    return {
        "progress": "".join(_progress(run, run.at_work) for run in at_work if run.at_work is not None),
        "runs": _runs(runs),
        "connections": _connections(seen),
    }


def _page(title: str, body: str, head: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'{head}<title>{escaped(title)}</title><link rel="stylesheet" href="{STYLE}"></head>'
        f"<body>{body}</body></html>\n"
    )


# ---- runs -----------------------------------------------------------------------------------------

_HEADINGS = ("run", "network", "answer", "now", "recommended", "gain", "finished", "state")


def _runs(runs: Sequence[Run]) -> str:
    if not runs:
        return '<section><h2>Runs</h2><p class="line">There is no run here any more.</p></section>'
    head = "".join(f'<th scope="col" role="columnheader">{text}</th>' for text in _HEADINGS)
    rows = "".join(_row(run) for run in runs)
    finished = sum(run.short is not None for run in runs)
    compare = (
        '<p class="act"><button type="submit">Compare the chosen runs</button> '
        f"<span>The first one is shown in full, with up to {MOST - 1} others.</span></p>"
        if finished > 1
        else ""
    )
    table = (
        f'<table class="cards" role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{rows}</tbody></table>'
    )
    return (
        f"<section><h2>{number_of(len(runs), 'run').capitalize()}</h2>"
        '<p class="lead">Means with 95 % intervals of fresh trials. <em>Now</em> is what the hosts do today '
        "or, where that was not measured, the papers' default; a gain is positive where the answer is "
        "better.</p>"
        f'<form action="{REPORT}" method="get">{scrolled(table, "Runs")}{compare}</form></section>'
    )


def _row(run: Run) -> str:
    short = run.short
    cells = [_title(run)]
    if short is not None:
        cells += [
            escaped(short.network),
            f"{escaped(short.answer)}{_below(_buffers(short))}" if short.answer else _small(short.remark),
            _value(short, short.before, short.beside if short.beside != "now" else ""),
            _value(short, short.recommended, short.remark if short.answer else ""),
            _gain(short),
            f"{escaped(short.time[:10])}{_below(short.time[11:16])}",
        ]
    elif run.at_work is not None:
        done = sum(phase.done for phase in run.at_work.phases)
        cells += [escaped(run.at_work.name), _small(f"{number_of(done, 'trial')} so far"), "", "", "", ""]
    else:
        cells += ["", f'<span class="line">{escaped(run.trouble)}</span>', "", "", "", ""]
    cells.append(f'<span class="state {_kind(run)}">{escaped(run.state)}</span>')
    return f'<tr role="row">{"".join(map(_cell, _HEADINGS, cells))}</tr>'


def _cell(heading: str, content: str) -> str:
    if heading == _HEADINGS[0]:
        return f'<th scope="row" role="rowheader">{content}</th>'
    return f'<td role="cell" data-label="{heading}">{f"<div>{content}</div>" if content else ""}</td>'


def _kind(run: Run) -> str:
    if run.trouble:
        return "bad"
    return "busy" if run.process is not None else "open" if run.at_work is not None else "done"


def _title(run: Run) -> str:
    """The name of a run; of a finished one with the way to its report, and a box to choose it."""
    name = escaped(run.name, quote=True)
    if run.short is None:
        return name
    link = f'<a href="{escaped(address(run.name), quote=True)}">{name}</a>'
    value = escaped(key(run.name), quote=True)
    box = f'<input type="checkbox" name="run" value="{value}" aria-label="Compare {name}">'
    return f'<div class="name">{box}<span>{link}</span></div>'


def _buffers(short: InShort) -> str:
    return f"buffers {short.buffers}" if short.buffers else ""


def _value(short: InShort, interval: Interval, remark: str) -> str:
    """A mean with its interval, and in small letters what it is of where that is not plain."""
    if interval.mean is None:
        return _small(remark)
    range_ = ""
    if interval.low is not None and interval.high is not None:
        range_ = _below(f"{ends(interval.low, interval.high)}")
    what = "" if short.metric == "throughput" else f"{short.metric}; " if remark else short.metric
    return f"<b>{digits(interval.mean)}</b> {escaped(short.unit)}{range_}{_below(f'{what}{remark}')}"


def _gain(short: InShort) -> str:
    """A gain as a share with its interval, or in the unit where there is no share."""
    gain = short.gain
    if gain.mean is None:
        return ""
    if gain.share is None or not gain.mean:
        return f"{digits(gain.mean, sign='+')} {escaped(short.unit)}"
    return f"<b>{100 * gain.share:+z.0f} %</b>{_share_ends(gain, gain.share / gain.mean)}"


def _share_ends(gain: Gain, per_unit: float) -> str:
    if gain.low is None or gain.high is None:
        return ""
    return _below(f"{100 * gain.low * per_unit:+z.0f} to {100 * gain.high * per_unit:+z.0f} %")


def _small(text: str) -> str:
    return f'<span class="small">{escaped(text)}</span>' if text else ""


def _below(text: str) -> str:
    return f"<br>{_small(text)}" if text else ""


# ---- progress -------------------------------------------------------------------------------------


def _progress(run: Run, at_work: AtWork) -> str:
    began = f"{at_work.name}, begun {at_work.created[:16].replace('T', ' ')}"
    if run.process is None:
        how = "It was interrupted; its trials are kept, and mptune campaign resume continues it."
    else:
        last = "" if at_work.quiet_s is None else f", the last one {lasting(at_work.quiet_s)} ago"
        quick = f": {at_work.pace}" if at_work.pace else ""
        how = f"Process {run.process} works in it{quick}{last}. More may be planned on the way."
    rows = "".join(
        f'<tr><th scope="row">{escaped(phase.purpose)}{f", round {phase.round + 1}" if phase.round else ""}'
        f'</th><td><progress max="{max(phase.planned, phase.done, 1)}" value="{phase.done}" '
        f'aria-label="{escaped(phase.purpose, quote=True)}"></progress></td>'
        f'<td class="number">{phase.done} of {max(phase.planned, phase.done)}</td>'
        f"<td>{f'{phase.failed} failed' if phase.failed else ''}</td></tr>"
        for phase in at_work.phases
    )
    failures = "".join(
        f"<li>{count} failed: {escaped(reason)}</li>" for reason, count in at_work.failures[:_REASONS]
    )
    return (
        f'<section class="progress {_kind(run)}"><h2>{escaped(run.name)}: {escaped(run.state)}</h2>'
        f'<p class="lead">{escaped(began)}. {escaped(how)}</p>'
        + (f"<table>{rows}</table>" if rows else "<p>No trial has begun.</p>")
        + (f'<ul class="failures">{failures}</ul>' if failures else "")
        + "</section>"
    )


# ---- connections ----------------------------------------------------------------------------------


def _connections(seen: Seen) -> str:
    if not seen.has_daemon:
        text = "No daemon answers on this machine. Without one, mptune watch shows connections."
        return f'<section><h2>Live connections</h2><p class="lead">{text}</p></section>'
    trouble = f'<p class="line">{escaped(seen.trouble)}</p>' if seen.trouble else ""
    events = "".join(f"<li>{escaped(event)}</li>" for event in reversed(seen.events))
    did = f"<ul>{events}</ul>" if events else "<p>Nothing since this page was first asked for.</p>"
    return (
        f"<section><h2>Live connections</h2>{_lines(seen.lines)}{trouble}"
        f"<h3>What the daemon did</h3>{did}</section>"
    )


def _lines(lines: Sequence[Line] | None) -> str:
    if not lines:
        return f"<p>{'Waiting for the first report.' if lines is None else 'No MPTCP connections.'}</p>"
    head = "".join(f'<th scope="col">{escaped(column.title)}</th>' for column in COLUMNS)
    rows = "".join(_line(line) for line in lines)
    return scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>", "Connections")


def _line(line: Line) -> str:
    name, *others = line.cells
    cells = "".join(
        f'<td class="{cell.tone}{" number" if column.number else ""}">{escaped(cell.text)}</td>'
        for column, cell in zip(COLUMNS[1:], others, strict=True)
    )
    why = _below(line.why)
    kind = "subflow" if line.is_subflow else "connection"
    # In front of it are marks of the terminal's table: opened, pinned, or three blanks.
    title = escaped(name.text[2:].strip())
    return f'<tr class="{kind}"><th scope="row">{title}{why}</th>{cells}</tr>'
