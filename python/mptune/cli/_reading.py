"""Options of the commands that read a file of measurements, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mptune import units
from mptune.cli import _options
from mptune.errors import InputError

if TYPE_CHECKING:
    from mptune.measurements import ReadOptions

ThroughputUnitOption = Annotated[
    str | None, typer.Option(help=f"Where the header has none: {', '.join(units.RATES)}.")
]
BufferUnitOption = Annotated[
    str | None, typer.Option(help=f"Where the header has none: {', '.join(units.SIZES)}.")
]
ColumnOption = Annotated[
    list[str] | None, typer.Option(help="ROLE=HEADER for a header of another name, as in cc=algorithm.")
]
FactorOption = Annotated[
    list[str] | None, typer.Option(help="A further column that may matter; repeat, or use commas.")
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
    """How to read a file of measurements.

    Raises
    ------
    InputError : a --column that is no pair.
    """
    from mptune.measurements import ReadOptions

    pairs = {}
    for text in columns or ():
        role, equals, header = text.partition("=")
        if not equals or not header:
            raise InputError("--column", "", f"expected ROLE=HEADER such as cc=algorithm, found {text!r}")
        pairs[role.strip()] = header.strip()
    return ReadOptions(
        throughput_unit=throughput_unit,
        buffer_unit=buffer_unit,
        columns=pairs,
        factors=_options.names(factors or ()),
        ccs=tuple(ccs),
        pms=tuple(pms),
    )


def rate_mbps(option: str, text: str) -> float:
    """Mbit/s of "20 Mbit/s", more than nothing.

    Raises
    ------
    InputError : no such rate.
    """
    try:
        rate = units.parse_rate(text)
    except ValueError as error:
        raise InputError(option, "", str(error)) from None
    if not rate:
        raise InputError(option, "", f"expected more than 0, found {text!r}")
    return rate / units.RATES["Mbit/s"]
