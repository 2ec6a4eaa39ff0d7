"""The policy file as far as Python needs it: the socket, the runs, and when measurements may be repeated.

The agent reads and checks it (crates/mptune-agent/src/daemon/policy.rs); this asks it first, so that there is
one who knows the file.
"""

import os
import tomllib
from datetime import datetime, timedelta
from datetime import time as Time
from pathlib import Path
from typing import Any

import msgspec

from mptune import files, units
from mptune.daemon import client, program
from mptune.errors import InputError

#: Environment variable with another path of the file.
VARIABLE = "MPTUNE_POLICY"
#: Where it is usually.
USUAL = Path("/etc/mptune/policy.toml")

#: Time on the testbed unless the file sets it.
_BUDGET_NS = 600_000_000_000


class Remeasure(msgspec.Struct, frozen=True, kw_only=True):
    """When and how measurements may be repeated.

    Attributes
    ----------
    begin, end : of the day, by the machine's clock; the end may be on the next day.
    max_data_bytes : most data in one night; None is no limit.
    budget_ns : most time on the testbed for one policy.
    """

    begin: Time
    end: Time
    max_data_bytes: int | None
    budget_ns: int

    def left(self, now: datetime) -> timedelta:
        """Time until the hours end; zero outside them."""
        for day in (-1, 0):
            begin = datetime.combine(now.date() + timedelta(days=day), self.begin, now.tzinfo)
            end = datetime.combine(begin.date(), self.end, now.tzinfo)
            end += timedelta(days=1) if self.end <= self.begin else timedelta()
            if begin <= now < end:
                return end - now
        return timedelta()


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """A policy file.

    Attributes
    ----------
    runs : directories with answers, by the name of their policy.
    """

    file: Path
    socket: Path
    runs: dict[str, Path]
    remeasure: Remeasure | None


def place(named: Path | None) -> Path:
    """The policy file that is meant."""
    return named if named is not None else Path(os.environ.get(VARIABLE) or USUAL)


def socket_of(named: Path | None) -> Path:
    """Socket of a policy file's daemon; also where that file is missing or wrong."""
    if not os.environ.get(client.VARIABLE):
        try:
            daemon = tomllib.loads(files.read_text(place(named))).get("daemon", {})
            return Path(daemon["socket"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
    return client.usual_socket()


def read(named: Path | None) -> Policies:
    """A policy file.

    Raises
    ------
    InputError : the agent refuses it, or an amount in it is none.
    """
    file = place(named)
    checked = program.check(file)
    content = tomllib.loads(files.read_text(file))
    rows = checked["policies"]
    return Policies(
        file=file,
        socket=Path(checked["socket"]),
        runs={row["name"]: Path(row["run"]) for row in rows if row["run"] is not None},
        remeasure=_remeasure(file, content.get("remeasure")),
    )


def _remeasure(file: Path, found: dict[str, Any] | None) -> Remeasure | None:
    if found is None:
        return None
    begin, _, end = found["hours"].partition("-")
    key = ""
    try:
        key = "max_data"
        max_data = units.parse_size(found[key]) if key in found else None
        key = "budget"
        budget = units.parse_time(found[key]) if key in found else _BUDGET_NS
    except ValueError as error:
        raise InputError(str(file), f"remeasure.{key}", str(error)) from None
    begin_at, end_at = (Time.fromisoformat(entry.strip()) for entry in (begin, end))
    return Remeasure(begin=begin_at, end=end_at, max_data_bytes=max_data, budget_ns=budget)
