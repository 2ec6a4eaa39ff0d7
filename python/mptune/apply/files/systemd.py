"""systemd units: endpoints, limits and routes when the network is up, and BPF programs before that.

The route's part makes a route again as it is, with a congestion control; what makes routes anew later (a
DHCP client) makes them without it.
"""

import re
from collections.abc import Iterable

from mptune.apply.files._base import (
    HEADER,
    Command,
    File,
    of_mptcp,
    of_programs,
    of_routes,
    programs,
)
from mptune.apply.plan import HostPlan

PATHS = "mptune-paths.service"
CONGESTION = "mptune-congestion.service"
_PLACE = "/etc/systemd/system"


def files(host: HostPlan) -> list[File]:
    """One or two units and the BPF programs; nothing if sysctls are all."""
    congestion, paths = list(of_programs(host)), [*of_mptcp(host), *of_routes(host)]
    units = []
    if congestion:
        head = [
            "Description=Congestion controls of mptune as BPF programs",
            f"Before={PATHS}",
        ]
        units.append(_unit(CONGESTION, head, congestion))
        units += programs(host)
    if paths:
        head = [
            "Description=MPTCP endpoints and congestion control of routes, as mptune found them",
            "Wants=network-online.target",
            "After=network-online.target",
            *([f"Requires={CONGESTION}", f"After={CONGESTION}"] if congestion else []),
        ]
        units.append(_unit(PATHS, head, paths))
    return units


def units(host: HostPlan) -> list[str]:
    """Names of the units that `files` makes."""
    return [file.path for file in files(host) if file.path.endswith(".service")]


def _unit(name: str, head: Iterable[str], commands: Iterable[Command]) -> File:
    made = list(commands)
    # What is left of an earlier start is removed; it is no error if there is nothing.
    ahead = [
        command.stop
        for command in made
        if command.stop is not None and command.start[:3] == ("ip", "mptcp", "endpoint")
    ]
    lines = [
        HEADER,
        "[Unit]",
        *head,
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        *(f"ExecStartPre=-{_line(words)}" for words in ahead),
        *(f"ExecStart={_line(command.start)}" for command in made),
        *(f"ExecStop=-{_line(command.stop)}" for command in reversed(made) if command.stop is not None),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return File(name, "\n".join(lines).encode(), f"{_PLACE}/{name}")


def _line(words: Iterable[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """A word of a command line as systemd.service(5) reads it."""
    text = text.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
