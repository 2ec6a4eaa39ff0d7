"""The package of the daemon for Debian: Debian's judgement, its content, and what a purge leaves."""

import importlib
import os
import re
import subprocess

import pytest

from mptune import __version__
from mptune.daemon import units
from mptune.linux import agent, daemon
from tests.plugins.needs import ROOT

pytestmark = pytest.mark.needs("deb", "linux")


#: Without the recorders of tests.plugins.programs: in man, which lintian starts, no program may write.
PLAIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def done(*command, **environment):
    """Output of a program, of both kinds."""
    completed = subprocess.run(
        list(map(str, command)),
        capture_output=True, text=True, check=False, env={**os.environ, "PATH": PLAIN, **environment},
    )  # fmt: skip
    assert completed.returncode == 0, completed
    return completed.stdout + completed.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "shipping"))
        return importlib.import_module("deb").pack(agent.program(), tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked(package, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    done("dpkg-deb", "--raw-extract", package, place / "tree")
    return place / "tree"


def test_lintian_finds_nothing(package):
    tolerant = ("--allow-root",) if os.geteuid() == 0 else ()
    assert done("lintian", *tolerant, "--fail-on=error,warning", package) == ""


def test_the_same_sources_give_the_same_bytes(package, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "shipping"))
    again = importlib.import_module("deb").pack(agent.program(), tmp_path)
    assert again.name == package.name and again.read_bytes() == package.read_bytes()


def test_the_agent_and_what_it_says_of_itself(unpacked):
    program = unpacked / "usr/sbin/mptune-agent"
    assert done(program, "--version") == f"mptune-agent {__version__}\n"
    assert not [name for name in unpacked.rglob("*") if name.is_symlink()]
    text = (unpacked / "usr/share/doc/mptune-daemon/copyright").read_text()
    assert "License: Expat or Apache-2.0" in text and re.search(r"^ serde_json v[\d.]+: MIT", text, re.M)
    assert "Permission is hereby granted" in text
    control = (unpacked / "DEBIAN/control").read_text()
    assert re.search(r"^Depends: libc6 \(>= 2\.\d+\), libgcc-s1$", control, re.M)


def test_the_example_is_a_policy_file(unpacked):
    checked = daemon.check(unpacked / "usr/share/doc/mptune-daemon/examples/policy.toml")
    assert checked["metrics"] == "127.0.0.1:9464"
    assert [policy["name"] for policy in checked["policies"]] == ["my-sites", "default"]


def test_the_unit_is_the_one_that_the_command_writes(unpacked):
    packed = (unpacked / "lib/systemd/system" / units.SERVICE).read_text()
    programs = units.Programs(agent=unpacked / "usr/sbin/mptune-agent", mptune=("mptune",))
    written = units.service(programs, daemon.FILE, "127.0.0.1:9464")

    def plain(text):
        return [
            line
            for line in text.splitlines()
            if not line.startswith(("Exec", "Documentation", "ProtectHome"))
        ]

    assert plain(packed) == plain(written)
    assert f"ExecStart=/usr/sbin/mptune-agent daemon --policy {daemon.FILE}\n" in packed


@pytest.mark.needs("root")
def test_a_purge_leaves_nothing(package, tmp_path):
    """Into a directory with a database of its own, whose scripts are told where it is."""
    root, database = tmp_path / "root", tmp_path / "root/var/lib/dpkg"
    for folder in ("updates", "info"):
        (database / folder).mkdir(parents=True)
    (database / "status").touch()
    before = {path for path in root.rglob("*") if not path.is_relative_to(database)}
    options = [f"--root={root}", "--force-script-chrootless", "--force-depends", "--log=/dev/null"]
    done("dpkg", *options, "--install", package, DPKG_ROOT=str(root))
    assert (root / "usr/sbin/mptune-agent").is_file() and not (root / "etc").exists()
    # What a daemon at work leaves.
    for file in (
        "etc/mptune/policy.toml",
        "var/lib/private/mptune-daemon/daemon/note",
        "run/mptune/daemon.sock",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    done("dpkg", *options, "--remove", "mptune-daemon", DPKG_ROOT=str(root))
    assert (root / "etc/mptune/policy.toml").exists() and not (root / "usr/sbin/mptune-agent").exists()
    done("dpkg", *options, "--purge", "mptune-daemon", DPKG_ROOT=str(root))
    left = {path for path in root.rglob("*") if not path.is_relative_to(database)} - before
    # Directories of everybody, which dpkg or this test made.
    assert {str(path.relative_to(root)) for path in left} <= {"etc", "run", "var/lib/private"}
