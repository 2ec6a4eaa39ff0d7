"""Tests of the agent's roles, those of a file in a guest of their own, fixtures included, as root.

The pytest of this machine collects them and runs the guests; that of a guest runs the tests (`inside.py`). So
they are without chance: the clock is the guest's, and the seed decides when they begin. What takes processor
time, or is about the machine itself, is in tests/kernel. The environment variables MPTUNE_TEST_SEED and
MPTUNE_TEST_RELEASE name another seed, and another release of the kernel.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mptune.guest import kernels, machine
from tests.plugins.needs import ROOT, Thing, lack
from tests.plugins.worlds import accepting, daemon, joined, may_manage_paths, server, world
from tests.virtual.roles import inside

__all__ = ["accepting", "daemon", "joined", "may_manage_paths", "server", "world"]

#: The package too, as it is here: this interpreter may have another one.
SOURCES = [ROOT, ROOT / "python"]
#: Real seconds that the tests of a file may take, thirty times what they do: less than pytest's own limit.
_LIMIT_S = 850.0

_processors = machine.Processors()
#: What guests' pytests reported of each test, and what they printed, by file.
_done: dict[Path, tuple[dict[str, list[dict[str, Any]]], str]] = {}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave the fixtures to the guest."""
    if inside.MARK not in os.environ:
        item.add_marker(pytest.mark.needs("guest"))
        item.fixturenames = []  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Have what the guest has of the test; the first test of a file runs them all."""
    if inside.MARK in os.environ:
        return None
    __tracebackhide__ = True
    path = pyfuncitem.path
    if path not in _done:
        _done[path] = _run([item.nodeid for item in pyfuncitem.session.items if item.path == path])
    reports, output = _done[path]
    for report in reports.get(pyfuncitem.nodeid, ()):
        for name, text in report["sections"]:
            pyfuncitem.add_report_section(report["when"], name.removeprefix("Captured "), text)
        if report["lack"] is not None:
            tested, *things = report["lack"]
            lack(tested, *(Thing(*thing) for thing in things))
        if report["outcome"] != "passed":
            raise pytest.fail.Exception(f"{report['when']}:\n{report['longrepr']}", pytrace=False)
        if report["when"] == "teardown":
            return True
    raise pytest.fail.Exception(f"the guest did not run it:\n{output}", pytrace=False)


def _run(tests: list[str]) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Reports of tests of one file, and the output."""
    seed = int(os.environ.get("MPTUNE_TEST_SEED", "1"))
    ci = {"CI": "true"} if "CI" in os.environ else {}
    work = {"tests": tests, "begin_ns": machine.begin_ns(seed), "environment": ci}
    program = kernels.find(os.environ.get("MPTUNE_TEST_RELEASE", "")).program
    try:
        with _processors.taken() as cpu:
            answered = machine.run(
                program, inside.__name__, work, seed=seed, limit_s=_LIMIT_S, cpu=cpu, beside=SOURCES
            )
    except machine.Died as died:
        return {}, str(died)
    reports, output = json.loads(answered)
    return reports, output
