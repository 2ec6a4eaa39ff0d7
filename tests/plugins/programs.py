"""Sees every program that a test starts, and fails a test that started one it has not declared.

Declared is what the test's marks name, `@pytest.mark.needs("nft")`, and what it or its fixtures `require`
(tests/plugins/needs.py). What a fixture starts counts for every test that uses it. Not to be declared
is what is `GRANTED` below, and what belongs to the project: this interpreter, what is below the
repository, and what a test made in a temporary directory.

There are two ways to see one: an audit hook for what this process starts, and a directory that comes first on
the PATH, with a recorder for every program there, which notes the name and becomes the program. What another
program starts by a path of its own is not seen (sudo, sshd and systemd reset the PATH): that program is.
"""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.plugins import needs

#: The README's list, what a C compiler and its binutils consist of, and the shell that make takes as given.
PROMISED = (
    *("python3", "python", "cargo", "rustc", "rustdoc", "rustfmt", "rustup", "make", "git", "sh", "bash"),
    *("cc", "gcc", "ar", "as", "ld", "objcopy", "readelf"),
)
#: What every Debian has, be it as small as it may, and tests use, or a python3 that is a script (pyenv's): of
#: coreutils, diffutils, findutils, grep, sed and util-linux.
BASE = (
    *("basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "diff", "dirname", "echo", "env"),
    *("expr", "false"),
    *("find", "grep", "head", "id", "ln", "ls", "md5sum", "mkdir", "mkfifo", "mktemp", "mv", "nice", "nproc"),
    *(
        "pivot_root",
        "readlink",
        "rm",
        "rmdir",
        "sed",
        "seq",
        "setsid",
        "sha256sum",
        "sleep",
        "sort",
        "stat",
        "tail",
        "tee",
    ),
    *("test", "touch", "tr", "true", "uname", "wc", "xargs", "yes"),
)
GRANTED = frozenset((*PROMISED, *BASE))


class Undeclared(pytest.fail.Exception):  # type: ignore[name-defined,misc] # set by a decorator
    """A test started a program that it has not declared."""

    __module__ = "builtins"  # pytest prints its name in front of the reason


class Recorders:
    """The directory, and the file to which names are added, one a line, when a program starts."""

    def __init__(self) -> None:
        self._paths = os.environ["PATH"], needs.ADMINISTRATION
        # Programs of other users start some too.
        self._folder = Path(tempfile.mkdtemp(prefix="mptune-recorders-"))
        self._folder.chmod(0o755)
        self._log = self._folder / ".started"
        self._log.touch()
        self._log.chmod(0o666)
        self._descriptor = os.open(self._log, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        for name, real in _others(needs.ADMINISTRATION):
            self._record(name, real)
        os.environ["PATH"], needs.ADMINISTRATION = (
            f"{self._folder}{os.pathsep}{path}" for path in self._paths
        )

    def _record(self, name: str, real: str) -> None:
        recorder = self._folder / name
        note = f"echo {shlex.quote(name)} 2>/dev/null >>{shlex.quote(str(self._log))}"
        recorder.write_text(f'#!/bin/sh\n{note}\nexec {shlex.quote(real)} "$@"\n')
        recorder.chmod(0o755)

    def note(self, path: str) -> None:
        """Note a program that this process starts."""
        if not path.startswith(f"{self._folder}/") and not _own(path):  # a recorder does so itself
            os.write(self._descriptor, f"{Path(path).name}\n".encode(errors="replace"))

    @property
    def number(self) -> int:
        """A place in the file: its end."""
        return os.fstat(self._descriptor).st_size

    def since(self, place: int) -> set[str]:
        """Names behind a place."""
        text = os.pread(self._descriptor, self.number - place, place)
        return set(text.decode(errors="replace").split("\n")) - {""}

    def close(self) -> None:
        """Leave nothing behind."""
        os.environ["PATH"], needs.ADMINISTRATION = self._paths
        os.close(self._descriptor)
        shutil.rmtree(self._folder)


def _others(path: str) -> Iterator[tuple[str, str]]:
    """Programs on a PATH that have to be declared: name and path."""
    granted: set[str] = set(GRANTED)
    for folder in path.split(os.pathsep):
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name not in granted and os.access(entry.path, os.X_OK) and entry.is_file():
                    granted.add(entry.name)
                    if not _own(entry.path):
                        yield entry.name, entry.path


def _own(path: str) -> bool:
    """A program belongs to the project, or was made by a test."""
    real = Path(path).resolve()
    mine = (needs.ROOT, Path(sys.prefix), Path(tempfile.gettempdir()).resolve())
    return real == Path(sys.executable).resolve() or any(real.is_relative_to(folder) for folder in mine)


#: Those of the tests that are running.
_active: Recorders | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a program that is not looked for on the PATH. A hook cannot be taken back: it is cheap."""
    if _active is None or event not in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        return
    directory = arguments[2] if event == "subprocess.Popen" else None
    path = os.path.join(os.fsdecode(directory or "."), os.fsdecode(arguments[0]))  # noqa: PTH118 - may be neither
    if os.sep in os.fsdecode(arguments[0]) and os.access(path, os.X_OK):
        _active.note(path)


class Seen:
    """Programs started, and rights granted, from a moment on."""

    def __init__(self, recorders: Recorders) -> None:
        self._recorders, self._start, self._grants = recorders, recorders.number, len(needs.granted)

    def started(self) -> set[str]:
        return self._recorders.since(self._start)

    def granted(self) -> set[str]:
        return set(needs.granted[self._grants :])


class _Plugin:
    """Of a process that runs tests."""

    def __init__(self) -> None:
        #: Fixture -> what it started and was granted when it was last made.
        self._made: dict[object, tuple[set[str], set[str]]] = {}
        self._item: Seen | None = None

    @property
    def recorders(self) -> Recorders:
        """Made by the first test: a process that only hands out tests needs none."""
        global _active
        if _active is None:
            _active = Recorders()
        return _active

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]):
        """Remember what a fixture starts: the next test that uses it finds it made."""
        seen = Seen(self.recorders)
        try:
            return (yield)
        finally:
            self._made[fixturedef] = seen.started(), seen.granted()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item):
        self._item = Seen(self.recorders)
        done = yield
        self._check(item, self._of_fixtures(item))
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item):
        done = yield
        self._check(item, self._of_fixtures(item))
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item):
        """Fixtures that end now may be older than this test: what anybody declared is declared."""
        self._item = Seen(self.recorders)
        done = yield
        self._check(item, [(set(), set(needs.granted))])
        return done

    def _of_fixtures(self, item: pytest.Item) -> list[tuple[set[str], set[str]]]:
        # Also those that were asked for by name while the test runs: only the request knows them.
        used = getattr(item, "_request")._fixture_defs.values()  # noqa: B009
        return [self._made[fixture] for fixture in used if fixture in self._made]

    def _check(self, item: pytest.Item, fixtures: Iterable[tuple[set[str], set[str]]]) -> None:
        __tracebackhide__ = True
        assert self._item is not None
        started, granted = self._item.started(), self._item.granted()
        for more, by in fixtures:
            started, granted = started | more, granted | by
        declared = {name for need in granted for name in needs.NEEDS[need].may_start}
        if missing := sorted(started - declared - GRANTED):
            known = sorted({name for name, need in needs.NEEDS.items() if set(missing) & need.may_start})
            raise Undeclared(
                f"started {', '.join(missing)} without saying so: expected @pytest.mark.needs(...) "
                f"with {', '.join(known) or 'a name that tests/plugins/needs.py lacks'}",
                pytrace=False,
            )


def pytest_configure(config: pytest.Config) -> None:
    """Watch this process from now on."""
    sys.addaudithook(_audit)
    config.pluginmanager.register(_Plugin(), "programs-of-tests")


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    global _active
    if _active is not None:
        recorders, _active = _active, None
        recorders.close()
