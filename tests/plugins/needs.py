"""Needs of tests beyond the README's list, and the report where they are missing.

A test names its needs, `@pytest.mark.needs("bpf")`; a fixture calls `require`, for all tests that use it, and
`lack` when it finds out only while it runs. On a machine without them the test is skipped with the reason;
with the environment variable CI set it fails. A test that starts a program without having declared it fails
wherever it runs (tests/plugins/programs.py). The closing summary states in one line what was not tested, and
which command would get it; a suite that runs in parts hands that on from part to part (`--left-out`).

Every skip of the suite is made here: the linter refuses pytest's own ways (pyproject.toml).
"""

import ctypes
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import pytest

from mptune.guest import building, kernels
from mptune.linux import agent, bpf
from mptune.trial.congestion import PAIRS

ROOT = Path(__file__).parents[2]

#: Window algorithms that have a BPF program, compiled or not; and all programs, with those of path policies.
BPF_SOURCES = sorted({path.stem for path in (ROOT / "bpf/congestion").glob("*.h")} - {"cubic", "reno"})
BPF_PROGRAMS = sorted([*BPF_SOURCES, *PAIRS])
#: Where they are compiled to, and for tests that do not name them: a checkout set up without clang has none.
BPF_OBJECTS, _NO_OBJECTS = bpf.OBJECTS, Path("/nonexistent/bpf_objects")
#: Programs the kernel must refuse, compiled for the tests alone.
BPF_TESTS = ROOT / "target/bpf-tests"
#: Where libbpf's headers are, as bpf/Makefile looks for them.
BPF_HEADERS = [Path(root, "include/bpf/bpf_helpers.h") for root in ("/usr", "/usr/local")]
#: What the browser is called in distributions.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: What emulates a processor for one program.
EMULATORS = {"x86_64": "qemu-x86_64-static", "aarch64": "qemu-aarch64-static", "armv7l": "qemu-arm-static"}

#: No program for the PATH.
SYSTEMD = Path("/lib/systemd/systemd")

#: Where programs of the administrator are, beside those of the PATH.
ADMINISTRATION = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

#: Where a missing thing comes from: `.ci/packages`, being root, or nowhere (other kernels, calmer machines).
Source = Literal["packages", "root", "elsewhere"]


class Thing(NamedTuple):
    """Something that is missing here."""

    name: str
    source: Source


def _nothing() -> Iterator[Thing]:
    yield from ()


class Need(NamedTuple):
    """A kind of tests, as the summary calls them, the programs they may start, and what else they need."""

    tested: str
    programs: tuple[str, ...] = ()
    beside: Callable[[], Iterator[Thing]] = _nothing
    #: Further programs, which these start themselves.
    theirs: tuple[str, ...] = ()

    @property
    def may_start(self) -> frozenset[str]:
        """Names of programs."""
        return frozenset((*self.programs, *self.theirs))

    def lacking(self) -> Iterator[Thing]:
        """Needs that this machine lacks."""
        yield from self.beside()
        yield from (Thing(name, "packages") for name in self.programs if found(name) is None)


def _root() -> Iterator[Thing]:
    if os.geteuid() != 0:
        yield Thing("root", "root")


def _linux() -> Iterator[Thing]:
    if platform.system() != "Linux":
        yield Thing("Linux", "elsewhere")


def _systemd() -> Iterator[Thing]:
    if not SYSTEMD.exists():
        yield Thing("systemd", "packages")


def _ansible() -> Iterator[Thing]:
    if ansible() is None:
        yield Thing("ansible-playbook", "packages")


def _dask() -> Iterator[Thing]:
    if importlib.util.find_spec("distributed") is None:
        yield Thing("dask.distributed", "elsewhere")


def _browser() -> Iterator[Thing]:
    if browser() is None:
        yield Thing("chromium", "packages")


def _uv() -> Iterator[Thing]:
    if uv() is None:
        yield Thing("uv (make setup)", "elsewhere")


def _compiler() -> Iterator[Thing]:
    if compiler() is None:
        yield Thing("a C compiler", "elsewhere")


def _headers() -> Iterator[Thing]:
    if not any(header.exists() for header in BPF_HEADERS):
        yield Thing("libbpf-dev", "packages")


def _clang() -> Iterator[Thing]:
    if found("clang") is None:
        yield Thing("clang", "packages")
    yield from _headers()


def _bpf() -> Iterator[Thing]:
    yield from _root()
    if not Path("/sys/kernel/btf/vmlinux").exists():
        yield Thing("a kernel with type information (BTF)", "elsewhere")
    if bpf.programs() != BPF_PROGRAMS:
        yield from list(_clang()) or [Thing("the BPF programs (make bpf)", "packages")]
    elif os.geteuid() == 0 and any(bpf.availability(cc).reason for cc in BPF_PROGRAMS):
        yield Thing("the right to register BPF programs", "elsewhere")
    try:
        ctypes.CDLL("libbpf.so.1")
    except OSError:
        yield Thing("libbpf1", "packages")


def _guest() -> Iterator[Thing]:
    yield from _linux()
    if not kernels.built():
        yield Thing(f"a kernel for guests (mptune kernel build {kernels.DEFAULT})", "elsewhere")


def _current_guest() -> Iterator[Thing]:
    yield from _guest()
    if kernels.built() and not building.is_current(kernels.find()):
        kernel = f"a kernel for guests of these sources (mptune kernel build {kernels.DEFAULT})"
        yield Thing(kernel, "elsewhere")


def _static_agent() -> Iterator[Thing]:
    if platform.machine() not in agent.static():
        yield Thing("an agent without libraries (make agent-static)", "elsewhere")


def _qemu() -> Iterator[Thing]:
    built = set(agent.static()) - {platform.machine()}
    yield from (
        Thing(name, "packages")
        for processor, name in EMULATORS.items()
        if processor in built and found(name) is None
    )


def _bpf_tests() -> Iterator[Thing]:
    if not list(BPF_TESTS.glob("*.bpf.o")):
        yield from list(_clang()) or [Thing("the BPF programs of the tests (make bpf)", "packages")]


#: By the name that a mark gives.
NEEDS: Mapping[str, Need] = {
    "linux": Need("what only Linux has", beside=_linux),
    "root": Need("what takes root", beside=_root),
    "bpf": Need("BPF programs on the kernel", beside=_bpf),
    "bpf-tests": Need("BPF programs on the kernel", beside=_bpf_tests),
    "guest": Need("trials in virtual time", beside=_guest),
    "current-guest": Need("what kernels for guests have of late", beside=_current_guest),
    "patch": Need("the building of kernels", ("patch",)),
    "clang": Need("what compiles BPF programs", ("clang",), _headers),
    "compiler": Need("the arithmetic of the BPF programs", beside=_compiler),
    "browser": Need("the report in a browser", beside=_browser, theirs=(*BROWSERS, "findmnt", "uname")),
    "sshd": Need("machines reached over ssh", ("ssh", "ssh-keygen", "sshd", "ip", "sysctl", "nsenter")),
    "busybox": Need("a machine that has busybox alone", ("busybox",), _static_agent),
    "qemu": Need("agents for other processors", beside=_qemu, theirs=tuple(EMULATORS.values())),
    "nft": Need("middleboxes", ("nft",)),
    "sudo": Need("users who may use sudo", ("sudo",)),
    "systemd-analyze": Need("units for systemd", ("systemd-analyze",)),
    "systemd": Need("units on a systemd", ("systemctl",), _systemd),
    "sysctl": Need("files for sysctl", ("sysctl",)),
    "ansible": Need("playbooks for Ansible", beside=_ansible),
    "namespaces": Need(
        "what iproute2 and util-linux do in namespaces",
        ("chrt", "ip", "ss", "tc", "mount", "nsenter", "setpriv", "umount", "unshare"),
    ),
    "uv": Need("the package as it is installed", beside=_uv),
    "deb": Need("the package for Debian", ("dpkg", "dpkg-deb", "lintian"), theirs=("tar",)),
    "groff": Need("man pages in the programs that read them", ("groff",)),
    "mandoc": Need("man pages in the programs that read them", ("mandoc",)),
    "dask": Need("trials on the workers of dask", beside=_dask),
    "iperf3": Need("iperf3 beside the meter", ("iperf3", "mptcpize")),
    "tshark": Need("captures in Wireshark's dissectors", ("tshark",), theirs=("dumpcap",)),
    **{name: Need("programs under mptune exec", (name,)) for name in ("curl", "go", "nginx", "node", "wget")},
}

#: Tests that name one of these are shown BPF programs.
OF_PROGRAMS = frozenset({"bpf", "bpf-tests"})
#: Tests that name one of these are shown kernels for guests.
OF_GUESTS = frozenset({"guest", "current-guest"})
#: The user's own value of `kernels.VARIABLE`, for processes of a suite that runs in parts; empty without one.
_REAL_KERNELS = "MPTUNE_TESTS_KERNELS"
#: A directory that does not exist.
_NO_KERNELS = Path("/nonexistent/kernels")
os.environ.setdefault(_REAL_KERNELS, os.environ.get(kernels.VARIABLE, ""))

#: Names that were required, in this order, and are there.
granted: list[str] = []


def found(name: str) -> str | None:
    return shutil.which(name, path=ADMINISTRATION)


def show_kernels(*, shown: bool) -> None:
    """Show kernels for guests, or hide them from tests and the programs that they start.

    The simulator's answers are confirmed on a kernel that is there; tests of answers are the same without it.
    """
    where = os.environ[_REAL_KERNELS] if shown else str(_NO_KERNELS)
    if where:
        os.environ[kernels.VARIABLE] = where
    else:
        os.environ.pop(kernels.VARIABLE, None)


def releases() -> list[str]:
    """Releases of the kernels for guests that are built; without any the default, which the mark skips."""
    before = os.environ.get(kernels.VARIABLE)
    show_kernels(shown=True)
    try:
        return [kernel.release for kernel in kernels.built()] or [kernels.DEFAULT]
    finally:
        show_kernels(shown=before != str(_NO_KERNELS))


def program(name: str) -> str:
    """Path of a program that was declared; those of the administrator may be outside the PATH of users."""
    path = found(name)
    assert path is not None, f"{name} was not declared"
    return path


def ansible() -> str | None:
    """Path of ansible-playbook, if there is one: on the PATH, or beside this interpreter."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("ansible-playbook", path=os.pathsep.join((os.environ.get("PATH", ""), beside)))


def browser() -> str | None:
    """Path of the browser, if there is one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def uv() -> str | None:
    """Path of uv, if there is one: what runs this, on the PATH, or as the Makefile installs it."""
    local = sorted(ROOT.glob(".tools/uv-*/bin/uv"))
    return os.environ.get("UV") or shutil.which("uv") or (str(local[-1]) if local else None)


def compiler() -> str | None:
    """Path of the C compiler, if there is one."""
    return shutil.which(os.environ.get("CC", "cc"))


class Lacking(pytest.skip.Exception):  # type: ignore[name-defined,misc] # set by a decorator
    """A test is skipped because something is missing."""

    __module__ = "builtins"  # pytest prints its name in front of the reason

    def __init__(self, tested: str, things: Sequence[Thing], detail: str) -> None:
        super().__init__(_names(things) + detail, _use_item_location=True)
        #: Plain lists: a report may come from another process.
        self.lack = [tested, *map(list, things)]


class Missing(pytest.fail.Exception):  # type: ignore[name-defined,misc] # set by a decorator
    """A test fails because something is missing where nothing may be."""

    __module__ = "builtins"


def lack(tested: str, *things: Thing, detail: str = "") -> NoReturn:
    """Skip the test that is running, or fail with CI set.

    Parameters
    ----------
    tested : what is not tested therefore, in a few words.
    detail : what the reason has beyond the summary.
    """
    __tracebackhide__ = True
    detail = f": {detail}" if detail else ""
    if "CI" in os.environ:
        raise Missing(_names(things) + detail, pytrace=False)
    raise Lacking(tested, things, detail)


def require(*names: str, tested: str | None = None) -> None:
    """Skip the test that is running unless everything is there; fail with CI set.

    Parameters
    ----------
    tested : what is not tested otherwise; of the first name, if not given.
    """
    __tracebackhide__ = True
    if things := [thing for name in names for thing in NEEDS[name].lacking()]:
        lack(tested or NEEDS[names[0]].tested, *things)
    granted.extend(names)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and hide kernels for guests from what is made before a test."""
    show_kernels(shown=False)
    config.addinivalue_line(
        "markers",
        f"needs(*names): what the test needs (tests/plugins/needs.py), of {', '.join(NEEDS)}",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hold every test against the names in its marks, before any fixture."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    show_kernels(shown=not OF_GUESTS.isdisjoint(names))
    bpf.OBJECTS = _NO_OBJECTS if OF_PROGRAMS.isdisjoint(names) else BPF_OBJECTS
    for name in names:
        require(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that nobody declared."""
    for item in items:
        for mark in item.iter_markers("needs"):
            unknown = set(mark.args) - set(NEEDS)
            if unknown or not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: needs: expected names of {', '.join(NEEDS)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Note in the report what was lacking."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, Lacking):
        report.lack = call.excinfo.value.lack
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the file that parts of a suite share."""
    parser.addoption(
        "--left-out",
        type=Path,
        metavar="FILE",
        help="what other parts of the suite have left out; this part's is added, and the summary is of all",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config):
    """Print what was not tested, in one line, last of all but for pytest's own."""
    yield
    file: Path | None = config.getoption("left_out")
    entries = json.loads(file.read_text()) if file is not None and file.exists() else []
    for report in terminalreporter.stats.get("skipped", []):
        with suppress(AttributeError):
            entries.append(report.lack)
    if file is not None:
        file.write_text(json.dumps(entries))
    lacks: dict[str, dict[Thing, None]] = {}
    for tested, *things in entries:
        lacks.setdefault(tested, {}).update({Thing(*thing): None for thing in things})
    terminalreporter.write_line(summary(lacks))


def summary(lacks: Mapping[str, Mapping[Thing, None]]) -> str:
    """Parts that were not tested, and the command that would get what they need.

    Parameters
    ----------
    lacks : what was not tested -> what that lacks.
    """
    if not lacks:
        return "Not tested here: nothing was left out."
    missing = ", ".join(f"{tested} ({_names(list(things))})" for tested, things in lacks.items())
    command = _command({thing.source for things in lacks.values() for thing in things})
    return f"Not tested here: {missing}." + (f" `{command}` tests it too." if command else "")


def _command(sources: set[Source]) -> str | None:
    sudo = "" if os.geteuid() == 0 else "sudo "
    if "root" in sources:
        fetch = "sudo .ci/packages && make bpf && " if "packages" in sources else ""
        return f"{fetch}sudo .venv/bin/pytest"
    return f"{sudo}.ci/packages && make test" if "packages" in sources else None


def _names(things: Sequence[Thing]) -> str:
    return ", ".join(dict.fromkeys(thing.name for thing in things))
