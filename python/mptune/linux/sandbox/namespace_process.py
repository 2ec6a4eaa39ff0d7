"""`python -m mptune.linux.sandbox.namespace_process`: two network namespaces, held open and configured.

Unnamed namespaces exist as long as a process, a socket or an open file uses them. This process opens both and
does nothing else. When it ends, because its input ends or because the program that started it dies, they
are gone, and nothing has to be removed. It uses JSON lines; `settings` first are sysctls instead of the usual
ones (`sysctls`), then those in effect:

    in   {"action": "hold", "settings": {...}}
    out  {"event": "held", "local": <path>, "remote": <path>, "user": <path> or null, "settings": {...}}
    in   {"action": "configure", "side": "local", "interfaces": [{"device", "ipv4", "ipv6", "table"}, ...]}
    out  {"event": "configured", "offloads": {"if0": "tso gso gro", ...}}
    out  {"event": "error", "reason": "..."} instead of any of them

Without the privilege to create network namespaces, it first enters a user namespace in which it has it.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from mptune.errors import TrialError
from mptune.linux.sandbox import syscalls, sysctls

_MTU = 1500
#: Packets a device can queue for the emulator. A whole window may leave at once, and packets that do not fit
#: are lost outside the network model: 49 MB is more than any window in use. Some kernels (6.12.117 and 7.3.4,
#: not 6.18.44) refuse a longer queue: "integer out of range".
_QUEUE_PACKETS = 32767

_SIDES = ("local", "remote")
_SIOCETHTOOL = 0x8946  # include/uapi/linux/sockios.h
#: ETHTOOL_GTSO and its kin, include/uapi/linux/ethtool.h.
_OFFLOADS = {"tso": 0x1E, "gso": 0x23, "gro": 0x2B}


def main() -> int:
    """Hold the namespaces until the input ends."""
    syscalls.die_with_parent()
    first = sys.stdin.readline()
    if not first:
        return 0
    try:
        held = _hold(json.loads(first)["settings"])
    except OSError as error:
        _tell({"event": "error", "reason": _reason(error)})
        return 1
    _tell({"event": "held", **held})
    for line in sys.stdin:
        try:
            _tell(_answer(json.loads(line), held))
        except (OSError, TrialError) as error:
            _tell({"event": "error", "reason": _reason(error)})
    return 0


def _answer(command: dict[str, Any], held: dict[str, Any]) -> dict[str, Any]:
    """Give the devices of a site their addresses and routes."""
    # Imported only now: loading it takes longer than everything before, and the emulator starts meanwhile.
    from mptune.linux.sandbox import rtnetlink

    _enter(held[command["side"]])
    offloads = {}
    for interface in command["interfaces"]:
        rtnetlink.configure(mtu=_MTU, queue_packets=_QUEUE_PACKETS, **interface)
        offloads[interface["device"]] = " ".join(_offloads(interface["device"]))
    return {"event": "configured", "offloads": offloads}


def _hold(settings: dict[str, str]) -> dict[str, Any]:
    """Create both namespaces with these settings and return their paths."""
    own = f"/proc/{os.getpid()}"
    user = _enter_user_namespace()
    held: dict[str, Any] = {"user": f"{own}/ns/user" if user else None}
    for side in _SIDES:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        sysctls.apply(settings)
        held[side] = f"{own}/fd/{os.open('/proc/self/ns/net', os.O_RDONLY | os.O_CLOEXEC)}"
    return {**held, "settings": sysctls.telling()}


def _enter_user_namespace() -> bool:
    """Become root of a user namespace if that is needed to create network namespaces; return whether."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWNET)
    except PermissionError:
        pass
    else:
        return False
    identity = {"uid_map": os.geteuid(), "gid_map": os.getegid()}
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    sysctls.write(Path("/proc/self/setgroups"), "deny")  # user_namespaces(7): before gid_map
    for name, number in identity.items():
        sysctls.write(Path("/proc/self", name), f"0 {number} 1")
    syscalls.die_with_parent()  # the change of user revoked it
    syscalls.stay_readable()
    return True


def _enter(namespace: str) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.setns(descriptor, syscalls.CLONE_NEWNET)
    finally:
        os.close(descriptor)


def _offloads(device: str) -> list[str]:
    """Segmentation and aggregation by a device, which change the packets on the wire (ethtool(8))."""
    offloads = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for name, command in _OFFLOADS.items():
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP8x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
            if struct.unpack_from("=II", value)[1]:
                offloads.append(name)
    return offloads


def _reason(error: OSError | TrialError) -> str:
    """The message without the number, after the name of the file or device."""
    if isinstance(error, TrialError) or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
