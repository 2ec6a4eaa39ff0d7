"""Kernel settings by name."""

from mptune.linux.sandbox import sysctls


def test_names_are_those_of_sysctl(tmp_path, monkeypatch):
    assert str(sysctls.file("net.ipv4.tcp_rmem")) == "/proc/sys/net/ipv4/tcp_rmem"
    monkeypatch.setattr(sysctls, "file", lambda name: tmp_path / name)
    (tmp_path / "net.ipv4.tcp_rmem").write_text("4096\t131072\t6291456\n")
    assert sysctls.read("net.ipv4.tcp_rmem") == "4096 131072 6291456"
    assert sysctls.read("net.ipv4.no_such_thing") is None


def test_limits_of_buffers_are_three_sizes():
    """tcp_rmem and tcp_wmem are the smallest, the first and the largest size (ip-sysctl.rst)."""
    assert sysctls.buffer_limits(1_000_000) == {
        "net.ipv4.tcp_rmem": "4096 131072 1000000",
        "net.ipv4.tcp_wmem": "4096 16384 1000000",
    }


def test_no_size_is_above_a_small_limit():
    assert sysctls.buffer_limits(10_000) == {
        "net.ipv4.tcp_rmem": "4096 10000 10000",
        "net.ipv4.tcp_wmem": "4096 10000 10000",
    }
