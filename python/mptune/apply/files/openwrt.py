"""OpenWrt: UCI's network configuration, and a script for what UCI has no words for.

UCI's words for Multipath TCP are those of the package `mptcp` (OpenMPTCProuter), which LuCI shows: on or off,
the limits, the default congestion control, and for an interface `on`, `signal` or `backup`. OpenWrt itself
keeps them and does nothing with them. So the endpoints with their exact flags, the limits and the congestion
control of routes are made by a script that hotplug calls whenever an interface comes up, after that package's
own. An endpoint that is not announced has the address that its device has at that moment: a provider may
change it.

Sysctls are in `/etc/sysctl.d` there as elsewhere (`mptune.apply.files.sysctl`).
"""

import shlex

from mptune.apply.files._base import (
    HEADER,
    File,
    by_device,
    endpoints,
    of_kind,
    of_limits,
    of_programs,
    of_routes,
    programs,
    sysctls,
)
from mptune.apply.plan import HostPlan

#: Called with what happened to an interface (/sbin/hotplug-call iface); others have smaller numbers.
SCRIPT = "90-mptune"
#: Run once at the next boot, or by hand, and then removed (/etc/uci-defaults).
DEFAULTS = "90-mptune-uci"
_DEFAULT_CC = "net.ipv4.tcp_congestion_control"

_ONLY_THEN = 'case "$ACTION" in ifup|ifupdate) ;; *) exit 0 ;; esac  # needs the package ip-full'
#: Makes an endpoint: its number, its address, its flags; what else has that number or address goes.
_FUNCTIONS = """\
own() {
    ip "$1" address show dev "$DEVICE" scope global | sed -n 's/^ *inet6* \\([^ /]*\\).*/\\1/p' | head -n 1
}
endpoint() {
    id=$1 address=$2
    shift 2
    [ -n "$address" ] || return 0
    ip mptcp endpoint show | while read -r there word other more; do
        [ "$there" != "$address" ] || ip mptcp endpoint delete id "$other"
    done
    ip mptcp endpoint delete id "$id" 2>/dev/null
    ip mptcp endpoint add "$address" dev "$DEVICE" id "$id" "$@"
}
"""

#: Gives the interfaces of a device a word.
_INTERFACES = """\
multipath() {
    for section in $(uci -q show network | sed -n 's/^network\\.\\([A-Za-z0-9_]*\\)=interface$/\\1/p'); do
        [ "$(uci -q get "network.$section.device")" != "$1" ] || uci set "network.$section.multipath=$2"
    done
}
"""


def files(host: HostPlan) -> list[File]:
    """The two scripts, as far as they have work, and BPF programs."""
    return [*_script(host), *_defaults(host), *programs(host)]


def _script(host: HostPlan) -> list[File]:
    everywhere = [shlex.join(command.start) for command in (*of_programs(host), *of_limits(host))]
    own: list[tuple[str, str]] = []
    for number, row in endpoints(host):
        family = "-6" if ":" in row["address"] else "-4"
        address = shlex.quote(row["address"]) if "signal" in row["flags"] else f'"$(own {family})"'
        if row["device"]:
            own.append((row["device"], f"endpoint {number} {address} {shlex.join(row['flags'])}"))
    for row, command in zip(of_kind(host, "route"), of_routes(host), strict=True):
        own.append((row["device"], shlex.join(command.start)))
    if not everywhere and not own:
        return []
    always = [_ONLY_THEN, *(_FUNCTIONS.splitlines() if own else []), *everywhere]
    content = by_device(always, own, "$DEVICE")
    return [File(SCRIPT, content, f"/etc/hotplug.d/iface/{SCRIPT}", executable=True)]


def _defaults(host: HostPlan) -> list[File]:
    words = {"multipath": "enable"} if of_kind(host, "limits") else {}
    for row in of_kind(host, "limits"):
        words["mptcp_pm_type"] = "0"  # the kernel's
        words["mptcp_subflows"] = str(row["subflows"])
        words["mptcp_add_addr_accepted"] = str(row["add_addr_accepted"])
    for name, value in sysctls(host):
        if name == _DEFAULT_CC:
            words["congestion"] = value
    modes = {row["device"]: _mode(row["flags"]) for _, row in endpoints(host) if row["device"]}
    if not words and not modes:
        return []
    lines = ["#!/bin/sh", HEADER, "# At the next boot; or at once: sh, and then /etc/init.d/network reload."]
    lines += ["[ -x /sbin/uci ] || exit 0", "uci set network.globals=globals"]
    lines += [f"uci set {shlex.quote(f'network.globals.{name}={value}')}" for name, value in words.items()]
    lines += _INTERFACES.splitlines() if modes else []
    lines += [shlex.join(("multipath", device, mode)) for device, mode in modes.items()]
    content = ("\n".join([*lines, "uci commit network", "exit 0"]) + "\n").encode()
    return [File(DEFAULTS, content, f"/etc/uci-defaults/{DEFAULTS}", executable=True)]


def _mode(flags: list[str]) -> str:
    """The word of UCI that comes nearest to an endpoint's flags."""
    return next((word for word in ("signal", "backup") if word in flags), "on")
