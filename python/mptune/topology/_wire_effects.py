"""Effects on the wire, as the core declares them: nothing here names one.

Their keys, parameters, bounds, defaults and words are in `crates/mptune-core/src/network/effects`, a file
for each effect.
"""

import re
from typing import Annotated, Any, ClassVar

import msgspec

from mptune import _core
from mptune.topology._declared import Effect, On, Parameter
from mptune.topology._kinds import CHANCE, LOSS, SOME_CHANCE, SOME_TIME, Kind
from mptune.topology._words import share_in_words, time_in_words

#: The core's kinds of parameters, by its names.
_KINDS: dict[str, Kind[int]] = {
    "chance": CHANCE,
    "some_chance": SOME_CHANCE,
    "loss": LOSS,
    "some_time": SOME_TIME,
}
_PPB = 10**9
_UNITS = {"_ppb": share_in_words, "_ns": time_in_words}
_PLACEHOLDER = re.compile(r"\{(1/)?(\w+)\}")


class _Default(msgspec.Struct, frozen=True):
    value: int
    reason: str


class _Parameter(msgspec.Struct, frozen=True):
    name: str
    kind: str
    default: _Default | None


class _Declaration(msgspec.Struct, frozen=True):
    key: str
    words: str
    bursts: bool
    parameters: tuple[_Parameter, ...]


class WireEffect(Effect, frozen=True, kw_only=True):
    """Base of the effects on the wire; what they do is computed by the core."""

    declaration: ClassVar[_Declaration]

    @property
    def bursts(self) -> bool:
        """Its losses come in bursts."""
        return self.declaration.bursts

    @property
    def mean_loss_ppb(self) -> int:
        """Share of packets lost in the long run."""
        return _core.wire_mean_loss_ppb(self.declaration.key, msgspec.json.encode(self))

    @property
    def words(self) -> str:
        """The declared words with its values."""
        return _PLACEHOLDER.sub(self._value_in_words, self.declaration.words)

    def _value_in_words(self, found: re.Match[str]) -> str:
        inverse, name = found.groups()
        value = getattr(self, name)
        if inverse:
            return f"{_PPB / value:.3g}"
        return next(write(value) for unit, write in _UNITS.items() if name.endswith(unit))


def _effect(declaration: _Declaration) -> type[WireEffect]:
    fields = []
    for parameter in declaration.parameters:
        default = parameter.default
        stated = (None, "") if default is None else (default.value, default.reason)
        fields.append((parameter.name, Annotated[int, Parameter(_KINDS[parameter.kind], *stated)]))
    made: type[Any] = msgspec.defstruct(
        declaration.key.title().replace("_", ""),
        fields,
        bases=(WireEffect,),
        namespace={"declaration": declaration},
        frozen=True,
        kw_only=True,
    )
    return made


_DECLARED = msgspec.json.decode(_core.wire_effects(), type=tuple[_Declaration, ...])
_TYPES = {each.key: _effect(each) for each in _DECLARED}
# Topologies go to guests and to other processes, and pickle finds a type by its name in its module.
globals().update({made.__name__: made for made in _TYPES.values()})

#: The effects by their keys, in the core's order: fields of `Effects` with their declared form.
WIRE_EFFECTS = {key: Annotated[made | None, On("wire")] for key, made in _TYPES.items()}
