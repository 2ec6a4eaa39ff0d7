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


def test_of_two_names_of_one_setting_the_kernel_may_lack_one() -> None:
    """Linux before 6.15 has only `pm_type`; `mptune doctor --integrity` asks by both."""
    both = {"net.mptcp.path_manager": "kernel", "net.mptcp.pm_type": "0"}
    assert {*both} <= {*sysctls.dispensable(both)}
    for name in both:
        assert name not in sysctls.dispensable([name])
    assert "net.mptcp.stale_loss_cnt" not in sysctls.dispensable([*both, "net.mptcp.stale_loss_cnt"])
