"""Plants faults in a copy of the product, one at a time, and shows that the suite finds each of them.

    .venv/bin/python tests/planted.py                       all ten, once each
    .venv/bin/python tests/planted.py --only 5 7 --runs 5   two of them, five times each

A fault is an exact text of one file and what replaces it. The copy is in `target/planted`: this work tree
is not touched, whenever it ends. Each part of the suite is run without the fault first: what fails then
finds nothing. Faults 4 to 7 are for tests that run in real time on the kernel, as root. It ends with status
1 unless every fault was found in every run.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TREE, CARGO = ROOT / "target/planted/tree", ROOT / "target/planted/cargo"
#: Compiled files, which git does not know.
COMPILED = ("_core.*.so", "_bin/*", "bpf_objects/*")
#: Where the copy is compiled, by the profile of `make setup`.
COMPILING = {"CARGO_TARGET_DIR": str(CARGO), "PYO3_PYTHON": str(ROOT / ".venv/bin/python")}
#: Longest time for a part of the suite, seconds.
LIMIT_S = 1800

AGENT = "mptune-agent"


class Fault(NamedTuple):
    """A fault, its place, the agent's crate if it is compiled anew, and the part that is to find it."""

    what: str
    file: str
    text: str
    replaced_by: str
    crate: str | None
    part: tuple[str, ...]


CORE = ("cargo", "test", "--quiet", "--locked", "--package", "mptune-core", "--lib")
FAULTS = (
    Fault(
        "Reno gives up a third of its window, not half",
        "crates/mptune-core/src/congestion/reno.rs",
        "(window.cwnd / 2.0).max(MIN_SSTHRESH)",
        "(window.cwnd / 1.5).max(MIN_SSTHRESH)",
        None,
        (*CORE, "congestion::reno"),
    ),
    Fault(
        "the receiver offers a segment more than its buffer holds",
        "crates/mptune-core/src/mptcp/accounting/receive.rs",
        "next.saturating_add(window.segments)",
        "next.saturating_add(window.segments + 1)",
        None,
        (*CORE[:-1], "--test", "all", "transport::"),
    ),
    Fault(
        "a session of a host does not put one setting back",
        "crates/mptune-agent/src/undo/change.rs",
        "if kind.same(&present, &self.before) {",
        'if kind.same(&present, &self.before) || kind.name().ends_with("tcp_wmem") {',
        AGENT,
        ("tests/linux/test_host_role.py", "tests/kernel/test_host_role.py"),
    ),
    Fault(
        "the path manager's subflows never become standby",
        "crates/mptune-agent/src/kernel/mptcp_pm/commands.rs",
        "if backup { vec![Flag::Backup] } else { Vec::new() }",
        "if backup && backup_flag(false).len() == 1 { vec![Flag::Backup] } else { Vec::new() }",
        AGENT,
        ("tests/virtual/roles/test_path_manager.py", "-k", "standby or withdrawn"),
    ),
    Fault(
        "the meter counts 3 % too much",
        "crates/mptune-agent/src/meter/receiver.rs",
        "            self.in_order_bytes += bytes;\n",
        "            let bytes = bytes + bytes / 33;\n            self.in_order_bytes += bytes;\n",
        AGENT,
        ("tests/kernel/test_testbed.py", "-k", "plain_tcp"),
    ),
    Fault(
        "the emulator loses twice as many packets",
        "crates/mptune-core/src/network/link.rs",
        "Chance::ppb(spec.loss_ppb)",
        "Chance::ppb(2 * spec.loss_ppb)",
        AGENT,
        ("tests/kernel/test_emulator.py", "-k", "losses_are_as_many"),
    ),
    Fault(
        "the emulator's links are 8 % too fast",
        "crates/mptune-core/src/network/rate.rs",
        "(8_000_000_000_u128 << FRACTION)",
        "(7_400_000_000_u128 << FRACTION)",
        AGENT,
        ("tests/kernel/test_emulator.py", "-k", "burst"),
    ),
    Fault(
        "the second best combination is chosen",
        "python/mptune/decision/selection.py",
        "return min(equal, key=lambda o: (o.pm == LAST_CHOICE, -o.throughput_mbps))",
        "return sorted(found, key=lambda o: o.buffer_mib)[:2][-1]",
        None,
        ("tests/decision/test_selection.py",),
    ),
    Fault(
        "two processes may write one store",
        "python/mptune/store/_locking.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        None,
        ("tests/store",),
    ),
    Fault(
        "a limit of the machine is lowered to what the answer needs",
        "python/mptune/apply/_settings.py",
        "str(max(int(now), buffer_bytes))",
        "str(buffer_bytes)",
        None,
        ("tests/apply/test_plan.py", "tests/apply/test_files.py"),
    ),
)


def main() -> int:
    """Run what the command line asks for."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument(
        "--only", type=int, nargs="+", choices=range(1, len(FAULTS) + 1), help="these faults alone"
    )
    words.add_argument("--runs", type=int, default=1, metavar="N", help="how often each is looked for (1)")
    asked = words.parse_args()
    TREE.mkdir(parents=True, exist_ok=True)
    alone = TREE.with_name("lock").open("w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{TREE}: another process plants faults there")
    copy()
    missed = 0
    for number in asked.only or range(1, len(FAULTS) + 1):
        fault = FAULTS[number - 1]
        print(f"{number:2} {fault.what} ({fault.file})", flush=True)
        if (sound := run(fault.part)).failed or not sound.passed:
            print(f"   cannot tell: without the fault {sound}", flush=True)
            missed += 1
            continue
        with planted(fault):
            results = [run(fault.part) for _ in range(asked.runs)]
        caught = sum(bool(result.failed) for result in results)
        missed += caught < asked.runs
        print(f"   found in {caught} of {asked.runs} runs: {results[-1]}", flush=True)
    return 1 if missed else 0


def copy() -> None:
    """Bring the copy up to date; what has not changed keeps its time, so that cargo compiles little."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name}
    names |= {
        str(path.relative_to(ROOT)) for kind in COMPILED for path in (ROOT / "python/mptune").glob(kind)
    }
    for name in names:
        source, target = ROOT / name, TREE / name
        if source.is_symlink() or not source.exists():
            if source.is_symlink() and not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source.readlink())
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)  # with the time of now: later than whatever was compiled of it
    for path in TREE.rglob("*"):
        old = path.is_file() and "__pycache__" not in path.parts
        if old and str(path.relative_to(TREE)) not in names and not _beside(path):
            path.unlink()


def _beside(path: Path) -> bool:
    """A file is below a link, or was left there by the tools."""
    parents = path.relative_to(TREE).parts
    return parents[0] in (".pytest_cache", "target", ".hypothesis", ".ruff_cache") or any(
        Path(TREE, *parents[: n + 1]).is_symlink() for n in range(len(parents))
    )


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The copy has the fault, in its compiled files too."""
    file = TREE / fault.file
    sound = file.read_text()
    if sound.count(fault.text) != 1:
        sys.exit(f"{fault.file}: expected {fault.text!r} once, found it {sound.count(fault.text)} times")
    places = [place for kind in COMPILED for place in (TREE / "python/mptune").glob(kind)]
    before = {place: place.read_bytes() for place in places} if fault.crate else {}
    try:
        file.write_text(sound.replace(fault.text, fault.replaced_by))
        if fault.crate:
            compile_(fault.crate)
        yield
    finally:
        file.write_text(sound)
        for place, content in before.items():
            place.write_bytes(content)


def compile_(crate: str) -> None:
    """Compile the agent, whose crate this is, and put it where the package has it."""
    command = ["cargo", "build", "--quiet", "--profile=setup", "--locked", "--package", crate]
    subprocess.run(command, cwd=TREE, env={**os.environ, **COMPILING}, check=True)
    place = TREE / "python/mptune/_bin/mptune-agent"
    place.unlink()  # a new file: an old one may be mapped by a process
    shutil.copy(CARGO / "setup/mptune-agent", place)


class Result(NamedTuple):
    """Result of a part of the suite."""

    failed: int
    passed: int
    skipped: int
    first: str
    seconds: float

    def __str__(self) -> str:
        counts = f"{self.failed} failed, {self.passed} passed, {self.skipped} skipped in {self.seconds:.0f} s"
        return f"{counts}; {self.first}" if self.first else counts


def run(part: Sequence[str]) -> Result:
    """A part of the suite in the copy: a cargo command, or arguments of pytest."""
    pytest_ = [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-xp", "no:cacheprovider", "--timeout=900"]
    command = [*part] if part[0] == "cargo" else [*pytest_, *part]
    own: Mapping[str, str] = {"PYTHONPATH": str(TREE / "python"), "CARGO_TARGET_DIR": str(CARGO)}
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=TREE,
        env={**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    counts = dict.fromkeys(("failed", "passed", "skipped", "error", "errors"), 0)
    lines = [
        line for line in done.stdout.splitlines() if re.search(r"\d+ (passed|failed|skipped|error)", line)
    ]
    for number, what in re.findall(r"(\d+) (\w+)", lines[-1] if lines else ""):
        if what in counts:
            counts[what] += int(number)
    failed = counts["failed"] + counts["error"] + counts["errors"]
    first = re.search(
        r"^(?:FAILED |ERROR )(\S+)|^test (\S+) \.\.\. FAILED|^---- (\S+) stdout", done.stdout, re.M
    )
    if done.returncode not in (0, 1, 101):
        sys.exit(done.stdout[-3000:])
    name = next(filter(None, first.groups()), "") if first else ""
    return Result(failed, counts["passed"], counts["skipped"], name, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
