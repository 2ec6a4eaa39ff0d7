"""Declarations of options, the structs that contain them, and where a value was written."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from mptune.errors import InputError
from mptune.options._kinds import SWITCH, Kind

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Option(Generic[T]):
    """One option: its values, its purpose and its names.

    Attributes
    ----------
    help : a sentence or two; `Declared.described` adds the default and the names to choose from.
    key : dotted key in a campaign file; empty for what only the command line has.
    flag : on the command line; without it the last part of the key.
    nested : flag where the struct is part of another struct, if it is another one there.
    alone : where the struct is part of another struct it is no option: it follows from the others.
    unset : what holds where the value is None, for the help.
    file_only : it is no flag; the values are too long for a command line.
    rare : few need it: help shows it only if everything is asked for.
    """

    kind: Kind[T]
    help: str
    key: str = ""
    flag: str = ""
    nested: str = ""
    alone: bool = False
    unset: str = ""
    file_only: bool = False
    rare: bool = False

    @property
    def own_flag(self) -> str:
        """Flag on the command line of a command that has the struct itself."""
        return self.flag or f"--{self.key.rpartition('.')[2].replace('_', '-')}"


class Declared(NamedTuple):
    """An option at its place in a struct.

    Attributes
    ----------
    fields : names of the fields that lead to it.
    default : msgspec.NODEFAULT if there is none.
    """

    fields: tuple[str, ...]
    option: Option[Any]
    default: Any

    @property
    def flag(self) -> str:
        """Flag on the command line."""
        return (self.option.nested if len(self.fields) > 1 else "") or self.option.own_flag

    @property
    def key(self) -> str:
        """Dotted key in a campaign file."""
        return self.option.key

    @property
    def described(self) -> str:
        """Help with the names to choose from and the default."""
        option = self.option
        names = _listed(tuple(map(str, option.kind.known())))
        known = f" {'Any' if option.kind.several else 'One'} of {names}." if names else ""
        default = option.unset if self.default is None else self._shown_default()
        return f"{option.help}{known}" + (f"  [default: {default}]" if default else "")

    def _shown_default(self) -> str:
        if self.option.kind is SWITCH or self.default in (msgspec.NODEFAULT, ()):
            return ""
        return str(self.option.kind.show(self.default))

    def parse(self, text: str, place: Place | None = None) -> Any:
        """Value of a text as it is on the command line.

        Raises
        ------
        InputError : naming the flag, or the place that `place` gives.
        """
        try:
            value = self.option.kind.parse(text)
            self.option.kind.check(value)
        except ValueError as error:
            raise InputError(*(place or by_flag)(self), str(error)) from None
        return value


def _listed(names: tuple[str, ...]) -> str:
    """Names to choose from; not one by one where a word stands behind a plus sign ("olia+hold")."""
    plain = [name for name in names if "+" not in name]
    behind = list(dict.fromkeys(name.partition("+")[2] for name in names if "+" in name))
    if not behind:
        return ", ".join(plain)
    alone = [name for name in plain if f"{name}+{behind[0]}" not in names]
    but = f" but {' and '.join(alone)}" if alone else ""
    *most, last = (f"+{word}" for word in behind)
    return f"{', '.join(plain)}; each{but} also with {', '.join(most)} or {last}"


#: Place where the value of an option was written: `where` and `key` of an InputError.
Place = Callable[[Declared], tuple[str, str]]


def by_flag(declaration: Declared) -> tuple[str, str]:
    """On the command line; also used for calls from Python."""
    return declaration.flag, ""


def in_file(path: str) -> Place:
    """In a campaign file."""
    return lambda declaration: (path, declaration.key)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the structs whose fields are options."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Conflicts between options: a field, dotted in a part, and the expectation that it violates."""
        return iter(())

    def completed(self) -> Self:
        """Fill in values that follow from other options; not applied to structs built in Python."""
        return self

    def check(self, place: Place = by_flag) -> None:
        """Refuse invalid values.

        Raises
        ------
        InputError : naming the option where it was written.
        """
        for declaration in declared(type(self)):
            value = value_of(self, declaration.fields)
            if value is not None:
                _check(declaration, value, place)
        for prefix, part in _parts(self):
            for name, expected in part.conflicts():
                raise error_about(type(self), (*prefix, *name.split(".")), expected, place)


def _check(declaration: Declared, value: Any, place: Place) -> None:
    try:
        declaration.option.kind.check(value)
    except ValueError as error:
        raise InputError(*place(declaration), str(error)) from None


def value_of(options: Options, fields: tuple[str, ...]) -> Any:
    """Value of a field; None if it is of a part that is not there."""
    value: Any = options
    for name in fields:
        value = None if value is None else getattr(value, name)
    return value


def left_alone(options: Options, field: str) -> bool:
    """True if nobody wrote a tuple of values, or a time: it is the declared default, not one equal to it.

    What is parsed, or read from a store, is always another object.
    """
    (declared_default,) = (
        field_info.default for field_info in msgspec.structs.fields(type(options)) if field_info.name == field
    )
    return getattr(options, field) is declared_default


def _parts(options: Options, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Options]]:
    """The struct itself and the options structs in it."""
    yield prefix, options
    for name in options.__struct_fields__:
        if isinstance(part := getattr(options, name), Options):
            yield from _parts(part, (*prefix, name))


@cache
def declared(kind: type[Options]) -> tuple[Declared, ...]:
    """Every option of a struct, in the order of its fields."""
    return tuple(_declared(kind, (), None))


def error_about(
    kind: type[Options], fields: tuple[str, ...], expected: str, place: Place = by_flag
) -> InputError:
    """The error about an option of a struct, naming it where it was written."""
    (declaration,) = (declaration for declaration in declared(kind) if declaration.fields == fields)
    return InputError(*place(declaration), expected)


def written(kind: type[Options], field: str, value: object, place: Place = by_flag) -> str:
    """A value of an option as the user would write it where the others were written."""
    (found,) = (declaration for declaration in declared(kind) if declaration.fields == (field,))
    text, (where, key) = found.option.kind.show(value), place(found)
    return f'{key} = "{text}"' if key else f"{where} {text}"


def _declared(kind: type[Options], prefix: tuple[str, ...], given: Options | None) -> Iterator[Declared]:
    hints = _hints(kind)
    for field in msgspec.structs.fields(kind):
        default = _default(field) if given is None else getattr(given, field.name)
        fields = (*prefix, field.name)
        part = part_of(hints[field.name])
        if part is not None:
            yield from _declared(part, fields, default if isinstance(default, Options) else None)
        elif (option := option_of(hints[field.name])) is not None and not (prefix and option.alone):
            yield Declared(fields, option, default)


def _hints(kind: type[Options]) -> dict[str, Any]:
    """Types of the fields; one whose default alone is changed has the declaration of the struct extended."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Options):
            for name, hint in get_type_hints(base, include_extras=True).items():
                if name not in hints or option_of(hint) is not None or part_of(hint) is not None:
                    hints[name] = hint
    return hints


def option_of(hint: Any) -> Option[Any] | None:
    """Declaration in a type's annotations."""
    return next((option for option in getattr(hint, "__metadata__", ()) if isinstance(option, Option)), None)


def part_of(hint: Any) -> type[Options] | None:
    """The options struct in a type, which may also allow None."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next(
        (choice for choice in choices if isinstance(choice, type) and issubclass(choice, Options)), None
    )


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


O = TypeVar("O", bound=Options)  # noqa: E741 - as T, but of options


def build(kind: type[O], values: Mapping[tuple[str, ...], Any], place: Place) -> O:
    """Struct with the values that were written; the others have their defaults.

    Raises
    ------
    InputError : a required value is missing, or a value is invalid.
    """
    for declaration in declared(kind):
        if declaration.default is msgspec.NODEFAULT and declaration.fields not in values:
            raise InputError(*place(declaration), "expected, but missing")
    options = _built(kind, values, None).completed()
    options.check(place)
    return options


def _built(kind: type[O], values: Mapping[tuple[str, ...], Any], given: O | None) -> O:
    """The struct with its parts; `given` has the values that are not in `values`."""
    hints = _hints(kind)
    own = {fields[0]: value for fields, value in values.items() if len(fields) == 1}
    for field in msgspec.structs.fields(kind):
        part = part_of(hints[field.name])
        below = {fields[1:]: v for fields, v in values.items() if len(fields) > 1 and fields[0] == field.name}
        if part is not None and below:
            own[field.name] = _built(part, below, _default(field))
    return kind(**own) if given is None else msgspec.structs.replace(given, **own)


class Given(Generic[O]):
    """Options given for a struct, on the command line unless `place` names another source."""

    def __init__(
        self, kind: type[O], texts: Mapping[tuple[str, ...], str], place: Place | None = None
    ) -> None:
        self.kind, self._texts, self._place = kind, texts, place or by_flag

    @property
    def given(self) -> bool:
        """True if anything was written."""
        return bool(self._texts)

    def text(self, *fields: str) -> str | None:
        """Text that was written for one of them, if any."""
        return self._texts.get(fields)

    def build(self, kind: type[T] | None = None) -> Any:
        """The struct, or another one with the same fields.

        Raises
        ------
        InputError : naming the place of an invalid value.
        """
        wanted: Any = kind or self.kind
        values = {
            declaration.fields: declaration.parse(self._texts[declaration.fields], self._place)
            for declaration in declared(wanted)
            if declaration.fields in self._texts
        }
        return build(wanted, values, self._place)

    def beyond(self, kind: type[Options]) -> list[str]:
        """Flags that were given although another struct does not have their options."""
        has = {declaration.fields for declaration in declared(kind)} | {
            (name,) for name in kind.__struct_fields__
        }
        return [
            declaration.flag
            for declaration in declared(self.kind)
            if declaration.fields in self._texts and declaration.fields not in has
        ]
