"""Headers of a file of measurements: the role and unit of each column.

Only names and units; cells are read in `mptune.table`.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from mptune._text import bounded, quoted
from mptune.errors import InputError, one_of
from mptune.units import RATES, SIZES

#: Name of a column before the unit (lower case, words joined by "_") -> its role.
ROLES = {
    "throughput": "throughput",
    "goodput": "throughput",
    "buffer": "buffer",
    "buffer_size": "buffer",
    "bs": "buffer",
    "cc": "cc",
    "congestion_control": "cc",
    "pm": "pm",
    "path_manager": "pm",
    "initial_path": "initial_path",
    "run": "run",
    "failed": "failed",
}
#: Roles that are not factors.
NO_FACTORS = ("throughput", "buffer", "run", "failed")
_REQUIRED = ("throughput", "buffer", "cc")
#: Most characters of the headers of a file in an error.
_LISTED = 100

_EXAMPLE = {"throughput": "throughput_mbps", "buffer": "buffer_mib", "cc": "cc"}

#: Spellings of units in headers. Case is kept where it distinguishes bit from byte.
_SUFFIXES = {
    "throughput": {
        "bps": "bit/s",
        "bit_s": "bit/s",
        "kbps": "kbit/s",
        "kbit_s": "kbit/s",
        "mbps": "Mbit/s",
        "mbit_s": "Mbit/s",
        "Mbps": "Mbit/s",
        "Mbit_s": "Mbit/s",
        "gbps": "Gbit/s",
        "gbit_s": "Gbit/s",
        "Gbps": "Gbit/s",
        "Gbit_s": "Gbit/s",
        **{unit: unit for unit in RATES},
    },
    "buffer": {
        "byte": "B",
        "bytes": "B",
        "kib": "KiB",
        "mib": "MiB",
        "gib": "GiB",
        **{unit: unit for unit in SIZES},
    },
}
#: Role with a unit -> its units.
UNITS: dict[str, Mapping[str, int]] = {"throughput": RATES, "buffer": SIZES}
#: Unit in which measurements are kept, and the largest plausible value in it: 10 Tbit/s and 1 TiB. A larger
#: value means that the unit in the header is wrong.
KEPT = {"throughput": (RATES["Mbit/s"], 1e7), "buffer": (SIZES["MiB"], 2.0**20)}

_BRACKETS = re.compile(r"(.+?)\s*[\[(]\s*(.+?)\s*[\])]")


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Information that the file itself does not have.

    Attributes
    ----------
    throughput_unit, buffer_unit : keys of `mptune.units.RATES` and `SIZES`; None if they are in the header.
    columns : role (a value of `ROLES`) -> header of its column, for columns with other names.
    factors : headers of further columns that may matter.
    ccs, pms : keep only these; empty keeps all.
    """

    throughput_unit: str | None = None
    buffer_unit: str | None = None
    columns: dict[str, str] = {}
    factors: tuple[str, ...] = ()
    ccs: tuple[str, ...] = ()
    pms: tuple[str, ...] = ()


class Column(msgspec.Struct, frozen=True):
    """The column of a quantity, and the factor to multiply its numbers by."""

    index: int
    header: str
    scale: float = 1.0


def find_columns(
    path: str, header: Sequence[str], options: ReadOptions, required: Sequence[str] = _REQUIRED
) -> dict[str, Column]:
    """Role (or name of a further factor) -> its column; "cc" is the first of the factors.

    Parameters
    ----------
    required : roles that must be there; a throughput and a buffer among them are scaled as in `KEPT`.
    """
    if len(header) == 1 and re.search(r"[;\t]", header[0]):
        raise InputError(path, "row 1", f"expected columns separated by commas, found {quoted(header[0])}")
    for name in header:
        if header.count(name) > 1:
            raise InputError(
                path, "row 1", f"expected a different header for each column, found {quoted(name)} twice"
            )
    columns: dict[str, Column] = {}
    for role, given_header in options.columns.items():
        if role not in ROLES.values():
            raise InputError("--column", "", one_of(dict.fromkeys(ROLES.values()), role))
        columns[role] = _located(path, header, given_header, "--column")
    for index, name in enumerate(header):
        meant = ROLES.get(_base(name))
        if meant is None or meant in options.columns or name in options.columns.values():
            continue
        if meant in columns:
            raise InputError(
                path,
                "row 1",
                f"expected one column for {meant}, found {quoted(columns[meant].header)} and {quoted(name)}",
            )
        columns[meant] = Column(index, name)
    for role in required:
        if role not in columns:
            raise InputError(
                path,
                "row 1",
                f"expected a column for {role} such as {quoted(_EXAMPLE[role])}, found {listed(header)}",
            )
    for role, given in (("throughput", options.throughput_unit), ("buffer", options.buffer_unit)):
        if role in required:
            column = columns[role]
            scale = UNITS[role][unit_of(path, role, column.header, given)] / KEPT[role][0]
            columns[role] = msgspec.structs.replace(column, scale=scale)
    for name in options.factors:
        if name in NO_FACTORS:
            raise InputError("--factor", "", f"expected a column of levels, found {quoted(name)}")
        if name not in columns:
            columns[name] = _located(path, header, name, "--factor")
    return {role: columns[role] for role in sorted(columns, key=lambda role: role != "cc")}


def _located(path: str, header: Sequence[str], name: str, option: str) -> Column:
    """Column named by an option."""
    if name not in header:
        raise InputError(
            option,
            "",
            f"expected a header of {path} ({listed(header)}), found {quoted(name)}",
        )
    return Column(header.index(name), name)


def _base(header: str) -> str:
    """Header without its unit, in the spelling of `ROLES`."""
    name = _split(header)[0]
    return re.sub(r"[\s_-]+", "_", name.strip()).lower()


def _split(header: str) -> tuple[str, str | None]:
    """Name and unit of a header: "throughput [Mbit/s]", "throughput (Mbit/s)" or "throughput_mbps"."""
    if match := _BRACKETS.fullmatch(header):
        return match.group(1), match.group(2)
    suffixes = {suffix for spellings in _SUFFIXES.values() for suffix in spellings}
    for suffix in sorted(suffixes, key=len, reverse=True):
        if header.endswith(f"_{suffix}"):
            return header.removesuffix(f"_{suffix}"), suffix
    return header, None


def unit_of(path: str, role: str, header: str, given: str | None) -> str:
    """Unit of a column, from its header or from the option; both must agree."""
    option = f"--{role}-unit"
    units = ", ".join(UNITS[role])
    if given is not None and given not in UNITS[role]:
        raise InputError(option, "", one_of(UNITS[role], given))
    written = _split(header)[1]
    if written is None:
        if given is None:
            raise InputError(
                path,
                f"column {header}",
                f"expected a unit, as in {quoted(_EXAMPLE[role])}, or {option} ({units})",
            )
        return given
    unit = _SUFFIXES[role].get(written)
    if unit is None:
        raise InputError(
            path, f"column {header}", f"expected one of the units {units}, found {quoted(written)}"
        )
    if given is not None and given != unit:
        raise InputError(
            option, "", f"expected {unit} as in the header {quoted(header)} of {path}, found {given}"
        )
    return unit


def listed(header: Sequence[str]) -> str:
    """Headers of a file, for an error."""
    return bounded(", ".join(header), _LISTED)
