"""The fixture `mptcp_network` in a pytest of its own, as a user has it, and what is left when it ends."""

import os
import re
import signal
import subprocess
import sys

import pytest

from mptune.errors import InputError
from mptune.linux import doctor
from mptune.linux.sandbox import leftovers
from mptune.testbeds.standing import described_by, standing
from tests.plugins.needs import ROOT, Thing, lack
from tests.plugins.waiting import PATIENCE_S, until

PAGE = ROOT / "docs/how-to/exec.md"
EXAMPLE = re.compile(r"<!-- pytest: run by .*? -->\n```python\n(.*?)```", re.S)
#: Neither this suite's settings and plug-ins nor its mark of processes.
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:randomly", "-c", os.devnull, "-q")

#: Starts a program that starts another one, which leaves its group; then waits for ever.
LASTING = """
import sys, signal
CHILD = "import os, time; os.setsid(); time.sleep(1000)"
PARENT = f"import subprocess as s, sys, time; s.Popen([sys.executable, '-c', {CHILD!r}]); time.sleep(1000)"

def test_it(mptcp_network):
    network = mptcp_network(["50Mbit/s 1ms"])
    child = network.client.popen([sys.executable, "-c", PARENT])
    print("child", child.pid, network.client._namespaces[0], flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module", autouse=True)
def _possible():
    if reason := doctor.obstacle():
        lack("trials on the kernel", Thing("what they need", "elsewhere"), detail=reason)


def pytest_of(tmp_path, text, *options):
    """Command line of a pytest that runs tests."""
    file = tmp_path / "test_of_a_user.py"
    file.write_text(text, encoding="utf-8")
    return [sys.executable, "-m", "pytest", *OPTIONS, *options, str(file)]


#: In front of a command line: it runs as a user who is not root, and may make namespaces all the same.
NOBODY = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.mark.parametrize("before", [(), pytest.param(NOBODY, marks=pytest.mark.needs("namespaces"))])
def test_the_example_of_the_page(tmp_path, before):
    (example,) = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    command = [*before, *pytest_of(tmp_path, example, f"--basetemp={tmp_path}/of_its_own")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def marked(owner: int) -> list[int]:
    """Processes of everything that a process has started as mptune does."""
    return [one.pid for one in leftovers._marked() if one.run.startswith(f"{owner}-")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_pytest(tmp_path, number):
    with subprocess.Popen(
        pytest_of(tmp_path, LASTING, "-s"),
        stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = next(line for line in process.stdout if "child " in line)
        child, namespace = line.split("child ")[1].split()
        # The program with its own, the network's holder, the emulator, and two path managers.
        until(lambda: len(marked(process.pid)) == 6, "the program's own program")
        assert int(child) in marked(process.pid)
        process.send_signal(number)
        process.wait(PATIENCE_S)  # its output may still be open at what the program had started
    if number == signal.SIGKILL:
        until(lambda: len(marked(process.pid)) <= 1, "the end of all but what the program had started")
        leftovers.end_strays()  # as the next network does
    until(lambda: marked(process.pid) == [] and not os.path.exists(namespace), "their end")  # noqa: PTH110 - of /proc


def test_a_machine_that_cannot_skips_with_the_reason(tmp_path):
    text = """
import pytest
from mptune.testbeds import standing

@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.setattr(standing, "obstacle", lambda: "it is the moon")

def test_it(mptcp_network):
    mptcp_network(["1Mbit/s 1ms"])
"""
    done = subprocess.run(
        pytest_of(tmp_path, text, "-rs"), capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and "mptcp_network: it is the moon" in done.stdout


def test_a_path_that_is_cut_carries_nothing_until_it_is_restored():
    program = "import socket, sys; socket.create_connection((sys.argv[1], 9), timeout=float(sys.argv[2]))"
    with standing(["50Mbit/s 1ms", "50Mbit/s 1ms"]) as network:
        reach = [sys.executable, "-c", program, network.server.address]
        network.down(network.paths[0])
        with pytest.raises(subprocess.CalledProcessError) as refused:
            network.client.run([*reach, "0.2"])
        assert "TimeoutError" in refused.value.stderr
        network.up(network.paths[0])
        with pytest.raises(subprocess.CalledProcessError) as refused:
            network.client.run([*reach, "30"])  # nobody listens there, which the other host says
        assert "ConnectionRefusedError" in refused.value.stderr
        with pytest.raises(InputError, match=r"expected one of A-S, B-S|expected .*A-S"):
            network.down("C-S")


def test_a_network_is_described_in_a_few_words():
    two = described_by(["20Mbit/s 10ms 1%", {"up": "1 Mbit/s", "down": "5 Mbit/s", "delay": "40 ms"}])
    assert [path.label for path in two.paths] == ["A-S", "B-S"]
    first, second = two.sender.interfaces
    assert (first.up_bps, first.down_bps, second.up_bps) == (20_000_000, 20_000_000, 1_000_000)
    assert two.paths[0].base_rtt_ns == 20_000_000
    assert described_by("UNIS-HiN").name == "UNIS-HiN"
    for wrong, expected in (
        ([], "expected 1 to 25 paths, found 0"),
        (["fast"], "expected rate, delay and perhaps loss, such as \"20Mbit/s 10ms 1%\", found 'fast'"),
        (["fast 1ms"], "expected a rate such as"),
        ([{"up": "1 Mbit/s", "colour": "red"}], "colour"),
    ):
        with pytest.raises(InputError) as refused:
            described_by(wrong)
        assert expected in str(refused.value) and "\n" not in str(refused.value)
