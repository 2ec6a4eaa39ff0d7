"""The run directory: one campaign, its results written down whole or not at all.

A campaign that measures has its store there from the beginning, and results when it is complete. Without a
store everything is written into a hidden sibling, which is renamed at the end. What goes into the files
is the caller's; the two tables of observations are written here.
"""

import csv
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mptune import __version__
from mptune.campaign.records import Record
from mptune.errors import InputError

#: The file that tells a run directory from any other, and the word in it that does.
CONFIG = "config.json"
_KIND = "mptune run"

#: The campaign store in a run directory, which is there from the first trial on.
STORE = "campaign.sqlite"

#: Prefix of results that are not complete.
_UNPUBLISHED = ".new-"

_LIBRARIES = ("numpy", "scipy", "statsmodels", "altair")


def default_directory(topology_name: str, now: datetime) -> Path:
    """Where results go unless the user says otherwise: `runs/<topology>-<time>`."""
    return Path("runs") / f"{topology_name}-{now:%Y%m%d-%H%M%S}"


def check_writable(path: Path, *, force: bool, where: str = "--out") -> None:
    """Refuse a directory that could not be written at the end, before anything is measured.

    Raises
    ------
    InputError : it holds something else; it holds a run and `force` is not set; it cannot be created.
    """
    if path.is_dir() and any(path.iterdir()):
        if is_unfinished(path):
            if not force:
                raise InputError(
                    where,
                    "",
                    f"expected a new directory, found an unfinished campaign in {path} "
                    "(mptune campaign resume goes on with it, --force replaces it)",
                )
        elif not _is_run(path):
            raise InputError(where, "", f"expected a new or empty directory, found other files in {path}")
        elif not force:
            raise InputError(
                where, "", f"expected a new directory, found an earlier run in {path} (see --force)"
            )
    elif path.exists() and not path.is_dir():
        raise InputError(where, "", f"expected a directory, found the file {path}")
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError(where, "", f"expected a place to write to, but {existing} is none")


@contextmanager
def run_directory(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Give a directory to write into, which becomes `path` at the end of the block.

    Raises
    ------
    InputError : as `check_writable`.
    """
    check_writable(path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    content, earlier = work / "new", work / "earlier"
    try:
        content.mkdir()
        yield content
        if path.exists():
            path.rename(earlier)
        content.rename(path)
    finally:
        if earlier.exists() and not path.exists():
            earlier.rename(path)
        shutil.rmtree(work, ignore_errors=True)


def start_directory(path: Path, *, force: bool = False) -> None:
    """Make the directory of a campaign that fills it while it runs; an earlier one is replaced by force.

    Raises
    ------
    InputError : as `check_writable`.
    """
    check_writable(path, force=force)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and any(path.iterdir()):
        earlier = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        path.rename(earlier / "earlier")
        shutil.rmtree(earlier)
    path.mkdir(exist_ok=True)


@contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Give a directory to write results into; at the end of the block its files move into `path`.

    The file that makes `path` a finished run moves last. What an interrupted attempt left goes away.
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
    """Whether a directory holds a campaign that has no result yet."""
    return (path / STORE).is_file() and not (path / CONFIG).exists()


def write_config(
    directory: Path, options: Mapping[str, Any], topology: Mapping[str, Any], now: datetime
) -> None:
    """Write what was asked for, on what, with which software, and when: `config.json`.

    The only file of a run that holds a time: all others are the same for the same seed.
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
    """Write a document as indented JSON. NaN and infinity are refused: they are not JSON."""
    path.write_text(
        json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def write_observations(directory: Path, records: Sequence[Record]) -> None:
    """Write `observations.csv`, one row per trial, and `subflows.csv`, one row per trial and subflow.

    Throughputs in Mbit/s, buffers in bytes, RTTs in ms. An empty field means that there is no value; a
    failed trial has no throughput and its reason in `failed`.
    """
    key = ("purpose", "pm", "cc", "buffer_bytes", "run", "seed", "withdrawn")
    trial_columns = (*key, "throughput_mbps", "omega", "failed")
    subflow_columns = ("path", "active", "throughput_mbps", "rtt_ms", "retransmitted")
    _write_csv(
        directory / "observations.csv", trial_columns, (_fields(one, trial_columns) for one in records)
    )
    _write_csv(
        directory / "subflows.csv",
        (*key, *subflow_columns),
        (_fields(one, key) + _fields(sub, subflow_columns) for one in records for sub in one.subflows),
    )


def _fields(thing: object, names: Iterable[str]) -> list[object]:
    """Attributes by name, as a row of a CSV file (None becomes an empty field)."""
    return [getattr(thing, name) for name in names]


def _write_csv(path: Path, header: Sequence[str], table: Iterable[Sequence[object]]) -> None:
    """Write one CSV file; floats keep all their digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(table)


def _is_run(path: Path) -> bool:
    """Whether a directory holds a run of ours."""
    try:
        return bool(json.loads((path / CONFIG).read_text(encoding="utf-8"))["kind"] == _KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False
