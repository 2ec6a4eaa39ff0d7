"""Options of path managers as flags and as tables of a campaign file, made from what the policies declare.

A path manager declares its options in its own file of the core (`mptune.path_managers`). Here each path
manager with options becomes a struct of them, `PathManagerOptions` has one of these per path manager, and
whatever has that as a field has the flags, the tables and the checks. It names no single option.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from mptune import path_managers, testbeds
from mptune._text import quoted
from mptune.options._declared import Option, Options
from mptune.options._kinds import Kind, by_label, count, several, size, time
from mptune.options.trials import LABELS

#: Type and kind of the values by the kind that a policy declares.
_KINDS: dict[str, tuple[Any, Kind[Any]]] = {
    "count": (int, count()),
    "sizes": (tuple[int, ...], several(size(least=0), distinct=False)),
    "paths": (tuple[str, ...], LABELS),
    "path_times": (dict[str, int], by_label(time())),
}


class _OfOne(Options, frozen=True, kw_only=True):
    """Base of the options of one path manager; None leaves one at its default."""

    pm: ClassVar[str]

    def given(self) -> dict[str, Any]:
        """Options that were given, by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not None}

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Conflicts that the policy itself refuses, and paths in two of its lists."""
        yield from path_managers.refusals(self.pm, self.given())
        lists = [option.name for option in path_managers.options()[self.pm] if option.kind == "paths"]
        for combination, other in itertools.combinations(lists, 2):
            both = [path for path in getattr(self, combination) or () if path in (getattr(self, other) or ())]
            if both:
                yield (
                    other,
                    f"expected other paths than those of {combination}, found {quoted(both[0])} in both",
                )


class _OfAll(Options, frozen=True, kw_only=True):
    """Options of every path manager that has any, each in a struct of its own; None where none was given."""

    def of(self, pm: str) -> dict[str, Any]:
        """Options of one path manager, as in `Trial`: those that are not at their defaults."""
        part: _OfOne | None = getattr(self, pm, None)
        given = {} if part is None else part.given()
        defaults = {option.name: option.default for option in path_managers.options().get(pm, ())}
        return {name: value for name, value in given.items() if _as_json(value) != defaults[name]}

    def unused(self, pms: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Options that were given to other path managers than these: the field, and its path manager."""
        for pm in self.__struct_fields__:
            if pm not in pms and (part := getattr(self, pm)) is not None:
                yield from ((f"{pm}.{name}", pm) for name in part.given())


def _as_json(value: Any) -> Any:
    """A value as the core has it: a list where Python has a tuple."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _declaration(pm: str, option: path_managers.Option, *, alone: bool) -> Option[Any]:
    """An option of a policy; unless its name is the flag `alone`, the path manager's stands before it."""
    kind = _KINDS[option.kind][1]
    unit = f", {option.unit}" if option.kind == "count" and option.unit else ""
    return Option(
        kind,
        f"{option.help[:1].upper()}{option.help[1:]} (path manager {pm}{unit}).",
        key=f"{pm}.{option.name}",
        flag="" if alone else f"--{pm}-{option.name}".replace("_", "-"),
        file_only=option.kind == "path_times",
        rare=True,
        unset=kind.show(option.default) if option.default else "",
    )


def _struct(pm: str, owners: Mapping[str, str]) -> Any:
    """Struct of the options of one path manager; `owners` as in `_owners`."""
    fields = []
    for each_option in path_managers.options()[pm]:
        option = _declaration(pm, each_option, alone=owners[each_option.name] == pm)
        fields.append((each_option.name, Annotated[_KINDS[each_option.kind][0] | None, option], None))
    return msgspec.defstruct(
        f"{pm.capitalize()}Options",
        fields,
        bases=(_OfOne,),
        namespace={"pm": pm},
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def _owners() -> dict[str, str]:
    """The path manager that has the flag of a name: the first in the core's list, so new ones take none."""
    options, owners = path_managers.options(), dict[str, str]()
    for pm in testbeds.names("path_managers"):
        for option in options[pm]:
            owners.setdefault(option.name, pm)
    return owners


def _all() -> Any:
    owners = _owners()
    return msgspec.defstruct(
        "PathManagerOptions",
        [(pm, _struct(pm, owners) | None, None) for pm, known in path_managers.options().items() if known],
        bases=(_OfAll,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )


if TYPE_CHECKING:
    PathManagerOptions = _OfAll
else:
    PathManagerOptions = _all()
