"""`mptune apply`, `status` and `rollback`: what they ask the agent, and what they print of its answers."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

from mptune.apply import apply, kernels, records, source
from mptune.apply import plan as plans
from mptune.apply.apply import HERE, Target
from mptune.cli import app
from mptune.errors import InputError, MptuneError
from mptune.linux import agent, bpf
from mptune.machines import ssh

runner = CliRunner()

FAKE = Path(__file__).with_name("fake_settings_agent.py")
WMEM = {"kind": "sysctl", "name": "net.ipv4.tcp_wmem", "value": "1 2 3"}
BEFORE = {**WMEM, "value": "4 5 6"}
NOTHING: dict[str, Any] = {
    "event": "status",
    "state": "nothing",
    "run": None,
    "applied_s": None,
    "confirm": None,
    "settings": [],
    "foreign": [],
    "reverted": None,
}
APPLIED: dict[str, Any] = {
    "event": "applied",
    "run": "a run",
    "settings": [{"setting": WMEM, "before": BEFORE, "changed": True}],
    "dropped": [],
    "confirm": None,
}
WAITING = {"left_s": 599.9, "within_s": 600, "by": "process"}
ANSWERS: dict[str, Any] = {
    "read": {"event": "read", "present": [BEFORE], "foreign": []},
    "apply": APPLIED,
    "confirm": {"event": "confirmed", "waited": True},
    "status": NOTHING,
    "rollback": {"event": "rolled-back", "restored": ["net.ipv4.tcp_wmem"], "kept": []},
}


class Fake(NamedTuple):
    """A stand-in for the agent: its answers by action, and the orders it has received."""

    answers: Callable[..., None]
    heard: Callable[[], list[dict[str, Any]]]


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Fake:
    answers, heard = tmp_path / "answers.json", tmp_path / "heard"
    monkeypatch.setenv("MPTUNE_FAKE_ANSWERS", str(answers))
    monkeypatch.setenv("MPTUNE_FAKE_HEARD", str(heard))
    monkeypatch.setattr(agent, "command", lambda role, *_: [sys.executable, str(FAKE), role])

    def say(**given: Any) -> None:
        answers.write_text(json.dumps({**ANSWERS, **given}))

    def orders() -> list[dict[str, Any]]:
        lines = heard.read_text().splitlines() if heard.exists() else []
        parsed = [json.loads(line) for line in lines]
        assert {role for role, _ in parsed} <= {"settings"}
        return [order for _, order in parsed]

    say()
    return Fake(say, orders)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps([WMEM]))
    return path


def run(*words: object) -> Any:
    return runner.invoke(app, [str(word) for word in words])


def test_settings_of_a_file_are_read_and_then_applied(fake, file):
    result = run("apply", "--settings", file, "--confirm-within", "10min", "--despite", "TuneD,bpftune")
    assert result.exit_code == 0, result.output
    read, applied = fake.heard()
    assert read == {"action": "read", "settings": [WMEM]}
    assert applied == {
        "action": "apply",
        "settings": [WMEM],
        "run": str(file),
        "confirm_within_s": 600,
        "despite": ["TuneD", "bpftune"],
        "force": False,
    }
    assert "net.ipv4.tcp_wmem  4 5 6   1 2 3" in result.output


def test_how_to_confirm_and_how_to_go_back_is_printed(fake, file):
    assert "mptune rollback puts everything back" in run("apply", "--settings", file).output
    fake.answers(apply={**APPLIED, "confirm": WAITING})
    output = run("apply", "--settings", file, "--confirm-within", "10min").output
    assert "Everything is put back in 600 s unless you confirm: mptune apply --confirm" in output
    assert run("apply", "--confirm").output == "this machine: the settings stay\n"
    assert fake.heard()[-1] == {"action": "confirm"}


def test_json_has_everything_by_machine(fake, file):
    document = json.loads(run("apply", "--settings", file, "--json").output)
    assert document == {"this machine": {key: value for key, value in APPLIED.items() if key != "event"}}
    assert json.loads(run("status", "--json").output)["this machine"]["state"] == "nothing"
    assert json.loads(run("rollback", "--json").output)["this machine"]["kept"] == []


@pytest.mark.parametrize(
    ("because", "code", "remedy"),
    [
        ("input", 2, ""),
        ("kernel", 1, ""),
        ("privilege", 1, ""),
        ("drift", 1, "--force"),
        ("journal", 1, "nothing"),
    ],
)
def test_a_refusal_is_one_line_with_its_exit_code(fake, file, because, code, remedy):
    fake.answers(apply={"event": "refused", "because": because, "reason": "so it is"})
    result = run("apply", "--settings", file)
    assert result.exit_code == code and result.stdout == ""
    assert result.stderr.startswith("mptune: error: this machine: so it is")
    assert remedy in result.stderr and result.stderr.count("\n") == 1


def test_other_programs_are_named_before_anything_is_applied(fake, file):
    fake.answers(read={**ANSWERS["read"], "foreign": ["TuneD"]})
    result = run("apply", "--settings", file)
    assert result.exit_code == 1 and "TuneD manages the same settings" in result.stderr
    assert "--despite NAME" in result.stderr and [order["action"] for order in fake.heard()] == ["read"]
    assert run("apply", "--settings", file, "--despite", "TuneD").exit_code == 0


def test_what_was_not_put_back_is_listed_and_is_no_success(fake):
    kept = [{"name": "net.ipv4.tcp_wmem", "reason": "somebody else has set it to 7"}]
    fake.answers(rollback={"event": "rolled-back", "restored": [], "kept": kept})
    result = run("rollback", "--force")
    assert result.exit_code == 1 and fake.heard() == [{"action": "rollback", "force": True}]
    assert "not put back: net.ipv4.tcp_wmem: somebody else has set it to 7" in result.output
    fake.answers(rollback={"event": "rolled-back", "restored": [], "kept": []})
    assert run("rollback").output == "this machine: there was nothing to put back\n"


def test_the_status_has_the_state_of_every_setting(fake):
    standing = {"setting": WMEM, "before": BEFORE, "present": {**WMEM, "value": "7"}, "state": "changed"}
    reverted = {
        "run": "x",
        "at_s": 0,
        "within_s": 60,
        "restored": ["a", "b"],
        "kept": [{"name": "c", "reason": "d"}],
    }
    status = {"state": "applied", "run": "a run", "applied_s": 0, "confirm": WAITING, "foreign": ["mptcpd"]}
    fake.answers(status={**NOTHING, **status, "settings": [standing], "reverted": reverted})
    output = run("status").output
    for words in (
        "this machine: settings of a run since 19",
        "4 5 6   1 2 3    7    changed by somebody else",
        "managing the same settings: mptcpd",
        "unless you confirm: mptune apply --confirm",
        "because nobody confirmed x within 60 s: 2 settings are as before",
        "not put back: c: d",
    ):
        assert words in output, output
    fake.answers(status={**NOTHING, "state": "rebooted"})
    assert "restarted since settings were applied" in run("status").output
    fake.answers(status={**NOTHING, "state": "unfinished"})
    assert "were not finished" in run("status").output


def test_an_agent_that_dies_is_an_error_in_one_line(fake, monkeypatch):
    monkeypatch.setattr(agent, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    result = run("status")
    assert result.exit_code == 1 and "settings on this machine ended with status 3" in result.stderr


# Where settings come from


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "expected JSON"),
        ("{}", "expected a list of settings, or one for each machine"),
        ("[]", "expected a list of settings"),
        ('[{"name": "x"}]', '[0]: expected an object with "kind"'),
        ('{"alice": [{"kind": 7}]}', 'alice[0]: expected an object with "kind"'),
        ('{"alice": {}}', "alice: expected a list of settings"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, content, words):
    path = tmp_path / "settings.json"
    path.write_text(content)
    result = run("apply", "--settings", path)
    assert result.exit_code == 2 and f"{path}: " in result.stderr and words in result.stderr


def test_a_missing_file_and_options_that_do_not_fit(tmp_path, file):
    for words, expected in (
        (("apply", "--settings", tmp_path / "none.json"), "No such file"),
        (("apply",), "expected a run, or --settings FILE"),
        (("apply", "runs/x", "--settings", file), "expected a run, or --settings FILE"),
        (("apply", "--confirm", "--settings", file), "found --settings"),
        (("apply", "--confirm", "--confirm-within", "1min"), "found --confirm-within"),
        (("apply", "--settings", file, "--confirm-within", "0s"), "positive multiple of 1 s"),
        (("apply", "--settings", file, "--host", "a", "--host", "b"), "a list for each --host"),
    ):
        result = run(*words)
        assert result.exit_code == 2 and expected in result.stderr, result.stderr


def test_a_file_names_machines(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"alice": [WMEM], "bob": [BEFORE]}))
    assert [setup.target for setup in source.from_file(path, [])] == [
        Target("alice", "alice"),
        Target("bob", "bob"),
    ]
    (setup,) = source.from_file(path, ["bob"])
    assert setup.target == Target("bob", "bob")
    with pytest.raises(InputError, match="one of alice, bob, found 'carol'"):
        source.from_file(path, ["carol"])
    path.write_text(json.dumps([WMEM]))
    assert [setup.target for setup in source.from_file(path, [])] == [HERE]
    assert [setup.target for setup in source.from_file(path, ["alice"])] == [Target("alice", "alice")]


class Plan(msgspec.Struct):
    """The plan for a host, as far as it matters here."""

    site: str
    ssh: str | None
    settings: tuple[dict[str, Any], ...]


def test_a_run_names_its_machines_by_their_sites(monkeypatch, tmp_path):
    both = [Plan("A", "alice", (WMEM,)), Plan("B", None, (BEFORE,))]
    monkeypatch.setattr(plans, "plan", lambda run: both)
    assert source.machines(tmp_path, []) == [Target("A", "alice"), HERE]
    assert source.machines(tmp_path, ["A"]) == [Target("A", "alice")]
    with pytest.raises(InputError, match="one of A, B, found 'C'"):
        source.machines(tmp_path, ["C"])
    assert source.machines(None, ["alice"]) == [Target("alice", "alice")]
    assert source.machines(None, []) == [HERE]


def test_two_sites_cannot_both_be_this_machine(monkeypatch, tmp_path):
    both = [Plan("A", None, (WMEM,)), Plan("B", None, (BEFORE,))]
    monkeypatch.setattr(kernels, "planned", lambda run, *, daemon: SimpleNamespace(hosts=both))
    with pytest.raises(InputError, match="which of A, B is this machine"):
        source.from_run(tmp_path, [])
    (setup,) = source.from_run(tmp_path, ["B"])
    assert setup.target == HERE


# Several machines


class Machines:
    """Machines that give prepared answers, by name, and the orders they received."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: dict[str, Any]) -> None:
        self.answers, self.told = answers, list[tuple[str, str]]()
        monkeypatch.setattr(apply, "ask", self.ask)
        monkeypatch.setattr(ssh, "connect", lambda target, name: Place(name))

    def ask(self, place: Any, order: dict[str, Any], event: str) -> dict[str, Any]:
        self.told.append((place.name, order["action"]))
        answer: dict[str, Any] | MptuneError = {**ANSWERS, **self.answers[place.name]}[order["action"]]
        if isinstance(answer, MptuneError):
            raise answer
        return answer


class Place:
    """A machine that needs no connection."""

    def __init__(self, name: str) -> None:
        self.name = name

    def close(self) -> None:
        pass


def on(*names: str) -> list[apply.Wanted]:
    return [apply.Wanted(Target(name, name), lambda _place: [WMEM]) for name in names]


def test_all_machines_are_asked_before_one_is_changed(monkeypatch):
    machines = Machines(monkeypatch, a={}, b={"read": {**ANSWERS["read"], "foreign": ["mptcpd"]}})
    with pytest.raises(apply.Refused, match="b: mptcpd manages"):
        apply.apply(on("a", "b"), run="")
    assert machines.told == [("a", "read"), ("b", "read")]


def test_a_machine_that_refuses_takes_back_what_was_done_on_others(monkeypatch):
    machines = Machines(monkeypatch, a={}, b={}, c={"apply": apply.Refused("c", "kernel", "no")})
    with pytest.raises(apply.Refused) as refused:
        apply.apply(on("a", "b", "c"), run="")
    assert str(refused.value) == "c: no; b was rolled back; a was rolled back"
    assert machines.told[-2:] == [("b", "rollback"), ("a", "rollback")]


def test_a_machine_that_is_away_does_not_keep_others_from_their_rollback(monkeypatch):
    machines = Machines(monkeypatch, a={"rollback": MptuneError("a: unreachable")}, b={})
    with pytest.raises(MptuneError, match="a: unreachable"):
        apply.roll_back([Target("a", "a"), Target("b", "b")])
    assert machines.told == [("a", "rollback"), ("b", "rollback")]


def test_congestion_controls_of_mptune_get_their_programs(monkeypatch, tmp_path):
    monkeypatch.setattr(bpf, "OBJECTS", tmp_path)
    (tmp_path / "olia.bpf.o").write_bytes(b"an object")
    settings = apply._with_objects([{"kind": "congestion", "name": "mptune_olia"}, WMEM])
    assert settings == [{"kind": "congestion", "name": "mptune_olia", "object": "YW4gb2JqZWN0"}, WMEM]
    with pytest.raises(MptuneError, match="vegas: there is no BPF program for it"):
        apply._with_objects([{"kind": "congestion", "name": "mptune_vegas"}])


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        (WMEM, "net.ipv4.tcp_wmem", "1 2 3"),
        ({"kind": "limits", "subflows": 3, "add_addr_accepted": 2}, "limits", "subflows 3, addresses 2"),
        (
            {"kind": "endpoint", "address": "10.0.1.2", "device": "eth1", "flags": ["subflow", "backup"]},
            "endpoint 10.0.1.2",
            "subflow backup dev eth1",
        ),
        ({"kind": "endpoint", "address": "10.0.1.2", "absent": True}, "endpoint 10.0.1.2", "none"),
        (
            {"kind": "route", "to": "default", "via": "10.0.1.1", "device": "eth1", "congctl": "olia"},
            "route default via 10.0.1.1 dev eth1",
            "olia",
        ),
        ({"kind": "route", "to": "10.0.0.0/8", "congctl": None}, "route 10.0.0.0/8", "the default"),
        ({"kind": "congestion", "name": "olia"}, "congestion control olia", "there"),
        ({"kind": "directory", "path": "/sys/fs/bpf/mptune"}, "/sys/fs/bpf/mptune", "there"),
    ],
)
def test_settings_are_shown_in_words(setting, name, value):
    assert (records.name(setting), records.value(setting)) == (name, value)
