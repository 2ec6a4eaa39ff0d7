"""The common parts of workloads: what they have for a trial, and how they are written by a user."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from mptune import units
from mptune._text import quoted
from mptune.trial.kept import Piece
from mptune.trial.workloads._criteria import Criteria, Times

#: Default time after which a transfer is given up, nanoseconds.
DEADLINE_NS = 600_000_000_000
#: Default time after the last message is due within which it has to arrive, nanoseconds.
PATIENCE_NS = 10_000_000_000
#: The same of those whose pieces are large.
LONG_PATIENCE_NS = 60_000_000_000
#: Payload of a request for a page or an object, bytes: a line and some headers.
REQUEST_BYTES = 400
#: Mark before the name of a file with a list.
FILE = "@"


# ---- of a trial -----------------------------------------------------------------------------------


class BaseWorkload(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Common part of all workloads.

    Attributes
    ----------
    judged_by : its metrics.
    completes : an observation has the time of its last byte in order.
    """

    judged_by: ClassVar[Criteria | Times]
    completes: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """Its word."""
        return str(self.__struct_config__.tag)

    @property
    def size(self) -> int | None:
        """Payload bytes; None where they are not known beforehand."""
        return None

    @property
    def ways(self) -> int:
        """Directions in which as much is sent: others send next to nothing."""
        return 1

    @property
    def lasts_ns(self) -> int | None:
        """The time for which it sends; None if it has none."""
        return None

    @property
    def pause_ns(self) -> int:
        """Longest time for which the programs send nothing."""
        return 0

    @property
    def waiting_bytes(self) -> int | None:
        """Bytes that can wait to be sent; None if that is not known, or everything."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a stored trial, of which its key is made: the whole workload, as one setting."""
        return {"workload": _without_empty(msgspec.to_builtins(self))}

    @property
    def phrase(self) -> str:
        """The workload for people."""
        raise NotImplementedError

    def on(self, connections: int) -> str:
        """The workload on so many connections, for people."""
        return self.phrase if connections == 1 else f"{connections} connections with {self.phrase}"

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many of its pieces on so many connections, for people."""
        return self.on(connections)

    def messages_in(self, payload: int) -> int:
        """Number of pieces in a payload that have packets of their own, however short they are."""
        return 0


#: Settings that are left out with this value: so a trial has the key that it had before there were any.
_LATER = {"both_ways": False}


def _without_empty(settings: Any) -> Any:
    """Without lists that are empty, and settings that came later, for the same reason."""
    if isinstance(settings, list | tuple):
        return [_without_empty(one) for one in settings]
    if not isinstance(settings, dict):
        return settings
    return {
        name: _without_empty(value)
        for name, value in settings.items()
        if value not in ((), []) and _LATER.get(name) is not value
    }


class InPieces(BaseWorkload, frozen=True, kw_only=True):
    """Common part of workloads whose programs offer their data in pieces, and are judged by the time of each.

    Attributes
    ----------
    duration_ns : pieces begin within this time.
    patience_ns : the trial fails if the last arrives later than this after `duration_ns`.
    """

    judged_by: ClassVar[Times]

    duration_ns: int
    patience_ns: int = PATIENCE_NS

    @property
    def lasts_ns(self) -> int:
        """Pieces begin within this time."""
        return self.duration_ns

    @property
    def limit_ns(self) -> int:
        """Latest end of the trial."""
        return self.duration_ns + self.patience_ns

    def arrived(self, number: int, connections: int = 1) -> str:
        """So many pieces, for people."""
        return f"{number} {self.judged_by.many}"

    def due(self, connections: int) -> dict[str, int]:
        """Number of pieces that are due, where that is known, for documents."""
        return {}

    def details(self, pieces: Sequence[Piece]) -> dict[str, list[float]]:
        """Values of each piece in a document beside its time."""
        return {}


# ---- as a user writes it --------------------------------------------------------------------------


class Written(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A workload as a user writes it: without the time that it lasts.

    Attributes
    ----------
    form : how it is written.
    help : an example with what it means, for the help of `--workload`.
    objectives_help : what is asked of it, for the help of `--objective`.
    named : options behind a comma: their names, each with its field and the reader of its value.
    """

    form: ClassVar[str]
    help: ClassVar[str] = ""
    objectives_help: ClassVar[str] = ""
    named: ClassVar[Mapping[str, tuple[str, Callable[[str], int]]]] = {}

    @classmethod
    def read(cls, text: str, rest: str | None) -> Self:
        """The workload that a text means, of which `rest` is behind the kind, if anything is.

        Raises
        ------
        ValueError : it means none.
        """
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text that means it."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse values that no trial can have.

        Raises
        ------
        ValueError : the first of them.
        """

    def impossible(self, duration_ns: int) -> Iterator[str]:
        """Errors of the workload for this time."""
        return iter(())

    @classmethod
    def wrong(cls, text: str) -> ValueError:
        """The error of a text that is not of the form."""
        return ValueError(f"expected {cls.form}, found {quoted(text)}")

    @classmethod
    def halves(cls, text: str, rest: str | None) -> tuple[str, str, dict[str, int]]:
        """Texts before and after a slash, and the options that are named.

        Raises
        ------
        ValueError : there is no slash, or another option.
        """
        main, *others = (rest or "").split(",")
        first, slash, second = main.partition("/")
        options = cls.options(text, others)
        if not slash:
            raise cls.wrong(text)
        return first, second, options

    @classmethod
    def options(cls, text: str, parts: Sequence[str]) -> dict[str, int]:
        """Values of named options by their fields.

        Raises
        ------
        ValueError : one is another, is named twice, or has no value.
        """
        found: dict[str, int] = {}
        for part in parts:
            name, equals, value = (word.strip() for word in part.partition("="))
            field, parse = cls.named.get(name, ("", int))
            if not equals or not field or field in found:
                raise cls.wrong(text)
            found[field] = parse(value)
        return found


#: The option of programs that wait: its name, its field and its reader.
THINK = {"think": ("think_ns", units.parse_time)}


def without_file(asked: Written) -> dict[str, Any]:
    """Fields of a trial's workload: where its list came from is none of them."""
    return {name: value for name, value in msgspec.structs.asdict(asked).items() if name != "file"}


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Refuse sizes of 0, bytes, by what has them."""
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"expected {name} of at least 1 B, found 0 B")


def check_within(what: str, value: int, most: int) -> None:
    """Refuse what is not 1 to `most`."""
    if not 1 <= value <= most:
        raise ValueError(f"expected 1 to {most} {what}, found {value}")


def thinks_too_long(think_ns: int, duration_ns: int) -> Iterator[str]:
    """The error of programs that would never ask twice."""
    if think_ns >= duration_ns:
        think, whole = units.format_time(think_ns), units.format_time(duration_ns)
        yield f"expected less thinking than the duration of {whole}, found {think}"


def size_text(size: int) -> str:
    """A size as it is written."""
    return units.format_size(size).replace(" ", "")


def time_text(ns: int) -> str:
    """A time as it is written."""
    return units.format_time(ns).replace(" ", "")


def think_text(ns: int) -> str:
    """The time of thinking as an option, if there is any."""
    return f",think={time_text(ns)}" if ns else ""
