"""The documentation's commands do what the pages say: what is cheap and harmless is run, in a directory.

The others are in `LEFT_OUT`, each with the reason; they are parsed like all (tests/test_documentation.py).
Where a page shows what a command prints (`$ mptune ...`, then lines), these lines are compared.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from tests.plugins.needs import ROOT
from tests.test_documentation import _LEFT_OUT, NAMES, arguments, command_lines, split, text_of

#: Commands that are not run, as patterns of their lines, and why. The first that matches counts.
LEFT_OUT = {
    r"--testbed|^mptune (diverge|compare|kernel)\b": "needs a kernel: tests/kernel, tests/virtual",
    r"^mptune (probe|routes|watch)\b|--hosts?\b": "needs other machines, or waits for a key: tests/hosts",
    r"^mptune (apply|rollback|daemon|clean|cc (load|unload|status)|status)\b": "changes machines",
    r"^mptune exec\b": "runs other programs: tests/linux, tests/kernel",
    r"^mptune doctor\b": "tells what this machine has: tests/cli/test_doctor.py",
    r"^mptune (optimise|why|campaign|calibrate|shrink|rules)\b|--measure\b": "takes minutes: its own tests",
    r"^mptune advise\b": "reads this machine: tests/apply",
    r"^mptune impact\b": "takes a minute: tests/cli/test_impact.py",
    r"--connections 20|--duration 2min": "takes long: tests/workloads",
    r"B-X": "has paths of a network that the reader makes up",
    r"^mptune fit (data.csv --(validate|model|target)|eq4\.csv)": "tests/cli/test_fit.py has such data",
    r"^mptune ui\b": "serves until Ctrl-C: tests/ui",
    r"^mptune completion\b": "writes into the reader's home: tests/cli/test_completion.py",
    r"^mptune capture (trace|client)": "reads captures of the reader: tests/cli/test_capture.py",
    r"^mptune report runs/new": "compares two runs: tests/cli/test_report.py",
}

#: A small run, which stands for the reader's.
RUN = (
    "optimise UiT-HAW --pm fullmesh --cc cubic --buffers 64KiB,128KiB,256KiB,512KiB --strategy grid --runs 2 "
    "--duration 5s --impact-runs 4 --impact-duration 2s --off-by 0 --no-extend --confirm-runs 2 "
    "--confirm-on none --out runs/demo --quiet"
)


class Shown(NamedTuple):
    """A command on a page, and the lines that the page shows of what it prints."""

    line: str
    output: tuple[str, ...]


def shown(name: str) -> Iterator[Shown]:
    """Whole commands of a page, once each."""
    page = split(text_of(ROOT / name))
    known = dict.fromkeys(line for line, whole in command_lines(page) if whole and not _LEFT_OUT.search(line))
    lines = page.fenced.splitlines()
    for line in known:
        begin = lines.index(f"$ {line}") + 1 if f"$ {line}" in lines else len(lines)
        end = next((n for n in range(begin, len(lines)) if re.match(r"\$ |mptune ", lines[n])), len(lines))
        yield Shown(line, tuple(one.strip() for one in lines[begin:end] if one.strip()))


def reason(line: str) -> str | None:
    """The reason for which a command is not run; None if it is."""
    return next((why for pattern, why in LEFT_OUT.items() if re.search(pattern, line)), None)


ALL = [(name, one) for name in NAMES for one in shown(name)]
PAGES = [name for name in NAMES if any(page == name and reason(one.line) is None for page, one in ALL)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the files of the pages are."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    for name in ("my-sites", "mine", "my-network"):
        shutil.copyfile(ROOT / "scenarios/UiT-HAW.toml", folder / f"{name}.toml")
    (folder / "sizes.txt").write_text("1460\n24 KiB\n")
    (folder / "bursts.csv").write_text("0.25,64 KiB\n1,1460\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(app, RUN.split())
        assert CliRunner().invoke(app, ["bundle", "runs/demo"]).exit_code == done.exit_code == 0, done.output
    shutil.copyfile(folder / "runs/demo/observations.csv", folder / "data.csv")
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_runs_and_prints_that(
    name: str, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reader)
    for line, output in (one for page, one in ALL if page == name and reason(one.line) is None):
        done = CliRunner().invoke(app, arguments(line), env={"COLUMNS": "200"})
        assert done.exit_code == 0, f"{line}: {done.output}"
        printed = [" ".join(one.split()) for one in done.stdout.splitlines()]
        missing = [one for one in output if " ".join(one.split()) not in printed]
        assert not missing, f"{line}: {printed}"


def test_every_reason_is_needed_and_enough_is_run() -> None:
    for pattern in LEFT_OUT:
        assert any(re.search(pattern, one.line) for _, one in ALL), f"no command is left out by {pattern}"
    assert len({one.line for _, one in ALL if reason(one.line) is None}) >= 20
    assert sum(bool(one.output) for _, one in ALL if reason(one.line) is None) >= 3
