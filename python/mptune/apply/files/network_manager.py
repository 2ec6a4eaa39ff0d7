"""NetworkManager (1.40 or newer): the MPTCP flags of devices, as defaults of all their connections.

It makes the endpoints itself then, as long as a device is up. Limits and congestion control are not its own.
"""

from mptune._text import file_name
from mptune.apply.files._base import HEADER, File, of_kind
from mptune.apply.plan import HostPlan

NAME = "90-mptune.conf"

#: NMMptcpFlags: enabled, and also for devices that have no default route.
_ON = 0x2 | 0x8
_FLAGS = {"signal": 0x10, "subflow": 0x20, "backup": 0x40, "fullmesh": 0x80}


def files(host: HostPlan) -> list[File]:
    """One file; none without endpoints whose device is known."""
    lines = [HEADER]
    for number, row in enumerate(of_kind(host, "endpoint"), 1):
        if row.get("absent") or not row["device"]:
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
