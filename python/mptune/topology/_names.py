"""Rules for the names, places and sentences of topologies: what could be more than that is refused.

They end up in command lines, configuration files, names of directories and on terminals.
"""

import re

from mptune._text import quoted
from mptune.errors import InputError

#: Most characters of a name or a label, of the name of a place, and of a sentence.
NAME, PLACE, SENTENCE = 64, 200, 4000
#: C0 and C1 without tabs and line feeds, which only sentences may have; what separates lines or changes the
#: direction of letters; what cannot be encoded.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_NOT_IN_NAMES, _NOT_IN_SENTENCES = re.compile(f"[\t\n{_CONTROLS}]"), re.compile(f"[{_CONTROLS}]")


def check_text(text: str, where: str, key: str, most: int) -> None:
    """Refuse what is longer than this, or has other characters than names, or sentences, have.

    Raises
    ------
    InputError : naming the key.
    """
    if len(text) > most:
        raise InputError(where, key, f"expected at most {most} characters, found {len(text)}: {quoted(text)}")
    if (_NOT_IN_SENTENCES if most == SENTENCE else _NOT_IN_NAMES).search(text):
        raise InputError(where, key, f"expected text without control characters, found {quoted(text)}")


def check_name(text: str, where: str, key: str) -> None:
    """Refuse what is no name of a topology or a campaign.

    Raises
    ------
    InputError : naming the key.
    """
    if not 1 <= len(text) <= NAME:
        found = f"{len(text)}: {quoted(text)}" if text else "none"
        raise InputError(where, key, f"expected 1 to {NAME} characters, found {found}")
    if _NOT_IN_NAMES.search(text):
        raise InputError(where, key, f"expected text without control characters, found {quoted(text)}")


def check_abbr(text: str, where: str, key: str) -> None:
    """Refuse what is no abbreviation of an interface: it becomes a part of the labels of paths.

    Raises
    ------
    InputError : naming the key.
    """
    if not re.fullmatch(r"[A-Za-z0-9]+", text) or len(text) > NAME:
        expected = f"expected letters and digits only, at most {NAME}, found {quoted(text)}"
        raise InputError(where, key, expected)


def coordinate(degrees: float, name: str, where: str, key: str) -> float:
    """Refuse what is no latitude (`lat`) or longitude (`lon`).

    Raises
    ------
    InputError : naming the key.
    """
    most, words = (90, "north") if name == "lat" else (180, "east")
    if not -most <= degrees <= most:
        raise InputError(where, key, f"expected -{most} to {most} degrees {words}, found {degrees:g}")
    return degrees
