"""Runs to report on: small, simulated, of a network whose names would do harm if they were not escaped."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from mptune.campaign.definition import read_definition
from mptune.campaign.execution import start
from mptune.report import files
from mptune.result.reading import read_run
from mptune.result.run_data import RunData
from tests.plugins.browsing import launched
from tests.report.making import sections

#: Names of a site and of an ISP. Abbreviations are restricted, names are not.
SITE = "</script><script>alert(1)</script>"
ISP = "<img src=x onerror=alert(2)> & \"quoted\" 'twice'"

OPTIMISE = """
topology = "hostile.toml"
buffer_mode = "fixed"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic", "reno"]
buffers = "0.03,0.07,0.15,0.3,0.5"
[trials]
strategy = "grid"
runs = 3
duration = "10s"
[impact]
runs = 3
duration = "3s"
[decision]
resamples = 40
confirm_runs = 3
"""
LEARNED = """
topology = "hostile.toml"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic", "reno"]
buffers = "0.03,0.05,0.1,0.2,0.5"
[trials]
strategy = "adaptive"
duration = "3s"
[decision]
off_by = 0
"""
TRANSFERS = """
topology = "hostile.toml"
kind = "sweep"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic", "reno"]
buffers = "0.1,0.5"
transfer = ["64 KiB", "16 KiB"]
[trials]
runs = 3
"""
PATHS = """
topology = "hostile.toml"
kind = "sweep"
[factors]
pm = ["fullmesh"]
cc = ["cubic", "reno"]
buffers = "0.1,0.5"
initial_path = ["P-D", "T-D"]
[trials]
runs = 3
duration = "2s"
[repeat]
every = "1h"
for = "2h"
"""
MESSAGES = """
topology = "hostile.toml"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic", "reno"]
buffers = "0.02,0.5"
[trials]
workload = "messages:200B/50ms"
duration = "5s"
runs = 3
[decision]
confirm_runs = 3
at_most_gap = "10 s"
"""
FRONT = MESSAGES.replace('at_most_gap = "10 s"', 'objective = "throughput,delay:p99"')
CALLS = """
topology = "hostile.toml"
kind = "sweep"
[factors]
pm = ["fullmesh", "pcdc"]
cc = ["cubic", "reno"]
buffers = "0.02,0.5"
[trials]
workload = "messages:200B/50ms"
duration = "5s"
runs = 3
[pcdc]
active = ["P-D"]
"""


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    """Reports with the sections that are there already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sections", sections)
        yield


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run directory for each of the definitions below."""
    place = tmp_path_factory.mktemp("reported")
    text = _scenario("UiT-HAW").read_text(encoding="utf-8")
    text = text.replace('"Universitetet i Tromsø"', json.dumps(SITE)).replace('"PowerTech"', json.dumps(ISP))
    (place / "hostile.toml").write_text(text, encoding="utf-8")
    definitions = {
        "optimised": OPTIMISE,
        "learned": LEARNED,
        "transfers": TRANSFERS,
        "paths": PATHS,
        "messages": MESSAGES,
        "front": FRONT,
        "calls": CALLS,
    }
    for name, content in definitions.items():
        file = place / f"{name}.toml"
        file.write_text(content)
        start(read_definition(file), place / name, wait=_at_once)
    return place


def _scenario(name: str) -> Path:
    import mptune

    return Path(mptune.__file__).parent / "scenarios" / f"{name}.toml"


def _at_once(time: datetime) -> None:
    """A repeated campaign need not wait."""


@pytest.fixture
def site_name() -> str:
    return SITE


@pytest.fixture
def isp_name() -> str:
    return ISP


@pytest.fixture(scope="session")
def optimised(runs: Path) -> RunData:
    return read_run(runs / "optimised", "optimised")


@pytest.fixture(scope="session")
def learned(runs: Path) -> RunData:
    """By the adaptive strategy."""
    return read_run(runs / "learned", "learned")


@pytest.fixture(scope="session")
def transfers(runs: Path) -> RunData:
    return read_run(runs / "transfers", "transfers")


@pytest.fixture(scope="session")
def paths(runs: Path) -> RunData:
    return read_run(runs / "paths", "paths")


@pytest.fixture(scope="session")
def messages(runs: Path) -> RunData:
    """An answer for messages."""
    return read_run(runs / "messages", "messages")


@pytest.fixture(scope="session")
def front(runs: Path) -> RunData:
    """An answer for messages with two objectives."""
    return read_run(runs / "front", "front")


@pytest.fixture(scope="session")
def calls(runs: Path) -> RunData:
    """A sweep with messages."""
    return read_run(runs / "calls", "calls")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def file(
    optimised: RunData,
    learned: RunData,
    transfers: RunData,
    paths: RunData,
    messages: RunData,
    front: RunData,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Pages of answers by either strategy, of a sweep, and of runs compared."""
    place = tmp_path_factory.mktemp("pages")
    pages = {
        "answer": [optimised],
        "learned": [learned],
        "transfers": [transfers],
        "paths": [paths],
        "messages": [messages],
        "front": [front],
        "compared": [optimised, paths],
    }
    return {name: files.write_report(page, place / name, figures=False)[0] for name, page in pages.items()}
