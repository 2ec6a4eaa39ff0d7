"""Steps to a simpler topology file: without an interface, without a key, with round numbers.

A step takes the tables of a file and gives others, or None where there is nothing for it to do. `from_tables`
checks that the result is still a network.
"""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mptune import units

__all__ = ["Raw", "Step", "extras", "interfaces", "numbers", "rows"]

#: Tables of a topology file, as `mptune.tables.read_toml` gives them.
Raw = dict[str, Any]
Step = Callable[[Raw], Raw | None]

#: Place of a table: keys, and for a row of a list its number.
_Place = tuple[str | int, ...]

#: Keys that name the part of the network a table is about, or its kind: nothing is simpler without them.
_NAMES = ("isp", "abbr", "path", "paths", "name", "link", "kind", "interfaces", "segments", "shared")
#: Keys of the file that are no part of the network.
_WORDS = ("source", "assumed", "measured")
#: In the place of a trace, in this order.
_RATES = ("10 Mbit/s", "1 Mbit/s", "100 Mbit/s")
_WAYS = {"trace": "rate", "trace_up": "up", "trace_down": "down"}
#: Significant digits of round numbers, the roundest first.
_DIGITS = (1, 2)
_KINDS = (
    (units.parse_rate, units.format_rate),
    (units.parse_time, units.format_time),
    (units.parse_size, units.format_size),
    (units.parse_fraction, units.format_fraction),
)


def interfaces(raw: Raw) -> Iterator[Step]:
    """Steps that take away an interface with its paths."""
    for abbr, site in raw["sites"].items():
        for interface in reversed(site["interfaces"]):
            yield partial(_without_interface, site=abbr, abbr=interface["abbr"])


def rows(raw: Raw) -> Iterator[Step]:
    """Steps that take away others' traffic, or a shared segment."""
    for number in reversed(range(len(raw.get("background", ())))):
        yield partial(_without_row, place=("background", number))
    for number in reversed(range(len(raw.get("core", {}).get("shared", ())))):
        yield partial(_without_row, place=("core", "shared", number))


def extras(raw: Raw) -> Iterator[Step]:
    """Steps that take away a key of a link, which then has its default, or a trace, for a rate."""
    for place in _tables(raw):
        for key in _at(raw, place):
            if key in _WAYS:
                for rate in _RATES:
                    yield partial(_with_rate, place=place, key=key, rate=rate)
            elif key not in _NAMES:
                yield partial(_without_key, place=(*place, key))
    for key in ("initial_path", "lsrr", "description"):
        yield partial(_without_key, place=(key,))


def numbers(raw: Raw) -> Iterator[Step]:
    """Steps that round a number, and take away the words on its origin."""
    for place in _tables(raw):
        for leaf in _leaves(_at(raw, place), place):
            text = _at(raw, leaf)
            for rounder in _rounder(text):
                yield partial(_with_value, place=leaf, old=text, new=rounder)


def _tables(raw: Raw) -> Iterator[_Place]:
    """Every table about links or traffic; rows of the end first, as steps may take rows away."""
    for number in reversed(range(len(raw.get("background", ())))):
        yield "background", number
    if "core" in raw:
        for name in ("shared", "segments"):
            for number in reversed(range(len(raw["core"].get(name, ())))):
                yield "core", name, number
        yield ("core",)
    for abbr, site in raw["sites"].items():
        for number in reversed(range(len(site["interfaces"]))):
            yield "sites", abbr, "interfaces", number


def _at(raw: Raw, place: _Place) -> Any:
    table: Any = raw
    for part in place:
        table = table[part]
    return table


def _there(raw: Raw, place: _Place) -> Any:
    """As `_at`, or None if an earlier step has taken it away."""
    try:
        return _at(raw, place)
    except (KeyError, IndexError, TypeError):
        return None


def _leaves(value: Any, place: _Place) -> Iterator[_Place]:
    """Places of texts that may be numbers."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in (*_NAMES, *_WORDS):
                yield from _leaves(below, (*place, key))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _leaves(below, (*place, number))
    elif isinstance(value, str):
        yield place


def _rounder(text: str) -> Iterator[str]:
    """The same value with fewer digits, or in its usual unit."""
    for parse, show in _KINDS:
        try:
            value = parse(text)
        except ValueError:
            continue
        rounded = (round(value, digits - len(str(value))) for digits in _DIGITS)
        yield from dict.fromkeys(one for one in map(show, (*rounded, value)) if one != text)
        return


def _without_interface(raw: Raw, site: str, abbr: str) -> Raw | None:
    left = copy.deepcopy(raw)
    rows_left = [row for row in left["sites"][site]["interfaces"] if row["abbr"] != abbr]
    if not rows_left or len(rows_left) == len(left["sites"][site]["interfaces"]):
        return None
    left["sites"][site]["interfaces"] = rows_left
    sending, receiving = (left["sites"][left[end]]["interfaces"] for end in ("sender", "receiver"))
    labels = {f"{here['abbr']}-{there['abbr']}" for here in sending for there in receiving}
    core = left.get("core", {})
    if "segments" in core:
        core["segments"] = [row for row in core["segments"] if row.get("path") in labels]
    for row in core.get("shared", ()):
        row["paths"] = [label for label in row.get("paths", ()) if label in labels]
    if "shared" in core:
        core["shared"] = [row for row in core["shared"] if row["paths"]]
    if "background" in left:
        left["background"] = [row for row in left["background"] if _stays(row, labels, site, abbr)]
    if left.get("initial_path") is not None and _plain(left["initial_path"]) not in labels:
        del left["initial_path"]
    return left


def _stays(row: Raw, labels: set[str], site: str, abbr: str) -> bool:
    """True if cross traffic still has its link or path."""
    path, link = _plain(row.get("path")), _plain(row.get("link"))
    if isinstance(path, str):
        return path in labels
    words = str(link).split()
    return words[:2] != [site, abbr] and ("-" not in words[0] or words[0] in labels)


def _plain(value: Any) -> Any:
    """A value without the words on its origin."""
    return value.get("value") if isinstance(value, dict) else value


def _without_row(raw: Raw, place: _Place) -> Raw | None:
    if _there(raw, place) is None:
        return None
    left = copy.deepcopy(raw)
    del _at(left, place[:-1])[place[-1]]
    return left


def _without_key(raw: Raw, place: _Place) -> Raw | None:
    table = _there(raw, place[:-1])
    if not isinstance(table, dict) or place[-1] not in table:
        return None
    left = copy.deepcopy(raw)
    del _at(left, place[:-1])[place[-1]]
    return left


def _with_rate(raw: Raw, place: _Place, key: str, rate: str) -> Raw | None:
    left = _without_key(raw, (*place, key))
    if left is not None:
        _at(left, place)[_WAYS[key]] = rate
    return left


def _with_value(raw: Raw, place: _Place, old: str, new: str) -> Raw | None:
    if _there(raw, place) != old:
        return None
    left = copy.deepcopy(raw)
    # The origin of the number is not that of a rounder one.
    *table, last = place[:-1] if place[-1] == "value" else place
    _at(left, tuple(table))[last] = new
    return left
