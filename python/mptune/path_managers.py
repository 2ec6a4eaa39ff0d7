"""The core's path managers and their options, as Python passes them on.

Only the policy declares its options (crates/mptune-core/src/pathmanager): name, kind of value, unit, default,
meaning. Between the user and the policy, options are in a dictionary by name, as JSON types. Only references
to paths are translated, from the label that people use to the number that the core uses.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from mptune import _core


class Option(msgspec.Struct, frozen=True):
    """An option of a path manager.

    Attributes
    ----------
    kind : "count" (a whole number), "sizes" (a list of bytes), "paths" (a list of labels) or "path_times"
        (nanoseconds by label).
    unit : of its numbers; empty if they have none.
    help : one sentence.
    default : value if it is not set; None if the policy decides.
    """

    name: str
    kind: Literal["count", "sizes", "paths", "path_times"]
    unit: str
    help: str
    default: Any


@cache
def options() -> dict[str, tuple[Option, ...]]:
    """The options of every path manager."""
    return msgspec.json.decode(_core.path_manager_options(), type=dict[str, tuple[Option, ...]])


def numbered(pm: str, given: Mapping[str, Any], number: Callable[[str, str], int]) -> dict[str, Any]:
    """Options as the core reads them: paths by number.

    Parameters
    ----------
    pm : name of the path manager.
    given : options by name, with labels; the core itself refuses unknown or unexpected ones.
    number : from a label and the option's name to the path's number; raises if there is no such path.
    """
    kinds = {option.name: option.kind for option in options().get(pm, ())}

    def translated(name: str, value: Any) -> Any:
        if kinds.get(name) == "paths" and isinstance(value, (list, tuple)):
            return [number(label, name) for label in value]
        if kinds.get(name) == "path_times" and isinstance(value, Mapping):
            return {number(label, name): time for label, time in value.items()}
        return value

    return {name: translated(name, value) for name, value in given.items()}


def refusals(pm: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Options that a path manager itself refuses, whatever the topology.

    Yields
    ------
    The option's name, and what was expected.
    """
    labels: dict[str, int] = {}
    numbers = numbered(pm, given, lambda label, _: labels.setdefault(label, len(labels)))
    paths = [{"local": number, "remote": 0} for number in range(max(1, len(labels)))]
    try:
        _core.path_manager_start(pm, msgspec.json.encode(numbers), msgspec.json.encode(paths), None, 0)
    except _core.SpecError as error:
        yield error.args
