"""Runs of a directory as they are now: finished, at work, left unfinished, damaged, or in a bundle.

A run that vanishes, or that somebody is writing, is no error: it is told as it is, in one line.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mptune._text import pace
from mptune.bundle.reading import NoBundleError, is_bundle, opened
from mptune.errors import InputError, MptuneError
from mptune.files import is_file, name_of, reason
from mptune.result.in_short import InShort, read_in_short
from mptune.store import Progress, open_store
from mptune.store.directory import CONFIG, RESULT, STORE, is_run, is_unfinished, working_in

#: Folders below the directory in which runs are looked for, and entries that are looked at.
_DEPTH, _ENTRIES = 2, 5_000
#: Trials from whose ends the pace follows.
_LATEST = 200

#: Share of the time that is spent on a store, which trials are written into meanwhile, where a look takes
#: longer than this, seconds: with a million trials some do.
_SHARE, _QUICK_S = 0.05, 0.2

#: Ending of bundles' names, and the expected form in errors.
_BUNDLE = ".zip"
_EXPECTED = "expected a run, a bundle, or a directory with some in it"

#: Stamps that tell one state of a file from another.
_Signature = tuple[tuple[int, int, int] | None, ...]


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign without a result, as far as it is.

    Attributes
    ----------
    process : number of the process that works in it; None if it was interrupted.
    name : of the campaign or the network.
    created : as ISO 8601.
    phases : those that have begun.
    failures : reasons with their counts, most frequent first.
    pace : of the last trials, in words; empty before the second one.
    last : end of the last trial, seconds since 1970; None before the first one.
    """

    process: int | None
    name: str
    created: str
    phases: tuple[Progress, ...]
    failures: tuple[tuple[str, int], ...]
    pace: str
    last: float | None

    @property
    def quiet_s(self) -> float | None:
        """Seconds since the end of the last trial."""
        return None if self.last is None else max(0.0, time.time() - self.last)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory or a bundle.

    Attributes
    ----------
    name : its path below the directory that is looked at.
    short : of a finished one, its row.
    at_work : of an unfinished one, its progress.
    process : number of the process that works in it, if one does.
    trouble : why there is neither, in a line.
    """

    name: str
    path: Path
    short: InShort | None = None
    at_work: AtWork | None = None
    process: int | None = None
    trouble: str = ""

    @property
    def state(self) -> str:
        """It in a few words."""
        if self.trouble:
            return "cannot be read"
        if self.at_work is not None:
            return "interrupted" if self.process is None else f"running (process {self.process})"
        if is_bundle(self.path):
            return "finished, in a bundle"
        return "finished" if self.process is None else f"finished, process {self.process} works in it"


class Runs:
    """The runs of a directory, or a single one.

    Parameters
    ----------
    place : a run directory, a bundle, or a directory with some in it.

    Raises
    ------
    InputError : it is neither.
    """

    def __init__(self, place: Path) -> None:
        self.place, self.single = place, is_run(place) or is_file(place)
        self._known: dict[Path, tuple[_Signature, InShort | MptuneError]] = {}
        self._seen: dict[str, tuple[AtWork, float]] = {}
        if is_file(place):
            self._in_short(place)
            return
        try:
            next(place.iterdir(), None)
        except (OSError, ValueError) as error:
            raise InputError(str(place), "", f"{_EXPECTED}: {reason(error)}") from None
        if not self.names():
            raise InputError(str(place), "", f"{_EXPECTED}, found none")

    def names(self) -> dict[str, Path]:
        """Runs by their names, in alphabetical order: what may be asked for, and nothing else."""
        if self.single:
            return {name_of(self.place): self.place}
        left = [_ENTRIES]
        found = sorted(_found(self.place, "", _DEPTH, left))
        return {name: path for name, path in found if not is_bundle(path) or self._is_of_a_run(path)}

    def all(self) -> list[Run]:
        """All of them, those at work first, then the latest."""
        runs = [self.look(name, path) for name, path in self.names().items()]
        runs.sort(key=lambda run: "" if run.short is None else run.short.time, reverse=True)
        return sorted(runs, key=lambda run: (run.at_work is None, run.process is None, bool(run.trouble)))

    def look(self, name: str, path: Path) -> Run:
        """A run as it is now."""
        try:
            if is_bundle(path):
                return Run(name=name, path=path, short=self._in_short(path))
            process = working_in(path)
            if is_unfinished(path):
                at_work = self._at_work(name, path, process)
                return Run(name=name, path=path, at_work=at_work, process=process)
            return Run(name=name, path=path, short=self._in_short(path), process=process)
        except MptuneError as error:
            return Run(name=name, path=path, trouble=str(error))
        except OSError as error:  # it vanished while it was read
            return Run(name=name, path=path, trouble=f"{path}: {reason(error)}")

    def _at_work(self, name: str, path: Path, process: int | None) -> AtWork:
        """Progress as it is or, of a store that takes long to look at, as it was a while ago."""
        now = time.monotonic()
        seen, due = self._seen.get(name, (None, 0.0))
        if seen is None or seen.process != process or now >= due:
            seen = _at_work(path, process)
            took_s = time.monotonic() - now
            self._seen[name] = seen, now + (took_s / _SHARE if took_s > _QUICK_S else 0.0)
        return seen

    def _in_short(self, path: Path) -> InShort:
        """The row of a finished run as it was when it last changed; raises what is wrong with it."""
        now = signature(path)
        before, known = self._known.get(path, (None, None))
        if known is None or before != now:
            known = _of_bundle(path) if is_bundle(path) else read_in_short(path)
            self._known[path] = now, known
        if isinstance(known, MptuneError):
            raise known.with_traceback(None)  # it is raised at every look
        return known

    def _is_of_a_run(self, bundle: Path) -> bool:
        """True of a bundle, a damaged one too, and not of zip files that have nothing to do with mptune."""
        try:
            self._in_short(bundle)
        except NoBundleError:
            return False
        except (MptuneError, OSError):
            return True
        return True


def _of_bundle(path: Path) -> InShort | MptuneError:
    """The row of the run in a bundle, or what is wrong with it: no more than its documents is unpacked."""
    try:
        with opened([path], only=(CONFIG, RESULT)) as (directory,):
            return read_in_short(directory)
    except MptuneError as error:
        return error


def signature(path: Path) -> _Signature:
    """Stamps of a finished run's files; they change whenever the run does."""
    if is_bundle(path):
        return (_stamp(path),)
    return tuple(_stamp(path / name) for name in (CONFIG, RESULT, STORE))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _found(place: Path, above: str, depth: int, left: list[int]) -> Iterator[tuple[str, Path]]:
    """Runs and zip files below a directory, not below each other, and nothing that is hidden."""
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return
    for entry in entries:
        left[0] -= 1
        if left[0] < 0:
            return
        if entry.name.startswith("."):
            continue
        if is_bundle(entry) and entry.suffix.lower() == _BUNDLE:
            yield f"{above}{entry.name}", entry
        elif not entry.is_dir():
            continue
        elif is_run(entry):
            yield f"{above}{entry.name}", entry
        elif depth > 1 and not entry.is_symlink():
            yield from _found(entry, f"{above}{entry.name}/", depth - 1, left)


def _at_work(path: Path, process: int | None) -> AtWork:
    with open_store(path / STORE, write=False) as store:
        campaign = store.campaign()
        latest = store.rows(f"SELECT finished FROM trial ORDER BY id DESC LIMIT {_LATEST}")
        phases, failures = store.progress(), store.failures()
    ends = [float(row["finished"]) for row in latest]
    took_s = max(ends) - min(ends) if len(ends) > 1 else 0.0
    return AtWork(
        process=process,
        name=campaign.name,
        created=campaign.created,
        phases=tuple(phases),
        failures=tuple(failures),
        pace=pace((len(ends) - 1) / took_s, "trials") if took_s > 0 else "",
        last=max(ends, default=None),
    )
