"""Declaration of a link effect: once, as the record that the core reads.

An effect is a struct whose fields are annotated with the parameters of its table in a topology file::

    class TokenBucket(Effect, frozen=True, kw_only=True):
        rate_bps: Annotated[int, Parameter(RATE)]
        burst_bytes: Annotated[int, Parameter(QUEUE)]

Its key in files, and where on a link it happens, is in the annotation of its field of `Effects`. Tables,
checks, messages, defaults with their reasons, words for people and the core's JSON follow (`_link_effects`,
`_network`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import msgspec

from mptune.topology._defaults import Assumption
from mptune.topology._kinds import Kind

T = TypeVar("T")

#: Units at the end of a field's name, which keys of files do not have.
_UNITS = ("_bps", "_bytes", "_ns", "_ppb")


class Ahead(NamedTuple):
    """Basis of defaults and checks: the limit of the queue, bytes, and the rate behind it, bit/s."""

    queue_bytes: int
    rate_bps: int


class Values(Protocol):
    """Values of an effect's table while it is read: each is read, or assumed, when it is first asked for."""

    ahead: Ahead

    def __getitem__(self, key: str) -> Any:
        """A value by its key."""

    def given(self, key: str) -> Any:
        """A value, or None if the file leaves it out."""


@dataclass(frozen=True)
class Parameter(Generic[T]):
    """A value of an effect's table.

    Attributes
    ----------
    default : or how it follows, with its reason, from the other values; without one the file must have it.
    reason : of the default.
    key : in files; empty for the name of the field without its unit.
    """

    kind: Kind[T]
    default: T | Callable[[Values], Assumption[T]] | None = None
    reason: str = ""
    key: str = ""

    def assumed(self, values: Values) -> Assumption[T] | None:
        """Default where the file leaves it out; None if it must not."""
        if self.default is None:
            return None
        return self.default(values) if callable(self.default) else Assumption(self.default, self.reason)


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the effects; one that overrides nothing keeps rate and queue as they are, and loses nothing."""

    #: Limit of a queue that the file does not give, for a discipline that the usual one would disturb.
    queue: ClassVar[Assumption[int] | None] = None

    @property
    def words(self) -> str:
        """Description for people."""
        raise NotImplementedError

    @property
    def rate_bound_bps(self) -> int | None:
        """Bound of the long-run rate; None if there is none."""
        return None

    @property
    def mean_loss_ppb(self) -> int:
        """Share of packets that it loses in the long run."""
        return 0

    @property
    def bursts(self) -> bool:
        """Its losses come in bursts."""
        return False

    def standing_bytes(self, queue_bytes: int, rate_bps: int) -> int:
        """Standing queue under sustained load, for a queue of this size."""
        return queue_bytes

    def conflicts(self, ahead: Ahead) -> Iterator[tuple[str, str]]:
        """Conflicts between the values: a key, and the expectation that it violates."""
        return iter(())


@dataclass(frozen=True)
class On:
    """Form of an effect of a link in files.

    Attributes
    ----------
    place : "rate" for what bounds the rate before the queue, "queue" for what manages the queue, both for
        either direction of a core segment; "wire" for what happens to the data there.
    key : in files; empty for the name of the field.
    both : a key without `_up` or `_down` sets both links of an interface.
    plain : the word for a link without it, where it is one of several `kind`s; then text may name the kind.
    kind : of a value that is no table.
    words : of such a value.
    """

    place: str
    key: str = ""
    both: bool = True
    plain: str = ""
    kind: Kind[int] | None = None
    words: Callable[[Any], str] = lambda effect: effect.words


class Declared(NamedTuple):
    """An effect at its field of `Effects`; one of several `kinds`, unless its value is no table."""

    field: str
    key: str
    on: On
    kinds: tuple[type[Effect], ...]

    @property
    def by_name(self) -> dict[str, type[Effect] | None]:
        """Its kinds by their names, and none by the word for that."""
        named: dict[str, type[Effect] | None] = {self.on.plain: None} if self.on.plain else {}
        return named | {str(kind.__struct_config__.tag): kind for kind in self.kinds}


@cache
def declared(effects: type[msgspec.Struct]) -> tuple[Declared, ...]:
    """Every effect of the struct of all that files give in tables or values of their own, in its order."""
    return tuple(
        Declared(name, on.key or name, on, _kinds(hint))
        for name, hint in get_type_hints(effects, include_extras=True).items()
        for on in getattr(hint, "__metadata__", ())
        if isinstance(on, On)
    )


@cache
def parameters(effect: type[Effect]) -> dict[str, tuple[str, Parameter[Any]]]:
    """The parameters of an effect by their keys, each with its field."""
    hints = get_type_hints(effect, include_extras=True)
    return {
        parameter.key or _without_unit(name): (name, parameter)
        for name in effect.__struct_fields__
        for parameter in hints[name].__metadata__
    }


def _kinds(hint: Any) -> tuple[type[Effect], ...]:
    (union,) = get_args(hint)[:1]
    return tuple(kind for kind in get_args(union) if issubclass(kind, Effect))


def _without_unit(name: str) -> str:
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)
