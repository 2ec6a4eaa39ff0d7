"""The confinement of a guest, with a script for its kernel: what it sees, may write, and leaves behind."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mptune.errors import MptuneError
from mptune.guest import inside, machine
from tests.plugins import waiting

pytestmark = pytest.mark.needs("linux")

#: A program that does not end by itself.
SLEEP = "import time; time.sleep(1000)"


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Runs a script as if it were a kernel; its answer is what it passes to `answer`."""
    begin = f"""\
import base64, json, os, sys
sys.path.insert(0, {str(Path(machine.__file__).parents[2])!r})
from mptune.guest import inside
work = json.load(open("/mnt/work.json"))
def answer(value):
    inside._print(json.dumps(value).encode())
"""

    def run(script, work=None, **options):
        file = tmp_path / "kernel.py"
        file.write_text(begin + script)
        tmp_path.chmod(tmp_path.stat().st_mode | 0o055)
        monkeypatch.setattr(machine, "_command", lambda program: [sys.executable, str(program)])
        got = machine.run(file, "", work or {}, **({"seed": 1, "limit_s": 60.0} | options))
        return json.loads(got) if got else None

    return run


def test_the_guest_gets_its_work_and_answers(guest):
    assert guest("answer(work['text'])", {"text": "x" * 5000 + "é"}) == "x" * 5000 + "é"


def test_the_seed_is_in_its_environment_and_nothing_of_this_process_is(guest, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    seen = guest("answer(dict(os.environ))", seed=7)
    assert seen["MPTUNE_GUEST_SEED"] == "7" and "SECRET" not in seen


def test_only_its_own_place_can_be_written(guest, tmp_path):
    tmp_path.chmod(0o777)
    script = f"""
def writable(folder):
    try:
        open(os.path.join(folder, "probe"), "w").close()
        return True
    except OSError as error:
        return error.strerror
answer([writable(folder) for folder in ("/mnt", {str(tmp_path)!r}, "/dev/shm", "/tmp")])
"""
    there, *elsewhere = guest(script)
    assert there is True and set(elsewhere) == {"Read-only file system"}
    assert not (tmp_path / "probe").exists() and not Path("/mnt/probe").exists()


def test_it_is_not_root_and_can_become_nobody_else(guest):
    script = """
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
answer([os.getuid(), int(status["CapEff"], 16), int(status["NoNewPrivs"])])
"""
    user, capabilities, no_new_privileges = guest(script)
    assert user != 0 and capabilities == 0 and no_new_privileges == 1


@pytest.mark.needs("root")
def test_of_root_it_sees_nothing_but_what_it_needs(guest, tmp_path):
    secret = Path("/root/mptune-test-secret")
    secret.write_text("s")
    try:
        seen = guest(f"answer(os.path.exists({str(secret)!r}))")
    finally:
        secret.unlink()
    assert seen is False


def test_it_has_no_network(guest):
    assert guest("import socket; answer([name for _, name in socket.if_nameindex()])") == ["lo"]


def test_what_it_starts_ends_with_it(guest):
    script = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", work["mark"]])
answer(child.pid)
"""
    mark = f"guest-of-{os.getpid()}"
    guest(script, {"mark": mark})
    assert not running(mark)


def test_one_that_does_not_end_is_killed_with_all_it_started(guest):
    script = """
import subprocess
subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)", work["mark"]])
"""
    mark = f"endless-of-{os.getpid()}"
    with pytest.raises(machine.Died, match="did not end in time"):
        guest(script, {"mark": mark}, limit_s=1.0)
    waiting.until(lambda: not running(mark), "its processes are gone")


def test_an_interrupt_kills_it(guest):
    asked = threading.Event()
    asked.set()
    assert guest("import time; time.sleep(1000)", interrupted=asked.is_set) is None


def test_it_ends_with_a_program_that_is_killed(tmp_path):
    mark = f"orphan-of-{os.getpid()}"
    script = tmp_path / "kernel.py"
    script.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SLEEP!r}, {mark!r}])\n"
    )
    tmp_path.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from mptune.guest import machine\n"
        "machine._command = lambda program: [sys.executable, str(program)]\n"
        f"machine.run(Path({str(script)!r}), '', {{}}, seed=1, limit_s=1000.0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        waiting.until(lambda: running(mark), "it runs")
        process.kill()
    waiting.until(lambda: not running(mark), "its processes are gone")


def test_a_panic_is_the_reason(guest):
    script = """
print("Kernel panic - not syncing: VFS: Unable to mount root fs")
print("more")
sys.exit(1)
"""
    with pytest.raises(machine.Died, match=r"the guest failed: Kernel panic - not syncing: VFS"):
        guest(script)


def test_what_goes_wrong_in_it_is_the_reason(guest):
    script = f"print({inside.FAULT.decode()!r} + 'OSError: no such thing'); print('reboot: Power down')"
    with pytest.raises(machine.Died, match=r"the guest failed: OSError: no such thing$"):
        guest(script)


def test_half_an_answer_is_none(guest):
    script = f"print({inside.PIECE.decode()!r} + 'e30='); sys.exit(3)"
    with pytest.raises(machine.Died, match="ended with status 3"):
        guest(script)


def test_a_console_without_end_is_cut(guest, monkeypatch):
    monkeypatch.setattr(machine, "_CONSOLE_BYTES", 1 << 20)
    with pytest.raises(MptuneError, match="printed without end"):
        guest("while True: print('x' * 1000)")


def running(mark):
    """Processes with a word on their command line."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and int(directory.name) != os.getpid():
            try:
                command = (directory / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in command:
                found.append(command)
    return found
