"""Doctor's report on trials in virtual time."""

import platform

import pytest

from mptune.guest import building, doctor
from tests.guest.test_kernels import write


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(building, "lacking", list)


def test_without_a_kernel_it_names_the_command_and_what_to_install_first(monkeypatch):
    finding = doctor.examine()
    assert finding.state == "missing" and not finding.required
    assert finding.remedy is not None and finding.remedy.startswith("mptune kernel build")
    monkeypatch.setattr(building, "lacking", lambda: ["flex", "bison"])
    assert "apt-get install flex bison, then mptune kernel build" in str(doctor.examine().remedy)


def test_a_kernel_of_another_mptune_is_to_be_built_again(cache):
    write(cache, "7.3", "7.3.4", building.recipe())
    assert doctor.examine().state == "ok"
    write(cache, "6.12", "6.12.117", "another")
    finding = doctor.examine()
    assert finding.state == "limited" and finding.found == "Linux 7.3.4, Linux 6.12.117"
    assert "mptune kernel build 6.12" in str(finding.remedy)


def test_other_machines_have_none(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert doctor.examine().found == "no User Mode Linux for aarch64"
