"""Options in messages, in Python's words: keywords for flags.

Messages are written for the command line, by whoever checks the value, and name flags. Here the flags of a
function's command become its keywords. Commands that a message advises (`mptune fit --factor`) stay.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from mptune.api._kinds import KINDS, OWN
from mptune.api._options import keywords
from mptune.errors import MptuneError
from mptune.options import SWITCH, TOGGLE, Kind

#: A command line as far as its first flag, or a flag and the word after it.
_FLAG = re.compile(
    r"(?P<command>\bmptune(?: [a-z]+)+ )?"
    r"(?<![\w/.-])(?P<flag>--[a-z][a-z-]*[a-z])"
    r"(?: (?P<value>\w[\w%-]*(?:\.\w+)*))?"
)


class _Keyword(NamedTuple):
    """A keyword; without a kind it is a parameter of the function itself."""

    name: str
    kind: Kind[Any] | None = None


@cache
def _flags(function: str) -> Mapping[str, _Keyword]:
    """Keywords of a function by the flags of its command."""
    flags = {flag: _Keyword(name) for flag, name in OWN.get(function, {}).items()}
    for kind in KINDS[function]:
        for name, keyword in keywords(kind).items():
            flags[keyword.flag] = _Keyword(name, keyword.option.kind)
    return flags


def in_python(function: str) -> Callable[[str], str]:
    """Give the translation of a text that the function's command would print."""
    flags = _flags(function)

    def spoken(match: re.Match[str]) -> str:
        flag, value = match["flag"], match["value"]
        off = flag.replace("--no-", "--", 1)
        if match["command"] or (flag not in flags and off not in flags):
            return match[0]
        name, kind = flags[flag if flag in flags else off]
        after = "" if value is None else f" {value}"
        if match.start() == 0 and match[0] == match.string:
            return name  # the message only names the option
        if name == "force" or kind is SWITCH or kind is TOGGLE:
            return f"{name}={flag in flags}{after}"
        if kind is None or value is None or not _is_value(kind, value):
            return f"{name}{after}"
        return f"{name}={value if value.isdecimal() else repr(value)}"

    return lambda text: _FLAG.sub(spoken, text)


def _is_value(kind: Kind[Any], word: str) -> bool:
    """True if a word after a flag is its value; of a kind that takes any word, none is."""
    return _accepts(kind, word) and not _accepts(kind, "?")


def _accepts(kind: Kind[Any], word: str) -> bool:
    try:
        kind.check(kind.parse(word))
    except ValueError:
        return False
    return True


@contextmanager
def speaking(function: str) -> Iterator[None]:
    """Let errors of the block name keywords of a function."""
    try:
        yield
    except MptuneError as error:
        error.reword(in_python(function))
        raise
