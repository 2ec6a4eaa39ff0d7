"""The face's reference, from docstrings and declarations: `python -m mptune.face.reference` prints it."""

import inspect
import sys
from collections.abc import Iterator

import mptune
from mptune.face._functions import KINDS
from mptune.face._options import keywords

_HEAD = """# Python

`import mptune` offers what the commands do. Only the names on this page are stable; every other module
of the package is internal.

Options are keywords with the names of the flags; a value is written as on the command line
(`"4MiB"`, `"30s"`), or is a number, a bool, or a sequence. Errors are `mptune.MptuneError`, wrong input
`mptune.InputError`, each one line. Nothing is printed unless `progress=True`.

This page is made by `python -m mptune.face.reference` from docstrings and the options' declarations.
"""


def reference() -> str:
    """The page."""
    return "\n".join([_HEAD, *(line for name in mptune.__all__ for line in _entry(name))]).rstrip() + "\n"


def _entry(name: str) -> Iterator[str]:
    found = getattr(mptune, name)
    if isinstance(found, str) or name == "version":
        return
    yield from (f"## {name}", "", "```text", inspect.getdoc(found) or "", "```", "")
    if name in KINDS:
        yield from ("| keyword | what it is |", "|---|---|")
        rows = {key: one.option.help for kind in KINDS[name] for key, one in keywords(kind).items()}
        yield from (f"| `{key}` | {rows[key]} |" for key in sorted(rows))
        yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())
