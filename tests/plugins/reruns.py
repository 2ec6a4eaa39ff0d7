"""Tests that measure a real network: run again when they fail, and every repetition is accounted for.

`@pytest.mark.measures("a lost SYN costs a second")` says what is random about the kernel there, in one line;
without that line the tests do not start. Such a test has three tries. Passing at the second is shown in the
summary; one that needs the third fails all the same: what fails twice of three times is not an accident.
"""

from collections import Counter

import pytest

#: A defect fails at all of them; passing at the last counts as failed.
TRIES = 3

#: How the tries of a test failed.
_FAILURES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers",
        f"measures(why): may be repeated for this reason; what needs all {TRIES} tries fails",
    )


#: What is missing is missing the next time too.
_again = pytest.mark.flaky(reruns=TRIES - 1, rerun_except=["^Missing: "])  # noqa: TID251 - the one place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow repetitions to those that say why."""
    for item in items:
        mark = item.get_closest_marker("measures")
        if mark is not None:
            _why(item, mark)
            item.add_marker(_again)


def _why(item: pytest.Item, mark: pytest.Mark) -> str:
    match mark.args:
        case (str(why),) if why.strip() and "\n" not in why and not mark.kwargs:
            return why
    raise pytest.UsageError(f"{item.nodeid}: measures: expected one line on what is random there")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Note why a test may be repeated, and let the last try fail in any case."""
    report = yield
    mark = item.get_closest_marker("measures")
    if mark is not None:
        report.measures = mark.args[0]
        failures = item.stash.setdefault(_FAILURES, [])
        if report.failed:
            failures.append(report.longreprtext)
        elif report.when == "call" and len(failures) >= TRIES - 1:
            report.outcome = "failed"
            report.longrepr = "\n\n".join([*failures, f"It passed only at the last of {TRIES} tries."])
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter):
    """Say how many repetitions were needed, by which tests, and why those may."""
    yield
    repeated = Counter((one.nodeid, one.measures) for one in terminalreporter.stats.get("rerun", []))
    terminalreporter.write_line(f"Repetitions needed: {repeated.total() or 'none'}.")
    for (test, why), count in repeated.items():
        terminalreporter.write_line(f"  {count} x {test}: {why}")
