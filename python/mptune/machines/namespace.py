"""A network namespace of this machine as a machine: for trying out what otherwise runs between hosts.

Its settings are those of the namespaces of trials; nobody changes them through it. Facts come from ip(8).
"""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mptune.errors import TrialError
from mptune.linux.addresses import Side
from mptune.linux.sandbox import sysctls
from mptune.linux.sandbox.namespaces import Sites
from mptune.linux.sandbox.netlink import inside
from mptune.linux.sandbox.processes import Child

#: Real-time priority of what it starts, the lowest possible, as in trials.
_PRIORITY = 1


class NamespaceMachine:
    """One of two sites; whoever opened them closes them."""

    def __init__(self, sites: Sites, side: Side, name: str | None = None) -> None:
        self.name = name or side
        self._sites, self._side = sites, side

    def start(self, role: str, name: str | None = None) -> Child:
        """Start the agent in a role."""
        child = self._sites.start_agent(role, self._side, f"{name or role} on {self.name}")
        with suppress(PermissionError):  # without root it has normal priority
            os.sched_setscheduler(child.pid, os.SCHED_RR, os.sched_param(_PRIORITY))
        return child

    def set(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Nothing: the namespaces begin with the settings of a trial, which are the ones ever asked for."""
        return dict(settings)

    def restore(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Nothing was changed."""
        return {}

    def look(self, names: Sequence[str] = (), pairs: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Facts, in the form of the agent's role `host`."""
        return inside(self._sites.of(self._side), lambda: _look(names, pairs))


def _look(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    routes = [one for family in ("-4", "-6") for one in _ip(family, "route", "show", "table", "all")]
    default = [one for one in routes if one["dst"] == "default" and "dev" in one]
    return {
        "event": "looked",
        "interfaces": [_interface(link, default) for link in _ip("address")],
        "rp_filter_all": int(sysctls.read("net.ipv4.conf.all.rp_filter") or 0),
        "rules": [_rule(rule) for family in ("-4", "-6") for rule in _ip(family, "rule")],
        "kernel": platform.release(),
        "machine": platform.machine(),
        "mptcp": None if sysctls.read("net.mptcp.enabled") == "1" else "net.mptcp.enabled is not 1",
        "path_manager": None,
        "net_admin": True,
        "sudo": False,
        "sysctls": {name: sysctls.read(name) for name in names},
        "leaves": [_leaves(*pair) for pair in pairs],
    }


def _interface(link: dict[str, Any], default: list[dict[str, Any]]) -> dict[str, Any]:
    device = link["ifname"]
    return {
        "device": device,
        "up": "UP" in link["flags"],
        "mtu": link["mtu"],
        "addresses": [
            {"ip": one["local"], "prefix": one["prefixlen"]}
            for one in link["addr_info"]
            if one["scope"] == "global"
        ],
        "default_routes": [
            {
                "table": str(one.get("table", "main")),
                "via": one.get("gateway"),
                "metric": one.get("metric", 0),
            }
            for one in default
            if one["dev"] == device
        ],
        "rp_filter": int(sysctls.read(f"net.ipv4.conf.{device}.rp_filter") or 0),
    }


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    source = rule["src"] if rule["src"] == "all" else f"{rule['src']}/{rule.get('srclen', '')}".rstrip("/")
    return {"priority": rule["priority"], "from": source, "table": str(rule.get("table"))}


def _leaves(source: str, destination: str) -> str | None:
    try:
        found = _ip("route", "get", destination, "from", source)
    except TrialError:
        return None
    return str(found[0]["dev"]) if found else None


def _ip(*arguments: str) -> list[dict[str, Any]]:
    try:
        done = subprocess.run(
            ["ip", "-j", *arguments], capture_output=True, text=True, check=True, timeout=10
        )
    except FileNotFoundError:
        raise TrialError("needs ip(8), of the package iproute2") from None
    except subprocess.CalledProcessError as error:
        raise TrialError(f"ip {' '.join(arguments)}: {error.stderr.strip()}", "refused") from None
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return found
