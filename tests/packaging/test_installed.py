"""The wheel in a virtual environment of its own: no compiler on the PATH, no sources near, another directory.

`make check-wheel` runs it on the wheel of dist/ (MPTUNE_WHEEL); otherwise one is built of what is compiled
here already.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mptune import __version__
from mptune.linux import doctor
from tests.plugins.needs import BPF_SOURCES, ROOT, Thing, lack, uv

pytestmark = [pytest.mark.needs("linux", "uv"), pytest.mark.timeout(900)]

WHEEL = "MPTUNE_WHEEL"
BUILD = "import backend, sys; print(backend.build_wheel(sys.argv[1]))"


def done(*command, **options):
    """What a program says; the test fails if the program does."""
    found = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert found.returncode == 0, f"{command}:\n{found.stdout[-3000:]}\n{found.stderr[-3000:]}"
    return found.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if given := os.environ.get(WHEEL):
        return Path(given).resolve()
    directory = tmp_path_factory.mktemp("dist")
    # The interpreter with which everything else was built: with another one all would be compiled anew.
    environment = {"PYO3_PYTHON": sys.executable, **os.environ, "PYTHONPATH": str(ROOT / "shipping")}
    done(sys.executable, "-c", BUILD, directory, cwd=ROOT, env=environment)
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment: where its programs are."""
    place = tmp_path_factory.mktemp("installed")
    locked = place / "locked.txt"
    options = ("--frozen", "--no-dev", "--no-emit-project", "--no-hashes")
    locked.write_text(done(uv(), "export", "--quiet", *options, cwd=ROOT))
    python = place / "venv/bin/python"
    done(uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, python.parents[1], cwd=place)
    done(uv(), "pip", "install", "--quiet", "--python", python, "--constraint", locked, wheel, cwd=place)
    return python.parent


@pytest.fixture
def mptune(installed, tmp_path):
    """Runs the installed program in a directory of its own."""

    def run(*arguments):
        environment = {"PATH": str(installed), "HOME": str(tmp_path), "NO_COLOR": "1"}
        return done(installed / "mptune", *arguments, cwd=tmp_path, env=environment)

    return run


def test_the_wheel_fits_every_python_from_the_oldest(wheel):
    assert wheel.name.startswith(f"mptune-{__version__}-cp311-abi3-")


def test_everything_is_in_it(mptune, installed):
    told = json.loads(mptune("--version", "--json"))
    assert told["mptune"] == told["core"] == told["features"]["agent"] == __version__
    assert told["features"]["preload"]
    assert told["features"]["bpf_objects"] in (BPF_SOURCES, [])  # without clang there are none
    assert told["features"]["parquet"] is None
    package = Path(done(installed / "python", "-I", "-c", "import mptune; print(mptune.__file__)"))
    assert installed.parent in package.parents


def test_a_trial(mptune):
    told = json.loads(mptune("run", "UNIS-HiN", "--duration", "2s", "--json"))
    assert told["throughput_mbps"] > 1


def test_the_main_job_and_its_report(mptune, tmp_path):
    small = ("--cc", "reno", "--pm", "fullmesh", "--buffers", "1,4", "--runs", "1", "--duration", "1s")
    mptune("optimise", "UNIS-HiN", *small, "--out", "run", "--quiet")
    assert json.loads((tmp_path / "run/result.json").read_text())
    mptune("report", "run")
    assert "<svg" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def test_a_trial_on_the_kernel(mptune):
    if reason := doctor.obstacle():
        lack("trials on the kernel", Thing("what they need", "elsewhere"), detail=reason)
    told = json.loads(mptune("run", "UiT-HAW", "--testbed", "namespaces", "--duration", "2s", "--json"))
    assert told["throughput_mbps"] > 0.1


#: Says whether its socket is MPTCP's: only those know the statistics of MPTCP (SOL_MPTCP, MPTCP_INFO).
PROGRAM = """
import socket
try:
    socket.socket().getsockopt(284, 1, 8)
    print("mptcp")
except OSError:
    print("tcp")
"""


def test_one_program_over_mptcp(mptune, installed):
    assert done(installed / "python", "-c", PROGRAM) == "tcp\n"
    kernel = json.loads(mptune("--version", "--json"))["kernel"]
    said = mptune("exec", "--", installed / "python", "-c", PROGRAM)
    assert said == ("mptcp\n" if kernel["mptcp"] else "tcp\n")


def test_the_pages_that_were_written_are_where_man_looks(installed):
    pages = {path.name for path in (ROOT / "man").glob("*.1")}
    assert {path.name for path in (installed.parent / "share/man/man1").glob("mptune*.1")} == pages
