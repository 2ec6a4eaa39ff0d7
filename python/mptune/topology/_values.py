"""Single values of a topology file: text to integer, within bounds, with its provenance noted.

The bounds are what the core can carry (`crates/mptune-core/src/network/spec.rs`); they are checked here
too, because only here the file and the key are known.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mptune import units
from mptune.errors import InputError
from mptune.topology._model import Provenance
from mptune.topology._schema import ValueTable, convert

T = TypeVar("T")

_MIN_RATE = 100
_MAX_TIME = 100 * 10**9
_FULL_PACKET = 1500


class Kind(NamedTuple, Generic[T]):
    """How one kind of value is read (ValueError with a sentence if it cannot be) and shown."""

    parse: Callable[[str], T]
    show: Callable[[T], str]
    example: str


def _rate(text: str) -> int:
    value = units.parse_rate(text)
    if value < _MIN_RATE:
        raise ValueError(f"expected a rate above zero (at least {_MIN_RATE} bit/s), found {text!r}")
    return value


def _time(text: str) -> int:
    value = units.parse_time(text)
    if value > _MAX_TIME:
        raise ValueError(f"expected at most {units.format_time(_MAX_TIME)}, found {text!r}")
    return value


def _queue(text: str) -> int:
    value = units.parse_size(text)
    if value < _FULL_PACKET:
        raise ValueError(f"expected room for one packet of {_FULL_PACKET} bytes at least, found {text!r}")
    return value


def _loss(text: str) -> int:
    value = units.parse_fraction(text)
    if value == units.FRACTIONS[""]:
        raise ValueError(f"expected a loss below 100 %, found {text!r}")
    return value


def choice(options: dict[str, T]) -> Kind[T]:
    """Kind of a value that is one of a few words."""

    def parse(text: str) -> T:
        if text not in options:
            raise ValueError(f"expected one of {', '.join(options)}, found {text!r}")
        return options[text]

    names = {value: word for word, value in options.items()}
    return Kind(parse, lambda value: names[value], next(iter(options)))


RATE = Kind(_rate, units.format_rate, "100 Mbit/s")
TIME = Kind(_time, units.format_time, "12.4 ms")
QUEUE = Kind(_queue, units.format_size, "256 KiB")
LOSS = Kind(_loss, units.format_fraction, "0.1 %")


class Ledger:
    """Reads the values of one file and remembers where each came from."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.provenance: dict[str, Provenance] = {}

    def read(self, key: str, raw: object, kind: Kind[T], source: str) -> T:
        """Value at `key`; plain text counts as published in `source`.

        Raises
        ------
        InputError : neither text nor a value table, or the text is not such a value.
        """
        assumed = None
        if isinstance(raw, dict):
            table = convert(raw, ValueTable, self.where, key)
            if table.assumed is not None and table.source is not None:
                raise InputError(self.where, key, "expected either assumed or source, found both")
            if table.assumed == "":
                raise InputError(self.where, f"{key}.assumed", "expected the reason, found empty text")
            raw, assumed, source = table.value, table.assumed, table.source or source
        if not isinstance(raw, str):
            expected = f'expected text such as "{kind.example}" or a table with value and assumed'
            raise InputError(self.where, key, f"{expected}, found {raw!r}")
        try:
            value = kind.parse(raw)
        except ValueError as error:
            raise InputError(self.where, key, str(error)) from None
        published = None if assumed is not None else source
        self.provenance[key] = Provenance(value=kind.show(value), source=published, assumed=assumed)
        return value

    def assume(self, key: str, value: T, show: Callable[[T], str], reason: str) -> T:
        """Note a default."""
        self.provenance[key] = Provenance(value=show(value), assumed=reason, default=True)
        return value
