"""Every kind of page in a real browser, looked at and left alone; what acts is in test_browser.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.plugins.browsing import barriers
from tests.report.pages import DESK, PHONE, Opened, drawn

pytestmark = pytest.mark.needs("browser")


@pytest.fixture(scope="module")
def looked_at(browser: Browser, file: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A page for several tests, which leave it as it was."""
    name, width, scheme = request.param
    with drawn(browser, file[name], width, scheme) as page:
        yield page


def marks(page: Page, chart: str) -> int:
    """Visible marks of a chart that have an extent; axes do not count."""
    width: int = page.evaluate(
        """(id) => [...document.querySelectorAll(`#${id} g[class*="role-mark"] > *`)]
            .filter((one) => Number(one.getAttribute("opacity") ?? 1) > 0)
            .map((one) => one.getBoundingClientRect())
            .filter((box) => box.width + box.height > 0).length""",
        chart,
    )
    return width


#: Each page on a phone in light and on a desk in dark colours, and how such a case is called.
EVERYWHERE = [
    (name, width, scheme)
    for name in ("answer", "learned", "transfers", "paths", "messages", "front", "compared")
    for width, scheme in ((PHONE, "light"), (DESK, "dark"))
]
everywhere = pytest.mark.parametrize(
    "looked_at",
    EVERYWHERE,
    indirect=True,
    ids=["-".join(str(part) for part in pair) for pair in EVERYWHERE],
    scope="module",
)


@everywhere
def test_it_draws_everything_quietly_and_asks_for_nothing(looked_at: Opened) -> None:
    page = looked_at.page
    charts = page.eval_on_selector_all(".chart", "found => found.map(one => one.id)")
    assert charts
    assert {chart: marks(page, chart) for chart in charts if not marks(page, chart)} == {}
    assert looked_at.complaints == []
    assert looked_at.requests == []


@pytest.mark.parametrize(
    "looked_at",
    [case for case in EVERYWHERE if case[2] == "light" or case[0] in ("transfers", "messages")],
    indirect=True,
    ids=lambda case: "-".join(map(str, case)),
    scope="module",
)
def test_it_bars_nobody(looked_at: Opened) -> None:
    """Who uses a screen reader, a keyboard or large letters; colours are those of every page."""
    assert barriers(looked_at.page) == {}


@everywhere
def test_it_never_scrolls_sideways(looked_at: Opened) -> None:
    """Not even with all tables open: those scroll in places of their own."""
    page = looked_at.page
    closed = "found => found.filter(one => !one.open).map(one => { one.open = true; return one; })"
    details = page.evaluate_handle(f"({closed})([...document.querySelectorAll('details')])")
    widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1]
    outside = page.evaluate(
        """[...document.querySelectorAll(".chart svg, .drawing svg")]
            .filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1)
            .map((one) => one.parentElement.id)"""
    )
    assert outside == []
    details.evaluate("closed => closed.forEach(one => { one.open = false; })")
