"""The quick check of a change (`make check`): formats, lints, types, and the tests that the change can reach.

A change is what differs from the last commit; without any, the last commit. Of Rust: the library tests of
the crates that changed and of those that depend on them. Of Python: the tests of the rooms that changed, and
every test file that imports a changed module, or a module that imports one. What uses the network of this
machine is left to `make test`, as is all that lies further off.

    python tests/check.py [FILE ...]     # these files instead of the change
"""

import ast
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_import_order import FILES, arrows, room  # noqa: E402

BIN = Path(sys.executable).parent
#: What needs a network of its own, or boots a kernel for it, or installs the package.
BEYOND = ("tests/kernel/", "tests/hosts/", "tests/virtual/roles/", "tests/packaging/")

#: Rooms whose tests are of what the compiled core gives.
SIMULATED = {"testbeds", "capture"}


class Step(NamedTuple):
    """A command whose success is demanded, and those that come after it, one by one."""

    name: str
    commands: Sequence[Sequence[str | Path]]


def main() -> int:
    """Run everything; 0 if all of it holds."""
    files = sorted(sys.argv[1:] or changed())
    print(
        f"changed: {', '.join(files[:6])}{', ...' if len(files) > 6 else ''}" if files else "nothing changed"
    )
    steps = list(plan(files))
    failed = False
    with ThreadPoolExecutor(len(steps)) as pool:
        for done in as_completed([pool.submit(run, step) for step in steps]):
            name, output, seconds, status = done.result()
            print(f"{'failed' if status else 'passed'}  {seconds:5.1f} s  {name}", flush=True)
            if status:
                failed = True
                print(output.rstrip(), flush=True)
    return int(failed)


def changed() -> Iterator[str]:
    """Files that differ from the last commit; without any, those of the last commit."""
    paths = [*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")]
    yield from paths or _git("diff", "--name-only", "HEAD~1", "HEAD")


def plan(files: Sequence[str]) -> Iterator[Step]:
    """Chains to run side by side: what shares the caches of its tools is in one."""
    rust, lints, tests = list(_rust(files)), list(_lints(files)), list(_tests(files))
    steps = [Step("Rust", rust), Step("formats and types", lints), Step("tests", tests)]
    if rust and any(command[0] == "make" for command in tests):
        steps = [Step("Rust, then tests", [*rust, *tests]), Step("formats and types", lints)]
    documentation = Step("documentation", [_pytest(["tests/test_documentation.py"])])
    yield from [step for step in steps if step.commands] or [documentation]


def _rust(files: Sequence[str]) -> Iterator[Sequence[str]]:
    crates = list(reached_crates(files))
    if crates:
        packages = [f"--package={crate}" for crate in crates]
        yield ["cargo", "fmt", "--all", "--check"]
        yield ["cargo", "clippy", "--locked", "--quiet", "--all-targets", *packages, "--", "-D", "warnings"]
        tested = [package for package in packages if not package.endswith("-python")]
        yield ["cargo", "test", "--locked", "--quiet", "--lib", *tested]


def _lints(files: Sequence[str]) -> Iterator[Sequence[str | Path]]:
    if any(file.endswith((".py", ".pyi")) for file in files):
        yield [BIN / "ruff", "check", "--quiet"]
        yield [BIN / "ruff", "format", "--check", "--quiet"]
        yield [BIN / "mypy"]


def _tests(files: Sequence[str]) -> Iterator[Sequence[str | Path]]:
    if tests := list(reached_tests(files)):
        if any(file.startswith("crates/") for file in files):
            yield ["make", "setup"]
        yield _pytest(tests)


def _pytest(tests: Sequence[str]) -> Sequence[str | Path]:
    return [BIN / "pytest", "--quiet", "--numprocesses=auto", "--dist=loadfile", *tests]


def reached_crates(files: Iterable[str]) -> Iterator[str]:
    """Crates of the workspace with a changed file, and those that depend on one."""
    crates = {}
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        read = tomllib.loads(manifest.read_text())
        crates[manifest.parent.name] = set(read.get("dependencies", {}))
    folders = {
        file.split("/")[1] for file in files if file.startswith("crates/") and file.endswith((".rs", ".toml"))
    }
    everything = any(file in ("Cargo.toml", "Cargo.lock") for file in files)
    for crate, needed in crates.items():
        if everything or crate in folders or needed & folders:
            yield crate


def reached_tests(files: Iterable[str]) -> Iterator[str]:
    """Test files that a change can reach."""
    modules = {module for module, path in FILES.items() if str(path.relative_to(ROOT)) in files}
    near = modules | {module for module, others in arrows().items() if modules & set(others)}
    rooms = {room(module) for module in modules}
    if any(file.startswith(("crates/mptune-core/", "crates/mptune-python/")) for file in files):
        rooms |= SIMULATED
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        test = str(path.relative_to(ROOT))
        if test in files or (
            not test.startswith(BEYOND)
            and (
                path.parent.name in rooms
                or path.stem.removeprefix("test_") in rooms
                or near & _imported(path)
            )
        ):
            yield test


def _imported(test: Path) -> set[str]:
    """Modules of the package that a test file imports."""
    names = set()
    for node in ast.walk(ast.parse(test.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("mptune.") for name in names if name.startswith("mptune.")}


def run(step: Step) -> tuple[str, str, float, int]:
    """Name, output, seconds and exit status of a step, which ends with the first command that fails."""
    began, status = time.monotonic(), 0
    environment = {**os.environ, "PYO3_PYTHON": str(BIN / "python")}
    with tempfile.TemporaryFile("w+") as output:
        for command in step.commands:
            output.write(f"$ {' '.join(map(str, command))}\n")
            output.flush()
            status = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            ).returncode
            if status:
                break
        output.seek(0)
        return step.name, output.read(), time.monotonic() - began, status


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
