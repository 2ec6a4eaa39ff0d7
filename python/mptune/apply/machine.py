"""Present settings of a machine: this one, or one that ssh reaches. Nothing is changed.

Everything that is asked of a machine is asked here. What cannot be read is left out, with the reason.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from mptune.apply._settings import Present, Setting
from mptune.errors import MptuneError
from mptune.linux import agent, path_manager
from mptune.linux.sandbox import leftovers, sysctls
from mptune.linux.sandbox.processes import Child
from mptune.linux.talker import Talker
from mptune.machines.ssh import SshMachine, connect
from mptune.topology import Site

#: Seconds for an answer.
_ANSWER_S = 10.0

#: Reads the limits of a machine, whatever they are.
LIMITS: Setting = {"kind": "limits", "subflows": 0, "add_addr_accepted": 0}

#: Values that settings are made from.
NAMES = (
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_moderate_rcvbuf",
    *path_manager.NAMES,
)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a machine.

    Attributes
    ----------
    present : those that could be read, with their present values.
    foreign : programs there that manage the same.
    """

    present: tuple[Setting, ...] = ()
    foreign: tuple[str, ...] = ()


#: Reads some settings.
Read = Callable[[Sequence[Setting]], Reading]


def limits_in(present: Sequence[Setting]) -> tuple[int, int] | None:
    """The limits among settings that were read; None if they are not."""
    return next(
        ((row["subflows"], row["add_addr_accepted"]) for row in present if row["kind"] == "limits"), None
    )


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A machine as it was found.

    Attributes
    ----------
    how : "this machine" or "ssh alice"; empty if it was not read.
    reason : why not.
    present : None if it was not read.
    strict : devices whose reverse path filter is strict, which breaks joins.
    read : reads settings while the machine is open.
    """

    how: str = ""
    reason: str = ""
    present: Present | None = None
    strict: tuple[str, ...] = ()
    read: Read | None = None


def unlooked(site: Site, file: str, use: Callable[[Seen], Any]) -> Any:
    """As `look`, without asking the machine."""
    return use(Seen(reason="not asked for"))


def look(site: Site, file: str, use: Callable[[Seen], Any]) -> Any:
    """Look at the machine of a site, and use what was seen while the machine is open.

    Parameters
    ----------
    file : name of the topology file, for reasons.
    """
    if is_here(site):
        return _here(use)
    if site.ssh is None:
        key = f"sites.{site.abbr}.ssh"
        return use(Seen(reason=f"not this machine, and {file} lacks the SSH name to reach it ({key})"))
    try:
        machine = connect(site.ssh, site.name)
    except MptuneError as error:
        return use(Seen(reason=str(error)))
    try:
        return use(_seen(machine, f"ssh {site.ssh}"))
    finally:
        machine.close()


def _seen(machine: SshMachine, how: str) -> Seen:
    def read(settings: Sequence[Setting]) -> Reading:
        return _read_by(lambda: machine.start("settings"), settings) or Reading()

    try:
        looked = machine.look(NAMES)
    except MptuneError as error:
        return Seen(reason=str(error))
    return Seen(how=how, present=_present(looked), strict=_strict(looked), read=read)


def is_here(site: Site) -> bool:
    """True if this machine has one of the site's addresses."""
    given = {
        str(ip_address(text))
        for interface in site.interfaces
        for text in (interface.ipv4, interface.ipv6)
        if text
    }
    if not given:
        return False
    here = {address["ip"] for device in _own_interfaces() for address in device["addresses"]}
    return bool(given & here)


def _here(use: Callable[[Seen], Any]) -> Any:
    try:
        with _child("host") as host:
            host.tell({"action": "look", "id": 1, "names": list(NAMES), "pairs": []})
            looked = host.expect("looked", _ANSWER_S)
    except (MptuneError, OSError) as error:
        # Not half of it: only the agent reports routes and rules.
        return use(Seen(reason=str(error)))
    present = msgspec.structs.replace(_present(looked), memory_bytes=_memory())
    if present.endpoints is None:  # the agent has not the privilege that it takes
        present = msgspec.structs.replace(present, endpoints=_own_endpoints())
    return use(Seen(how="this machine", present=present, strict=_strict(looked), read=_read_here))


def _present(looked: Mapping[str, Any]) -> Present:
    sysctls: Mapping[str, str | None] = looked["sysctls"]
    own = [address["ip"] for device in looked["interfaces"] for address in device["addresses"]]
    end = path_manager.end_of(looked, tuple(own))
    return Present(
        sysctls={name: " ".join(value.split()) for name, value in sysctls.items() if value is not None},
        interfaces=tuple(looked["interfaces"]),
        rules=tuple(looked["rules"]),
        congestion_controls=tuple(looked["congestion_controls"]["available"]),
        endpoints=None if end is None else {endpoint.address: endpoint.flags for endpoint in end.endpoints},
        end=end,
        memory_bytes=looked.get("memory_available"),
    )


def _strict(looked: Mapping[str, Any]) -> tuple[str, ...]:
    """The larger of the two values counts (ip-sysctl.rst)."""
    whole = looked.get("rp_filter_all") or 0
    interfaces = looked["interfaces"]
    return tuple(entry["device"] for entry in interfaces if max(whole, entry.get("rp_filter") or 0) == 1)


# The agent's role `settings`, or what stands in for it.


def _child(role: str) -> Child:
    return Child(f"{role} on this machine", agent.command(role), leftovers.new_run())


def _read_here(settings: Sequence[Setting]) -> Reading:
    reading = _read_by(lambda: _child("settings"), settings)
    if reading is None:
        read = map(_read_directly, settings)
        reading = Reading(present=tuple(row for row in read if row is not None))
    return reading


def _read_by(start: Callable[[], Talker], settings: Sequence[Setting]) -> Reading | None:
    """Ask an agent; None if it has no such role, or refuses."""
    with suppress(MptuneError, OSError), start() as talker:
        talker.tell({"action": "read", "settings": list(settings)})
        answer = talker.expect("read", _ANSWER_S)
        return Reading(present=tuple(answer["present"]), foreign=tuple(answer.get("foreign", ())))
    return None


def _read_directly(setting: Setting) -> Setting | None:
    """The present value of a setting of this machine; None if it is unknown."""
    if setting["kind"] == "sysctl":
        value = sysctls.read(setting["name"])
        return None if value is None else {**setting, "value": value}
    if setting["kind"] == "limits":
        return _own_limits()
    if setting["kind"] == "endpoint":
        endpoints = _own_endpoints()
        if endpoints is None:
            return None
        has = endpoints.get(setting["address"])
        row = {"kind": "endpoint", "address": setting["address"]}
        return {**row, "absent": True} if has is None else {**row, "flags": list(has)}
    if setting["kind"] == "congestion":
        known = (sysctls.read("net.ipv4.tcp_available_congestion_control") or "").split()
        row = {"kind": "congestion", "name": setting["name"]}
        return row if setting["name"] in known else {**row, "absent": True}
    return _own_route(setting)


def _ip(*words: str) -> str | None:
    """Output of iproute2; None if there is none, or it fails."""
    program = shutil.which("ip") or "/usr/sbin/ip"
    try:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, check=True, timeout=_ANSWER_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _json(text: str | None) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = json.loads(text) if text else []
    except ValueError:
        return []
    return rows


def _own_interfaces() -> list[dict[str, Any]]:
    return [
        {
            "device": row.get("ifname", ""),
            "addresses": [
                {"ip": each["local"], "prefix": each["prefixlen"]}
                for each in row.get("addr_info", ())
                if "local" in each
            ],
            "default_routes": [],
        }
        for row in _json(_ip("-j", "address", "show"))
    ]


def _own_endpoints() -> dict[str, tuple[str, ...]] | None:
    text = _ip("-j", "mptcp", "endpoint", "show")
    if text is None:
        return None
    known = ("signal", "subflow", "backup", "fullmesh", "implicit", "laminar")
    return {row["address"]: tuple(flag for flag in known if row.get(flag)) for row in _json(text)}


def _own_limits() -> Setting | None:
    words = (_ip("mptcp", "limits", "show") or "").split()
    values = dict(zip(words[::2], words[1::2], strict=False))
    if not {"subflows", "add_addr_accepted"} <= set(values):
        return None
    numbers = {name: int(values[name]) for name in ("subflows", "add_addr_accepted")}
    return {"kind": "limits", **numbers}


def _own_route(setting: Setting) -> Setting | None:
    family = "-6" if ":" in setting["to"] else "-4"
    place = ("table", str(setting["table"]), "exact", setting["to"], "dev", setting["device"])
    text = _ip(family, "-j", "-d", "route", "show", *place)
    if text is None:
        return None
    routes = _json(text)
    row = {name: value for name, value in setting.items() if name != "congctl"}
    if not routes:
        return {**row, "absent": True}
    metrics = routes[0].get("metrics") or [{}]
    return {**row, "congctl": next((each["congestion"] for each in metrics if "congestion" in each), None)}


def _memory() -> int | None:
    """MemAvailable of this machine, bytes."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None
