"""Tables that a benchmark writes into a page of the docs, between its markers.

Not a benchmark.
"""

from collections.abc import Sequence
from pathlib import Path


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown; the first row is its head."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "|" + "---|" * len(rows[0]), *body]


def markers(name: str) -> tuple[str, str]:
    """The lines before and after the content of that name."""
    return f"<!-- {name}: written by the command -->", f"<!-- end of {name} -->"


def replace(page: Path, name: str, content: str) -> None:
    """Put new content between the page's markers of that name.

    Raises
    ------
    SystemExit : the page does not have each marker once.
    """
    text = page.read_text(encoding="utf-8")
    begin, end = markers(name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"{page}: expected one {begin!r} and one {end!r}")
    head, rest = text.split(begin)
    page.write_text(f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}", encoding="utf-8")
