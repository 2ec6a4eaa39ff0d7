"""A campaign as tables for other programs: CSV or Parquet, with the unit in every column's name.

One row per trial, per trial and subflow, and (if requested) per trial, subflow and 100 ms, and per message or
response. It reads the store and computes nothing.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mptune.errors import MptuneError
from mptune.files import writing
from mptune.store import Store
from mptune.trial import BIN_NS, FIXED, ConnectionObservation, Observation
from mptune.trial.objectives import COLUMNS, values
from mptune.trial.records import family_of, members_of, stack_of
from mptune.trial.workloads import series_of

if TYPE_CHECKING:
    import pandas as pd

_TRIALS = """
SELECT t.id AS trial, c.name AS campaign, p.name AS topology, t.testbed, t.purpose, t.round, t.run, t.pm,
    t.cc, t.buffer_bytes, t.seed, t.withdrawn, t.settings, t.status, t.failed, t.started,
    t.finished - t.started AS took_s,
    t.duration_ns / 1e9 AS duration_s, t.completion_ns / 1e9 AS completion_s, t.throughput_mbps, t.omega,
    t.failed_kind, t.key
FROM trial t JOIN campaign c ON c.id = t.campaign JOIN topology p ON p.digest = t.topology
ORDER BY t.id
"""

#: Further settings of a trial, by the names of the exported columns.
_SETTINGS = ("initial_path", "scheduler", "transfer_bytes", "accounting")


def _csv(frame: "pd.DataFrame", file: BinaryIO) -> None:
    frame.to_csv(file, index=False, lineterminator="\n")


def _parquet(frame: "pd.DataFrame", file: BinaryIO) -> None:
    try:
        frame.to_parquet(file, index=False)
    except ImportError:
        raise MptuneError("Parquet needs pyarrow: pip install 'mptune[parquet]'") from None


#: Formats and how a table is written in each.
FORMATS: dict[str, Callable[["pd.DataFrame", BinaryIO], None]] = {"csv": _csv, "parquet": _parquet}


def export(
    store: Store, directory: Path, kind: str, *, series: bool = False, zone: tzinfo | None = None
) -> list[Path]:
    """Write the tables `trials`, `subflows` and, if requested, `series` and `times`; return the files.

    Parameters
    ----------
    kind : one of `FORMATS`.
    zone : of the times; None is this machine's.

    Raises
    ------
    MptuneError : the directory cannot be written, or the library for the format is missing.
    """
    import pandas as pd

    tables: dict[str, list[dict[str, Any]]] = {
        "trials": list(_trials(store, zone)),
        "subflows": store.rows("SELECT * FROM subflow ORDER BY trial, number"),
    }
    if series:
        tables["series"] = list(_series(store))
        if found := list(_times(store)):
            tables["times"] = found
    files = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            file = directory / f"{name}.{kind}"
            with writing(file) as out:
                FORMATS[kind](pd.DataFrame(rows), out)
            files.append(file)
    except OSError as error:
        raise MptuneError(f"{error.filename or directory}: {error.strerror}") from None
    return files


def _trials(store: Store, zone: tzinfo | None) -> Iterator[dict[str, Any]]:
    """Every trial; where any has messages or requests, with their times behind."""
    rows = store.rows(_TRIALS)
    records = store.records(row["key"] for row in rows if "workload" in json.loads(row["settings"]))
    taken = {key: values(record) for key, record in records.items()}
    known = [name for name in COLUMNS if any(name in each for each in taken.values())]
    for row in rows:
        mine = taken.get(row.pop("key"), {})
        yield {**_trial(row, zone), **{name: mine.get(name) for name in known}}


def _trial(row: dict[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """One trial with its settings as columns and its time of day."""
    settings = json.loads(row.pop("settings"))
    started = datetime.fromtimestamp(row.pop("started")).astimezone(zone)
    midnight = started.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        **row,
        **{name: settings.get(name) for name in _SETTINGS},
        "protocol": settings.get("protocol", "mptcp"),
        "stack": stack_of(settings),
        "buffer_mode": settings.get("buffer_mode", FIXED),
        "ecn": members_of(settings)["ecn"],
        "family": family_of(settings),
        "started": started.isoformat(timespec="milliseconds"),
        "time_of_day_h": (started - midnight).total_seconds() / 3600,
    }


def _series(store: Store) -> Iterator[dict[str, Any]]:
    """In-order throughput of the connection (path empty) and of each subflow over time."""
    for row in store.rows("SELECT id, key FROM trial ORDER BY id"):
        observation = store.observation(row["key"])
        flows = [
            (None, observation.bins),
            *((subflow.path, subflow.bins) for subflow in observation.subflows),
        ]
        for path, bins in flows:
            for index, size in enumerate(bins):
                yield {
                    "trial": row["id"],
                    "path": path,
                    "t_s": index * BIN_NS / 1e9,
                    "throughput_mbps": size * 8e3 / BIN_NS,
                }


def _times(store: Store) -> Iterator[dict[str, Any]]:
    """When each message was due, and its delay; of responses only how long each took; of segments all."""
    for row in store.rows("SELECT id, key, settings FROM trial WHERE settings LIKE '%workload%' ORDER BY id"):
        settings = json.loads(row["settings"])
        observation = store.observation(row["key"])
        for part, sent, many in _sent(settings, observation):
            for connection, observed in enumerate(many):
                interval_ns = sent.get("interval_ns")
                count = len(observed.delays_ns)
                if interval_ns is not None:
                    count = series_of(sent, count, many=False)
                for number, taken_ns in enumerate(observed.delays_ns):
                    taken = {
                        "trial": row["id"],
                        "number": number % count,
                        "due_s": None if interval_ns is None else number % count * interval_ns / 1e9,
                        "time_ms": taken_ns / 1e6,
                        **({} if part is None else {"part": part, "connection": connection}),
                        **({"back": number >= count} if sent.get("both_ways") else {}),
                    }
                    if observed.pieces:
                        piece = observed.pieces[number]
                        taken["due_s"] = piece.at_ns / 1e9
                        taken |= {"bytes": piece.bytes, "stalled_ms": piece.stalled_ns / 1e6}
                    yield taken


def _sent(
    settings: dict[str, Any], observation: Observation
) -> Iterator[tuple[int | None, dict[str, Any], Sequence[Observation | ConnectionObservation]]]:
    """Number of a mix's part, its workload, and its connections; without a mix no number."""
    sent = settings.get("workload", {})
    if not observation.parts:
        yield None, sent, [observation]
    for number, part in enumerate(observation.parts):
        yield number, sent["parts"][number]["workload"], part.connections
