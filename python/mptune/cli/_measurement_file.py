"""Options of the commands that read a file of measurements, and their conversion to `ReadOptions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mptune import units
from mptune._text import quoted
from mptune.errors import InputError
from mptune.options import check_distinct, words

if TYPE_CHECKING:
    from mptune.table import ReadOptions

ThroughputUnitOption = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT",
        help=f"Unit of throughputs, if the header has none. One of {', '.join(units.RATES)}.",
    ),
]
BufferUnitOption = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT", help=f"Unit of buffers, if the header has none. One of {', '.join(units.SIZES)}."
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ROLE=HEADER", help="A column with another name, such as cc=algorithm; repeat for more."
    ),
]
FactorOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Another column to test as a factor; repeat, or use commas."),
]


def reading(
    throughput_unit: str | None,
    buffer_unit: str | None,
    columns: Sequence[str] | None,
    factors: Sequence[str] | None,
    *,
    ccs: Sequence[str] = (),
    pms: Sequence[str] = (),
) -> ReadOptions:
    """Options for reading a file of measurements.

    Raises
    ------
    InputError : a --column that is not ROLE=HEADER.
    """
    from mptune.table import ReadOptions

    pairs = {}
    for text in columns or ():
        role, equals, header = text.partition("=")
        if not equals or not header:
            raise InputError(
                "--column", "", f"expected ROLE=HEADER such as cc=algorithm, found {quoted(text)}"
            )
        if role.strip() in pairs:
            raise InputError("--column", "", f"expected each role once, found {quoted(role.strip())} twice")
        pairs[role.strip()] = header.strip()
    return ReadOptions(
        throughput_unit=throughput_unit,
        buffer_unit=buffer_unit,
        columns=pairs,
        factors=named("--factor", factors or ()),
        ccs=tuple(ccs),
        pms=tuple(pms),
    )


def named(flag: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Words of a repeated option.

    Raises
    ------
    InputError : one is there twice.
    """
    names = words(",".join(texts))
    try:
        check_distinct(names)
    except ValueError as error:
        raise InputError(flag, "", str(error)) from None
    return names
