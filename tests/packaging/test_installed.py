"""The wheel in a virtual environment of its own: no compiler on the PATH, no sources near, another directory.

`make check-wheel` and `make check-sdist` run it on what is in dist/ (MPTUNE_PACKAGE); otherwise a wheel is
built of what is compiled here.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mptune import __version__
from mptune.guest import building, builtin
from mptune.linux import doctor
from tests.plugins.needs import BPF_PROGRAMS, ROOT, Thing, lack, uv
from tests.plugins.reruns import spoiled

pytestmark = [pytest.mark.needs("linux", "uv"), pytest.mark.timeout(1800)]

PACKAGE = "MPTUNE_PACKAGE"
BUILD = "import backend, sys; backend.build_{}(sys.argv[1])"


def done(*command, **options):
    """Output of a program; the test fails if the program does."""
    completed = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert completed.returncode == 0, f"{command}:\n{completed.stdout[-3000:]}\n{completed.stderr[-3000:]}"
    return completed.stdout


def build(kind, directory):
    """Let the backend build into a directory; the file."""
    # The interpreter with which everything else was built: with another one all would be compiled anew.
    environment = {"PYO3_PYTHON": sys.executable, **os.environ, "PYTHONPATH": str(ROOT / "shipping")}
    environment.setdefault("MPTUNE_CARGO_PROFILE", "setup")  # what is compiled here
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where maturin is
    done(sys.executable, "-c", BUILD.format(kind), directory, cwd=ROOT, env=environment)
    (wheel,) = directory.iterdir()
    return wheel


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if given := os.environ.get(PACKAGE):
        return Path(given).resolve()
    return build("wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(package, tmp_path_factory):
    """The environment: where its programs are."""
    place = tmp_path_factory.mktemp("installed")
    locked = place / "locked.txt"
    options = ("--frozen", "--no-dev", "--no-emit-project", "--no-hashes")
    locked.write_text(done(uv(), "export", "--quiet", *options, cwd=ROOT))
    python = place / "venv/bin/python"
    done(uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, python.parents[1], cwd=place)
    done(uv(), "pip", "install", "--quiet", "--python", python, "--constraint", locked, package, cwd=place)
    return python.parent


@pytest.fixture
def place(installed, tmp_path):
    """A directory of its own for the installed program, as options of a process."""
    environment = {"PATH": str(installed), "HOME": str(tmp_path), "NO_COLOR": "1"}
    return {"cwd": tmp_path, "env": environment}


@pytest.fixture
def mptune(installed, place):
    """Runs the installed program there."""
    return lambda *arguments: done(installed / "mptune", *arguments, **place)


def test_a_wheel_fits_every_python_from_the_oldest(package):
    assert package.name.startswith((f"mptune-{__version__}-cp311-abi3-", f"mptune-{__version__}.tar"))


def test_everything_is_in_it(mptune, installed):
    version = json.loads(mptune("--version", "--json"))
    assert version["mptune"] == version["core"] == version["features"]["agent"] == __version__
    assert version["features"]["preload"]
    assert version["features"]["bpf_objects"] in (BPF_PROGRAMS, [])  # without clang there are none
    assert version["features"]["parquet"] is None
    place = Path(done(installed / "python", "-I", "-c", "import mptune; print(mptune.__file__)"))
    assert installed.parent in place.parents


def test_every_part_is_there_and_works(mptune):
    document = json.loads(mptune("doctor", "--installed", "--json"))
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert document["ready"] and len(states) == 7
    without = {"BPF programs": not BPF_PROGRAMS, "network of guests": True}
    assert {name for name, state in states.items() if state != "ok"} <= set(without)


def test_a_trial(mptune):
    document = json.loads(mptune("run", "UNIS-HiN", "--duration", "2s", "--json"))
    assert document["throughput_mbps"] > 1


#: Prints a trial, and the version of the schema.
FROM_PYTHON = """
import json, mptune
from importlib.resources import files
found = mptune.run(mptune.load("UNIS-HiN"), duration="2s")
found.chart().save("series.svg")
schema = json.loads((files("mptune") / "result/result.schema.json").read_text())
print(json.dumps([found.throughput_mbps, len(found.frame()), schema["$id"]]))
"""


def test_from_python(installed, tmp_path):
    throughput, paths, schema = json.loads(done(installed / "python", "-I", "-c", FROM_PYTHON, cwd=tmp_path))
    assert throughput > 1 and paths == 6 and schema.startswith("urn:mptune:result:")
    assert (tmp_path / "series.svg").stat().st_size


def test_what_a_kernel_for_guests_is_made_of(installed, tmp_path):
    program = "from mptune.guest.building import recipe; print(recipe())"
    assert done(installed / "python", "-I", "-c", program, cwd=tmp_path).strip() == building.recipe()


def test_the_main_job_and_its_report(mptune, tmp_path):
    small = ("--cc", "reno", "--pm", "fullmesh", "--buffers", "1,4", "--runs", "1", "--duration", "1s")
    mptune("optimise", "UNIS-HiN", *small, "--out", "run", "--quiet")
    assert json.loads((tmp_path / "run/result.json").read_text())
    mptune("report", "run")
    assert "<svg" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def test_a_trial_on_the_kernel(installed, place):
    if reason := doctor.obstacle():
        lack("trials on the kernel", Thing("what they need", "elsewhere"), detail=reason)
    command = [
        installed / "mptune",
        "run",
        "UiT-HAW",
        "--testbed",
        "namespaces",
        "--duration",
        "2s",
        "--json",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, **place)
    document = json.loads(completed.stdout)
    if document.get("failed_kind") == "overloaded":
        spoiled(document["failed"])
    assert completed.returncode == 0, completed.stderr
    assert document["throughput_mbps"] > 0.1


#: Prints whether its socket is MPTCP's: only those know the statistics of MPTCP (SOL_MPTCP, MPTCP_INFO).
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
    output = mptune("exec", "--", installed / "python", "-c", PROGRAM)
    assert output == ("mptcp\n" if kernel["mptcp"] else "tcp\n")


def test_the_pages_that_were_written_are_where_man_looks(installed):
    pages = {path.name for path in (ROOT / "man").glob("*.1")}
    assert {path.name for path in (installed.parent / "share/man/man1").glob("mptune*.1")} == pages


def test_an_archive_of_the_sources_has_all_that_it_is_built_of(tmp_path):
    """Whole crates, also those that maturin does not build, in the workspace that the lock file is of."""
    with tarfile.open(build("sdist", tmp_path)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(tmp_path / "unpacked", filter="data")
        else:  # Python 3.11.2, Debian 12's
            archive.extractall(tmp_path / "unpacked")
    (root,) = (tmp_path / "unpacked").iterdir()
    command = ("cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1")
    members = json.loads(done(*command, cwd=root))["packages"]
    assert {member["name"] for member in members} == {path.name for path in (ROOT / "crates").iterdir()}
    for folder in ("crates", "bpf", "shipping", "scenarios"):
        tracked = done("git", "ls-files", "-z", folder, cwd=ROOT).split("\0")
        assert not [name for name in tracked if name and not (root / name).is_file()]
    link = root / "python/mptune/guest/bpf"
    assert not [path for path in builtin.texts() if not (link / path.relative_to(builtin.PROGRAMS)).is_file()]
    inside = {path.name for path in (root / "python/mptune/scenarios").iterdir()}
    assert inside == {path.name for path in (ROOT / "scenarios").iterdir()}
