"""Looks whether a built site loads anything from elsewhere: `python shipping/check_site.py DIRECTORY`.

Links that a reader may follow are no matter; scripts, styles, pictures, fonts and frames are.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

#: Attributes that make a browser fetch something, by element; of `link` only some relations do.
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
_STYLES = re.compile(r"""(?:url\(|@import )["']?((?:https?:)?//[^)"']+)""")
_ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")
#: Relations of `link` that name a page and fetch nothing.
_NAMES = frozenset({"canonical", "prev", "next", "alternate", "author", "license"})


class _Fetched(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element loads."""
        given = dict(attrs)
        address = given.get(_FETCHED.get(tag, "")) or ""
        if tag == "link" and _NAMES & set((given.get("rel") or "").split()):
            return
        if _ELSEWHERE.match(address):
            self.found.append(address)


def fetched(directory: Path) -> list[str]:
    """Each address outside that a page or a style of the site loads, with the file."""
    found = []
    for path in sorted(directory.rglob("*")):
        if path.suffix == ".html":
            page = _Fetched()
            page.feed(path.read_text("utf-8"))
            found += [f"{path}: {address}" for address in page.found]
        elif path.suffix == ".css":
            found += [f"{path}: {address}" for address in _STYLES.findall(path.read_text("utf-8"))]
    return found


def main() -> int:
    """Print them; 1 if there are any."""
    directory = Path(sys.argv[1])
    found = fetched(directory)
    for one in found:
        print(f"loads from elsewhere: {one}")
    if not (directory / "search/search_index.js").exists():
        print("the search has no index that pages on disk can read")
        return 1
    if not found:
        pages = len(list(directory.rglob("*.html")))
        print(f"{directory}/index.html: {pages} pages, nothing loaded from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
