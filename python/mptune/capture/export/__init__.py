"""A recorded run as a pcapng file for Wireshark and other programs, with an interface per path and end.

A packet that arrives is there twice, at the end that sends it and at the one that receives it; dropped and
lost ones are there once, with a comment. Headers are whole, payload is cut off, times count from the run's
beginning. Sequence numbers, mappings, acknowledgements and windows are those of the run; addresses, ports,
keys and initial numbers are drawn from its seed. A packet is as long as its headers and payload, with DSS,
which the simulator does not count. What a recording does not have is not there: time stamps, announced
addresses, priorities, and reasons of resets; a comment stands where a kernel sent such an option.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mptune import files, units
from mptune.capture._model import ARRIVED, FATES, NONE
from mptune.capture.export._flows import connection
from mptune.capture.export._headers import CAPABLE, DATA_FIN, JOIN, MARKED, Shape, Written
from mptune.capture.pcap import Interface, writing
from mptune.errors import MptuneError

if TYPE_CHECKING:
    from pathlib import Path

    from mptune.capture._model import Run
    from mptune.trial import Trial

Array = Any

_RAW_IP = 101
#: Packets that are made at once.
_PIECE = 200_000
#: Options of records of which the content is not recorded.
_NOT_KEPT = {
    1 << 2: "ADD_ADDR or REMOVE_ADDR",
    1 << 3: "MP_PRIO",
    1 << 5: "MP_FAIL, MP_FASTCLOSE or MP_TCPRST",
}
_LOST = {
    "dropped": "dropped by a full queue",
    "lost": "lost on the way",
    "cut": "lost on a path that was down",
}


def write(trial: Trial, run: Run, path: Path, standby: frozenset[str] = frozenset()) -> None:
    """Write a recorded run completely or not at all.

    Parameters
    ----------
    standby : labels of the paths whose subflows were opened as standby.

    Raises
    ------
    MptuneError : it cannot be written.
    """
    program = f"mptune {metadata.version('mptune')}"
    about = f"{trial.topology.name}: {trial.pm}, {trial.cc}, seed {trial.seed}"
    if run.unrecorded:
        about += f"; {run.unrecorded} packets at the end are missing"
    try:
        with files.writing(path) as file:
            file.write(writing.head(_interfaces(trial), about, program))
            if len(run.packets):
                file.writelines(_blocks(trial, run, standby))
    except OSError as error:
        raise MptuneError(f"{path}: {error.strerror}") from None


def _interfaces(trial: Trial) -> list[Interface]:
    """Two for each path: at the sender's end, and at the receiver's."""
    topology, found = trial.topology, []
    for path in topology.paths:
        rtt = units.format_time(path.base_rtt_ns)
        what = f"path {path.label} of {topology.name}, {path.rate_bps / 1e6:g} Mbit/s, {rtt}"
        for end, site, interface in (
            ("sender", topology.sender, path.local),
            ("receiver", topology.receiver, path.remote),
        ):
            description = f"{what}: {end}, {site.name} by {interface.isp}"
            found.append(Interface(link=_RAW_IP, name=f"{path.label} {end}", description=description))
    return found


def _blocks(trial: Trial, run: Run, standby: frozenset[str]) -> Iterator[bytes]:
    """Blocks of all packets, in order of time."""
    import numpy as np

    packets = run.packets
    windows = int(packets["window"].max())
    written = Written(
        connection(trial, packets, standby),
        trial.protocol == "mptcp",
        min(14, max(0, (windows >> 16).bit_length())),
        max(int(packets["length"].max()), 536),
    )
    shapes, of_record = _shapes(packets)
    last_data = _last_data(packets)
    arrived = np.flatnonzero((packets["fate"] == ARRIVED) & (packets["left"] <= _end_ns(run)))
    records = np.concatenate([np.arange(len(packets)), arrived])
    times = np.concatenate([packets["entered"], packets["left"][arrived]]).astype("i8")
    leaving = np.arange(len(records)) >= len(packets)
    order = np.argsort(times, kind="stable")
    comments = packets["fate"].astype("u2") << 8 | packets["options"] & sum(_NOT_KEPT)
    for begin in range(0, len(order), _PIECE):
        chosen = order[begin : begin + _PIECE]
        index, left = records[chosen], leaving[chosen]
        ends = packets["route"][index] % 2 ^ left
        interfaces = packets["route"][index] // 2 * 2 + ends
        comment = np.where(left, comments[index] & 0xFF, comments[index])
        kinds = np.column_stack([of_record[index], left & (packets["options"][index] & MARKED > 0), comment])
        several, inverse = np.unique(kinds, axis=0, return_inverse=True)
        made = []
        for number, (shape, congested, bits) in enumerate(several.tolist()):
            mine = np.flatnonzero(inverse.reshape(-1) == number)
            own = index[mine]
            rows = written.headers(
                shapes[shape]._replace(congested=bool(congested)), packets[own], own, last_data[own]
            )
            lengths = rows.shape[1] + packets["length"][own].astype("u4")
            made.append(
                (mine, writing.packets(rows, lengths, times[chosen[mine]], interfaces[mine], _words(bits)))
            )
        yield _interleaved(made, len(chosen))


def _end_ns(run: Run) -> int:
    """End of a run: queues know when a packet will leave, even if that comes later."""
    entered = run.packets["entered"]
    return max(int(entered[0]) + run.duration_ns, int(entered[-1]))


def _shapes(packets: Array) -> tuple[list[Shape], Array]:
    """All shapes, and the number of each record's."""
    import numpy as np

    blocks = (packets["sack"] != 0).any(axis=2).sum(axis=1)
    handshake = packets["options"] & (CAPABLE | JOIN)
    columns = (
        *(packets["flow"], packets["route"] % 2, packets["flags"], handshake),
        *(packets["data"] != NONE, packets["data_ack"] != NONE, packets["options"] & DATA_FIN > 0),
        *(blocks, packets["length"] > 0, np.zeros(len(packets), bool)),
    )
    kinds, of_record = np.unique(
        np.column_stack([column.astype("u4") for column in columns]), axis=0, return_inverse=True
    )
    shapes = [
        Shape(flow, way, flags, shaking, bool(mapped), bool(acked), bool(ends), sacked, bool(loaded), False)
        for flow, way, flags, shaking, mapped, acked, ends, sacked, loaded, _ in kinds.tolist()
    ]
    return shapes, of_record.reshape(-1)


def _last_data(packets: Array) -> Array:
    """End of the data that was sent on a record's way up to it."""
    import numpy as np

    last = np.zeros(len(packets), "u8")
    for way in range(2):
        mine = packets["route"] % 2 == way
        own = packets[mine]
        ends = np.where(own["data"] != NONE, own["data"] + own["length"], 0)
        last[mine] = np.maximum.accumulate(ends)
    return last


def _words(bits: int) -> str:
    """The comment of packets: what became of them, and which options they had."""
    fate = _LOST.get(FATES[bits >> 8], "") if bits >> 8 < len(FATES) else ""
    return "; ".join(
        [*([fate] if fate else []), *(f"with {name}" for bit, name in _NOT_KEPT.items() if bits & bit)]
    )


def _interleaved(made: list[tuple[Array, Array]], count: int) -> bytes:
    """Rows of several lengths in their order."""
    import numpy as np

    sizes = np.zeros(count, "i8")
    for mine, rows in made:
        sizes[mine] = rows.shape[1]
    ends = np.cumsum(sizes)
    content = np.empty(int(ends[-1]), "u1")
    for mine, rows in made:
        content[(ends - sizes)[mine, None] + np.arange(rows.shape[1])] = rows
    return content.tobytes()
