"""The face's reference, from docstrings and declarations: `python -m mptune.api.reference` prints it.

It is Markdown that is read in the repository and on the site alike.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NamedTuple

import mptune
from mptune.api._kinds import KINDS
from mptune.api._options import keywords
from mptune.api._wording import in_python

_HEAD = """# Python

For those who want mptune's results in a script or a notebook.

`import mptune` offers what the commands do. Only the names on this page are stable; every other module
of the package is internal.

Options are keywords with the names of the flags (`for_` is `--for`). A value is written as on the command
line (`"4MiB"`, `"30s"`), or is a number, a bool, or a sequence; None is the default. A bare size is in MiB,
times need a unit. Errors are `mptune.MptuneError`, wrong input `mptune.InputError`, each one line that names
the keyword. Nothing is printed unless `progress=True`. Results are immutable records.

[The notebook](../notebook.ipynb) shows them at work. This page is made by `python -m mptune.api.reference`
from docstrings and the options' declarations.
"""

_TAIL = """Next: [the notebook](../notebook.ipynb), [result.json](../how-to/report.md#resultjson)."""

#: Of a class that is not the face's own: what is promised of it.
_PROMISED = {"Topology": ("frame", "reversed")}
_UNDERLINED = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
#: "name : what it is", with further lines indented.
_ENTRY = re.compile(r"^(\S.*?)(?: : |\n    )((?:.+\n?)(?:    .*\n?)*)", re.MULTILINE)


class _Doc(NamedTuple):
    """A docstring: what comes first, then its sections by name."""

    text: str
    sections: dict[str, str]


def reference() -> str:
    """The page."""
    names = [name for name in mptune.__all__ if name not in ("__version__", "version")]
    entries = (line for name in sorted(names, key=_place) for line in _entry(name))
    return "\n".join([_HEAD, *entries, _TAIL])


def _place(name: str) -> int:
    """Functions in the order of the work, then what they return, then errors."""
    member = getattr(mptune, name)
    if isinstance(member, FunctionType):
        return ["load", *KINDS, "open_run"].index(name)
    return 100 + issubclass(member, Exception)


def _entry(name: str) -> Iterator[str]:
    member = getattr(mptune, name)
    doc = _doc(member)
    yield from (f"## {name}", "")
    if isinstance(member, FunctionType):
        yield from ("```python", f"mptune.{name}{_signature(member)}", "```", "")
    yield from (doc.text, "")
    for title in ("Parameters", "Returns", "Attributes"):
        yield from _list(title, list(_items(doc.sections.get(title, ""))))
    if inspect.isclass(member) and not issubclass(member, Exception):
        yield from _list("Properties and methods", list(_members(name, member)))
    yield from _list("Raises", list(_items(doc.sections.get("Raises", ""))))
    if name in KINDS:
        yield from ("| keyword | what it is |", "|---|---|")
        words = in_python(name)
        rows = {key: keyword.described for kind in KINDS[name] for key, keyword in keywords(kind).items()}
        yield from (f"| `{key}` | {_cell(words(rows[key]))} |" for key in sorted(rows))
        yield ""
    yield from ("```pycon", doc.sections["Examples"].rstrip(), "```", "")


def _doc(member: Any) -> _Doc:
    text, *rest = _UNDERLINED.split(inspect.getdoc(member) or "")
    return _Doc(text.strip(), dict(zip(rest[::2], rest[1::2], strict=True)))


def _signature(function: FunctionType) -> str:
    """Names and defaults; types are in the tables, and in editors."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    result = str(signature.return_annotation).removeprefix("mptune.topology._model.")
    if inspect.isclass(signature.return_annotation):
        result = signature.return_annotation.__name__
    return f"{inspect.Signature(parameters)} -> {result}"


def _items(section: str) -> Iterator[tuple[str, str]]:
    for match in _ENTRY.finditer(section):
        yield f"`{match[1]}`", " ".join(match[2].split())


def _members(name: str, kind: type) -> Iterator[tuple[str, str]]:
    for key, value in vars(kind).items():
        listed = key in _PROMISED[name] if name in _PROMISED else not key.startswith("_")
        if listed and isinstance(value, property | FunctionType):
            arguments = "" if isinstance(value, property) else str(_parameters(value))
            doc = _doc(value)
            texts = [" ".join(doc.text.split())]
            texts += (f"{key}: {text}" for key, text in _items(doc.sections.get("Parameters", "")))
            texts += (f"Raises {key}: {text}" for key, text in _items(doc.sections.get("Raises", "")))
            yield f"`{key}{arguments}`", " ".join(texts)


def _parameters(method: FunctionType) -> inspect.Signature:
    """The parameters of a method but the first, without types."""
    others = list(inspect.signature(method).parameters.values())[1:]
    return inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty) for parameter in others])


def _list(title: str, items: list[tuple[str, str]]) -> Iterator[str]:
    if items:
        yield from (f"**{title}**", "", *(f"- {name}: {text}" for name, text in items), "")


def _cell(text: str) -> str:
    return re.sub(r"([|<*])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    sys.stdout.write(reference())
