"""Option values that need more than a type, as durations and lists of names; options of several commands.

Each function takes the option's name for the error and the text the user wrote.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

from mptune import units
from mptune.errors import InputError

T = TypeVar("T")

#: `--jobs`; see `jobs`.
JobsOption = Annotated[
    int | None,
    typer.Option(help="Trials side by side; by default one per core, on the kernel what there is room for."),
]


def duration_ns(option: str, text: str) -> int:
    """Nanoseconds of "30s".

    Raises
    ------
    InputError : no such time.
    """
    return _parsed(option, text, units.parse_time)


def size_bytes(option: str, text: str) -> int:
    """Bytes of "16MiB".

    Raises
    ------
    InputError : no such size.
    """
    return _parsed(option, text, units.parse_size)


def share(option: str, text: str) -> float:
    """Fraction of "7%" or "0.07".

    Raises
    ------
    InputError : no such fraction.
    """
    return _parsed(option, text, units.parse_fraction) / units.FRACTIONS[""]


def names(values: Sequence[str]) -> tuple[str, ...]:
    """Names given in repeated options, with commas, or both; distinct, in the order given."""
    found = [name.strip() for value in values for name in value.split(",")]
    return tuple(dict.fromkeys(found))


def check_choice(option: str, found: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices.

    Raises
    ------
    InputError : it is none.
    """
    if found not in choices:
        raise InputError(option, "", f"expected one of {', '.join(choices)}, found {found!r}")


def at_least_one(option: str, number: int) -> int:
    """Return a count of something to do.

    Raises
    ------
    InputError : nothing to do.
    """
    if number < 1:
        raise InputError(option, "", f"expected 1 or more, found {number}")
    return number


def jobs(number: int | None) -> int | None:
    """Trials side by side; None leaves it to the testbed.

    Raises
    ------
    InputError : below one.
    """
    return None if number is None else at_least_one("--jobs", number)


def _parsed(option: str, text: str, parse: Callable[[str], T]) -> T:
    """Parsed value, with the option named if it cannot be."""
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(option, "", str(error)) from None
