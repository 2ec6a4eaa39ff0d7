"""The options of a run in words: names without their units, values with them.

Options are stored as integers of nanoseconds and bytes, with the unit at the end of the name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mptune.units import format_size, format_time

#: Lists of numbers longer than this are shown by their ends.
_LISTED = 6


def in_words(options: Mapping[str, Any]) -> dict[str, str]:
    """Options by name, those of a part prefixed with the part's name."""
    return dict(_named(options, ""))


def _named(options: Mapping[str, Any], part: str) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _named(value, f"{part}{name} ")
        else:
            yield f"{part}{_bare(name).replace('_', ' ')}", _value(name, value)


def _bare(name: str) -> str:
    for unit in ("_ns", "_bytes"):
        name = name.removesuffix(unit)
    return name


def _value(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | tuple):
        if len(value) > _LISTED and not isinstance(value[0], str):
            return f"{len(value)} values, {_value(name, value[0])} to {_value(name, value[-1])}"
        return ", ".join(_value(name, entry) for entry in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_ns"):
        return format_time(value)
    if isinstance(value, int) and (name.endswith("_bytes") or name in ("buffers", "transfers")):
        return format_size(value, 4)
    return str(value)
