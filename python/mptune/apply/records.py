"""Messages of the agent's role `settings`, as records (crates/mptune-agent/src/settings/protocol.rs).

A setting stays the JSON object that it is: its kind, what identifies it, and a value.
"""

from typing import Any, Literal, TypeVar

import msgspec

#: {"kind": ..., what identifies it, its value}.
Setting = dict[str, Any]

_Record = TypeVar("_Record")


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was made; `changed` is false if it was so already."""

    setting: Setting
    before: Setting
    changed: bool


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A confirmation that is waited for.

    Attributes
    ----------
    left_s, within_s : seconds that are left, and that there were.
    by : what puts everything back otherwise, "process" or "systemd".
    """

    left_s: float
    within_s: int
    by: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was not put back, and why."""

    name: str
    reason: str


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with their present values, and other programs that manage them."""

    present: list[Setting]
    foreign: list[str]


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The daemon's answer to a request to reload its files; `absent` if no daemon runs."""

    state: Literal["reloaded", "absent", "refused"]
    reason: str = ""


class Applied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings were made; `dropped` are those of an earlier time that are as before again.

    `daemon` is None if it is not concerned.
    """

    run: str
    settings: list[Made]
    dropped: list[str]
    confirm: Waiting | None
    daemon: Told | None = None


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """Settings stay; `waited` is false if nobody had to confirm them."""

    waited: bool


class RolledBack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings are as before the first apply, but for `kept`."""

    restored: list[str]
    kept: list[Kept]
    daemon: Told | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One of the settings that were made.

    Attributes
    ----------
    state : "set" as wanted, as "before", "unfinished" because somebody was killed, "renewed" because the
        daemon measured it again, "changed" by somebody else, or "gone" with what it belonged to.
    """

    setting: Setting
    before: Setting
    present: Setting
    state: Literal["set", "before", "unfinished", "renewed", "changed", "gone"]


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """Everything was put back by itself, because nobody confirmed; times are seconds since 1970."""

    run: str
    at_s: int
    within_s: int
    restored: list[str]
    kept: list[Kept]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of mptune on a machine, and their present state.

    Attributes
    ----------
    state : "unfinished" if an apply was killed; "rebooted" if the machine began anew since.
    """

    state: Literal["nothing", "applied", "unfinished", "rebooted"]
    run: str | None
    applied_s: int | None
    confirm: Waiting | None
    settings: list[Standing]
    foreign: list[str]
    reverted: Reverted | None


def record(message: dict[str, Any], kind: type[_Record]) -> _Record:
    """A message as a record."""
    return msgspec.convert(message, kind)


def name(setting: Setting) -> str:
    """Identifier of a setting, for tables."""
    match setting["kind"]:
        case "sysctl":
            return str(setting["name"])
        case "endpoint":
            return f"endpoint {setting['address']}"
        case "route":
            via = "".join(
                f" {word} {setting[key]}"
                for key, word in (("via", "via"), ("device", "dev"))
                if setting.get(key) is not None
            )
            return f"route {setting['to']}{via}"
        case "congestion":
            return f"congestion control {setting['name']}"
        case "directory" | "file":
            return str(setting["path"])
        case other:
            return str(other)


def value(setting: Setting) -> str:
    """Its value, in a table."""
    if setting.get("absent"):
        return "none"
    match setting["kind"]:
        case "sysctl":
            return str(setting["value"])
        case "limits":
            return f"subflows {setting['subflows']}, addresses {setting['add_addr_accepted']}"
        case "endpoint":
            device = f" dev {setting['device']}" if setting.get("device") else ""
            return " ".join(setting["flags"]) + device
        case "route":
            return setting["congctl"] or "the default"
        case "file" if "bytes" in setting:
            return f"{setting['bytes']} bytes, mode {setting['mode']}"
        case _:
            return "there"
