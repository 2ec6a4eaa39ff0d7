"""Types of the keywords, from the options' declarations: run as a program it prints `_keywords.py`.

Type checkers and editors read sources, so that the types stand in a file; a test compares the two.
"""

import sys
from collections.abc import Iterator
from typing import Any

from mptune.api._kinds import KINDS
from mptune.api._options import keywords
from mptune.options import Kind

_HEAD = '''"""Types of the keywords, for type checkers and editors: names and kinds of values, no defaults.

Made from the options' declarations by `python -m mptune.api.keyword_types`.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

#: A value as on the command line ("4MiB", "30s"), or a number.
One = str | int | float
#: Several of them: text with commas, or a sequence.
Many = One | Sequence[One]
#: Values by the label of a path.
ByLabel = str | Mapping[str, One]
'''


def source() -> str:
    """The module with a type for each function's keywords."""
    return "\n\n".join([_HEAD, *("\n".join(_type(name)) + "\n" for name in KINDS)])


def _type(function: str) -> Iterator[str]:
    yield f"class {function.title().replace('_', '')}Keywords(TypedDict, total=False):"
    yield f'    """Keywords of `mptune.{function}`."""'
    yield ""
    known = {name: value.option.kind for kind in KINDS[function] for name, value in keywords(kind).items()}
    yield from (f"    {name}: {_of(kind)} | None" for name, kind in known.items())


def _of(kind: Kind[Any]) -> str:
    if dict in kind.written:
        return "ByLabel"
    if kind.several or list in kind.written:
        return "Many"
    return kind.written[0].__name__ if kind.written in ((bool,), (int,)) else "One"


if __name__ == "__main__":
    sys.stdout.write(source())
