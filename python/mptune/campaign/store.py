"""The campaign store: one SQLite file that has every finished trial, whatever happens to the process.

Trials are written as they end, many to a transaction, by one thread; what is committed survives a killed
process and, because every commit reaches the disk, a power failure. A trial that was running then is
simply not there and is run again. The tables are in `mptune.campaign.schema`; this module decides nothing
and runs nothing (see `mptune.campaign.bench`).
"""

import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from mptune.campaign import schema
from mptune.campaign.locking import Lock
from mptune.campaign.records import PlannedTrial, Record, SubflowRecord
from mptune.errors import InputError, MptuneError
from mptune.testbeds import Observation, Trial
from mptune.topology import Topology

#: Longest time a finished trial waits for its commit, seconds, and most trials in one commit.
_COMMIT_S = 0.2
_COMMIT_TRIALS = 512

#: Bytes of a trial's key: no two of 2^64 trials meet by chance.
_KEY_BYTES = 16

#: zlib's fastest level: the series shrink to a third, and better ones cost more than simulating.
_LEVEL = 1

#: Fields of a trial that have columns of their own or stand for the topology.
_COLUMNS = frozenset({"topology", "pm", "cc", "buffer_bytes", "seed"})

_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Observation)


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked for the trials: a name, what was asked (JSON types), and with what software."""

    name: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    created: str = ""
    uuid: str = ""


class Progress(NamedTuple):
    """How far one phase of a campaign is."""

    purpose: str
    round: int
    planned: int
    done: int
    failed: int


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
        # Two locks, so that no trial waits for the disk: of what is pending, and of the connection.
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
        """Digest of everything that makes a trial what it is.

        Fields at their default are left out, so that a later version with more fields still knows the
        trials of an earlier one.
        """
        parts = [testbed, planned.purpose, planned.round, planned.run, planned.withdrawn]
        text = json.dumps([*parts, _settings(planned.trial, frozenset({"topology"}))]).encode()
        return blake2b(self._topology(planned.trial.topology) + text, digest_size=_KEY_BYTES).digest()

    def _topology(self, topology: Topology) -> bytes:
        """Digest of a topology; computed once per object, which is kept so that its id stays its own."""
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

    def expect(self, purpose: str, round_: int, planned: int) -> None:
        """Note how many trials a phase has."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO phase VALUES (?, ?, ?, ?)", (self._campaign, purpose, round_, planned)
            )

    def finish(
        self,
        key: bytes,
        planned: PlannedTrial,
        observation: Observation,
        record: Record,
        *,
        testbed: str,
        started: float,
    ) -> None:
        """Hand over a finished trial; it is on the disk after the next commit (see `flush`).

        Raises
        ------
        MptuneError : an earlier commit failed, for example because the disk is full.
        """
        packed = zlib.compress(_PACK.encode(observation), _LEVEL)
        finished = _Finished(planned, testbed, started, time.time(), observation, packed, record)
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
        """Commit every `_COMMIT_S`, or sooner when much is pending."""
        while not self._closing:
            self._wake.wait(_COMMIT_S)
            self._wake.clear()
            self._commit()

    def _commit(self) -> None:
        """Write what is pending in one transaction; what fails stays pending and the error is kept."""
        with self._database:
            with self._lock:
                batch = dict(self._pending)
                if not batch or self._error is not None:
                    return
            try:
                with self._connection:
                    self._connection.execute("BEGIN IMMEDIATE")
                    for key, finished in batch.items():
                        self._insert(key, finished)
            except sqlite3.Error as error:
                self._error = _explained(self.path, error)
                return
            with self._lock:
                for key in batch:
                    del self._pending[key]

    def _insert(self, key: bytes, one: _Finished) -> None:
        trial, observation, record = one.planned.trial, one.observation, one.record
        row = (
            key,
            self._campaign,
            self._topologies[id(trial.topology)][1],
            one.testbed,
            record.purpose,
            one.planned.round,
            record.run,
            record.pm,
            record.cc,
            record.buffer_bytes,
            record.seed,
            record.withdrawn,
            json.dumps(_settings(trial, _COLUMNS)),
            "done" if record.failed is None else "failed",
            record.failed,
            one.started,
            one.finished,
            observation.duration_ns,
            observation.completion_ns,
            record.throughput_mbps,
            record.omega,
            one.packed,
        )
        marks = ", ".join("?" * len(row))
        cursor = self._connection.execute(
            "INSERT OR REPLACE INTO trial (key, campaign, topology, testbed, purpose, round, run, pm, cc, "
            "buffer_bytes, seed, withdrawn, settings, status, failed, started, finished, duration_ns, "
            f"completion_ns, throughput_mbps, omega, observation) VALUES ({marks})",
            row,
        )
        number = cursor.lastrowid
        self._connection.executemany(
            "INSERT INTO subflow VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (number, i, s.path, s.active, s.throughput_mbps, s.rtt_ms, s.retransmitted)
                for i, s in enumerate(record.subflows)
            ],
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
                raise _explained(self.path, error) from None

    # ---- reading ------------------------------------------------------------------------------

    def finished(self) -> frozenset[bytes]:
        """Keys of all trials that need not be run again."""
        return frozenset(key for (key,) in self._read("SELECT key FROM trial WHERE status <> 'running'"))

    def records(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """What the campaign keeps of finished trials, by key."""
        wanted = frozenset(keys)
        subflows: dict[int, list[SubflowRecord]] = {}
        for trial, path, active, throughput, rtt, retransmitted in self._read(
            "SELECT trial, path, active, throughput_mbps, rtt_ms, retransmitted FROM subflow "
            "ORDER BY trial, number"
        ):
            one = SubflowRecord(
                path=path,
                active=bool(active),
                throughput_mbps=throughput,
                rtt_ms=rtt,
                retransmitted=retransmitted,
            )
            subflows.setdefault(trial, []).append(one)
        rows = self._read(
            "SELECT id, key, purpose, pm, cc, buffer_bytes, run, seed, withdrawn, throughput_mbps, failed, "
            "omega FROM trial WHERE status <> 'running'"
        )
        return {
            key: Record(
                purpose=purpose,
                pm=pm,
                cc=cc,
                buffer_bytes=size,
                run=run,
                seed=seed,
                withdrawn=withdrawn,
                throughput_mbps=throughput,
                failed=failed,
                subflows=tuple(subflows.get(number, ())),
                omega=omega,
            )
            for number, key, purpose, pm, cc, size, run, seed, withdrawn, throughput, failed, omega in rows
            if key in wanted
        }

    def observation(self, key: bytes) -> Observation:
        """Everything that was observed in one finished trial; KeyError if there is none."""
        for (packed,) in self._read("SELECT observation FROM trial WHERE key = ?", (key,)):
            return _UNPACK.decode(zlib.decompress(packed))
        raise KeyError(key)

    def progress(self) -> list[Progress]:
        """How far each phase is, in the order they were planned."""
        return [
            Progress(*row)
            for row in self._read(
                "SELECT p.purpose, p.round, p.planned, count(t.id), coalesce(sum(t.status = 'failed'), 0) "
                "FROM phase p LEFT JOIN trial t ON t.campaign = p.campaign AND t.purpose = p.purpose AND "
                "t.round = p.round AND t.status <> 'running' GROUP BY p.campaign, p.purpose, p.round "
                "ORDER BY min(coalesce(t.id, 9e18))"
            )
        ]

    def failures(self) -> list[tuple[str, int]]:
        """Reasons of failed trials with their number, the most frequent first."""
        query = (
            "SELECT failed, count(*) FROM trial WHERE status = 'failed' GROUP BY failed ORDER BY 2 DESC, 1"
        )
        return [(reason, number) for reason, number in self._read(query)]

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Rows of a query of our own, by column."""
        with self._database:
            cursor = self._connection.execute(query)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def merge(self, other: Path) -> int:
        """Add the trials of another store that this one does not have; return how many.

        Raises
        ------
        InputError : there is no store, or it is this one.
        MptuneError : a file cannot be read or written.
        """
        if not other.is_file():
            raise InputError(str(other), "", "expected a campaign store, found none")
        if other.samefile(self.path):
            raise InputError(str(other), "", "expected another store than the one to import into")
        with _connected(other, write=False):
            pass  # it is a store, of the present version
        self.flush()
        before = len(self.finished())
        with self._database:
            try:
                self._connection.execute("ATTACH DATABASE ? AS other", (_address(other, write=False),))
                try:
                    self._connection.executescript(schema.MERGE)
                finally:
                    self._connection.execute("DETACH DATABASE other")
            except sqlite3.Error as error:
                raise _explained(self.path, error) from None
        return len(self.finished()) - before

    def campaign(self) -> Campaign:
        """The campaign that this process writes."""
        ((name, settings, environment, created, uuid),) = self._read(
            "SELECT name, settings, environment, created, uuid FROM campaign WHERE id = ?", (self._campaign,)
        )
        return Campaign(
            name=name,
            settings=json.loads(settings),
            environment=json.loads(environment),
            created=created,
            uuid=uuid,
        )

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        with self._database:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise _explained(self.path, error) from None


@contextmanager
def create(path: Path, campaign: Campaign) -> Iterator[Store]:
    """A new store for a campaign.

    Raises
    ------
    InputError : the file exists, or cannot be made.
    MptuneError : the disk is full; another process has it open.
    """
    if path.exists():
        raise InputError(str(path), "", "expected a new file, found one (resume it, or choose another)")
    created = campaign.created or datetime.now().astimezone().isoformat(timespec="seconds")
    with Lock(path), _connected(path, write=True) as connection:
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
    """An existing store; for writing only one process may have it open.

    For reading it may lie on a medium that cannot be written.

    Raises
    ------
    InputError : there is none, or the file is something else.
    MptuneError : another process has it open for writing.
    """
    if not path.is_file():
        raise InputError(str(path), "", "expected a campaign store, found none")
    with Lock(path, taken=write), _connected(path, write=write) as connection:
        row = connection.execute("SELECT min(id) FROM campaign").fetchone()
        if row[0] is None:
            raise InputError(str(path), "", "expected a campaign in the store, found none")
        with _serving(path, connection, row[0]) as store:
            yield store


@contextmanager
def _serving(path: Path, connection: sqlite3.Connection, campaign: int) -> Iterator[Store]:
    """A store that is closed at the end; an error in the block is not hidden by one of closing."""
    store = Store(path, connection, campaign)
    try:
        yield store
    except BaseException:
        with suppress(MptuneError):  # the error under way says more
            store.close()
        raise
    store.close()


@contextmanager
def _connected(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(
            _address(path, write=write), uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        try:
            schema.prepare(connection, str(path))
            if write:
                # A commit is on the disk before it is reported; readers never wait for the writer.
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
            yield connection
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise _explained(path, error) from None


def _address(path: Path, *, write: bool) -> str:
    """The file as SQLite opens it: to write what it can, or as it lies on a medium that cannot be written.

    Even a reader shares an index of the journal with the others, in a file that it makes if there is none;
    where it cannot, a store without a journal is opened as one that nobody changes.
    """
    mode = "rwc" if write else "rw"
    if not write and not (os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)):
        journal = path.with_name(path.name + "-wal")
        mode = "ro" if journal.exists() else "ro&immutable=1"
    return f"{path.absolute().as_uri()}?mode={mode}"


def _explained(path: Path, error: sqlite3.Error) -> MptuneError:
    """What SQLite says as a line that tells what to do."""
    free = os.statvfs(path.parent).f_bavail * os.statvfs(path.parent).f_frsize
    if "full" in str(error):
        return MptuneError(
            f"{path}: the disk is full ({free // 2**20} MiB free); everything finished before is kept: make "
            "room and resume"
        )
    if "not a database" in str(error):
        return InputError(str(path), "", "expected a campaign store, found a file that is none")
    return MptuneError(f"{path}: {error}")


def _settings(trial: Trial, leave_out: frozenset[str]) -> dict[str, Any]:
    """Fields of a trial that differ from their defaults, as JSON types."""
    return {
        name: msgspec.to_builtins(value)
        for name, default in _DEFAULTS
        if name not in leave_out and (value := getattr(trial, name)) != default
    }


_DEFAULTS = [(field.name, field.default) for field in msgspec.structs.fields(Trial)]
