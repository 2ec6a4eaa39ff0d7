"""A TuneD profile: sysctls, and a script for endpoints, limits, routes and BPF programs."""

import shlex

from mptune.apply.files._base import (
    HEADER,
    File,
    of_mptcp,
    of_programs,
    of_routes,
    programs,
    sysctls,
)
from mptune.apply.plan import HostPlan

_PLACE = "/etc/tuned/mptune"


def files(host: HostPlan) -> list[File]:
    """The profile, its script, and BPF programs."""
    commands = [*of_programs(host), *of_mptcp(host), *of_routes(host)]
    profile = [HEADER, "[main]", "summary=Multipath TCP as mptune found it", "", "[sysctl]"]
    profile += [f"{sysctl.name}={sysctl.value}" for sysctl in sysctls(host)]
    if commands:
        profile += ["", "[script]", "script=${i:PROFILE_DIR}/script.sh"]
    written = [File("mptune/tuned.conf", ("\n".join(profile) + "\n").encode(), f"{_PLACE}/tuned.conf")]
    if commands:
        starts = [shlex.join(command.start) for command in commands]
        stops = [shlex.join(command.stop) for command in reversed(commands) if command.stop is not None]
        written.append(
            File("mptune/script.sh", _script(starts, stops), f"{_PLACE}/script.sh", executable=True)
        )
    return [*written, *programs(host)]


def _script(starts: list[str], stops: list[str]) -> bytes:
    """The script that TuneD calls with start, stop, or verify."""
    lines = [
        "#!/bin/sh",
        HEADER,
        "start() {",
        *(f"    {start} || return 1" for start in starts),
        "}",
        "stop() {",
        *(f"    {stop}" for stop in stops),
        "    return 0",
        "}",
        'case "$1" in',
        "start) start ;;",
        "stop) stop ;;",
        "esac",
    ]
    return ("\n".join(lines) + "\n").encode()
