"""Contents of the pages: runs compared, progress, damage, live connections; and that nothing is written."""

import hashlib
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mptune.bundle import reading
from mptune.bundle.making import write_bundle
from mptune.monitor import daemon, sources
from mptune.report.page import page
from mptune.report.sections import sections
from mptune.result.documents import read_answer
from mptune.result.reading import read_runs
from mptune.runner.planning import plan_trials
from mptune.runner.runner import TrialRunner
from mptune.store import Campaign, create
from mptune.store.directory import CONFIG, RESULT, STORE, working_in
from mptune.topology import Topology
from mptune.trial import Bulk, Configuration
from mptune.ui import runs
from mptune.ui.runs import Runs
from tests.monitor.reports import FakeAgent, connection, report, subflow
from tests.plugins.waiting import PATIENCE_S, until
from tests.ui.visiting import Visitor, served


def parts(visitor: Visitor) -> Mapping[str, str]:
    reply = visitor.ask("/parts")
    assert reply.status == 200, reply.text
    return json.loads(reply.text)  # type: ignore[no-any-return]


def content(place: Path) -> dict[str, str]:
    files = (file for file in sorted(place.rglob("*")) if file.is_file())
    return {str(file.relative_to(place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# ---- runs -----------------------------------------------------------------------------------------


def test_all_runs_of_a_directory_stand_in_one_table(made: Path) -> None:
    answer = read_answer(made / "answer")
    assert answer.baselines is not None and answer.baselines.now is not None
    now, gain = answer.baselines.now, answer.baselines.now.gain
    with served(made) as visitor:
        table = parts(visitor)["runs"]
        whole = visitor.ask("/").text
    assert table in whole
    for name in ("answer", "table", "below/sweep"):
        assert f'<a href="/report?run={name}">{name}</a>' in table
    assert f"<div>{answer.opm}, {answer.occ}<br>" in table and table.count("UiT-HAW") == 2
    (row,) = [row for row in table.split("<tr") if 'run=answer"' in row]
    assert now.mean is not None and f">{now.mean:.4g}"[:5] in row.replace(" ", "")
    assert gain.mean is not None and f"{100 * gain.mean / now.mean:+.0f} %" in row
    assert "a sweep makes no recommendation" in table and table.count(">finished</span>") == 3


def test_a_report_is_the_report(made: Path) -> None:
    first, second = read_runs([made / "answer", made / "table"])
    with served(made) as visitor:
        one, both = visitor.ask("/report?run=answer"), visitor.ask("/report?run=answer&run=table")
    home = ("/", "All runs")
    assert one.text == page(first, (), sections(first), home=home)
    assert both.text == page(first, [second], sections(first, [second]), home=home)
    assert '<a href="/">All runs</a> / mptune report' in one.text and 'id="compared"' in both.text


def test_a_run_alone_is_shown_too(made: Path) -> None:
    with served(made / "answer") as visitor:
        assert "1 run<" in parts(visitor)["runs"]
        assert visitor.ask("/report?run=answer").status == 200
        assert visitor.ask("/report?run=table").status == 404


def test_a_report_is_drawn_anew_when_its_run_has_changed(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "table", tmp_path / "it")
    with served(tmp_path) as visitor:
        before = visitor.ask("/report?run=it").text
        assert visitor.ask("/report?run=it").text == before
        file = tmp_path / "it" / CONFIG
        file.write_text(file.read_text().replace('"time": "2', '"time": "3'))
        assert visitor.ask("/report?run=it").text != before


def test_names_are_text_and_never_markup(made: Path, tmp_path: Path, hostile: str) -> None:
    odd = tmp_path / hostile.replace("/", "")
    shutil.copytree(made / "table", odd)
    (tmp_path / os.fsdecode(b"not-utf8-\xff")).mkdir()
    shutil.copytree(made / "table", tmp_path / os.fsdecode(b"not-utf8-\xff") / "below")
    document = json.loads((odd / CONFIG).read_text())
    document["options"]["from"] = f"{hostile}.csv"
    (odd / CONFIG).write_text(json.dumps(document))
    with served(tmp_path) as visitor:
        table = parts(visitor)["runs"]
        assert "<img" not in table and "&lt;img" in table and "not-utf8-\\udcff" in table
        links = [part.partition('"')[0] for part in table.split('href="')[1:]]
        assert len(links) == 2
        for link in links:
            assert visitor.ask(link.replace("&amp;", "&")).status == 200
        refused = visitor.ask("/report?run=%3Cscript%3E")
        assert refused.status == 404 and "<script>" not in refused.text


# ---- damage ---------------------------------------------------------------------------------------


def damage(run: Path, how: str) -> None:
    if how == "half a result":
        (run / RESULT).write_bytes((run / RESULT).read_bytes()[:300])
    elif how == "a list":
        (run / CONFIG).write_text("[]")
    elif how == "other numbers":
        (run / RESULT).write_text((run / RESULT).read_text().replace('"obs_bytes": ', '"obs_bytes": -'))
    elif how == "no store":
        (run / CONFIG).unlink()
        (run / STORE).write_bytes(b"no database" * 1000)
    elif how == "empty store":
        (run / CONFIG).unlink()
        (run / STORE).write_bytes(b"")
    elif how == "fifo":
        (run / RESULT).unlink()
        os.mkfifo(run / RESULT)


@pytest.mark.parametrize(
    "how", ["half a result", "a list", "other numbers", "no store", "empty store", "fifo"]
)
def test_a_damaged_run_is_a_line_beside_the_others(how: str, made: Path, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        shutil.copytree(made / "answer", tmp_path / name)
    damage(tmp_path / "bad", how)
    with served(tmp_path) as visitor:
        table = parts(visitor)["runs"]
        assert table.count('class="line"') == 1 and "cannot be read" in table
        assert "finished</span>" in table and "Traceback" not in table
        refused = visitor.ask("/report?run=bad")
        assert refused.status == 409 and refused.text.count('class="line"') == 1
        assert "bad" in refused.text and "Traceback" not in refused.text


def test_runs_come_and_go_while_they_are_looked_at(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "table", tmp_path / "one")
    with served(tmp_path) as visitor:
        assert "one" in parts(visitor)["runs"]
        shutil.copytree(made / "table", tmp_path / "two")
        assert "2 runs" in parts(visitor)["runs"]
        for name in ("one", "two"):
            shutil.rmtree(tmp_path / name)
        assert "There is no run here any more" in parts(visitor)["runs"]
        assert visitor.ask("/report?run=one").status == 404
        tmp_path.rmdir()
        assert "There is no run here any more" in parts(visitor)["runs"]
        tmp_path.mkdir()


def test_a_single_run_that_vanishes_is_a_line(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "table", tmp_path / "one")
    with served(tmp_path / "one") as visitor:
        shutil.rmtree(tmp_path / "one")
        assert "expected a run directory" in parts(visitor)["runs"]


@pytest.fixture(scope="module")
def bundle(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decision from measurements made elsewhere, as one file."""
    return write_bundle(made / "table", tmp_path_factory.mktemp("bundle") / "paper.zip").path


def test_the_run_in_a_bundle_stands_beside_the_others(made: Path, bundle: Path, tmp_path: Path) -> None:
    """A damaged bundle is a line, and a zip file of somebody else is left alone."""
    shutil.copytree(made / "table", tmp_path / "run")
    for name in ("paper.zip", "again.ZIP", "paper.txt"):
        shutil.copy(bundle, tmp_path / name)
    (tmp_path / "half.zip").write_bytes(bundle.read_bytes()[:5000])
    with zipfile.ZipFile(tmp_path / "holiday.zip", "w") as other:
        other.writestr("beach.txt", "sun")
    before = content(tmp_path)
    with served(tmp_path) as visitor:
        table = parts(visitor)["runs"]
        assert "4 runs" in table and table.count(">finished, in a bundle</span>") == 2
        assert "holiday" not in table and "paper.txt" not in table
        assert table.count('class="line"') == 1 and "half.zip: expected a run directory or a bundle" in table
        whole = visitor.ask("/report?run=run&run=paper.zip")
        assert whole.status == 200 and 'id="compared"' in whole.text
        refused = visitor.ask("/report?run=half.zip")
        assert refused.status == 409 and refused.text.count('class="line"') == 1
    assert content(tmp_path) == before


def test_a_bundle_alone_is_shown_too(bundle: Path) -> None:
    with served(bundle) as visitor:
        assert "1 run<" in parts(visitor)["runs"]
        assert visitor.ask("/report?run=paper.zip").status == 200
        assert visitor.ask("/report?run=table").status == 404


def test_a_bundle_keeps_to_the_limits_of_bundles(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for its row in the table; an error names the bundle."""
    shown = Runs(bundle.parent)
    monkeypatch.setattr(reading, "_UNPACKED", 100)
    assert [run.trouble for run in shown.all()] == [""]  # it has not changed
    (run,) = Runs(bundle.parent).all()
    expected = "table/config.json: expected a smaller file when it is unpacked, found more"
    assert run.trouble == f"{bundle}: {expected}"


def test_what_else_is_there_is_no_run(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "table", tmp_path / "run")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / CONFIG).write_text("{}")
    (tmp_path / ".hidden").mkdir()
    shutil.copytree(made / "table", tmp_path / ".hidden" / "run")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(Runs(tmp_path).names()) == ["run"]


def test_nothing_is_written(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "runs")
    unfinished = tmp_path / "runs" / "unfinished"
    shutil.copytree(made / "answer", unfinished)
    (unfinished / CONFIG).unlink()
    before = content(tmp_path)
    with served(tmp_path / "runs") as visitor:
        for path in ("/", "/parts", "/report?run=answer", "/report?run=below/sweep"):
            assert visitor.ask(path).status == 200
    assert content(tmp_path) == before


# ---- progress -------------------------------------------------------------------------------------


@pytest.mark.needs("linux")  # /proc/locks
def test_the_progress_of_a_campaign_at_work(
    network: Topology, fake_testbed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_QUICK_S", PATIENCE_S)
    trials = plan_trials(
        network,
        [
            Configuration(pm="fullmesh", cc="cubic", buffer_bytes=i * 2**20, workload=Bulk(duration_ns=10**9))
            for i in range(1, 6)
        ],
        purpose="sweep",
        runs=2,
        base_seed=1,
    )
    place = tmp_path / "busy"
    place.mkdir()
    about = Campaign(name="busy <b>", settings={}, environment={}, created="2026-01-02T03:04:05")
    with create(place / STORE, about) as store, served(tmp_path) as visitor:
        assert "No trial has begun" in parts(visitor)["progress"]
        TrialRunner(fake_testbed, 1, store).measure(trials[:4])
        store.expect("sweep", 0, len(trials) - 4)
        store.flush()
        until(lambda: "4 of 10" in parts(visitor)["progress"])
        seen = parts(visitor)
        assert f"running (process {os.getpid()})" in seen["progress"] and "4 of 10" in seen["progress"]
        assert 'max="10" value="4"' in seen["progress"] and "2026-01-02 03:04" in seen["progress"]
        assert "busy &lt;b&gt;" in seen["progress"] and "4 trials so far" in seen["runs"]
        TrialRunner(fake_testbed, 1, store).measure(trials)
        store.flush()
        until(lambda: "10 of 10" in parts(visitor)["progress"])
        refused = visitor.ask("/report?run=busy")
        assert refused.status == 409 and "mptune campaign resume" in refused.text
    with served(tmp_path) as visitor:
        seen = parts(visitor)
    assert "busy: interrupted" in seen["progress"] and "mptune campaign resume" in seen["progress"]


def test_a_store_that_takes_long_is_looked_at_seldom(
    network: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look of 10 s at a store that is being filled, and another one only 200 s later."""
    now, looks = [0.0], []
    real = runs._at_work

    def slow(path: Path, process: int | None) -> runs.AtWork:
        looks.append(now[0])
        now[0] += 10.0
        return real(path, process)

    monkeypatch.setattr(runs, "_at_work", slow)
    monkeypatch.setattr("mptune.ui.runs.time.monotonic", lambda: now[0])
    with create(tmp_path / STORE, Campaign(name="a", settings={}, environment={})):
        seen = Runs(tmp_path)
        for _ in range(25):
            assert seen.all()[0].at_work is not None
            now[0] += 10.0
    assert looks == [0.0, 200.0]


@pytest.mark.needs("linux")
def test_who_works_in_a_directory_is_known_without_taking_its_lock(tmp_path: Path) -> None:
    assert working_in(tmp_path) is None
    with create(tmp_path / STORE, Campaign(name="a", settings={}, environment={})):
        assert working_in(tmp_path) == os.getpid()
    assert (tmp_path / f"{STORE}.lock").exists() and working_in(tmp_path) is None
    (tmp_path / f"{STORE}.lock").write_text("many")
    assert working_in(tmp_path) is None


# ---- connections ----------------------------------------------------------------------------------


def test_without_a_daemon_nothing_is_started(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(daemon.VARIABLE, str(tmp_path / "none.sock"))
    monkeypatch.setattr(sources, "started", lambda *_: pytest.fail("started"))
    with served(made) as visitor:
        assert "No daemon answers" in parts(visitor)["connections"]


def test_connections_beside_the_daemon_are_those_of_watch(
    made: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, ended = FakeAgent(), []

    @contextmanager
    def started(targets: Mapping[str, str], interval_ns: int) -> Iterator[dict[str, FakeAgent]]:
        assert targets == {}
        yield {"": agent}
        ended.append(True)

    monkeypatch.setattr(sources, "started", started)
    with served(made) as visitor:
        assert "Waiting for the first report" in parts(visitor)["connections"]
        there, _ = listener.accept()
        event = {"at_ns": 1, "what": "demoted <eth2>", "why": "losses"}
        there.sendall(json.dumps(report(1, events=[event])).encode() + b"\n")
        flows = subflow(1), subflow(2, backup=True, held=True, cc="mptune_prefer")
        agent.say(report(1, connection(1, *flows), limits=["processes: they take root"]))
        agent.say(report(2, connection(1, *flows, acked_bytes=10**6, command="<curl>")))
        seen = parts(visitor)["connections"]
        assert (
            "&lt;curl&gt; &gt; 10.9.0.1:443" in seen and ">8.00<" in seen and "demoted &lt;eth2&gt;" in seen
        )
        assert seen.count('class="subflow"') == 2 and "held: paths before it have room" in seen
        agent.say({"event": "error", "reason": "out of\nluck"})
        assert "out of" in parts(visitor)["connections"]
        there.close()
        assert "No daemon answers" in parts(visitor)["connections"]
    assert ended
