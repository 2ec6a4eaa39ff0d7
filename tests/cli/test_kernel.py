"""`mptune kernel`: what is listed, and errors of one line; what is built is tests/guest' matter."""

import json

import pytest
from typer.testing import CliRunner

from mptune.cli import app
from mptune.guest import building, kernels
from tests.guest.test_kernels import write


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "mptune/kernels"
    folder.mkdir(parents=True)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["kernel", *arguments])


def test_without_a_kernel_the_list_names_the_next_command():
    result = run("list")
    assert result.exit_code == 0 and result.stdout == "no kernel is built: mptune kernel build 7.3\n"
    assert json.loads(run("list", "--json").stdout) == []


def test_kernels_are_listed_with_their_state(cache):
    write(cache, "7.3", "7.3.4", building.recipe())
    write(cache, "6.12", "6.12.117")
    lines = run("list").stdout.splitlines()
    assert "7.3.4" in lines[1] and "ready" in lines[1] and "build it again" in lines[2]
    assert [kernel["release"] for kernel in json.loads(run("list", "--json").stdout)] == ["7.3", "6.12"]


def test_one_is_removed_and_an_unknown_one_refused(cache):
    write(cache, "6.12", "6.12.117")
    assert run("remove", "6.12").stdout == "Linux 6.12: removed, 0.0 MB\n"
    result = run("remove", "6.12")
    assert result.exit_code == 2 and result.output.strip() == "mptune: error: RELEASE: no kernel is built"


def test_what_cannot_be_built_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "lacking", list)
    result = run("build", "--source", str(tmp_path / "missing.tar.xz"), "--quiet")
    assert result.exit_code == 2 and len(result.output.strip().splitlines()) == 1
    assert "--source: expected an archive of Linux's sources, found" in result.output
    monkeypatch.setattr(building, "lacking", lambda: ["flex"])
    result = run("build", "--quiet")
    assert result.exit_code == 1 and "apt-get install flex" in result.output


def test_a_trial_without_a_kernel_names_the_command():
    result = CliRunner().invoke(app, ["run", "UiT-HAW", "--testbed", "virtual"])
    assert result.exit_code == 1 and "mptune kernel build 7.3" in result.output


def test_a_policy_of_an_earlier_text_is_not_measured_in_silence(cache):
    write(cache, "7.3", "7.3.4", building.recipe(), programs="another")
    result = CliRunner().invoke(app, ["run", "UiT-HAW", "--testbed", "virtual", "--cc", "cubic+hold"])
    assert result.exit_code == 2 and result.output.strip() == (
        "mptune: error: --cc: expected a kernel that was built since bpf/ changed: mptune kernel build 7.3, "
        "found an earlier cubic+hold in it"
    )
