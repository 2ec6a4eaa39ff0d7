"""`mptune apply --verify` when it does not go well: no gain, Ctrl-C, a machine that is lost, a limit."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mptune.apply import plan, source, verify
from mptune.errors import MptuneError
from mptune.machines.ssh import VARIABLE
from mptune.topology import load
from tests.apply.worlds import altered, make_runs
from tests.hosts.world import World
from tests.plugins.program import command_line
from tests.plugins.waiting import until

#: Short, and with noise that decides nothing.
BRIEF = ("--runs", "2", "--seconds", "1")
HOW = verify.How(runs=2, seconds=1)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answered")
    make_runs(place, "grid")
    return place / "grid"


@pytest.fixture(autouse=True)
def _ssh(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(world.bin / "ssh"))


@pytest.fixture
def run(world: World, answered: Path, tmp_path: Path) -> Path:
    """A run that promises 26 Mbit/s by a full mesh with Cubic."""
    (tmp_path / "world.toml").write_text(world.topology())
    return of(world, answered, tmp_path / "run", [path.label for path in load(tmp_path / "world.toml").paths])


def of(world: World, answered: Path, place: Path, subflows: list[str], **answer: Any) -> Path:
    chosen: dict[str, Any] = {
        "protocol": "mptcp",
        "opm": "fullmesh",
        "occ": "cubic",
        "subflows": subflows,
        "standby": [],
        "buffer_mode": "auto",
        "obs_bytes": 1 << 20,
        "confirmed": {"mean": 26.0, "low": 25.0, "high": 27.0, "runs": 3},
    }
    return altered(answered, place, network=world.topology(), **(chosen | answer))


def reverters(world: World) -> list[int]:
    return [
        pid
        for machine in (world.alice, world.bob)
        for pid, _, words in machine.processes()
        if "reverter" in words
    ]


@pytest.mark.measures("how fast a short transfer is")
def test_without_the_gain_everything_is_as_before(world, answered, tmp_path):
    """The answer is what the kernel does anyway, and promises more."""
    alone = of(world, answered, tmp_path / "alone", ["A-X"], opm="default")
    with world.unchanged():
        done = subprocess.run(
            command_line("apply", alone, "--verify", *BRIEF), capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "The gain is not confirmed: the settings do not stay." in done.stdout
    assert "S was rolled back" in done.stdout and "R was rolled back" in done.stdout


@pytest.mark.parametrize(
    ("workload", "asked", "objective"),
    [
        ("messages:200B/20ms", "delay:p99", "delay p99"),
        ("requests:200B/50KiB", "response:mean", "response mean"),
    ],
)
def test_an_answer_by_an_objective_is_verified_by_it(world, tmp_path, workload, asked, objective):
    """The promise is one that nothing keeps: everything is as before, whatever the machine is doing."""
    (tmp_path / "world.toml").write_text(world.topology() + '[core]\nrtt = "60 ms"\n')
    words = ("optimise", tmp_path / "world.toml", "--workload", workload, "--objective", asked)
    brief = ("--duration", "2s", "--runs", "2", "--cc", "cubic", "--pm", "fullmesh", "--buffers", "0.1")
    run = tmp_path / "run"
    subprocess.run(command_line(*words, *brief, "--out", run, "--quiet"), capture_output=True, check=True)
    result = json.loads((run / "result.json").read_text())
    result["figures"][0]["recommended"]["mean"] = 0.001
    (run / "result.json").write_text(json.dumps(result))
    with world.unchanged():
        line = command_line("apply", run, "--verify", "--json", *BRIEF)
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    verdict = json.loads(done.stdout)["verdict"]
    assert "The run promises 0.001" in verdict["text"]
    assert (verdict["objective"], verdict["unit"]) == (objective, "ms")
    # A request and its response take a round trip at least, a message half of one.
    rtt_ms = min(2 * uplink.uplink.delay_ms for uplink in world.uplinks["alice"])
    sides = [verdict[name] for name in ("before", "after")]
    for side in sides:
        assert len(side["values"]) == 2 and all(value >= rtt_ms / 2 for value in side["values"]), rtt_ms
        assert side["last"]["mptcp"] and side["last"]["cc"] and side["last"]["bytes"]
    assert len(sides[0]["last"]["subflows"]) == 1


def test_ctrl_c_rolls_back(world, run):
    with world.unchanged():
        program = subprocess.Popen(
            command_line("apply", run, "--verify", "--runs", "5", "--seconds", "2"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert program.stderr is not None
        next(line for line in program.stderr if line.startswith("after: 1 of 5"))
        assert reverters(world)
        program.send_signal(signal.SIGINT)
        _, complaint = program.communicate(timeout=40)
        assert program.returncode == 130
        assert "mptune: S was rolled back" in complaint and "mptune: R was rolled back" in complaint


def test_a_machine_that_is_lost_goes_back_by_itself_and_the_other_one_at_once(world, run, monkeypatch):
    """Bob's sessions end after the settings are made."""
    monkeypatch.setattr(verify, "_SLACK_S", 14.0)
    outline, setups = plan.outline(run), source.from_run(run, ())

    def lose(phase: str, done: int, total: int) -> None:
        if (phase, done) == ("after", 1):
            world.bob.kill_sshd()

    with world.unchanged():
        with pytest.raises(MptuneError) as error:
            verify.apply(outline, setups, HOW, run="a run", progress=lose)
        reason = str(error.value)
        assert "S was rolled back" in reason
        assert "R was not reached" in reason and "rolls back automatically" in reason
        world.bob.start_sshd()
        until(lambda: not reverters(world), "bob to go back")
        world.bob.run("rm", "-rf", "/var/lib/mptune")  # the report that it did


def test_settings_that_are_there_already_are_not_what_programs_got_before(world, run):
    with world.unchanged():
        words = command_line("apply", run)
        subprocess.run(words, capture_output=True, check=True)
        done = subprocess.run([*words, "--verify", *BRIEF], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "expected machines without settings of mptune" in done.stderr
        subprocess.run(command_line("rollback", run), capture_output=True, check=True)


def test_a_policy_goes_to_who_sends_and_comes_back(world, run):
    """No daemon runs there: that is reported. What somebody else wrote into the file stays."""
    world.alice.sh("mkdir -p /etc/mptune; echo '# mine' > /etc/mptune/policy.toml")
    with world.unchanged():
        done = subprocess.run(
            command_line("apply", run, "--daemon", "--json"), capture_output=True, text=True, check=True
        )
        document = json.loads(done.stdout)
        assert document["S"]["daemon"] == {"state": "absent"}
        text = world.alice.sh("cat /etc/mptune/policy.toml")
        assert text.startswith("# mine\n") and 'run = "/var/lib/mptune/policies/run"' in text
        answer = json.loads(world.alice.sh("cat /var/lib/mptune/policies/run/policy.json"))
        pairs = [path["pairs"][0] for path in answer["paths"]]
        first, second = (world.uplink("alice", index).ipv4 for index in (0, 1))
        assert pairs == [[first, world.uplink("bob", 0).ipv4], [second, world.uplink("bob", 0).ipv4]]
        assert not world.alice.sh("ip mptcp endpoint show").strip()
        subprocess.run(command_line("rollback", run), capture_output=True, check=True, env={**os.environ})
    world.alice.sh("rm -r /etc/mptune")
