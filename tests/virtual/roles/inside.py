"""The first process of a guest that runs tests: their nodes come in, what pytest reports of each goes out."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mptune.guest import inside
from tests.plugins import needs, programs, waiting

#: In the environment of the tests.
MARK = "MPTUNE_TEST_IN_GUEST"
#: Time between two looks at what is waited for, seconds: waiting takes no time here, but looking does.
LOOK_S = 0.02
HERE = Path(__file__).parent
#: Nothing of pyproject.toml, whose plugins are not there; the conftest.py of this folder, and none above.
OPTIONS = (
    *("-c", "/dev/null", f"--rootdir={needs.ROOT}", f"--confcutdir={HERE}", "--import-mode=importlib"),
    *("-p", "no:cacheprovider"),
    *("-o", "filterwarnings=error", "-o", "tmp_path_retention_policy=none"),
)


class _Reports:
    """Keeps what pytest reports, and has the first test begin when the seed wants it to."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns: int | None = begin_ns
        self.all: dict[str, list[dict[str, Any]]] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # The last line of the console is what is known of a guest that does not end.
        print(nodeid, file=sys.__stdout__, flush=True)
        if self._begin_ns is not None:
            inside.start_at(self._begin_ns)
            self._begin_ns = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.all.setdefault(report.nodeid, []).append(
            {
                "when": report.when,
                "outcome": report.outcome,
                "longrepr": report.longreprtext,
                "sections": report.sections,
                "lack": getattr(report, "lack", None),
            }
        )


class _Declared(list[str]):
    """Names that were required. Only the programs of these are on the PATH, beside what is granted to all.

    What `tests.plugins.programs` does elsewhere takes longer here than most tests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path("/run/programs")
        self._folder.mkdir()
        needs.ADMINISTRATION = os.environ["PATH"]
        os.environ["PATH"] = str(self._folder)
        self._link(programs.GRANTED)

    def extend(self, names: Iterable[str]) -> None:
        for name in names:
            self._link(needs.NEEDS[name].may_start)
            self.append(name)

    def _link(self, names: Iterable[str]) -> None:
        for name in names:
            link = self._folder / name
            if not link.is_symlink() and (path := needs.found(name)) is not None:
                link.symlink_to(path)


def work(order: dict[str, Any]) -> bytes:
    """Run the tests."""
    os.chdir(needs.ROOT)
    sys.dont_write_bytecode = True
    os.environ.update({MARK: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **order["environment"]})
    needs.granted = _Declared()
    waiting.LOOK_S = LOOK_S
    reports, output = _Reports(order["begin_ns"]), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        pytest.main([*OPTIONS, *order["tests"]], plugins=[needs, reports])
    return json.dumps([reports.all, output.getvalue()]).encode()


if __name__ == "__main__":
    inside.serve(work)
