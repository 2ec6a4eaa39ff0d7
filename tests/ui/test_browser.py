"""The pages in a real browser: quiet, live, and readable on phones and desks, in light and dark colours."""

import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from mptune.monitor import daemon, sources
from mptune.store.directory import CONFIG, RESULT
from tests.monitor.reports import FakeAgent, connection, report, subflow
from tests.plugins.browsing import barriers, launched
from tests.ui.visiting import Visitor, served

pytestmark = pytest.mark.needs("browser")

#: Milliseconds after which something is broken.
PATIENCE_MS = 120_000
#: Looks of the script at the server.
LOOKS = "main[data-looks]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as one:
        yield one


@pytest.fixture
def complaints() -> list[str]:
    """Messages of pages on their console."""
    return []


@contextmanager
def opened(
    browser: Browser, visitor: Visitor, complaints: list[str], width: int = 1440, scheme: str = "light"
) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.goto(visitor.server.access.url)
    page.wait_for_selector(LOOKS)
    yield page
    context.close()


@pytest.fixture
def busy(made: Path, tmp_path: Path, hostile: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Runs in every state, beside a daemon with a connection."""
    runs = tmp_path / "runs"
    shutil.copytree(made, runs)
    for name in ("interrupted", "broken", hostile.replace("/", "")):
        shutil.copytree(made / "answer", runs / name)
    (runs / "interrupted" / CONFIG).unlink()
    (runs / "broken" / RESULT).write_text("{")
    path, agent = tmp_path / "daemon.sock", FakeAgent()

    @contextmanager
    def started(targets: Mapping[str, str], interval_ns: int) -> Iterator[dict[str, FakeAgent]]:
        yield {"": agent}

    monkeypatch.setenv(daemon.VARIABLE, str(path))
    monkeypatch.setattr(sources, "started", started)
    flows = subflow(1), subflow(2, backup=True, held=True, cc="mptune_prefer")
    agent.say(report(1, connection(1, *flows)))
    agent.say(report(2, connection(1, *flows, acked_bytes=10**6, command=hostile)))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield runs


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1440])
def test_it_is_quiet_fits_and_bars_nobody(
    width: int, scheme: str, busy: Path, browser: Browser, complaints: list[str]
) -> None:
    with served(busy) as visitor, opened(browser, visitor, complaints, width, scheme) as page:
        page.wait_for_selector(".subflow")
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1]
        outside = (
            "found => found.filter((one) => one.getBoundingClientRect().right > window.innerWidth).length"
        )
        assert page.eval_on_selector_all(".cards td > div, .state, .line", outside) == 0
        assert barriers(page) == {}
        assert "token" not in page.url
    assert complaints == []


def test_runs_that_come_appear_and_what_is_chosen_stays_chosen(
    made: Path, tmp_path: Path, browser: Browser, complaints: list[str]
) -> None:
    for name in ("one", "two"):
        shutil.copytree(made / "table", tmp_path / name)
    with served(tmp_path) as visitor, opened(browser, visitor, complaints) as page:
        page.locator("input[value=one]").check()
        page.locator("input[value=one]").focus()
        shutil.copytree(made / "answer", tmp_path / "new")
        page.wait_for_selector("input[value=new]")
        assert page.locator("input:checked").evaluate_all("found => found.map(one => one.value)") == ["one"]
        assert page.evaluate("document.activeElement.value") == "one"
        page.locator("input[value=new]").check()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector("body[data-drawn]")
        assert page.locator("#compared").is_visible() and "run=one&run=new" in page.url
        page.get_by_role("link", name="All runs").click()
        page.wait_for_selector(LOOKS)
    assert complaints == []


def test_a_server_that_has_ended_is_told(made: Path, browser: Browser, complaints: list[str]) -> None:
    with served(made) as visitor, opened(browser, visitor, complaints) as page:
        page.route("**/parts", lambda route: route.abort())
        page.wait_for_selector("#fresh:not(:empty)")
        assert "does not answer any more" in page.locator("#fresh").inner_text()
        assert page.locator("tbody tr").count() == 3
        page.unroute("**/parts")
        page.wait_for_selector("#fresh:empty", state="attached")


def test_a_browser_that_another_site_sends_here_is_let_in(
    made: Path, tmp_path: Path, browser: Browser, complaints: list[str]
) -> None:
    """A strict cookie is not sent with what another site asks for: the way on is asked for by this one."""
    with served(made) as visitor, opened(browser, visitor, complaints) as page:
        letter = tmp_path / "letter.html"
        letter.write_text(f'<a href="{visitor.server.access.url}">look</a>')
        page.goto(letter.as_uri())  # first, as the page from before asks now and then
        page.context.clear_cookies()
        page.get_by_role("link").click()
        page.wait_for_selector(LOOKS)
        assert json.loads(page.evaluate("JSON.stringify(document.cookie)")) == ""
    assert complaints == []
