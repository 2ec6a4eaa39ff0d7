"""Tests that measure in real time: a busy neighbour is no fault, and no second try corrects a wrong result.

`@pytest.mark.measures("how late the emulator is")` states what depends on the processors there, in one line;
without that line the tests do not start. Such a test waits until others leave the processors alone; all of
them together wait no longer than `PATIENCE_S`. If it fails although nobody else used them, it has failed.
If others did, or the machine woke up late (its host may have run something else: `tests.plugins.naps`), or if
it has found out itself that it was too late (`spoiled`), it is tried once more; and if
it is spoiled again, it is skipped as not measured, in CI too: the last lines name it. A test without the
mark fails whoever is busy; only its own `spoiled` skips it.

With CI set, a test that passes only at its second try fails if it needed one the last time as well: what is
unlucky twice in a row is no accident. Which needed one is kept in a file from run to run.
"""

import atexit
import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.plugins.naps import Naps
from tests.plugins.needs import ROOT, Lacking, Missing, Thing
from tests.plugins.programs import Undeclared

#: Others use this share of the processors, or more: the machine is busy.
BUSY = 0.1
#: And this machine, in naps with priority over programs, woke up late for this long, seconds: so is its host.
LATE_S = 0.3
#: How long a look lasts, and how long all tests together wait for quiet, seconds.
LOOK_S, PATIENCE_S = 0.3, 60.0
#: Where it is kept which tests needed a second try when they last ran.
KEPT = ROOT / "target/test-results/second-tries.json"

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Spoiled(pytest.fail.Exception):  # type: ignore[name-defined,misc] # set by a decorator
    """A measurement is no evidence: others used the processors."""

    __module__ = "builtins"  # pytest prints its name in front of the reason


def spoiled(detail: str) -> NoReturn:
    """End a test that has found out by itself that the machine was too busy for it; it is tried once more."""
    __tracebackhide__ = True
    raise Spoiled(detail, pytrace=False)


def _not_measured(detail: str) -> NoReturn:
    __tracebackhide__ = True
    raise Lacking("what is measured in real time", [Thing("a quiet machine", "elsewhere")], f": {detail}")


# Who uses the processors.


class Use(NamedTuple):
    """Processor time since the machine began, seconds: of all, and of the processes of this run of tests."""

    at_s: float
    all_s: float
    own_s: float


def others_since(before: Use) -> float:
    """Share of the processors that others have had since, the host of a virtual machine among them."""
    now = use()
    elapsed_s = now.at_s - before.at_s
    others_s = (now.all_s - before.all_s) - (now.own_s - before.own_s)
    return max(0.0, others_s) / elapsed_s / (os.cpu_count() or 1) if elapsed_s > 0 else 0.0


def use(first: int | None = None) -> Use:
    """Of now; own is what descends from `first`, by default the process that began this run of tests.

    The kernel's work for the network, outside of programs, counts for nobody; what a process has used that
    its parent has left behind counts as own only as long as it runs.
    """
    try:
        user, nice, system, _, _, _, _, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    except (OSError, ValueError):  # no Linux: nobody is seen
        return Use(time.monotonic(), 0.0, 0.0)
    return Use(time.monotonic(), (user + nice + system + steal) / _TICKS, _tree_s(first or _first()))


def late_since(before: Use) -> float:
    """Time that this machine has woken up late since, seconds; it naps from the first call on."""
    return _naps().late_since(before.at_s)


@cache
def _naps() -> Naps:
    naps = Naps()
    atexit.register(naps.close)
    return naps


def _disturbed(before: Use) -> str:
    """Disturbances of a measurement since, in words; empty if there were none."""
    others, late_s = others_since(before), late_since(before)
    if others >= BUSY:
        return f"others used {others:.0%} of the processors"
    return f"this machine woke up late for {late_s:.1f} s" if late_s >= LATE_S else ""


def _tree_s(first: int) -> float:
    """Processor time of a process, of all that descend from it now, and of what they have waited for."""
    times: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with suppress(OSError, ValueError):
                # Behind the name, which may contain anything: state, parent, ...; proc_pid_stat(5).
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
                times[int(directory.name)] = sum(map(int, fields[11:15]))
                children.setdefault(int(fields[1]), []).append(int(directory.name))
    ticks, waiting = 0, [first]
    while waiting:
        pid = waiting.pop()
        ticks += times.get(pid, 0)
        waiting += children.get(pid, ())
    return ticks / _TICKS


def _first() -> int:
    """The process that this run of tests descends from: its workers count as one."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


class Patience:
    """Waits for a quiet machine, as long as there is patience left."""

    def __init__(self) -> None:
        self.left_s = PATIENCE_S

    def wait(self) -> None:
        """Return once others use little, or patience is at its end."""
        while self.left_s > 0:
            began = time.monotonic()
            if look() < BUSY:
                break
            self.left_s -= time.monotonic() - began


def look() -> float:
    """Processors that others use now."""
    before = use()
    time.sleep(LOOK_S)  # noqa: TID251 - a share of the time takes a time
    return others_since(before)


# The tries.

#: What is missing is missing the next time too; a wrong result is wrong.
_again = pytest.mark.flaky(reruns=1, only_rerun=["^Spoiled: "])  # noqa: TID251 - the one place


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "measures(why): needs quiet processors, for this reason")
    config.pluginmanager.register(_Plugin(config.getoption("second_tries")), "tests-that-measure")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the file."""
    parser.addoption(
        "--second-tries",
        type=Path,
        default=KEPT,
        metavar="FILE",
        help="which tests needed a second try when they last ran",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow a second try to those that state why."""
    for item in items:
        mark = item.get_closest_marker("measures")
        if mark is not None:
            _why(item, mark)
            item.add_marker(_again)


def _measures(item: pytest.Item) -> bool:
    return item.get_closest_marker("measures") is not None


def _why(item: pytest.Item, mark: pytest.Mark) -> str:
    match mark.args:
        case (str(why),) if why.strip() and "\n" not in why and not mark.kwargs:
            return why
    raise pytest.UsageError(
        f"{item.nodeid}: measures: expected one line on what depends on the processors there"
    )


class _Plugin:
    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._patience = Patience()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item):
        """Wait, before any fixture: some measure too."""
        if _measures(item):
            _naps()
            self._patience.wait()
        with self._watched(item):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item):
        with self._watched(item):
            return (yield)

    @contextmanager
    def _watched(self, item: pytest.Item) -> Iterator[None]:
        """Separate failures from those while others used the processors; a second one of these is none."""
        __tracebackhide__ = True
        before = use() if _measures(item) else None
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            disturbed = "" if before is None else _disturbed(before)
            if isinstance(error, (Missing, Undeclared)) or not (isinstance(error, Spoiled) or disturbed):
                raise
            detail = f"{error}".partition("\n")[0] + (f" ({disturbed})" if disturbed else "")
            if before is None or getattr(item, "execution_count", 1) > 1:
                _not_measured(detail)
            raise Spoiled(detail) from error

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item):
        """Note why a test may be repeated, and refuse a second try that follows one in the last run."""
        report = yield
        mark = item.get_closest_marker("measures")
        if mark is not None:
            report.measures = mark.args[0]
            second = getattr(item, "execution_count", 1) > 1
            if report.when == "call" and report.passed:
                if second and "CI" in os.environ and item.nodeid in _read(self._kept):
                    report.outcome = "failed"
                    report.longrepr = "It passed only at its second try, as in the run before."
                _keep(self._kept, item.nodeid, second)
        return report


def _read(file: Path) -> list[str]:
    with suppress(OSError, ValueError):
        entries: list[str] = json.loads(file.read_text())
        return entries
    return []


def _keep(file: Path, test: str, second: bool) -> None:
    """Note whether a test needed its second try; several processes may do so at once."""
    if not second and not file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tests = {*_read(file), test} if second else {*_read(file)} - {test}
        file.write_text(json.dumps(sorted(tests), indent=1))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter):
    """Print how many repetitions were needed, by which tests, and why those may."""
    yield
    repeated = Counter((report.nodeid, report.measures) for report in terminalreporter.stats.get("rerun", []))
    terminalreporter.write_line(f"Repetitions needed: {repeated.total() or 'none'}.")
    for (test, why), count in repeated.items():
        terminalreporter.write_line(f"  {count} x {test}: {why}")
