"""The agent's role `congestion`: programs are registered as long as it runs, and refused with a reason."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from mptune.linux import agent, bpf
from tests.plugins.congestion_role import congestion_role
from tests.plugins.needs import BPF_SOURCES
from tests.plugins.waiting import until

pytestmark = pytest.mark.needs("bpf")

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def known() -> list[str]:
    return AVAILABLE.read_text().split()


def links() -> list[str]:
    return [link["name"] for link in bpf.registered()]


@pytest.mark.parametrize("cc", BPF_SOURCES)
def test_a_program_is_registered_under_its_own_name_until_the_end_of_input(cc):
    name, content = bpf.private(cc)
    assert name not in known()
    with congestion_role(name, content) as role:
        assert role.answer == {"event": "registered", "held": True}
        # Another test may have the one under mptune's own name at this time.
        assert name in known() and name != bpf.PREFIX + cc
        # Nobody here takes it for a program of this machine's own sessions.
        assert name not in {registered.kernel_name for registered in bpf.status()}
    until(lambda: name not in known() and name not in links(), "the end of the program")


def test_two_sessions_and_this_machines_own_have_one_each():
    (first, first_program), (second, other) = bpf.private("olia"), bpf.private("olia")
    with (
        congestion_role(first, first_program) as a,
        congestion_role(second, other) as b,
        bpf.loaded(["olia"]) as names,
    ):
        assert a.answer == b.answer == {"event": "registered", "held": True}
        assert {first, second, names["olia"]} <= set(known())
        a.process.kill()
        until(lambda: first not in known(), "the end of the killed one's program")
        assert {second, names["olia"]} <= set(known())
    until(lambda: not {second, names["olia"]} & set(known()), "the end of the programs")


def test_an_object_that_does_not_load_is_refused_with_its_reason():
    name, content = bpf.private("scalable")
    with congestion_role(name, b"") as role:
        assert f"the kernel refuses {name}: opening" in role.answer["reason"]
    with congestion_role(name, content[:2000]) as role:
        assert f"the kernel refuses {name}: opening" in role.answer["reason"]
    with congestion_role("scalable_000000", content) as role:
        assert (
            f"expected an object that registers scalable_000000, found one of {name}" in role.answer["reason"]
        )
    with congestion_role("a name", content) as role:
        assert "name: expected at most 15 of" in role.answer["reason"]
    with congestion_role("cubic", content) as role:
        assert role.answer["reason"] == "cubic: there is one of that name already"
    assert role.process.returncode == 1 and name not in known()


def test_without_libbpf_the_package_to_install_is_named():
    name, content = bpf.private("scalable")
    with congestion_role(name, content, MPTUNE_LIBBPF="libnothing.so.1") as role:
        assert role.answer["reason"] == (
            "no libnothing.so.1: install libbpf1 (Debian, Ubuntu) or libbpf (Fedora)"
        )


@pytest.mark.parametrize(
    ("library", "words"), [("libnothing.so.1", "install libbpf1"), ("libbpf.so.1", None)]
)
def test_a_host_reports_whether_programs_can_be_registered_there(tmp_path, library, words):
    looking = json.dumps({"action": "look", "id": 1}) + "\n"
    variables = {"MPTUNE_RUN_DIRECTORY": str(tmp_path / "run"), "MPTUNE_LIBBPF": library}
    done = subprocess.run(
        agent.command("host"),
        input=looking,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    )
    looked = json.loads(done.stdout.splitlines()[-1])
    assert words in looked["bpf"] if words else looked["bpf"] is None


def test_a_program_is_told_of_paths_again_and_again_and_one_that_takes_nothing_says_so():
    name, content = bpf.private("cubic+cap")
    told = {"local": "10.0.0.1", "remote": "10.0.1.1", "cap_bps": 2_000_000}
    with congestion_role(name, content, told=[told]) as role:
        assert role.answer["event"] == "registered"
        for paths in ([{"local": "fd00::1", "cap_bps": 8}], []):
            assert role.tell({"action": "tell", "paths": paths}) == {"event": "told"}
        refused = role.tell({"action": "tell", "paths": [{"local": "here"}]})
        assert refused["event"] == "error" and "expected an order" in refused["reason"]
    name, content = bpf.private("scalable")
    with congestion_role(name, content, told=[told]) as role:
        reason = f"{name} goes by nothing that it can be told of paths"
        assert role.answer == {"event": "error", "reason": reason}
    until(lambda: name not in known(), "the end of the program")
