"""Buffer grids as the user writes them: `0.5:30:0.5` or `0.5,1,2`, in MiB.

It parses and checks; which trials the sizes become is `mptune.campaign.planning`.
"""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from mptune.errors import InputError
from mptune.testbeds import MSS
from mptune.units import SIZES

MIB = SIZES["MiB"]

#: A grid with more sizes than this is a slip of the pen, and would fill the memory before it starts.
_MAX_SIZES = 10_000

#: Largest buffer accepted, bytes: 1 TiB, far beyond any kernel's limit.
_MAX_BYTES = 2**40

_SYNTAX = 'a range "low:high:step" or a list "a,b,c" in MiB'


def parse_buffers(text: str, where: str = "--buffers") -> tuple[int, ...]:
    """Buffer sizes of a grid, bytes, ascending and distinct. The high end of a range is included.

    Parameters
    ----------
    where : option the text came from, for the error.

    Raises
    ------
    InputError : wrong syntax, an empty or oversized grid, a size below one segment.
    """
    parts = text.split(":")
    if len(parts) == 3:
        values = _range(*(_number(part, where, text) for part in parts), where=where, text=text)
    elif len(parts) == 1:
        values = [_number(part, where, text) for part in text.split(",")]
    else:
        raise InputError(where, "", f"expected {_SYNTAX}, found {text!r}")
    return tuple(sorted({_bytes(value, where) for value in values}))


def _range(low: Decimal, high: Decimal, step: Decimal, *, where: str, text: str) -> Iterable[Decimal]:
    """Give low, low + step, ... up to high."""
    if step <= 0 or high < low:
        raise InputError(where, "", f"expected low <= high and a step above 0, found {text!r}")
    count = int((high - low) / step) + 1
    if count > _MAX_SIZES:
        raise InputError(where, "", f"expected at most {_MAX_SIZES} sizes, found {count} in {text!r}")
    return [low + i * step for i in range(count)]


def _number(part: str, where: str, text: str) -> Decimal:
    """One number of a grid; decimal, so that the steps of a range add up exactly."""
    try:
        value = Decimal(part.strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise InputError(where, "", f"expected {_SYNTAX}, found {text!r}")
    return value


def _bytes(mib: Decimal, where: str) -> int:
    """Whole bytes of a size in MiB."""
    if mib * MIB < MSS:
        raise InputError(where, "", f"expected at least one segment ({MSS} bytes), found {mib} MiB")
    if mib * MIB > _MAX_BYTES:
        raise InputError(where, "", f"expected at most {_MAX_BYTES // MIB} MiB, found {mib} MiB")
    return round(mib * MIB)
