"""The run directory: one campaign, with complete results or none.

A campaign that measures has its store there from the beginning, and its results when it is complete. Without
a store everything is written into a hidden directory next to it, which is renamed at the end. The caller
provides the contents of the files; only the two tables of observations are written here.
"""

import csv
import json
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mptune import __version__, files
from mptune._text import file_name, quoted
from mptune.errors import InputError
from mptune.store._locking import SUFFIX, Lock, holder
from mptune.trial import Record
from mptune.trial.objectives import COLUMNS, values
from mptune.trial.records import setting, stack_of

#: The file that identifies a run directory, and the word in it.
CONFIG = "config.json"
_KIND = "mptune run"

#: The campaign store in a run directory, which exists from the first trial on.
STORE = "campaign.sqlite"

#: The answer in a run directory, if there was a question.
RESULT = "result.json"

#: Table of the configurations that an answer by an objective was compared with.
COMPARED = "compared.csv"

#: Prefix of incomplete results.
_UNPUBLISHED = ".new-"

#: Settings of a trial that always have a column in the tables of observations.
_SETTINGS = ("initial_path", "scheduler", "transfer_bytes", "accounting")

#: Settings without a column here: length and script of a trial, which follow from its purpose; the mode of
#: its buffers, which comes last.
_NO_COLUMN = {"duration_ns", "deadline_ns", "script", "buffer_mode"}

#: The last columns of both tables, in the order of the versions that added them.
_LAST = ("stack", "buffer_mode")

_LIBRARIES = ("numpy", "scipy", "statsmodels", "altair")


def no_run(directory: Path, where: str = "") -> InputError:
    """That it is no run directory, and the last one that `default_directory` has named after it."""
    expected = f"expected a run directory, found no {CONFIG} in it"
    later = [path for path in directory.parent.glob(f"{directory.name}-*") if (path / CONFIG).is_file()]
    if later and not directory.exists():
        expected += f"; the last run of this name is {file_name(max(later).name, 'another')}"
    return InputError(where or str(directory), "", expected)


def no_end(directory: Path, where: str = "") -> InputError:
    """That its run is not complete, and the command that continues it."""
    expected = f"expected a complete run, found one to continue (mptune campaign resume {directory})"
    return InputError(where or str(directory), "", expected)


def default_directory(name: str, now: datetime) -> Path:
    """Default directory of results: `runs/<name>-<time>`, whatever the name of the topology or campaign."""
    return Path("runs") / f"{file_name(name, 'run')}-{now:%Y%m%d-%H%M%S}"


def check_writable(path: Path, *, force: bool, where: str = "--out") -> None:
    """Before anything is measured, refuse a directory that could not be written at the end.

    Raises
    ------
    InputError : it has other content, it has a run and `force` is not set, or it cannot be created.
    """
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            expected = f"expected a directory, found {path}, a symbolic link that leads nowhere"
            raise InputError(where, "", expected) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a possible file name"
        expected = f"expected the name of a directory, found {quoted(str(path))}: {reason}"
        raise InputError(where, "", expected) from None
    if path.is_dir() and any(entry.name != STORE + SUFFIX for entry in path.iterdir()):
        if is_unfinished(path):
            if not force:
                raise InputError(
                    where,
                    "",
                    f"expected a new directory, found an unfinished campaign in {path} "
                    "(mptune campaign resume continues it, --force replaces it)",
                )
        elif not _is_run(path):
            raise InputError(where, "", f"expected a new or empty directory, found other files in {path}")
        elif not force:
            raise InputError(
                where, "", f"expected a new directory, found an earlier run in {path} (see --force)"
            )
    elif path.exists() and not path.is_dir():
        raise InputError(where, "", f"expected a directory, found the file {path}")
    try:
        existing = next(parent for parent in path.absolute().parents if parent.exists())
    except FileNotFoundError:
        raise InputError(where, "", "expected a working directory, but it is gone") from None
    try:
        # Permissions are not enough to know: /proc, a full or read-only file system, root.
        Path(tempfile.mkdtemp(dir=existing, prefix=".mptune-")).rmdir()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            where, "", f"expected a writable place, but cannot create a directory in {existing}: {reason}"
        ) from None


@contextmanager
def run_directory(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Give a directory to write into, which becomes `path` at the end of the block.

    Raises
    ------
    InputError : as `check_writable`.
    """
    check_writable(path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=path.parent, prefix=".mptune-"))
    content, earlier = work / "new", work / "earlier"
    with ExitStack() as held:
        held.callback(shutil.rmtree, work, ignore_errors=True)
        if path.exists():
            held.enter_context(Lock(path / STORE))
            check_writable(path, force=force)
        there = path.exists()
        content.mkdir()
        yield content
        if path.exists() and not there:  # another process was faster
            held.enter_context(Lock(path / STORE))
            check_writable(path, force=force)
        try:
            if path.exists():
                path.rename(earlier)
            content.rename(path)
        finally:
            if earlier.exists() and not path.exists():
                earlier.rename(path)


@contextmanager
def started(path: Path, *, force: bool = False) -> Iterator[None]:
    """Hold the directory of a campaign that fills it while it runs; `force` replaces an earlier one.

    The directory and its lock stay where they are: there is no moment at which another process could take it.

    Raises
    ------
    InputError : as `check_writable`.
    MptuneError : another process is working in it.
    """
    check_writable(path, force=force)
    path.mkdir(parents=True, exist_ok=True)
    with Lock(path / STORE):
        check_writable(path, force=force)
        earlier = [entry for entry in path.iterdir() if entry.name != STORE + SUFFIX]
        if earlier:
            away = Path(tempfile.mkdtemp(dir=path.parent, prefix=".mptune-"))
            # What marks a run goes first: half of one is none.
            for route in sorted(earlier, key=lambda name: name.name != CONFIG):
                route.rename(away / route.name)
            shutil.rmtree(away)
        yield


@contextmanager
def written_into(path: Path) -> Iterator[None]:
    """Hold a directory while files are added to it: of a run directory the lock, of others nothing.

    Raises
    ------
    MptuneError : another process is working in it.
    """
    with Lock(path / STORE, taken=(path / CONFIG).exists() or (path / STORE).exists()):
        yield


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Give a directory to write results into; at the end of the block its files move into `path`.

    The file that marks `path` as a finished run moves last. Leftovers of an interrupted attempt are removed.
    """
    for left in path.glob(f"{_UNPUBLISHED}*"):
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(dir=path, prefix=_UNPUBLISHED))
    try:
        yield work
        for file in sorted(work.iterdir(), key=lambda file: file.name == CONFIG):
            file.replace(path / file.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def is_unfinished(path: Path) -> bool:
    """True if a directory has a campaign without a result."""
    return files.is_file(path / STORE) and not files.is_file(path / CONFIG)


def is_finished(path: Path) -> bool:
    """True if a directory has a campaign with its result."""
    return files.is_file(path / STORE) and files.is_file(path / CONFIG)


def is_run(path: Path) -> bool:
    """True if a directory has a run of mptune, be it finished, unfinished or damaged."""
    return (
        files.is_file(path / STORE)
        or (files.is_file(path / CONFIG) and files.is_file(path / RESULT))
        or _is_run(path)
    )


def working_in(path: Path) -> int | None:
    """Number of the process that is at work in a run directory; None without one."""
    return holder(path / STORE)


def write_config(
    directory: Path, options: Mapping[str, Any], topology: Mapping[str, Any], now: datetime
) -> None:
    """Write `config.json`: options, topology, software versions and time.

    It is the only file of a run with a time: all others are the same for the same seed.
    """
    write_json(
        directory / CONFIG,
        {
            "kind": _KIND,
            "time": now.isoformat(timespec="seconds"),
            "versions": {
                "mptune": __version__,
                "python": platform.python_version(),
                **{library: version(library) for library in _LIBRARIES},
            },
            "platform": platform.platform(),
            "options": options,
            "topology": topology,
        },
    )


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as indented JSON. NaN and infinity are refused, as they are not JSON."""
    files.write(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_observations(directory: Path, records: Sequence[Record]) -> None:
    """Write `observations.csv`, one row per trial, and `subflows.csv`, one row per trial and subflow.

    Throughputs in Mbit/s, buffers in bytes, RTTs and RTOs in ms, completion times in s. An empty field means
    no value; a failed trial has no throughput, but a reason in `failed` and a kind in `failed_kind`. The last
    columns are the trial's settings: those of `_SETTINGS`, any others that were set in any trial, and those
    of `_LAST`; behind them, where any trial has messages or requests, `mptune.trial.objectives.COLUMNS`.
    """
    key = ("purpose", "pm", "cc", "buffer_bytes", "run", "seed", "withdrawn")
    outcome = ("throughput_mbps", "omega", "failed")
    later = ("failed_kind", "round", "completion_s")
    subflow_columns = ("path", "active", "throughput_mbps", "rtt_ms", "retransmitted")
    windows = ("with_mbps", "without_mbps", "min_rtt_ms", "rto_ms")
    settings = _settings(records)
    taken = [values(record) for record in records]
    known = [name for name in COLUMNS if any(name in each for each in taken)]
    _write_csv(
        directory / "observations.csv",
        (*key, *outcome, *later, *settings, *_LAST, *known),
        (
            [
                *_fields(record, (*key, *outcome, *later)),
                *_texts(record, settings),
                *_last(record),
                *map(each.get, known),
            ]
            for record, each in zip(records, taken, strict=True)
        ),
    )
    _write_csv(
        directory / "subflows.csv",
        (*key, *subflow_columns, "round", *_SETTINGS, *_LAST, *windows),
        (
            [
                *_fields(record, key),
                *_fields(sub, subflow_columns),
                record.round,
                *_texts(record, _SETTINGS),
                *_last(record),
                *_fields(sub, windows),
            ]
            for record in records
            for sub in record.subflows
        ),
    )


def _last(record: Record) -> list[object]:
    """Cells of `_LAST`."""
    return [stack_of(record.settings), setting(record, "buffer_mode")]


def _settings(records: Iterable[Record]) -> list[str]:
    """Settings that have a column."""
    others = {name for record in records for name in record.settings} - _NO_COLUMN
    return [*_SETTINGS, *sorted(others - set(_SETTINGS))]


def _texts(record: Record, names: Iterable[str]) -> list[object]:
    """Settings of a trial."""
    return [_text(setting(record, name)) for name in names]


def _text(value: object) -> object:
    """A setting as a cell: items separated by spaces, labels with values as label=value."""
    if isinstance(value, Mapping):
        value = [f"{label}={entry}" for label, entry in value.items()]
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _fields(thing: object, names: Iterable[str]) -> list[object]:
    """Attributes by name, as a row of a CSV file (None becomes an empty field)."""
    return [getattr(thing, name) for name in names]


def _write_csv(path: Path, header: Sequence[str], table: Iterable[Sequence[object]]) -> None:
    """Write one CSV file; floats keep all their digits."""
    with files.writing_table(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(table)


def _is_run(path: Path) -> bool:
    """True if a directory has a run of mptune."""
    try:
        return bool(files.read_json(path / CONFIG)["kind"] == _KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False
