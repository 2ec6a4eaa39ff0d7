"""Kernel settings of the two namespaces: those to be set, and those recorded with every observation.

A new network namespace starts partly with the kernel's defaults and partly with what the host has set
(`tcp_sk_init` in net/ipv4/tcp_ipv4.c), so everything that affects a measurement is set here. The host's own
settings are only read, never changed.
"""

from collections.abc import Collection
from pathlib import Path

#: High enough not to limit SO_SNDBUF and SO_RCVBUF of any trial, bytes.
_LARGEST_BUFFER = 256 * 1024 * 1024

#: The kernel's defaults for the smallest and the first size of a buffer, bytes
#: (Documentation/networking/ip-sysctl.rst).
_RECEIVE = 4096, 131072
_SEND = 4096, 16384


def _sizes(lower: tuple[int, int], limit: int) -> str:
    """Smallest, first and largest size of a buffer; none is above the limit."""
    return " ".join(str(min(size, limit)) for size in (*lower, limit))


def buffer_limits(buffer_bytes: int, receive_buffer_bytes: int | None = None) -> dict[str, str]:
    """Settings with which buffers that no program sets grow up to `buffer_bytes`.

    Parameters
    ----------
    receive_buffer_bytes : of receive buffers, where it is another limit.
    """
    received = buffer_bytes if receive_buffer_bytes is None else receive_buffer_bytes
    return {
        "net.ipv4.tcp_rmem": _sizes(_RECEIVE, received),
        "net.ipv4.tcp_wmem": _sizes(_SEND, buffer_bytes),
    }


#: By name, as sysctl(8) prints them; values as the files hold them.
SETTINGS = {
    # A path is defined by its addresses: answers may leave by another device than in a table lookup.
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    # Addresses work at once, and the kernel sends nothing of its own over the emulated links.
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.default.disable_ipv6": "0",
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv6.conf.default.autoconf": "0",
    "net.ipv6.conf.default.router_solicitations": "0",
    "net.ipv6.conf.default.addr_gen_mode": "1",
    # A trial must not use metrics of an earlier one.
    "net.ipv4.tcp_no_metrics_save": "1",
    # As the simulator: SACK, timestamps, RACK, TLP, ECN where a link marks.
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_window_scaling": "1",
    "net.ipv4.tcp_recovery": "1",
    "net.ipv4.tcp_early_retrans": "3",
    "net.ipv4.tcp_slow_start_after_idle": "1",
    "net.ipv4.tcp_ecn": "1",
    "net.ipv4.tcp_rto_min_us": "200000",
    "net.ipv4.tcp_rto_max_ms": "120000",
    "net.ipv4.tcp_rmem": _sizes(_RECEIVE, _LARGEST_BUFFER),
    "net.ipv4.tcp_wmem": _sizes(_SEND, _LARGEST_BUFFER),
    "net.ipv4.tcp_moderate_rcvbuf": "1",
    "net.mptcp.enabled": "1",
    "net.mptcp.pm_type": "1",
    "net.mptcp.path_manager": "userspace",
    "net.mptcp.checksum_enabled": "0",
    "net.mptcp.scheduler": "default",
    "net.mptcp.blackhole_timeout": "0",
    "net.mptcp.stale_loss_cnt": "4",
}

#: A kernel may lack some of these, or all, by the beginning of their names: `path_manager` is the name of
#: `pm_type` since Linux 6.15, the least timeout can be set since 6.11 and the longest since 6.15, IPv6 can be
#: switched off, and `mptune.linux.probe` reports a kernel without MPTCP.
_DISPENSABLE = ("net.mptcp.", "net.ipv6.", "net.ipv4.tcp_rto_m")
#: The names of one setting: whoever asks for both needs the one that the kernel has.
_PATH_MANAGER = {"net.mptcp.pm_type", "net.mptcp.path_manager"}


def dispensable(changes: Collection[str]) -> list[str]:
    """The settings that a kernel may lack, if none of these is asked for by name."""
    asked = {*changes}
    if asked >= _PATH_MANAGER:
        asked -= _PATH_MANAGER
    return [name for name in SETTINGS if name.startswith(_DISPENSABLE) and name not in asked]


#: Settings whose values can explain a result: read where the trial runs, and recorded.
TELLING = (
    *(name for name in SETTINGS if not name.startswith(("net.ipv6", "net.ipv4.conf"))),
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_mem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.default_qdisc",
    "net.mptcp.add_addr_timeout",
    "net.mptcp.allow_join_initial_addr_port",
    "net.mptcp.close_timeout",
    "net.mptcp.syn_retrans_before_tcp_fallback",
)


def file(name: str) -> Path:
    """The file behind a setting; it shows the network namespace of the process that opens it."""
    return Path("/proc/sys", *name.split("."))


def read(name: str) -> str | None:
    """Value of a setting in this process's namespace, with normalised blanks; None if it is missing."""
    try:
        return " ".join(file(name).read_text(encoding="ascii").split())
    except OSError:
        return None
