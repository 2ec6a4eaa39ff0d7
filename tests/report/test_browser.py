"""The page in a real browser, used as its readers use it; test_pages.py looks at every kind of page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from mptune.result.run_data import RunData
from mptune.units import MIB, parse_size
from tests.report.making import sections
from tests.report.pages import DESK, PHONE, Opened, drawn

pytestmark = pytest.mark.needs("browser")


@pytest.fixture
def opened(browser: Browser, file: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A page, its width and its colour scheme as parametrised."""
    name, width, scheme = getattr(request, "param", ("answer", DESK, "light"))
    with drawn(browser, file[name], width, scheme) as page:
        yield page


def test_the_slider_changes_the_sentence_and_moves_the_ring(opened: Opened, optimised: RunData) -> None:
    """By keyboard, there and back."""
    assert optimised.answer is not None
    page = opened.page
    sentence = page.locator("#sentence p:visible")
    assert sentence.all_inner_texts() == [optimised.answer.answer[0]]
    assert page.locator("#evidence").is_visible() and page.locator("#gains").is_visible()
    at_first = ring(page)
    slider = page.locator("#sacrifice")
    slider.focus()
    page.keyboard.press("Home")
    best = optimised.answer.pareto[0]
    assert f"with {best.cc}" in sentence.inner_text() and sentence.inner_text() != optimised.answer.answer[0]
    match = re.search(r"set the buffer to ([\d.]+ \w+)", sentence.inner_text())
    # Whole KiB, rounded up.
    assert match is not None and 0 <= parse_size(match[1]) - best.buffer_mib * MIB < 1024
    assert "model predicts" in page.locator("#prediction").inner_text()
    assert not page.locator("#evidence").is_visible() and not page.locator("#gains").is_visible()
    least = f"{100 * best.sacrifice:g} %"
    assert slider.get_attribute("aria-valuetext") == page.locator("#given-up").inner_text() == least
    page.wait_for_function("before => JSON.stringify(window.ringAt()) !== before", arg=at_first)
    page.locator("#back").press("Enter")
    assert sentence.all_inner_texts() == [optimised.answer.answer[0]]
    page.wait_for_function("before => JSON.stringify(window.ringAt()) === before", arg=at_first)
    assert opened.complaints == []


def ring(page: Page) -> str:
    """Place of the visible ring of the trade-off."""
    page.evaluate(
        """() => { window.ringAt = () => [...document.querySelectorAll("#trade-off-0 path")]
            .filter((one) => one.getAttribute("stroke") === "var(--ink)")
            .filter((one) => one.getAttribute("stroke-width") === "2.5")
            .filter((one) => Number(one.getAttribute("opacity") ?? 1) > 0.5)
            .map((one) => one.getAttribute("transform")); }"""
    )
    ring: list[str] = page.evaluate("window.ringAt()")
    assert len(ring) == 1
    text: str = page.evaluate("JSON.stringify(window.ringAt())")
    return text


#: What the wide drawing of a section shows: texts that change, and widths of lines.
SHOWN = """(section) => JSON.stringify([...document.querySelectorAll(`#${section} .wide [data-before]`)]
    .map((one) => [one.textContent, one.querySelector("path")?.getAttribute("stroke-width")]))"""


@pytest.mark.parametrize(
    ("opened", "section", "last"),
    [
        (("answer", DESK, "light"), "network-over-time", "9.8 to 10 s"),
        (("paths", DESK, "light"), "network-over-rounds", "round 2"),
    ],
    indirect=["opened"],
    ids=["run", "campaign"],
)
def test_a_slider_chooses_the_time_of_the_drawing(opened: Opened, section: str, last: str) -> None:
    """By keyboard, there and back; what is printed is the whole run, and then the time is as it was."""
    page = opened.page
    slider = page.get_by_label(
        "Time in the run" if section == "network-over-time" else "Round of the campaign"
    )
    whole = page.evaluate(SHOWN, section)
    slider.focus()
    page.keyboard.press("End")
    then = page.evaluate(SHOWN, section)
    assert then != whole
    told = slider.get_attribute("aria-valuetext")
    assert told is not None and told.startswith(last) and "Mbit/s" in told
    assert page.locator(f"#{section} output").inner_text() == told.partition(". ")[0]
    page.evaluate(
        f"window.addEventListener('beforeprint', () => {{ window.printed = ({SHOWN})('{section}'); }})"
    )
    page.pdf()
    assert page.evaluate("window.printed") == whole
    assert page.evaluate(SHOWN, section) == then
    page.keyboard.press("Home")
    assert page.evaluate(SHOWN, section) == whole
    assert opened.complaints == []


def test_nothing_jumps_while_the_slider_moves(opened: Opened) -> None:
    page = opened.page
    page.locator("#sacrifice").focus()
    tops = set()
    for _ in range(4):
        tops.add(page.evaluate("document.getElementById('sacrifice').getBoundingClientRect().top"))
        page.keyboard.press("ArrowLeft")
    assert len(tops) == 1


@pytest.mark.parametrize("opened", [("answer", PHONE, "light")], indirect=True)
def test_on_a_phone_the_trade_off_comes_before_the_evidence(opened: Opened) -> None:
    ids = ["sentence", "gains", "sacrifice", "trade-off", "evidence"]
    tops = [opened.page.locator(f"#{id}").bounding_box() for id in ids]
    assert None not in tops
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)


def test_a_legend_brings_out_what_it_names(opened: Opened) -> None:
    page = opened.page
    button = page.locator('.legend[data-section="response"] button').first
    faded = """() => [...document.querySelectorAll("#response-0 path")]
        .map((one) => Number(one.getAttribute("opacity") ?? 1)).filter((o) => o > 0 && o < 0.13).length"""
    assert page.evaluate(faded) == 0
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_function(f"({faded})() > 0")
    button.press("Enter")
    page.wait_for_function(f"({faded})() === 0")


def test_a_legend_leaves_other_sections_alone(opened: Opened) -> None:
    """Also those whose name begins like its own."""
    page = opened.page
    faded = """(id) => [...document.querySelectorAll(`#${id} path`)]
        .map((one) => Number(one.getAttribute("opacity") ?? 1)).filter((o) => o > 0 && o < 0.13).length"""
    page.locator('.legend[data-section="over-time"] button').first.press("Enter")
    page.wait_for_function(f"({faded})('over-time-0') > 0")
    assert page.evaluate(faded, "over-time-subflows-0") == 0


def test_everything_that_acts_is_reached_by_keyboard(opened: Opened) -> None:
    page = opened.page
    expected = page.evaluate(
        "document.querySelectorAll('a[href], button:not([hidden]), input, summary, [tabindex=\"0\"]').length"
    )
    seen = 0
    for _ in range(expected + 5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        seen += 1
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    hidden = page.evaluate("document.querySelectorAll('details:not([open]) .table').length")
    assert seen == expected - hidden


@pytest.mark.parametrize(
    "opened", [("answer", DESK, "light"), ("answer", DESK, "dark")], indirect=True, ids=["light", "dark"]
)
def test_text_stands_out_from_its_ground(opened: Opened) -> None:
    """Headings, explanations and the labels of axes, by the contrast of WCAG 2.1 (4.5 to 1)."""
    contrasts = opened.page.evaluate(
        """() => {
            const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
            const ground = (one) => {
                const [r, g, b, a = 1] = numbers(getComputedStyle(one).backgroundColor);
                return a || !one.parentElement ? [r, g, b] : ground(one.parentElement);
            };
            const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
                .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const label = "#response-0 .role-axis-label text";
            return ["#sentence p", ".lead", "h2", "summary", "nav a", label].map((selector) => {
                const one = document.querySelector(selector);
                const style = getComputedStyle(one);
                const ink = one instanceof SVGElement ? style.fill : style.color;
                return [selector, ratio(light(numbers(ink)), light(ground(one.closest("section, body"))))];
            });
        }"""
    )
    assert {selector: ratio for selector, ratio in contrasts if ratio < 4.5} == {}


def test_it_prints_without_what_only_a_screen_can_do(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator(".slider:visible").count() == 0 and not page.locator("nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf(path=tmp_path / "page.pdf", format="A4")) > 20_000


@pytest.mark.parametrize(
    "opened",
    [(name, DESK, "dark") for name in ("answer", "learned", "messages", "front", "transfers")],
    indirect=True,
    ids=lambda case: case[0],
)
def test_the_answer_is_printed_on_two_pages_and_everything_if_that_is_asked_for(opened: Opened) -> None:
    assert 1 <= sheets(opened.page) <= 2
    hidden = "found => found.filter((one) => getComputedStyle(one).display === 'none').map((one) => one.id)"
    opened.page.emulate_media(media="print")
    more = opened.page.eval_on_selector_all("main > .more", "found => found.map(one => one.id)")
    assert opened.page.eval_on_selector_all("main > section", hidden) == more
    opened.page.locator("#print-all").evaluate("box => box.click()")
    assert opened.page.eval_on_selector_all("main > section", hidden) == []


def sheets(page: Page) -> int:
    """Pages of paper that a page takes."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))


def test_figures_of_all_sections_are_there(opened: Opened, optimised: RunData) -> None:
    ids = set(opened.page.eval_on_selector_all("section[id], .beside", "found => found.map(one => one.id)"))
    assert {section.name for section in sections(optimised)} <= ids


#: What is written along the horizontal axis of a chart, in alphabetical order, as a script.
LABELS = """JSON.stringify([...document.querySelector("#over-time-0 .role-axis-label").children]
    .map((one) => one.textContent).sort())"""


def test_a_wheel_scrolls_and_with_the_control_key_it_zooms(opened: Opened) -> None:
    page, chart = opened.page, opened.page.locator("#over-time-0")
    chart.scroll_into_view_if_needed()
    before, at = page.evaluate(LABELS), page.evaluate("window.scrollY")
    chart.hover()
    page.mouse.wheel(0, -90)
    page.wait_for_function("before => window.scrollY < before", arg=at)
    assert page.evaluate(LABELS) == before
    chart.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -600)
    page.keyboard.up("Control")
    page.wait_for_function(f"before => {LABELS} !== before", arg=before)
    chart.dblclick()
    page.wait_for_function(f"before => {LABELS} === before", arg=before)
    assert opened.complaints == []
