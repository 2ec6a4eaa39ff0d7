"""Measuring again what no longer holds: with a stand-in for the daemon, and the simulator as the network."""

import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from datetime import time as Time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mptune.campaign.definition import Definition
from mptune.daemon import remeasure
from mptune.daemon.policies import Policies, Remeasure
from mptune.daemon.remeasure import ANSWER, RENEWED, RUN
from mptune.errors import InputError, MptuneError
from mptune.optimisation.budget import Budget
from mptune.optimisation.options import OptimiseOptions
from mptune.runner.progress import Reporter
from tests.apply.worlds import make_runs

NIGHT = datetime.fromisoformat("2026-11-20T03:00:00+00:00")
HOURS = Remeasure(begin=Time(2), end=Time(5), max_data_bytes=8_000_000, budget_ns=60_000_000_000)
QUIET = Reporter(quiet=True)
SECOND = 1_000_000_000
LABELS = ("F-T", "F-V", "M-T", "M-V")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("measured")
    make_runs(place, "adaptive")
    return place / "adaptive"


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Answers as the daemon does, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, path: Path, outdated: dict[str, bool]) -> None:
        super().__init__(str(path), Handler)
        self.outdated, self.refuses = outdated, False
        self.asked: list[dict[str, Any]] = []
        self.suspended: set[str] = set()


class Handler(socketserver.StreamRequestHandler):
    server: Daemon

    def handle(self) -> None:
        mine: set[str] = set()
        for line in self.rfile:
            order = json.loads(line)
            self.server.asked.append(order)
            answer: dict[str, Any] = {"event": "done"}
            if order["action"] == "status":
                rows = [{"name": name, "outdated": old} for name, old in self.server.outdated.items()]
                answer = {"event": "status", "policies": rows}
            if order["action"] == "suspend":
                mine.add(order["policy"])
                self.server.suspended.add(order["policy"])
            if order["action"] == "reload" and self.server.refuses:
                answer = {"event": "refused", "reason": "policy.json: wrong"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")
        self.server.suspended -= mine


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "daemon.sock", {"my-sites": True, "other": False}) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def policies(tmp_path: Path, run: Path) -> Policies:
    place = tmp_path / "my-sites"
    place.mkdir()
    shutil.copytree(run, place / RUN)
    answer = {
        "version": 1,
        "run": "my-sites",
        "measured_at": "2026-01-01T00:00:00Z",
        "pm": "fullmesh",
        "paths": [
            {"label": label, "local": 0, "remote": 0, "pairs": [["10.0.1.2", "10.9.0.1"]]} for label in LABELS
        ],
        "congestion": "reno",
        "expected_mbit_s": 999.0,
    }
    (place / ANSWER).write_text(json.dumps(answer))
    return Policies(
        file=tmp_path / "policy.toml",
        metrics=None,
        socket=tmp_path / "daemon.sock",
        runs={"my-sites": place, "other": tmp_path / "other"},
        remeasure=HOURS,
    )


def files(place: Path) -> dict[str, bytes]:
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def test_the_new_answer_takes_the_place_of_the_old(daemon: Daemon, policies: Policies) -> None:
    (done,) = remeasure.remeasure(policies, QUIET, now=NIGHT)
    assert done.measured, done
    place = policies.runs["my-sites"]
    new = json.loads((place / ANSWER).read_text())
    result = json.loads((place / RUN / "result.json").read_text())
    assert (new["pm"], new["congestion"]) == (result["opm"], result["occ"])
    assert new["measured_at"] > "2026-01-01T00:00:00Z" and new["expected_mbit_s"] < 20
    assert [path["label"] for path in new["paths"]] == list(LABELS)
    assert [order["action"] for order in daemon.asked] == ["status", "suspend", "reload", "say"]
    assert daemon.asked[-1]["what"] == "measured again" and "fullmesh with reno for 999" in done.why
    assert sorted(entry.name for entry in place.iterdir()) == [ANSWER, RUN]
    assert (place / RUN / RENEWED).read_bytes() == (place / ANSWER).read_bytes()


def failing(definition: Definition, directory: Path, reporter: Reporter) -> None:
    directory.mkdir()
    (directory / "half").touch()
    raise MptuneError("the other host is away")


@pytest.mark.parametrize("how", ["fails", "refused"])
def test_a_failure_leaves_all_as_it_was_and_is_reported(
    daemon: Daemon, policies: Policies, run: Path, how: str
) -> None:
    place = policies.runs["my-sites"]
    before = files(place)
    daemon.refuses = how == "refused"

    def same(definition: Definition, directory: Path, reporter: Reporter) -> None:
        assert daemon.suspended == {"my-sites"}
        shutil.copytree(run, directory)

    measure = failing if how == "fails" else same
    (done,) = remeasure.remeasure(policies, QUIET, now=NIGHT, measure=measure)
    assert not done.measured
    assert files(place) == before
    assert sorted(entry.name for entry in place.iterdir()) == [ANSWER, RUN]
    order = daemon.asked[-1]
    assert (order["action"], order["policy"], order["what"]) == ("say", "my-sites", "not measured again")
    expected = "the other host is away" if how == "fails" else "the daemon: policy.json: wrong"
    assert order["why"] == f"{expected}; the answer is as before"


def test_without_the_run_the_error_names_what_is_missing(daemon: Daemon, policies: Policies) -> None:
    shutil.rmtree(policies.runs["my-sites"] / RUN)
    (done,) = remeasure.remeasure(policies, QUIET, now=NIGHT)
    assert "expected the run of the answer, to run it again: cp -r runs/my-sites" in done.why


def test_only_within_the_hours(policies: Policies) -> None:
    noon = NIGHT.replace(hour=12)
    with pytest.raises(InputError, match=r"remeasure.hours: expected a time in 02:00-05:00, found 12:00"):
        remeasure.remeasure(policies, QUIET, now=noon)


def test_nothing_is_begun_that_cannot_end_in_time(daemon: Daemon, policies: Policies) -> None:
    (done,) = remeasure.remeasure(policies, QUIET, now=NIGHT.replace(hour=4, minute=59), measure=failing)
    assert done.why == "too little of the hours is left"


def test_the_question_is_asked_again_within_the_limits(run: Path) -> None:
    definition = remeasure.definition_of(run)
    limited = remeasure.limited(definition, HOURS)
    assert isinstance(limited.options, OptimiseOptions)
    assert limited.options.strategy == "adaptive" and limited.options.budget_ns == HOURS.budget_ns
    assert limited.options.ccs == definition.options.ccs and limited.topology == definition.topology
    limited.options.check()


@pytest.mark.parametrize(
    ("lasted_ns", "shortened_from_ns", "lasts_ns"),
    [
        pytest.param(30 * SECOND, None, 20 * SECOND, id="usual"),
        pytest.param(28 * SECOND, 30 * SECOND, 20 * SECOND, id="shortened"),
        pytest.param(10 * SECOND, None, 10 * SECOND, id="chosen by the user"),
    ],
)
def test_usual_trials_are_shortened_for_a_small_budget(
    run: Path, lasted_ns: int, shortened_from_ns: int | None, lasts_ns: int
) -> None:
    definition = remeasure.definition_of(run)
    options = replace(definition.options, duration_ns=lasted_ns, shortened_from_ns=shortened_from_ns)
    limited = remeasure.limited(replace(definition, options=options), HOURS)
    repeated = limited.options
    assert isinstance(repeated, OptimiseOptions)

    def fitted(budget_s: int) -> Budget | None:
        with suppress(InputError):
            options = replace(repeated, budget_ns=budget_s * SECOND)
            return Budget(limited.topology, options, set_up_s=0.0).fitted()
        return None

    smallest = next(budget for budget in map(fitted, range(10, 10_000)) if budget is not None)
    assert smallest.options.duration_ns == lasts_ns


def test_data_are_rationed_by_rate(run: Path) -> None:
    topology = remeasure.definition_of(run).topology
    rationed = remeasure.rationed(topology, 14_000_000).sender.interfaces
    assert [options.max_data_bytes for options in rationed] == [10_000_000, 4_000_000]
    again = remeasure.rationed(remeasure.rationed(topology, 7_000_000), 14_000_000).sender.interfaces
    assert [options.max_data_bytes for options in again] == [5_000_000, 2_000_000]
