"""The policy file as far as Python needs it: the socket, the runs, and when measurements may be repeated.

The agent reads and checks it (crates/mptune-agent/src/daemon/policy.rs); this asks for its content.
"""

import os
import tomllib
from datetime import datetime, timedelta
from datetime import time as Time
from pathlib import Path

import msgspec

from mptune import files
from mptune.daemon import client
from mptune.linux import daemon

#: Environment variable with another path of the file.
VARIABLE = "MPTUNE_POLICY"


class Remeasure(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of repeated measurements.

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
    metrics : address and port of the metrics over HTTP; None if there are none.
    runs : directories with answers, by the name of their policy.
    """

    file: Path
    socket: Path
    metrics: str | None
    runs: dict[str, Path]
    remeasure: Remeasure | None


def place(named: Path | None) -> Path:
    """The policy file that is meant."""
    return named if named is not None else Path(os.environ.get(VARIABLE) or daemon.FILE)


def socket_of(named: Path | None) -> Path:
    """Socket of a policy file's daemon; also where that file is missing or wrong."""
    if not os.environ.get(client.VARIABLE):
        try:
            return Path(tomllib.loads(files.read_text(place(named)))["daemon"]["socket"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
    return client.usual_socket()


def read(named: Path | None) -> Policies:
    """A policy file.

    Raises
    ------
    InputError : the agent refuses it.
    """
    file = place(named)
    checked = daemon.check(file)
    rows, hours = checked["policies"], checked["remeasure"]
    return Policies(
        file=file,
        socket=Path(checked["socket"]),
        metrics=checked["metrics"],
        runs={row["name"]: Path(row["run"]) for row in rows if row["run"] is not None},
        remeasure=None if hours is None else _remeasure(**hours),
    )


def _remeasure(begin_min: int, end_min: int, max_data_bytes: int | None, budget_ns: int) -> Remeasure:
    begin, end = (Time(*divmod(minutes, 60)) for minutes in (begin_min, end_min))
    return Remeasure(begin=begin, end=end, max_data_bytes=max_data_bytes, budget_ns=budget_ns)
