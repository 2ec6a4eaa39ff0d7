"""A real browser, and what bars people from a page who read it in other ways than with eyes and a mouse."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.plugins import needs

#: Impacts of axe-core that are no matter of taste.
_GRAVE = ("serious", "critical")


@contextmanager
def launched() -> Iterator[Browser]:
    """The machine's Chromium, until the end of the block."""
    # As root Chromium has no sandbox; the pages are ours.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=needs.browser(), args=arguments)
        yield browser
        browser.close()


def barriers(page: Page) -> dict[str, str]:
    """Grave findings of axe-core in a page with all its details open: rule -> an element that breaks it."""
    page.eval_on_selector_all("details", "found => found.forEach(one => { one.open = true; })")
    found = Axe().run(page).response["violations"]
    return {one["id"]: one["nodes"][0]["html"] for one in found if one["impact"] in _GRAVE}
