"""Agents that are linked statically: what each is, and that it runs, on its processor or an emulated one."""

import importlib
import json
import platform
import struct
import subprocess
from pathlib import Path

import pytest

from mptune import __version__
from mptune.linux import agent
from tests.plugins.needs import EMULATORS, ROOT, program, require

#: Numbers of processors in ELF headers (elf(5), e_machine).
MACHINES = {"x86_64": 62, "aarch64": 183, "armv7l": 40}
#: Program headers that name a loader, or libraries to be loaded.
INTERPRETER, DYNAMIC = 3, 2


@pytest.fixture
def shipping(monkeypatch: pytest.MonkeyPatch):
    """The program that builds them."""
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    return importlib.import_module("static_agents")


def start(processor: str) -> list[str]:
    """The beginning of its command line here."""
    file = str(agent.static()[processor])
    if processor == platform.machine():
        return [file]
    require("qemu")
    return [program(EMULATORS[processor]), file]


@pytest.mark.parametrize("processor", sorted(agent.static()))
def test_it_is_a_program_without_a_loader(processor: str):
    content = agent.static()[processor].read_bytes()
    wide, little, machine = content[4] == 2, content[5] == 1, struct.unpack_from("<H", content, 18)[0]
    assert little and machine == MACHINES[processor]
    # elf(5): e_phoff, e_phentsize and e_phnum.
    (offset,) = struct.unpack_from("<Q" if wide else "<I", content, 32 if wide else 28)
    size, number = struct.unpack_from("<HH", content, 54 if wide else 42)
    kinds = {struct.unpack_from("<I", content, offset + size * index)[0] for index in range(number)}
    assert not kinds & {INTERPRETER, DYNAMIC}


@pytest.mark.parametrize("processor", sorted(agent.static()))
def test_it_greets_and_says_what_it_cannot_do(processor: str, tmp_path: Path):
    command = start(processor)
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"mptune-agent {__version__}\n"
    look = {"action": "look", "id": 1, "names": ["net.ipv4.tcp_rmem"], "pairs": []}
    hello, looked = told([*command, "host", "--greet"], look, {"action": "stop"}, run=tmp_path / "run")
    assert hello["event"] == "hello" and hello["version"] == __version__
    if len(command) == 1:
        assert looked["event"] == "looked" and looked["sysctls"].keys() == {"net.ipv4.tcp_rmem"}
        assert "lo" in {interface["device"] for interface in looked["interfaces"]}
    else:
        # Devices, addresses and routes were read; qemu has no words for rules.
        assert looked["event"] == "looked" or looked["reason"] == "rules: Operation not supported"
    (refused,) = told([*command, "congestion"], {"action": "list"}, run=tmp_path / "run")
    assert "linked statically" in refused["reason"]


def told(command: list[str], *lines: dict[str, object], run: Path) -> list[dict]:
    """A role's answer to these lines."""
    done = subprocess.run(
        command,
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        env={"MPTUNE_RUN_DIRECTORY": str(run)},
        check=False,
    )
    return [json.loads(line) for line in done.stdout.split("\n") if line]


@pytest.mark.parametrize("processor", sorted(agent.static()))
def test_roles_of_this_machine_alone_are_not_in_it(processor: str):
    command = start(processor)
    for role in ("emulator", "namespaces", "program", "exec"):
        done = subprocess.run([*command, role], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "expected" in done.stderr


def test_a_processor_that_nobody_knows_is_refused(shipping, capsys: pytest.CaptureFixture[str]):
    assert shipping.main(["sparc"]) == 2
    assert capsys.readouterr().err == "sparc: expected one of x86_64, aarch64, armv7l\n"
    assert tuple(shipping.TARGETS) == tuple(agent.PROCESSORS)


def test_what_cannot_be_built_is_named_with_what_it_lacks(
    shipping, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(shipping, "lacking", lambda target: f"no {target.linker}")
    assert shipping.main([]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "aarch64: not built: no aarch64-linux-gnu-gcc"
    assert shipping.main(["armv7l"]) == 1
