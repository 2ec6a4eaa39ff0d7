"""NetworkManager (1.40 or newer): the MPTCP flags of devices, as defaults of all their connections.

It makes the endpoints itself then, as long as a device is up. Limits and congestion control are not its own:
its dispatcher (NetworkManager-dispatcher(8)) has a script that makes them whenever a device comes up or gets
another lease, with which a route loses what was set on it.
"""

import shlex

from mptune._text import file_name
from mptune.apply.files._base import HEADER, File, by_device, of_kind, of_limits, of_routes
from mptune.apply.plan import HostPlan

NAME = "90-mptune.conf"
#: The script of the dispatcher, and the actions with which it is called when a device has (new) routes.
SCRIPT = "90-mptune"
_ACTIONS = "up|dhcp4-change|dhcp6-change"

#: NMMptcpFlags: enabled, and also for devices that have no default route.
_ON = 0x2 | 0x8
_FLAGS = {"signal": 0x10, "subflow": 0x20, "backup": 0x40, "fullmesh": 0x80}


def files(host: HostPlan) -> list[File]:
    """Flags by device, if there are endpoints whose device is known, and the script, if it has work."""
    return [*_flags(host), *_script(host)]


def _script(host: HostPlan) -> list[File]:
    """Called with a device and what happened to it."""
    limits = [shlex.join(command.start) for command in of_limits(host)]
    routes = [
        (row["device"], shlex.join(command.start))
        for row, command in zip(of_kind(host, "route"), of_routes(host), strict=True)
    ]
    if not limits and not routes:
        return []
    content = by_device([f'case "$2" in {_ACTIONS}) ;; *) exit 0 ;; esac', *limits], routes, "$1")
    return [File(SCRIPT, content, f"/etc/NetworkManager/dispatcher.d/{SCRIPT}", executable=True)]


def _flags(host: HostPlan) -> list[File]:
    lines = [HEADER]
    for number, row in enumerate(of_kind(host, "endpoint"), 1):
        if row.get("absent") or not row["device"]:
            continue
        if "laminar" in row["flags"]:
            lines += [
                "",
                f"# The endpoint laminar of {row['device']} is none of these flags: see systemd's unit.",
            ]
            continue
        value = _ON | sum(_FLAGS[flag] for flag in row["flags"])
        device = row["device"]
        lines += [
            "",
            f"# For one connection alone: nmcli connection modify NAME connection.mptcp-flags {value:#x}",
            # Brackets would end the name of a section; what else is in it means nothing.
            f"[connection-mptune-{number}-{file_name(device, 'device')}]",
            f"match-device=interface-name:={_escaped(device)}",
            f"connection.mptcp-flags={value:#x}",
        ]
    if len(lines) == 1:
        return []
    return [File(NAME, ("\n".join(lines) + "\n").encode(), f"/etc/NetworkManager/conf.d/{NAME}")]


def _escaped(device: str) -> str:
    """A device in a list of NetworkManager.conf(5), where commas and semicolons separate."""
    return "".join(f"\\{letter}" if letter in ",;\\" else letter for letter in device)
