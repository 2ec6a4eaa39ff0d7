"""Parts that all formats share: files, and settings as command lines of iproute2 and bpftool."""

import base64
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mptune._text import quoted
from mptune.apply.plan import HostPlan
from mptune.errors import InputError

Setting = dict[str, Any]

#: First line of every file.
HEADER = "# Written by mptune advise."

#: Directory of BPF programs on the machine.
PROGRAMS = "/usr/local/lib/mptune"

#: First number of an endpoint: the kernel and NetworkManager count from 1.
_FIRST_ID = 101


class File(NamedTuple):
    """A file, its path in the folder of its format, and its place on the machine."""

    path: str
    content: bytes
    place: str
    executable: bool = False


class Value(NamedTuple):
    """A sysctl."""

    name: str
    value: str


class Command(NamedTuple):
    """A command line that makes a setting, and the one that takes it back (None if nothing does)."""

    start: tuple[str, ...]
    stop: tuple[str, ...] | None


def of_kind(host: HostPlan, kind: str) -> list[Setting]:
    """The settings of a kind."""
    return [setting for setting in host.settings if setting["kind"] == kind]


def _programs(host: HostPlan) -> list[Setting]:
    """BPF programs; their names are those of files.

    Raises
    ------
    InputError : one is not.
    """
    controls = of_kind(host, "congestion")
    for row in controls:
        if not re.fullmatch(r"[A-Za-z0-9_]+", row["name"]):
            expected = "expected letters, digits and _ only"
            raise InputError("congestion control", "", f"{expected}, found {quoted(row['name'])}")
    return controls


def sysctls(host: HostPlan) -> list[Value]:
    """Sysctls with their values.

    Raises
    ------
    InputError : a value that a machine reported is none.
    """
    values = [Value(row["name"], str(row["value"])) for row in of_kind(host, "sysctl")]
    for name, value in values:
        # TuneD has functions in values, "${f:exec:...}"; no sysctl that is set here needs such letters.
        if not re.fullmatch(r"[\w.-]+", name) or not re.fullmatch(r"[\w .:/+-]*", value):
            raise InputError(f"sysctl {name}", "", f"expected numbers and names, found {quoted(value)}")
    return values


def endpoints(host: HostPlan) -> Iterator[tuple[int, Setting]]:
    """Endpoints that are to be there, each with its number."""
    present = [entry for entry in of_kind(host, "endpoint") if not entry.get("absent")]
    yield from enumerate(present, _FIRST_ID)


def of_mptcp(host: HostPlan) -> Iterator[Command]:
    """Limits and endpoints."""
    yield from of_limits(host)
    yield from (command for _, command in of_endpoints(host))


def of_limits(host: HostPlan) -> Iterator[Command]:
    """Limits of subflows and of addresses."""
    for row in of_kind(host, "limits"):
        numbers = ("subflows", str(row["subflows"]), "add_addr_accepted", str(row["add_addr_accepted"]))
        # What a kernel begins with (net/mptcp/pm.c: two further subflows, no address).
        before = ("subflows", "2", "add_addr_accepted", "0")
        yield Command(("ip", "mptcp", "limits", "set", *numbers), ("ip", "mptcp", "limits", "set", *before))


def of_endpoints(host: HostPlan) -> Iterator[tuple[str, Command]]:
    """Endpoints, each behind its device ("" if that is not known)."""
    for number, row in endpoints(host):
        device = ("dev", row["device"]) if row["device"] else ()
        yield (
            row["device"] or "",
            Command(
                ("ip", "mptcp", "endpoint", "add", row["address"], *device, "id", str(number), *row["flags"]),
                ("ip", "mptcp", "endpoint", "delete", "id", str(number)),
            ),
        )


def of_routes(host: HostPlan) -> Iterator[Command]:
    """Congestion control of routes that exist: each is made again as it is, with one more attribute."""
    for row in of_kind(host, "route"):
        family = "-6" if ":" in row["to"] else "-4"
        place = shlex.join(["table", str(row["table"])])
        device = shlex.join(["dev", row["device"]])
        listed = f"ip {family} route show {place} exact {shlex.quote(row['to'])} {device}"
        plain = "head -n 1 | sed -e 's/ congctl [^ ]*//' -e 's/ linkdown//' -e 's/ dead//'"
        selected = f'route="$({listed} | {plain})" && [ -n "$route" ]'
        change = f"{selected} && ip {family} route change $route {device} {place}"
        cc = shlex.quote(row["congctl"])
        yield Command(("sh", "-c", f"{change} congctl {cc}"), ("sh", "-c", change))


def by_device(always: Iterable[str], of_devices: Iterable[tuple[str, str]], variable: str) -> bytes:
    """A shell's script for what calls it with a device: nothing that fails keeps the rest from being made.

    Parameters
    ----------
    always : lines for every call.
    of_devices : devices, and a line for each; one may have several.
    variable : that has the device.
    """
    own: dict[str, list[str]] = {}
    for device, line in of_devices:
        own.setdefault(device, []).append(line)
    cases = [
        entry
        for device, lines in own.items()
        for entry in (f"{shlex.quote(device)})", *(f"    {line}" for line in lines), "    ;;")
    ]
    choice = [f'case "{variable}" in', *cases, "esac"] if cases else []
    return ("\n".join(["#!/bin/sh", HEADER, *always, *choice, "exit 0"]) + "\n").encode()


def of_programs(host: HostPlan) -> Iterator[Command]:
    """BPF programs: registered without a link, they stay until they are unregistered."""
    for program in _programs(host):
        name = program["name"]
        yield Command(
            ("bpftool", "struct_ops", "register", f"{PROGRAMS}/{name}.bpf.o"),
            ("bpftool", "struct_ops", "unregister", "name", name),
        )


def programs(host: HostPlan) -> list[File]:
    """The objects of BPF programs."""
    return [
        File(
            f"{program['name']}.bpf.o",
            base64.b64decode(program["object"]),
            f"{PROGRAMS}/{program['name']}.bpf.o",
        )
        for program in _programs(host)
    ]
