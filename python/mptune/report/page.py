"""The report as one HTML file that needs nothing else: no network, no server, no other file.

The sections' content is in `mptune.report.sections`, looks and behaviour are in `assets`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files

import msgspec

from mptune import _cache
from mptune._text import escaped
from mptune.report import markup, measured
from mptune.report.answer import BESIDE, answer
from mptune.report.charts.style import look, zoomable
from mptune.report.choices import choices
from mptune.report.sections import Section, Slider
from mptune.result.run_data import RunData

#: Nothing may be loaded from elsewhere; Vega compiles its expressions.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
)

#: The figure that shows how the answer came about, and not what it is.
_COURSE = "reached"

#: For who wants more on paper than the answer.
_PRINTING = (
    '<p class="printing"><label><input type="checkbox" id="print-all"> Print everything; if not, the answer, '
    "one figure and the network, on two pages.</label></p>"
)

#: Hint about zooming, for those who have a mouse.
_ZOOM = "Ctrl + wheel zooms, dragging moves, a double click shows everything again."


def page(
    run: RunData,
    others: Sequence[RunData],
    sections: Sequence[Section],
    *,
    home: tuple[str, str] | None = None,
) -> str:
    """HTML text of a report.

    Parameters
    ----------
    home : address and title of the page that it is reached from, where there is one.
    """
    choices_ = choices(run)
    beside = next((section for section in sections if section.name == BESIDE), None)
    below = [section for section in sections if section.name != BESIDE]
    printed = _printed(below)
    body = [
        '<a class="skip" href="#answer">Skip to the answer</a>',
        f"<header><p>{_way(home)}mptune report</p><h1>{escaped(run.name)}</h1>"
        f"<p>{escaped(_byline(run, others))}</p></header>",
        "<main>",
        answer(run, choices_, _content(beside)),
        _warnings(run),
        contents(below, {"measured": "How it was measured"}),
        _PRINTING,
        *(section_of(each_section, printed=each_section.name in printed) for each_section in below),
        _measured(run),
        "</main>",
    ]
    slider: list[dict[str, str | None]] = [
        {"sacrifice": choice.sacrifice, "prediction": choice.prediction} for choice in choices_.all
    ]
    return whole(f"{run.name}: mptune report", body, sections, slider)


def _way(home: tuple[str, str] | None) -> str:
    """The link back, in front of what the page is."""
    return "" if home is None else f'<a href="{escaped(home[0], quote=True)}">{escaped(home[1])}</a> / '


def whole(
    title: str,
    body: Sequence[str],
    sections: Sequence[Section],
    slider: Sequence[Mapping[str, str | None]] = (),
) -> str:
    """HTML text of a page with its style sheet, scripts, and the charts of its sections.

    Parameters
    ----------
    body : pieces of HTML; no text in it is escaped here.
    slider : positions of a slider in the body.
    """
    specs = {
        f"{section.name}-{number}": markup.shortened(
            {**zoomable(panel.chart, panel.zoom), "config": look(page=True)}
        )
        for section in sections
        for number, panel in enumerate(section.panels)
    }
    pieces = [
        *body,
        "<footer>Made by mptune. Everything is in this one file; nothing is loaded from elsewhere.</footer>",
        markup.data("charts", specs),
        markup.data("choices", slider),
        markup.data("times", _times(sections)),
        markup.script(_library()),
        markup.script(asset("report.js")),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escaped(title)}</title><style>{asset('report.css')}</style></head><body>\n"
        + "\n".join(pieces)
        + "\n</body></html>\n"
    )


def _times(sections: Sequence[Section]) -> dict[str, list[dict[str, object]]]:
    """Positions of the sliders in sections, by the sections' names."""
    return {
        section.name: [msgspec.structs.asdict(position) for position in section.slider.positions]
        for section in sections
        if section.slider is not None
    }


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; putting them together takes seconds."""

    def put_together() -> str:
        import vl_convert

        return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))

    return _cache.text(f"vega-{version('vl-convert-python')}.js", put_together)


def asset(name: str) -> str:
    """Text of the style sheet, `report.css`, or of the script, `report.js`."""
    return (files("mptune.report") / "assets" / name).read_text(encoding="utf-8")


def _byline(run: RunData, others: Sequence[RunData]) -> str:
    where = run.config.options.get("testbed")
    how = f"measured on the {where} testbed" if where else "decided from measurements made elsewhere"
    against = f"; compared with {', '.join(name.label for name in others)}" if others else ""
    return f"{run.label}, {run.config.time[:16].replace('T', ' ')}, {how}{against}"


def _warnings(run: RunData) -> str:
    sentences = measured.warnings(run)
    if not sentences:
        return ""
    items = "".join(f"<li>{escaped(text)}</li>" for text in sentences)
    return f'<section id="warnings" class="warnings"><h2>Take into account</h2><ul>{items}</ul></section>'


def contents(sections: Sequence[Section], more: Mapping[str, str]) -> str:
    """Links to sections, and to other parts of the page: title by id."""
    links = "".join(
        f'<li><a href="#{name}">{escaped(title)}</a></li>'
        for name, title in [*((section.name, section.title) for section in sections), *more.items()]
    )
    return (
        f'<nav aria-label="Contents"><ul>{links}</ul>'
        "</nav><noscript><p>A script in this file draws the figures; the tables work anyway.</p></noscript>"
    )


def section_of(section: Section, *, printed: bool = True) -> str:
    """A section as HTML; `printed` also where not all of the page is."""
    more = "" if printed else ' class="more"'
    return f'<section id="{section.name}"{more}>{_content(section)}</section>'


def _printed(sections: Sequence[Section]) -> set[str]:
    """Names of what is on paper beside the answer: the first figure of results, and the network."""
    figure = next((section.name for section in sections if section.panels and section.name != _COURSE), "")
    return {figure, "topology"}


def _content(section: Section | None) -> str:
    """Heading, explanation, key, figures and tables of a section; nothing if there is none."""
    if section is None:
        return ""
    level = "h3" if section.name == BESIDE else "h2"
    parts = [f'<{level}>{escaped(section.title)}</{level}><p class="lead">{escaped(section.lead)}</p>']
    if section.key is not None:
        parts.append(markup.legend(section.key, section.name))
    if section.slider is not None:
        parts.append(_slider(section.slider, section.name))
    if section.drawing is not None:
        wide, narrow = section.drawing
        parts.append(f'<div class="drawing wide">{wide}</div><div class="drawing narrow">{narrow}</div>')
    if any(panel.zoom for panel in section.panels):
        parts.append(f'<p class="zoom">{_ZOOM}</p>')
    if section.panels:
        parts.append(
            f'<div class="panels of-{min(len(section.panels), 3)}">{"".join(_panels(section))}</div>'
        )
    parts.append(markup.tables(section.open))
    if section.tables:
        parts.append(f"<details><summary>The numbers</summary>{markup.tables(section.tables)}</details>")
    return "".join(parts)


def _slider(slider: Slider, section: str) -> str:
    """The slider of a drawing, which is there as soon as the script is."""
    return (
        f'<div class="slider times" hidden><label for="{section}-time">{escaped(slider.label)}</label>'
        f'<input id="{section}-time" data-section="{section}" type="range" min="0" step="1" value="0" '
        f'max="{len(slider.positions) - 1}"><output for="{section}-time"></output></div>'
    )


def _panels(section: Section) -> list[str]:
    made = []
    for number, panel in enumerate(section.panels):
        title = f"<figcaption>{escaped(panel.title)}</figcaption>" if panel.title else ""
        label = escaped(": ".join(text for text in (section.title, panel.title) if text), quote=True)
        place = f'<div class="chart" id="{section.name}-{number}" role="img" aria-label="{label}"></div>'
        made.append(f"<figure>{title}{place}</figure>")
    return made


def _measured(run: RunData) -> str:
    failed = measured.reasons(run)
    full = markup.scrolled(markup.facts(measured.in_full(run)), "Versions and options")
    return (
        '<section id="measured"><h2>How it was measured</h2>'
        + markup.facts(measured.in_short(run))
        + (markup.tables([failed]) if failed else "")
        + f"<details><summary>Versions and options, and what the testbed reports</summary>{full}</details>"
        + "</section>"
    )
