"""The suite itself: green with nothing but the README's prerequisites, and honest about what it left out.

The tests in between run pytest once more, on the tests of what such a machine lacks or on made-up ones.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.planted import FAULTS, Fault
from tests.plugins import bad_input, reruns
from tests.plugins.naps import LATE_S, NAP_S, Naps
from tests.plugins.needs import NEEDS, ROOT, Thing, summary
from tests.plugins.programs import GRANTED
from tests.plugins.waiting import PATIENCE_S, until

pytest_plugins = ["pytester"]

#: Programs compiled by an earlier run are hidden too, and what is on no PATH; whoever is busy beside these
#: runs does not concern them. A test that has everything it needs ends there, and so do its fixtures if none
#: of them can lack anything; without a mark there is nothing left of it. That it starts nothing that it has
#: not declared is seen by the recorders in the run that has the tools.
HIDE = """
import inspect
from functools import cache
from pathlib import Path
@cache
def may_lack(module):
    return any(call in inspect.getsource(module) for call in ("require(", "lack("))
def pytest_configure():
    from tests.plugins import needs, reruns
    needs.BPF_OBJECTS = needs.BPF_TESTS = needs.SYSTEMD = Path("/nonexistent")
    needs.BPF_HEADERS = []
    needs.ADMINISTRATION = ""
    reruns.BUSY, reruns.LATE_S, reruns.LOOK_S = float("inf"), float("inf"), 0.0
def pytest_addoption(parser):
    parser.addoption("--needs-only", action="store_true")
def pytest_collection_modifyitems(config, items):
    if config.getoption("needs_only"):
        needing = []
        for item in items:
            item.runtest = lambda: None
            fixtures = [made for of_name in item._fixtureinfo.name2fixturedefs.values() for made in of_name]
            if not any(may_lack(inspect.getmodule(made.func)) for made in fixtures):
                item.setup = lambda: None
                if item.get_closest_marker("needs") is None:
                    continue
            needing.append(item)
        items[:] = needing
"""
#: Another user, who may read what belongs to root: this repository may lie there.
NOBODY = [
    str(shutil.which("setpriv")), "--reuid=65534", "--regid=65534", "--clear-groups",
    *(f"--{kind}=-all,+dac_read_search" for kind in ("bounding-set", "inh-caps", "ambient-caps")),
]  # fmt: skip

#: Root of a container that gives its users no network namespaces.
CONTAINED = [
    str(shutil.which("unshare")), "--user", "--map-root-user",
    "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh",
]  # fmt: skip

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bare(tmp_path: Path) -> Run:
    """Runs tests with only what the README asks for."""
    programs, own = tmp_path / "bin", tmp_path / "own"
    for directory in (programs, own):
        directory.mkdir()
    for name in GRANTED:
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    (own / "hide_the_tools.py").write_text(HIDE)

    def run(
        *arguments: str, become: Sequence[str] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
        paths = {"PATH": str(programs), "PYTHONPATH": os.pathsep.join([str(own), *sys.path])}
        pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "hide_the_tools"]
        return subprocess.run(
            [*become, *pytest_, *arguments],
            env={**kept, **paths, **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, int], str]:
    """Counts of the closing line, and what was not tested."""
    *_, last = done.stdout.splitlines()
    counts = {what: int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", last.partition(" in ")[0])}
    left_out = re.findall("^Not tested here: .*$", done.stdout, re.MULTILINE)
    assert len(left_out) == 1, done.stdout[-3000:] + done.stderr[-3000:]
    return counts, left_out[0]


#: All tests, in one process: hardly anything is left of them.
#: The package as it is installed takes minutes to build, of nothing but what the README asks for.
ALL = (
    "tests",
    "--ignore=tests/packaging/test_installed.py",
    "--needs-only",
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "become",
    [pytest.param([], id="this-user"), pytest.param(NOBODY, id="nobody", marks=pytest.mark.needs("root"))],
)
@pytest.mark.needs("namespaces")
def test_without_the_extra_tools_nothing_fails_and_each_is_named(bare: Run, become: list[str]) -> None:
    done = bare(*ALL, become=become)
    counts, left_out = outcome(done)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert set(counts) - {"warning", "warnings"} == {"passed", "skipped"} and counts["skipped"] > 300
    rootless = become == NOBODY or os.geteuid() != 0
    # What takes root as well is left out for that reason, where there is no root.
    for need in [] if rootless else NEEDS.values():
        assert set(need.programs) <= set(re.findall(r"[\w.-]+", left_out)), need
    for lacking in ("clang", "libbpf-dev", "chromium", ".ci/packages"):
        assert lacking in left_out
    assert ("root" in left_out) == ("sudo .venv/bin/pytest" in left_out) == rootless


@pytest.mark.needs("namespaces")
def test_where_there_can_be_no_namespaces_nothing_fails(bare: Run) -> None:
    done = bare("tests/kernel", become=CONTAINED)
    counts, left_out = outcome(done)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert counts["skipped"] > 10 * counts["passed"]
    for what in (
        "trials on the kernel",
        "the meter by itself",
        "path managers on the kernel",
        "BPF programs",
    ):
        assert what in left_out


def test_in_ci_they_fail_instead(bare: Run) -> None:
    done = bare("tests/hosts", "tests/report/test_browser.py", "--needs-only", CI="true")
    counts, _ = outcome(done)
    assert done.returncode == 1 and set(counts) <= {"error", "errors", "failed"}


#: Fails where it is started without having been declared.
GADGET = """
import os, subprocess
from pathlib import Path
import pytest
from tests.plugins.needs import require
PATH = str(Path(__file__).with_name("bin") / "gadget")
"""
#: Ways to start it.
STARTS = {
    "by name": 'subprocess.run(["gadget"], check=True)',
    "by path": "subprocess.run([PATH], check=True)",
    "by a shell": 'subprocess.run("true; gadget", shell=True, check=True)',
    "by another program": 'subprocess.run(["env", "-u", "HOME", "gadget"], check=True)',
    "by system": 'os.system("gadget")',
    "by spawning": "os.waitpid(os.posix_spawn(PATH, [PATH], os.environ), 0)",
    "by forking": "os.fork() or os.execv(PATH, [PATH]); os.wait()",
}


@pytest.fixture
def gadget(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Runs some lines of tests with the plugins of this suite, where there is a program called gadget."""
    programs, temporary = pytester.mkdir("bin"), pytester.mkdir("temporary")
    (programs / "gadget").write_text("#!/bin/sh\n")
    (programs / "gadget").chmod(0o755)
    pytester.makeconftest(
        "from tests.plugins import needs\nneeds.NEEDS['gadget'] = needs.Need('gadgets', ('gadget',))"
    )
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # What is in the directory of temporary files belongs to the tests.
    monkeypatch.setenv("TMPDIR", str(temporary))
    plugins = ["-p", "tests.plugins.needs", "-p", "tests.plugins.programs", "-p", "no:cacheprovider"]

    def run(text: str) -> pytest.RunResult:
        pytester.makepyfile(GADGET + text)
        done = pytester.runpytest_subprocess(*plugins)
        assert not list(temporary.glob("mptune-recorders-*"))
        return done

    return run


def test_a_program_that_is_started_has_to_be_declared(gadget: Callable[..., pytest.RunResult]) -> None:
    done = gadget(
        "def test_another(): subprocess.run(['true'], check=True)\n"
        + "".join(
            f"""
def test_silent_{number}(): {start}
@pytest.mark.needs("gadget")
def test_declared_{number}(): {start}
def test_required_{number}(): require("gadget"); {start}
"""
            for number, start in enumerate(STARTS.values())
        )
    )
    assert done.parseoutcomes() == {"failed": len(STARTS), "passed": 2 * len(STARTS) + 1}
    complaint = "started gadget without saying so: expected @pytest.mark.needs(...) with gadget"
    assert done.stdout.str().count(f"\n{complaint}\n") == len(STARTS)


@pytest.mark.parametrize(("requires", "counts"), [(False, {"error": 2, "passed": 2}), (True, {"passed": 4})])
def test_what_a_fixture_starts_every_test_that_uses_it_has_to_declare(
    gadget: Callable[..., pytest.RunResult], requires: bool, counts: Mapping[str, int]
) -> None:
    done = gadget(f"""
@pytest.fixture(scope="module")
def made():
    {requires} and require("gadget")
    subprocess.run(["gadget"], check=True)
    yield
    subprocess.run(["gadget"], check=True)
@pytest.fixture
def on_it(made): pass
@pytest.mark.needs("gadget")
def test_first(made): pass
def test_second(made): pass
def test_third(on_it): pass
def test_last(): pass
""")
    outcomes = {name.rstrip("s"): number for name, number in done.parseoutcomes().items()}
    assert outcomes == {name.rstrip("s"): number for name, number in counts.items()}


@pytest.fixture
def made_up(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Runs some lines of tests with the plugins of this suite."""
    plugins = ["-p", "tests.plugins.needs", "-p", "tests.plugins.reruns", "-p", "no:cacheprovider"]
    monkeypatch.setattr(reruns, "LOOK_S", 0.001)
    monkeypatch.setattr(reruns, "PATIENCE_S", 0.0015)  # for two further looks

    def run(
        text: str, before: Sequence[float] = (), during: Sequence[float] = (), late_s: float = 0.0
    ) -> pytest.RunResult:
        looks, tries = iter(before), iter(during)
        monkeypatch.setattr(reruns, "look", lambda: next(looks, 0.0))
        monkeypatch.setattr(reruns, "others_since", lambda _: next(tries, 0.0))
        monkeypatch.setattr(reruns, "late_since", lambda _: late_s)
        pytester.makepyfile(f"import pytest\nfrom tests.plugins import reruns\ntries = []\n{text}")
        return pytester.runpytest_inprocess(*plugins, "--second-tries=second-tries.json")

    return run


#: Fails at its first tries.
TRIES = """
@pytest.mark.measures("the dice")
def test_it():
    tries.append(1)
    assert len(tries) > {failures}, "wrong"
"""


@pytest.mark.parametrize("ci", [False, True])
@pytest.mark.parametrize(
    ("failures", "before", "during", "counts"),
    [
        pytest.param(0, [], [], {"passed": 1}, id="passes"),
        pytest.param(1, [], [0.05], {"failed": 1}, id="is wrong on a quiet machine"),
        pytest.param(1, [], [0.5], {"passed": 1, "rerun": 1}, id="is disturbed once"),
        pytest.param(2, [], [0.5, 0.5], {"skipped": 1, "rerun": 1}, id="is disturbed twice"),
        pytest.param(2, [], [0.5, 0.05], {"failed": 1, "rerun": 1}, id="is disturbed and then wrong"),
        pytest.param(0, [0.5, 0.5], [], {"passed": 1}, id="waits for quiet"),
        pytest.param(0, [0.5] * 9, [], {"passed": 1}, id="waits in vain"),
        pytest.param(1, [0.5] * 9, [], {"failed": 1}, id="waits in vain and is wrong then"),
    ],
)
def test_only_a_busy_machine_is_a_reason_for_a_second_try(
    made_up: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    before: list[float],
    during: list[float],
    counts: Mapping[str, int],
    ci: bool,
) -> None:
    (monkeypatch.setenv if ci else monkeypatch.delenv)("CI", *(["true"] if ci else [False]))
    result = made_up(TRIES.format(failures=failures), before, during)
    assert result.parseoutcomes() == counts
    repetitions = counts.get("rerun", "none")
    result.stdout.fnmatch_lines([f"Repetitions needed: {repetitions}."])
    if "rerun" in counts:
        result.stdout.fnmatch_lines(["  1 x *test_it: the dice"])
    if "skipped" in counts:
        result.stdout.fnmatch_lines(["Not tested here: what is measured in real time (a quiet machine)."])


def test_a_machine_that_wakes_up_late_is_a_reason_too(made_up: Callable[..., pytest.RunResult]) -> None:
    once = TRIES.format(failures=1)
    assert made_up(once, late_s=0.1).parseoutcomes() == {"failed": 1}
    assert made_up(once, late_s=0.4).parseoutcomes() == {"passed": 1, "rerun": 1}


def test_a_process_that_naps_notices_that_it_wakes_up_late() -> None:
    before = time.monotonic()
    with closing(Naps()) as naps:

        def stopped() -> bool:
            """It was noticed that it had no processor for a while."""
            os.kill(naps.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, naps.pid, os.WSTOPPED)
            began = time.monotonic()
            until(lambda: time.monotonic() - began > NAP_S + LATE_S, "the time does not pass")
            os.kill(naps.pid, signal.SIGCONT)
            return naps.late_since(before) > 0

        until(stopped, "no nap was late")
        assert naps.late_since(time.monotonic() + PATIENCE_S) == 0


def test_what_finds_out_itself_that_it_was_too_late_is_tried_again(
    made_up: Callable[..., pytest.RunResult],
) -> None:
    late = """
@pytest.mark.measures("the dice")
def test_it():
    tries.append(1)
    if len(tries) <= {}:
        reruns.spoiled("3 ms late")
"""
    assert made_up(late.format(1)).parseoutcomes() == {"passed": 1, "rerun": 1}
    assert made_up(late.format(2)).parseoutcomes() == {"skipped": 1, "rerun": 1}


def test_in_ci_a_second_try_in_two_runs_in_a_row_fails(
    made_up: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    outcomes = [
        made_up(TRIES.format(failures=failures), [], [0.5] * failures).parseoutcomes()
        for failures in (1, 0, 1, 1, 0)
    ]
    needed_one = {"passed": 1, "rerun": 1}
    assert outcomes == [needed_one, {"passed": 1}, needed_one, {"failed": 1, "rerun": 1}, {"passed": 1}]


def test_what_others_use_is_seen_and_what_this_process_uses_is_not() -> None:
    """A child of this process uses half a second: its own, and another's for whoever is not its parent.

    Not of the whole run of tests, whose other workers leave processes behind.
    """
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        before, before_other = reruns.use(os.getpid()), reruns.use(other.pid)
        subprocess.run([sys.executable, "-c", burn], check=True)
        after, after_other = reruns.use(os.getpid()), reruns.use(other.pid)
        other.communicate(b"\n")
    assert after.own_s - before.own_s >= 0.5
    assert (after_other.all_s - before_other.all_s) - (after_other.own_s - before_other.own_s) >= 0.4


@pytest.mark.parametrize("mark", ["measures", 'measures("")', "measures(3)", 'needs("luck")', "needs"])
def test_a_mark_without_a_reason_is_refused(made_up: Callable[..., pytest.RunResult], mark: str) -> None:
    result = made_up(f"@pytest.mark.{mark}\ndef test_it(): pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_it: *expected *"])


@pytest.mark.parametrize(
    ("lacks", "user", "command"),
    [
        ([Thing("clang", "packages")], 0, "`.ci/packages && make test`"),
        ([Thing("clang", "packages")], 1000, "`sudo .ci/packages && make test`"),
        ([Thing("root", "root")], 1000, "`sudo .venv/bin/pytest`"),
        (
            [Thing("root", "root"), Thing("clang", "packages")],
            1000,
            "`sudo .ci/packages && make bpf && sudo .venv/bin/pytest`",
        ),
        ([Thing("BTF", "elsewhere")], 0, None),
    ],
)
def test_the_command_gets_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, lacks: list[Thing], user: int, command: str | None
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    line = summary({"flights": dict.fromkeys(lacks)})
    assert line.startswith(f"Not tested here: flights ({', '.join(thing.name for thing in lacks)}).")
    assert ("`" in line) == (command is not None) and (command or "") in line


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_planted_fault_is_still_one(fault: Fault) -> None:
    """Whether the suite finds it takes minutes (tests/planted.py); that it can be planted does not."""
    assert (ROOT / fault.file).read_text().count(fault.text) == 1
    files = [ROOT / name for name in fault.part if name.startswith("tests/")]
    assert all(file.exists() for file in files) and (files or fault.part[0] == "cargo")


def test_a_command_that_waited_for_a_processor_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for anything else does: after a second of its own."""
    waited_ns = iter([1_000_000_000, 1_000_000_000])

    class Waiting:
        def __init__(self, pid: int) -> None:
            self.total_ns = 0

        def look(self) -> None:
            self.total_ns = next(waited_ns)

    monkeypatch.setattr(bad_input, "_HANGS_S", 1)
    monkeypatch.setattr(bad_input, "Waiting", Waiting)
    with pytest.raises(bad_input._HangsError), bad_input._guarded():
        threading.Event().wait()
    assert next(waited_ns, None) is None
