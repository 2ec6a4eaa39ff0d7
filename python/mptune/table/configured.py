"""Measurements with their whole configuration: what calibration needs of a CSV file.

One row per measurement or mean of several. Rows of one configuration are merged: their geometric mean counts,
and its uncertainty follows from their scatter. Columns, of which only the first three are required:

    cc, buffer_<unit>, throughput_<unit> or completion_<s, ms, min>
    pm (or path_manager; tcp is plain TCP), subflows (labels, separated by spaces; those that carry data),
    initial_path, buffer_mode, duration_<s, ms, min> or transfer_<unit>, stack, family,
    spread_<unit> (standard deviation of the runs), runs (how many were averaged; 1 without),
    <label>_<unit> (throughput of that subflow); note, source, run, where (not read)

Nothing is simulated here; `mptune.table` reads files for formulas, which need less.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mptune import testbeds
from mptune._text import bounded, quoted
from mptune.errors import InputError, one_of
from mptune.table._cells import cells_of
from mptune.trial import DEFAULT_FAMILY, FAMILIES, FIXED, PLAIN_TCP, Bulk, Configuration, Transfer
from mptune.trial.stacks import STACKS, of_tcp
from mptune.units import RATES, SIZES

#: Longest file, rows: each is a configuration to simulate some hundred times.
MOST_ROWS = 500

#: Duration of a row that states neither a duration nor a size, s.
USUAL_S = 30.0

#: Fewest rows of one configuration whose scatter is used as their spread.
_LEAST_FOR_SCATTER = 3

#: Factors of units by the kind of quantity, in Mbit/s, bytes and s, as headers end in them.
_RATES = {name: factor / 1e6 for name, factor in RATES.items()} | {
    f"{prefix}{form}": factor
    for prefix, factor in (("k", 1e-3), ("m", 1.0), ("M", 1.0), ("g", 1e3), ("G", 1e3), ("", 1e-6))
    for form in ("bps", "bit_s")
}
_SIZES = {name: float(factor) for name, factor in SIZES.items()} | {
    "byte": 1.0,
    "bytes": 1.0,
    **{unit.lower(): float(SIZES[unit]) for unit in ("KiB", "MiB", "GiB")},
}
_TIMES = {"s": 1.0, "ms": 1e-3, "min": 60.0}

#: Columns with a unit, and those without; other names for them.
_WITH_UNIT: Mapping[str, Mapping[str, float]] = {
    "throughput": _RATES,
    "completion": _TIMES,
    "buffer": _SIZES,
    "duration": _TIMES,
    "transfer": _SIZES,
}
_PLAIN = ("cc", "pm", "subflows", "initial_path", "buffer_mode", "stack", "family", "runs")
_NOT_READ = ("note", "source", "run", "where")
_OTHERS = {"path_manager": "pm", "congestion_control": "cc"}
_BRACKETS = re.compile(r"(.+?)\s*[\[(]\s*(.+?)\s*[\])]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one configuration.

    Attributes
    ----------
    rows : of the file, counted from 1, including the header.
    metric : "throughput", Mbit/s, or "completion", s; `value` is its geometric mean.
    spread : standard error of the logarithm of `value`.
    subflows : label -> throughput, Mbit/s, where it was measured.
    """

    rows: tuple[int, ...]
    configuration: Configuration
    metric: str
    value: float
    spread: float = 0.0
    subflows: dict[str, float] = {}

    @property
    def named(self) -> str:
        """Its configuration, for people."""
        return f"{self.configuration.manager}, {self.configuration.cc}"


def read_configured(path: str, labels: Sequence[str], stack: str) -> list[Measured]:
    """Read measurements with their configurations, in the order of the file.

    Parameters
    ----------
    labels : of the paths of the topology that was measured.
    stack : of rows that name none.

    Raises
    ------
    InputError : something is missing, unknown or not a number, with row and column.
    """
    table = list(itertools.islice(cells_of(path), MOST_ROWS + 2))
    if len(table) < 2:
        raise InputError(path, "", "expected a header and a row per measurement, found no row")
    if len(table) > MOST_ROWS + 1:
        raise InputError(path, "", f"expected at most {MOST_ROWS} rows, found more")
    header = table[0][1]
    columns = _columns(path, header, labels)
    read = []
    for number, cells in table[1:]:
        if len(cells) != len(header):
            expected = f"expected {len(header)} cells as in the header, found {len(cells)}"
            raise InputError(path, f"row {number}", expected)
        read.append(_Row(path, number, cells, columns, labels).measured(stack))
    return list(_merged(read))


class _Column(msgspec.Struct, frozen=True):
    index: int
    header: str
    scale: float = 1.0


def _columns(path: str, header: Sequence[str], labels: Sequence[str]) -> dict[str, _Column]:
    """Role, or "subflow LABEL", -> its column."""
    columns: dict[str, _Column] = {}
    for index, name in enumerate(header):
        role, scale = _role(path, name, labels)
        if role in _NOT_READ:
            continue
        if role in columns:
            expected = f"expected one column of each kind, found {quoted(columns[role].header)} and"
            raise InputError(path, "row 1", f"{expected} {quoted(name)}")
        columns[role] = _Column(index, name, scale)
    for role, example in (("cc", "cc"), ("buffer", "buffer_mib")):
        if role not in columns:
            raise InputError(path, "row 1", f"expected a column {role}, such as {quoted(example)}")
    for several, needed in ((("throughput", "completion"), True), (("duration", "transfer"), False)):
        present = [role for role in several if role in columns]
        if len(present) > 1 or (needed and not present):
            count = "one of" if needed else "at most one of"
            raise InputError(path, "row 1", f"expected {count} the columns {' and '.join(several)}")
    if "completion" in columns and "transfer" not in columns:
        raise InputError(path, "row 1", "expected a column transfer beside completion")
    return columns


def _role(path: str, header: str, labels: Sequence[str]) -> tuple[str, float]:
    """Meaning of a header, and the factor of its unit."""
    name = _OTHERS.get(_words(header), _words(header))
    if name in (*_PLAIN, *_NOT_READ):
        return name, 1.0
    base, unit = _split(header)
    name = _words(base)
    if name == "spread":
        for units in (_RATES, _TIMES):
            if unit in units:
                return name, units[unit]
        raise InputError(path, f"column {header}", f"expected a unit, as in {quoted('spread_mbps')}")
    known_units = _RATES if base in labels else _WITH_UNIT.get(name, {})
    if not known_units:
        known = ", ".join((*_PLAIN, *_WITH_UNIT, "spread", *_NOT_READ))
        expected = f"expected {known}, or a path's label with a unit of rate ({', '.join(labels)})"
        raise InputError(path, f"column {bounded(header, 40)}", expected)
    if unit not in known_units:
        example = f"{base}_{[one for one in known_units if one.isidentifier()][-1]}"
        raise InputError(path, f"column {header}", f"expected a unit, as in {quoted(example)}")
    return (f"subflow {base}" if base in labels else name), known_units[unit]


def _split(header: str) -> tuple[str, str]:
    """Name and unit of a header: "throughput [Mbit/s]" or "throughput_mbps"."""
    if match := _BRACKETS.fullmatch(header):
        return match.group(1), match.group(2)
    units = sorted({*_RATES, *_SIZES, *_TIMES}, key=len, reverse=True)
    for unit in units:
        if header.endswith(f"_{unit}"):
            return header.removesuffix(f"_{unit}"), unit
    return header, ""


def _words(header: str) -> str:
    return re.sub(r"[\s_-]+", "_", header.strip()).lower()


class _Row(msgspec.Struct):
    """One row with what its cells mean."""

    path: str
    number: int
    cells: Sequence[str]
    columns: Mapping[str, _Column]
    labels: Sequence[str]

    def measured(self, stack: str) -> Measured:
        """The row as a measurement."""
        metric = "throughput" if "throughput" in self.columns else "completion"
        value = self._number(metric, above=0)
        runs = self._optional("runs", above=0) or 1.0
        spread = (self._optional("spread") or 0.0) / value / math.sqrt(runs)
        return Measured(
            rows=(self.number,),
            configuration=self._configuration(stack),
            metric=metric,
            value=value,
            spread=spread,
            subflows={
                role.removeprefix("subflow "): found
                for role in self.columns
                if role.startswith("subflow ") and (found := self._optional(role)) is not None
            },
        )

    def _configuration(self, stack: str) -> Configuration:
        pm = self._choice("pm", (*testbeds.names("path_managers"), PLAIN_TCP), "")
        used = self._subflows()
        plain = Configuration(
            pm=pm or "fullmesh",
            cc=self._choice("cc", testbeds.names("congestion_controls"), None),
            buffer_bytes=round(self._number("buffer", above=0)),
            buffer_mode=self._choice("buffer_mode", testbeds.names("buffer_modes"), FIXED),
            workload=self._workload(),
            family=self._choice("family", FAMILIES, DEFAULT_FAMILY),
            initial_path=self._choice("initial_path", self.labels, "") or None,
            stack=STACKS[self._choice("stack", tuple(STACKS), stack)],
        )
        if pm == PLAIN_TCP:
            return self._plain_tcp(plain, used)
        if not used:
            return plain
        if pm not in ("", "fullmesh", "pcdc"):
            raise self._at("subflows", f"expected only with fullmesh, pcdc or tcp, found with {pm}")
        return msgspec.structs.replace(
            plain, pm="pcdc", pm_options={"active": used}, initial_path=plain.initial_path or used[0]
        )

    def _plain_tcp(self, plain: Configuration, used: tuple[str, ...]) -> Configuration:
        """Plain TCP on the one path that the row names."""
        paths = {*used, *([plain.initial_path] if plain.initial_path else [])}
        if len(paths) != 1:
            raise self._at("subflows", f"expected one path with tcp, found {len(paths)}")
        return msgspec.structs.replace(
            plain, pm="default", protocol="tcp", initial_path=paths.pop(), stack=of_tcp(plain.stack)
        )

    def _subflows(self) -> tuple[str, ...]:
        labels = self._text("subflows").split()
        for label in labels:
            if label not in self.labels:
                raise self._at("subflows", one_of(self.labels, label))
            if labels.count(label) > 1:
                raise self._at("subflows", f"expected each path once, found {quoted(label)} twice")
        return tuple(labels)

    def _workload(self) -> Bulk | Transfer:
        if "transfer" in self.columns and (size := self._optional("transfer", above=0)) is not None:
            return Transfer(bytes=round(size))
        if "completion" in self.columns:
            raise self._at("transfer", "expected a size, found nothing")
        seconds = self._optional("duration", above=0) if "duration" in self.columns else None
        return Bulk(duration_ns=round((seconds or USUAL_S) * 1e9))

    def _text(self, role: str) -> str:
        return self.cells[self.columns[role].index] if role in self.columns else ""

    def _choice(self, role: str, known: Iterable[str], otherwise: str | None) -> str:
        text = self._text(role)
        if not text and otherwise is not None:
            return otherwise
        known = list(known)
        if text not in known:
            raise self._at(role, one_of(known, text))
        return text

    def _optional(self, role: str, above: float | None = None) -> float | None:
        return self._number(role, above) if self._text(role) else None

    def _number(self, role: str, above: float | None = None) -> float:
        text = self._text(role)
        if not _NUMBER.fullmatch(text):
            raise self._at(role, f"expected a number, found {quoted(text)}")
        value = float(text) * self.columns[role].scale
        if value < 0 or (above is not None and value <= above) or not value < 1e15:
            least = "a number of 0 or more" if above is None else f"a number above {above:g}"
            raise self._at(role, f"expected {least} in a plausible unit, found {quoted(text)}")
        return value

    def _at(self, role: str, expected: str) -> InputError:
        header = self.columns[role].header if role in self.columns else role
        return InputError(self.path, f"row {self.number}, column {bounded(header, 40)}", expected)


def _merged(rows: Iterable[Measured]) -> Iterable[Measured]:
    """Rows of one configuration and metric as one."""
    groups: dict[bytes, list[Measured]] = {}
    for row in rows:
        key = msgspec.json.encode((row.configuration, row.metric, sorted(row.subflows)))
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        logs = [math.log(row.value) for row in group]
        spread = math.sqrt(sum(row.spread**2 for row in group)) / len(group)
        if len(group) >= _LEAST_FOR_SCATTER:
            mean = sum(logs) / len(logs)
            spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1) / len(logs))
        yield msgspec.structs.replace(
            group[0],
            rows=tuple(number for row in group for number in row.rows),
            value=math.exp(sum(logs) / len(logs)),
            spread=spread,
            subflows={
                label: sum(row.subflows[label] for row in group) / len(group) for label in group[0].subflows
            },
        )
