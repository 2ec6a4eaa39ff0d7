"""The report as one HTML file that needs nothing else: no network, no server, no other file.

Everything from files and results is escaped: as text in HTML, and as JSON in which "<" cannot end a script.
What is in the sections stands in `mptune.report.sections`; looks and behaviour in `assets`.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from mptune.report.run_data import RunData
from mptune.report.sections import Section, warnings

#: Sections that are given the whole width of a wide screen.
_WIDE = frozenset({"trade-off", "impact-factors", "topology", "over-time", "compared"})

#: Rows of a table in the page; the run directory has all of them.
_MAX_ROWS = 400

#: Rows of a chart: a series of many runs would otherwise make the file too large.
_DIGITS = 5


def page(run: RunData, others: Sequence[RunData], sections: Sequence[Section]) -> str:
    """HTML text of a report."""
    import vl_convert

    front = [] if run.result is None else run.result["pareto"]
    charts = {one.name: _spec(one.chart) for one in sections if one.chart is not None}
    title = f"mptune: {run.config['topology'].get('name', run.label) if run.config['topology'] else run.label}"
    body = [
        '<a class="skip" href="#main">Skip to the answer</a>',
        f"<header><h1>{escape(title)}</h1><p>{escape(_byline(run, others))}</p></header>",
        '<main id="main">',
        _answer(run, front),
        _warnings(run),
        '<div class="sections">',
        *(_section(one) for one in sections),
        _facts(run),
        "</div></main>",
        "<footer>Made by mptune. Everything in this page is in this file; nothing is loaded from elsewhere.</footer>",
        _json("charts", charts),
        _json("front", front),
        f"<script>{vl_convert.javascript_bundle()}</script>",
        f"<script>{_asset('report.js')}</script>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_asset('report.css')}</style></head><body>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def _asset(name: str) -> str:
    return (files("mptune.report") / "assets" / name).read_text(encoding="utf-8")


def _spec(chart: Any) -> dict[str, Any]:
    """Vega-Lite of a chart, its numbers no longer than a screen can show."""
    spec: dict[str, Any] = chart.to_dict()
    shortened: dict[str, Any] = _shortened(spec)
    return shortened


def _shortened(thing: Any) -> Any:
    if isinstance(thing, float):
        return float(f"{thing:.{_DIGITS}g}")
    if isinstance(thing, Mapping):
        return {key: _shortened(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_shortened(value) for value in thing]
    return thing


def _json(name: str, content: object) -> str:
    """A block of data; "<" is written so that no text in it can end the block."""
    text = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _byline(run: RunData, others: Sequence[RunData]) -> str:
    testbed = run.config["options"].get("testbed")
    measured = f", measured on the {testbed} testbed" if testbed else ", decided from given measurements"
    compared = f"; compared with {', '.join(one.label for one in others)}" if others else ""
    return f"{run.config['time'][:16].replace('T', ' ')}{measured}{compared}"


def _answer(run: RunData, front: Sequence[Mapping[str, Any]]) -> str:
    if run.result is None:
        done = len(run.trials) - run.failures
        return f'<div class="answer"><p>A campaign without a question: {done} observations.</p></div>'
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in run.result.get("answer", []))
    chosen = min(range(len(front)), key=lambda i: abs(front[i]["sacrifice"] - run.result["sacrifice"]))  # type: ignore[index]
    slider = (
        '<div class="slider"><label for="sacrifice">Throughput to give up for a smaller buffer</label>'
        f'<input id="sacrifice" type="range" min="0" max="{len(front) - 1}" step="1" value="{chosen}">'
        '<output id="choice" for="sacrifice"></output></div>'
    )
    return f'<div class="answer">{sentences}{slider}</div>'


def _warnings(run: RunData) -> str:
    found = warnings(run)
    if not found:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in found)
    return f'<div class="warnings"><h2>Take into account</h2><ul>{items}</ul></div>'


def _section(one: Section) -> str:
    wide = ' class="wide"' if one.name in _WIDE else ""
    name, title = escape(one.name, quote=True), escape(one.title)
    if one.svg is not None:
        figure = f'<div class="drawing">{one.svg}</div>'
    else:
        label = escape(f"{one.title}. {one.lead}", quote=True)
        figure = f'<div class="chart" id="chart-{name}" role="img" aria-label="{label}"></div>'
    return (
        f'<section id="{name}"{wide}><h2>{title}</h2><p class="lead">{escape(one.lead)}</p>{figure}'
        f"<details><summary>The numbers</summary>{table(one.rows)}</details></section>"
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as an HTML table; the unit is in the name of the column."""
    if not rows:
        return ""
    columns = list(rows[0])
    head = "".join(f'<th scope="col">{escape(_heading(name))}</th>' for name in columns)
    shown = "".join(
        "<tr>" + "".join(_cell(row[name]) for name in columns) + "</tr>" for row in rows[:_MAX_ROWS]
    )
    more = f"<p>{len(rows) - _MAX_ROWS} more rows in the run directory.</p>" if len(rows) > _MAX_ROWS else ""
    return f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table></div>{more}'


#: Units as the names of columns end with them, and as people write them.
_UNITS = {"mbps": "Mbit/s", "mib": "MiB", "kib": "KiB", "ms": "ms", "s": "s", "h": "h", "percent": "%"}


def _heading(name: str) -> str:
    words, _, unit = name.rpartition("_")
    return f"{words.replace('_', ' ')} ({_UNITS[unit]})" if unit in _UNITS and words else name.replace("_", " ")


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, float):
        return f'<td class="number">{value:.5g}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{escape(str(value))}</td>"


def _facts(run: RunData) -> str:
    """How it was measured: versions, platform, options, seeds."""
    facts: dict[str, object] = {
        "run directory": run.directory.name,
        "time": run.config["time"],
        "platform": run.config["platform"],
        **{f"version of {name}": text for name, text in run.config["versions"].items()},
        "trials": f"{len(run.trials)}, {run.failures} failed",
    }
    if run.result is not None and run.result["r_squared"] is not None:
        facts["response model"] = f"{run.result['model']}, R-square {run.result['r_squared']:.4g}"
    for name, value in run.config["options"].items():
        facts[f"option {name}"] = json.dumps(value) if isinstance(value, dict | list) else value
    for observation in list(run.series.values())[:1]:
        facts |= {f"testbed: {name}": value for name, value in observation.metadata.items()}
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>' for name, value in facts.items()
    )
    return (
        '<section id="measured" class="wide"><h2>How it was measured</h2><details><summary>Versions, options, '
        f'seeds</summary><div class="table" tabindex="0"><table class="facts"><tbody>{rows}</tbody></table></div>'
        "</details></section>"
    )
