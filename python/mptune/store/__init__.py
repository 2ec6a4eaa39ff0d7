"""The campaign store: one SQLite file with every finished trial, whatever happens to the process.

One thread writes trials as they end, several per transaction. Committed trials survive a killed process and,
because every commit reaches the disk, a power failure. A trial that was running then is missing and is run
again. The tables are in `mptune.store._schema`; this module decides nothing and runs nothing (see
`mptune.runner.runner`).
"""

import itertools
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from mptune.errors import Failure, FailureKind, InputError, MptuneError
from mptune.files import is_file
from mptune.store import _schema as schema
from mptune.store._file import address, connected, explained, readable
from mptune.store._locking import Lock
from mptune.testbeds import only_stack, own_clock
from mptune.topology import Topology
from mptune.trial import Observation, PlannedTrial, Ran, Record, SubflowRecord
from mptune.trial.records import in_ms, others_of, parts_of, settings_of
from mptune.trial.stacks import MEMBERS, in_a_kernel

#: Longest time a finished trial waits for its commit, seconds, and most trials in one commit.
_COMMIT_S = 0.2
_COMMIT_TRIALS = 512

#: Bytes of a trial's key: enough to make collisions among 2^64 trials unlikely.
_KEY_BYTES = 16

#: zlib's fastest level: the series shrink to a third; better levels take longer than simulating.
_LEVEL = 1

#: Columns of a record, without its subflows.
_RECORD = (
    "purpose, pm, cc, buffer_bytes, run, round, seed, withdrawn, settings, duration_ns, completion_ns, "
    "throughput_mbps, p5_mbps, failed_kind, failed, omega, repeated, testbed, started, finished"
)

#: Columns of a record's subflow, which are its fields.
_SUBFLOWS = tuple(field.name for field in msgspec.structs.fields(SubflowRecord))
_SUBFLOW = ", ".join(_SUBFLOWS)
_subflow_values = attrgetter(*_SUBFLOWS)

#: Columns of a trial, as `Store._row` gives them.
_TRIAL = (
    *("id", "key", "campaign", "topology", "testbed", "purpose", "round", "run", "pm", "cc", "buffer_bytes"),
    *("seed", "withdrawn", "settings", "status", "failed", "failed_kind", "started", "finished"),
    *("duration_ns", "completion_ns", "throughput_mbps", "omega", "repeated", "p5_mbps", "observation"),
)

#: Rows of one statement: as many as fit, by the largest of these; SQLite allows 32766 values.
_ROWS = (128, 16, 1)

_PACK = msgspec.msgpack.Encoder()


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of the trials: name, settings (JSON types) and software."""

    name: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    created: str = ""
    uuid: str = ""


class Progress(NamedTuple):
    """Progress of one phase of a campaign."""

    purpose: str
    round: int
    planned: int
    done: int
    failed: int


class StoredTrial(NamedTuple):
    """A finished trial, without its time series.

    Attributes
    ----------
    settings : values that differ from a trial's defaults and have no column (JSON types).
    started : seconds since 1970.
    """

    key: bytes
    testbed: str
    purpose: str
    round: int
    run: int
    pm: str
    cc: str
    buffer_bytes: int
    settings: dict[str, Any]
    failed: Failure | None
    started: float
    completion_ns: int | None
    throughput_mbps: float | None


class _Finished(NamedTuple):
    planned: PlannedTrial
    testbed: str
    started: float
    finished: float
    observation: Observation
    packed: bytes
    record: Record


class Store:
    """An open campaign store; make one with `create` or `open_store`. Safe to use from trial threads."""

    def __init__(self, path: Path, connection: sqlite3.Connection, campaign: int) -> None:
        self.path = path
        self._connection = connection
        self._campaign = campaign
        # Two locks, for pending trials and for the connection, so that no trial waits for the disk.
        self._lock = threading.Lock()
        self._database = threading.Lock()
        self._pending: dict[bytes, _Finished] = {}
        self._wake = threading.Event()
        self._closing = False
        self._error: MptuneError | None = None
        self._topologies: dict[int, tuple[Topology, bytes]] = {}
        self._writer = threading.Thread(target=self._write_on, name="store", daemon=True)
        self._writer.start()

    # ---- identity -----------------------------------------------------------------------------

    def key(self, testbed: str, planned: PlannedTrial) -> bytes:
        """Digest of everything that defines a trial.

        Fields with their default value are left out, so that a later version with more fields still
        recognises the trials of an earlier one; so is the stack on a testbed that has only one, apart from
        the abilities of its kernel.
        """
        leave_out = {
            "topology",
            *(set(MEMBERS) - in_a_kernel(planned.trial.members).keys() if only_stack(testbed) else ()),
        }
        parts = [testbed, planned.purpose, planned.round, planned.run, planned.withdrawn]
        text = json.dumps([*parts, settings_of(planned.trial, leave_out)]).encode()
        return blake2b(self._topology(planned.trial.topology) + text, digest_size=_KEY_BYTES).digest()

    def _topology(self, topology: Topology) -> bytes:
        """Digest of a topology; computed once per object, which is kept so that its id is not reused."""
        known = self._topologies.get(id(topology))
        if known is None:
            document = msgspec.json.encode(topology, order="deterministic")
            known = topology, blake2b(document, digest_size=_KEY_BYTES).digest()
            self._topologies[id(topology)] = known
            with self._transaction() as connection:
                connection.execute(
                    "INSERT OR IGNORE INTO topology VALUES (?, ?, ?)",
                    (known[1], topology.name, document.decode()),
                )
        return known[1]

    # ---- writing ------------------------------------------------------------------------------

    def expect(self, purpose: str, round_: int, left: int) -> None:
        """Note how many trials a phase has: those that are finished, and so many more."""
        self.flush()
        with self._transaction() as connection:
            phase = self._campaign, purpose, round_
            connection.execute(
                "INSERT OR REPLACE INTO phase SELECT ?, ?, ?, ? + count(*) FROM trial "
                "WHERE campaign = ? AND purpose = ? AND round = ?",
                (*phase, left, *phase),
            )

    def finish(
        self,
        key: bytes,
        planned: PlannedTrial,
        observation: Observation,
        record: Record,
        *,
        testbed: str,
        ran: Ran,
    ) -> None:
        """Hand over a finished trial; it is on the disk after the next commit (see `flush`).

        Raises
        ------
        MptuneError : an earlier commit failed, for example because the disk is full.
        """
        packed = zlib.compress(_PACK.encode(observation), _LEVEL)
        finished = _Finished(planned, testbed, *ran, observation, packed, record)
        with self._lock:
            self._check()
            self._pending[key] = finished
            full = len(self._pending) >= _COMMIT_TRIALS
        if full:
            self._wake.set()

    def flush(self) -> None:
        """Return when everything handed over is on the disk.

        Raises
        ------
        MptuneError : it could not be written.
        """
        self._commit()
        self._check()

    def close(self) -> None:
        """Write what is pending and close the file; errors as `flush`, after closing."""
        self._closing = True
        self._wake.set()
        self._writer.join()
        try:
            self.flush()
        finally:
            self._connection.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _write_on(self) -> None:
        """Commit every `_COMMIT_S`, or sooner if many trials are pending."""
        while not self._closing:
            self._wake.wait(_COMMIT_S)
            self._wake.clear()
            self._commit()

    def _commit(self) -> None:
        """Write pending trials in one transaction; if it fails, they stay pending and the error is kept."""
        with self._database:
            with self._lock:
                batch = dict(self._pending)
                if not batch or self._error is not None:
                    return
            try:
                with self._connection:
                    self._connection.execute("BEGIN IMMEDIATE")
                    self._insert(batch)
            except sqlite3.Error as error:
                self._error = explained(self.path, error)
                return
            with self._lock:
                for key in batch:
                    del self._pending[key]

    def _insert(self, batch: Mapping[bytes, _Finished]) -> None:
        """Insert trials with their subflows, many rows per statement.

        Each statement costs a turn at the interpreter's lock, which the trials' threads want as well.
        """
        ((last,),) = self._connection.execute("SELECT coalesce(max(id), 0) FROM trial").fetchall()
        numbered = list(enumerate(batch.items(), start=last + 1))
        self._insert_rows(
            "INSERT OR REPLACE INTO trial", _TRIAL, [self._row(n, *pair) for n, pair in numbered]
        )
        self._insert_rows(
            "INSERT INTO subflow",
            ("trial", "number", *_SUBFLOWS),
            [
                (number, i, *_subflow_values(subflow))
                for number, (_, pair) in numbered
                for i, subflow in enumerate(pair.record.subflows)
            ],
        )

    def _insert_rows(self, insert: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
        marks = f"({', '.join('?' * len(columns))})"
        done = 0
        for size in _ROWS:
            statement = f"{insert} ({', '.join(columns)}) VALUES {', '.join([marks] * size)}"
            while len(rows) - done >= size:
                values = tuple(itertools.chain.from_iterable(rows[done : done + size]))
                self._connection.execute(statement, values)
                done += size

    def _row(self, number: int, key: bytes, finished: _Finished) -> tuple[object, ...]:
        """The values of `_TRIAL`."""
        trial, observation, record = finished.planned.trial, finished.observation, finished.record
        failed = record.failed
        return (
            number,
            key,
            self._campaign,
            self._topologies[id(trial.topology)][1],
            finished.testbed,
            record.purpose,
            finished.planned.round,
            record.run,
            record.pm,
            record.cc,
            record.buffer_bytes,
            record.seed,
            record.withdrawn,
            json.dumps(record.settings) if record.settings else "{}",
            "done" if failed is None else "failed",
            None if failed is None else failed.reason,
            None if failed is None else failed.kind,
            finished.started,
            finished.finished,
            observation.duration_ns,
            observation.completion_ns,
            record.throughput_mbps,
            record.omega,
            record.repeated,
            record.p5_mbps,
            finished.packed,
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection inside a transaction of its own."""
        with self._database:
            self._check()
            try:
                with self._connection:
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield self._connection
            except sqlite3.Error as error:
                raise explained(self.path, error) from None

    # ---- reading ------------------------------------------------------------------------------

    def finished(self) -> frozenset[bytes]:
        """Keys of all trials that need not be run again."""
        return frozenset(key for (key,) in self._read("SELECT key FROM trial"))

    def records(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Records of finished trials, by key."""
        asked = frozenset(keys)
        if not asked:
            return {}
        subflows: dict[int, list[SubflowRecord]] = {}
        for trial, path, active, *rest in self._read(
            f"SELECT trial, {_SUBFLOW} FROM subflow ORDER BY trial, number"
        ):
            subflow_record = SubflowRecord(**dict(zip(_SUBFLOWS, (path, bool(active), *rest), strict=True)))
            subflows.setdefault(trial, []).append(subflow_record)
        return {
            row["key"]: self._with_delays(row["key"], _record(row, subflows.get(row["id"], ())))
            for row in self.rows(f"SELECT id, key, {_RECORD} FROM trial")
            if row["key"] in asked
        }

    def _with_delays(self, key: bytes, stored: Record) -> Record:
        """The record with the delays of its messages, or what else came in pieces, which has no column."""
        if "workload" not in stored.settings:
            return stored
        seen = self.observation(key)
        return msgspec.structs.replace(
            stored,
            delays_ms=in_ms(seen.delays_ns),
            pieces=tuple(seen.pieces),
            parts=parts_of(seen),
            others_mbps=others_of(seen),
        )

    def trials(self) -> list[StoredTrial]:
        """Finished trials of the campaign, by round, run and buffer, without those of other campaigns."""
        rows = self._read(
            "SELECT key, testbed, purpose, round, run, pm, cc, buffer_bytes, settings, failed_kind, failed, "
            "started, completion_ns, throughput_mbps FROM trial WHERE campaign = ? "
            "ORDER BY round, run, buffer_bytes, key",
            (self._campaign,),
        )
        return [
            StoredTrial._make((*row[:8], self._json(row[8]), _failure(row[9], row[10]), *row[11:]))
            for row in rows
        ]

    def foreign(self) -> int:
        """Number of trials of other campaigns, merged into this store."""
        ((number,),) = self._read("SELECT count(*) FROM trial WHERE campaign <> ?", (self._campaign,))
        return int(number)

    def observation(self, key: bytes) -> Observation:
        """Everything that was observed in one finished trial.

        Raises
        ------
        KeyError : there is no such trial.
        InputError : it cannot be read.
        """
        for (packed,) in self._read("SELECT observation FROM trial WHERE key = ?", (key,)):
            try:
                return _unpacked(zlib.decompress(packed))
            except (zlib.error, msgspec.MsgspecError) as error:
                raise self._unreadable(error) from None
        raise KeyError(key)

    def progress(self) -> list[Progress]:
        """Progress of each phase, in the order they were planned."""
        return [
            Progress(*row)
            for row in self._read(
                "SELECT p.purpose, p.round, p.planned, count(t.id), coalesce(sum(t.status = 'failed'), 0) "
                "FROM phase p LEFT JOIN trial t ON t.campaign = p.campaign AND t.purpose = p.purpose AND "
                "t.round = p.round GROUP BY p.campaign, p.purpose, p.round "
                "ORDER BY min(coalesce(t.id, 9e18))"
            )
        ]

    def failures(self) -> list[tuple[str, int]]:
        """Reasons for failed trials with their counts, most frequent first."""
        query = (
            "SELECT failed, count(*) FROM trial WHERE status = 'failed' GROUP BY failed ORDER BY 2 DESC, 1"
        )
        return [(reason, number) for reason, number in self._read(query)]

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a query from this package, by column."""
        with self._database:
            try:
                cursor = self._connection.execute(query)
                names = [column[0] for column in cursor.description]
                return [dict(zip(names, row, strict=True)) for row in cursor]
            except sqlite3.Error as error:
                raise explained(self.path, error) from None

    def merge(self, other: Path) -> int:
        """Add the trials of another store that this one does not have; return their number.

        Raises
        ------
        InputError : there is no store, or it is the same one.
        MptuneError : a file cannot be read or written.
        """
        if not other.is_file():
            raise InputError(str(other), "", "expected a campaign store, found none")
        if other.samefile(self.path):
            raise InputError(str(other), "", "must not be the campaign that is imported into")
        self.flush()
        before = len(self.finished())
        with readable(other) as present, self._database:
            try:
                self._connection.execute("ATTACH DATABASE ? AS other", (address(present, write=False),))
                try:
                    self._connection.executescript(schema.MERGE)
                finally:
                    self._connection.execute("DETACH DATABASE other")
            except sqlite3.Error as error:
                raise explained(self.path, error) from None
        return len(self.finished()) - before

    def campaign(self) -> Campaign:
        """The campaign that this process writes."""
        ((name, settings, environment, created, uuid),) = self._read(
            "SELECT name, settings, environment, created, uuid FROM campaign WHERE id = ?", (self._campaign,)
        )
        return Campaign(
            name=name,
            settings=self._json(settings),
            environment=self._json(environment),
            created=created,
            uuid=uuid,
        )

    def _json(self, text: Any) -> dict[str, Any]:
        """A JSON object in a column."""
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(str(self.path), "", f"expected a readable campaign store: {error}")

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        with self._database:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise explained(self.path, error) from None


@contextmanager
def create(path: Path, campaign: Campaign, *, locked: bool = False) -> Iterator[Store]:
    """A new store for a campaign.

    Parameters
    ----------
    locked : its directory is locked already, by `mptune.store.directory.started`.

    Raises
    ------
    InputError : the file exists, or cannot be created.
    MptuneError : the disk is full; another process has it open.
    """
    if path.exists():
        raise InputError(str(path), "", "already exists (resume it, or choose another directory)")
    created = campaign.created or datetime.now().astimezone().isoformat(timespec="seconds")
    with Lock(path, taken=not locked), connected(path, write=True) as connection:
        with connection:
            number = connection.execute(
                "INSERT INTO campaign (uuid, name, created, settings, environment) VALUES (?, ?, ?, ?, ?)",
                (
                    campaign.uuid or str(uuid4()),
                    campaign.name,
                    created,
                    json.dumps(campaign.settings),
                    json.dumps(campaign.environment),
                ),
            ).lastrowid
        assert number is not None  # an INSERT has just succeeded
        with _serving(path, connection, number) as store:
            yield store


@contextmanager
def open_store(path: Path, *, write: bool = True) -> Iterator[Store]:
    """An existing store; only one process may have it open for writing.

    For reading it may be on read-only media.

    Raises
    ------
    InputError : there is no store, or the file is something else.
    MptuneError : another process has it open for writing.
    """
    if not is_file(path):
        raise InputError(str(path), "", "expected a campaign store, found none")
    if not path.stat().st_size:  # SQLite takes it for a new one
        raise InputError(str(path), "", "expected a campaign store, found an empty file")
    with (
        Lock(path, taken=write),
        nullcontext(path) if write else readable(path) as present,
        connected(present, write=write) as connection,
    ):
        row = connection.execute("SELECT min(id) FROM campaign").fetchone()
        if row[0] is None:
            raise InputError(str(path), "", "expected a campaign in the store, found none")
        with _serving(path, connection, row[0]) as store:
            yield store


@contextmanager
def _serving(path: Path, connection: sqlite3.Connection, campaign: int) -> Iterator[Store]:
    """A store that is closed at the end; an error while closing does not hide one in the block."""
    store = Store(path, connection, campaign)
    try:
        yield store
    except BaseException:
        with suppress(MptuneError):  # the original error is more useful
            store.close()
        raise
    store.close()


def _record(row: Mapping[str, Any], subflows: Iterable[SubflowRecord]) -> Record:
    """The record of a trial from a row with the columns of `_RECORD`."""
    return Record(
        purpose=row["purpose"],
        pm=row["pm"],
        cc=row["cc"],
        buffer_bytes=row["buffer_bytes"],
        run=row["run"],
        seed=row["seed"],
        withdrawn=row["withdrawn"],
        throughput_mbps=row["throughput_mbps"],
        failed=_failure(row["failed_kind"], row["failed"]),
        subflows=tuple(subflows),
        omega=row["omega"],
        round=row["round"],
        duration_s=None if row["duration_ns"] is None else row["duration_ns"] / 1e9,
        took_s=round(row["finished"] - row["started"], 3) if own_clock(row["testbed"]) else None,
        completion_s=None if row["completion_ns"] is None else row["completion_ns"] / 1e9,
        p5_mbps=row["p5_mbps"],
        repeated=row["repeated"],
        settings=msgspec.json.decode(row["settings"]),
    )


def _failure(kind: FailureKind | None, reason: str) -> Failure | None:
    return None if kind is None else Failure(kind, reason)


def _unpacked(packed: bytes) -> Observation:
    """An observation; version 0.1 kept only the reason for a failure."""
    content = msgspec.msgpack.decode(packed)
    failed = content.get("failed")
    if isinstance(failed, str):
        content["failed"] = {"kind": schema.failure_kind(failed), "reason": failed}
    return msgspec.convert(content, Observation)
