"""A report's page in a browser: opened as its readers open it, and what it complains of or asks for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Route

from tests.plugins.waiting import PATIENCE_S

#: Widths of a phone and of a desk, pixels.
PHONE, DESK = 390, 1400


class Opened:
    """A page, and what it complained of or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.route("**/*", self._route)

    def _route(self, route: Route) -> None:
        url = route.request.url
        if url.startswith(("file:", "data:")):
            route.continue_()
        else:
            self.requests.append(url)
            route.abort()


@contextmanager
def drawn(browser: Browser, file: Path, width: int, scheme: str) -> Iterator[Opened]:
    """A page of a width and a colour scheme, drawn."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(1000 * PATIENCE_S)
    opened = Opened(context.new_page())
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    opened.page.goto(file.as_uri())
    opened.page.wait_for_selector("body[data-drawn]")
    yield opened
    context.close()
