"""The suite itself: green with nothing but the README's prerequisites, and honest about what it left out.

The tests in between run pytest once more, on the tests of what such a machine lacks or on made-up ones.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.plugins.needs import ROOT, Thing, summary

pytest_plugins = ["pytester"]

#: What the README asks for, and the shell that make and the tests take for granted.
PROMISED = ("python3", "cargo", "rustc", "cc", "make", "git", "sh", "bash")
#: Programs compiled by an earlier run are hidden too, and what is on no PATH.
HIDE = """
from pathlib import Path
def pytest_configure():
    from mptune.linux import bpf
    from tests.plugins import needs
    bpf.OBJECTS = needs.BPF_TESTS = Path("/nonexistent")
    needs.BPF_HEADERS = []
    needs.ADMINISTRATION = ""
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
    for name in PROMISED:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
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


#: By name or folder, not by mark: a test that forgot its mark must be among them.
#: The host of two tests in tests/kernel is this machine.
BEYOND = (
    *("tests/kernel", "tests/hosts", "tests/report/test_browser.py"),
    *("-k", "bpf or browser or iperf3 or hosts and not the_hosts"),
)


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, int], str]:
    """Counts of the closing line, and what was not tested."""
    *_, last = done.stdout.splitlines()
    counts = {what: int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", last.partition(" in ")[0])}
    (left_out,) = re.findall("^Not tested here: .*$", done.stdout, re.MULTILINE)
    return counts, left_out


#: As the Makefile runs what needs no network.
SIDE_BY_SIDE = ("--numprocesses", "2", "--dist", "loadfile")


@pytest.mark.parametrize(
    ("become", "how"),
    [
        pytest.param([], (), id="this-user"),
        pytest.param([], SIDE_BY_SIDE, id="side-by-side"),
        pytest.param(NOBODY, (), id="nobody", marks=pytest.mark.needs("root")),
    ],
)
def test_without_the_extra_tools_nothing_fails_and_each_is_named(
    bare: Run, become: list[str], how: Sequence[str]
) -> None:
    done = bare(*BEYOND, *how, become=become)
    counts, left_out = outcome(done)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert set(counts) - {"deselected"} == {"skipped"} and counts["skipped"] > 50
    programs = ("clang", "libbpf-dev", "chromium", "iperf3", "mptcpize", "sshd", "nft", "sudo")
    for lacking in (*programs, ".ci/packages"):
        assert lacking in left_out
    rootless = become == NOBODY or os.geteuid() != 0
    assert ("root" in left_out) == ("sudo .venv/bin/pytest" in left_out) == rootless


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
    done = bare(*BEYOND, CI="true")
    counts, _ = outcome(done)
    assert done.returncode == 1 and set(counts) <= {"error", "errors", "failed", "deselected"}


@pytest.fixture
def made_up(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs some lines of tests with the plugins of this suite."""
    plugins = ["-p", "tests.plugins.needs", "-p", "tests.plugins.reruns", "-p", "no:cacheprovider"]

    def run(text: str) -> pytest.RunResult:
        pytester.makepyfile(f"import pytest\ntries = []\n{text}")
        return pytester.runpytest_inprocess(*plugins)

    return run


@pytest.mark.parametrize(
    ("passes_at", "counts", "said"),
    [
        (1, {"passed": 1}, "Repetitions needed: none."),
        (2, {"passed": 1, "rerun": 1}, "Repetitions needed: 1."),
        (3, {"failed": 1, "rerun": 2}, "Repetitions needed: 2."),
        (4, {"failed": 1, "rerun": 2}, "Repetitions needed: 2."),
    ],
)
def test_what_needs_all_of_its_tries_fails(
    made_up: Callable[..., pytest.RunResult], passes_at: int, counts: Mapping[str, int], said: str
) -> None:
    result = made_up(f"""
@pytest.mark.measures("the dice")
def test_it():
    tries.append(1)
    assert len(tries) >= {passes_at}, "not yet"
""")
    assert result.parseoutcomes() == counts
    result.stdout.fnmatch_lines([said])
    if passes_at > 1:
        result.stdout.fnmatch_lines(["  * x *test_it: the dice"])
    if passes_at == 3:
        result.stdout.fnmatch_lines(["*not yet*", "It passed only at the last of 3 tries."])


@pytest.mark.parametrize("mark", ["measures", 'measures("")', "measures(3)", 'needs("luck")', "needs"])
def test_a_mark_that_does_not_say_why_is_refused(made_up: Callable[..., pytest.RunResult], mark: str) -> None:
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
