"""Cells of a row, column by column, and their widths; `docs/how-to/watch.md` has the sources of the values.

A cell is a text and a tone; which colour a tone has is the screen's business.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from mptune import units
from mptune._text import visible
from mptune.monitor.figures import ConnectionSeen, Figures, SubflowSeen
from mptune.monitor.limits import Limit, blocked, quickest
from mptune.monitor.liveness import is_lost, words
from mptune.monitor.shape import Connection, Subflow
from mptune.monitor.view import Row

Tone = Literal["plain", "quiet", "good", "bad", "strange"]

#: Style of a limit: attention where a buffer or a window holds the subflow back.
_TONES: dict[Limit, Tone] = {
    "window": "strange",
    "buffer": "strange",
    "path": "plain",
    "idle": "quiet",
    "held": "strange",
    "receiving": "quiet",
}
_BARS = " ▁▂▃▄▅▆▇█"
#: Retransmitted part from which a loss is worth a colour.
_MUCH_LOSS = 0.01


class Cell(NamedTuple):
    """A text and its tone."""

    text: str
    tone: Tone = "plain"


UNKNOWN = Cell("-", "quiet")


class Column(NamedTuple):
    """A column.

    Attributes
    ----------
    width : 0 for what is left.
    from_width : width of the screen from which there is room for it.
    number : set to the right.
    """

    title: str
    width: int
    from_width: int
    cell: Callable[[Row], Cell]
    number: bool = False


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as bars, the largest as the highest; what is above zero has a bar."""
    last = list(values)[-width:]
    most = max(last, default=0.0)
    if most <= 0:
        return " " * width
    bars = (_BARS[min(8, max(1, round(8 * value / most)))] if value > 0 else " " for value in last)
    return "".join(bars).rjust(width)


def rate(bps: float | None) -> str:
    """Mbit/s with three digits, or with as many as it takes."""
    if bps is None:
        return "-"
    mbps = bps / 1e6
    if mbps == 0:
        return "0"
    return f"{mbps:.2f}" if mbps < 9.995 else f"{mbps:.1f}" if mbps < 99.95 else f"{mbps:.0f}"


def milliseconds(ns: int | None) -> str:
    """Milliseconds with about three digits."""
    if ns is None:
        return "-"
    ms = ns / 1e6
    return f"{ms:.2f}" if ms < 9.995 else f"{ms:.1f}" if ms < 99.95 else f"{ms:.0f}"


def amount(count: int | None) -> str:
    """Bytes in the largest unit that leaves a number of one or more."""
    if count is None:
        return "-"
    unit = next((name for name in ("GB", "MB", "kB") if count >= units.SIZES[name]), "B")
    value = count / units.SIZES[unit]
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"


def loss(part: float | None) -> Cell:
    """Percent."""
    if part is None:
        return UNKNOWN
    if part == 0:
        return Cell("0", "quiet")
    text = "<0.1" if part < 0.001 else f"{100 * part:.1f}"
    return Cell(text, "bad" if part >= _MUCH_LOSS else "plain")


def who(connection: ConnectionSeen) -> str:
    """The program of a connection, or else its token."""
    return connection.now.command or f"{connection.now.token:08x}"


def name(row: Row) -> Cell:
    """Name of a row."""
    if row.subflow is not None:
        now = row.subflow.now
        local = now.local if now.device is None else f"{now.device} {_address(now.local)}"
        return Cell(f"   {local} > {_address(now.remote)}")
    mark = "*" if row.pinned else " "
    there = f"{row.machine.name}: " if row.machine.name else ""
    sign = "-" if row.opened else "+" if row.connection.subflows else " "
    return Cell(f"{sign}{mark}{there}{who(row.connection)} > {row.connection.now.remote}")


def _address(end: str) -> str:
    """An address without its port."""
    return end.rpartition(":")[0].strip("[]")


def role(row: Row) -> Cell:
    """Active or standby; of a connection how many are which."""
    if row.subflow is not None:
        if row.subflow.now.state not in (None, "established"):
            return Cell(row.subflow.now.state or "", "strange")
        if is_lost(row.subflow.now):
            return Cell("lost", "bad")
        known: dict[bool | None, Cell] = {
            None: UNKNOWN,
            False: Cell("active", "good"),
            True: Cell("standby", "quiet"),
        }
        return known[row.subflow.now.backup]
    if row.connection.now.fallback:
        return Cell("TCP", "strange")
    active, standby, lost = row.connection.active, row.connection.standby, row.connection.lost
    if lost:
        return Cell(f"{active + standby} of {active + standby + lost}", "bad")
    if not active + standby:
        return UNKNOWN
    return Cell(f"{active}+{standby}" if standby else str(active))


def _limit(row: Row) -> Cell:
    limit = row.connection.limit if row.subflow is None else row.subflow.figures.limit
    if limit is None:
        return UNKNOWN
    return Cell(limit, _TONES[limit])


def _cc(row: Row) -> Cell:
    known = [row.subflow] if row.subflow is not None else row.connection.subflows
    names = dict.fromkeys(subflow.now.cc for subflow in known if subflow.now.cc is not None)
    return Cell(",".join(names)) if names else UNKNOWN


def _figures(row: Row) -> Figures:
    return (row.connection if row.subflow is None else row.subflow).figures


def _rtt(row: Row) -> Cell:
    return Cell(milliseconds(row.connection.rtt_ns if row.subflow is None else row.subflow.now.rtt_ns))


def _total(row: Row, which: str) -> Cell:
    seen: ConnectionSeen | SubflowSeen = row.connection if row.subflow is None else row.subflow
    return Cell(amount(getattr(seen.now, which)))


def _of_subflow(which: str) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        value = None if row.subflow is None else getattr(row.subflow.now, which)
        return Cell("" if row.subflow is None else "-" if value is None else str(value))

    return cell


def _pid(row: Row) -> Cell:
    pid = row.connection.now.pid
    return Cell("" if row.subflow is not None else "-" if pid is None else str(pid))


def safe_cell(column: Column, row: Row) -> Cell:
    """A cell whose text cannot control a terminal, whatever a program or another machine calls itself."""
    text, tone = column.cell(row)
    return Cell(visible(text), tone)


#: From left to right. Those that fit 80 columns leave 26 for the name.
COLUMNS = (
    Column("connection", 0, 0, name),
    Column("Mbit/s", 7, 0, lambda row: Cell(rate(_figures(row).rate_bps)), True),
    Column("course", 10, 0, lambda row: Cell(sparkline(_figures(row).course, 10), "good")),
    Column("RTT ms", 6, 0, _rtt, True),
    Column("loss %", 6, 0, lambda row: loss(_figures(row).loss), True),
    Column("role", 7, 0, role),
    Column("limit", 9, 0, _limit),
    Column("cc", 8, 92, _cc),
    Column("cwnd", 5, 104, _of_subflow("cwnd"), True),
    Column("sent", 8, 114, lambda row: _total(row, "acked_bytes"), True),
    Column("received", 8, 124, lambda row: _total(row, "received_bytes"), True),
    Column("timeouts", 8, 134, _of_subflow("timeouts"), True),
    Column("pid", 7, 146, _pid, True),
)


def layout(width: int) -> list[tuple[Column, int]]:
    """The columns that fit a screen, with their widths; a blank stands between two."""
    fitting = [column for column in COLUMNS if column.from_width <= width]
    rest = width - sum(column.width + 1 for column in fitting if column.width)
    return [(column, column.width or max(8, rest)) for column in fitting]


def details(row: Row) -> list[str]:
    """Details of the selected row, in lines: values without a column."""
    return [visible(line) for line in _details(row)]


def _details(row: Row) -> list[str]:
    now = row.connection.now
    if row.subflow is None:
        fallback = {True: "fell back to TCP", False: "MPTCP", None: "fallback unknown"}[now.fallback]
        manager = f"path manager: {now.path_manager or 'not known'}"
        return [
            f"{now.local} > {now.remote}  token {now.token:08x}  {fallback}  {now.state or ''}".rstrip(),
            f"{who(row.connection)}, pid {now.pid if now.pid is not None else 'unknown'}  {manager}",
            f"sent {amount(now.sent_bytes)}, acknowledged {amount(now.acked_bytes)}, reinjected"
            f" {amount(now.reinjected_bytes)}, received {amount(now.received_bytes)}",
        ]
    flow = row.subflow.now
    return [
        f"{flow.local} > {flow.remote}  ids {_known(flow.local_id)}/{_known(flow.remote_id)}"
        f"  {flow.device or '-'}  {flow.cc or '-'}",
        f"RTT {milliseconds(flow.rtt_ns)} ms (least {milliseconds(flow.min_rtt_ns)})"
        f"  cwnd {_known(flow.cwnd)}, in flight {_known(flow.unacked)}, lost {_known(flow.lost)}"
        f"  delivery {rate(flow.delivery_rate_bps)} Mbit/s",
        f"{_before(held(flow, now))}acknowledged {amount(flow.acked_bytes)}, retransmitted"
        f" {amount(flow.retransmitted_bytes)}, received {amount(flow.received_bytes)}, timeouts"
        f" {_known(flow.timeouts)}" + (f", {words(flow)}" if is_lost(flow) else ""),
    ]


def held(flow: Subflow, connection: Connection) -> str:
    """That its path policy holds it, and why as far as that is known; empty if none does."""
    if not flow.held:
        return ""
    policy = (flow.cc or "").rpartition("_")[2]
    if policy == "prefer":
        return "held: paths before it have room"
    if policy == "quick" and (other := quickest(flow, connection.subflows)) is not None:
        return f"held: {milliseconds(flow.rtt_ns)} ms, another path takes {milliseconds(other)} ms"
    if (block := blocked(flow, connection.subflows)) is None:
        return "held"
    return f"held: would block {rate(block[0])} Mbit/s for {milliseconds(block[1])} ms"


def _before(reason: str) -> str:
    return f"{reason}; " if reason else ""


def _known(value: int | None) -> str:
    return "-" if value is None else str(value)
