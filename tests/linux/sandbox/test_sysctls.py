"""Kernel settings by name."""

import pytest

from mptune.linux.sandbox import sysctls


def test_names_are_those_of_sysctl(tmp_path, monkeypatch):
    assert str(sysctls.file("net.ipv4.tcp_rmem")) == "/proc/sys/net/ipv4/tcp_rmem"
    monkeypatch.setattr(sysctls, "file", lambda name: tmp_path / name)
    (tmp_path / "net.ipv4.tcp_rmem").write_text("4096\t131072\t6291456\n")
    assert sysctls.read("net.ipv4.tcp_rmem") == "4096 131072 6291456"
    assert sysctls.read("net.ipv4.no_such_thing") is None
    assert sysctls.telling() == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel with all settings, as files."""
    monkeypatch.setattr(sysctls, "file", lambda name: tmp_path / name)
    for name in sysctls.SETTINGS:
        (tmp_path / name).touch()
    return tmp_path


def test_everything_is_set(kernel):
    sysctls.apply()
    assert {name: (kernel / name).read_text() for name in sysctls.SETTINGS} == sysctls.SETTINGS


def test_what_older_kernels_lack_is_left_out(kernel, monkeypatch):
    (kernel / "net.mptcp.path_manager").unlink()
    sysctls.apply()
    assert not (kernel / "net.mptcp.path_manager").exists()
    assert (kernel / "net.mptcp.pm_type").read_text() == "1"


def test_a_refusal_names_the_file(kernel):
    (kernel / "net.ipv4.tcp_sack").unlink()
    (kernel / "net.ipv4.tcp_sack").mkdir()
    with pytest.raises(OSError, match="tcp_sack"):
        sysctls.apply()


def test_limits_of_buffers_replace_the_usual_ones(kernel):
    """tcp_rmem and tcp_wmem are the smallest, the first and the largest size (ip-sysctl.rst)."""
    sysctls.apply(sysctls.buffer_limits(1_000_000))
    assert (kernel / "net.ipv4.tcp_rmem").read_text() == "4096 131072 1000000"
    assert (kernel / "net.ipv4.tcp_wmem").read_text() == "4096 16384 1000000"
    assert (kernel / "net.ipv4.tcp_sack").read_text() == "1"


def test_no_size_is_above_a_small_limit():
    assert sysctls.buffer_limits(10_000) == {
        "net.ipv4.tcp_rmem": "4096 10000 10000",
        "net.ipv4.tcp_wmem": "4096 10000 10000",
    }
